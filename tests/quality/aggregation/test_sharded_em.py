"""Dawid–Skene over shards: the whole table's result, on any number of threads and from any iteration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import (
    CrowdLabels,
    LocalEngine,
    cut_labels,
    dawid_skene,
    hierarchical_dawid_skene,
    majority_vote,
    one_coin_dawid_skene,
)
from quality.aggregation.em import EMFit
from quality.aggregation.hierarchical_em import hierarchical_result
from quality.aggregation.sharded_em import (
    class_sums,
    dawid_skene_by_shards,
    hierarchical_by_shards,
    majority_of_shard,
    one_coin_by_shards,
    posterior_of_shard,
)
from quality.labels import LabelShard
from quality.parallel import chunk_starts
from tests.quality.labels.strategies import crowds
from tests.quality.labels.test_shards import CUTS, crowd_of, cut_at

QUICK = settings(max_examples=30, deadline=None, derandomize=True)


@pytest.mark.parametrize("use_gold", [False, True])
@pytest.mark.parametrize(
    ("by_shards", "whole"),
    [
        (dawid_skene_by_shards, dawid_skene),
        (one_coin_by_shards, one_coin_dawid_skene),
        (hierarchical_by_shards, hierarchical_dawid_skene),
    ],
)
def test_em_has_the_whole_tables_bytes_where_its_chunks_are_the_shards(
    by_shards, whole, use_gold: bool, rng: np.random.Generator
) -> None:
    """140,000 labels: four chunks, cut as `dawid_skene` cuts them."""
    labels = crowd_of(rng, n_tasks=28_000, n_workers=100)
    gold = np.where(np.arange(labels.n_tasks) % 9, -1, rng.integers(3, size=labels.n_tasks))
    cuts = chunk_starts(labels.task_start, 4 * labels.n_workers * 9)
    assert len(cuts) == 5
    engine = LocalEngine(cut_labels(labels, cuts, gold=gold), threads=2)
    fit = by_shards(engine, max_iter=9, use_gold=use_gold)
    expected = whole(labels, max_iter=9, gold=gold if use_gold else None)
    posterior = np.concatenate(engine.map(posterior_of_shard, (fit.prior, fit.table, use_gold)))
    assert (fit.n_iter, fit.log_likelihood) == (expected.n_iter, expected.log_likelihood)
    assert fit.prior.tobytes() == expected.prior.tobytes()
    assert posterior.tobytes() == expected.posterior.tobytes()


@QUICK
@given(crowds(), CUTS)
def test_em_is_the_whole_tables_up_to_rounding(labels: CrowdLabels, places: list[float]) -> None:
    """Tables of at most 36 labels, seven iterations: 1e-12 leaves room for sums in another order."""
    engine = cut_at(labels, places)
    fit = dawid_skene_by_shards(engine, max_iter=7, tol=0.0, smoothing=0.1)
    expected = dawid_skene(labels, max_iter=fit.n_iter, tol=0.0, smoothing=0.1)
    posterior = np.concatenate(engine.map(posterior_of_shard, (fit.prior, fit.table, False)))
    assert posterior == pytest.approx(expected.posterior, abs=1e-12)
    assert fit.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-12)


@QUICK
@given(crowds(), CUTS)
def test_majority_is_the_whole_tables_to_the_bit(labels: CrowdLabels, places: list[float]) -> None:
    share = np.concatenate(cut_at(labels, places).map(majority_of_shard, None))
    assert share.tobytes() == majority_vote(labels).posterior.tobytes()


@QUICK
@given(labels=crowds(), places=CUTS, n_groups=st.integers(1, 4))
def test_class_counts_of_groups_are_the_whole_tables(
    labels: CrowdLabels, places: list[float], n_groups: int
) -> None:
    """Oracle: every task's consensus, counted one by one; the last group has no task."""
    group = np.arange(labels.n_tasks) % n_groups

    def of_shard(shard: LabelShard) -> np.ndarray:
        return group[shard.first_task : shard.first_task + shard.n_tasks]

    found = class_sums(cut_at(labels, places), of_shard, n_groups + 1, majority_of_shard, None)
    expected = np.zeros((n_groups + 1, labels.n_classes), dtype=np.int64)
    for task, label in enumerate(majority_vote(labels).label):
        expected[group[task], label] += 1
    assert found.tolist() == expected.tolist()


def test_a_fit_gone_on_with_is_a_fit_never_left(rng: np.random.Generator) -> None:
    engine, states = cut_at(crowd_of(rng), [0.3, 0.5]), []
    whole = dawid_skene_by_shards(engine, max_iter=8, tol=0.0, after=states.append)
    assert [fit.n_iter for fit in states] == list(range(1, 9))
    for begun in (states[0], states[4], states[7]):
        again = dawid_skene_by_shards(engine, max_iter=8, tol=0.0, begun=begun)
        assert again.table.tobytes() == whole.table.tobytes()
        assert again.log_likelihood == whole.log_likelihood
        assert again.n_iter == 8


@pytest.mark.parametrize("max_iter", [3, 10, 13])
def test_hierarchical_goes_on_from_any_stage_to_the_same_bytes(
    max_iter: int, rng: np.random.Generator
) -> None:
    """A stage has five iterations, the last one fewer where `max_iter` says so."""
    labels = crowd_of(rng)
    engine, states = cut_at(labels, [0.3, 0.5]), []
    whole = hierarchical_by_shards(engine, max_iter=max_iter, tol=0.0, after=states.append)
    assert [fit.n_iter for fit in states] == [n for n in (5, 10) if n < max_iter] + [max_iter]
    for begun in states:
        again = hierarchical_by_shards(engine, max_iter=max_iter, tol=0.0, begun=begun)
        assert (again.n_iter, again.log_likelihood) == (max_iter, whole.log_likelihood)
        assert again.table.tobytes() == whole.table.tobytes()
        assert again.shared is not None
        assert whole.shared is not None
        assert again.shared.mean.tobytes() == whole.shared.mean.tobytes()


def test_the_hierarchical_result_of_shards_is_the_whole_tables(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)
    engine = cut_at(labels, [0.2, 0.7])
    fit = hierarchical_by_shards(engine)
    posterior = np.concatenate(engine.map(posterior_of_shard, (fit.prior, fit.table, False)))
    found, expected = hierarchical_result(fit, posterior, None), hierarchical_dawid_skene(labels)
    assert (found.n_iter, found.converged) == (expected.n_iter, expected.converged)
    assert found.strength == pytest.approx(expected.strength, abs=1e-9)
    for name in ("posterior", "prior", "confusion", "crowd_confusion"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-9)


def test_a_fit_without_a_shared_prior_has_no_hierarchical_result(rng: np.random.Generator) -> None:
    fit = dawid_skene_by_shards(cut_at(crowd_of(rng), [0.5]))
    with pytest.raises(ValueError, match="shared prior"):
        hierarchical_result(fit, np.ones((1, 3)), None)


def test_a_fit_that_has_converged_is_not_gone_on_with(rng: np.random.Generator) -> None:
    engine = cut_at(crowd_of(rng), [0.5])
    fit: EMFit = dawid_skene_by_shards(engine)
    assert fit.converged
    assert dawid_skene_by_shards(engine, begun=fit) is fit
    shared = hierarchical_by_shards(engine)
    assert hierarchical_by_shards(engine, begun=shared) is shared


def test_the_same_bytes_on_any_number_of_threads(rng: np.random.Generator) -> None:
    shards = cut_labels(crowd_of(rng), range(0, 401, 40))
    one, *others = (
        dawid_skene_by_shards(LocalEngine(shards, threads=threads), max_iter=5)
        for threads in (1, 2, 5, None)
    )
    for other in others:
        assert other.table.tobytes() == one.table.tobytes()
        assert other.log_likelihood == one.log_likelihood

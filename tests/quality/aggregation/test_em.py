"""Going on from an earlier fit: what is matched, what it saves, and where it ends on the shared sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality.crowd_sets import read_set
from quality import (
    CrowdLabels,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    one_coin_dawid_skene,
    regular_assignment,
    simulate_crowd,
)
from quality.aggregation.dawid_skene_em import (
    coin_table,
    first_coins,
    one_coin_table,
    start_from,
)
from quality.aggregation.em import EMStart, passes_over
from quality.aggregation.sharded_em import dawid_skene_by_shards, one_coin_by_shards
from quality.labels.shards import LocalEngine, cut_labels
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=25, deadline=None, derandomize=True)
FITS: list[Callable[..., Any]] = [dawid_skene, one_coin_dawid_skene, hierarchical_dawid_skene]
every_fit = pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit.__name__)


def rows_of(rng: np.random.Generator, n_tasks: int = 600) -> tuple[np.ndarray, ...]:
    """Worker, task and label: three classes, 30 workers, five labels a task."""
    rows = regular_assignment(n_tasks=n_tasks, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.choice(3, p=[0.5, 0.3, 0.2], size=n_tasks)
    crowd = simulate_crowd(rows, truth, n_classes=3, adversaries={"random": 5}, rng=rng)
    return crowd.worker, crowd.task, crowd.label


@every_fit
def test_a_worker_without_labels_is_unknown_to_it(
    fit: Callable[..., Any], rng: np.random.Generator
) -> None:
    labels = encode(*rows_of(rng))
    kept = labels.keep_workers(labels.workers != 7)
    start = start_from(kept, fit(kept))
    assert start.workers.tolist() == [name for name in range(30) if name != 7]
    again = start_from(labels, fit(kept), labelled=labels.workers != 7)
    assert again.confusion.tobytes() == start.confusion.tobytes()


@every_fit
def test_a_day_more_takes_fewer_iterations_and_ends_at_the_same_point(
    fit: Callable[..., Any], rng: np.random.Generator
) -> None:
    """A twentieth of the tasks is new; five labels a task and 100 of a worker: one point to find."""
    worker, task, label = rows_of(rng)
    old = task < 570
    before = encode(worker[old], task[old], label[old])
    now = encode(worker, task, label)
    start = start_from(before, fit(before, tol=1e-10, max_iter=500))
    anew, gone_on = (fit(now, start=one, tol=1e-10, max_iter=500) for one in (None, start))
    assert anew.converged
    assert gone_on.converged
    assert gone_on.n_iter < anew.n_iter
    assert np.array_equal(gone_on.label, anew.label)
    assert gone_on.posterior == pytest.approx(anew.posterior, abs=1e-3)


@every_fit
def test_a_settled_fit_that_starts_from_itself_has_settled_again(
    fit: Callable[..., Any], rng: np.random.Generator
) -> None:
    """After two iterations; two fits of the shared prior where there is one."""
    labels = encode(*rows_of(rng))
    settled = fit(labels, tol=1e-9, max_iter=1000)
    again = fit(labels, tol=1e-6, start=start_from(labels, settled))
    assert again.converged
    assert again.n_iter <= (10 if fit is hierarchical_dawid_skene else 2)
    assert again.posterior == pytest.approx(settled.posterior, abs=1e-3)


@every_fit
@QUICK
@given(crowds())
def test_a_fit_that_starts_from_itself_goes_on_with_its_next_iteration(
    fit: Callable[..., Any], labels: CrowdLabels
) -> None:
    """Between two fits of the shared prior, every five iterations, where there is one."""
    fit_5 = fit(labels, max_iter=5, tol=0.0)
    if fit_5.n_iter < 5:
        return
    again = fit(labels, max_iter=1, tol=0.0, start=start_from(labels, fit_5))
    fit_6 = fit(labels, max_iter=6, tol=0.0)
    if fit_6.n_iter == 6:
        assert again.log_likelihood == pytest.approx(fit_6.log_likelihood, abs=1e-9)
        np.testing.assert_allclose(again.posterior, fit_6.posterior, atol=1e-9)


def test_a_fit_in_which_a_class_dies_out_can_be_started_from(rng: np.random.Generator) -> None:
    """A class of a few stray labels among 20 a task: it stays dead from the least prior that is allowed."""
    rows = regular_assignment(n_tasks=300, n_workers=30, labels_per_task=20, rng=rng)
    truth = rng.integers(3, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=3, adversaries={}, rng=rng)
    stray = np.arange(len(crowd.label)) % 500 == 0
    labels = encode(crowd.worker, crowd.task, np.where(stray, 3, crowd.label))
    settled = hierarchical_dawid_skene(labels)
    dying = replace(settled, prior=np.append(settled.prior[:3], 1e-200))
    start = start_from(labels, dying)
    assert start.prior.tolist() == [*settled.prior[:3], 1e-150]
    again = hierarchical_dawid_skene(labels, start=start)
    assert again.prior[3] < 1e-150
    assert again.posterior == pytest.approx(settled.posterior, abs=1e-6)
    dead = start_from(labels, replace(settled, prior=np.append(settled.prior[:3], 0.0)))
    assert dead.prior[3] == 0.0
    assert (
        hierarchical_dawid_skene(labels, start=dead, max_iter=1).prior[3] > 1e-20
    )  # as by the vote


@every_fit
@QUICK
@given(crowds(), st.integers(0, 2**32 - 1))
def test_names_are_matched_whatever_their_codes(
    fit: Callable[..., Any], labels: CrowdLabels, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    start = start_from(labels, fit(labels))
    worker, kind = rng.permutation(len(start.workers)), rng.permutation(labels.n_classes)
    strange = EMStart(
        start.workers[worker], start.classes[kind], start.prior[kind],
        start.confusion[np.ix_(worker, kind, kind)],
    )  # fmt: skip
    one, other = (fit(labels, start=known, max_iter=3) for known in (start, strange))
    assert one.posterior.tobytes() == other.posterior.tobytes()


@pytest.mark.parametrize("n_classes", [1, 2, 3, 12])
def test_a_one_coin_table_has_each_workers_share_of_right_labels(
    n_classes: int, rng: np.random.Generator
) -> None:
    """Oracle: NumPy's sums over the diagonal and over the rest."""
    counts = rng.gamma(0.5, size=(40, n_classes, n_classes))
    same = np.eye(n_classes, dtype=np.bool_)
    right = counts.sum(axis=(1, 2), where=same) + 0.01
    wrong = counts.sum(axis=(1, 2), where=~same) + (n_classes - 1) * 0.01
    expected = np.where(
        same,
        (right / (right + wrong))[:, None, None],
        (wrong / (right + wrong) / max(n_classes - 1, 1))[:, None, None],
    )
    np.testing.assert_allclose(one_coin_table(counts, 0.01), expected, rtol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 12])
def test_a_coin_table_has_each_workers_share_of_right_labels(
    n_classes: int, rng: np.random.Generator
) -> None:
    right, wrong = rng.gamma(0.5, size=(2, 40))
    wrong[0] = 1e-20  # the nearly perfect keep their digits
    found = coin_table(np.stack([right, wrong], axis=1)[:, :, None], n_classes, 0.01)
    chances = right + 0.01, wrong + (n_classes - 1) * 0.01
    expected = chances[0] / sum(chances), chances[1] / sum(chances) / max(n_classes - 1, 1)
    np.testing.assert_allclose(found[:, :, 0].T, expected, rtol=1e-14)


@QUICK
@given(crowds())
def test_where_nothing_is_known_it_is_the_majority_vote(labels: CrowdLabels) -> None:
    """Strangers alone: what EM starts from is one iteration from the majority vote."""
    stranger = EMStart(np.array(["nobody"]), np.array(["nothing"]), np.ones(1), np.ones((1, 1, 1)))

    with passes_over(labels, None, 1) as passes:
        _, votes = passes.vote()
        matched = stranger.matched(labels.workers, labels.classes)
        counts, mass = first_coins(passes, matched, 0.1)
    found = one_coin_dawid_skene(labels, smoothing=0.1, max_iter=1)
    assert found.prior == pytest.approx(votes / votes.sum())
    assert mass.sum() == pytest.approx(np.count_nonzero(np.diff(labels.task_start)))
    assert counts.sum() == pytest.approx(labels.n_labels)
    later = one_coin_dawid_skene(labels, smoothing=0.1, max_iter=2, tol=0.0)
    gone_on = one_coin_dawid_skene(labels, smoothing=0.1, max_iter=1, start=stranger)
    assert gone_on.posterior == pytest.approx(later.posterior, abs=1e-12)


def test_a_class_that_nobody_named_before_can_win_now(rng: np.random.Generator) -> None:
    """Its share was zero: EM alone would never raise it."""
    worker, task, label = rows_of(rng)
    old = label < 2
    before = encode(worker[old], task[old], label[old], classes=[0, 1, 2])
    settled = dawid_skene(before)
    assert settled.prior[2] == 0
    start, now = start_from(before, settled), encode(worker, task, label)
    assert np.mean(dawid_skene(now, start=start).label == dawid_skene(now).label) > 0.99
    assert (dawid_skene(now, start=start).label == 2).sum() > 50


def test_a_class_that_nobody_names_now_stays_empty(rng: np.random.Generator) -> None:
    worker, task, label = rows_of(rng)
    before = encode(worker, task, label)
    start, rest = start_from(before, dawid_skene(before)), label < 2
    now = encode(worker[rest], task[rest], label[rest], classes=[0, 1, 2])
    assert dawid_skene(now, start=start).prior[2] == 0


def test_gold_stays_certain(rng: np.random.Generator) -> None:
    labels = encode(*rows_of(rng))
    gold = np.where(np.arange(600) < 50, 2, -1)
    result = dawid_skene(labels, gold=gold, start=start_from(labels, dawid_skene(labels)))
    assert np.array_equal(result.posterior[:50], np.eye(3)[np.full(50, 2)])


def test_the_same_bytes_on_any_number_of_threads(rng: np.random.Generator) -> None:
    labels = encode(*rows_of(rng, 6000))
    start = start_from(labels, dawid_skene(labels, max_iter=3))
    one, other = (dawid_skene(labels, start=start, threads=n) for n in (1, 3))
    assert one.posterior.tobytes() == other.posterior.tobytes()


@pytest.mark.parametrize(
    ("whole", "by_shards"),
    [(dawid_skene, dawid_skene_by_shards), (one_coin_dawid_skene, one_coin_by_shards)],
)
def test_on_shards_it_goes_on_from_the_same_place(
    whole: Callable[..., Any], by_shards: Callable[..., Any], rng: np.random.Generator
) -> None:
    worker, task, label = rows_of(rng)
    old = (task < 500) & (worker < 25)
    before, now = encode(worker[old], task[old], label[old]), encode(worker, task, label)
    start = start_from(before, whole(before))
    matched = start.matched(now.workers, now.classes)
    fit = by_shards(LocalEngine(cut_labels(now, [0, 90, 400, 600])), start=matched)
    expected = whole(now, start=start)
    assert fit.n_iter == expected.n_iter
    assert fit.prior == pytest.approx(expected.prior, rel=1e-9)
    assert fit.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("name", ["rte", "temp", "bluebird"])
def test_one_coin_ends_where_it_would_have_begun_anew_on_shared_sets(
    shared_data: Path, name: str
) -> None:
    """A tenth of the tasks is new; `benchmarks.quality.warm_start` has all sets and all models."""
    now, _ = read_set(shared_data / name)
    old = now.task < 0.9 * now.n_tasks
    before = CrowdLabels.from_codes(
        now.worker[old], now.task[old], now.label[old],
        workers=now.workers, tasks=now.tasks, classes=now.classes,
    )  # fmt: skip
    start = start_from(before, one_coin_dawid_skene(before, tol=1e-9, max_iter=1000))
    anew, gone_on = (
        one_coin_dawid_skene(now, start=one, tol=1e-9, max_iter=1000) for one in (None, start)
    )
    assert gone_on.converged
    assert np.array_equal(gone_on.label, anew.label)
    assert gone_on.posterior == pytest.approx(anew.posterior, abs=2e-3)


@pytest.mark.refusal
def test_what_cannot_be_started_from_is_refused(rng: np.random.Generator) -> None:
    names, classes = np.array(["ann", "bob"]), np.array(["x", "y"])
    prior, confusion = np.full(2, 0.5), np.full((2, 2, 2), 0.5)
    for worse in (-0.1, 1e-200, np.nan, np.inf):
        spoilt = confusion.copy()
        spoilt[1, 0, 1] = worse
        with pytest.raises(ValueError, match="confusion must be finite, and zero or at least"):
            EMStart(names, classes, prior, spoilt)
        with pytest.raises(ValueError, match="prior must be finite, and zero or at least"):
            EMStart(names, classes, np.array([worse, 0.5]), confusion)
    with pytest.raises(ValueError, match="workers must all differ"):
        EMStart(names[[0, 0]], classes, prior, confusion)
    with pytest.raises(ValueError, match=r"must have shapes \(2,\) and \(2, 2, 2\), got"):
        EMStart(names, classes, prior[:1], confusion)
    labels = encode(*rows_of(rng))
    start = EMStart(names, classes, prior, confusion)
    with pytest.raises(ValueError, match="start must be of 30 workers and 3 classes, got 2 and 2"):
        dawid_skene_by_shards(LocalEngine(cut_labels(labels, [0, 600])), start=start)

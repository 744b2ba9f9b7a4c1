"""Aggregators of very many classes against those of few, on tables that both can hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quality import (
    CrowdLabels,
    encode,
    glad,
    mace,
    majority_vote,
    mmsr,
    one_coin_dawid_skene,
    penalty_vote,
    weighted_majority,
)
from quality.many_classes import (
    glad_of_named,
    mace_of_named,
    majority_of_named,
    mmsr_of_named,
    needs_names,
    one_coin_of_named,
    penalty_of_named,
    weighted_of_named,
)

N_WORKERS = 12
SAME = {
    "log_likelihood": ("log_likelihood", "log_posterior"),
    "reliability": ("reliability",),
    "skill": ("ability", "skill", "competence"),
    "n_iter": ("n_iter",),
}


def weighted(labels: CrowdLabels, **given: Any) -> Any:
    return weighted_majority(labels, np.linspace(0.0, 1.0, labels.n_workers), **given)


def weighted_named(labels: CrowdLabels, **given: Any) -> Any:
    return weighted_of_named(labels, np.linspace(0.0, 1.0, labels.n_workers), **given)


PAIRS: list[tuple[Callable[..., Any], Callable[..., Any], bool]] = [
    (majority_vote, majority_of_named, False),
    (weighted, weighted_named, False),
    (penalty_vote, penalty_of_named, False),
    (one_coin_dawid_skene, one_coin_of_named, True),
    (mace, mace_of_named, True),
    (glad, glad_of_named, False),
    (mmsr, mmsr_of_named, False),
]


def crowd(seed: int) -> tuple[CrowdLabels, np.ndarray]:
    """Labels of workers from poor to good, one of them without any; and the truth."""
    rng, n_classes = np.random.default_rng(seed), (1, 2, 3, 7, 30)[seed % 5]
    truth, cells = rng.integers(n_classes, size=60), rng.choice(60 * N_WORKERS, 250, replace=False)
    worker, task = cells % N_WORKERS, cells // N_WORKERS
    right = rng.random(250) < np.linspace(0.3, 0.95, N_WORKERS)[worker]
    label = np.where(right, truth[task], rng.integers(n_classes, size=250))
    labels = encode(worker, task, label, classes=range(n_classes))
    return labels.keep_workers(np.arange(N_WORKERS) != 3), truth[labels.tasks]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("few", "many", "takes_gold"), PAIRS, ids=[pair[0].__name__ for pair in PAIRS]
)
def test_the_result_is_that_of_the_aggregator_of_few_classes(
    few: Callable[..., Any], many: Callable[..., Any], takes_gold: bool, seed: int
) -> None:
    labels, truth = crowd(seed)
    given: dict[str, Any] = {}
    if takes_gold and seed % 2:
        given["gold"] = np.where(np.arange(labels.n_tasks) % 5 == 0, truth, -1)
    if seed % 3 == 0:
        given["groups"] = np.where(np.arange(labels.n_workers) < 3, 0, -1)
    one, other = few(labels, **given), many(labels, **given)
    table = other.posterior[np.arange(labels.n_tasks)]
    np.testing.assert_allclose(table, one.posterior, atol=1e-7)
    np.testing.assert_array_equal(other.label, one.label)
    np.testing.assert_array_equal(other.tied, one.tied)
    for mine, its in SAME.items():
        for name in its:
            if hasattr(one, name):
                np.testing.assert_allclose(getattr(other, mine), getattr(one, name), atol=1e-6)


@pytest.mark.parametrize(
    ("few", "many"), [(one_coin_dawid_skene, one_coin_of_named), (mace, mace_of_named)]
)
def test_tasks_without_labels_have_no_part_in_the_prior(
    few: Callable[..., Any], many: Callable[..., Any]
) -> None:
    labels, _ = crowd(3)
    left = labels.keep_labels(labels.task % 3 > 0)
    assert (np.diff(left.task_start) == 0).any()
    one, other = few(left), many(left)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, abs=1e-7)
    table = other.posterior[np.arange(left.n_tasks)]
    np.testing.assert_allclose(table, one.posterior, atol=1e-8)


def test_a_table_needs_names_where_matrices_or_its_own_cells_are_too_many() -> None:
    names, tasks = [f"w{n}" for n in range(400)], np.arange(400)
    assert not needs_names(encode(names, tasks, tasks % 9, classes=range(500)))
    assert needs_names(encode(names, tasks, tasks % 9, classes=range(600)))
    many = np.arange(20_000)
    assert needs_names(encode(np.zeros(20_000), many, many % 9, classes=range(10_000)))


@pytest.mark.parametrize("find", [majority_of_named, mmsr_of_named, penalty_of_named])
def test_a_result_without_a_likelihood_has_a_repr(find: Callable[..., Any]) -> None:
    found = find(crowd(2)[0])
    assert found.log_likelihood is None
    assert repr(found).startswith(
        f"NamedConsensus({len(found.label)} tasks, {found.tied.sum()} tied"
    )


def test_ten_thousand_classes_are_no_more_work_than_ten() -> None:
    rng = np.random.default_rng(0)
    worker, task = np.divmod(np.arange(4_000), 800)
    truth = rng.integers(10_000, size=800)
    label = np.where(rng.random(4_000) < 0.8, truth[task], rng.integers(10_000, size=4_000))
    labels = encode(worker, task, label, classes=range(10_000))
    found = one_coin_of_named(labels)
    assert np.mean(found.label == truth) > 0.97  # 0.992 of tasks have two right labels or more
    assert found.reliability is not None
    np.testing.assert_allclose(found.reliability, 0.8, atol=0.05)  # 3.5 standard errors
    assert len(found.posterior.p) <= 4_000


@pytest.mark.parametrize("find", [one_coin_of_named, mace_of_named, glad_of_named, mmsr_of_named])
def test_iterations_are_told(find: Callable[..., Any]) -> None:
    told: list[tuple[str, int, int]] = []
    labels, _ = crowd(2)
    found = find(labels, max_iter=3, tol=0.0, progress=lambda *step: told.append(step))
    assert [done for _, done, _ in told] == list(range(1, found.n_iter + 1))


@pytest.mark.parametrize("find", [one_coin_of_named, mace_of_named])
def test_gold_must_be_a_class_code_for_each_task(find: Callable[..., Any]) -> None:
    labels, truth = crowd(2)
    with pytest.raises(ValueError, match="gold must be .* class codes, one per task"):
        find(labels, gold=truth[1:])
    with pytest.raises(ValueError, match="gold must be class codes from -1 to 2"):
        find(labels, gold=truth + 3)


@pytest.mark.parametrize("prior", [1e-300, 1e-3])
@pytest.mark.parametrize("name", ["competence_prior", "strategy_prior"])
def test_a_guess_may_be_less_likely_than_the_least_number(name: str, prior: float) -> None:
    """The expected logarithm of a chance of which there are .001 labels is -1,000."""
    for seed in range(10):
        labels, _ = crowd(seed)
        if labels.n_classes > 1:
            one, other = (find(labels, **{name: prior}) for find in (mace, mace_of_named))
            table = other.posterior[np.arange(labels.n_tasks)]
            np.testing.assert_allclose(table, one.posterior, atol=1e-7)
            assert other.log_likelihood == pytest.approx(one.log_likelihood)

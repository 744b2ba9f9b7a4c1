"""The null of an honest crowd, and how rarely honest crowds lose anybody."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    Assignment,
    CrowdLabels,
    conflict_tasks,
    encode,
    filter_workers,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
    soft_penalty,
)
from quality.honest_null import honest_null
from tests.quality.strategies import crowds

QUICK = settings(max_examples=10, deadline=None, derandomize=True)

# design, tasks, workers, labels per task, classes, Beta distribution of the accuracies
SHAPES = {
    "regular": (regular_assignment, 500, 100, 5, 2, (12.0, 3.0)),
    "power law": (power_law_assignment, 600, 100, 5, 2, (12.0, 3.0)),
    "four classes": (regular_assignment, 300, 60, 7, 4, (6.0, 3.0)),
}
Shape = tuple[Callable[..., Assignment], int, int, int, int, tuple[float, float]]


def crowd_of(
    shape: Shape, adversaries: dict[str, int], rng: np.random.Generator
) -> tuple[CrowdLabels, np.ndarray]:
    """A crowd of that shape, and who is honest."""
    design, n_tasks, n_workers, labels_per_task, n_classes, reliability = shape
    rows = design(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=labels_per_task, rng=rng)
    truth = rng.integers(n_classes, size=n_tasks)
    crowd = simulate_crowd(
        rows, truth, n_classes=n_classes, adversaries=adversaries, reliability=reliability, rng=rng
    )
    labels = encode(crowd.worker, crowd.task, crowd.label, classes=range(n_classes))
    return labels, crowd.kind[labels.workers] == "honest"


def n_crowds_with_removals(shape: Shape, rate: float, n_crowds: int) -> int:
    """Of so many honest crowds, each with a seed of its own."""
    count = 0
    for seed in range(n_crowds):
        rng = np.random.default_rng([2026, seed])
        labels, _ = crowd_of(shape, {}, rng)
        filtered = filter_workers(labels, false_removal_rate=rate, min_labels_per_task=0, rng=rng)
        count += len(filtered.removed) > 0
    return count


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 0.05])
@pytest.mark.parametrize("shape", SHAPES)
def test_at_most_that_share_of_500_honest_crowds_loses_a_worker(shape: str, rate: float) -> None:
    """Seeded. At most the rate and two standard errors of a share of 500."""
    most = 500 * rate + 2 * np.sqrt(500 * rate * (1 - rate))
    assert n_crowds_with_removals(SHAPES[shape], rate, 500) <= most


@pytest.mark.parametrize("shape", SHAPES)
def test_few_honest_crowds_lose_a_worker(shape: str) -> None:
    """10 crowds at a rate of 0.1: 9 or more have probability 1e-8 where the rate holds."""
    assert n_crowds_with_removals(SHAPES[shape], 0.1, 10) < 9


@QUICK
@given(crowds())
def test_p_values_are_in_0_to_1_and_1_without_conflict_tasks(labels: CrowdLabels) -> None:
    null = honest_null(labels, n_redraws=5, rng=np.random.default_rng(0))
    rows = conflict_tasks(labels)[labels.task]
    unknown = np.bincount(labels.worker[rows], minlength=labels.n_workers) == 0
    assert (null.p_value > 0).all()
    assert (null.p_value <= 1).all()
    assert (null.p_value[unknown] == 1).all()
    assert np.array_equal(soft_penalty(labels), null.penalty)


def test_the_fit_finds_the_honest_accuracies(rng: np.random.Generator) -> None:
    """Mean of ten crowds of Beta(12, 3), whose mean is 0.8 and standard deviation 0.1.

    One crowd's estimates were seen to vary by 0.02 and 0.025: six standard errors are allowed.
    """
    found = [honest_null(crowd_of(SHAPES["regular"], {}, rng)[0], rng=rng) for _ in range(10)]
    assert np.mean([null.accuracy_mean for null in found]) == pytest.approx(0.8, abs=0.04)
    assert np.mean([null.accuracy_sd for null in found]) == pytest.approx(0.1, abs=0.05)


def test_the_null_is_what_an_honest_worker_in_her_place_gets(rng: np.random.Generator) -> None:
    """Means over 200 honest crowds on one assignment, against the null fitted to one of them."""
    design, n_tasks, n_workers, labels_per_task, n_classes, reliability = SHAPES["power law"]
    rows = design(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=labels_per_task, rng=rng)
    penalties = []
    for _ in range(200):
        truth = rng.integers(n_classes, size=n_tasks)
        crowd = simulate_crowd(
            rows, truth, n_classes=n_classes, adversaries={}, reliability=reliability, rng=rng
        )
        labels = encode(crowd.worker, crowd.task, crowd.label)
        penalties.append(soft_penalty(labels))
    null = honest_null(labels, rng=rng)
    assert null.mean == pytest.approx(np.mean(penalties, axis=0), abs=0.1)
    assert np.median(null.spread / np.std(penalties, axis=0)) == pytest.approx(1.0, abs=0.4)


def test_who_is_removed_is_an_adversary() -> None:
    """15 of 100 are malicious, five crowds: of the removed, far fewer are honest than by chance."""
    removed_honest = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labels, honest = crowd_of(SHAPES["regular"], {"malicious": 15}, rng)
        filtered = filter_workers(labels, false_removal_rate=0.1, rng=rng)
        removed_honest += honest[filtered.removed].tolist()
    assert len(removed_honest) >= 10
    assert np.mean(removed_honest) < 0.3


def test_the_result_is_the_same_with_the_same_rng_and_read_only() -> None:
    labels, _ = crowd_of(SHAPES["four classes"], {"random": 9}, np.random.default_rng(5))
    one, other = (honest_null(labels, rng=np.random.default_rng(1)) for _ in range(2))
    assert one.p_value.tobytes() == other.p_value.tobytes()
    for name in ("penalty", "mean", "spread", "p_value"):
        assert not getattr(one, name).flags.writeable
    rules = {"false_removal_rate": 0.1}
    pair = [filter_workers(labels, **rules, rng=np.random.default_rng(1)) for _ in range(2)]
    assert pair[0].removed.tobytes() == pair[1].removed.tobytes()


def test_without_conflict_nothing_is_drawn(rng: np.random.Generator) -> None:
    labels = encode(["ann", "bob"], [1, 1], ["x", "x"])
    assert honest_null(labels, rng=rng).p_value.tolist() == [1.0, 1.0]
    filtered = filter_workers(labels, false_removal_rate=0.1, rng=rng)
    assert filtered.stopped == "nobody else stands out at a false removal rate of 0.1"


def test_too_few_redraws_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="n_redraws must be >= 2, got n_redraws=1"):
        honest_null(encode(["a"], [1], ["x"]), n_redraws=1, rng=rng)

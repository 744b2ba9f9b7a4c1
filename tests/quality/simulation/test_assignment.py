"""Assignments: different workers on every task, degrees as promised."""

from typing import Any

import numpy as np
import pytest

from quality import power_law_assignment, regular_assignment


def rows_are_different_workers(worker: np.ndarray, labels_per_task: int) -> bool:
    """Whether no task asks a worker twice."""
    rows = np.sort(worker.reshape(-1, labels_per_task), axis=1)
    return bool((np.diff(rows, axis=1) > 0).all())


@pytest.mark.parametrize(("n_tasks", "n_workers", "labels_per_task"), [
    (50, 10, 3), (7, 5, 5), (1, 9, 2), (40, 11, 7), (30, 1, 1), (100, 8, 5),
])  # fmt: skip
def test_each_task_asks_different_workers(
    n_tasks: int, n_workers: int, labels_per_task: int, rng: np.random.Generator
) -> None:
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "labels_per_task": labels_per_task}
    for assignment in (
        regular_assignment(**sizes, rng=rng),
        power_law_assignment(**sizes, rng=rng),
    ):
        assert np.array_equal(np.bincount(assignment.task), np.full(n_tasks, labels_per_task))
        assert rows_are_different_workers(assignment.worker, labels_per_task)
        assert assignment.worker.max() < n_workers
    degree = np.bincount(regular_assignment(**sizes, rng=rng).worker, minlength=n_workers)
    assert np.ptp(degree) <= 1
    assert n_tasks * labels_per_task % n_workers or np.ptp(degree) == 0


def test_regular_tasks_are_not_labelled_by_fixed_teams(rng: np.random.Generator) -> None:
    """12 workers in threes: a few fixed teams would repeat, shuffled decks give many teams."""
    worker = regular_assignment(n_tasks=400, n_workers=12, labels_per_task=3, rng=rng).worker
    teams = {tuple(sorted(team)) for team in worker.reshape(-1, 3).tolist()}
    assert len(teams) > 100


def test_activity_falls_off_as_the_power_law_says(rng: np.random.Generator) -> None:
    """One label per task, so shares are exactly rank ** -1 / 2.929 for 10 workers.

    Hoeffding: a share of 40,000 draws is off by 0.0145 with probability below 2 * e^-16.8 = 1e-7,
    for 10 shares below 1e-6.
    """
    assignment = power_law_assignment(
        n_tasks=40_000, n_workers=10, labels_per_task=1, exponent=1.0, rng=rng
    )
    share = np.sort(np.bincount(assignment.worker, minlength=10))[::-1] / 40_000
    expected = 1 / np.arange(1, 11)
    assert share == pytest.approx(expected / expected.sum(), abs=0.0145)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_tasks": 0}, "n_tasks must be >= 1, got n_tasks=0"),
        ({"labels_per_task": 0}, "labels_per_task must be in .*got labels_per_task=0"),
        ({"labels_per_task": 5}, "labels_per_task must be in .*got labels_per_task=5"),
    ],
)
def test_sizes_out_of_range_are_refused(
    change: dict[str, Any], message: str, rng: np.random.Generator
) -> None:
    sizes: dict[str, Any] = {"n_tasks": 3, "n_workers": 4, "labels_per_task": 2} | change
    for assign in (regular_assignment, power_law_assignment):
        with pytest.raises(ValueError, match=message):
            assign(**sizes, rng=rng)
    with pytest.raises(ValueError, match="exponent must be >= 0, got exponent=nan"):
        power_law_assignment(
            n_tasks=1, n_workers=1, labels_per_task=1, exponent=float("nan"), rng=rng
        )

"""The greedy choice of workers on whom tasks rest, against a slow and obvious one."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels
from quality.reputation.robustness import few_worker_tasks, greedy_workers, n_resting
from tests.quality.strategies import crowds

QUICK = settings(max_examples=120, deadline=None, derandomize=True)


def sets_of(labels: CrowdLabels, most: int) -> list[frozenset[int]]:
    """The workers of each task that has one to so many."""
    every = (labels.worker[labels.task == task] for task in range(labels.n_tasks))
    return [frozenset(one.tolist()) for one in every if 0 < len(one) <= most]


def greedy(sets: list[frozenset[int]], k: int) -> frozenset[int]:
    """Take the set with the most tasks per worker yet to be taken, again and again."""
    taken: frozenset[int] = frozenset()
    while True:
        gain = Counter(one - taken for one in sets if 0 < len(one - taken) <= k - len(taken))
        if not gain:
            return taken
        taken |= max(gain, key=lambda new: (gain[new] / len(new), -len(new), sorted(new)))


@QUICK
@given(crowds(), st.integers(1, 6), st.integers(1, 6))
def test_the_greedy_choice_is_the_slow_ones(labels: CrowdLabels, most: int, k: int) -> None:
    """Oracle: sets of Python, equals included."""
    members = few_worker_tasks(labels.worker, labels.task_start, most)
    sets = sets_of(labels, most)
    assert [frozenset(row[row >= 0].tolist()) for row in members] == sets
    taken = greedy_workers(members, labels.n_workers, k)
    expected = greedy(sets, k)
    assert np.flatnonzero(taken).tolist() == sorted(expected)
    assert n_resting(members, taken) == sum(one <= expected for one in sets)


def test_the_greedy_choice_is_the_slow_ones_on_a_larger_crowd(rng: np.random.Generator) -> None:
    """Many tasks of the same workers, and many slots of the table in use."""
    task = np.repeat(np.arange(3_000), 3)
    worker = rng.integers(0, 25, task.size)
    pair = np.unique(task * 25 + worker)
    names = np.arange(3_000), np.arange(25), np.array(["x"])
    labels = CrowdLabels.from_codes(
        pair % 25,
        pair // 25,
        np.zeros_like(pair),
        tasks=names[0],
        workers=names[1],
        classes=names[2],
    )
    members = few_worker_tasks(labels.worker, labels.task_start, 6)
    for k in (1, 3, 6, 12):
        taken = greedy_workers(members, 25, k)
        assert np.flatnonzero(taken).tolist() == sorted(greedy(sets_of(labels, 6), k))


def test_nobody_is_taken_where_there_is_nothing_to_take() -> None:
    none = np.empty((0, 3), dtype=np.int32)
    assert not greedy_workers(none, 4, 2).any()
    assert n_resting(none, np.ones(4, dtype=np.bool_)) == 0

"""Robustness bounds against enumeration, and the theorems' sums.

The greedy choice of workers on whom tasks rest, against a slow and obvious one.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels, encode, power_law_assignment
from quality.reputation import robustness
from quality.reputation.robustness import (
    few_worker_tasks,
    greedy_workers,
    n_resting,
    robustness_bounds,
    weakest_workers,
)
from tests.quality.labels.strategies import Row, crowds, label_rows, named_crowd

QUICK = settings(max_examples=80, deadline=None, derandomize=True)


def sparse_crowd(rng: np.random.Generator, n_tasks: int, n_workers: int) -> CrowdLabels:
    """Two labels a task, all the same."""
    rows = power_law_assignment(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=2, rng=rng)
    return encode(rows.worker, rows.task, np.zeros(len(rows.task), dtype=int))


def most_resting(labels: CrowdLabels, k: int) -> int:
    """The most tasks whose workers are all among k workers: every choice is tried."""
    tasks = [set(labels.worker[labels.task == task].tolist()) for task in np.unique(labels.task)]
    choices = combinations(range(labels.n_workers), min(k, labels.n_workers))
    return max(sum(workers <= set(chosen) for workers in tasks) for chosen in choices)


@QUICK
@given(crowds())
def test_name_blind_is_half_the_most_tasks_that_rest_on_k_workers(labels: CrowdLabels) -> None:
    """Oracle: enumeration."""
    bounds = robustness_bounds(labels, max_adversaries=4)
    assert bounds.name_blind_exact.all()
    expected = [most_resting(labels, k) / 2 for k in range(1, 5)]
    assert expected == bounds.name_blind.tolist()


def test_name_blind_is_exact_on_larger_crowds_and_a_lower_bound_when_cut_short(
    rng: np.random.Generator,
) -> None:
    for _ in range(10):
        labels = sparse_crowd(rng, 60, 14)
        expected = [most_resting(labels, k) / 2 for k in range(1, 5)]
        whole = robustness_bounds(labels, max_adversaries=4)
        assert whole.name_blind_exact.all()
        assert expected == whole.name_blind.tolist()
        cut = robustness_bounds(labels, max_adversaries=4, max_steps=0)
        assert not cut.name_blind_exact.any()
        assert (cut.name_blind <= whole.name_blind).all()
        assert (cut.name_blind[1:] > 0).any()


@QUICK
@given(crowds(), st.integers(0, 4))
def test_on_the_weakest_workers_rest_the_most_tasks(labels: CrowdLabels, k: int) -> None:
    """Oracle: enumeration."""
    found = weakest_workers(labels.worker, labels.task_start, k, max_steps=2000)
    assert len(found) <= k
    tasks = [set(labels.worker[labels.task == t].tolist()) for t in range(labels.n_tasks)]
    assert sum(workers <= found for workers in tasks) == most_resting(labels, k)


def searched(tasks: list[set[int]], k: int, max_steps: int) -> set[int]:
    """Oracle: the same branch and bound on Python's sets, from no worker."""
    best: set[int] = set()
    todo: list[tuple[set[int], set[int]]] = [(set(), set())]
    for _ in range(max_steps):
        if not todo:
            break
        taken, out = todo.pop()
        share = Counter[int]()
        for workers in tasks:
            new = workers - taken
            if new and len(new) <= k - len(taken) and not new & out:
                share.update(dict.fromkeys(new, 1 / len(new)))
        done, most = (sum(workers <= chosen for workers in tasks) for chosen in (taken, best))
        best = taken if done > most else best
        highest = sorted(share, key=lambda worker: (-round(share[worker], 9), worker))
        bound = done + sum(share[worker] for worker in highest[: k - len(taken)])
        if highest and bound > max(done, most) + 1 - 1e-6:
            todo += [(taken, out | {highest[0]}), (taken | {highest[0]}, out)]
    return best


@pytest.mark.parametrize("max_steps", [4, 30, 200])
def test_a_search_of_many_steps_goes_where_a_slow_one_goes(
    rng: np.random.Generator, max_steps: int
) -> None:
    """Kernels take the steps, thousands of which took minutes on Python's sets."""
    labels = sparse_crowd(rng, 80, 12)
    tasks = [set(labels.worker[labels.task == t].tolist()) for t in range(labels.n_tasks)]
    members = few_worker_tasks(labels.worker, labels.task_start, 4)
    found, _ = robustness._search(
        robustness._Sets.of(members, labels.n_workers), 4, frozenset(), max_steps, lambda _: None
    )
    assert found == searched(tasks, 4, max_steps)


def test_the_curve_says_how_each_of_its_points_was_found(rng: np.random.Generator) -> None:
    labels = sparse_crowd(rng, 60, 14)
    assert robustness_bounds(labels, max_adversaries=3).method == ("exact",) * 3
    cut = robustness_bounds(labels, max_adversaries=3, max_steps=0)
    assert cut.method == ("lower bound",) * 3


def test_rows_of_workers_are_no_wider_than_the_longest(rng: np.random.Generator) -> None:
    labels = sparse_crowd(rng, 40, 10)
    wide, narrow = (few_worker_tasks(labels.worker, labels.task_start, most) for most in (900, 2))
    assert wide.shape == (40, 2)
    assert wide.tolist() == narrow.tolist()
    assert few_worker_tasks(labels.worker, labels.task_start, 1).shape == (0, 0)


def test_the_bounds_are_sums_of_the_largest_loads() -> None:
    """Four tasks rest on ann, two on bob, one on cy: loads 4, 2, 1, worked out on paper."""
    labels = encode(list("aaaabbc"), range(7), ["x"] * 7)
    bounds = robustness_bounds(labels, max_adversaries=3)
    assert bounds.n_adversaries.tolist() == [1, 2, 3]
    assert bounds.lower.tolist() == [0, 4, 6]
    assert bounds.upper_one_right.tolist() == [4, 6, 7]
    assert bounds.upper.tolist() == [6, 7, 7]
    assert bounds.name_blind.tolist() == [2.0, 3.0, 3.5]


@QUICK
@given(crowds())
def test_the_curves_never_fall_and_stay_in_order(labels: CrowdLabels) -> None:
    bounds = robustness_bounds(labels, max_adversaries=7)
    for curve in (bounds.lower, bounds.upper_one_right, bounds.upper, bounds.name_blind):
        assert (np.diff(curve) >= 0).all()
        assert curve[-1] <= bounds.n_tasks == len(np.unique(labels.task))
    assert (bounds.lower <= bounds.upper_one_right).all()
    assert (bounds.upper_one_right <= bounds.upper).all()


@QUICK
@given(label_rows())
def test_the_order_of_names_changes_nothing(rows: list[Row]) -> None:
    labels, turned = named_crowd(rows), named_crowd([(w[::-1], t[::-1], k) for w, t, k in rows])
    one, other = (robustness_bounds(table, max_adversaries=4) for table in (labels, turned))
    for name in ("lower", "upper_one_right", "upper", "name_blind"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


def test_tasks_without_labels_do_not_count() -> None:
    labels = encode(["ann", "bob"], [1, 2], ["x", "x"]).keep_workers(np.array([True, False]))
    bounds = robustness_bounds(labels, max_adversaries=1)
    assert (bounds.n_tasks, bounds.upper.tolist()) == (1, [1])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"max_adversaries": 0}, "max_adversaries must be >= 1, got max_adversaries=0"),
        ({"max_steps": -1}, "max_steps must be >= 0, got max_steps=-1"),
    ],
)
def test_numbers_out_of_range_are_refused(argument: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        robustness_bounds(encode(["a"], [1], ["x"]), **argument)


def test_the_result_is_read_only() -> None:
    bounds = robustness_bounds(encode(["a"], [1], ["x"]))
    assert not bounds.lower.flags.writeable
    assert not bounds.name_blind_exact.flags.writeable


MANY = settings(max_examples=120, deadline=None, derandomize=True)


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


@MANY
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


@QUICK
@given(crowds())
def test_what_is_known_of_more_workers_saves_looking_again(labels: CrowdLabels) -> None:
    members = few_worker_tasks(labels.worker, labels.task_start, 5)
    known: dict[bytes, tuple[int, int]] = {}
    for k in range(5, 0, -1):
        found = greedy_workers(members, labels.n_workers, k, known=known)
        assert np.array_equal(found, greedy_workers(members, labels.n_workers, k))

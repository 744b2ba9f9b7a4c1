"""Penalties against slow definitions, hand-worked crowds and the paper's first theorem."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import spearmanr

from quality import (
    CrowdLabels,
    conflict_graph,
    conflict_tasks,
    encode,
    hard_penalty,
    regular_assignment,
    semi_matching,
    simulate_crowd,
    soft_penalty,
)
from tests.quality.strategies import Row, crowds, label_rows, named_crowd

QUICK = settings(max_examples=80, deadline=None, derandomize=True)


def labels_by_task(labels: CrowdLabels) -> dict[int, dict[int, list[int]]]:
    """Task to class to the workers who gave it, conflict tasks only."""
    tasks: dict[int, dict[int, list[int]]] = {}
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        tasks.setdefault(int(task), {}).setdefault(int(label), []).append(int(worker))
    return {task: given for task, given in tasks.items() if len(given) > 1}


@QUICK
@given(crowds())
def test_soft_penalty_is_the_mean_of_one_over_who_said_the_same(labels: CrowdLabels) -> None:
    shares: list[list[float]] = [[] for _ in range(labels.n_workers)]
    for given_labels in labels_by_task(labels).values():
        for workers in given_labels.values():
            for worker in workers:
                shares[worker].append(1 / len(workers))
    expected = [np.mean(share) if share else 0.0 for share in shares]
    assert soft_penalty(labels) == pytest.approx(expected)


@QUICK
@given(crowds())
def test_conflict_graph_joins_each_label_given_to_its_workers(labels: CrowdLabels) -> None:
    nodes = [
        workers
        for _, given_labels in sorted(labels_by_task(labels).items())
        for _, workers in sorted(given_labels.items())
    ]
    graph = conflict_graph(labels)
    assert graph.shape == (len(nodes), labels.n_workers)
    assert nodes == [np.flatnonzero(row).tolist() for row in graph.toarray()]
    assert np.flatnonzero(conflict_tasks(labels)).tolist() == sorted(labels_by_task(labels))


@QUICK
@given(crowds())
def test_soft_penalty_is_0_or_between_one_over_workers_and_1(labels: CrowdLabels) -> None:
    penalty = soft_penalty(labels)
    judged = np.bincount(
        labels.worker[conflict_tasks(labels)[labels.task]], minlength=labels.n_workers
    ).astype(bool)
    assert (penalty[~judged] == 0).all()
    assert (penalty[judged] >= 1 / labels.n_workers - 1e-12).all()
    assert (penalty <= 1).all()


@QUICK
@given(crowds())
def test_hard_penalties_add_up_to_the_label_nodes(labels: CrowdLabels) -> None:
    graph, penalty = conflict_graph(labels), hard_penalty(labels)
    assert penalty.sum() == graph.shape[0]
    assert (penalty <= graph.sum(axis=0)).all()
    assert np.array_equal(penalty, semi_matching(graph).load)


@QUICK
@given(label_rows())
def test_tasks_without_conflict_change_no_penalty(rows: list[Row]) -> None:
    labels = named_crowd(rows)
    workers = labels.workers.tolist()
    calm = named_crowd(rows + [(worker, "calm", "a") for worker in workers])
    assert soft_penalty(calm) == pytest.approx(soft_penalty(labels))
    assert np.array_equal(hard_penalty(calm), hard_penalty(labels))


@QUICK
@given(label_rows())
def test_renaming_changes_nobodys_soft_penalty_and_no_sorted_hard_ones(rows: list[Row]) -> None:
    turn = {"a": "c", "b": "a", "c": "b"}
    renamed = named_crowd([(w[::-1], t[::-1], turn[k]) for w, t, k in rows])
    labels = named_crowd(rows)
    place = [renamed.workers.tolist().index(w[::-1]) for w in labels.workers.tolist()]
    assert soft_penalty(labels).tolist() == soft_penalty(renamed)[place].tolist()
    assert sorted(hard_penalty(labels)) == sorted(hard_penalty(renamed))


def test_a_hand_worked_crowd() -> None:
    """Tasks 1: ann, bob x / cy y. 2: all x. 3: ann x / bob y / cy z, worked out on paper."""
    labels = encode(["ann", "bob", "cy"] * 3, [1, 1, 1, 2, 2, 2, 3, 3, 3], list("xxyxxxxyz"))
    assert soft_penalty(labels).tolist() == [0.75, 0.75, 1.0]
    assert sorted(hard_penalty(labels).tolist()) == [1, 2, 2]


def test_no_conflict_no_penalty() -> None:
    labels = encode(["ann", "bob"], [1, 2], ["x", "y"])
    assert soft_penalty(labels).tolist() == [0.0, 0.0]
    assert hard_penalty(labels).tolist() == [0, 0]
    assert conflict_graph(labels).shape == (0, 2)


def test_soft_penalties_order_honest_workers_by_reliability(rng: np.random.Generator) -> None:
    """Theorem 1 of the paper: every worker labels every task, nobody is an adversary.

    Accuracies spread over about 0.5 to 0.95, 4,000 tasks: rank correlation is near -1.
    """
    assignment = regular_assignment(n_tasks=4000, n_workers=40, labels_per_task=40, rng=rng)
    truth = rng.integers(2, size=4000)
    crowd = simulate_crowd(
        assignment, truth, n_classes=2, adversaries={}, reliability=(12.0, 4.0), rng=rng
    )
    penalty = soft_penalty(encode(crowd.worker, crowd.task, crowd.label))
    assert spearmanr(crowd.accuracy, penalty).statistic < -0.97

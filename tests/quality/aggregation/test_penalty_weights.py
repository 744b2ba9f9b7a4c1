"""The penalty-based aggregator: the rule of the paper's figure 1, and where it does not decide."""

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    conflict_graph,
    encode,
    majority_vote,
    power_law_assignment,
    semi_matching,
)
from quality.aggregation.penalty_weights import penalty_vote
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def representatives(labels: CrowdLabels) -> dict[tuple[int, int], int]:
    """The load of whoever answers for each (task, class) in conflict, node by node."""
    matching = semi_matching(conflict_graph(labels))
    pairs = sorted({(int(t), int(k)) for t, k in zip(labels.task, labels.label, strict=True)})
    given_classes = [task for task, _ in pairs]
    nodes = [pair for pair in pairs if given_classes.count(pair[0]) > 1]
    loads = matching.load[matching.assigned].tolist()
    return dict(zip(nodes, loads, strict=True))


@QUICK
@given(crowds())
def test_the_class_of_the_lowest_load_is_chosen_and_equal_loads_tie(labels: CrowdLabels) -> None:
    vote, load = penalty_vote(labels), representatives(labels)
    for task in range(labels.n_tasks):
        sides = {k: load_of for (t, k), load_of in load.items() if t == task}
        sides = sides or {int(labels.label[labels.task == task][0]): 0}
        best = [k for k, value in sides.items() if value == min(sides.values())]
        assert vote.label[task] == min(best)
        assert vote.tied[task] == (len(best) > 1)
        assert vote.posterior[task].tolist() == [(k in best) / len(best) for k in range(3)]


@QUICK
@given(crowds())
def test_the_class_chosen_is_one_that_was_given(labels: CrowdLabels) -> None:
    chosen = penalty_vote(labels).label
    assert (labels.counts()[np.arange(labels.n_tasks), chosen] > 0).all()


def test_a_task_without_labels_is_tied_between_all_classes() -> None:
    labels = encode(["a", "b"], [1, 2], ["x", "y"]).keep_workers(np.array([True, False]))
    vote = penalty_vote(labels)
    assert vote.posterior.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert vote.tied.tolist() == [False, True]


def test_one_against_one_is_a_tie() -> None:
    assert penalty_vote(encode(["a", "b"], [1, 1], ["x", "y"])).tied.tolist() == [True]


def test_same_on_every_run() -> None:
    labels = encode([0, 1, 2, 3] * 2, [1] * 4 + [2] * 4, list("xxyyyxxy"))
    one, other = penalty_vote(labels), penalty_vote(labels)
    assert one.posterior.tobytes() == other.posterior.tobytes()


def test_busy_malicious_workers_win_fewer_tasks_than_by_majority(rng: np.random.Generator) -> None:
    """40 honest workers who are always right; the 4 busiest of 44 always answer wrong."""
    assignment = power_law_assignment(
        n_tasks=600, n_workers=44, labels_per_task=5, exponent=1.5, rng=rng
    )
    truth = rng.integers(2, size=600)
    busiest = np.argsort(-np.bincount(assignment.worker, minlength=44))[:4]
    answer = truth[assignment.task] ^ np.isin(assignment.worker, busiest)
    labels = encode(assignment.worker, assignment.task, answer)
    wrong = [
        np.mean(1 - vote(labels).posterior[np.arange(600), truth])
        for vote in (majority_vote, penalty_vote)
    ]
    assert wrong[1] < wrong[0] / 2


@pytest.mark.parametrize("n_classes", [1, 3])
def test_unanimous_labels_are_believed(n_classes: int) -> None:
    labels = encode(["a", "b"] * 2, [1, 1, 2, 2], [0, 0, 0, 0], classes=range(n_classes))
    assert penalty_vote(labels).posterior[:, 0].tolist() == [1.0, 1.0]

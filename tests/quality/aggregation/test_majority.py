"""Majority vote: shares, ties, and the published accuracies."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from quality import CrowdLabels, encode, majority_vote
from tests.quality.real_data import read_crowd
from tests.quality.strategies import Row, crowds, label_rows, named_crowd

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


@QUICK
@given(crowds())
def test_posterior_is_the_share_of_labels(labels: CrowdLabels) -> None:
    vote = majority_vote(labels)
    for task in range(labels.n_tasks):
        given_labels = labels.label[labels.task == task]
        shares = [np.mean(given_labels == k) for k in range(3)]
        assert vote.posterior[task] == pytest.approx(shares)
        assert vote.label[task] == shares.index(max(shares))
        assert vote.tied[task] == (shares.count(max(shares)) > 1)


@QUICK
@given(label_rows())
def test_a_task_depends_on_its_own_labels_alone(rows: list[Row]) -> None:
    task = rows[0][1]
    alone = majority_vote(named_crowd([row for row in rows if row[1] == task]))
    labels = named_crowd(rows)
    code = labels.tasks.tolist().index(task)
    assert np.array_equal(alone.posterior[0], majority_vote(labels).posterior[code])


def test_a_task_without_labels_is_tied_between_all_classes() -> None:
    labels = encode(["a", "b"], [1, 2], ["x", "y"]).keep_workers(np.array([True, False]))
    vote = majority_vote(labels)
    assert vote.posterior.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert vote.tied.tolist() == [False, True]
    assert vote.label.tolist() == [0, 0]


@pytest.mark.parametrize(("name", "published"), [("rte", 89.69), ("web", 73.07)])
def test_accuracy_with_ties_split_is_the_data_readmes(
    shared_data: Path, name: str, published: float
) -> None:
    """Golden: the table of the shared data's README.md, ties split in expectation."""
    labels, gold = read_crowd(shared_data / name)
    posterior, known = majority_vote(labels).posterior, gold >= 0
    best = posterior >= posterior.max(axis=1, keepdims=True) - 1e-12
    credit = best[known, gold[known]] / best[known].sum(axis=1)
    assert 100 * credit.mean() == pytest.approx(published, abs=0.1)


def test_accuracy_with_ties_to_the_first_class_is_the_papers(shared_data: Path) -> None:
    """Golden: the shared data's README.md, 91.88; Jagabathula et al., table 1, 91.9."""
    labels, gold = read_crowd(shared_data / "rte")
    assert 100 * np.mean(majority_vote(labels).label == gold) == pytest.approx(91.88, abs=0.1)

"""Majority votes: shares, weights, ties, and the published accuracies."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.quality.crowd_sets import read_set
from quality import (
    CrowdLabels,
    dawid_skene,
    ebcc,
    encode,
    glad,
    hierarchical_dawid_skene,
    kos,
    kos_plus,
    mace,
    majority_vote,
    mmsr,
    one_coin_dawid_skene,
    penalty_vote,
    weighted_majority,
)
from quality.aggregation import decide
from quality.labels import LabelError, check_table
from quality.many_classes import weighted_of_named
from tests.quality.labels.strategies import Row, crowds, label_rows, named_crowd

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
    labels, gold = read_set(shared_data / name)
    posterior, known = majority_vote(labels).posterior, gold >= 0
    best = posterior >= posterior.max(axis=1, keepdims=True) - 1e-12
    credit = best[known, gold[known]] / best[known].sum(axis=1)
    assert 100 * credit.mean() == pytest.approx(published, abs=0.1)


def test_accuracy_with_ties_to_the_first_class_is_the_papers(shared_data: Path) -> None:
    """Golden: the shared data's README.md, 91.88; Jagabathula et al., table 1, 91.9."""
    labels, gold = read_set(shared_data / "rte")
    assert 100 * np.mean(majority_vote(labels).label == gold) == pytest.approx(91.88, abs=0.1)


@QUICK
@given(crowds())
def test_with_equal_weights_it_is_the_majority_vote(labels: CrowdLabels) -> None:
    plain = majority_vote(labels)
    result = weighted_majority(labels, np.full(labels.n_workers, 0.3))
    assert result.posterior == pytest.approx(plain.posterior)
    assert np.array_equal(result.label, plain.label)
    assert np.array_equal(result.tied, plain.tied)


@QUICK
@given(crowds())
def test_a_worker_of_weight_zero_might_as_well_not_have_answered(labels: CrowdLabels) -> None:
    weight = np.linspace(0.0, 1.0, labels.n_workers)
    without = weighted_majority(labels.keep_workers(weight > 0), weight)
    assert np.array_equal(weighted_majority(labels, weight).posterior, without.posterior)


def test_a_member_of_weight_zero_has_no_say_in_her_group() -> None:
    labels = encode(["a", "b", "c"], [1, 1, 1], ["x", "y", "y"])
    weight, groups = np.array([1.0, 0.0, 0.0]), np.zeros(3, dtype=np.int64)
    for vote in (weighted_majority, weighted_of_named):
        found = vote(labels, weight, groups=groups)
        assert labels.classes[found.label].tolist() == ["x"]


@pytest.mark.parametrize("factor", [1e-300, 0.5, 1e300])
def test_only_ratios_of_weights_matter(factor: float) -> None:
    labels = encode(["a", "b", "c", "a"], [1, 1, 1, 2], ["x", "y", "y", "x"])
    weight = np.array([0.9, 0.2, 0.4])
    result = weighted_majority(labels, weight * factor)
    assert result.posterior == pytest.approx(np.array([[0.6, 0.4], [1.0, 0.0]]))


def test_weights_of_a_group_may_be_near_the_largest_number() -> None:
    labels = encode(["a", "b", "c", "d"], [1, 1, 1, 1], ["x", "x", "y", "y"])
    groups = np.array([0, 0, -1, -1])
    for vote in (weighted_majority, weighted_of_named):
        found = vote(labels, np.full(4, 1.7e308), groups=groups)
        assert found.posterior[np.array([0])] == pytest.approx(np.array([[1 / 3, 2 / 3]]))


def test_weights_may_outvote_and_may_tie() -> None:
    """By hand: 3 against 1 + 1, then 1 against 1."""
    labels = encode(["a", "b", "c", "b", "c"], [1, 1, 1, 2, 2], ["y", "x", "x", "y", "x"])
    result = weighted_majority(labels, np.array([3.0, 1.0, 1.0]))
    assert labels.classes[result.label].tolist() == ["y", "x"]
    assert result.tied.tolist() == [False, True]
    assert repr(result) == "WeightedMajority(2 tasks, 1 tied)"


def test_a_task_without_weight_is_tied_between_all_classes() -> None:
    labels = encode(["a", "b"], [1, 2], ["x", "y"])
    result = weighted_majority(labels, np.array([0.0, 1.0]))
    assert result.posterior.tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert result.tied.tolist() == [True, False]


@pytest.mark.refusal
@pytest.mark.parametrize(
    "weight",
    [np.ones(3), np.ones((2, 1)), np.array([1, 2]), np.array([1.0, -1.0]),
     np.array([1.0, np.nan]), np.array([1.0, np.inf])],
)  # fmt: skip
def test_weights_that_are_none_are_refused(weight: np.ndarray) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match="weight must be"):
        weighted_majority(labels, weight)


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_a_posterior_of_any_width_is_decided(kind: type) -> None:
    label, tied = decide(np.array([[0.25, 0.75], [0.5, 0.5]], dtype=kind))
    assert (label.tolist(), tied.tolist()) == ([1, 0], [False, True])


@pytest.mark.parametrize(
    "aggregate",
    [
        majority_vote, dawid_skene, one_coin_dawid_skene, hierarchical_dawid_skene, glad, mace, mmsr,
        penalty_vote, lambda labels: weighted_majority(labels, np.ones(2)),
        lambda labels: kos(labels, rng=np.random.default_rng(0)),
        lambda labels: kos_plus(labels, rng=np.random.default_rng(0)),
        lambda labels: ebcc(labels, n_subtypes=1, rng=np.random.default_rng(0)),
    ],
)  # fmt: skip
def test_a_huge_and_nearly_empty_posterior_is_refused(aggregate: Callable[..., object]) -> None:
    """It would be of 1.3 GB for 20,000 labels; some aggregators hold two, or as many counts again."""
    labels = encode(
        np.arange(20_000) % 2, np.arange(20_000), np.zeros(20_000, int), classes=range(8_000)
    )
    with pytest.raises(
        LabelError, match=r"tasks times classes must be at most .* 20,000 tasks and 8,000"
    ):
        aggregate(labels)


def test_a_fourth_of_the_labels_may_be_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quality.labels.table.MAX_CELLS", 10)
    labels = encode(np.arange(40), np.arange(40), np.zeros(40, int), classes=range(100))
    check_table(labels.n_tasks, labels.n_classes, labels.n_labels)
    fourth, fewer = (labels.keep_workers(np.arange(40) < n) for n in (10, 9))
    assert majority_vote(fourth).posterior.shape == (40, 100)
    with pytest.raises(LabelError, match="40 tasks and 100 classes with 9 labels"):
        majority_vote(fewer)

"""Agreement: Krippendorff's own example, a slow alpha, Wilson's interval."""

import tracemalloc
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    accuracy,
    agreement_rows,
    encode,
    krippendorff_alpha,
    wilson_interval,
    worker_agreement,
)
from quality.reports.agreement import pairwise_agreement
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=80, deadline=None, derandomize=True)


def slow_alpha(labels: CrowdLabels) -> float:
    """By the coincidence matrix: every ordered pair of labels of a task counts 1 / (m - 1)."""
    coincidence = np.zeros((labels.n_classes, labels.n_classes))
    for task in range(labels.n_tasks):
        mine = labels.label[labels.task == task]
        for one, other in permutations(mine, 2):
            coincidence[one, other] += 1 / (len(mine) - 1)
    margin = coincidence.sum(axis=1)
    apart = margin.sum() ** 2 - (margin**2).sum()
    if not apart > 1e-9:
        return float("nan")
    return float(1 - (margin.sum() - 1) * (coincidence.sum() - np.trace(coincidence)) / apart)


def test_alpha_of_krippendorffs_example() -> None:
    """Golden: Krippendorff (2011), section C: nominal, 4 observers, missing labels, 0.743."""
    table = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    rows = [
        (observer, unit, label)
        for observer, answers in enumerate(table)
        for unit, label in enumerate(answers)
        if label != "."
    ]
    assert krippendorff_alpha(encode(*zip(*rows, strict=True))) == pytest.approx(0.743, abs=5e-4)


@QUICK
@given(crowds())
def test_alpha_is_the_coincidence_matrix_alpha(labels: CrowdLabels) -> None:
    assert krippendorff_alpha(labels) == pytest.approx(slow_alpha(labels), nan_ok=True)


def test_alpha_is_1_in_full_agreement_and_undefined_without_variation() -> None:
    assert krippendorff_alpha(encode([1, 2, 1, 2], [1, 1, 2, 2], [0, 0, 1, 1])) == 1
    assert np.isnan(krippendorff_alpha(encode([1, 2], [1, 1], [0, 0])))
    assert np.isnan(krippendorff_alpha(encode([1, 2], [1, 2], [0, 1])))


def test_agreement_is_the_share_of_equal_labels_and_nan_without_labels() -> None:
    labels = encode(["a", "a", "b", "c"], [1, 2, 1, 2], list("xyyx"))
    labels = labels.keep_workers(np.array([True, True, False]))
    found = worker_agreement(labels, np.array([0, 0]))
    assert found[:2].tolist() == [0.5, 0.0]
    assert np.isnan(found[2])


def test_wilson_interval_of_the_literature() -> None:
    """Golden: Newcombe, Statistics in Medicine 17 (1998), table I, method 3 (Wilson, no correction)."""
    n_correct, n = np.array([81, 15, 0, 1]), np.array([263, 148, 20, 29])
    expected = [[0.2553, 0.3662], [0.0624, 0.1605], [0.0, 0.1611], [0.0061, 0.1718]]
    assert wilson_interval(n_correct, n) == pytest.approx(np.array(expected), abs=5e-5)


def test_wilson_interval_without_trials_is_everything_and_stays_in_0_to_1() -> None:
    ends = wilson_interval(np.array([0, 0, 9]), np.array([0, 9, 9]))
    assert ends[0].tolist() == [0.0, 1.0]
    assert ends[1, 0] == 0.0
    assert ends[2, 1] == 1.0


def test_accuracy_counts_the_tasks_with_gold() -> None:
    found = accuracy(np.array([0, 1, 1, 0]), np.array([0, 1, 0, -1]))
    assert (found.n, found.n_correct, found.value) == (3, 2, 2 / 3)
    assert (found.lower, found.upper) == tuple(wilson_interval(np.array(2), np.array(3)))
    assert np.isnan(accuracy(np.array([0]), np.array([-1])).value)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\), got level=1.0"):
        wilson_interval(np.array(1), np.array(2), level=1.0)
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\), got level=nan"):
        accuracy(np.array([1]), np.array([1]), level=float("nan"))
    with pytest.raises(ValueError, match="n_correct must be in"):
        wilson_interval(np.array(3), np.array(2))


@pytest.mark.refusal
def test_labels_and_gold_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one entry per task"):
        accuracy(np.array([1, 1]), np.array([1]))


@pytest.mark.refusal
@pytest.mark.parametrize("n", [1, 3])
def test_a_consensus_of_other_tasks_is_refused(n: int) -> None:
    labels = encode(["ann", "bob", "ann"], [1, 1, 2], list("xyx"))
    with pytest.raises(ValueError, match="label must be 2 codes, one per task"):
        worker_agreement(labels, np.zeros(n, dtype=int))


def test_agreement_beyond_chance_takes_no_room_for_classes_that_nobody_gave() -> None:
    """Twenty thousand tasks by as many classes: a product over all of them takes 1.6 GB."""
    task = np.arange(20_000)
    labels = encode(task % 3, task, task % 7, classes=range(20_000))
    tracemalloc.start()
    try:
        agreement_rows(labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6


@QUICK
@given(crowds())
def test_pairwise_agreement_is_that_of_listed_pairs(labels: CrowdLabels) -> None:
    """Oracle: every pair of rows."""
    rows = zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True)
    pairs = [
        (one[1], other[1], one[2] == other[2])
        for one, other in combinations(rows, 2)
        if one[0] == other[0]
    ]
    found = pairwise_agreement(labels)
    assert found.n_pairs == len(pairs)
    expected = np.mean([same for *_, same in pairs]) if pairs else np.nan
    assert found.value == pytest.approx(expected, nan_ok=True)
    for worker in range(labels.n_workers):
        hers = [same for one, other, same in pairs if worker in (one, other)]
        assert found.worker_pairs[worker] == len(hers)
        expected = np.mean(hers) if hers else np.nan
        assert found.worker[worker] == pytest.approx(expected, nan_ok=True)
    assert "nan" in repr(found) or pairs


@QUICK
@given(crowds())
def test_agreement_beyond_chance_is_that_of_each_pair_and_symmetric(labels: CrowdLabels) -> None:
    found = agreement_rows(labels)
    assert np.array_equal(found, found.T)
    for one, two in combinations(range(labels.n_workers), 2):
        mine, other = (
            dict(
                zip(labels.task[labels.worker == w], labels.label[labels.worker == w], strict=True)
            )
            for w in (one, two)
        )
        common = mine.keys() & other.keys()
        chance = sum(
            list(mine.values()).count(c) * list(other.values()).count(c)
            for c in range(labels.n_classes)
        ) / max(len(mine) * len(other), 1)
        share = sum(mine[t] == other[t] for t in common) / max(len(common), 1)
        assert found[one, two] == pytest.approx(share - chance if common else 0.0)

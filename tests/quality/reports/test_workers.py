"""The worker report: numbers by their definition, sentences a person can act on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    balanced_penalty,
    conflict_graph,
    encode,
    filter_dishonest,
    filter_workers,
    load_levels,
    majority_vote,
    soft_penalty,
    worker_report,
)
from quality.reports.timing import response_times
from quality.reports.workers import _ordinal
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def crowd() -> CrowdLabels:
    """Cy is alone on tasks 1 to 3, eve says x where nobody else speaks."""
    return encode(
        ["ann", "bob", "cy"] * 3 + ["eve"], [1, 1, 1, 2, 2, 2, 3, 3, 3, 4], list("xxyyyxxxyx")
    )


@QUICK
@given(crowds())
def test_numbers_are_those_of_a_slow_count(labels: CrowdLabels) -> None:
    filtered = filter_workers(labels, n_workers=2)
    vote = majority_vote(labels)
    gold = np.arange(labels.n_tasks) % 3 - 1
    report = worker_report(labels, filtered, vote.posterior, gold=gold)
    in_conflict = (labels.counts() > 0).sum(axis=1) > 1
    for worker in range(labels.n_workers):
        mine = labels.worker == worker
        task, label = labels.task[mine], labels.label[mine]
        assert report.n_labels[worker] == mine.sum()
        assert report.n_conflict[worker] == in_conflict[task].sum()
        assert report.agreement[worker] == pytest.approx(np.mean(label == vote.label[task]))
        assert report.gold_n[worker] == (gold[task] >= 0).sum()
        assert report.gold_correct[worker] == (gold[task] == label).sum()
        assert report.constant[worker] == (len(label) > 1 and len(set(label.tolist())) == 1)
    assert np.array_equal(report.soft_penalty, soft_penalty(labels))
    levels = load_levels(conflict_graph(labels))
    assert np.array_equal(report.hard_penalty, levels.level)
    assert np.array_equal(report.hard_least, levels.least)
    assert np.array_equal(report.balanced_penalty, balanced_penalty(labels))
    assert np.isnan(report.median_seconds).all()
    assert not report.hasty.any()
    assert np.array_equal(report.flagged, ~filtered.keep)


@QUICK
@given(crowds())
def test_reputation_falls_with_the_soft_penalty_and_is_unknown_without_conflict(
    labels: CrowdLabels,
) -> None:
    report = worker_report(
        labels, filter_workers(labels, n_workers=0), majority_vote(labels).posterior
    )
    known = report.n_conflict > 0
    assert np.isnan(report.reputation[~known]).all()
    assert report.reputation[known] == pytest.approx(1 - report.soft_penalty[known])
    assert ((report.reputation[known] >= 0) & (report.reputation[known] < 1)).all()


def test_reasons_say_what_was_done_and_on_which_evidence() -> None:
    labels = crowd()
    gold = np.array([0, -1, 0, -1])
    report = worker_report(
        labels, filter_workers(labels, n_workers=1), majority_vote(labels).posterior, gold=gold
    )
    assert report.reason == (
        "kept: soft penalty 0.5, agrees with the consensus on 100% of 3 labels, 2 of 2 right on gold",
        "kept: soft penalty 0.5, agrees with the consensus on 100% of 3 labels, 2 of 2 right on gold",
        "removed 1st at soft penalty 1, agrees with the consensus on 0% of 3 labels, "
        "0 of 2 right on gold",
        "no conflict task: no evidence",
    )


def test_a_p_value_stands_beside_the_penalty_of_its_round() -> None:
    rng = np.random.default_rng(0)
    truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    wrong[7] = True
    worker, task = np.divmod(np.arange(1200), 60)
    labels = encode(worker, task, (truth ^ wrong).ravel())
    filtered = filter_dishonest(labels, rng=rng)
    assert filtered.removed.tolist() == [7]
    report = worker_report(labels, filtered, majority_vote(labels).posterior)
    first, last = soft_penalty(labels)[0], soft_penalty(labels.keep_workers(filtered.keep))[0]
    assert report.reason[0].startswith(
        f"kept: soft penalty {first:.3g}, when last judged {last:.3g} (p-value {filtered.p_value[0]:.2g})"
    )
    removed = replace(filtered, p_value=np.zeros(20))
    assert (
        "(p-value < 1e-300)"
        in worker_report(labels, removed, majority_vote(labels).posterior).reason[7]
    )


def test_one_answer_and_too_little_time_are_told() -> None:
    """Seven workers on ten tasks; gil always says x, and takes 2 seconds where others take 20."""
    worker, task = np.tile(list("abcdefg"), 10), np.repeat(np.arange(10), 7)
    labels = encode(worker, task, np.where((task % 2 == 0) | (worker == "g"), "x", "y"))
    seconds = np.where(labels.workers[labels.worker] == "g", 2.0, 20.0)
    filtered = filter_workers(labels, n_workers=0)
    report = worker_report(labels, filtered, majority_vote(labels).posterior, seconds=seconds)
    assert np.flatnonzero(report.constant).tolist() == [6]
    assert np.flatnonzero(report.hasty).tolist() == [6]
    assert report.median_seconds.tolist() == [20.0] * 6 + [2.0]
    assert np.array_equal(report.hasty, response_times(labels, seconds).hasty)
    assert report.reason[6] == (
        "kept: soft penalty 1, agrees with the consensus on 50% of 10 labels, always x, "
        "half of them within 2 s"
    )
    assert repr(report) == (
        "WorkerReport(7 workers, 0 flagged, 0 without conflict tasks, 1 with one answer, 1 hasty)"
    )


def test_a_refused_removal_is_told_with_its_reason() -> None:
    labels = crowd()
    filtered = filter_workers(labels, n_workers=1, min_labels_per_task=3)
    report = worker_report(labels, filtered, majority_vote(labels).posterior)
    assert report.reason[2] == (
        "kept in spite of soft penalty 1 (3 tasks would be left with fewer than 3 labels, "
        "the first is 1), agrees with the consensus on 0% of 3 labels"
    )
    assert not report.flagged.any()


def test_a_worker_whose_labels_are_gone_is_not_judged() -> None:
    labels = crowd().keep_workers(np.array([True, True, False, True]))
    report = worker_report(
        labels, filter_workers(labels, n_workers=1), majority_vote(labels).posterior
    )
    assert report.reason[2] == "no labels: no evidence"
    assert np.isnan(report.agreement[2])
    assert np.isnan(report.reputation[2])


def test_arguments_that_do_not_fit_are_refused() -> None:
    labels = crowd()
    filtered, vote = filter_workers(labels, n_workers=1), majority_vote(labels)
    other = filter_workers(encode([1, 2], [1, 1], [0, 1]), n_workers=1)
    with pytest.raises(ValueError, match="filtered must be about 4 workers, got 2"):
        worker_report(labels, other, vote.posterior)
    with pytest.raises(ValueError, match=r"posterior must have shape \(4, 2\), got \(3, 2\)"):
        worker_report(labels, filtered, vote.posterior[1:])
    with pytest.raises(ValueError, match="posterior must hold rows of probabilities"):
        worker_report(labels, filtered, vote.posterior * np.nan)


@pytest.mark.refusal
def test_gold_that_does_not_fit_is_refused() -> None:
    labels = crowd()
    filtered, vote = filter_workers(labels, n_workers=1), majority_vote(labels)
    with pytest.raises(
        ValueError, match=r"gold must be 4 class codes, one per task .* shape \(2,\)"
    ):
        worker_report(labels, filtered, vote.posterior, gold=np.array([0, 1]))
    with pytest.raises(ValueError, match="gold must be class codes from -1 to 1"):
        worker_report(labels, filtered, vote.posterior, gold=np.array([0, 1, 2, -1]))


def test_ordinals_are_english() -> None:
    places = (1, 2, 3, 4, 11, 12, 13, 21, 101, 112)
    expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "112th"]
    assert expected == [_ordinal(place) for place in places]


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float16, np.longdouble])
def test_a_posterior_of_any_width_is_taken(kind: type) -> None:
    labels = encode(["ann", "bob"], [1, 1], ["x", "y"])
    report = worker_report(
        labels, filter_workers(labels, n_workers=0), np.array([[0.25, 0.75]], dtype=kind)
    )
    assert report.agreement.tolist() == [0.0, 1.0]


def test_all_and_none_are_said_only_of_all_and_none() -> None:
    """Ann agrees with 299 of 300 labels, bob with 1, cy and dan with all."""
    task = np.tile(np.arange(300), 4)
    others = np.zeros(300, dtype=int)
    ann, bob = np.where(np.arange(300) == 7, 1, 0), np.where(np.arange(300) == 7, 0, 1)
    given = np.concatenate([ann, bob, others, others])
    labels = encode(np.repeat(["ann", "bob", "cy", "dan"], 300), task, given)
    report = worker_report(
        labels, filter_workers(labels, n_workers=0), majority_vote(labels).posterior
    )
    said = [reason.split(" consensus on ")[1].split(" of ")[0] for reason in report.reason]
    assert said == ["99%", "1%", "100%", "100%"]

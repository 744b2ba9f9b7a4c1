"""Crowds who guess are not believed, crowds who know as before; bounds, groups and shards."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from quality import (
    Consensus,
    CrowdLabels,
    LocalEngine,
    calibrate,
    cut_labels,
    dawid_skene,
    dependent_groups,
    encode,
    hierarchical_dawid_skene,
    krippendorff_alpha,
    majority_vote,
    regular_assignment,
    support_by_shards,
    task_support,
)
from quality.aggregation import majority_of_shard
from quality.agreement import beyond_chance, reliability_of_votes
from quality.confidence.calibration import PRIOR, design
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
ALPHAS = st.floats(-1.0, 1.0)
VOTES = st.floats(1.0, 100.0)


def crowd_of_skill(
    skill: float, seed: int = 0, *, n_classes: int = 3, n_tasks: int = 600
) -> tuple[CrowdLabels, np.ndarray]:
    """Sixty workers, five a task, each of whom knows the truth so often and else guesses."""
    rng = np.random.default_rng(seed)
    asked = regular_assignment(n_tasks=n_tasks, n_workers=60, labels_per_task=5, rng=rng)
    truth = rng.integers(n_classes, size=n_tasks)
    guess = rng.integers(n_classes, size=len(asked.task))
    knows = rng.random(len(asked.task)) < skill
    given_labels = np.where(knows, truth[asked.task], guess)
    labels = encode(asked.worker, asked.task, given_labels, classes=list(range(n_classes)))
    return labels, truth[labels.tasks]


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("fit", [majority_vote, dawid_skene, hierarchical_dawid_skene])
def test_crowds_at_chance_are_not_believed(
    fit: Callable[[CrowdLabels], Consensus], n_classes: int
) -> None:
    for seed in range(3):
        labels, truth = crowd_of_skill(0.0, seed, n_classes=n_classes)
        found = calibrate(labels, fit(labels).posterior)
        assert found.hardly_known
        assert abs(found.confidence.mean() - 1 / n_classes) < 0.1
        assert abs(found.confidence.mean() - np.mean(found.label == truth)) < 0.1


def test_who_hardly_knows_is_hardly_believed() -> None:
    """Without the mixture confidence was .69 to .72 where .37 to .43 are right."""
    for skill in (0.1, 0.2):
        for fit in (dawid_skene, hierarchical_dawid_skene):
            labels, truth = crowd_of_skill(skill)
            found = calibrate(labels, fit(labels).posterior)
            assert abs(found.confidence.mean() - np.mean(found.label == truth)) < 0.12


def test_crowds_like_public_ones_are_believed_as_the_regression_says() -> None:
    labels, _ = crowd_of_skill(0.8)
    support = task_support(labels, dawid_skene(labels).posterior)
    found = calibrate(labels, dawid_skene(labels).posterior)
    assert found.beyond_chance > 0.98
    assert not found.hardly_known
    assert np.abs(found.confidence - expit(design(support) @ PRIOR.mean)).max() < 0.02


def test_a_rare_class_is_rarely_guessed_right() -> None:
    """Who say no nine times in ten, whatever the task, are believed so far where they say no."""
    rng = np.random.default_rng(3)
    asked = regular_assignment(n_tasks=2000, n_workers=60, labels_per_task=5, rng=rng)
    said = (rng.random(len(asked.task)) < 0.1).astype(np.int64)
    labels = encode(asked.worker, asked.task, said, classes=[0, 1])
    found = calibrate(labels, majority_vote(labels).posterior)
    assert found.hardly_known
    assert abs(found.confidence[found.label == 0].mean() - 0.9) < 0.03
    assert found.confidence[found.label == 1].mean() < 0.5


def test_a_class_that_is_given_only_where_one_worker_voted_is_not_ruled_out() -> None:
    """One worker has all labels, and one more worker disagrees with her: confidence was 0."""
    labels = encode(["ann"] * 8 + ["bob"], [*range(8), 0], list("acababcbb"))
    found = calibrate(labels, majority_vote(labels).posterior)
    assert found.hardly_known
    assert found.confidence.min() == 0.25


def test_gold_says_more_than_likeness() -> None:
    labels, truth = crowd_of_skill(0.1)
    gold = np.where(np.arange(len(truth)) < 100, truth, -1)
    found = calibrate(labels, dawid_skene(labels).posterior, gold=gold)
    assert found.beyond_chance == 1
    assert not found.hardly_known


def test_copied_guesses_are_no_knowledge_where_a_group_has_one_vote() -> None:
    labels, _ = crowd_of_skill(0.0)
    script = np.random.default_rng(1).integers(3, size=600)
    copied = np.arange(600) < 400
    rows = np.flatnonzero(copied)
    table = encode(
        np.concatenate([labels.worker, np.repeat(100 + np.arange(6), len(rows))]),
        np.concatenate([labels.task, np.tile(rows, 6)]),
        np.concatenate([labels.label, np.tile(script[rows], 6)]),
    )
    posterior = majority_vote(table).posterior
    groups = dependent_groups(table).group
    assert (groups >= 0).sum() == 6
    assert calibrate(table, posterior).beyond_chance > 0.9
    assert calibrate(table, posterior, groups=groups).hardly_known


@QUICK
@given(ALPHAS, ALPHAS, VOTES, VOTES)
def test_weight_and_reliability_lie_between_no_and_full_and_rise(
    one: float, other: float, few: float, many: float
) -> None:
    (low, high), (few, many) = sorted((one, other)), sorted((few, many))

    def weight(alpha: float, n_votes: float) -> float:
        return beyond_chance(reliability_of_votes(alpha, n_votes))

    for measure in (reliability_of_votes, weight):
        assert 0 <= measure(low, few) <= measure(high, few) + 1e-12 <= 1 + 1e-12
        assert measure(high, few) <= measure(high, many) + 1e-12
        assert low > 0 or measure(low, few) == 0


@QUICK
@given(st.floats(0, 1), VOTES, VOTES)
def test_votes_of_votes_are_as_reliable_as_all_of_them(a: float, m: float, n: float) -> None:
    """Spearman and Brown: a test n times as long, made m times as long."""
    twice = reliability_of_votes(reliability_of_votes(a, n), m)
    assert twice == pytest.approx(reliability_of_votes(a, m * n))
    assert reliability_of_votes(a, 1.0) == a


def test_reliability_is_the_correlation_of_two_halves_of_a_crowd() -> None:
    """Oracle: shares of votes by two crowds of five on the same tasks of two classes."""
    labels, _ = crowd_of_skill(0.5, n_classes=2, n_tasks=6000)
    alpha = krippendorff_alpha(labels)
    rng = np.random.default_rng(2)
    truth = rng.integers(2, size=6000)[:, np.newaxis]
    know, guess = rng.random((6000, 10)) < 0.5, rng.integers(2, size=(6000, 10))
    votes = np.where(know, truth, guess)
    halves = np.corrcoef(votes[:, :5].mean(axis=1), votes[:, 5:].mean(axis=1))[0, 1]
    assert reliability_of_votes(alpha, 5.0) == pytest.approx(halves, abs=0.04)


def test_where_no_task_has_two_votes_nothing_is_known_of_likeness() -> None:
    labels = encode(["ann", "bob", "cy"], [1, 2, 3], list("xyx"))
    support = task_support(labels, np.full((3, 2), 0.5))
    assert math.isnan(support.alike)
    assert math.isnan(reliability_of_votes(support.alike, 1.0))
    assert math.isnan(support.reliability)
    assert beyond_chance(support.reliability) == 1
    found = calibrate(labels, np.full((3, 2), 0.5))
    assert np.allclose(found.confidence, expit(design(support) @ PRIOR.mean))


@QUICK
@given(crowds())
def test_votes_are_alike_as_krippendorff_says_on_shards_too(labels: CrowdLabels) -> None:
    whole = task_support(labels, majority_vote(labels).posterior)
    cuts = sorted({0, labels.n_tasks // 2, labels.n_tasks})
    parts = support_by_shards(LocalEngine(cut_labels(labels, cuts)), majority_of_shard, None)
    expected = krippendorff_alpha(labels)
    assert whole.alike == pytest.approx(expected, nan_ok=True)
    assert parts.alike == pytest.approx(expected, nan_ok=True)
    merged = labels.merge_workers(np.where(np.arange(labels.n_workers) < 2, 0, -1))
    grouped = task_support(
        labels, majority_vote(labels).posterior,
        groups=np.where(np.arange(labels.n_workers) < 2, 0, -1),
    )  # fmt: skip
    assert grouped.alike == pytest.approx(krippendorff_alpha(merged), nan_ok=True)

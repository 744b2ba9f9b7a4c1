"""Votes weighed by how alike a worker's are on the other half: oracles, chance, who knows among who guess."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    LocalEngine,
    cut_labels,
    encode,
    krippendorff_alpha,
    majority_vote,
    regular_assignment,
    support_by_shards,
    task_support,
)
from quality.aggregation import majority_of_shard
from quality.agreement import (
    alpha_of,
    alpha_sums,
    reliability_of_votes,
    vote_weights,
    votes_like_others,
    weighed_reliability,
    weighed_sums,
)
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def crowd_of(knowing: float, seed: int, *, skill: float = 0.9) -> CrowdLabels:
    """900 tasks, 60 workers, five a task; a share of them know, the others guess among three classes."""
    rng = np.random.default_rng(seed)
    asked = regular_assignment(n_tasks=900, n_workers=60, labels_per_task=5, rng=rng)
    truth = rng.integers(3, size=900)
    knows = (asked.worker < knowing * 60) & (rng.random(len(asked.task)) < skill)
    said = np.where(knows, truth[asked.task], rng.integers(3, size=len(asked.task)))
    return encode(asked.worker, asked.task, said, classes=[0, 1, 2])


def weights_of(labels: CrowdLabels) -> np.ndarray:
    task = labels.task.astype(np.int64)
    counts = votes_like_others(
        task, labels.worker, labels.label, labels.n_workers, labels.n_classes
    )
    return vote_weights(*counts)


def weighed(labels: CrowdLabels, weights: np.ndarray) -> float:
    task = labels.task.astype(np.int64)
    sums = weighed_sums(task, labels.worker, labels.label, weights, labels.n_classes)
    return weighed_reliability(sums)


@QUICK
@given(crowds())
def test_pairs_of_votes_are_counted_as_they_come(labels: CrowdLabels) -> None:
    task = labels.task.astype(np.int64)
    pairs, same, by_class = votes_like_others(
        task, labels.worker, labels.label, labels.n_workers, labels.n_classes
    )
    expected, alike = np.zeros((2, 2, labels.n_workers), dtype=np.int64)
    classes = np.zeros((2, labels.n_classes), dtype=np.int64)
    for number in range(labels.n_tasks):
        rows = np.flatnonzero(task == number)
        for one, other in combinations(rows, 2):
            for row in (one, other):
                expected[number % 2, labels.worker[row]] += 1
                alike[number % 2, labels.worker[row]] += labels.label[one] == labels.label[other]
        if len(rows) > 1:
            np.add.at(classes, (number % 2, labels.label[rows]), 1)
    assert (pairs == expected).all()
    assert (same == alike).all()
    assert (by_class == classes).all()


@QUICK
@given(crowds())
def test_votes_of_equal_weight_are_as_reliable_as_alpha_says_of_each_half(
    labels: CrowdLabels,
) -> None:
    found = weighed(labels, np.full((2, labels.n_workers), 0.7))
    halves = []
    for half in (0, 1):
        tasks = np.arange(labels.n_tasks) % 2 == half
        part = labels.keep_labels(tasks[labels.task])
        alpha = alpha_of(*alpha_sums(part.task_start, part.label, part.n_classes))
        n_labels = np.diff(part.task_start)
        if not np.isnan(alpha):
            halves.append(reliability_of_votes(alpha, n_labels[n_labels > 0].mean()))
    assert found == pytest.approx(np.mean(halves) if halves else np.nan, nan_ok=True)


@QUICK
@given(crowds())
def test_memory_goes_by_the_tasks_of_a_shard_wherever_it_lies_in_the_table(
    labels: CrowdLabels,
) -> None:
    """An array up to the last of these task codes would not fit into any memory."""
    task, weights = labels.task.astype(np.int64), weights_of(labels)
    rest = labels.worker, labels.label
    near, far = (
        [
            *votes_like_others(place, *rest, labels.n_workers, labels.n_classes),
            *weighed_sums(place, *rest, weights, labels.n_classes),
        ]
        for place in (task, task + 2**50)
    )
    for one, other in zip(near, far, strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_half_takes_no_part_in_its_own_weights() -> None:
    labels = crowd_of(0.3, 0)
    even = labels.task % 2 == 0
    other = np.where(even, (labels.label + labels.worker) % 3, labels.label)
    changed = CrowdLabels.from_codes(
        labels.worker, labels.task, other,
        workers=labels.workers, tasks=labels.tasks, classes=labels.classes,
    )  # fmt: skip
    before, after = weights_of(labels), weights_of(changed)
    assert (before[0] == after[0]).all()
    assert not np.allclose(before[1], after[1])


def test_guessers_stay_at_chance() -> None:
    found = [
        weighed(labels, weights_of(labels)) for labels in (crowd_of(0.0, s) for s in range(10))
    ]
    assert np.mean(found) < 0.08


@pytest.mark.parametrize(("knowing", "least"), [(0.2, 0.15), (0.3, 0.2), (0.5, 0.15)])
def test_a_few_who_know_make_a_crowd_reliable(knowing: float, least: float) -> None:
    """By so much more than the votes as they are."""
    more = []
    for seed in range(3):
        labels = crowd_of(knowing, seed)
        plain = reliability_of_votes(krippendorff_alpha(labels), 5.0)
        more.append(task_support(labels, majority_vote(labels).posterior).reliability - plain)
    assert np.mean(more) > least


@QUICK
@given(crowds())
def test_reliability_is_never_below_that_of_the_votes_as_they_are_on_shards_too(
    labels: CrowdLabels,
) -> None:
    whole = task_support(labels, majority_vote(labels).posterior)
    cuts = sorted({0, labels.n_tasks // 2, labels.n_tasks})
    parts = support_by_shards(LocalEngine(cut_labels(labels, cuts)), majority_of_shard, None)
    assert parts.reliability == pytest.approx(whole.reliability, nan_ok=True)
    if np.isnan(whole.alike):
        assert np.isnan(whole.reliability)
        return
    plain = reliability_of_votes(whole.alike, whole.n_votes[whole.n_votes > 0].mean())
    assert plain <= whole.reliability <= 1


def test_a_crowd_of_one_class_or_one_label_a_task_has_no_weights() -> None:
    one_class = encode(["ann", "bob"] * 4, np.repeat(range(4), 2), ["x"] * 8, classes=["x", "y"])
    alone = encode(["ann", "bob"] * 4, range(8), list("xyxyxyxy"))
    for labels in (one_class, alone):
        weights = weights_of(labels)
        assert (weights == 0).all()
        assert np.isnan(weighed(labels, weights))

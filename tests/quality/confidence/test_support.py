"""What speaks for a label: votes by their definition, groups with one vote, the same by shards."""

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    LocalEngine,
    cut_labels,
    dawid_skene,
    encode,
    regular_assignment,
    simulate_crowd,
    support_by_shards,
    task_support,
)
from quality.aggregation import majority_of_shard
from quality.confidence.support import MAX_SHARED
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


@QUICK
@given(crowds())
def test_odds_and_votes_are_those_of_a_slow_count(labels: CrowdLabels) -> None:
    posterior = dawid_skene(labels).posterior
    found = task_support(labels, posterior)
    for task in range(labels.n_tasks):
        given_labels = labels.label[labels.task == task]
        for_it = np.count_nonzero(given_labels == found.label[task])
        assert found.n_votes[task] == len(given_labels)
        against = len(given_labels) - for_it
        assert found.votes[task] == pytest.approx(np.log((for_it + 0.5) / (against + 0.5)))
        assert found.model[task] == pytest.approx(posterior[task].max())
        assert found.model[task] == posterior[task, found.label[task]]
        assert 0 <= found.shared <= MAX_SHARED
        assert np.isfinite(found.odds[task])


@QUICK
@given(crowds())
def test_shards_have_the_support_of_the_whole(labels: CrowdLabels) -> None:
    cuts = sorted({0, labels.n_tasks // 3, labels.n_tasks})
    groups = np.where(np.arange(labels.n_workers) < 2, 0, -1)
    whole = task_support(labels, _shares(labels), groups=groups)
    engine = LocalEngine(cut_labels(labels, cuts))
    parts = support_by_shards(engine, majority_of_shard, None, groups=groups)
    for name in ("label", "model", "odds", "votes", "n_votes"):
        assert (getattr(parts, name) == getattr(whole, name)).all(), name
    assert parts.shared == pytest.approx(whole.shared)
    assert parts.n_classes == whole.n_classes


def _shares(labels: CrowdLabels) -> np.ndarray:
    return np.concatenate(
        [majority_of_shard(shard, None) for shard in cut_labels(labels, [0, labels.n_tasks])]
    )


def test_members_of_a_group_share_one_vote() -> None:
    labels = encode(["ann", "bob", "cy", "dee"], [1, 1, 1, 1], list("xxyx"))
    found = task_support(labels, np.array([[0.9, 0.1]]), groups=np.array([0, 0, 0, -1]))
    assert found.n_votes[0] == pytest.approx(2)
    assert found.votes[0] == pytest.approx(np.log((2 / 3 + 1 + 0.5) / (1 / 3 + 0.5)))


def test_common_errors_show_and_independent_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    assignment = regular_assignment(n_tasks=600, n_workers=30, labels_per_task=6, rng=rng)
    truth = rng.integers(2, size=600)
    crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={}, rng=rng)
    hard = rng.random(600) < 0.3
    answer = np.where(
        hard[crowd.task] & (rng.random(len(crowd.task)) < 0.3), 1 - truth[crowd.task], crowd.label
    )
    alone, common = (
        encode(crowd.worker, crowd.task, given_labels) for given_labels in (crowd.label, answer)
    )
    apart, together = (
        task_support(labels, dawid_skene(labels).posterior).shared for labels in (alone, common)
    )
    assert apart < 0.03
    assert together > apart + 0.02


def test_one_vote_a_task_says_nothing_though_some_tasks_have_none() -> None:
    """What rounding leaves of a task's only vote is no pair."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        worker, label = rng.integers(10, size=(2, 200))
        some = encode(worker, np.arange(200), label % 3).keep_workers(np.arange(10) < 5)
        posterior = rng.dirichlet(np.ones(3), size=200)
        assert task_support(some, posterior).shared == MAX_SHARED


def test_one_vote_a_task_says_nothing_of_common_errors() -> None:
    labels = encode(["ann", "bob", "ann"], [1, 2, 3], list("xyx"))
    assert task_support(labels, np.full((3, 2), 0.5)).shared == MAX_SHARED


@QUICK
@given(crowds())
def test_a_voice_has_the_votes_of_as_many_workers_who_say_the_same(labels: CrowdLabels) -> None:
    """Three of them give every task a class; so do three votes. Tasks without a worker keep their own."""
    n_classes, rng = labels.n_classes, np.random.default_rng(0)
    said = rng.integers(n_classes, size=labels.n_tasks)
    posterior = rng.dirichlet(np.ones(n_classes), size=labels.n_tasks)
    more = CrowdLabels.from_codes(
        np.concatenate([labels.worker, labels.n_workers + np.repeat(np.arange(3), labels.n_tasks)]),
        np.concatenate([labels.task, np.tile(np.arange(labels.n_tasks), 3)]),
        np.concatenate([labels.label, np.tile(said, 3)]),
        workers=np.arange(labels.n_workers + 3), tasks=labels.tasks, classes=labels.classes,
    )  # fmt: skip
    alone = task_support(labels, posterior)
    found = task_support(labels, posterior, voice_votes=3.0 * np.eye(n_classes)[said])
    with_workers, voted = task_support(more, posterior), alone.n_votes > 0
    assert found.n_votes[voted] == pytest.approx(with_workers.n_votes[voted])
    assert found.votes[voted] == pytest.approx(with_workers.votes[voted])
    assert (found.n_votes[~voted] == 0).all()
    assert found.votes[~voted] == pytest.approx(0)
    for name in ("label", "model", "odds", "shared", "alike", "guess"):
        np.testing.assert_array_equal(getattr(found, name), getattr(alone, name), name)


def test_a_voice_makes_a_tasks_votes_more_reliable_and_no_votes_change_nothing() -> None:
    label = np.array([[0, 0], [1, 1], [0, 0], [0, 1]] * 50)  # of four tasks they agree on three
    labels = encode(np.tile(["ann", "bob"], 200), np.repeat(np.arange(200), 2), label.ravel())
    posterior = np.full((200, 2), 0.5)
    alone = task_support(labels, posterior)
    silent = task_support(labels, posterior, voice_votes=np.zeros((200, 2)))
    heard = task_support(labels, posterior, voice_votes=np.full((200, 2), 1.0))
    assert silent.reliability == alone.reliability
    assert silent.votes == pytest.approx(alone.votes)
    by_spearman_and_brown = 4 * alone.alike / (1 + 3 * alone.alike)
    assert heard.reliability == pytest.approx(by_spearman_and_brown)


@pytest.mark.refusal
def test_votes_of_a_voice_are_numbers_of_each_class_of_each_task() -> None:
    labels, posterior = encode(["ann", "bob"], [1, 1], ["x", "y"]), np.array([[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"voice_votes must have shape \(1, 2\), got \(2, 1\)"):
        task_support(labels, posterior, voice_votes=np.ones((2, 1)))
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(
            ValueError, match=r"voice_votes must be finite and >= 0, got .* in row 0"
        ):
            task_support(labels, posterior, voice_votes=np.array([[1.0, wrong]]))


@pytest.mark.refusal
def test_a_posterior_of_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"posterior must have shape \(1, 1\), got \(2, 2\)"):
        task_support(encode(["ann"], [1], ["x"]), np.full((2, 2), 0.5))


def test_a_posterior_that_is_not_finite_is_refused() -> None:
    """Else every confidence would silently be NaN."""
    with pytest.raises(ValueError, match=r"posterior must be finite, got \[nan, 1.0\] in row 0"):
        task_support(encode(["ann", "bob"], [1, 1], ["x", "y"]), np.array([[np.nan, 1.0]]))


def test_a_posterior_is_a_distribution_over_the_classes_of_each_task() -> None:
    labels = encode(["ann", "bob"] * 2, [1, 1, 2, 2], list("xyxx"))
    for wrong in (labels.counts().astype(float), np.array([[1.5, -0.5], [1.0, 0.0]])):
        with pytest.raises(ValueError, match="probabilities that add up to 1 for each task, got"):
            task_support(labels, wrong)
    single = np.array([[0.5, 0.5], [1.0, 0.0]], dtype=np.float32)
    assert task_support(labels, single).model.tolist() == [0.5, 1.0]

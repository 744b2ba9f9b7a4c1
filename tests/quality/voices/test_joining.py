"""One more voice beside the crowd: noise changes nothing, a strong voice helps, mistakes count once."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    calibrate,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    hold_labels_out,
    join_voice,
    majority_vote,
    regular_assignment,
    reliability,
    simulate_crowd,
)
from quality.choice import folds
from quality.voices.joining import _predicted_by_crowd
from tests.quality.labels.strategies import crowds


def crowd(seed=0, *, n_classes=4, n_tasks=600, right=0.85):
    """A crowd, its truth, and a voice that is right so often and says so."""
    rng = np.random.default_rng(seed)
    assignment = regular_assignment(n_tasks=n_tasks, n_workers=30, labels_per_task=3, rng=rng)
    truth = rng.integers(n_classes, size=n_tasks)
    adversaries = {"random": 10}
    made = simulate_crowd(assignment, truth, n_classes=n_classes, adversaries=adversaries, rng=rng)
    labels = encode(made.worker, made.task, made.label, classes=list(range(n_classes)))
    said = np.where(rng.random(n_tasks) < right, truth, rng.integers(n_classes, size=n_tasks))
    voice = np.full((n_tasks, n_classes), (1 - right) / n_classes)
    voice[np.arange(n_tasks), said] += right
    return labels, truth, voice


def joined(labels, voice, fit=hierarchical_dawid_skene, **given):
    return join_voice(fit(labels), voice, hold_labels_out(labels, fit), **given)


@pytest.mark.parametrize("fit", [majority_vote, dawid_skene, hierarchical_dawid_skene])
def test_a_strong_voice_helps(fit):
    labels, truth, voice = crowd()
    found = joined(labels, voice, fit)
    assert found.heard
    assert np.mean(found.label == truth) > np.mean(fit(labels).label == truth) + 0.05
    assert found.worth > 1  # its 85 % are more than the label of a crowd of which a third guesses


def test_confidence_counts_a_voice_as_the_labels_that_it_is_worth():
    """Four crowds. Without its votes, labels that it turned are believed as their workers' votes are."""
    errors = []
    for seed in range(4):
        labels, truth, voice = crowd(seed)
        found = joined(labels, voice)
        assert found.votes == pytest.approx(found.worth * voice)
        right, rng = found.label == truth, np.random.default_rng(0)
        errors.append(
            [
                reliability(
                    calibrate(labels, found.posterior, voice_votes=votes).confidence, right, rng=rng
                ).brier
                for votes in (None, found.votes)
            ]
        )
    without, counted = np.array(errors).T
    assert (counted < without - 0.01).all()


def test_a_voice_of_noise_changes_nothing_to_the_byte():
    """20 draws; a false alarm beyond 3 standard errors has probability < .0014 each if it were at its
    limit, and the largest of 120 such draws was 1.7."""
    for seed in range(20):
        labels, _, voice = crowd(seed, n_tasks=200)
        shuffled = np.random.default_rng(seed).permutation(voice)
        alone, found = majority_vote(labels), joined(labels, shuffled, majority_vote)
        assert not found.heard
        assert not found.votes.any()
        assert (found.voice_weight, found.crowd_weight, found.worth) == (0.0, 1.0, 0.0)
        for name in ("posterior", "label", "tied"):
            assert getattr(found, name).tobytes() == getattr(alone, name).tobytes()


def test_a_voice_that_says_the_same_of_every_task_is_not_heard():
    labels, _, voice = crowd()
    assert not joined(labels, np.full(voice.shape, 0.25)).heard
    assert not joined(labels, np.tile([0.7, 0.1, 0.1, 0.1], (len(voice), 1))).heard


@pytest.mark.parametrize("order", [[1, 2, 3, 0], [1, 0, 2, 3]])
def test_a_voice_that_renames_classes_is_not_heard(order):
    """Its columns are in another order: 1 % or 51 % of the tasks were right, instead of 79."""
    labels, _, voice = crowd(right=0.97)
    alone, found = hierarchical_dawid_skene(labels), joined(labels, voice[:, order])
    assert found.evidence > 3
    assert not found.heard
    assert found.posterior.tobytes() == alone.posterior.tobytes()


def test_rounding_is_no_evidence():
    """A voice over its mean differs from 1 by 1e-16 where it says the same of every task."""
    for seed in range(10):
        labels, _, _ = crowd(seed, n_classes=2, n_tasks=100)
        found = joined(labels, np.tile([0.7, 0.3], (100, 1)), majority_vote)
        assert found.evidence == 0.0
        assert not found.heard


def test_a_worse_voice_is_worth_less():
    worth = [joined(*crowd(3, right=right)[::2]).worth for right in (0.5, 0.7, 0.9)]
    assert worth == sorted(worth)
    assert worth[0] < worth[2] / 2


def test_a_voice_that_is_too_sure_of_itself_is_weighed_down():
    labels, truth, voice = crowd(1, right=0.6)
    sure = voice**6 / (voice**6).sum(axis=1, keepdims=True)
    modest, loud = joined(labels, voice), joined(labels, sure)
    assert loud.voice_weight < modest.voice_weight
    assert np.mean(loud.label == truth) > np.mean(modest.label == truth) - 0.02


def test_the_crowds_own_word_repeated_is_worth_no_more_than_the_crowd():
    """A voice fitted without the task's own labels cannot repeat them: it hears of workers alone.

    Here the voice is the posterior without the task (its class shares), as a classifier on features that
    say nothing learns it; the crowd's mistakes are not counted again.
    """
    labels, _, _ = crowd(2)
    shares = hierarchical_dawid_skene(labels).posterior.mean(axis=0)
    assert not joined(labels, np.tile(shares, (labels.n_tasks, 1))).heard


def test_tasks_of_known_truth_keep_it():
    labels, truth, voice = crowd()
    gold = np.where(np.arange(len(truth)) % 3 == 0, truth, -1)
    wrong = np.roll(voice, 1, axis=1)
    voice[gold >= 0] = wrong[gold >= 0]

    def fit(table):
        return dawid_skene(table, gold=gold)

    found = joined(labels, voice, fit, gold=gold)
    assert found.heard
    assert (found.label[gold >= 0] == truth[gold >= 0]).all()
    own = fit(labels).posterior
    assert found.posterior[gold >= 0].tobytes() == own[gold >= 0].tobytes()
    assert (found.posterior[gold < 0] != own[gold < 0]).any()


def test_a_voice_beside_labels_that_predict_nothing_is_worth_a_hundred_at_most():
    labels, _, voice = crowd()

    def fit(table):
        return replace(majority_vote(table), posterior=np.full(voice.shape, 0.25))

    found = joined(labels, voice, fit)
    assert found.heard
    assert found.worth == 100.0


def test_names_play_no_part():
    labels, _, voice = crowd()
    order = np.array([2, 0, 3, 1])
    renamed = encode(labels.worker, labels.task, order[labels.label], classes=list(range(4)))
    moved = np.empty_like(voice)
    moved[:, order] = voice
    one, other = joined(labels, voice), joined(renamed, moved)
    np.testing.assert_allclose(other.posterior[:, order], one.posterior, atol=1e-9)


def test_the_result_is_the_same_on_every_run():
    labels, _, voice = crowd()
    assert joined(labels, voice).posterior.tobytes() == joined(labels, voice).posterior.tobytes()


def test_without_tasks_of_two_labels_no_voice_is_heard():
    labels = encode(["ann", "bob", "ann"], [1, 2, 3], ["x", "y", "y"])
    found = joined(labels, np.full((3, 2), 0.5), majority_vote)
    assert not found.heard
    assert found.evidence == 0.0


def test_a_voice_is_measured_on_so_many_tasks_at_most(monkeypatch):
    labels, truth, voice = crowd()
    monkeypatch.setattr(import_module("quality.voices.joining"), "MAX_JUDGED", 200)
    fits = []
    held_out = hold_labels_out(labels, lambda some: fits.append(some) or majority_vote(some))
    assert len(held_out.task) == 200
    (some,) = fits  # of all labels but one of each task that is judged
    assert some.n_labels == labels.n_labels - 200
    assert np.bincount(held_out.labels.task[held_out.fold == 0]).tolist() == [1] * 200
    found = join_voice(majority_vote(labels), voice, held_out)
    assert len(found.label) == 600
    assert np.mean(found.label == truth) > np.mean(majority_vote(labels).label == truth)


def test_beliefs_of_many_classes_are_of_fewer_tasks(monkeypatch):
    """All of 20,000 tasks and 10,000 classes would be 8 GB."""
    labels, truth, voice = crowd()
    monkeypatch.setattr(import_module("quality.voices.joining"), "MAX_BELIEFS", 5 * 4 * 200)
    held_out = hold_labels_out(labels, majority_vote)
    assert held_out.log_belief.shape == (1, 200, 4)
    found = join_voice(majority_vote(labels), voice, held_out)
    assert np.mean(found.label == truth) > np.mean(majority_vote(labels).label == truth)


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float32, np.longdouble])
def test_a_voice_of_another_precision_is_the_same_voice(kind):
    labels, _, voice = crowd()
    given = voice.astype(kind)
    one, other = joined(labels, given), joined(labels, given.astype(np.float64))
    assert one.posterior.tobytes() == other.posterior.tobytes()


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("voice", "message"),
    [
        (np.full((2, 2), 0.5), r"the posterior's shape \(600, 4\)"),
        (np.full((600, 4), 0.3), "each row must add up to 1"),
        (np.tile([1.0, 0.0, 0.0, 0.0], (600, 1)), "probabilities must be > 0"),
        (np.full((600, 4), np.nan), "probabilities must be > 0"),
    ],
)
def test_what_are_no_probabilities_is_refused(voice, message):
    with pytest.raises(ValueError, match=message):
        joined(crowd()[0], voice, majority_vote)


@pytest.mark.refusal
@pytest.mark.parametrize("gold", [np.full(599, -1), np.full(600, 4), np.full(600, 0.5)])
def test_gold_that_is_not_one_code_a_task_is_refused(gold):
    labels, held_out = crowd()[0], hold_labels_out(crowd()[0], majority_vote)
    with pytest.raises(ValueError, match="gold must be"):
        join_voice(majority_vote(labels), np.full((600, 4), 0.25), held_out, gold=gold)


@pytest.mark.parametrize("other", [{"n_classes": 3}, {"n_tasks": 700}])
def test_labels_held_out_of_another_table_are_refused(other):
    held_out = hold_labels_out(crowd(**other)[0], majority_vote)
    with pytest.raises(
        ValueError, match="held_out must be of the labels of the consensus, 600 tasks"
    ):
        join_voice(majority_vote(crowd()[0]), np.full((600, 4), 0.25), held_out)


@pytest.mark.parametrize(("n_folds", "words"), [(1, "be >= 2"), (32_768, "be at most 32,767, got")])
def test_fewer_than_two_folds_are_refused_and_more_than_their_numbers_hold(n_folds, words):
    """A label dealt to fold 32,768 would be held out of none, without a word."""
    with pytest.raises(ValueError, match=f"n_folds must {words}"):
        hold_labels_out(crowd()[0], majority_vote, n_folds=n_folds)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(crowds())
def test_a_prediction_reads_labels_by_the_crowd_and_at_their_word(labels: CrowdLabels) -> None:
    """Oracle: the counts and the prediction, label for label.

    By majority vote as many labels b would fall on a truth a as labels a on a truth b.
    """
    out = folds(labels, 3) == 0
    posterior = np.random.default_rng(labels.n_labels).dirichlet(np.ones(3), labels.n_tasks)
    counts = np.full((3, 3), 1 / 3)
    for task, label in zip(labels.task[~out], labels.label[~out], strict=True):
        counts[:, label] += posterior[task]
    by_crowd = counts / counts.sum(axis=1, keepdims=True)
    right_share = np.trace(counts) / counts.sum()
    even = np.where(np.eye(3, dtype=bool), right_share, (1 - right_share) / 2)
    held = zip(labels.task[out], labels.label[out], strict=True)
    expected = [np.log(posterior[task] @ (by_crowd + even)[:, label] / 2) for task, label in held]
    found = _predicted_by_crowd(labels, out, posterior)
    assert found == pytest.approx(np.array(expected), abs=1e-9)

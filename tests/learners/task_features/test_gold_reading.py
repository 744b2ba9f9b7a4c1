"""Answers read as gold teaches: what a hundred gold tasks win, what they do not lose, whose truth counts."""

import numpy as np
import pandas as pd
import pytest

from learners import answer_features, read_by_gold
from quality import encode, hierarchical_dawid_skene
from quality.confidence import calibration_error

N_TASKS, N_GOLD = 1200, 100


def panel(seed=0, *, mind=0.9, right=0.6, n_classes=3, n_judges=6):
    """Judges who give their common mind so often, and else guess; the mind is right so often.

    The mind takes one class for another: that of the last class is the first.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=N_TASKS)
    confused = np.where(truth == n_classes - 1, 0, truth)
    common = np.where(rng.random(N_TASKS) < right, truth, confused)
    own = rng.integers(n_classes, size=(N_TASKS, n_judges))
    answers = np.where(rng.random((N_TASKS, n_judges)) < mind, common[:, np.newaxis], own)
    return answers, truth


def alone(seed, accuracy, *, n_classes, n_judges):
    """Judges who err each on their own."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=N_TASKS)
    own = rng.integers(n_classes, size=(N_TASKS, n_judges))
    knows = rng.random((N_TASKS, n_judges)) < accuracy
    return np.where(knows, truth[:, np.newaxis], own), truth


def consensus(answers, n_classes):
    n_tasks, n_judges = answers.shape
    tasks, judges = np.repeat(np.arange(n_tasks), n_judges), np.tile(np.arange(n_judges), n_tasks)
    labels = encode(judges, tasks, answers.ravel(), classes=list(range(n_classes)))
    return hierarchical_dawid_skene(labels).posterior


def gold_of(truth, n_gold=N_GOLD):
    return np.where(np.arange(len(truth)) < n_gold, truth, -1)


def read(answers, posterior, gold, seed=1):
    return read_by_gold(answers, posterior, gold, rng=np.random.default_rng(seed))


@pytest.mark.long
def test_gold_shows_errors_that_judges_share():
    """One judge says the opposite of the others' common mind: gold tells whom to believe."""
    won = []
    for seed in range(3):
        answers, truth = panel(seed, right=0.1)
        rng = np.random.default_rng(seed + 10)
        answers[:, 0] = np.where(rng.random(N_TASKS) < 0.85, truth, rng.integers(3, size=N_TASKS))
        posterior = consensus(answers, 3)
        found = read(answers, posterior, gold_of(truth)).probabilities
        right, before, best = (
            np.mean(label[N_GOLD:] == truth[N_GOLD:])
            for label in (found.argmax(axis=1), posterior.argmax(axis=1), answers[:, 0])
        )
        assert right >= best - 0.01
        won.append(right - before)
    assert np.mean(won) > 0.15


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_classes", "n_judges", "accuracy"), [(2, 5, 0.6), (3, 8, 0.5), (5, 6, 0.55)]
)
def test_judges_who_err_on_their_own_lose_next_to_nothing(n_classes, n_judges, accuracy):
    lost = []
    for seed in range(3):
        answers, truth = alone(seed, accuracy, n_classes=n_classes, n_judges=n_judges)
        posterior = consensus(answers, n_classes)
        found = read(answers, posterior, gold_of(truth)).probabilities
        before, after = (
            np.mean(said.argmax(axis=1)[N_GOLD:] == truth[N_GOLD:]) for said in (posterior, found)
        )
        lost.append(before - after)
    assert np.mean(lost) < 0.01


@pytest.mark.long
def test_probabilities_are_calibrated():
    errors = []
    for seed in range(3):
        answers, truth = panel(seed)
        found = read(answers, consensus(answers, 3), gold_of(truth)).probabilities[N_GOLD:]
        right = found.argmax(axis=1) == truth[N_GOLD:]
        errors.append(calibration_error(found.max(axis=1), right))
    assert np.mean(errors) < 0.06


@pytest.mark.long
def test_the_probabilities_of_a_gold_task_do_not_depend_on_its_own_truth():
    """Nor do those of tasks in its fold: the deal looks at no truth, so tasks share a fold or do not."""
    answers, truth = panel()
    posterior, gold = consensus(answers, 3), gold_of(truth)
    before = read(answers, posterior, gold).probabilities
    for task in (0, 17, 99):
        other = gold.copy()
        other[task] = (other[task] + 1) % 3
        moved = np.abs(read(answers, posterior, other).probabilities - before).max(axis=1) > 0
        assert not moved[task]
        assert moved[:N_GOLD].any()
        assert moved[N_GOLD:].all()


def test_tasks_without_gold_of_the_same_answers_and_posterior_are_read_alike():
    answers, truth = panel()
    posterior = consensus(answers, 3)
    found = read(answers, posterior, gold_of(truth)).probabilities[N_GOLD:]
    said, place = np.unique(
        np.column_stack([answers, posterior])[N_GOLD:], axis=0, return_inverse=True
    )
    assert len(said) < len(found)
    first = np.zeros((len(said), 3))
    first[place.ravel()] = found
    assert (first[place.ravel()] == found).all()


def test_every_probability_is_at_least_a_floor_and_rows_add_up_to_1():
    answers, truth = panel(mind=1.0, right=1.0)
    wide = np.column_stack([consensus(answers, 3), np.zeros(N_TASKS)])  # a class that nobody gives
    found = read(answers, wide, gold_of(truth)).probabilities
    assert found.min() >= 0.002 / 4
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_a_judges_place_plays_no_part_but_for_the_rounding():
    answers, truth = panel()
    posterior, gold = consensus(answers, 3), gold_of(truth)
    one, other = (read(a, posterior, gold).probabilities for a in (answers, answers[:, ::-1]))
    np.testing.assert_allclose(one, other, atol=0.02)  # as near as the solver stops


def test_judges_need_not_answer_every_task():
    answers, truth = panel(right=0.9)
    answers[np.random.default_rng(3).random(answers.shape) < 0.4] = -1
    votes = (answers[:, :, np.newaxis] == np.arange(3)).sum(axis=1) + 1.0
    posterior = votes / votes.sum(axis=1, keepdims=True)
    found = read(answers, posterior, gold_of(truth)).probabilities
    before, after = (np.mean(p.argmax(axis=1) == truth) for p in (posterior, found))
    assert after > before - 0.02


def test_gold_of_one_class_teaches_that_class_alone():
    answers, _ = panel()
    gold = np.where(np.arange(N_TASKS) < 50, 1, -1)
    found = read(answers, consensus(answers, 3), gold)
    assert found.probabilities[50:, 1].mean() > 0.9
    assert repr(found).startswith(
        "GoldReading(1200 tasks, by 50 gold tasks, the consensus' share 0.0"
    )


def test_the_same_seed_gives_the_same_bytes_and_nobody_can_write_them():
    answers, truth = panel()
    posterior, gold = consensus(answers, 3), gold_of(truth)
    one, other = (read(answers, posterior, gold).probabilities for _ in range(2))
    assert one.tobytes() == other.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 0


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, p, g: (a[1:], p, g), "a row for each task"),
        (lambda a, p, g: (a, p, g[:, None]), r"got shapes .* and \(\d+, 1\)"),
        (lambda a, p, g: (a, p, g + 0.5), "gold must be codes, whole numbers, got dtype=float64"),
        (lambda a, p, g: (a / 2, p, g), "answers must be codes, whole numbers"),
        (lambda a, p, g: (a + 5, p, g), "answers must be codes from -1 to 2"),
        (lambda a, p, g: (a, p, np.where(g > 0, 3, g)), "gold must be codes from -1 to 2"),
        (lambda a, p, g: (a, p * 2, g), "each row must add up to 1"),
        (
            lambda a, p, g: (a, p, np.where(np.arange(len(g)) < 9, g, -1)),
            "of 10 tasks at least, got 9",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    answers, truth = panel()
    with pytest.raises(ValueError, match=message):
        read(*change(answers, consensus(answers, 3), gold_of(truth)))


def test_answers_are_features_judge_after_judge_and_counts_by_class():
    answers = np.array([[0, 2, -1], [1, 1, 1]])
    by_judge, counts = np.split(answer_features(answers, 3), [9], axis=1)
    assert (by_judge.reshape(2, 3, 3).argmax(axis=2) == np.maximum(answers, 0)).all()
    assert (by_judge.reshape(2, 3, 3).sum(axis=2) == (answers >= 0)).all()
    assert (counts == [[1, 0, 1], [0, 3, 0]]).all()
    assert answer_features(np.zeros((4, 0), dtype=np.int64), 2).shape == (4, 2)


@pytest.mark.refusal
def test_data_frames_and_lists_are_read_like_arrays():
    answers, truth = (one[:60] for one in panel())
    posterior = np.full((60, 3), 1 / 3)
    gold = np.where(np.arange(60) < 30, truth, -1)
    expected = read_by_gold(answers, posterior, gold, rng=np.random.default_rng(0))
    for kind in (pd.DataFrame, np.ndarray.tolist):
        given = kind(answers), kind(posterior), pd.Series(gold, index=range(60, 0, -1))
        found = read_by_gold(*given, rng=np.random.default_rng(0))
        np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=1e-9)
    with pytest.raises(ValueError, match="answers must be numbers, as many in each row"):
        read_by_gold(answers.astype(str), posterior, gold, rng=np.random.default_rng(0))


def test_classifiers_are_weighed_by_gold_that_they_did_not_see():
    """Judges who answer at random: on their own gold tasks classifiers read them well, on others not."""
    rng = np.random.default_rng(0)
    truth, answers = rng.integers(2, size=60), rng.integers(2, size=(60, 12))
    believed = np.where(np.eye(2)[truth] > 0, 0.8, 0.2)
    assert read_by_gold(answers, believed, truth, rng=rng).consensus_weight > 0.9

"""The choice of an aggregator: what it predicts, which candidates it leaves out, and its accuracy."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.quality.crowd_sets import read_set, right
from quality import (
    CrowdLabels,
    dawid_skene,
    encode,
    majority_vote,
    regular_assignment,
    simulate_crowd,
)
from quality.choice.automatic import CANDIDATES, auto, hold_out, predict_held_out
from tests.quality.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


@dataclass
class Certain:
    """A consensus made up by a test."""

    posterior: np.ndarray
    label: np.ndarray
    tied: np.ndarray


def certain(label: np.ndarray, n_classes: int) -> Certain:
    """Certain of these labels."""
    return Certain(
        np.eye(n_classes)[label], label.astype(np.int16), np.zeros(len(label), dtype=bool)
    )


def guess(labels: CrowdLabels, rng: np.random.Generator) -> Certain:
    """Any class for any task."""
    return certain(rng.integers(labels.n_classes, size=labels.n_tasks), labels.n_classes)


def crowd_of(rng: np.random.Generator, **adversaries: int) -> tuple[CrowdLabels, np.ndarray]:
    """Two classes, 30 workers, 400 tasks, 5 labels each."""
    assignment = regular_assignment(n_tasks=400, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.integers(2, size=400)
    crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries=adversaries, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label), truth


def test_malicious_workers_call_for_dawid_skene(rng: np.random.Generator) -> None:
    """It reads their labels the other way round; a majority cannot."""
    labels, truth = crowd_of(rng, malicious=10)
    result = auto(labels, rng=rng)
    assert result.chosen == "dawid_skene"
    assert np.array_equal(result.label, dawid_skene(labels).label)
    wrong = [np.mean(r.label != truth) for r in (result, majority_vote(labels))]
    assert wrong[0] < wrong[1] / 2


def test_a_guess_is_never_chosen(rng: np.random.Generator) -> None:
    """Listed first, so that only its score can rule it out."""
    labels, _ = crowd_of(rng, random=6)
    result = auto(labels, candidates={"guess": guess} | dict(CANDIDATES), rng=rng)
    assert result.chosen != "guess"
    assert result.scores[0].behind > 2 * result.scores[0].behind_error


def test_the_best_score_is_chosen_but_for_the_standard_errors(rng: np.random.Generator) -> None:
    labels, _ = crowd_of(rng, random=6, malicious=4)
    result = auto(labels, candidates=dict(reversed(CANDIDATES.items())), rng=rng)
    best = max(score.log_likelihood for score in result.scores)
    for score in result.scores:
        assert score.behind == pytest.approx(best - score.log_likelihood, abs=1e-12)
    names = [s.name for s in result.scores if s.behind <= 2 * s.behind_error]
    assert result.chosen == names[0]
    assert result.n_held_out == pytest.approx(3 * 0.1 * labels.n_labels, rel=0.2)


def test_equally_good_candidates_go_in_the_order_given(rng: np.random.Generator) -> None:
    labels, _ = crowd_of(rng)
    fit = CANDIDATES["majority_vote"]
    for names in (["one", "two"], ["two", "one"]):
        assert auto(labels, candidates=dict.fromkeys(names, fit), rng=rng).chosen == names[0]


def test_a_class_mostly_unnamed_is_a_misreading(rng: np.random.Generator) -> None:
    """Every second task is called `never` by the candidate, and by no worker."""
    plain, _ = crowd_of(rng)
    labels = encode(plain.worker, plain.task, plain.label, classes=[0, 1, 2])

    def renames(table: CrowdLabels, rng: np.random.Generator) -> Certain:
        label = majority_vote(table).label.copy()
        label[::2] = 2
        return certain(label, 3)

    both = {"renames": renames, "majority_vote": CANDIDATES["majority_vote"]}
    result = auto(labels, candidates=both, rng=rng)
    assert result.chosen == "majority_vote"
    assert [(s.misread, s.eligible) for s in result.scores] == [(1.0, False), (0.0, True)]
    alone = auto(labels, candidates={"renames": renames}, rng=rng)
    assert alone.chosen == "renames"  # unless all are like that
    assert alone.scores[0].misread == 1.0


def test_without_tasks_of_two_labels_the_first_is_chosen(rng: np.random.Generator) -> None:
    result = auto(encode(["a", "b"], [1, 2], ["x", "y"]), rng=rng)
    assert result.chosen == next(iter(CANDIDATES))
    assert result.n_held_out == 0
    assert np.isnan(result.scores[0].log_likelihood)


def test_same_generator_same_result() -> None:
    labels, _ = crowd_of(np.random.default_rng(3), random=6)
    one, other = (auto(labels, rng=np.random.default_rng(5)) for _ in range(2))
    assert one.scores == other.scores
    assert one.posterior.tobytes() == other.posterior.tobytes()


@QUICK
@given(crowds())
def test_one_label_of_each_task_always_stays(labels: CrowdLabels) -> None:
    rest, out = hold_out(labels, 0.9, np.random.default_rng(0))
    assert (np.diff(rest.task_start) > 0).all()
    assert rest.n_labels + np.count_nonzero(out) == labels.n_labels
    again = encode(*(book[code[~out]] for book, code in (
        (labels.workers, labels.worker), (labels.tasks, labels.task), (labels.classes, labels.label)
    )), classes=labels.classes.tolist())  # fmt: skip
    assert np.array_equal(again.counts(), rest.counts())
    assert rest.worker_start[-1] == rest.n_labels
    assert (np.diff(rest.worker[rest.worker_order]) >= 0).all()


@QUICK
@given(crowds())
def test_a_prediction_is_bayes_rule(labels: CrowdLabels) -> None:
    """Oracle: the confusion, the belief and the prediction, label for label."""
    rest, out = hold_out(labels, 0.4, np.random.default_rng(0))
    posterior, smoothing = majority_vote(rest).posterior, 2.0
    counts = np.zeros((labels.n_workers, 3, 3))
    for worker, task, label in zip(rest.worker, rest.task, rest.label, strict=True):
        counts[worker, :, label] += posterior[task]
    crowd = counts.sum(axis=0) + 1 / 3
    confusion = counts + smoothing * crowd / crowd.sum(axis=1, keepdims=True)
    confusion /= confusion.sum(axis=2, keepdims=True)
    belief = np.tile(posterior.mean(axis=0), (labels.n_tasks, 1))
    for worker, task, label in zip(rest.worker, rest.task, rest.label, strict=True):
        belief[task] *= confusion[worker, :, label]
    belief /= belief.sum(axis=1, keepdims=True)
    held = zip(labels.worker[out], labels.task[out], labels.label[out], strict=True)
    expected = [np.log(belief[task] @ confusion[worker, :, label]) for worker, task, label in held]
    found = predict_held_out(labels, out, rest, posterior, smoothing)
    assert found == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("candidates", {}), ("held_out", 0.0), ("held_out", np.nan), ("n_splits", 0),
     ("smoothing", 0.0), ("smoothing", np.inf)],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(
    rng: np.random.Generator, parameter: str, value: object
) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=f"{parameter} must be "):
        auto(labels, rng=rng, **{parameter: value})  # type: ignore[arg-type]


SMALL = ["rte", "temp", "bluebird", "task2", "web", "dog", "labelme", "music"]
LARGE = ["sentence_polarity", "trec2011_task2", "fact_eval", "mill"]


@pytest.mark.parametrize(
    "name", SMALL + [pytest.param(name, marks=pytest.mark.slow) for name in LARGE]
)
def test_never_a_point_below_the_better_of_majority_vote_and_dawid_skene(
    shared_data: Path, name: str
) -> None:
    labels, gold = read_set(shared_data / name)
    found = right(auto(labels, rng=np.random.default_rng(0)).posterior, gold)
    better = max(right(vote(labels).posterior, gold) for vote in (majority_vote, dawid_skene))
    assert found >= better - 1

"""GLAD against its formulas written out, and its guarantees."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import expit

from benchmarks.quality.crowd_sets import read_set
from quality import CrowdLabels, encode, majority_vote, regular_assignment
from quality.aggregation.glad_em import Glad, glad
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def crowd_of(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray, np.ndarray, np.ndarray]:
    """Drawn from the model: 3 classes, 40 workers, 400 tasks, 10 labels each."""
    assignment = regular_assignment(n_tasks=400, n_workers=40, labels_per_task=10, rng=rng)
    ability, easiness = rng.normal(1.0, 1.0, size=40), np.exp(rng.normal(0.5, 1.0, size=400))
    truth = rng.integers(3, size=400)
    chance = expit(ability[assignment.worker] * easiness[assignment.task])
    right = rng.random(len(chance)) < chance
    wrong = (truth[assignment.task] + rng.integers(1, 3, size=len(chance))) % 3
    label = np.where(right, truth[assignment.task], wrong)
    return encode(assignment.worker, assignment.task, label), truth, ability, easiness


def log_joint(labels: CrowdLabels, result: Glad) -> np.ndarray:
    """Log P(truth, labels) of each task, by the definition of the model."""
    others = max(labels.n_classes - 1, 1)
    joint = np.full((labels.n_tasks, labels.n_classes), -np.log(labels.n_classes))
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        right = expit(result.ability[worker] * result.easiness[task])
        for truth in range(labels.n_classes):
            joint[task, truth] += np.log(right if truth == label else (1 - right) / others)
    return joint


@QUICK
@given(crowds())
def test_posterior_and_log_posterior_are_the_models(labels: CrowdLabels) -> None:
    result = glad(labels)
    joint = np.exp(log_joint(labels, result))
    assert result.posterior == pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=1e-9)
    deviation = np.sum((result.ability - 1) ** 2) + np.sum((np.log(result.easiness) - 1) ** 2)
    expected = np.log(joint.sum(axis=1)).sum() - deviation / 2
    assert result.log_posterior == pytest.approx(expected, abs=1e-9)


def test_tasks_and_workers_may_have_any_number_of_labels(rng: np.random.Generator) -> None:
    """2,500 labels each, all nearly guesses: factors of two whose product overflows."""
    worker, task = np.repeat(np.arange(2500), 2), np.tile([0, 1], 2500)
    busy, many = np.full(2500, 2500), np.arange(2, 2502)
    label = rng.integers(2, size=7500)
    labels = encode(np.append(worker, busy), np.append(task, many), label[: 5000 + 2500])
    result = glad(labels, max_iter=5)
    joint = log_joint(labels, result)
    largest = joint.max(axis=1, keepdims=True)
    evidence = largest[:, 0] + np.log(np.exp(joint - largest).sum(axis=1))
    assert result.posterior == pytest.approx(np.exp(joint - evidence[:, None]), abs=1e-9)
    deviation = np.sum((result.ability - 1) ** 2) + np.sum((np.log(result.easiness) - 1) ** 2)
    assert result.log_posterior == pytest.approx(evidence.sum() - deviation / 2, rel=1e-9)


def test_log_posterior_never_falls(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)[0]
    values = [glad(labels, max_iter=n, tol=0.0).log_posterior for n in range(1, 25)]
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()
    assert values[-1] > values[0] + 1


def test_where_it_stops_the_log_posterior_is_level(rng: np.random.Generator) -> None:
    """Its slope in every ability and easiness, by Fisher's identity, is nearly nothing."""
    labels = crowd_of(rng)[0]
    result = glad(labels, max_iter=400, tol=1e-12)
    logit = result.ability[labels.worker] * result.easiness[labels.task]
    surprise = result.posterior[labels.task, labels.label] - expit(logit)
    by_worker = np.bincount(labels.worker, surprise * result.easiness[labels.task])
    by_task = np.bincount(labels.task, surprise * logit)
    assert by_worker + 1 - result.ability == pytest.approx(np.zeros(40), abs=0.02)
    assert by_task + 1 - np.log(result.easiness) == pytest.approx(np.zeros(400), abs=0.02)


def test_ability_and_difficulty_are_found(rng: np.random.Generator) -> None:
    """100 labels a worker tell her ability, 10 labels a task hint at its difficulty."""
    labels, truth, ability, easiness = crowd_of(rng)
    result = glad(labels)
    assert np.corrcoef(ability, result.ability)[0, 1] > 0.85
    assert np.corrcoef(np.log(easiness), np.log(result.easiness))[0, 1] > 0.5
    wrong = [np.mean(r.label != truth) for r in (majority_vote(labels), result)]
    assert wrong[1] < wrong[0]


def test_a_worker_without_labels_has_the_priors_ability(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)[0].keep_workers(np.arange(40) < 39)
    assert glad(labels).ability[-1] == 1.0


@pytest.mark.parametrize("name", ["rte", "web", "dog", "music"])
def test_it_beats_the_majority_vote_on_real_crowds(shared_data: Path, name: str) -> None:
    labels, gold = read_set(shared_data / name)
    known = gold >= 0
    right = [
        np.mean(result.label[known] == gold[known])
        for result in (majority_vote(labels), glad(labels))
    ]
    assert right[1] > right[0]

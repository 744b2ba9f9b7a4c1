"""MACE: its fixed point against slow loops, what its parameters mean, and its guarantees."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma

from benchmarks.quality.crowd_sets import read_set, right
from quality import CrowdLabels, encode, mace, majority_vote
from quality.aggregation.passes import STRIP

N_TASKS = 200


def crowd(
    rng: np.random.Generator, competence: list[float], n_classes: int = 3
) -> tuple[CrowdLabels, np.ndarray]:
    """Workers who know with the given probability, and else answer the third class."""
    truth = rng.integers(3, size=N_TASKS)
    knows = rng.random((len(competence), N_TASKS)) < np.array(competence)[:, None]
    worker, task = np.divmod(np.arange(knows.size), N_TASKS)
    return encode(worker, task, np.where(knows, truth, 2).ravel(), classes=range(n_classes)), truth


def loops(
    labels: CrowdLabels, n_iter: int, of_competence: float = 0.5, of_strategy: float = 10.0
) -> np.ndarray:
    """The paper's variational EM, label for label: equations and priors as in its section 3."""
    n_classes = labels.n_classes
    posterior = majority_vote(labels).posterior
    spam, know = np.full((2, labels.n_workers), 0.5)
    habit = np.full((labels.n_workers, n_classes), 1 / n_classes)
    for _ in range(n_iter):
        knew = np.zeros(labels.n_workers)
        guessed = np.zeros((labels.n_workers, n_classes))
        for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
            by_habit = spam[worker] * habit[worker, label]
            share = posterior[task, label] * know[worker] / (know[worker] + by_habit)
            knew[worker] += share
            guessed[worker, label] += 1 - share
        total = digamma(knew + guessed.sum(axis=1) + 2 * of_competence)
        know = np.exp(digamma(knew + of_competence) - total)
        spam = np.exp(digamma(guessed.sum(axis=1) + of_competence) - total)
        all_habits = digamma(guessed.sum(axis=1, keepdims=True) + of_strategy * n_classes)
        habit = np.exp(digamma(guessed + of_strategy) - all_habits)
        log_belief = np.zeros((labels.n_tasks, n_classes))
        for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
            chance = np.full(n_classes, spam[worker] * habit[worker, label])
            chance[label] += know[worker]
            log_belief[task] += np.log(chance)
        posterior = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior


def test_the_papers_variational_em(rng: np.random.Generator) -> None:
    labels, _ = crowd(rng, [0.7, 0.6, 0.5, 0.3, 0.1])
    result = mace(labels, max_iter=15, tol=0.0)
    assert result.n_iter == 15
    assert result.posterior == pytest.approx(loops(labels, 15), abs=1e-10)


@pytest.mark.parametrize("n_classes", [3, 12])
@pytest.mark.parametrize("priors", [(0.3, 0.05), (1.5, 0.4), (0.5, 2.0)])
def test_other_priors_and_many_workers_go_by_the_same_equations(
    priors: tuple[float, float], n_classes: int, rng: np.random.Generator
) -> None:
    """Digammas of a strip of workers at once, below and past 1; of matrices and of coins."""
    labels, _ = crowd(rng, [0.7, 0.6, 0.5, 0.3, 0.1] * 7, n_classes)
    assert labels.n_workers > STRIP
    competence, strategy = priors
    result = mace(labels, max_iter=4, tol=0.0, competence_prior=competence, strategy_prior=strategy)
    assert result.posterior == pytest.approx(loops(labels, 4, *priors), abs=1e-10)


def test_competence_is_the_share_of_labels_that_a_worker_knew(rng: np.random.Generator) -> None:
    told = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.2]
    labels, truth = crowd(rng, told)
    result = mace(labels)
    assert result.converged
    assert result.competence == pytest.approx(np.array(told), abs=0.12)
    assert (result.strategy[:, 2] > 0.5).all()
    # who always falls back on the last class is no evidence for it
    assert np.mean(result.label == truth) > np.mean(majority_vote(labels).label == truth)


def test_a_worker_without_labels_has_the_mean_of_the_priors() -> None:
    labels = encode(["a", "b", "c"], [1, 1, 2], ["x", "x", "y"])
    left = labels.keep_workers(np.array([True, True, False]))
    result = mace(left)
    assert result.competence[2] == 0.5
    assert result.strategy[2] == pytest.approx(np.full(2, 0.5))


def test_the_posterior_of_a_task_with_gold_is_certain(rng: np.random.Generator) -> None:
    labels, truth = crowd(rng, [0.5, 0.4, 0.3])
    gold = np.where(np.arange(N_TASKS) < 50, truth, -1)
    result = mace(labels, gold=gold)
    assert np.array_equal(result.posterior[:50], np.eye(3)[truth[:50]])
    assert np.mean(result.label == truth) >= np.mean(mace(labels).label == truth)


@pytest.mark.parametrize("name", ["competence_prior", "strategy_prior"])
@pytest.mark.parametrize("value", [0.0, np.inf, np.nan])
def test_a_prior_out_of_its_range_is_refused(name: str, value: float) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=f"{name} must be > 0 and finite, got {name}="):
        mace(labels, **{name: value})


# per cent of gold tasks right of crowd-kit 1.4.2's MACE: python -m benchmarks.quality.choice
CROWDKIT = {"rte": 92.6, "temp": 94.6, "dog": 83.1, "weather_amt": 85.7, "music": 79.9}


@pytest.mark.parametrize("name", CROWDKIT)
def test_as_right_as_crowdkits(shared_data: Path, name: str) -> None:
    labels, gold = read_set(shared_data / name)
    assert right(mace(labels).posterior, gold) >= CROWDKIT[name] - 0.5

"""Penalties of honest workers: every outcome enumerated, and p-values that are uniform."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import kstest, norm

from quality import CrowdLabels, encode, soft_penalty
from quality.reputation.honest_null import fit_honest
from quality.reputation.honest_population import RELIABILITY
from quality.reputation.other_answers import (
    Asked,
    OtherAnswers,
    TaskAnswers,
    answer_terms,
    ask_others,
)
from quality.reputation.penalty_tails import EXACT, NEAR, PenaltyTails, honest_p_values
from tests.quality.reputation.test_other_answers import dense

POPULATION = np.exp(-((RELIABILITY - 0.8) ** 2) / 0.02)
POPULATION /= POPULATION.sum()


def crowd(rng: np.random.Generator, n_labels: int, n_classes: int) -> CrowdLabels:
    """Worker 0 has so many labels; seven others, right four times in five, label all of 30 tasks."""
    truth = rng.integers(n_classes, size=30)
    wrong = (truth + rng.integers(1, n_classes, size=(8, 30))) % n_classes
    label = np.where(rng.random((8, 30)) < 0.8, truth, wrong)
    worker, task = np.divmod(np.arange(240), 30)
    hers = (worker > 0) | (task < n_labels)
    return encode(worker[hers], task[hers], label.ravel()[hers], classes=range(n_classes))


def tails_of(labels: CrowdLabels, others: OtherAnswers) -> PenaltyTails:
    """Of all workers."""
    return PenaltyTails.of(others, Asked.everybody(labels), RELIABILITY)


def outcomes(labels: CrowdLabels, others: np.ndarray, worker: int) -> tuple[np.ndarray, np.ndarray]:
    """Every table of labels that the worker could have given: penalty, and chance on the grid."""
    rows = np.flatnonzero(labels.worker == worker)
    wrong = (1 - others[rows]) / (labels.n_classes - 1)
    penalties, chances = [], []
    for answers in product(range(labels.n_classes), repeat=len(rows)):
        given = labels.label.copy()
        given[rows] = answers
        other = CrowdLabels.from_codes(
            labels.worker, labels.task, given,
            workers=labels.workers, tasks=labels.tasks, classes=labels.classes,
        )  # fmt: skip
        penalties.append(soft_penalty(other)[worker])
        place = np.arange(len(rows)), list(answers)
        right = others[rows][place][:, None] * RELIABILITY
        chances.append(np.prod(right + wrong[place][:, None] * (1 - RELIABILITY), axis=0))
    return np.array(penalties), np.array(chances)


@pytest.mark.parametrize(("n_labels", "n_classes"), [(1, 2), (2, 3), (3, 2), (4, 3), (7, 2)])
def test_the_chance_is_that_of_all_outcomes(
    rng: np.random.Generator, n_labels: int, n_classes: int
) -> None:
    labels = crowd(rng, n_labels, n_classes)
    found = fit_honest(labels).others
    tails, others = tails_of(labels, found), dense(found)
    penalty, chance = outcomes(labels, others, 0)
    assert chance.sum(axis=0) == pytest.approx(np.ones(len(RELIABILITY)))
    for asked in np.unique(penalty[penalty > 0]):
        each = np.zeros(labels.n_workers)
        each[0] = asked
        expected = POPULATION @ chance[penalty >= asked - NEAR].sum(axis=0)
        assert tails.p_values(each, POPULATION)[0] == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("n_labels", [1, 2, 3, 5, 12, 20])
def test_p_values_of_an_honest_worker_are_uniform(rng: np.random.Generator, n_labels: int) -> None:
    """Kolmogorov–Smirnov, false alarms 1e-6; what equal penalties share is spread evenly."""
    labels = crowd(rng, n_labels, 3)
    found = fit_honest(labels).others
    tails, others = tails_of(labels, found), dense(found)
    rows = np.flatnonzero(labels.worker == 0)
    same = labels.counts()[labels.task[rows]]
    same[np.arange(n_labels), labels.label[rows]] -= 1
    n_draws, at_least, above = 2000, [], []
    for reliability in rng.choice(RELIABILITY, size=n_draws, p=POPULATION):
        chance = others[rows] * reliability + (1 - others[rows]) * (1 - reliability) / 2
        answer = (rng.random((n_labels, 1)) > chance.cumsum(axis=1)).sum(axis=1).clip(0, 2)
        agree = same[np.arange(n_labels), answer]
        conflict = agree < same.sum(axis=1)
        penalty = np.zeros(labels.n_workers)
        penalty[0] = (conflict / (agree + 1)).sum() / max(conflict.sum(), 1)
        at_least.append(tails.p_values(penalty, POPULATION)[0])
        reached = np.where(penalty > 0, penalty + 2 * NEAR, 1e-6)
        above.append(tails.p_values(np.where(np.arange(8) == 0, reached, 0), POPULATION)[0]
                     if reached[0] <= 1 else 0.0)  # fmt: skip
    p_value = np.array(above) + rng.random(n_draws) * (np.array(at_least) - np.array(above))
    assert kstest(p_value, "uniform").pvalue > 1e-6
    small = np.mean(np.array(at_least) <= 0.05)
    assert small < 0.05 + 5 * np.sqrt(0.05 * 0.95 / n_draws)  # never too small


def test_sums_are_rounded_up_where_they_would_be_too_many(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = crowd(rng, 9, 3)
    others = fit_honest(labels).others
    exact = tails_of(labels, others)
    monkeypatch.setattr("quality.reputation.penalty_tails.MOST", 50)
    coarse = tails_of(labels, others)
    assert len(coarse.key) < len(exact.key)
    penalty = soft_penalty(labels)
    fine, rough = (tails.p_values(penalty, POPULATION)[0] for tails in (exact, coarse))
    assert fine <= rough <= fine + 0.1


def test_a_worker_of_one_label_is_not_told_nine_times_too_small(rng: np.random.Generator) -> None:
    """Alone against seven: the chance is hers to be wrong where all others are right."""
    labels = encode(range(8), [0] * 8, [1, 1, 1, 1, 1, 1, 1, 0])
    found, _ = ask_others(
        labels, TaskAnswers.of(labels), np.zeros(8), np.array([0.02, 0.98])
    )  # of one class each, by the prior
    tails = tails_of(labels, found)
    wrong = POPULATION @ (1 - RELIABILITY)
    found = tails.p_values(soft_penalty(labels), POPULATION)[7]
    assert found == pytest.approx(0.98 * wrong + 0.02 * (1 - wrong), abs=1e-12)
    assert EXACT >= 12


@pytest.mark.parametrize("n_labels", [3, 12, 30])
def test_p_values_of_one_population_are_those_of_many(
    rng: np.random.Generator, n_labels: int
) -> None:
    labels = crowd(rng, n_labels, 3)
    others, penalty = fit_honest(labels).others, soft_penalty(labels)
    asked = Asked.everybody(labels)
    once = honest_p_values(others, asked, RELIABILITY, penalty, POPULATION)
    np.testing.assert_allclose(
        once, tails_of(labels, others).p_values(penalty, POPULATION), rtol=1e-9, atol=1e-13
    )


def test_a_last_label_that_would_make_too_many_states_is_rounded_up_too(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = crowd(rng, 9, 3)
    others, penalty = fit_honest(labels).others, soft_penalty(labels)
    monkeypatch.setattr("quality.reputation.penalty_tails.MOST", 50)
    asked = Asked.everybody(labels)
    once = honest_p_values(others, asked, RELIABILITY, penalty, POPULATION)
    np.testing.assert_allclose(
        once, tails_of(labels, others).p_values(penalty, POPULATION), rtol=1e-9, atol=1e-13
    )


def test_a_normal_tail_is_that_of_its_sums_over_tasks(rng: np.random.Generator) -> None:
    """Of 27 labels: means and variances of S - t N, added up a task at a time at each reliability."""
    labels = crowd(rng, 27, 3)
    others = fit_honest(labels).others
    hers = labels.worker_order[slice(*labels.worker_start[:2])]
    flat, slope, share = np.empty((3, others.most_terms))
    mean, variance = np.zeros((2, len(RELIABILITY)))
    for row in hers:
        n_terms = answer_terms(row, *others.table, flat, slope, share)
        chance = flat[:n_terms, None] + slope[:n_terms, None] * RELIABILITY
        off = (share[:n_terms] - 0.3 * (share[:n_terms] > 0))[:, None]
        mean += (chance * off).sum(axis=0)
        variance += (chance * off**2).sum(axis=0) - (chance * off).sum(axis=0) ** 2
    asked = Asked(hers, np.array([0, len(hers)]))
    found = honest_p_values(others, asked, RELIABILITY, np.array([0.3]), POPULATION)
    expected = norm.cdf(mean / np.sqrt(variance)) @ POPULATION
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("most", [50, 4096])
def test_p_values_do_not_depend_on_the_order_of_tasks_workers_and_classes(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Where sums are rounded up label by label, that the tasks came in another order moved them by .05."""
    monkeypatch.setattr("quality.reputation.penalty_tails.MOST", 8 * most)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        labels = crowd(rng, 22, 2 + seed % 3)
        sizes = labels.n_workers, labels.n_tasks, labels.n_classes
        worker, task, label = (rng.permutation(size) for size in sizes)
        other = CrowdLabels.from_codes(
            worker[labels.worker], task[labels.task], label[labels.label],
            workers=labels.workers, tasks=labels.tasks, classes=labels.classes,
        )  # fmt: skip
        one, two = (
            honest_p_values(
                fit_honest(table).others,
                Asked.everybody(table),
                RELIABILITY,
                soft_penalty(table),
                POPULATION,
            )
            for table in (labels, other)
        )
        np.testing.assert_allclose(one, two[worker], atol=1e-6)

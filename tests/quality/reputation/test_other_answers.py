"""The others' say at each label, against every class of every task in turn."""

import numpy as np
import pytest
from hypothesis import given, settings

from quality import CrowdLabels, encode
from quality.reputation.other_answers import Asked, OtherAnswers, TaskAnswers, ask_others
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=30, deadline=None, derandomize=True)


def dense(others: OtherAnswers, prior: np.ndarray | None = None) -> np.ndarray:
    """P(truth | the others' labels) with a column for every class; what nobody gave goes by the prior."""
    n_labels, found = len(others.right), others.answers
    prior = np.ones(others.n_classes) if prior is None else prior
    table = np.empty((n_labels, others.n_classes))
    for row in range(n_labels):
        task = others.task[row]
        given = found.answer[found.start[task] : found.start[task + 1]]
        chance = others.chance[found.row_start[row] : found.row_start[row + 1]]
        share = prior.copy()
        share[given] = 0.0
        table[row] = share / max(share.sum(), 1e-300) * max(1 - chance.sum(), 0.0)
        table[row, given] = chance
    return table


def told_one_by_one(
    labels: CrowdLabels, log_odds: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P(truth | labels but this one), and the expected tasks of each class."""
    chance, mass = np.empty((labels.n_labels, labels.n_classes)), np.zeros(labels.n_classes)
    for task in range(labels.n_tasks):
        rows = np.arange(*labels.task_start[task : task + 2])
        for left_out in [*rows, None]:
            belief = np.log(prior)
            for row in rows[rows != left_out] if left_out is not None else rows:
                belief[labels.label[row]] += log_odds[labels.worker[row]]
            power = np.exp(belief - belief.max())
            if left_out is None:
                mass += power / power.sum() if len(rows) else 0.0
            else:
                chance[left_out] = power / power.sum()
    return chance, mass


@QUICK
@given(crowds())
def test_the_chances_are_those_told_one_by_one(labels: CrowdLabels) -> None:
    rng = np.random.default_rng(0)
    log_odds, prior = (
        rng.normal(1, 1, labels.n_workers),
        rng.dirichlet(np.full(labels.n_classes, 3.0)),
    )
    answers = TaskAnswers.of(labels)
    others, mass = ask_others(labels, answers, log_odds, prior)
    expected, expected_mass = told_one_by_one(labels, log_odds, prior)
    np.testing.assert_allclose(dense(others, prior), expected, atol=1e-12)
    np.testing.assert_allclose(
        others.right, expected[np.arange(labels.n_labels), labels.label], atol=1e-12
    )
    np.testing.assert_allclose(mass, expected_mass, atol=1e-10)


@QUICK
@given(crowds())
def test_the_answers_of_a_task_are_its_classes_with_their_counts(labels: CrowdLabels) -> None:
    found, counts = TaskAnswers.of(labels), labels.counts()
    for task in range(labels.n_tasks):
        mine = slice(*found.start[task : task + 2])
        np.testing.assert_array_equal(found.answer[mine], np.flatnonzero(counts[task]))
        np.testing.assert_array_equal(found.count[mine], counts[task][counts[task] > 0])
    np.testing.assert_array_equal(
        found.answer[found.start[labels.task] + found.place], labels.label
    )


def test_a_sample_has_the_labels_of_those_chosen_evenly_over_their_tasks() -> None:
    worker, task = np.divmod(np.arange(30), 10)
    labels = encode(worker, task, np.zeros(30, dtype=int))
    sample = Asked.everybody(labels).sample(np.array([2, 0]), 5)
    assert sample.start.tolist() == [0, 5, 10]
    assert labels.worker[sample.rows].tolist() == [2] * 5 + [0] * 5
    assert labels.task[sample.rows].tolist() == [0, 2, 4, 6, 8] * 2


def test_tables_do_not_grow_with_the_number_of_classes() -> None:
    labels = encode(
        ["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], [0, 0, 1] * 2, classes=range(9000)
    )
    others, mass = ask_others(labels, TaskAnswers.of(labels), np.ones(3), np.full(9000, 1 / 9000))
    assert len(others.chance) == 12
    assert mass.sum() == pytest.approx(2)

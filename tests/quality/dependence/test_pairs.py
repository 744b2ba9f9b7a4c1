"""Pairs: counts against a slow count, whatever the blocks, and skills that explain honest agreement."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from quality import CrowdLabels, LocalEngine, cut_labels, encode, regular_assignment, simulate_crowd
from quality.dependence import pairs
from quality.dependence.pairs import fit_pairs
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=50, deadline=None, derandomize=True)


def slow_counts(labels: CrowdLabels) -> dict[tuple[int, int], tuple[int, int]]:
    """Common and agreed tasks of every pair who share a task."""
    given_labels: list[dict[int, int]] = [{} for _ in range(labels.n_workers)]
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        given_labels[worker][int(task)] = int(label)
    counts = {}
    for one, other in combinations(range(labels.n_workers), 2):
        common = given_labels[one].keys() & given_labels[other].keys()
        agreed = sum(given_labels[one][task] == given_labels[other][task] for task in common)
        if common:
            counts[one, other] = len(common), agreed
    return counts


@pytest.mark.parametrize("block", [1, 5, 10**6])
@QUICK
@given(labels=crowds())
def test_pairs_are_counted_as_one_by_one_whatever_the_blocks_and_shards(
    block: int, labels: CrowdLabels
) -> None:
    before, pairs.BLOCK = pairs.BLOCK, block
    try:
        cuts = sorted({0, labels.n_tasks // 2, labels.n_tasks})
        fit = fit_pairs(LocalEngine(cut_labels(labels, cuts)))
    finally:
        pairs.BLOCK = before
    found = zip(fit.n_common.tolist(), fit.n_agreed.tolist(), strict=True)
    places = [tuple(pair) for pair in fit.pair.tolist()]
    assert dict(zip(places, found, strict=True)) == slow_counts(labels)


def test_skills_explain_the_agreement_of_honest_workers() -> None:
    """The excess of all judged pairs has mean 0 and standard deviation 1, within 5 errors of 1225."""
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=2000, n_workers=50, labels_per_task=10, rng=rng)
    truth = rng.integers(2, size=2000)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries={}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    fit = fit_pairs(LocalEngine(cut_labels(labels, [0, 2000])))
    assert fit.judged.all()
    assert abs(fit.z.mean()) < 5 / 35
    assert 0.85 < fit.z.std() < 1.15
    # with two even classes, skill is (2 accuracy - 1) / sqrt(2)
    assert np.corrcoef(fit.skill, crowd.accuracy)[0, 1] > 0.95
    assert fit.skill.mean() == pytest.approx((2 * crowd.accuracy.mean() - 1) / np.sqrt(2), abs=0.03)


def test_very_many_pairs_who_all_share_enough_tasks_are_all_looked_at(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """A crowd of more than two thousand who all did the same tasks."""
    worker, task = np.divmod(np.arange(120), 20)
    labels = encode(worker, task, rng.integers(2, size=120))
    engine = LocalEngine(cut_labels(labels, [0, 7, 20]))
    expected = fit_pairs(engine)
    monkeypatch.setattr(pairs, "MAX_PAIRS", 5)
    found = fit_pairs(engine)
    assert found.n_common.tolist() == [20] * 15
    assert found.z.tolist() == expected.z.tolist()


def test_nobody_is_expected_to_agree_less_than_chance_where_a_class_is_rare() -> None:
    """With 1 % of the tasks in one class all agree on .98 or more, and nobody stands out."""
    rng = np.random.default_rng(3)
    truth = rng.random(4000) < 0.01
    right = np.where(truth, 0.8, 0.998)
    label = np.where(rng.random((15, 4000)) < right, truth, ~truth)
    worker, task = np.divmod(np.arange(label.size), 4000)
    labels = encode(worker, task, label.ravel())
    fit = fit_pairs(LocalEngine(cut_labels(labels, [0, 4000])))
    assert (fit.expected > fit.chance).all()
    assert fit.z.max() < 4

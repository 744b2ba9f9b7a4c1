"""Pairs: counts against a slow count, whatever the blocks, and skills that explain honest agreement."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from quality import CrowdLabels, LocalEngine, cut_labels, encode, regular_assignment, simulate_crowd
from quality.dependence import pairs
from quality.dependence.pairs import fit_pairs, group_votes
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


def test_cliques_that_are_most_of_the_pairs_judged_stand_out_all_the_same() -> None:
    """Where few but cliques share eight tasks, the honest pairs' spread was taken from cliques too."""
    rng = np.random.default_rng(0)
    n_honest, n_cliques, n_tasks = 250, 100, 1500
    truth = rng.integers(3, size=n_tasks)
    worker, task, label = [], [], []
    for one in range(n_honest + n_cliques):
        tasks, right = rng.choice(n_tasks, 50, replace=False), 0.8 if one < n_honest else 0.4
        answers = np.where(rng.random(50) < right, truth[tasks], rng.integers(3, size=50))
        members = [one] if one < n_honest else range(one, one + 3 * n_cliques, n_cliques)
        for member in members:
            worker.append(np.full(50, member))
            task.append(tasks)
            label.append(answers)
    labels = encode(*map(np.concatenate, (worker, task, label)))
    fit = fit_pairs(LocalEngine(cut_labels(labels, [0, n_tasks])))
    joined = (fit.pair >= n_honest).all(axis=1) & (fit.n_agreed == 50)
    assert joined.sum() == 3 * n_cliques
    assert joined.sum() > 0.6 * fit.judged.sum()
    assert fit.z[joined].min() > 4
    assert fit.z[~joined].max() < 4


def test_votes_of_groups_are_the_labels_of_their_members_each_once() -> None:
    labels = encode(["a", "b", "c", "d"] * 2, [1, 1, 1, 1, 3, 3, 3, 3], list("xyxxyyxy"))
    (shard,) = cut_labels(labels, [0, 2])
    others, first, second = group_votes(shard, np.array([1, -1, 0, 1]), 2)
    assert (others.worker.tolist(), first.worker.tolist()) == ([1, 1], [2, 2])
    assert second.worker.tolist() == [0, 3, 0, 3]
    assert second.place.tolist() == [0, 0, 1, 1]
    assert [part.tolist() for part in second.alike()] == [[0, 1], [0, 1], [2, 2]]
    assert second.pairs_of_products(np.array([1.0, 2, 3, 4])).tolist() == [2, 12]

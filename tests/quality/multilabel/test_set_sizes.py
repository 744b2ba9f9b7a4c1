"""The number of classes at once: its law by chance, its weight, and what it tells of each class."""

from itertools import pairwise, product

import numpy as np
import pytest

from quality import encode_multilabels, multilabel_consensus, regular_assignment
from quality.multilabel.set_sizes import cell_chances, independent_sizes, size_weights


def test_sizes_by_independence_are_those_of_all_sets() -> None:
    prevalence = np.array([0.5, 0.1, 0.3, 0.8])
    expected = np.zeros(5)
    for chosen in product([0, 1], repeat=4):
        held = np.array(chosen)
        expected[held.sum()] += np.prod(np.where(held, prevalence, 1 - prevalence))
    np.testing.assert_allclose(independent_sizes(prevalence, 5), expected)
    np.testing.assert_allclose(independent_sizes(prevalence, 3), expected[:3])


def test_sizes_that_spread_as_by_chance_or_more_say_nothing() -> None:
    prevalence = np.array([0.5, 0.5, 0.5])
    apart = np.array([40.0, 10.0, 10.0, 40.0])  # all or none, as grades that are reached
    assert size_weights(apart, prevalence).tolist() == [1.0] * 4
    assert size_weights(np.zeros(4), prevalence).tolist() == [1.0] * 4


def test_weights_turn_the_law_by_chance_into_the_one_seen() -> None:
    prevalence = np.array([0.4, 0.4, 0.3])
    n_of_size = np.array([0.0, 900.0, 100.0, 0.0])
    by_weight = size_weights(n_of_size, prevalence) * independent_sizes(prevalence, 4)
    np.testing.assert_allclose(by_weight / by_weight.sum(), n_of_size / 1000, atol=1e-3)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_evidence_of_sizes_is_that_of_summing_over_all_sets(n: int) -> None:
    rng = np.random.default_rng(n)
    log_odds, weight = (
        rng.normal(size=n),
        rng.gamma(1.0, size=7),
    )  # more sizes than these cells have
    chance, by_size, held = 1 / (1 + np.exp(-log_odds)), np.zeros(7), np.zeros(n)
    for chosen in product([0, 1], repeat=n):
        one = np.array(chosen, dtype=np.int64)
        likely = weight[one.sum()] * np.prod(np.where(one, chance, 1 - chance))
        by_size[one.sum()] += likely
        held += likely * one
    found, n_of_size = cell_chances(log_odds, np.array([0, n]), None, weight)
    np.testing.assert_allclose(n_of_size, by_size / by_size.sum())
    np.testing.assert_allclose(found, held / by_size.sum())


def test_tasks_have_sizes_of_their_own() -> None:
    rng = np.random.default_rng(1)
    log_odds, weight, start = rng.normal(size=9), rng.gamma(1.0, size=6), np.array([0, 3, 3, 8, 9])
    together, n_of_size = cell_chances(log_odds, start, None, weight)
    alone = [
        cell_chances(log_odds[first:last], np.array([0, last - first]), None, weight)
        for first, last in pairwise(start.tolist())
    ]
    np.testing.assert_allclose(together, np.concatenate([chance for chance, _ in alone]))
    np.testing.assert_allclose(n_of_size, sum(sizes for _, sizes in alone))


def test_what_is_known_of_a_cell_stands_and_counts_for_the_others() -> None:
    """One class a task: where it is known, no other holds."""
    odds, weight = np.array([3.0, -2.0, 1.0]), np.array([0.0, 1.0, 0.0, 0.0])
    known = np.array([-1, 1, -1], dtype=np.int8)
    chance, _ = cell_chances(odds, np.array([0, 3]), known, weight)
    np.testing.assert_allclose(chance, [0, 1, 0], atol=1e-15)


def test_odds_beyond_any_doubt_stay_chances() -> None:
    chance, _ = cell_chances(np.array([5000.0, -5000.0]), np.array([0, 2]), None, np.ones(3))
    np.testing.assert_allclose(chance, [1, 0], atol=1e-15)


def test_classes_that_exclude_each_other_are_noticed() -> None:
    """Workers who give one class each, right six times in ten: nearly all sets found have one class too."""
    rng = np.random.default_rng(5)
    who = regular_assignment(n_tasks=300, n_workers=30, labels_per_task=4, rng=rng)
    truth = rng.integers(6, size=300)
    given = np.where(rng.random(1200) < 0.6, truth[who.task], rng.integers(6, size=1200))
    table = encode_multilabels(
        who.worker, who.task, [[code] for code in given], classes=list(range(6))
    )
    found = multilabel_consensus(table)
    n_classes = np.array([found.classes_of(task).size for task in range(300)])
    assert (n_classes == 1).mean() > 0.95
    right = [found.classes_of(task).tolist() == [code] for task, code in enumerate(truth)]
    assert np.mean(right) > 0.8


def test_where_tasks_show_different_classes_sizes_say_nothing() -> None:
    worker, task, sets = ["a", "b", "c"] * 8, np.repeat(np.arange(8), 3), [["x"], ["x"], ["y"]] * 8
    everything = encode_multilabels(worker, task, sets, classes=["x", "y"])
    shown = encode_multilabels(
        worker, task, sets, classes=["x", "y"], shown={one: ["x", "y"] for one in range(8)}
    )
    by_size = multilabel_consensus(everything).model.reshape(8, 2).sum(axis=1)
    apart = multilabel_consensus(shown).model.reshape(8, 2).sum(axis=1)
    assert (np.abs(by_size - 1) < np.abs(apart - 1) + 1e-12).all()

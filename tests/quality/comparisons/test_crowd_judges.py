"""The crowd's Bradley–Terry model: what it finds of items and of workers, and how sure it may be."""

from typing import NamedTuple

import numpy as np
import pytest

from quality import Comparisons, bradley_terry, crowd_bradley_terry, encode_comparisons


class Crowd(NamedTuple):
    table: Comparisons
    score: np.ndarray
    judge: np.ndarray


def crowd_of(
    seed: int, n_items: int = 12, n_workers: int = 15, n: int = 1200, sd: float = 1.0, unlike: float = 1.0
) -> Crowd:  # fmt: skip
    """Items with a standard deviation of `sd`; workers who differ, by `unlike` times as much as usual."""
    rng = np.random.default_rng(seed)
    score = rng.normal(scale=sd, size=n_items)
    judge = rng.normal([1.0, 0.0, -0.5], unlike * np.array([0.6, 0.5, 0.8]), size=(n_workers, 3))
    worker = rng.integers(n_workers, size=n)
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    half = (judge[worker, 0] * (score[left] - score[right]) + judge[worker, 1]) / 2
    logits = np.column_stack([half, -half, judge[worker, 2]]) + rng.gumbel(size=(n, 3))
    said = np.array(["left", "right", "tie"])[logits.argmax(axis=1)]
    table = encode_comparisons(worker, left, right, said, question=rng.integers(30, size=n))
    score = score * judge[:, 0].mean()
    return Crowd(table, score - score.mean(), judge)


def test_intervals_of_scores_cover_the_truth() -> None:
    """40 crowds of 12 items; a false alarm in fewer than one of a million at a coverage of .95."""
    held = []
    for seed in range(40):
        crowd = crowd_of(seed)
        found = crowd_bradley_terry(crowd.table)
        error = np.sqrt(np.diag(found.covariance))
        held.append(np.abs(found.score - crowd.score) < 1.96 * error)
    assert 0.90 <= np.mean(held) <= 0.985


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_workers", "n", "unlike", "least", "most"),
    [(5, 30, 0.0, 0.86, 0.95), (5, 30, 1.0, 0.75, 0.88), (15, 30, 1.0, 0.70, 0.86), (3, 200, 1.0, 0.92, 1.0)],
)  # fmt: skip
def test_few_comparisons_of_items_far_apart_cover_as_little_as_is_said(
    n_workers: int, n: int, unlike: float, least: float, most: float
) -> None:
    """150 crowds of six items with a standard deviation of 2; a coverage's standard error is about .015."""
    held = []
    for seed in range(150):
        crowd = crowd_of(seed, 6, n_workers, n, sd=2.0, unlike=unlike)
        if crowd.judge[:, 0].mean() > 0.2 and len(crowd.table.items) == 6:
            found = crowd_bradley_terry(crowd.table)
            error = np.sqrt(np.diag(found.covariance))
            held.append(np.abs(found.score - crowd.score) < 1.96 * error)
    assert least <= np.mean(held) <= most


def test_workers_are_told_apart() -> None:
    crowd = crowd_of(3, n=6000)
    found = crowd_bradley_terry(crowd.table)
    shown = np.column_stack([found.discrimination, found.position, found.tie])
    for column in range(3):
        assert np.corrcoef(shown[:, column], crowd.judge[:, column])[0, 1] > 0.9
    scale = crowd.judge[:, 0].mean()
    truth = crowd.judge / [scale, 1, 1]
    assert np.mean(np.abs(shown - truth) < 3 * found.standard_error) > 0.9
    assert found.converged


def test_it_predicts_held_out_answers_better_than_a_model_of_equal_workers() -> None:
    gains = []
    for seed in range(4):
        table = crowd_of(seed, n=3000).table
        held = np.random.default_rng(seed).random(len(table.worker)) < 0.2
        train, test = table.take(np.flatnonzero(~held)), table.take(np.flatnonzero(held))
        rows = np.arange(len(test.outcome))
        crowd = crowd_bradley_terry(train).chances(test)[rows, test.outcome]
        plain = bradley_terry(train, prior_sd=2.0)
        half = (plain.score[test.left] - plain.score[test.right]) / 2
        weights = np.exp(np.column_stack([half, -half, np.full(len(half), plain.tie)]))
        alike = (weights / weights.sum(axis=1, keepdims=True))[rows, test.outcome]
        gains.append(np.mean(np.log(crowd) - np.log(alike)))
    assert min(gains) > 0
    assert np.mean(gains) > 0.03


def test_swapping_the_sides_turns_positions_and_nothing_else() -> None:
    crowd = crowd_of(5).table
    said = np.array(["right", "left", "tie"])[crowd.outcome]
    swapped = encode_comparisons(
        crowd.workers[crowd.worker], crowd.items[crowd.right], crowd.items[crowd.left], said,
        question=crowd.question,
    )  # fmt: skip
    here, there = crowd_bradley_terry(crowd), crowd_bradley_terry(swapped)
    assert there.score == pytest.approx(here.score, abs=1e-6)
    assert there.position == pytest.approx(-here.position, abs=1e-6)
    assert there.discrimination == pytest.approx(here.discrimination, abs=1e-6)


def test_a_table_without_comparisons_is_refused() -> None:
    with pytest.raises(ValueError, match="there must be a comparison or more, got none"):
        crowd_bradley_terry(crowd_of(0).table.take(np.zeros(0, dtype=np.int64)))


def test_an_item_without_comparisons_is_known_least() -> None:
    crowd = crowd_of(2).table
    without = np.flatnonzero((crowd.left != 0) & (crowd.right != 0))
    found = crowd_bradley_terry(crowd.take(without))
    assert abs(found.score[0]) < 0.5
    assert np.argmax(np.diag(found.covariance)) == 0


def test_a_worker_who_prefers_the_worse_helps() -> None:
    """Her discrimination is negative, and her answers count turned around."""
    crowd = crowd_of(7, n=3000).table
    sharpest = int(np.argmax(crowd_bradley_terry(crowd).discrimination))
    hers = (crowd.worker == sharpest) & (crowd.outcome < 2)
    said = np.array(["left", "right", "tie"])[np.where(hers, 1 - crowd.outcome, crowd.outcome)]
    names = crowd.workers[crowd.worker], crowd.items[crowd.left], crowd.items[crowd.right]
    turned = crowd_bradley_terry(encode_comparisons(*names, said, question=crowd.question))
    assert turned.discrimination[sharpest] < -0.5
    assert turned.information[sharpest] > 1.5


def test_answers_that_are_copied_widen_the_intervals() -> None:
    """Every question answered four times alike: as many answers, less known."""
    rng = np.random.default_rng(0)
    once = crowd_of(1, n=400).table
    rows = np.repeat(np.arange(400), 4)
    worker = rng.permuted(np.tile(np.arange(15), (400, 1)), axis=1)[:, :4].ravel()
    said = np.array(["left", "right", "tie"])[once.outcome[rows]]
    asked = np.repeat(np.arange(400), 4)
    copied = encode_comparisons(worker, once.left[rows], once.right[rows], said, question=asked)
    assert crowd_bradley_terry(once).dispersion == pytest.approx(1.0, abs=0.15)
    assert crowd_bradley_terry(copied).dispersion > 2.0


def test_answers_of_a_sharper_worker_say_more() -> None:
    found = crowd_bradley_terry(crowd_of(4, n=6000).table)
    order = np.argsort(np.abs(found.discrimination))
    assert found.information[order[-1]] > 2 * found.information[order[0]]
    assert found.information.mean() == pytest.approx(1.0)


def test_progress_is_told() -> None:
    told = []
    crowd_bradley_terry(crowd_of(0).table, max_iter=3, progress=lambda *step: told.append(step))
    assert told[-1] == ("Comparisons", 3, 3)


@pytest.mark.refusal
def test_it_takes_a_step_at_least() -> None:
    with pytest.raises(ValueError, match="max_iter must be >= 1, got 0"):
        crowd_bradley_terry(crowd_of(0).table, max_iter=0)


@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_from_few_comparisons_the_variance_of_the_scores_does_not_vanish(spread: float) -> None:
    """Thirty comparisons of six items: without a prior intervals of 95 % cover 74 % and 85 %."""
    rng, covered = np.random.default_rng(5), []
    pairs = np.triu_indices(6, 1)
    for _ in range(60):
        score = rng.normal(scale=spread, size=6)
        left = rng.integers(6, size=30)
        right = (left + rng.integers(1, 6, size=30)) % 6
        is_right = rng.random(30) > 1 / (1 + np.exp(score[right] - score[left]))
        sides = np.array(["left", "right"])[is_right.astype(int)]
        found = crowd_bradley_terry(
            encode_comparisons(rng.integers(5, size=30), left, right, sides)
        )
        if len(found.items) < 6:
            continue
        variance = np.diag(found.covariance)
        error = np.sqrt(variance[:, None] + variance - 2 * found.covariance)[pairs]
        apart = ((found.score[:, None] - found.score) - (score[:, None] - score))[pairs]
        assert error.min() > 0.2
        covered.append(np.mean(np.abs(apart) <= 1.96 * error))
    assert np.mean(covered) > 0.9

"""What it would bring to release wrong labels by class, instead of their difference and number.

python -m benchmarks.quality.gold_shares_margins
"""

from __future__ import annotations

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.gold_shares import (
    LEVEL,
    N_GOLD,
    describe,
    inside,
    noise,
    populations,
    private,
    samples_of,
)
from flows.spending import split_price
from privacy import LatticeCorrection, LatticeLaplace
from quality.shares import noisy_shares
from quality.shares.released import released_interval

PRICES, DRAWS = (1.0, 2.0, 3.0), 500
LEAST_PART = 0.3  # of the mean number of wrong labels of a class, where noise says less
HEADER = (
    "released", "classes", "cells", "of them 93–97 %", "perfect", "below", "above", "least", "mean",
    "mean width", "L1 error",
)  # fmt: skip
NOTE = (
    f"The shared sets of three classes and more; {N_GOLD} random gold tasks, {{draws:,}} draws. difference: "
    "what the product releases, the difference by class and the number of wrong labels. margins: wrong "
    "labels by consensus class and by true class, each with the right ones as one more class, as two counts "
    "on the lattice. Both have sensitivity 4: a label that gets wrong moves each margin by two, and one that "
    "stays wrong by two at most. The difference is then that of two noisy margins. Errors by class are known "
    "with noise, and drawn to their mean as far as noise makes them differ."
)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS)
    draws = parser.parse_args().draws
    sets = [whole for whole in populations().values() if len(whole) > 2]
    rows = []
    for price in PRICES:
        for title, rule in (("difference", as_released), ("margins", by_margins)):
            rng = np.random.default_rng(2)
            found = [rule(whole, price, draws, rng) for whole in sets]
            cells, width = ([one[part] for one in found] for part in (0, 1))
            named = describe([len(whole) for whole in sets], cells, width, draws)
            error = f"{np.mean([one[2] for one in found]):.4f}"
            rows.append((f"{title}, epsilon {price:g}", *named, error))
    publish(
        "gold_shares_margins", "Wrong labels by class instead of their difference", HEADER, rows,
        note=NOTE.format(draws=draws),
    )  # fmt: skip


Found = tuple[np.ndarray, np.ndarray, float]
"""Coverage by class, mean width by class, mean L1 error."""


def as_released(whole: np.ndarray, price: float, draws: int, rng: np.random.Generator) -> Found:
    found = private(whole, price, N_GOLD, draws, rng)
    return found.covered, found.width, found.l1


def by_margins(whole: np.ndarray, price: float, draws: int, rng: np.random.Generator) -> Found:
    """Release the margins of the wrong gold labels, and make shares and intervals from them."""
    k, size, truth = len(whole), int(whole.sum()), whole.sum(axis=0) / whole.sum()
    prices = split_price(price, n_tasks=size, n_gold=N_GOLD)
    counted, law = LatticeLaplace(prices[0]).law(k), LatticeCorrection(prices[1]).law(k + 1)
    wrong = samples_of(whole, N_GOLD, draws, rng) * (1 - np.eye(k, dtype=np.int64))
    said, meant = (
        wrong.sum(axis=axis) + noise(k + 1, law.scale, draws, rng)[:, :k] for axis in (2, 1)
    )
    counts = whole.sum(axis=1) + noise(k, counted.scale, draws, rng)
    flat = np.eye(k) - 1 / k
    covariance = 2 * flat @ law.covariance[:k, :k] @ flat
    noises = np.diag(counted.covariance) / size**2, np.diag(covariance) / N_GOLD**2
    tails = counted.kurtosis, law.kurtosis / 2
    share, low, high = np.zeros((3, draws, k))
    for number in range(draws):
        total = float(said[number].sum() + meant[number].sum()) / 2
        difference = flat @ (meant[number] - said[number])
        count = counts[number].astype(np.float64)
        found = noisy_shares(
            count, difference, total, n_tasks=size, n_gold=N_GOLD,
            count_covariance=counted.covariance, difference_covariance=covariance,
            count_kurtosis=tails[0], difference_kurtosis=tails[1], level=LEVEL,
        )  # fmt: skip
        sampled = (1 - N_GOLD / size) / N_GOLD**2
        sampled = sampled * by_class(said[number] + meant[number], 2 * law.variance)
        low[number], high[number] = released_interval(
            count / size, difference / N_GOLD, *noises, sampled, wrong=1 - found.accuracy,
            kurtosis=tails, level=LEVEL,
        )  # fmt: skip
        share[number] = found.share
    low, high = np.minimum(low, share), np.maximum(high, share)
    error = float(np.abs(share - truth).sum(axis=1).mean())
    return inside(low, high, truth), (high - low).mean(axis=0), error


def by_class(moved: np.ndarray, of_noise: float) -> np.ndarray:
    """Wrong labels that each class is in, drawn to their mean as far as they differ by noise alone."""
    mean = max(float(moved.mean()), 0.5)
    apart = float(np.square(moved - mean).sum()) / (moved.size - 1)
    kept = max(0.0, 1 - of_noise / apart) if apart > 0 else 0.0
    return np.asarray(np.maximum(mean + kept * (moved - mean), LEAST_PART * mean))


if __name__ == "__main__":
    main()

"""Class shares corrected by gold: their errors, and what their intervals cover.

python -m benchmarks.quality.gold_shares
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from benchmarks.publish import publish
from benchmarks.quality.crowd_sets import DATA, NEWER, SETS, read_set
from privacy import LatticeLaplace
from quality import hierarchical_dawid_skene
from quality.shares import (
    corrected_shares,
    gold_alone,
    noisy_shares,
    prediction_powered,
    rogan_gladen,
)
from quality.shares.intervals import share_intervals

LEAST_GOLD, N_GOLD, DRAWS, COVERAGE_DRAWS = 700, 200, 200, 4_000
PRICES = (0.3, 1.0, 2.0, 3.0)
MOVED = 4.0  # l1 by which one task's consensus and gold label move the correction
LEVEL, LOWEST, HIGHEST = 0.95, 0.93, 0.97


def populations() -> dict[str, np.ndarray]:
    """Tasks with gold of each set, by consensus and true class; sets with 700 or more."""
    found = {}
    for name in (*SETS, *NEWER):
        labels, gold = read_set(DATA / name)
        known = gold >= 0
        if np.count_nonzero(known) >= LEAST_GOLD:
            said = hierarchical_dawid_skene(labels).label[known].astype(np.int64)
            k = labels.n_classes
            found[name] = np.bincount(said * k + gold[known], minlength=k * k).reshape(k, k)
    return found


def main() -> None:
    found = populations()
    rng = np.random.default_rng(0)
    errors = {name: error_row(whole, rng) for name, whole in found.items()}
    first = [name for name in found if name in SETS]
    rows = [(name, str(found[name].shape[0]), *shown(row)) for name, row in errors.items()]
    means = (("mean of the first nine", first), ("mean of all", list(found)))
    rows += [
        (what, "", *shown(np.mean([errors[n] for n in names], axis=0))) for what, names in means
    ]
    worst = np.max([errors[name] - errors[name][0] for name in first], axis=0)
    rows += [("most above the count, first nine", "", *shown(worst))]
    publish(
        "gold_shares",
        "L1 error of class shares with 200 random gold tasks",
        HEADER,
        rows,
        note=NOTE,
    )
    covered = [(title, *coverage(list(tables), n, rng)) for title, tables, n in samples(found, rng)]
    covered += [
        (f"first table, epsilon {price:g}", *private_coverage(list(found.values()), price, rng))
        for price in PRICES
    ]
    publish(
        "gold_shares_coverage", "Coverage of 95 % intervals of class shares", COVERED, covered, note=COVERAGE
    )  # fmt: skip


HEADER = (
    "set", "classes", "count", "gold alone", "Rogan–Gladen", "PPI++", "corrected",
    *(f"count, eps {price:g}" for price in PRICES), *(f"corrected, eps {price:g}" for price in PRICES),
)  # fmt: skip
NOTE = (
    f"The tasks with gold of a shared set are the population; {N_GOLD} of them, at random, are the gold "
    f"that is used. Means of {DRAWS} draws (with privacy {DRAWS // 2}). Consensus: hierarchical "
    "Dawid–Skene. count: consensus labels counted. PPI++: finite population, lambda from the gold "
    "tasks. corrected: `quality.corrected_shares`, and with privacy `quality.noisy_shares` on lattice "
    "Laplace noise; the price is split between counts and correction so that noise is least, which is "
    "known from public numbers; the count beside it has the whole price. A neighbour moves one task's "
    "consensus label and its gold label. The weights of the private shrinkage were settled among five that "
    "differed by .003 on these sets; nothing else was."
)
COVERED = (
    "sample", "classes", "cells", "of them 93–97 %", "least", "mean", "mean width", "normal: 93–97 %",
    "least",
)  # fmt: skip
COVERAGE = (
    "A cell is one class of one population; its coverage is the share of draws of the gold tasks whose "
    f"interval holds the true share ({COVERAGE_DRAWS:,} draws; {DRAWS} with privacy, where chance alone "
    "puts 14 in 100 perfect cells outside 93–97 %). normal: the interval of PPI++ as published, with its "
    "finite-population variance. With few gold tasks what can be observed is coarse, and the intervals "
    "cover more than they say. Groups are of the shared sets' tasks, one class drawn three times "
    "as often. rare class: a class of share .01, of the crowd's errors at .85 accuracy."
)


def shown(values: Sequence[float] | np.ndarray) -> tuple[str, ...]:
    return tuple(f"{value:.3f}" for value in values)


def samples_of(whole: np.ndarray, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Gold tables of random samples without replacement."""
    drawn = rng.multivariate_hypergeometric(whole.ravel(), n, size=draws)
    return drawn.reshape(draws, *whole.shape)


def error_row(whole: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mean L1 errors on one set, in the order of the header."""
    truth, counts = whole.sum(axis=0) / whole.sum(), whole.sum(axis=1)
    rules: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda table: counts / whole.sum(),
        gold_alone,
        lambda table: rogan_gladen(counts, table),
        lambda table: prediction_powered(counts, table).share,
        lambda table: corrected_shares(counts[None], table[None]).share[0],
    ]
    tables = samples_of(whole, N_GOLD, DRAWS, rng)
    free = [np.mean([np.abs(rule(one) - truth).sum() for one in tables]) for rule in rules]
    noisy = [np.abs(noise(len(counts), 2 / eps, DRAWS, rng) / whole.sum() + counts / whole.sum() - truth)
             .sum(axis=1).mean() for eps in PRICES]  # fmt: skip
    paid = []
    for price in PRICES:
        found = [one for one, _ in private(whole, price, DRAWS // 2, rng)]
        paid.append(np.mean([np.abs(one.share - truth).sum() for one in found]))
    return np.array([*free, *noisy, *paid])


def noise(n_classes: int, scale: float, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Lattice Laplace noise for measurements, from a seeded generator: discrete Laplace with sum zero."""
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < draws:
        size, odds = 4 * draws * n_classes, -np.expm1(-1 / scale)
        pair = rng.geometric(odds, (2, size, n_classes - 1))
        first = pair[0] - pair[1]
        last = -first.sum(axis=1)
        held = rng.geometric(odds, size) - 1 >= np.abs(last)
        kept.append(np.column_stack([first, last])[held])
    return np.concatenate(kept)[:draws]


def split(price: float, n_tasks: int, n_gold: int) -> tuple[float, float]:
    """Price of counts and of correction for which the variance of their noise together is least."""
    ratio = (MOVED / 2 * n_tasks / n_gold) ** (2 / 3)
    return price / (1 + ratio), price * ratio / (1 + ratio)


def private(whole: np.ndarray, price: float, draws: int, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """Shares from noisy releases, with the gold table behind them, draw by draw."""
    k, n = len(whole), int(whole.sum())
    of_counts, of_correction = split(price, n, N_GOLD)
    scales = 2 / of_counts, MOVED / of_correction
    laws = [LatticeLaplace(2 / scale).law(k).covariance for scale in scales]
    tables = samples_of(whole, N_GOLD, draws, rng)
    drawn = [noise(k, scale, draws, rng) for scale in (*scales, scales[1])]
    for table, counts, difference, wrong in zip(tables, *drawn, strict=True):
        yield noisy_shares(
            whole.sum(axis=1) + counts.astype(np.float64),
            table.sum(axis=0) - table.sum(axis=1) + difference.astype(np.float64),
            float(N_GOLD - np.trace(table) + (wrong[0] - wrong[1]) / 2),
            n_tasks=n, n_gold=N_GOLD, count_covariance=laws[0], difference_covariance=laws[1],
        ), table  # fmt: skip


def samples(found: dict[str, np.ndarray], rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """Populations and sizes of the gold sample: the sets whole, groups of them, and a rare class."""
    whole = list(found.values())
    yield "sets whole, 200 gold", whole, N_GOLD
    yield "sets whole, 50 gold", whole, 50
    for size in (100, 500, 5_000):
        for n in (10, 50):
            yield f"groups of {size:,}, {n} gold", [group(one, size, rng) for one in whole], n
    for k in (2, 3, 5, 10):
        for n in (50, 200):
            yield f"rare class of {k}, {n} gold", [rare(k, rng)], n


def group(whole: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Tasks of a set, drawn with one class three times as often; with replacement."""
    odds = whole * np.where(np.arange(len(whole)) == rng.integers(len(whole)), 3.0, 1.0)
    return rng.multinomial(size, odds.ravel() / odds.sum()).reshape(whole.shape)


def rare(k: int, rng: np.random.Generator) -> np.ndarray:
    """3,000 tasks of which a hundredth is of the first class; the crowd is right on .85."""
    share = np.array([0.01, *np.full(k - 1, 0.99 / (k - 1))])
    errors = np.full((k, k), 0.15 / (k - 1))
    np.fill_diagonal(errors, 0.85)
    return rng.multinomial(3_000, (errors * share).ravel()).reshape(k, k)


def coverage(tables: list[np.ndarray], n: int, rng: np.random.Generator) -> tuple[str, ...]:
    """How the cells of these populations are covered, by our interval and by the normal one."""
    cells, width, normal = [], [], []
    for whole in tables:
        truth, counts = whole.sum(axis=0) / whole.sum(), whole.sum(axis=1)
        drawn = samples_of(whole, n, COVERAGE_DRAWS, rng)
        low, high = share_intervals(
            np.broadcast_to(counts, (len(drawn), len(counts))), drawn, level=LEVEL
        )
        cells.append(inside(low, high, truth))
        width.append((high - low).mean(axis=0))
        plain = [prediction_powered(counts, one) for one in drawn[:1_000]]
        normal.append(
            inside(np.stack([p.low for p in plain]), np.stack([p.high for p in plain]), truth)
        )
    return describe(tables, cells, width) + described_normal(normal)


def private_coverage(
    tables: list[np.ndarray], price: float, rng: np.random.Generator
) -> tuple[str, ...]:
    """The same for what was released at a price."""
    cells, width = [], []
    for whole in tables:
        truth = whole.sum(axis=0) / whole.sum()
        found = [one for one, _ in private(whole, price, DRAWS, rng)]
        low, high = np.stack([one.low for one in found]), np.stack([one.high for one in found])
        cells.append(inside(low, high, truth))
        width.append((high - low).mean(axis=0))
    return (*describe(tables, cells, width), "", "")


def inside(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return ((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean(axis=0)


def describe(
    tables: list[np.ndarray], cells: list[np.ndarray], width: list[np.ndarray]
) -> tuple[str, ...]:
    covered, sizes = np.concatenate(cells), sorted({len(one) for one in tables})
    within = ((covered >= LOWEST) & (covered <= HIGHEST)).mean()
    classes = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    wide = np.mean(list(chain.from_iterable(width)))
    figures = (f"{value:.3f}" for value in (covered.min(), covered.mean(), wide))
    return (classes, str(covered.size), f"{within:.0%}", *figures)


def described_normal(cells: list[np.ndarray]) -> tuple[str, str]:
    covered = np.concatenate(cells)
    within = ((covered >= LOWEST) & (covered <= HIGHEST)).mean()
    return f"{within:.0%}", f"{covered.min():.3f}"


if __name__ == "__main__":
    main()

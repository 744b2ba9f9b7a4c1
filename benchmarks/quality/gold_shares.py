"""Class shares corrected by gold: their errors, and what their intervals cover.

python -m benchmarks.quality.gold_shares

``--draws 200`` draws less often where there is privacy, and judges less well for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain

import numpy as np
import scipy.stats

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, NEWER, SETS, read_set
from flows.spending import split_price
from privacy import LatticeCorrection, LatticeLaplace
from quality import hierarchical_dawid_skene
from quality.shares import (
    NoisyShares,
    corrected_shares,
    gold_alone,
    noisy_shares,
    prediction_powered,
    rogan_gladen,
)
from quality.shares.intervals import share_intervals
from quality.shares.released import released_interval

LEAST_GOLD, N_GOLD, DRAWS, COVERAGE_DRAWS, PRIVATE_DRAWS = 700, 200, 200, 4_000, 1_000
PRICES, GROUP_PRICES = (0.3, 1.0, 2.0, 3.0), (0.3, 1.0, 3.0)
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
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=PRIVATE_DRAWS, help="draws with privacy")
    parser.add_argument(
        "--workers", type=int, default=2, help="processes; results do not depend on them"
    )
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        measure(pool, populations(), given.draws)


def measure(pool: Executor, found: dict[str, np.ndarray], draws: int) -> None:
    """Publish both pages; every piece has random numbers of its own."""
    rng = np.random.default_rng(0)
    seeds = iter(rng.spawn(2_000))
    paid = {
        price: [
            pool.submit(private, whole, price, N_GOLD, draws, next(seeds))
            for whole in found.values()
        ]
        for price in PRICES
    }
    free = [pool.submit(error_row, whole, next(seeds)) for whole in found.values()]
    taken = [(title, list(tables), n) for title, tables, n in samples(found, rng)]
    open_ones = [(title, pool.submit(coverage, whole, n, next(seeds))) for title, whole, n in taken]
    groups = [
        (
            f"{title}, epsilon {price:g}",
            [pool.submit(private, one, price, n, 3 * draws // 10, next(seeds)) for one in whole],
        )
        for title, whole, n in taken
        if not title.startswith(("sets", "groups of 500,"))
        for price in GROUP_PRICES
    ]
    errors = {
        name: row.result() + [paid[price][number].result().l1 for price in PRICES]
        for number, (name, row) in enumerate(zip(found, free, strict=True))
    }
    publish_errors(found, errors, draws)
    private_ones = [(f"sets whole, 200 gold, epsilon {price:g}", paid[price]) for price in PRICES]
    covered = [(title, *row.result()) for title, row in open_ones]
    for times, pieces in ((draws, private_ones), (3 * draws // 10, groups)):
        covered += [
            (title, *described([one.result() for one in drawn], times)) for title, drawn in pieces
        ]
    publish(
        "gold_shares_coverage", "Coverage of 95 % intervals of class shares", COVERED, covered,
        note=COVERAGE.format(draws=draws, fewer=3 * draws // 10, few=perfect(200)),
    )  # fmt: skip


def publish_errors(
    found: dict[str, np.ndarray], errors: dict[str, list[float]], draws: int
) -> None:
    first = [name for name in found if name in SETS]
    rows = [(name, str(found[name].shape[0]), *shown(row)) for name, row in errors.items()]
    for what, names in (("first nine", first), ("all", list(found))):
        mean = np.mean([errors[n] for n in names], axis=0)
        worst = np.max([above_the_count(errors[name]) for name in names], axis=0)
        rows.append((f"mean of {what}", "", *shown(mean)))
        rows.append((f"most above the count, {what}", "", *shown(worst)))
    publish(
        "gold_shares",
        "L1 error of class shares with 200 random gold tasks",
        HEADER,
        rows,
        note=NOTE.format(draws=draws),
    )


HEADER = (
    "set", "classes", "count", "gold alone", "Rogan–Gladen", "PPI++", "corrected",
    *(f"count, eps {price:g}" for price in PRICES), *(f"corrected, eps {price:g}" for price in PRICES),
)  # fmt: skip
NOTE = (
    f"The tasks with gold of a shared set are the population; {N_GOLD} of them, at random, are the gold "
    f"that is used. Means of {DRAWS} draws (with privacy {{draws:,}}). Consensus: hierarchical "
    "Dawid–Skene. count: consensus labels counted. PPI++: finite population, lambda from the gold "
    "tasks. corrected: `quality.corrected_shares`, and with privacy `quality.noisy_shares` on lattice "
    "Laplace noise; the price is split between counts and correction by public numbers "
    "(`crowdassay plan gold` does it so); the count beside it has the whole price. A neighbour moves one "
    "task's consensus label and its gold label. How the odds of no bias were settled: "
    "[families left out](gold_shares_odds.md)."
)
COVERED = (
    "sample", "classes", "cells", "of them 93–97 %", "perfect", "below", "above", "least", "mean",
    "mean width", "beside: 93–97 %", "least",
)  # fmt: skip
COVERAGE = (
    "A cell is one class of one population; its coverage is the share of draws of the gold tasks whose "
    f"interval holds the true share ({COVERAGE_DRAWS:,} draws; {{draws:,}} with privacy, {{fewer:,}} for "
    "groups). perfect: how many cells would be counted within 93–97 % if every interval covered exactly "
    "95 %; with 200 draws that would be {few:.0%}, so that more are drawn. beside: the interval of PPI++ "
    "as published, with its finite-population variance; with privacy ours, were it known in how many errors "
    "each class is, which no release says. With few gold tasks what can be observed is coarse, and the "
    "intervals cover more than they say. With privacy an interval is widened to hold its share. "
    "Groups are of the shared sets' tasks, one class drawn three times "
    "as often. rare class: a class of share .01, of the crowd's errors at .85 accuracy. Nothing was "
    "settled by coverage."
)


@dataclass(frozen=True)
class Drawn:
    """What many releases of one population brought: L1 error, coverage by class, and width."""

    n_classes: int
    l1: float
    covered: np.ndarray
    known: np.ndarray
    width: np.ndarray


def shown(values: Sequence[float] | np.ndarray) -> tuple[str, ...]:
    return tuple(f"{value:.3f}" for value in values)


def samples_of(whole: np.ndarray, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Gold tables of random samples without replacement."""
    drawn = rng.multivariate_hypergeometric(whole.ravel(), n, size=draws)
    return drawn.reshape(draws, *whole.shape)


def above_the_count(row: list[float]) -> np.ndarray:
    """How much each error is above that of the count; corrected ones, of the count at the same price."""
    n = len(PRICES)
    return np.array(row) - np.array([row[0]] * (len(row) - n) + row[-2 * n : -n])


def error_row(whole: np.ndarray, rng: np.random.Generator) -> list[float]:
    """Mean L1 errors on one set, in the order of the header, of all that needs no correction's price."""
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
    return [float(error) for error in (*free, *noisy)]


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


def private(whole: np.ndarray, price: float, n: int, draws: int, rng: np.random.Generator) -> Drawn:
    """Release a population's counts and correction, often."""
    truth, k, size = whole.sum(axis=0) / whole.sum(), len(whole), int(whole.sum())
    prices = split_price(price, n_tasks=size, n_gold=n)
    laws = LatticeLaplace(prices[0]).law(k), LatticeCorrection(prices[1]).law(k)
    found = list(releases(whole, n, laws, draws, rng))
    share, low, high = (
        np.stack([getattr(one, key) for one, _, _ in found]) for key in ("share", "low", "high")
    )
    first, last = (np.stack([one[end] for one in found]) for end in (1, 2))
    return Drawn(
        k, float(np.abs(share - truth).sum(axis=1).mean()), inside(low, high, truth),
        inside(np.minimum(first, share), np.maximum(last, share), truth), (high - low).mean(axis=0),
    )  # fmt: skip


def sample_variance(whole: np.ndarray, n: int) -> np.ndarray:
    """Variance of each class's correction by a sample of n gold tasks, errors by class being known."""
    joint = whole / whole.sum()
    errors, bias = joint - np.diag(np.diag(joint)), joint.sum(axis=0) - joint.sum(axis=1)
    moved = errors.sum(axis=0) + errors.sum(axis=1) - np.square(bias)
    return np.asarray((1 - n / whole.sum()) / n * moved)


def releases(
    whole: np.ndarray, n: int, laws: tuple, draws: int, rng: np.random.Generator
) -> Iterator[tuple[NoisyShares, np.ndarray, np.ndarray]]:
    """Shares from noisy releases, draw by draw, and the ends were errors by class known."""
    k, tables = len(whole), samples_of(whole, n, draws, rng)
    counts, difference = (noise(k, law.scale, draws, rng) for law in laws)
    right = noise(2, laws[1].scale, draws, rng)[:, 0]
    wrong = n - np.trace(tables, axis1=1, axis2=2) + right
    difference = difference + tables.sum(axis=1) - tables.sum(axis=2)
    size, known = int(whole.sum()), sample_variance(whole, n)
    noises = [np.full(k, law.variance / base**2) for law, base in zip(laws, (size, n), strict=True)]
    tails = laws[0].kurtosis, laws[1].kurtosis
    for number in range(draws):
        count = (whole.sum(axis=1) + counts[number]).astype(np.float64)
        moved = difference[number].astype(np.float64)
        found = noisy_shares(
            count, moved, float(wrong[number]), n_tasks=size, n_gold=n,
            count_covariance=laws[0].covariance, difference_covariance=laws[1].covariance,
            count_kurtosis=tails[0], difference_kurtosis=tails[1], level=LEVEL,
        )  # fmt: skip
        low, high = released_interval(
            count / size, moved / n, *noises, known, wrong=1 - found.accuracy, kurtosis=tails,
            level=LEVEL,
        )  # fmt: skip
        yield found, low, high


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
    return describe([len(one) for one in tables], cells, width, COVERAGE_DRAWS) + beside(normal)


def described(drawn: list[Drawn], draws: int) -> tuple[str, ...]:
    """How the cells of these populations are covered, and how if errors by class were known."""
    cells, width = [one.covered for one in drawn], [one.width for one in drawn]
    return describe([one.n_classes for one in drawn], cells, width, draws) + beside(
        [one.known for one in drawn]
    )


def inside(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return ((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean(axis=0)


def describe(
    n_classes: list[int], cells: list[np.ndarray], width: list[np.ndarray], draws: int
) -> tuple[str, ...]:
    covered, sizes = np.concatenate(cells), sorted(set(n_classes))
    within = ((covered >= LOWEST) & (covered <= HIGHEST)).mean()
    classes = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    wide = np.mean(list(chain.from_iterable(width)))
    figures = (f"{value:.3f}" for value in (covered.min(), covered.mean(), wide))
    outside = (f"{part.mean():.0%}" for part in (covered < LOWEST, covered > HIGHEST))
    return (
        classes,
        str(covered.size),
        f"{within:.0%}",
        f"{perfect(draws):.0%}",
        *outside,
        *figures,
    )


def perfect(draws: int) -> float:
    """Chance that an interval that covers exactly at its level is counted within the limits."""
    ends = np.ceil(LOWEST * draws - 1e-9) - 1, np.floor(HIGHEST * draws + 1e-9)
    low, high = scipy.stats.binom.cdf(ends, draws, LEVEL)
    return float(high - low)


def beside(cells: list[np.ndarray]) -> tuple[str, str]:
    covered = np.concatenate(cells)
    within = ((covered >= LOWEST) & (covered <= HIGHEST)).mean()
    return f"{within:.0%}", f"{covered.min():.3f}"


if __name__ == "__main__":
    main()

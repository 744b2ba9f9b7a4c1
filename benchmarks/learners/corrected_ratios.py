"""Class ratios of unlabelled groups from shares of the crowd's labels, and from shares corrected by gold.

``python -m benchmarks.learners.corrected_ratios`` corrupts the labels of the sets of `class_ratios` as the
shared sets' crowds err. ``--repetitions 2`` draws bags, errors, gold and noise as often for each crowd.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.learners.ratio_sets import PROTOCOLS, Problem, load, problem
from benchmarks.publish import parser_of, publish
from benchmarks.quality.gold_shares import populations
from learners import learn_ratios
from privacy import LatticeCorrection, LatticeLaplace
from quality.shares import noisy_shares, unmixed_shares

SETS = ("Adult", "Magic", "satimage", "Twitter", "MNIST")
PRICE, N_GOLD, ERRS = 1.0, 200, 0.05
NOTE = (
    "Mean L1 error of the class ratios of unlabelled groups. Labels are corrupted as the crowd of a shared "
    "set takes classes for one another (its consensus against its gold, the commonest classes), where it "
    "errs on more than {errs:.0%}; at most {crowds} crowds for each of the data, those that err most. Counts "
    "cost epsilon {price:g}; a correction by {gold} random gold tasks of all groups together costs "
    "{price:g} more. *Said*: from the published shares. *Corrected*: from "
    "`unmixed_shares`. *True*: from the bags' true shares, without noise. Draws of each: {reps}."
)


def crowds(k: int, at_most: int) -> dict[str, np.ndarray]:
    """P(consensus | truth), truth by rows, of crowds on their k commonest classes; those that err most."""
    found = {}
    for name, table in populations().items():
        if len(table) < k:
            continue
        kept = np.argsort(-table.sum(axis=0))[:k]
        of = table[np.ix_(kept, kept)].T.astype(float) + 0.5
        of /= of.sum(axis=1, keepdims=True)
        if 1 - np.diag(of).mean() > ERRS:
            found[name] = of
    worst = sorted(found, key=lambda name: np.diag(found[name]).mean())
    return {name: found[name] for name in worst[:at_most]}


def errors(
    one: Problem, confusion: np.ndarray, rng: np.random.Generator
) -> tuple[float, float, float]:
    """L1 errors from the crowd's, corrected and true shares."""
    k, sizes = len(confusion), np.array([len(label) for label in one.labels])
    said = [corrupted(label, confusion, rng) for label in one.labels]
    counts = np.array([np.bincount(label, minlength=k) for label in said])
    law = LatticeLaplace(PRICE).law(k)
    noisy = counts + lattice(rng, len(counts), k, 2 / PRICE)
    shares = noisy / sizes[:, None]
    noise = law.covariance / np.square(sizes)[:, None, None]
    truth, spoken = np.concatenate(one.labels), np.concatenate(said)
    gold = rng.choice(truth.size, size=N_GOLD, replace=False)
    difference = np.bincount(truth[gold], minlength=k) - np.bincount(spoken[gold], minlength=k)
    n_wrong = int((truth[gold] != spoken[gold]).sum())
    of_difference = LatticeCorrection(PRICE).law(k)
    whole = noisy_shares(
        noisy.sum(axis=0).astype(float),
        (difference + lattice(rng, 1, k, 4 / PRICE)[0]).astype(float),
        float(n_wrong + lattice(rng, 1, 2, 4 / PRICE)[0][0]),
        n_tasks=int(truth.size), n_gold=N_GOLD, count_covariance=law.covariance * len(counts),
        difference_covariance=of_difference.covariance, count_kurtosis=law.kurtosis / len(counts),
        difference_kurtosis=of_difference.kurtosis,
    )  # fmt: skip
    found = unmixed_shares(
        shares, noise, weight=sizes.astype(float), share=whole.share,
        share_covariance=whole.covariance, wrong=1 - whole.accuracy,
    )  # fmt: skip
    clear = np.array([np.bincount(label, minlength=k) for label in one.labels]) / sizes[:, None]
    fed = ((projected(shares), noise), (found.share, found.covariance), (clear, None))
    l1 = [ratio_error(one, share, covariance) for share, covariance in fed]
    return l1[0], l1[1], l1[2]


def ratio_error(one: Problem, share: np.ndarray, covariance: np.ndarray | None) -> float:
    model = learn_ratios(one.bags, share, noise=covariance)
    found = np.array([model.ratio(bag).ratio for bag in one.unlabelled])
    return float(np.abs(found - one.ratios).sum(axis=1).mean())


def corrupted(label: np.ndarray, confusion: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels as a crowd would have them."""
    drawn = rng.random(label.size)[:, None] > np.cumsum(confusion[label], axis=1)
    return np.minimum(drawn.sum(axis=1), len(confusion) - 1)


def lattice(rng: np.random.Generator, n: int, k: int, scale: float) -> np.ndarray:
    """Lattice Laplace noise: independent geometric noise, kept where it adds up to nothing."""
    q = math.exp(-1 / scale)
    found = np.zeros((0, k), dtype=np.int64)
    while len(found) < n:
        drawn = rng.geometric(1 - q, (4096, k)) - rng.geometric(1 - q, (4096, k))
        found = np.concatenate([found, drawn[drawn.sum(axis=1) == 0]])
    return found[:n]


def projected(share: np.ndarray) -> np.ndarray:
    clipped = np.maximum(share, 0)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--repetitions", type=int, default=1, help="draws for each crowd")
    parser.add_argument("--crowds", type=int, default=99, help="crowds of each set, at most")
    parser.add_argument("--sets", nargs="*", default=SETS, choices=tuple(PROTOCOLS))
    given, rows, all_errors = parser.parse_args(), list[list[str]](), list[np.ndarray]()
    for name in given.sets:
        x, y = load(name)
        for crowd, confusion in crowds(int(y.max()) + 1, given.crowds).items():
            drawn = []
            for seed in range(given.repetitions):
                rng = np.random.default_rng(seed)
                drawn.append(errors(problem(name, x, y, rng), confusion, rng))
            mean = np.mean(drawn, axis=0)
            all_errors.append(mean)
            wrong = f"{1 - np.diag(confusion).mean():.2f}"
            rows.append([name, crowd, wrong, *(f"{one:.3f}" for one in mean)])
            print(rows[-1], flush=True)
        page(rows, all_errors, repetitions=given.repetitions, at_most=given.crowds)


def page(rows: list[list[str]], l1: list[np.ndarray], *, repetitions: int, at_most: int) -> None:
    """Publish what has been measured so far, with its mean."""
    better = int(np.sum([one[1] <= one[0] for one in l1]))
    shown = (f"{error:.3f}" for error in np.mean(l1, axis=0))
    publish(
        "corrected_ratios",
        "Class ratios fed with corrected shares",
        ("data", "crowd", "errs on", "said", "corrected", "true"),
        [*rows, ["mean", f"{better} of {len(l1)} no worse", "", *shown]],
        note=NOTE.format(errs=ERRS, price=PRICE, gold=N_GOLD, reps=repetitions, crowds=at_most),
    )


if __name__ == "__main__":
    main()

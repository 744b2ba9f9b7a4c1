"""Errors and coverage of `ClassRatioEstimator` with and without the covariance of the proportions' noise.

``python -m benchmarks.learners.noisy_proportions``
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from benchmarks.learners.ratio_sets import load
from benchmarks.learners.stability import seeded
from benchmarks.publish import parser_of, publish
from learners import ClassRatioEstimator, KernelMatching
from privacy import LatticeLaplace, Query, Unit, project_to_simplex

LARGE, SMALL = 300, 30
SIZES = (*[LARGE] * 4, *[SMALL] * 40)
PEAK, UNLABELLED, REPETITIONS = 0.7, 400, 10
EPSILONS = (0.05, 0.1, 0.3, 1.0)
DATA = ("Magic", "satimage")

Bags = tuple[list[np.ndarray], np.ndarray, list[np.ndarray], np.ndarray]


def main() -> None:
    parser_of(__doc__).parse_args()
    rows = [row for name in DATA for row in compared(name)]
    publish(
        "noisy_proportions",
        "Class ratios from noisy proportions",
        ["data", "epsilon of a bag's counts", "error, without", "error, with", "held, without",
         "held, with"],
        rows,
        note=(
            f"Four labelled bags of {LARGE} points and forty of {SMALL}, with a share of {PEAK:g} for one "
            "class in turn and equal shares for the others. Their "
            "class counts are released by `LatticeLaplace` at the epsilon given and projected; "
            f"unlabelled are {UNLABELLED} points with a share from 0.1 to 0.9 for one class. "
            "`ClassRatioEstimator` with kernel mean matching alone, without and with the covariance of the "
            "noise. Error: mean L1 error of the class ratios; held: share of the true ratios within the "
            f"90 % intervals. Mean of {REPETITIONS} draws, and its standard error; both see the same noise. "
            "With it, bags weigh by their noise when classes are learned and when bags left out judge a "
            "bandwidth, and the distance that noise takes off the classes is put back, half of their "
            "spread at most: below 0.3 the noise of a small bag exceeds any share and projection bends its "
            "law, and there that limit holds. The intervals are for the population a bag is drawn from."
        ),
    )  # fmt: skip


def compared(name: str) -> list[tuple[str, ...]]:
    """A row for each epsilon."""
    x, y = load(name)
    errors, held = defaultdict(list), defaultdict(list)
    for seed in range(REPETITIONS):
        bags, counts, unlabelled, ratios = drawn(x, y, np.random.default_rng(seed))
        for epsilon in EPSILONS:
            proportions, noise = published(counts, epsilon, seed)
            for covariance in (None, noise):
                estimator = ClassRatioEstimator(methods=(KernelMatching(),))
                estimator.fit(bags, proportions, noise=covariance)
                found = [estimator.predict(bag) for bag in unlabelled]
                off = [np.abs(one.ratio - r).sum() for one, r in zip(found, ratios, strict=True)]
                none = np.full((ratios.shape[1], 2), np.nan)  # which holds nothing
                ends = np.array([none if one.interval is None else one.interval for one in found])
                errors[epsilon, covariance is None].append(np.mean(off))
                held[epsilon, covariance is None].append(
                    ((ends[..., 0] <= ratios) & (ratios <= ends[..., 1])).mean()
                )
    return [
        (name, f"{epsilon:g}", *(cell(part[epsilon, off]) for part in (errors, held)
                                 for off in (True, False)))
        for epsilon in EPSILONS
    ]  # fmt: skip


def drawn(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Bags:
    """Labelled bags with their class counts, unlabelled ones with their ratios; no point is in two."""
    n_classes = int(y.max()) + 1
    pool = [iter(rng.permutation(np.flatnonzero(y == k))) for k in range(n_classes)]

    def bag(size: int, peak: int, share: float) -> tuple[np.ndarray, np.ndarray]:
        count = np.full(n_classes, round(size * (1 - share) / (n_classes - 1)))
        count[peak] = size - (n_classes - 1) * count[(peak + 1) % n_classes]
        return x[[next(pool[k]) for k in range(n_classes) for _ in range(count[k])]], count

    labelled = [bag(size, i % n_classes, PEAK) for i, size in enumerate(SIZES)]
    shares = (0.1, 0.5, 0.9) if n_classes == 2 else (0.1, 0.6)
    new = [bag(UNLABELLED, i % n_classes, share) for i, share in enumerate(shares)]
    return (
        [points for points, _ in labelled], np.array([count for _, count in labelled]),
        [points for points, _ in new], np.array([count for _, count in new]) / UNLABELLED,
    )  # fmt: skip


def published(counts: np.ndarray, epsilon: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Proportions of the noisy counts, and the covariance of their noise."""
    mechanism, noise = LatticeLaplace(epsilon=epsilon), seeded(seed)
    size = counts.sum(axis=1)
    noisy = [
        mechanism.draw(
            Query("bags", "class counts", count, Unit.CONSENSUS_LABEL, n=int(count.sum()), l1=2.0),
            noise,
        )
        for count in counts
    ]
    proportions = [project_to_simplex(np.array(z), total=float(n)) / n
                   for z, n in zip(noisy, size, strict=True)]  # fmt: skip
    covariance = mechanism.law(counts.shape[1]).covariance / np.square(size)[:, None, None]
    return np.array(proportions), covariance


def cell(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / math.sqrt(len(values)):.3f}"


if __name__ == "__main__":
    main()

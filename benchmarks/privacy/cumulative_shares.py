"""Cumulative shares from released counts, or from a release of their own: error and coverage.

python -m benchmarks.privacy.cumulative_shares [--draws 4000]
"""

from __future__ import annotations

import numpy as np

from benchmarks.publish import parser_of, publish
from privacy import DiscreteLaplaceLaw, LatticeLaplace, cumulative_noise
from privacy.mechanisms.partial_sums import partial_sum_variance

LEVEL = 0.95
HEADER = (
    "grades",
    "epsilon",
    "error from the counts",
    "by formula",
    "error of a release of their own",
    "by formula",
    "all grades in the band",
    "half a band",
)


def lattice_noise(
    law_scale: float, n_classes: int, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw lattice Laplace noise for a simulation: gains and losses of one total, as the mechanism does."""
    q = np.exp(-1 / law_scale)
    found = np.empty((0, n_classes))
    while len(found) < n_draws:
        gains = rng.geometric(1 - q, (4 * n_draws, n_classes)) - 1
        total = gains.sum(axis=1)
        # P(total) is to be the square of what free draws have; the weight's logarithm, less its maximum
        steps = np.arange(total.max() + 1)
        log_ways = np.concatenate(
            [[0.0], np.cumsum(np.log((steps[1:] + n_classes - 1) / steps[1:]))]
        )
        log_weight = log_ways + steps * np.log(q)
        most = log_weight[: np.argmax(log_weight) + 1].max()
        kept = np.log(rng.random(len(total))) < log_weight[total] - most
        gains, total = gains[kept], total[kept]
        bars = np.array([
            np.sort(rng.choice(t + n_classes - 1, n_classes - 1, replace=False)) for t in total[:n_draws]
        ])  # fmt: skip
        ends = np.column_stack([bars, total[:n_draws] + n_classes - 1])
        losses = np.diff(ends, axis=1, prepend=-1) - 1
        found = np.concatenate([found, gains[:n_draws] - losses])
    return found[:n_draws]


def row(n_classes: int, epsilon: float, n_draws: int) -> tuple[str, ...]:
    """Measure one number of grades at one price."""
    rng = np.random.default_rng([n_classes, round(100 * epsilon)])
    law = LatticeLaplace(epsilon).law(n_classes)
    summed = np.cumsum(lattice_noise(law.scale, n_classes, n_draws, rng), axis=1)[:, :-1]
    low, high = cumulative_noise([law], 0, LEVEL)
    held = ((low <= summed) & (summed <= high)).all(axis=1)
    own = DiscreteLaplaceLaw((n_classes - 1) / epsilon, n_classes)
    q = np.exp(-1 / own.scale)
    shape = (n_draws, n_classes - 1)
    drawn = rng.geometric(1 - q, shape) - rng.geometric(1 - q, shape)
    by_formula = np.mean([partial_sum_variance(law, k) for k in range(1, n_classes)])
    return (
        str(n_classes),
        f"{epsilon:g}",
        f"{np.sqrt(np.mean(summed**2)):.2f}",
        f"{np.sqrt(by_formula):.2f}",
        f"{np.sqrt(np.mean(drawn.astype(float) ** 2)):.2f}",
        f"{np.sqrt(own.variance):.2f}",
        f"{np.mean(held):.3f}",
        f"{np.mean(high - low) / 2:.1f}",
    )


def main() -> None:
    """Print the table and write it down."""
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=4_000, help="draws of the noise a row")
    n_draws = parser.parse_args().draws
    rows = [row(k, epsilon, n_draws) for k in (2, 3, 5, 10) for epsilon in (0.1, 1.0)]
    publish(
        "cumulative_shares",
        "Cumulative shares cost nothing more",
        HEADER,
        rows,
        note=(
            f"{n_draws:,} draws of the noise a row. Error: root mean square over the grades below the "
            "last, in tasks. From the counts: sums of counts released with lattice Laplace noise. A "
            "release of their own: discrete Laplace noise of scale (grades - 1) / epsilon on each "
            "cumulative count, because one moved task can change all of them. By formula: the exact "
            f"laws. The band is that of the published files, at {LEVEL:.0%} for all grades together; "
            "half a band is in tasks."
        ),
    )


if __name__ == "__main__":
    main()

"""Time of exact mean kernels between bags at eleven bandwidths, against one bandwidth at a time.

``python -m benchmarks.learners.mmd_speed``
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.publish import parser_of, publish
from learners.class_ratios.kernels import bandwidth_ladder, median_distance, set_gram

N, N_BAGS = 8000, 20
TO_BE_HELD = {28: 1.6, 784: 2.7}  # seconds of one core


def main() -> None:
    parser_of(__doc__).parse_args()
    with threadpool_limits(1):
        rows = [row(n_features, limit) for n_features, limit in TO_BE_HELD.items()]
    publish(
        "mmd_speed",
        "Exact mean kernels at eleven bandwidths",
        ["features", "eleven bandwidths, s", "to be held, s", "one bandwidth, s", "ratio"],
        rows,
        note=f"{N:,} normal points in {N_BAGS} bags, process CPU seconds of one thread, best of three.",
    )


def row(n_features: int, limit: float) -> tuple[str, ...]:
    points = np.random.default_rng(0).normal(size=(N, n_features))
    bags = np.split(points, N_BAGS)
    ladder = bandwidth_ladder(median_distance(bags))
    every = seconds(lambda: set_gram(bags, ladder))
    one = seconds(lambda: set_gram(bags, ladder[5:6]))
    return f"{n_features}", f"{every:.2f}", f"{limit:.1f}", f"{one:.2f}", f"{every / one:.1f}"


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process, least of three runs."""
    least = math.inf
    for _ in range(3):
        begin = time.process_time()
        work()
        least = min(least, time.process_time() - begin)
    return least


if __name__ == "__main__":
    main()

"""The time to publish class counts of many groups: each mechanism's draws, and the ledger's calls.

python -m benchmarks.privacy.publication_speed
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.publish import parser_of, publish
from privacy import DiscreteGaussian, DiscreteLaplace, LatticeLaplace, Ledger, Query, class_counts
from privacy.mechanisms.noisy_max import NoisyMax
from privacy.noise import SystemNoise
from privacy.query import Unit

KEY = bytes(range(32))
CLASSES, TASKS = 5, 20  # tasks of each group
OnCounts = DiscreteGaussian | DiscreteLaplace | LatticeLaplace | NoisyMax
MECHANISMS: dict[str, OnCounts] = {
    "discrete Laplace": DiscreteLaplace(epsilon=1.0),
    "lattice Laplace": LatticeLaplace(epsilon=1.0),
    "discrete Gaussian": DiscreteGaussian(epsilon=1.0, delta=1e-8),
    "noisy max": NoisyMax(epsilon=1.0),
}


class CountedNoise(SystemNoise):
    """The system's noise; the integers it drew are counted."""

    def __init__(self) -> None:
        self.drawn = 0

    def discrete_laplace(self, scale: float, size: int) -> list[int]:
        """Draw and count."""
        self.drawn += size
        return super().discrete_laplace(scale, size)

    def discrete_gaussian(self, scale: float, size: int) -> list[int]:
        """Draw and count."""
        self.drawn += size
        return super().discrete_gaussian(scale, size)

    def uniform_integer(self, below: int) -> int:
        """Draw and count."""
        self.drawn += 1
        return super().uniform_integer(below)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--groups", type=int, default=10_000, metavar="N", help="groups to publish")
    n_groups = parser.parse_args().groups
    queries = _queries(n_groups)
    rows = [_row(name, mechanism, queries) for name, mechanism in MECHANISMS.items()]
    publish(
        "publication_speed",
        f"Publishing {n_groups:,} groups of {CLASSES} classes",
        ["mechanism", "noise draws a group", "draw_all, CPU s", "us a noise draw", "ledger, CPU s"],
        rows,
        note=(
            f"Run with --groups {n_groups}; epsilon 1 each. Noise draws are integers of OpenDP's "
            "samplers, refused proposals included, and uniform ones. `ledger` is `release_all` into "
            "a new SQLite file with one entry for each group: events, fingerprints, chain and "
            "draws. CPU time of the process, in which waiting for the disk is not counted."
        ),
    )


def _queries(n_groups: int) -> tuple[Query, ...]:
    """Class counts of random labels: what is drawn does not depend on them."""
    group = np.repeat(np.arange(n_groups), TASKS)
    return class_counts(
        np.random.default_rng(0).integers(CLASSES, size=group.size),
        group,
        dataset="speed",
        n_classes=CLASSES,
        n_groups=n_groups,
        group_names=[f"group {code}" for code in range(n_groups)],
        unit=Unit.CONSENSUS_LABEL,
        local=False,
        tasks=[f"task {code}" for code in range(group.size)],
    )


def _row(name: str, mechanism: OnCounts, queries: Sequence[Query]) -> list[str]:
    noise = CountedNoise()
    drawing = _seconds(lambda: mechanism.draw_all(queries, noise))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite", key=KEY)
        ledger.open_budget(
            "speed", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=1e-8, n=len(queries) * TASKS
        )
        booking = _seconds(lambda: ledger.release_all(mechanism, queries))
    return [
        name,
        f"{noise.drawn / len(queries):.1f}",
        f"{drawing:.2f}",
        f"{1e6 * drawing / noise.drawn:.1f}",
        f"{booking:.2f}",
    ]


def _seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


if __name__ == "__main__":
    main()

"""Ways in which KOS+ may divide its messages, and which of them gives the figures of the paper.

    python -m benchmarks.quality.kos_normalisations

"Reputation-based worker filtering in crowdsourcing" (NIPS 2014) calls KOS+ "a normalized version of KOS". It
gives no formula, but the accuracy on four sets.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, SETS, read_set, right
from benchmarks.quality.table1 import PAPER, TIES
from quality import CrowdLabels
from quality.aggregation.kos_messages import MessagePassing, pass_messages

Divisor = Callable[[np.ndarray], np.ndarray]
DIVISORS: dict[str, Divisor] = {
    "1": np.ones_like,
    "√(d − 1)": lambda degree: np.sqrt(np.maximum(degree - 1, 1)),
    "√d": lambda degree: np.sqrt(np.maximum(degree, 1)),
    "d − 1": lambda degree: np.maximum(degree - 1, 1),
    "d": lambda degree: np.maximum(degree, 1),
}
NEAR = 0.2  # points from the paper, on every set
NOTE = (
    "Per cent of gold tasks right, read as in table 1, by what a task's and a worker's messages are "
    "divided, d being the number of labels; all start from seed 0. farthest: the largest distance from "
    "the paper, which prints one digit. all sets: mean over the twelve shared sets, read as in the "
    "aggregators' page. KOS+ is {chosen}; within {near} points of the paper on every set: {within}."
)
CHOSEN = ("√d", "d")


def main() -> None:
    parser_of(__doc__).parse_args()
    agreed = [read_set(DATA / name, keep="agreed") for name in TIES]
    every = [read_set(DATA / name) for name in SETS]
    paper = np.array([float(PAPER[name, "KOS+"].split(" /")[0]) for name in TIES])
    rows, within = [], []
    for task, worker in product(DIVISORS, DIVISORS):
        found = [
            _right(labels, gold, tied, DIVISORS[task], DIVISORS[worker])
            for (labels, gold), tied in zip(agreed, TIES.values(), strict=True)
        ]
        farthest = float(np.abs(np.array(found) - paper).max())
        mean = np.mean(
            [
                right(_fit(labels, DIVISORS[task], DIVISORS[worker]).posterior, gold)
                for labels, gold in every
            ]
        )
        cells = (f"{value:.2f}" for value in (*found, farthest, mean))
        rows.append((task, worker, *cells))
        within += [f"{task} and {worker}"] if farthest <= NEAR else []
    words = {"chosen": " and ".join(CHOSEN), "near": NEAR, "within": ", ".join(within) or "none"}
    header = ("task by", "worker by", *TIES, "farthest", "all sets")
    published = ("paper", "", *(f"{value:.1f}" for value in paper), "", "")
    title = "KOS+: what messages are divided by"
    publish("kos_normalisations", title, header, [published, *rows], note=NOTE.format(**words))


def _fit(labels: CrowdLabels, task: Divisor, worker: Divisor) -> MessagePassing:
    """KOS with messages divided so."""
    degrees = (np.diff(start).astype(float) for start in (labels.task_start, labels.worker_start))
    scales = [1.0 / divisor(d) for divisor, d in zip((task, worker), degrees, strict=True)]
    rng = np.random.default_rng(0)
    settings = {"max_iter": 100, "tol": 1e-6, "threads": None, "progress": None}
    return pass_messages(labels, "KOS+", *scales, rng=rng, **settings)


def _right(
    labels: CrowdLabels, gold: np.ndarray, tied_class: str, task: Divisor, worker: Divisor
) -> float:
    """Per cent of gold right, ties to the class that table 1 gives them."""
    result = _fit(labels, task, worker)
    label = np.where(result.tied, labels.classes.tolist().index(tied_class), result.label)
    return 100 * float(np.mean((label == gold)[gold >= 0]))


if __name__ == "__main__":
    main()

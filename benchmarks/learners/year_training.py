"""A year of monthly models at one price: each month's tasks trained on once, or all of them every month.

``python -m benchmarks.learners.year_training`` trains on the sample campaign and three open sets, which grow
from a twelfth to 3,200 rows. ``--repetitions 12`` repeats each year as often.
"""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from benchmarks.learners.ratio_sets import DATA, load
from benchmarks.learners.stability import seeded
from benchmarks.publish import parser_of, publish
from learners import LinearModel, NoisyGradientDescent
from learners.private.noisy_descent import gaussian_ratio
from learners.private.objective_perturbation import training_query
from sample_data import __path__ as sample_path

EPSILON, DELTA, RUNS, SHOWN = 3.6, 1e-6, 12, (1, 3, 6, 12)
ROWS, TESTED = 3_200, 1_000
SETS = ("sample campaign", "Magic", "satimage", "pendigits")
NOTE = (
    "Accuracy on rows that nothing was trained on, mean of {n} years with its standard error. All months "
    "together cost epsilon {epsilon:g} and delta {delta:g}. *Cohorts*: each month's rows are trained on "
    "once, at the whole price, and the models are averaged: parallel composition. *All, every month*: the "
    "rows so far are trained on anew each month; twelve Gaussian descents compose to the price, which is "
    "more exact than any plan of the ledger's. *Once*: one training at the whole price, of all rows so "
    "far, which no other month could follow."
)


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm one, from features of [-1, 1] by their range (which leaks), and class codes."""
    if name == "sample campaign":
        x, y = sample()
    elif name == "pendigits":
        with gzip.open(DATA / "pendigits.csv.gz", "rt") as lines:
            rows = [line.strip().split(",") for line in lines if line.strip()]
        x = np.array([row[:-1] for row in rows], dtype=float)
        y = np.unique([row[-1] for row in rows], return_inverse=True)[1]
    else:
        x, y = load(name)
    low, high = x.min(axis=0), x.max(axis=0)
    x = 2 * (x - low) / np.where(high > low, high - low, 1.0) - 1
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9), y


def sample() -> tuple[np.ndarray, np.ndarray]:
    """Features and true classes of the sample campaign's tasks."""
    folder = Path(next(iter(sample_path)))
    with (folder / "tasks.csv").open(newline="") as file:
        rows = {row[0]: [float(cell) for cell in row[2:]] for row in list(csv.reader(file))[1:]}
    with (folder / "truth" / "tasks.csv").open(newline="") as file:
        truth = dict(list(csv.reader(file))[1:])
    x = np.array(list(rows.values()))
    return x, np.unique([truth[task] for task in rows], return_inverse=True)[1]


def share_of_one(epsilon: float, delta: float, runs: int) -> float:
    """Epsilon of one of so many Gaussian descents that compose to a price."""
    wanted = gaussian_ratio(epsilon, delta) / math.sqrt(runs)
    found = brentq(lambda one: gaussian_ratio(one, delta) - wanted, 1e-3, epsilon)
    return float(found)


def train(x: np.ndarray, y: np.ndarray, epsilon: float, k: int, seed: int) -> np.ndarray:
    """Coefficients of one private training."""
    mechanism = NoisyGradientDescent(epsilon, DELTA, 1.0, k)
    drawn = mechanism.draw(training_query(x, y, dataset="benchmark"), seeded(seed))
    return np.array(drawn["coef"])


def year(x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, list[float]]:
    """Accuracies of the months shown, by the way to train."""
    order, k = np.random.default_rng(seed).permutation(len(y)), int(y.max()) + 1
    test = order[:TESTED]
    months = np.array_split(order[TESTED : TESTED + ROWS], RUNS)
    again = share_of_one(EPSILON, DELTA, RUNS)
    models = [train(x[rows], y[rows], EPSILON, k, 1000 * seed + j) for j, rows in enumerate(months)]

    def right(coef: np.ndarray) -> float:
        return float((LinearModel(coef, 1.0).predict(x[test]) == y[test]).mean())

    found: dict[str, list[float]] = {"cohorts": [], "all, every month": [], "once": []}
    for month in SHOWN:
        rows = np.concatenate(months[:month])
        found["cohorts"].append(right(np.mean(models[:month], axis=0)))
        for name, price in (("all, every month", again), ("once", EPSILON)):
            found[name].append(right(train(x[rows], y[rows], price, k, 1000 * seed + 100 + month)))
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--repetitions", type=int, default=12, help="years of each set")
    n, rows = parser.parse_args().repetitions, list[list[str]]()
    for name in SETS:
        x, y = data(name)
        years = [year(x, y, seed) for seed in range(n)]
        for way in years[0]:
            of_month = np.array([one[way] for one in years])
            error = of_month.std(axis=0, ddof=1) / math.sqrt(n)
            cells = [
                f"{m:.3f} ± {e:.3f}" for m, e in zip(of_month.mean(axis=0), error, strict=True)
            ]
            rows.append([name, way, *cells])
    publish(
        "year_training",
        "A year of monthly models at one price",
        ("data", "training", *(f"month {month}" for month in SHOWN)),
        rows,
        note=NOTE.format(n=n, epsilon=EPSILON, delta=DELTA),
    )


if __name__ == "__main__":
    main()

"""Ways of choosing a histogram's bins privately: the second case study of Chaudhuri and Vinterbo (2013).

``python -m benchmarks.learners.histogram_density [repetitions]``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import beta

from benchmarks.publish import parser_of, publish
from learners.private.histogram import density_of
from learners.selection.histogram_width import HistogramValidation, histogram_query
from learners.selection.per_candidate import PerWidthValidation
from learners.selection.public_split import noisiest
from privacy import Noise, Query
from tests.learners.scripted_noise import SeededNoise

CANDIDATES = (2, 5, 10, 20, 50, 100, 200, 400)
SETTINGS = ((1000, 0.5), (10_000, 0.5), (10_000, 2.0), (50_000, 0.1), (50_000, 0.5), (50_000, 2.0))
REPETITIONS = 60
MIDDLE = (np.arange(8000) + 0.5) / 8000

Choose = Callable[[Query, float, Noise], dict[str, Any]]


def stability(query: Query, epsilon: float, noise: Noise) -> dict[str, Any]:
    released: dict[str, Any] = halves(epsilon).draw(query, noise)
    return released


def per_width(query: Query, epsilon: float, noise: Noise) -> dict[str, Any]:
    released: dict[str, Any] = PerWidthValidation(halves(epsilon)).draw(query, noise)
    return released


def split_budget(query: Query, epsilon: float, noise: Noise) -> dict[str, Any]:
    """A share of epsilon for each histogram, all of it for the choice, on other rows."""
    share = HistogramValidation(CANDIDATES, epsilon / len(CANDIDATES), epsilon, 0.0, 1.0)
    n_validation = int(query.value["validation"].sum())
    score, _ = share.scores(query, noise)
    chosen = noisiest(score, 2 * max(CANDIDATES) / n_validation, epsilon, noise)
    released: dict[str, Any] = share.release(query, chosen, noise)
    return released


def at_random(query: Query, epsilon: float, noise: Noise) -> dict[str, Any]:
    whole = HistogramValidation(CANDIDATES, epsilon, epsilon, 0.0, 1.0)
    chosen = noise.uniform_integer(len(CANDIDATES))
    released: dict[str, Any] = whole.release(query, chosen, noise)
    return released


def control(query: Query, epsilon: float, noise: Noise) -> dict[str, Any]:
    """Every histogram for the whole epsilon, and the scores in the clear: not private."""
    whole = HistogramValidation(CANDIDATES, epsilon, epsilon, 0.0, 1.0)
    chosen = int(np.argmax(whole.scores(query, noise)[0]))
    released: dict[str, Any] = whole.release(query, chosen, noise)
    return released


WAYS: dict[str, Choose] = {
    "Stability": stability,
    "Stability, per width": per_width,
    "alphaSplit": split_budget,
    "Random": at_random,
    "Control (not private)": control,
}


def halves(epsilon: float) -> HistogramValidation:
    return HistogramValidation(CANDIDATES, epsilon / 2, epsilon / 2, low=0.0, high=1.0)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("repetitions", nargs="?", type=int, default=REPETITIONS)
    repetitions = parser.parse_args().repetitions
    table = []
    for name, choose in WAYS.items():
        errors, bins = [], []
        for i, (n, epsilon) in enumerate(SETTINGS):
            error, chosen = measure(choose, n, epsilon, 1000 * i, repetitions)
            errors.append(f"{np.mean(error):.3f} ± {np.std(error) / np.sqrt(repetitions):.3f}")
            bins.append(f"{np.median(chosen):g}")
        table += [(name, "ISE", *errors), (name, "bins", *bins)]
    publish(
        "histogram_density",
        "Choosing a histogram's bins privately",
        ["way", "", *(f"n {n:,}, epsilon {epsilon:g}" for n, epsilon in SETTINGS)],
        table,
        note=(
            "Density .5 Beta(20, 60) + .3 Beta(80, 30) + .2 uniform on [0, 1]; a quarter of the n values "
            f"validates; bins {', '.join(map(str, CANDIDATES))}; {repetitions} repetitions, seeded noise. "
            "ISE is the mean integrated square error of the released density, with its standard error; "
            "bins is the median choice. No delta is spent, and no n is too small: the published procedure "
            "refuses n = 1,000 at epsilon .5 and n = 10,000 at .1."
        ),
    )


def measure(
    choose: Choose, n: int, epsilon: float, seed: int, repetitions: int
) -> tuple[list[float], list[int]]:
    errors, bins = [], []
    for repetition in range(repetitions):
        rng = np.random.default_rng(seed + repetition)
        query = histogram_query(values(n, rng), np.arange(n) % 4 == 0, dataset="toy")
        noise: Noise = SeededNoise(seed + repetition)  # type: ignore[no-untyped-call]
        released = choose(query, epsilon, noise)
        density = density_of(np.array(released["counts"]), 1 / released["n_bins"])
        found = density[(MIDDLE * released["n_bins"]).astype(int)]
        errors.append(float(np.mean((found - truth(MIDDLE)) ** 2)))
        bins.append(int(released["n_bins"]))
    return errors, bins


def values(n: int, rng: np.random.Generator) -> Float[np.ndarray, " rows"]:
    part = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
    drawn = np.array([rng.beta(20, 60, size=n), rng.beta(80, 30, size=n), rng.random(n)])
    return np.asarray(drawn[part, np.arange(n)])


def truth(x: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    return np.asarray(0.5 * beta(20, 60).pdf(x) + 0.3 * beta(80, 30).pdf(x) + 0.2)


if __name__ == "__main__":
    main()

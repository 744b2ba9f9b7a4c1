"""The error of released class proportions, by mechanism: `python -m benchmarks.privacy.figure1`.

The paper's rule is not private (see `benchmarks.privacy.paper_rule`); its column shows its claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from benchmarks.privacy.paper_rule import paper_scale
from benchmarks.publish import parser_of, publish
from privacy import LatticeLaplace, project_to_simplex
from privacy.mechanisms.dirichlet_pairs import (
    expected_distortion,
    largest_clamp_scale,
    largest_scale,
)
from privacy.mechanisms.gaussian import DiscreteGaussian

TASKS, EPSILON, DELTA, REPEATS = 1000, 0.05, 0.05, 2000
PSEUDO = 200  # a public number added to every count
HEADER = (
    "setting",
    "Laplace",
    "classical Gaussian",
    "Laplace prior",
    "lattice Laplace",
    "discrete Gaussian",
    "Dirichlet, public floor",
    "Dirichlet, pseudo-count",
    "paper's rule (not private)",
)
MARKS = ("s", "D", "P", "o", "^", "v", "*", "x")


def counts_of(n_classes: int, first: float) -> np.ndarray:
    """The paper's counts: one share for every class but the last, which has the rest."""
    small = round(first * TASKS)
    return np.array([small] * (n_classes - 1) + [TASKS - (n_classes - 1) * small])


def distance(proportions: np.ndarray, counts: np.ndarray) -> float:
    """Mean l1 distance of released proportions from the true ones."""
    return float(np.abs(proportions - counts / TASKS).sum(axis=1).mean())


def projected(counts: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Noisy counts projected to the simplex."""
    return np.array([project_to_simplex(row, float(TASKS)) for row in counts + noise]) / TASKS


def prior_draws(counts: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws from Dirichlet laws with noisy counts, at least 1 so that there is a law, as parameters."""
    drawn = rng.standard_gamma(np.maximum(counts + noise, 1.0))
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


def pseudo_draws(counts: np.ndarray, epsilon: float) -> np.ndarray:
    """Draws from a Dirichlet law whose parameters are counts and PSEUDO, whose part is taken out again.

    No such count is below PSEUDO, in the data or a neighbour's: a floor that holds by itself.
    """
    scale = float(largest_scale(PSEUDO, epsilon, DELTA))
    drawn = np.random.default_rng(1).dirichlet(scale * (counts + PSEUDO), size=REPEATS)
    return projected(np.zeros_like(counts), drawn * (counts + PSEUDO).sum() - PSEUDO)


def lattice_noise(n_classes: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Lattice Laplace vectors by rejection, from numpy: for measuring alone."""
    scale = LatticeLaplace(epsilon).law(n_classes).scale
    found = np.empty((0, n_classes), dtype=np.int64)
    while len(found) < REPEATS:
        pair = rng.geometric(-np.expm1(-1 / scale), size=(2, 4 * REPEATS, n_classes - 1))
        free = pair[0] - pair[1]
        last = -free.sum(axis=1)
        kept = rng.random(len(last)) < np.exp(-np.abs(last) / scale)
        found = np.concatenate([found, np.column_stack([free, last])[kept]])
    return found[:REPEATS]


def distortions(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> list[float]:
    """Distortion of every mechanism at one setting; NaN where the paper's rule has no scale."""
    c, floor = counts.size, int(counts.min()) - 1
    gaussian = DiscreteGaussian(epsilon, DELTA).law(c)
    classical = math.sqrt(2 * math.log(1.25 / DELTA)) * math.sqrt(2) / epsilon
    size = (REPEATS, c)
    released = [
        projected(counts, rng.laplace(scale=2 / epsilon, size=size)),
        projected(counts, rng.normal(scale=classical, size=size)),
        prior_draws(counts, rng.laplace(scale=2 / epsilon, size=size), rng),
        projected(counts, lattice_noise(c, epsilon, rng)),
        projected(counts, rng.choice(gaussian.support, p=gaussian.probability, size=size)),
    ]
    measured = [distance(proportions, counts) for proportions in released]
    public = expected_distortion(counts, float(largest_clamp_scale(floor, epsilon, DELTA)))
    pseudo = distance(pseudo_draws(counts, epsilon), counts)
    scale = paper_scale(counts.tolist(), epsilon, DELTA)
    promised = math.nan if scale is None else expected_distortion(counts, scale)
    return [*measured, public, pseudo, promised]


def draw(panels: Sequence[tuple[str, list[tuple[float, list[float]]]]]) -> Figure:
    """One panel for each thing that was varied; a line for each mechanism."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    for axes, (what, points) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        at = [value for value, _ in points]
        for place, (name, mark) in enumerate(zip(HEADER[1:], MARKS, strict=True)):
            style = "--" if "not private" in name else "-"
            found = [each[place] for _, each in points]
            axes.plot(at, found, marker=mark, ms=4.5, ls=style, label=name)
        axes.set(xlabel=what, yscale="log")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("expected l1 distortion")
    handles, _ = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    return figure


def main() -> None:
    parser_of(__doc__).parse_args()
    rng = np.random.default_rng(0)
    varied = (
        ("classes", [(c, counts_of(c, 0.05), EPSILON) for c in range(2, 11)]),
        (
            "share of each class but the last, rho1",
            [(rho, counts_of(5, rho), EPSILON) for rho in (0.025, 0.05, 0.1, 0.15, 0.2)],
        ),
        ("epsilon", [(e, counts_of(5, 0.05), e) for e in (0.01, 0.02, 0.05, 0.1, 0.2)]),
    )
    panels = [
        (what, [(at, distortions(counts, e, rng)) for at, counts, e in settings])
        for what, settings in varied
    ]
    titles = ("{:g} classes", "5 classes, rho1 = {:g}", "5 classes, epsilon = {:g}")
    rows = [
        [words.format(at), *("no scale" if math.isnan(x) else f"{x:.4f}" for x in found)]
        for words, (_, points) in zip(titles, panels, strict=True)
        for at, found in points
    ]
    publish(
        "figure1",
        "Expected l1 distortion of class proportions (Figure 1 of Iyer, Nath, Sarawagi 2016)",
        HEADER,
        rows,
        note=(
            f"{TASKS} tasks, epsilon {EPSILON} and delta {DELTA} unless stated otherwise, all "
            "classes but the last of share rho1 = 0.05. The paper's three baselines come first; its "
            "Laplace prior draws proportions from a Dirichlet law whose parameters are counts with "
            "Laplace noise, at least 1. Other noisy counts are projected to the simplex; means of "
            f"{REPEATS} seeded draws. The public floor and the paper's rule are exact; the floor is one "
            "below the smallest count, as if that were known in public, the most favourable there "
            f"is. Pseudo-counts of {PSEUDO}, which need no floor, are taken out after the draw. The "
            "paper's rule takes its scale from the counts and does not keep the delta it "
            "claims. The lattice and the discrete Gaussian err less than it wherever it has a scale, "
            "with their promises kept."
        ),
        picture=draw(panels),
    )


if __name__ == "__main__":
    main()

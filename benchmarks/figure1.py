"""Figure 1 of the 2016 paper again: what releasing class proportions costs in accuracy, by mechanism.

The paper's rule is not private (see `benchmarks.paper_rule`); its column says what it promised.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.paper_rule import paper_scale
from benchmarks.publish import publish
from privacy import LatticeLaplace, project_to_simplex
from privacy.dirichlet import largest_clamp_scale
from privacy.dirichlet_pair import expected_distortion
from privacy.discrete_gaussian import DiscreteGaussian

TASKS, EPSILON, DELTA, REPEATS = 1000, 0.05, 0.05, 2000
HEADER = (
    "setting",
    "Laplace",
    "lattice Laplace",
    "discrete Gaussian",
    "Dirichlet, public floor",
    "paper's rule (not private)",
)
Sampler = Callable[[np.random.Generator], np.ndarray]


def counts_of(n_classes: int, first: float) -> np.ndarray:
    """The paper's counts: one share for every class but the last, which has the rest."""
    small = round(first * TASKS)
    return np.array([small] * (n_classes - 1) + [TASKS - (n_classes - 1) * small])


def distortion(counts: np.ndarray, noise: Sampler, rng: np.random.Generator) -> float:
    """Mean l1 distance of projected noisy counts from the counts, as a share of the tasks."""
    noisy = counts + noise(rng)
    projected = np.array([project_to_simplex(row, float(TASKS)) for row in noisy])
    return float(np.abs(projected - counts).sum(axis=1).mean()) / TASKS


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


def row(name: str, counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> list[str]:
    """Distortion of every mechanism at one setting."""
    c, floor = counts.size, int(counts.min()) - 1
    gaussian = DiscreteGaussian(epsilon, DELTA).law(c)
    samplers: list[Sampler] = [
        lambda rng: rng.laplace(scale=2 / epsilon, size=(REPEATS, c)),
        lambda rng: lattice_noise(c, epsilon, rng),
        lambda rng: rng.choice(gaussian.support, p=gaussian.probability, size=(REPEATS, c)),
    ]
    measured = [f"{distortion(counts, sampler, rng):.4f}" for sampler in samplers]
    public = expected_distortion(counts, float(largest_clamp_scale(floor, epsilon, DELTA)))
    scale = paper_scale(counts.tolist(), epsilon, DELTA)
    promised = "no scale" if scale is None else f"{expected_distortion(counts, scale):.4f}"
    return [name, *measured, f"{public:.4f}", promised]


def main() -> None:
    rng = np.random.default_rng(0)
    settings = [(f"{c} classes", counts_of(c, 0.05), EPSILON) for c in range(2, 11)]
    settings += [
        (f"5 classes, rho1 = {rho:g}", counts_of(5, rho), EPSILON)
        for rho in (0.025, 0.1, 0.15, 0.2)
    ]
    settings += [
        (f"5 classes, epsilon = {epsilon:g}", counts_of(5, 0.05), epsilon)
        for epsilon in (0.01, 0.02, 0.1, 0.2)
    ]
    rows = [row(name, counts, epsilon, rng) for name, counts, epsilon in settings]
    publish(
        "figure1",
        "Expected l1 distortion of class proportions (Figure 1 of Iyer, Nath, Sarawagi 2016)",
        HEADER,
        rows,
        note=(
            f"{TASKS} tasks, epsilon {EPSILON} and delta {DELTA} where not said otherwise, all "
            "classes but the last of share rho1 = 0.05. Noisy counts are projected to the simplex: "
            f"means of {REPEATS} seeded draws. Dirichlet columns are exact; the floor is one "
            "below the smallest count, as if that were known in public, the most favourable there "
            "is. The paper's rule takes its scale from the counts and does not keep the delta it "
            "claims."
        ),
    )


if __name__ == "__main__":
    main()

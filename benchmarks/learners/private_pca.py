"""What a private subspace captures, by mechanism and epsilon: Figure 2 of Chaudhuri et al. (2013), redone.

``python -m benchmarks.learners.private_pca [draws]``
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.learners.gibbs_subspaces import gibbs_subspace, mod_sulq, mod_sulq_deviation
from benchmarks.peers.peers import DIFFPRIVLIB
from benchmarks.publish import parser_of, publish
from learners import DeflatedDirections, NoisyMoments, PrincipalSubspace, moments_query
from learners.private.subspaces import bingham_plane
from tests.learners.scripted_noise import SeededNoise

N, K, DELTA = 5000, 2, 1e-6
EIGENVALUES = (0.5, 0.3, 0.04, 0.03, 0.02, 0.01, 0.004, 0.003, 0.001, 0.001)
EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
SWEEPS = 20
TARGETS = {  # of the project's own prototype, by epsilon
    "MOD-SULQ, delta .05": (0.303, 0.444, 0.503, 0.531, 0.542, 0.545),
    "MOD-SULQ": (0.231, 0.332, 0.425, 0.505, 0.536, 0.543),
    "Gaussian, equal entries": (0.540, 0.544, 0.545, 0.5455, 0.5457, 0.5458),
    "exponential": (0.513, 0.530, 0.535, 0.539, 0.543, 0.544),
    "deflation": (0.480, 0.516, 0.525, 0.533, 0.539, 0.543),
}
TOLERANCE = {0.1: 0.015}  # elsewhere 0.006; MOD-SULQ 0.03
GIBBS, FORMULA = "PPCA by Gibbs (no guarantee)", "diffprivlib's formula"
HEADER = ("epsilon", "Gaussian", *TARGETS, FORMULA, GIBBS)

Draw = Callable[[float, int], np.ndarray]


def paper_rows(seed: int = 0) -> np.ndarray:
    """Gaussian rows of ten features with the paper's spectrum in a random rotation, cut to norm one."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    x = rng.normal(size=(N, 10)) * np.sqrt(EIGENVALUES) @ turn.T
    return np.asarray(x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None])


def ways(x: np.ndarray) -> dict[str, Draw]:
    """A draw of two components, as rows, for each mechanism: given epsilon and a seed."""
    query = moments_query(x, norm_bound=1.0, dataset="benchmark")
    moments = np.asarray(query.value["moments"])  # type: ignore[call-overload]

    def drawn(make: Callable[[float], Any]) -> Draw:
        return lambda epsilon, seed: np.array(
            make(epsilon).draw(query, SeededNoise(seed))["components"]
        )

    def printed(delta: float) -> Draw:
        return lambda epsilon, seed: (
            mod_sulq(
                moments,
                N,
                K,
                mod_sulq_deviation(N, 10, epsilon, delta),
                np.random.default_rng(seed),
            ).T
        )

    def equal(epsilon: float, seed: int) -> np.ndarray:
        deviation = NoisyMoments(epsilon, DELTA, K).deviation / N
        return mod_sulq(moments, N, K, deviation, np.random.default_rng(seed)).T

    def gibbs(epsilon: float, seed: int) -> np.ndarray:
        return gibbs_subspace(epsilon / 2 * moments, K, SWEEPS, np.random.default_rng(seed)).T

    return {
        "Gaussian": drawn(lambda epsilon: NoisyMoments(epsilon, DELTA, K)),
        "MOD-SULQ, delta .05": printed(0.05),
        "MOD-SULQ": printed(DELTA),
        "Gaussian, equal entries": equal,
        "exponential": drawn(lambda epsilon: PrincipalSubspace(epsilon, K)),
        "deflation": drawn(lambda epsilon: DeflatedDirections(epsilon, K)),
        # exponent epsilon / 4 for each vector, and a share of the budget for eigenvalues
        FORMULA: drawn(lambda epsilon: DeflatedDirections(epsilon * K / (2 * (K + 1)), K)),
        GIBBS: gibbs,
    }


def peer_said(x: np.ndarray, draws: int, kept: Callable[[np.ndarray], float]) -> str:
    """What diffprivlib's own PCA captures at epsilon 1, in as many draws as it has time for."""
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder, "problem.npz")
        np.savez(problem, x=x, epsilons=(1.0,), k=K, repetitions=draws)
        printed = DIFFPRIVLIB.run("diffprivlib_pca_side.py", str(problem))
    if printed is None:
        return "version 0.6.6 could not be installed here"
    found = [kept(np.array(one["components"])) for one in json.loads(printed)]
    if not found:
        return "version 0.6.6 did not return from its first fit within a minute"
    return f"version 0.6.6 captures {np.mean(found):.4f} at epsilon 1 ({len(found)} draws)"


def add_remove_loss(x: np.ndarray, epsilon: float, draws: int) -> float:
    """Mean loss at twice the concentration, which is epsilon where neighbours add or remove a row."""
    value = np.linalg.eigvalsh(x.T @ x)[::-1]
    noise = SeededNoise(1)
    planes = (bingham_plane(epsilon * value, noise) for _ in range(draws))
    return float(np.mean([value[:K].sum() - np.square(V).sum(axis=0) @ value for V in planes]) / N)


def picture(curves: dict[str, list[float]], best: float) -> Figure:
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    for (name, found), mark in zip(curves.items(), "osDvP^*X", strict=False):
        lost = [best - one for one in found]
        style = "-" if name in ("Gaussian", "exponential", "deflation") else "--"
        axes.plot(EPSILONS, lost, marker=mark, ms=5, ls=style, label=name)
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="variance that is lost")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def seconds_at_scale() -> float:
    """CPU seconds of the noisy moments of a million rows of a hundred features, one pass."""
    x = np.random.default_rng(0).normal(size=(1_000_000, 100))
    start = time.process_time()
    query = moments_query(x, norm_bound=10.0, dataset="benchmark")
    NoisyMoments(1.0, 1e-7, 10).draw(query, SeededNoise(0))
    return time.process_time() - start


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("draws", nargs="?", type=int, default=100)
    draws = parser.parse_args().draws
    x = paper_rows()
    moments = x.T @ x / N
    best = float(np.linalg.eigvalsh(moments)[-K:].sum())

    def kept(V: np.ndarray) -> float:
        return float(np.trace(V @ moments @ V.T))

    curves: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    for name, draw in ways(x).items():
        count = draws // 4 if name == GIBBS else draws
        drawn = [[kept(draw(epsilon, seed)) for seed in range(count)] for epsilon in EPSILONS]
        curves[name] = [float(np.mean(one)) for one in drawn]
        errors[name] = [float(np.std(one) / len(one) ** 0.5) for one in drawn]
    missed = [
        f"{name} at {epsilon:g}: {curves[name][place]:.4f} for {targets[place]:.4f}"
        for name, targets in TARGETS.items()
        for place, epsilon in enumerate(EPSILONS)
        if abs(curves[name][place] - targets[place])
        > (0.03 if "MOD" in name else TOLERANCE.get(epsilon, 0.006))
    ]
    rows = [
        (
            f"{epsilon:g}",
            *(f"{curves[name][place]:.4f} ± {errors[name][place]:.4f}" for name in HEADER[1:]),
        )
        for place, epsilon in enumerate(EPSILONS)
    ]
    at_one = EPSILONS.index(1.0)
    lost = {name: best - found[at_one] for name, found in curves.items()}
    worse = lost[FORMULA] / lost["exponential"]
    publish(
        "private_pca",
        "Variance that private components capture (Figure 2 of Chaudhuri, Sarwate, Sinha 2013)",
        HEADER,
        rows,
        note=(
            f"{N} rows of ten features, the paper's spectrum in a random rotation, rows cut to norm one; two "
            f"components; mean and standard error of {draws} seeded draws ({draws // 4} of Gibbs). Delta is "
            f"{DELTA:g} where there is one and not named; *exponential*, *deflation* and what follows have "
            f"none. Without privacy {best:.4f}, at random {np.trace(moments) * K / 10:.3f}. At epsilon 1 the "
            f"Gaussian loses {lost['Gaussian']:.1e}, with equal noise on all entries "
            f"{lost['Gaussian, equal entries']:.1e}, the exponential mechanism {lost['exponential']:.4f} "
            f"({add_remove_loss(x, 1.0, draws):.4f} where neighbours add or remove a row, which is not the "
            f"ledger's promise), deflation {lost['deflation']:.4f}. diffprivlib's PCA is what a user "
            f"would pick: "
            f"{peer_said(x, draws // 4, kept)}, and its formula, drawn by our sampler, loses "
            f"{lost[FORMULA]:.4f}, {worse:.1f} times as much as both components drawn together. The paper's "
            "comparison, PPCA above MOD-SULQ, comes of MOD-SULQ's noise: its printed deviation is many "
            "times what "
            "its price asks for. Gibbs sampling, the paper's way to draw from PPCA, has no certified "
            f"guarantee: its column is a chain of {SWEEPS} sweeps. Figures agree with the project's "
            f"prototype "
            f"{'everywhere' if not missed else 'but for ' + '; '.join(missed)}. Moments and noise of a "
            f"million "
            f"rows of a hundred features took {seconds_at_scale():.1f} CPU seconds here, one thread."
        ),
        picture=picture(curves, best),
    )


if __name__ == "__main__":
    main()

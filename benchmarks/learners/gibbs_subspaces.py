"""The private PCA of Chaudhuri, Sarwate and Sinha (2013) as printed: MOD-SULQ, and PPCA by Gibbs sampling.

For reproduction alone. MOD-SULQ's noise is many times what its price asks for, and a Gibbs chain, stopped
anywhere, has no certified guarantee: neither is a mechanism of the ledger.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["gibbs_subspace", "mod_sulq", "mod_sulq_deviation"]


def mod_sulq_deviation(n: int, d: int, epsilon: float, delta: float) -> float:
    """The paper's beta: deviation of the noise on each entry of X'X / n, of its upper triangle."""
    factor = math.sqrt(2 * math.log((d * d + d) / (2 * delta * math.sqrt(2 * math.pi))))
    return (d + 1) / (n * epsilon) * factor + 1 / (n * math.sqrt(epsilon))


def mod_sulq(
    moments: np.ndarray, n: int, k: int, deviation: float, rng: np.random.Generator
) -> np.ndarray:
    """Leading k eigenvectors, as columns, of X'X / n with independent noise on the upper triangle."""
    noise = np.triu(rng.normal(scale=deviation, size=moments.shape))
    noisy = moments / n + noise + np.triu(noise, 1).T
    return np.linalg.eigh(noisy)[1][:, -k:]


def gibbs_subspace(B: np.ndarray, k: int, sweeps: int, rng: np.random.Generator) -> np.ndarray:
    """Hoff's chain for the density exp trace(V'BV), from a uniform start: not private."""
    V = np.linalg.qr(rng.normal(size=(len(B), k)))[0]
    for _ in range(sweeps):
        for column in rng.permutation(k):
            others = np.delete(V, column, axis=1)
            basis = (
                np.linalg.svd(others, full_matrices=True)[0][:, k - 1 :]
                if k > 1
                else np.eye(len(B))
            )
            value, vector = np.linalg.eigh(basis.T @ B @ basis)
            y = vector.T @ (basis.T @ V[:, column])
            V[:, column] = basis @ (vector @ _sphere_step(y, value, rng))
    return V


def _sphere_step(y: np.ndarray, value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One pass over the coordinates of a unit vector whose density is exp(sum value_i y_i^2)."""
    m = len(y)
    y = y / np.linalg.norm(y)
    for i in range(m):
        rest = max(1 - y[i] ** 2, 1e-300)
        slope = value[i] - (value @ y**2 - value[i] * y[i] ** 2) / rest
        theta = _share(slope, m, rng)
        y *= math.sqrt((1 - theta) / rest)
        y[i] = math.copysign(math.sqrt(theta), rng.random() - 0.5)
    return y / np.linalg.norm(y)


def _share(a: float, m: int, rng: np.random.Generator) -> float:
    """Theta in (0, 1) with density theta^(-1/2) (1 - theta)^((m - 3) / 2) exp(a theta), by rejection."""
    h = (m - 1) / 2
    g = max(1 / (1 + math.log(2 + a)), h - a) if a > 0 else h
    most = a - h + g + (h - g) * math.log((h - g) / a) if a > 0 and h > g else 0.0
    while True:
        theta = float(np.clip(rng.beta(0.5, g), 1e-300, 1 - 1e-15))
        if math.log(rng.random()) < a * theta + (h - g) * math.log1p(-theta) - most:
            return theta

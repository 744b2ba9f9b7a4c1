"""Class means from bags whose proportions are noisy: least squares with errors in variables.

Noise spreads the proportions out and so brings classes' means nearer to each other than they are; a
ratio read off such means is pushed to the ends. The noise's law says by how much.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["NoisyShares"]

LEAST_KEPT = 0.5  # of a contrast's spread; what would be left beyond is mostly chance


@dataclass(frozen=True, slots=True, eq=False)
class NoisyShares:
    """Weights that make class means out of bag means, from noisy proportions.

    Parameters
    ----------
    weights
        B = W P N^-1, W the bags' weights and N = P'WP less the noise's part in it.
    drift
        W_i C_i N^-1 for every bag, C_i its noise's covariance: times a ratio, what the square of the
        bag's noise moves it by.

    Notes
    -----
    With P = P* + E and means mu P*_i of the bags, B = W P (P'WP)^-1 gives a bag of ratio r the ratio
    (I - E'B)^-1 r. Its expectation to second order in E is

        r + sum_i W_i (1 - h_i) C_i (P'WP)^-1 r,  h_i = W_i P_i' (P'WP)^-1 P_i:

    E'B r gives W_i C_i, of which (P'WP)^-1, as it moves with E, takes h_i back (a bag is not off from a
    fit that follows it); the term in which it moves otherwise cancels with that of (E'B)^2 r. So N is
    P'WP less sum_i W_i (1 - h_i) C_i, or less as much of that as leaves every contrast of classes half
    of its spread.

    **Guarantees.** Noise of zero changes no weight; a bag of the mean proportions keeps its ratio;
    every contrast keeps half of its spread; as far as more is left, the mean ratio is right to second
    order in the noise.

    References
    ----------
    .. [1] Fuller, "Measurement error models", Wiley (1987): the correction by known error covariances,
       and why to stop short of all of it.
    .. [2] Nagar, "The bias and moment matrix of the general k-class estimators", Econometrica 27
       (1959): the same count of degrees of freedom for another estimator.

    Examples
    --------
    >>> swap = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> mixture = np.array([[0.9, 0.1], [0.1, 0.9]] * 2)
    >>> exact = NoisyShares.of(mixture, np.ones(4), np.zeros((4, 2, 2)))
    >>> noisy = NoisyShares.of(mixture, np.ones(4), np.tile(0.01 * swap, (4, 1, 1)))
    >>> exact.weights[0].round(3), noisy.weights[0].round(3)
    (array([ 0.562, -0.062]), array([ 0.573, -0.073]))
    """

    weights: Float[np.ndarray, "bags classes"]
    drift: Float[np.ndarray, "bags classes classes"]

    @classmethod
    def of(
        cls,
        mixture: Float[np.ndarray, "bags classes"],
        weight: Float[np.ndarray, " bags"],
        noise: Float[np.ndarray, "bags classes classes"],
    ) -> "NoisyShares":
        """From proportions, the bags' weights and the covariances of the proportions' noise."""
        centre = np.eye(mixture.shape[1]) - 1.0 / mixture.shape[1]
        scaled = weight[:, None, None] * (centre @ noise @ centre)  # shares add up to 1, noise to 0
        normal = (mixture.T * weight) @ mixture
        leverage = weight * np.einsum("bc,cb->b", mixture, np.linalg.solve(normal, mixture.T))
        owed = np.tensordot(1.0 - leverage, scaled, 1)
        root = np.linalg.cholesky(normal)
        half = np.linalg.solve(root, owed)
        largest = float(np.linalg.eigvalsh(np.linalg.solve(root, half.T))[-1])
        part = (1.0 - LEAST_KEPT) / max(largest, 1.0 - LEAST_KEPT)
        inverse = np.linalg.inv(normal - part * owed)
        return cls(mixture * weight[:, None] @ inverse, scaled @ inverse)

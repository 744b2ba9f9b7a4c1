import numpy as np
import pytest
from scipy.integrate import quad

from learners.topics.level_law import draw_tau, level_probabilities, log_normaliser


def test_levels_are_geometric_from_the_last_node():
    out = np.empty(3)
    level_probabilities(0.25, 3, out)
    assert out == pytest.approx(np.array([1, 0.75, 0.75**2]) / (1 + 0.75 + 0.75**2), abs=1e-15)


def test_the_normaliser_loses_nothing_for_a_small_tau():
    assert log_normaliser(1e-12, 3) == pytest.approx(np.log(3e-12), abs=1e-9)


@pytest.mark.parametrize(("n", "depth", "length", "a", "b"), [
    (40, 30, 3, 2.0, 5.0), (5, 0, 2, 1.0, 1.0), (250, 400, 4, 0.5, 0.5), (30, 0, 1, 2.0, 5.0),
])  # fmt: skip
def test_draws_of_tau_have_the_mean_and_spread_of_their_density(rng, n, depth, length, a, b):
    """Against quadrature, z < 6 with 20 batches: false alarms below 1e-5 by Student's t."""

    def density(tau, power):
        log = (a - 1 + n) * np.log(tau) + (b - 1 + depth) * np.log1p(-tau)
        return tau**power * np.exp(log - n * np.log(-np.expm1(length * np.log1p(-tau))) - shift)

    grid = np.linspace(1e-4, 1 - 1e-4, 2001)
    shift = 0.0
    with np.errstate(all="ignore"):
        shift = float(np.max(np.log(density(grid, 0))))
        peak = float(grid[np.argmax(density(grid, 0))])
        mass, mean, square = (
            quad(density, 0, 1, args=(k,), points=[peak], limit=500)[0] for k in range(3)
        )
    tau, drawn = 0.5, np.empty(20_000)
    for i in range(len(drawn)):
        tau = drawn[i] = draw_tau(tau, a, b, n, depth, length, rng)
    for k, wanted in ((1, mean / mass), (2, square / mass)):
        batches = (drawn**k).reshape(20, -1).mean(axis=1)
        assert abs(batches.mean() - wanted) < 6 * batches.std(ddof=1) / np.sqrt(20)

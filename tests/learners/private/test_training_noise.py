"""Faults that other libraries of private training had; the rest are tested beside each mechanism."""

import numpy as np
import pytest

from learners.private.gaussian_objective import gaussian_weight
from learners.private.linear_model import Signs
from learners.private.logistic_minimum import lift
from learners.private.objective_perturbation import perturbed_weight
from learners.private.output_perturbation import noisy_output
from tests.learners.scripted_noise import SilentNoise

KNOBS = {"epsilon": 0.5, "regularization": 0.05}
TRAININGS = [
    pytest.param(
        lambda *rows, noise: perturbed_weight(*rows, noise=noise, **KNOBS), id="objective"
    ),
    pytest.param(
        lambda *rows, noise: gaussian_weight(*rows, delta=1e-3, noise=noise, **KNOBS), id="gaussian"
    ),
    pytest.param(lambda *rows, noise: noisy_output(*rows, noise=noise, **KNOBS), id="output"),
]


class Listening(SilentNoise):
    """Remembers every law it was asked for."""

    def __init__(self):
        self.asked = []

    def gamma(self, shape, scale):
        self.asked.append((shape, scale))
        return 0.0


def asked(train, x, y, n_classes=2):
    noise = Listening()
    train(lift(x, 1.0), Signs(y, n_classes), noise=noise)
    return noise.asked


@pytest.mark.parametrize("train", TRAININGS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_noise_depends_on_nothing_that_is_private(rng, train, n_classes):
    """Opacus #571 and #819: a size or norm found in the data sets the noise. Here rows, labels and the
    classes that occur change, and the laws that are drawn from do not."""
    x, y = rng.normal(size=(40, 3)), rng.integers(n_classes, size=40)
    first = asked(train, x, y, n_classes)
    assert asked(train, 1e-3 * x, y, n_classes) == first
    assert asked(train, x, np.zeros(40, dtype=int), n_classes) == first


@pytest.mark.parametrize("train", TRAININGS)
def test_every_weight_gets_noise(rng, train):
    """diffprivlib #71 and #97: noise of a wrong scale, or on some of the coordinates."""
    x, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)

    class Unit(SilentNoise):
        def gamma(self, shape, scale):
            return shape * scale

        def direction(self, dimension):
            return np.ones(dimension) / np.sqrt(dimension)

    still = train(lift(x, 1.0), Signs(y, 2), noise=SilentNoise())
    moved = train(lift(x, 1.0), Signs(y, 2), noise=Unit())
    assert (np.abs(moved - still) > 1e-3).all()


@pytest.mark.parametrize("train", TRAININGS)
def test_a_row_that_exceeds_the_declared_norm_has_no_more_influence(rng, train):
    """diffprivlib #104 and #105: a sensitivity that the rows handed over do not keep to."""
    x, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    x[0] *= 2 / np.linalg.norm(x[0])
    far = x.copy()
    far[0] *= 1000
    here, there = (train(lift(one, 1.0), Signs(y, 2), noise=SilentNoise()) for one in (x, far))
    assert here == pytest.approx(there, abs=1e-12)

"""Noise sources for tests: one that is silent, one that reads its draws from a script."""

from collections import deque
from collections.abc import Iterable

import numpy as np


class SilentNoise:
    """Every draw is zero, so that a mechanism shows what it computes."""

    def discrete_laplace(self, scale, size):
        return [0] * size

    def discrete_gaussian(self, scale, size):
        return [0] * size

    def uniform_integer(self, below):
        return 0

    def gamma(self, shape, scale):
        return 0.0

    def direction(self, dimension):
        return np.eye(dimension)[0]


class ScriptedNoise(SilentNoise):
    """Discrete Laplace draws come from a script, in order; the scales asked are recorded.

    A uniform integer is the least, or with `last` the greatest.
    """

    def __init__(self, script: Iterable[int], *, last: bool = False):
        self.script, self.last = deque(script), last
        self.scales = []

    def discrete_laplace(self, scale, size):
        self.scales.append(scale)
        return [self.script.popleft() for _ in range(size)]

    def uniform_integer(self, below):
        return below - 1 if self.last else 0


class SeededNoise:
    """The real laws from a seeded generator, for statistical tests."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def discrete_laplace(self, scale, size):
        one, other = self.rng.geometric(-np.expm1(-1 / scale), size=(2, size))
        return [int(z) for z in one - other]

    def discrete_gaussian(self, scale, size):
        support = np.arange(-int(12 * scale) - 1, int(12 * scale) + 2)
        weight = np.exp(-((support / scale) ** 2) / 2)
        return [int(z) for z in self.rng.choice(support, p=weight / weight.sum(), size=size)]

    def uniform_integer(self, below):
        if below < 2**63:
            return int(self.rng.integers(below))
        return int.from_bytes(self.rng.bytes(below.bit_length() // 8 + 8), "little") % below

    def gamma(self, shape, scale):
        return float(self.rng.gamma(shape, scale))

    def direction(self, dimension):
        normal = self.rng.standard_normal(dimension)
        return normal / np.linalg.norm(normal)

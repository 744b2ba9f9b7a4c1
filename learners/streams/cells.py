"""The cells of the learning array: what each computes, its parameters with their ranges, its state.

The one list of cells is `CELLS`; the compiler of programs, the placement, the bitstream and the loops read
it. A cell has at most two inputs and one output. Every state is of fixed size and every update takes
constant time. γ is a learning rate: a cell's nth event has weight max(γ, 1/(n + n0)), so that it is an
exact running mean at first, then forgets with a memory of about 2/γ events.

>>> CELLS["cond"].parameters["gamma"].default
0.01
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite
from sys import float_info

import numpy as np

__all__ = ["CELLS", "OPS", "Cell", "ConfigError", "FloatingGate", "Parameter"]

LARGEST = float_info.max


class ConfigError(ValueError):
    """A configuration, a bitstream or a snapshot of the learning array that cannot be used."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a cell: its default and the range in which it must be.

    Parameters
    ----------
    default
        The value where the configuration gives none.
    low, high
        Bounds of the range.
    open_low, open_high
        Whether the bound itself is outside the range.
    whole
        Whether it must be a whole number.
    """

    default: float
    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def __contains__(self, value: float | int) -> bool:
        if abs(value) > LARGEST:  # also a whole number that no double holds
            return False
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return isfinite(value) and above and below and (not self.whole or value == int(value))

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "finite"
        left = f"{'>' if self.open_low else '>='} {self.low:g}" if self.low > -inf else ""
        right = f"{'<' if self.open_high else '<='} {self.high:g}" if self.high < inf else ""
        return (
            " and ".join(part for part in (kind if self.whole else "", left, right) if part) or kind
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of cell.

    Parameters
    ----------
    about
        What it computes.
    slot
        The primitive of a block that it occupies.
    n_inputs
        Number of its input nets, at most 2.
    parameters
        Its parameters, in the order in which the loops read them.
    stateful
        Whether it remembers, so that it may break a cycle of nets.
    """

    about: str
    slot: str
    n_inputs: int
    parameters: dict[str, Parameter] = field(default_factory=dict)
    stateful: bool = False


_ANY = Parameter(0.0)
_GAIN = Parameter(1.0)
_POSITIVE = Parameter(1.0, low=0.0, open_low=True)
_GAMMA = Parameter(0.01, low=0.0, high=1.0, open_low=True)
_BEFORE = Parameter(0.0, low=0.0)
_FLAG = Parameter(0.0, low=0.0, high=1.0, whole=True)

CELLS: dict[str, Cell] = {
    "bias": Cell("the constant c", "bias", 0, {"c": _ANY}),
    "mirror": Cell("g x", "mirror", 1, {"g": _GAIN}),
    "diode": Cell("max(x, 0)", "diode", 1),
    "pair": Cell("g tanh((x - y)/s)", "pair", 2, {"g": _GAIN, "s": _POSITIVE}),
    "prod": Cell("x y", "transistor", 2),
    "cmp": Cell("1 if x > y, else 0", "transistor", 2),
    "cap": Cell("the mean of x, leaky", "capacitor", 1, {"gamma": _GAMMA, "n0": _BEFORE}, True),
    "fg": Cell(
        "a weight W that gains inc x W^(2 - epsilon) and loses dec y W^(1 + sigma)",
        "synapse",
        2,
        {
            "inc": Parameter(0.01, low=0.0),
            "dec": Parameter(0.01, low=0.0),
            "sigma": Parameter(1.0, low=0.0),
            "epsilon": Parameter(0.5, low=0.0),
            "linear": _FLAG,
            "start": _POSITIVE,
        },
        True,
    ),
    "cond": Cell(
        "Pr(x | y): the mean of x over events with y > 0",
        "synapse",
        2,
        {"gamma": _GAMMA, "n0": _BEFORE, "start": Parameter(0.5, low=0.0, high=1.0)},
        True,
    ),
    "regr": Cell(
        "w x, where w is the slope of y on x through the origin",
        "synapse",
        2,
        {
            "mu": Parameter(0.1, low=0.0, open_low=True),
            "decay": Parameter(0.0, low=0.0, high=1.0, open_high=True),
            "nlms": _BEFORE,
        },
        True,
    ),
    "bump": Cell(
        "log density of x under a mixture of K logistics",
        "synapse",
        1,
        {
            "K": Parameter(1.0, low=1.0, high=16.0, whole=True),
            "gamma": _GAMMA,
            "s_min": Parameter(0.01, low=0.0, open_low=True),
            "n0": _BEFORE,
            "warm": Parameter(0.0, low=0.0, high=1000.0, whole=True),
            "start": _ANY,
            "width": _POSITIVE,
            "hard": _FLAG,
            "fixed": _FLAG,
        },
        True,
    ),
    "cusum": Cell(
        "evidence that the rate of x has fallen by d below its running mean; an alarm above h",
        "synapse",
        1,
        {
            "h": Parameter(9.0, low=0.0, open_low=True),
            "d": Parameter(0.2, low=0.0, high=0.9, open_low=True),
            "window": Parameter(250.0, low=1.0),
            "warm_up": Parameter(60.0, low=1.0, whole=True),
        },
        True,
    ),
    "table": Cell(
        "Pr(label x | truth y): K x K cond cells that share their inputs",
        "synapse",
        2,
        {"K": Parameter(2.0, low=2.0, high=256.0, whole=True), "gamma": _GAMMA, "n0": _BEFORE},
        True,
    ),
    "evidence": Cell(
        "an e-value that the rate of x has fallen, valid at any stopping time; an alarm at its lane's level",
        "synapse",
        1,
        {"alpha": Parameter(0.05, low=0.0, high=1.0, open_low=True, open_high=True)},
        True,
    ),
}
OPS = tuple(CELLS)  # a cell's code in programs and bitstreams is its place here


@dataclass(frozen=True, slots=True)
class FloatingGate:
    """The law of a floating-gate synapse: its weight at rest as a function of p = Pr(X | Y).

    On events Y the weight gains inc·W^(2-ε) where X, and loses dec·W^(1+σ) at the rate `eta_both`
    where X and `eta_single` where not. At rest W = [(inc/dec)·p/(η0 p + η1 (1 - p))]^α with
    α = 1/(σ + ε - 1).

    Parameters
    ----------
    inc, dec
        Rates of injection and tunnelling, above 0.
    sigma, epsilon
        Exponents; their sum must be above 1.
    eta_both, eta_single
        Share of the tunnelling where X is true, and where not; above 0.

    Raises
    ------
    ConfigError
        If a rate is not above 0, or the exponents' sum is not above 1.

    Notes
    -----
    **Guarantees.** `invert` undoes `weight`: its values are p again.

    References
    ----------
    The correlational-learning primitive of Bridges, Figueroa, Hsu and Diorio, Field-Programmable Learning
    Arrays, NIPS 2002; the law is derived from the circuit's dynamics.

    Examples
    --------
    >>> gate = FloatingGate(inc=1.0, dec=1.0, sigma=1.0, epsilon=1.0)
    >>> float(gate.weight(0.25)), float(gate.invert(0.25))
    (0.25, 0.25)
    """

    inc: float = 0.01
    dec: float = 0.01
    sigma: float = 1.0
    epsilon: float = 0.5
    eta_both: float = 1.0
    eta_single: float = 1.0

    def __post_init__(self) -> None:
        for name in ("inc", "dec", "eta_both", "eta_single"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be > 0, got {name}={getattr(self, name)}")
        if not self.sigma + self.epsilon > 1:
            raise ConfigError(
                f"sigma + epsilon must be > 1 for a weight at rest, got {self.sigma + self.epsilon}"
            )

    def weight(self, p: np.ndarray | float) -> np.ndarray:
        """Return the weight at rest for probabilities p; ValueError if one is not in [0, 1]."""
        p = np.asarray(p, float)
        if not ((p >= 0) & (p <= 1)).all():
            raise ValueError(f"p must be in [0, 1], got {p[~((p >= 0) & (p <= 1))][0]:g}")
        ratio = p / (self.eta_both * p + self.eta_single * (1 - p))
        return np.asarray((self.inc / self.dec * ratio) ** (1 / (self.sigma + self.epsilon - 1)))

    def invert(self, weight: np.ndarray | float) -> np.ndarray:
        """Return the probabilities p that have these weights at rest; ValueError for one below 0."""
        weight = np.asarray(weight, float)
        if not (weight >= 0).all():
            raise ValueError(f"a weight must be >= 0, got {weight[~(weight >= 0)][0]:g}")
        ratio = weight ** (self.sigma + self.epsilon - 1) * self.dec / self.inc
        return np.asarray(ratio * self.eta_single / (1 - ratio * (self.eta_both - self.eta_single)))

"""A decision as a race of noisy evidence to a bound: the label, and how long it took.

The leaky competing accumulator has one unit per option, dx_k = (I_k - leak x_k - inh sum_{j != k}
x_j) dt + s dW with x_k >= 0; the first to reach the bound wins (Usher and McClelland 2001). With
two options, and the difference of their evidence between two bounds, it is the drift-diffusion
model (Ratcliff 1978), whose accuracy and mean time are known:

>>> accuracy, seconds = diffusion_law(drift=1.0, bound=1.0)
>>> round(accuracy, 4), round(seconds, 4)
(0.8808, 0.7616)

Steps of finite length see the bound too late, by .5826 s sqrt(dt) on average (Siegmund 1979), so
the bound is moved nearer by as much. The overshoot also has a variance of s² dt / 4, which makes
mean times dt/4 too long; that is taken off. The drift-diffusion is then right to the third digit at
a step of .02; with reflection at 0 times stay some 2 % long.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from quality.parallel import kernel

__all__ = ["STEP", "Decisions", "Law", "decide_many", "decide_once", "diffusion_law"]

STEP = 0.02  # seconds
OVERSHOOT = 0.5826  # -zeta(1/2) / sqrt(2 pi), in standard deviations of a step
FLAT = 1e-8  # of v a / s²: below it tanh(x)/x is 1
MAX_STEPS = 1e8  # of a decision, about a second of work: a bound out of reach must not run for ever
LATE = 0.25  # steps by which a mean time is too long: the variance of the overshoot
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


class Law(NamedTuple):
    """The probability to be right, and the mean time of a decision in seconds."""

    accuracy: float
    seconds: float


class Decisions(NamedTuple):
    """Labels and times of many decisions."""

    label: np.ndarray
    seconds: np.ndarray


def diffusion_law(*, drift: float, bound: float, noise: float = 1.0) -> Law:
    """Return accuracy and mean time of a drift-diffusion between -bound and bound.

    Parameters
    ----------
    drift
        Mean change of the evidence for the true option in a second.
    bound, noise
        Above 0; the noise is the standard deviation that a second adds.

    Raises
    ------
    ValueError
        If `bound` or `noise` is not above 0 and finite, or `drift` not finite.

    Notes
    -----
    P = 1 / (1 + exp(-2 v a / s²)), E[T] = a/v tanh(v a / s²), and a² / s² without drift.

    Examples
    --------
    >>> diffusion_law(drift=0.0, bound=1.0)
    Law(accuracy=0.5, seconds=1.0)
    """
    if not 0 < bound < np.inf or not 0 < noise < np.inf or not abs(drift) < np.inf:
        raise ValueError(
            "bound and noise must be > 0, and they and drift finite, got "
            f"bound={bound}, noise={noise}, drift={drift}"
        )
    with np.errstate(over="ignore", under="ignore"):
        far = np.float64(bound) / noise
        odds = np.float64(drift) / noise * far
        flat = abs(odds) < FLAT
        seconds = far * far if flat else np.float64(bound) / drift * np.tanh(odds)
    return Law(float(expit(2.0 * odds)), float(seconds))


def decide_many(
    n: int,
    *,
    options: int,
    drift: float,
    bound: float,
    noise: float = 1.0,
    leak: float = 0.0,
    inhibition: float = 0.0,
    base: float = 0.0,
    relative: bool = False,
    step: float = STEP,
    deadline: float = 60.0,
    corrected: bool = True,
    rng: np.random.Generator,
) -> Decisions:
    """Return n independent decisions between options, of which 0 is right.

    Parameters
    ----------
    n
        Number of decisions.
    options
        Number of options; two if `relative`.
    drift, base
        Input to the true option, and beside it to every option, per second.
    bound, noise
        Evidence at which a decision is made, and its standard deviation after a second; above 0.
    leak, inhibition
        Leak of a unit, and inhibition by the others; 0 if `relative`.
    relative
        True for drift-diffusion: the evidence is the difference of two options.
    step, deadline
        Seconds of a step, and after which the option ahead is taken; a hundred million steps at most.
    corrected
        False leaves the bound where it is, to see what its correction is worth.
    rng
        Source of randomness.

    Raises
    ------
    ValueError
        If `relative` is True and there are not two options, or a number is out of its range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> made = decide_many(10_000, options=2, drift=1.0, bound=1.0, relative=True, rng=rng)
    >>> abs(float((made.label == 0).mean()) - 0.8808) < 0.02
    True
    """
    if relative and options != 2:
        raise ValueError(f"options must be 2 where evidence is relative, got options={options}")
    if relative and (leak or inhibition):
        raise ValueError(
            "leak and inhibition must be 0 where evidence is relative, got "
            f"leak={leak}, inhibition={inhibition}"
        )
    if not (isinstance(options, Integral) and isinstance(n, Integral) and n >= 0):
        raise ValueError(f"n and options must be whole and >= 0, got n={n}, options={options}")
    if not (bound > 0 and noise > 0 and step > 0 and deadline > 0 and options >= 2):
        raise ValueError("bound, noise, step and deadline must be > 0 and options >= 2")
    if not np.isfinite([drift, base, leak, inhibition, noise, step]).all():
        raise ValueError(
            "drift, base, leak, inhibition and noise must be finite, and step, got "
            f"drift={drift}, base={base}, leak={leak}, inhibition={inhibition}, noise={noise}, step={step}"
        )
    label, seconds = np.empty(n, dtype=np.int64), np.empty(n)
    near = bound - (OVERSHOOT * noise * step**0.5 if corrected else 0.0)
    keys = rng.integers(2**63, size=n).astype(np.uint64)
    _decide_all(
        keys, label, seconds, options, float(drift), float(base), near, float(noise), float(leak),
        float(inhibition), relative, float(step), float(deadline),
    )  # fmt: skip
    return Decisions(label, seconds - (LATE * step if corrected else 0.0))


def decide_once(
    key: int,
    options: int,
    truth: int,
    drift: float,
    favourite: int,
    bias: float,
    base: float,
    bound: float,
    noise: float,
    leak: float,
    inhibition: float,
    relative: bool,
    deadline: float,
) -> tuple[int, float]:
    """Return one decision's label and seconds, as a function of a key of 64 bits."""
    near = bound - OVERSHOOT * noise * STEP**0.5
    label, seconds = _decide(
        np.uint64(key), options, truth, drift, favourite, bias, base, near, noise, leak, inhibition,
        relative, STEP, deadline,
    )  # fmt: skip
    return int(label), float(seconds) - LATE * STEP


@kernel
def _mixed(state: np.uint64) -> np.uint64:
    """Return the number of a state (splitmix64)."""
    z = state
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@kernel
def _normals(state: np.uint64) -> tuple[np.uint64, float, float]:
    """Return the next state and two normal numbers (Marsaglia's polar method)."""
    while True:
        state = state + GOLDEN
        u = np.float64(_mixed(state) >> S11) * 2.0**-52 - 1.0
        state = state + GOLDEN
        v = np.float64(_mixed(state) >> S11) * 2.0**-52 - 1.0
        q = u * u + v * v
        if 0.0 < q < 1.0:
            f = np.sqrt(-2.0 * np.log(q) / q)
            return state, u * f, v * f


@kernel
def _decide(
    key: np.uint64,
    options: int,
    truth: int,
    drift: float,
    favourite: int,
    bias: float,
    base: float,
    bound: float,
    noise: float,
    leak: float,
    inhibition: float,
    relative: bool,
    step: float,
    deadline: float,
) -> tuple[int, float]:
    """Return the option that reaches the bound first, and when."""
    state = _mixed(key)
    deviation = noise * np.sqrt(step)
    n_steps = int(min(max(deadline / step, 1.0), MAX_STEPS))
    is_spare, spare = False, 0.0
    x = np.zeros(options)
    best = 0
    for n in range(1, n_steps + 1):
        total = x.sum()
        best = 0
        for k in range(options):
            if is_spare:
                normal, is_spare = spare, False
            else:
                state, normal, spare = _normals(state)
                is_spare = True
            pull = base + (drift if k == truth else 0.0) + (bias if k == favourite else 0.0)
            if relative:
                other = base + (drift if k != truth else 0.0) + (bias if favourite == 1 else 0.0)
                x[0] += (pull - other) * step + deviation * normal
                if abs(x[0]) >= bound or n == n_steps:
                    return (0 if x[0] > 0.0 else 1), n * step
                break
            x[k] += (pull - leak * x[k] - inhibition * (total - x[k])) * step + deviation * normal
        if relative:
            continue
        for k in range(options):
            x[k] = max(x[k], 0.0)
            if x[k] > x[best]:
                best = k
        if x[best] >= bound:
            break
    if x[best] == 0.0:  # no option is ahead: at the deadline, or at a bound within a step of 0
        state = state + GOLDEN
        best = int(np.float64(_mixed(state) >> S11) * 2.0**-53 * options)
    return best, n * step


@kernel
def _decide_all(
    keys: np.ndarray,
    label: np.ndarray,
    seconds: np.ndarray,
    options: int,
    drift: float,
    base: float,
    bound: float,
    noise: float,
    leak: float,
    inhibition: float,
    relative: bool,
    step: float,
    deadline: float,
) -> None:
    """Fill in a decision per key, the first option being right."""
    for one in range(len(keys)):
        label[one], seconds[one] = _decide(
            keys[one], options, 0, drift, -1, 0.0, base, bound, noise, leak, inhibition, relative,
            step, deadline,
        )  # fmt: skip

"""Evidence that a worker's rate has fallen, valid at any stopping time: the theory of the cell `evidence`.

Let x₁, x₂, … be 0 or 1. Under the null they are independent with one rate p, whatever it is. The alternative
is a law Q of sequences: Krichevsky and Trofimov's predictions qₙ = (ones + ½)/(n + 1) until some event, and
from it on qₙ less a fall of .1, .2 or .35, with prior weights c/((t + c)(t + c - 1)), c = 500, on the event.
For every p, Q(x₁…xₙ)/p^ones(1-p)^zeros is a martingale of mean 1, so that by Ville's inequality

    C = {p : p^ones (1-p)^zeros > α Q(x₁…xₙ)}

is a confidence sequence: with probability 1 - α it holds the rate at all n at once. C is empty exactly where
E = Q/max_p p^ones(1-p)^zeros reaches 1/α; that is the alarm. The cell keeps Q over Krichevsky and
Trofimov's law KT by one ratio for each fall, and E from below by KT ≥ max_p(…)/(2√n).

The lanes share the false alarms: lane k = 0, 1, … has α·c'/((k + 1 + c')(k + c')), c' = 100, which adds up to
α over all lanes that may ever come.

>>> float(alarm_levels(200_000, false_alarm=0.05).sum().round(3))
0.05
"""

from __future__ import annotations

import numpy as np

from learners.streams.cell_loops import LANES

__all__ = ["alarm_levels", "constant_rate_interval"]

STEPS = 50  # steps of bisection, for an error of 1e-15


def alarm_levels(n_lanes: int, *, false_alarm: float) -> np.ndarray:
    """Return the level α of each lane's alarm; they add up to less than `false_alarm`.

    Raises
    ------
    ValueError
        If `false_alarm` is not above 0 and below 1.

    Examples
    --------
    >>> alarm_levels(2, false_alarm=0.05).round(6)
    array([0.000495, 0.000485])
    """
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm must be within 0 and 1, got false_alarm={false_alarm}")
    k = np.arange(n_lanes)
    return np.asarray(false_alarm * LANES / ((k + 1 + LANES) * (k + LANES)))


def constant_rate_interval(
    n: np.ndarray, ones: np.ndarray, ratio: np.ndarray, *, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the confidence sequence for constant rates, NaN where it is empty.

    Parameters
    ----------
    n, ones
        Number of events and of ones among them.
    ratio
        Q over Krichevsky and Trofimov's law.
    level
        Probability that the rate lies within, at all times at once, if it is constant.

    Raises
    ------
    ValueError
        If `level` is not above 0 and below 1.

    Notes
    -----
    **Guarantees.** The interval holds a constant rate at all events at once with at least this probability.

    Examples
    --------
    >>> low, high = constant_rate_interval(
    ...     np.array([100.0]), np.array([90.0]), np.array([1.0]), level=0.95
    ... )
    >>> low.round(2), high.round(2)
    (array([0.77]), array([0.97]))
    """
    from scipy.special import betaln, xlogy  # not needed to run the array

    if not 0 < level < 1:
        raise ValueError(f"level must be within 0 and 1, got level={level}")
    n, ones = np.asarray(n, float), np.asarray(ones, float)
    bound = np.log(1 - level) + np.log(ratio) + betaln(ones + 0.5, n - ones + 0.5) - np.log(np.pi)

    def inside(p: np.ndarray) -> np.ndarray:
        return np.asarray(xlogy(ones, p) + xlogy(n - ones, 1 - p) > bound)

    best = np.divide(ones, n, out=np.full(len(n), 0.5), where=n > 0)
    ends = []
    for end in (0.0, 1.0):
        out, kept = np.full(len(n), end), best.copy()
        for _ in range(STEPS):
            middle = (out + kept) / 2
            held = inside(middle)
            out, kept = np.where(held, out, middle), np.where(held, middle, kept)
        ends.append(np.where(inside(np.full(len(n), end)), end, out))
    empty = ~inside(best)
    return np.where(empty, np.nan, ends[0]), np.where(empty, np.nan, ends[1])

"""For comparison: the Ladder, a leaderboard that moves only if a model is better by a whole step.

It is not private, and its state, the leaderboard, is the caller's to keep; the ledger has no part in it.

>>> first = climb(None, np.array([1.0, 0.0, 0.0, 1.0]), step=0.1)
>>> first, climb(first, np.array([1.0, 0.0, 0.0, 0.8]), step=0.1)
(0.5, 0.5)
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import betaln

from learners.bounds import check_level
from learners.holdout.thresholdout import check_kind, clamped

__all__ = ["best_step", "climb", "ladder_error"]

LEAST_STEP = 1e-9  # the leaderboard has twelve digits


def climb(best: float | None, loss: Float[np.ndarray, " records"], *, step: float) -> float:
    """Return the leaderboard after one more model.

    Parameters
    ----------
    best
        Leaderboard so far; None before the first model.
    loss
        The model's loss on each record of the holdout, **private**; clamped to [0, 1], NaN counts as 0.
    step
        In (0, 1]; the leaderboard's values are multiples of it.

    Returns
    -------
    float
        The mean loss, rounded to a step, if it is below `best` by more than one step; else `best`.

    Raises
    ------
    ValueError, TypeError
        If `step` is out of range, there is not one loss per record, or it is no array of numbers.

    Notes
    -----
    **Guarantees.** The leaderboard falls by whole steps and never rises; it is within one step of the
    least mean loss on the holdout of all models so far.
    *Proof.* A model that moves it is rounded by half a step at most, and moves it by a step at least; a
    model that does not move it has a mean loss of at least `best` less one step.
    The leaderboard is not differentially private. No loss is refused for its value: a refusal would reveal
    more than the leaderboard, and `ladder_error` does not count it.

    References
    ----------
    .. [1] Blum, Hardt, "The Ladder: a reliable leaderboard for machine learning competitions", ICML
       (2015), Algorithm 1.

    Examples
    --------
    >>> climb(0.5, np.array([1.0, 0.0, 0.0, 0.0]), step=0.1)
    0.2
    """
    _check_step(step)
    check_kind("loss", loss)
    if not (loss.ndim == 1 and loss.size >= 1):
        raise ValueError("loss must be one number for each record")
    mean = float(clamped(loss).mean())
    if best is None or mean < best - step:
        return float(round(round(mean / step) * step, 12))
    return best


def ladder_error(step: float, *, n: int | np.integer, n_models: int, level: float) -> float:
    """Return a bound on the leaderboard's distance from the least true loss of the models so far.

    With M = floor(1 / step + 1 / 2) + 1 values and k models:

        step + sqrt(ln(2 C(k + M - 1, M) / (1 - level)) / (2 n))

    Parameters
    ----------
    step
        In [1e-9, 1].
    n
        Records in the holdout, >= 1.
    n_models
        k, >= 1.
    level
        Confidence, in (0, 1).

    Returns
    -------
    float
        The bound; it holds at every moment up to the k-th model, at once.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Holds with probability >= `level` for models chosen adaptively from the leaderboard.
    *Proof.* The t-th model is a function of the first t - 1 leaderboards, which do not rise: one of
    C(t + M - 2, M - 1) sequences. The sum over t of these numbers, C(k + M - 1, M), counts all models
    that could ever be asked about; Hoeffding's inequality holds for all of them at once. The published
    proof counts codewords of (1 / step + 2) log2(4 k / step) bits, which are more.

    References
    ----------
    .. [1] Blum, Hardt, "The Ladder: a reliable leaderboard for machine learning competitions", ICML
       (2015), Theorem 3.1.

    Examples
    --------
    >>> round(ladder_error(0.05, n=10_000, n_models=100, level=0.95), 3)
    0.103
    """
    _check_step(step)
    check_level(level)
    if not (n >= 1 and n_models >= 1):
        raise ValueError(f"n and n_models must be >= 1, got n={n} n_models={n_models}")
    values = math.floor(1 / step + 0.5) + 1
    # by the beta function, in which the two large logarithms of a small step do not cancel
    log_count = -math.log(values) - betaln(values, n_models)
    return step + math.sqrt((math.log(2 / (1 - level)) + float(log_count)) / (2 * n))


def best_step(*, n: int | np.integer, n_models: int, level: float) -> float:
    """Return the step 1 / j of least `ladder_error`, from public numbers; at least 1e-9.

    **Guarantees.** No other step 1 / j has a smaller error, but for rounding: it falls with j up to the best
    one, and rises from there on.

    Examples
    --------
    >>> round(best_step(n=10_000, n_models=100, level=0.95), 4)
    0.0192
    """

    def error(j: int) -> float:
        return ladder_error(1 / j, n=n, n_models=n_models, level=level)

    low, high = 1, round(1 / LEAST_STEP)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if error(middle + 1) < error(middle) else (low, middle)
    return 1 / low


def _check_step(step: float) -> None:
    if not LEAST_STEP <= step <= 1:
        raise ValueError(f"step must be in [{LEAST_STEP}, 1], got step={step}")

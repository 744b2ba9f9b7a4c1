"""Decide from public numbers whether tuning is worth its share of the budget.

>>> rows = {"n_train": 900, "n_validation": 99, "columns": 5, "n_problems": 1}
>>> tuning_advice((0.1, 1.0), epsilon=1.0, **rows, gain=0.01).best
'fixed'
"""

import math
from dataclasses import dataclass

from learners.private import check_training_price
from learners.selection.public_split import MOVED, STEPS, check_candidates
from learners.selection.repetition import runs_for
from learners.selection.stability import score_sensitivity
from privacy.accounting import price_text

__all__ = ["TuningAdvice", "tuning_advice"]

MISS = 0.05


@dataclass(frozen=True, slots=True)
class TuningAdvice:
    """The most that each way of choosing may fall short, and which way to take.

    Parameters
    ----------
    best
        "fixed", "stability" or "repetition".
    stability_shortfall
        Most that `StabilityValidation`, with half of the budget on the choice, falls short of the best
        candidate's ramp score, except with a chance of 5 %.
    repetition_shortfall
        The same for `RandomRepetition`, among the trials it makes.
    mean_runs
        Expected number of trials at which repetition leaves the best candidate untried with a chance
        of 5 %.
    reason
        One sentence.
    """

    best: str
    stability_shortfall: float
    repetition_shortfall: float
    mean_runs: int
    reason: str


def tuning_advice(
    candidates: tuple[float, ...],
    *,
    epsilon: float,
    n_train: int,
    n_validation: int,
    columns: int,
    n_problems: int,
    gain: float,
) -> TuningAdvice:
    """Compare a private choice with training one fixed regularization for the whole budget.

    Parameters
    ----------
    candidates
        Regularizations, distinct, >= 1e-9.
    epsilon
        For everything, >= 1e-100.
    n_train, n_validation
        Rows on either side of the split, >= 1.
    columns
        Features and the intercept, >= 2.
    n_problems
        1 for two classes, else the number of classes.
    gain
        Ramp score, in (0, 1], by which the best candidate may beat a fixed one: a guess from public or
        earlier data.

    Returns
    -------
    TuningAdvice
        "fixed" unless some way of choosing is sure to fall short by less than `gain`. A choice has to
        win back even more, because it trains with a half, or a third, of the budget.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Only public numbers are read. With probability >= 95 % the candidate that
    `StabilityValidation` chooses scores within `stability_shortfall` of the best of the models it
    judges: noises are >= 0, and the largest of k exceeds their mean, 2 beta 4097 / 4096 / epsilon_select,
    times ln(k / 0.05) with a chance of at most 5 %. With the same probability the winner of
    `RandomRepetition` scores within `repetition_shortfall` of the best trial: the expected number of
    trials whose noise exceeds u, near (3 / epsilon) ln(mean_runs / 0.05), either way is at most 5 %, and
    two of them differ by 2 u. Both shortfalls have a step more, by which rounding moves two scores.

    Examples
    --------
    >>> advice = tuning_advice(
    ...     (0.001, 0.112, 1.0), epsilon=0.5, n_train=15216, n_validation=1902, columns=11,
    ...     n_problems=1, gain=0.1,
    ... )
    >>> advice.best, round(advice.stability_shortfall, 2), advice.mean_runs
    ('repetition', 1.0, 38)
    """
    check_candidates(candidates, norm_bound=1.0, n_classes=2)
    check_training_price(epsilon=epsilon)
    for name, count, smallest in (
        ("n_train", n_train, 1), ("n_validation", n_validation, 1), ("columns", columns, 2),
        ("n_problems", n_problems, 1),
    ):  # fmt: skip
        if not count >= smallest:
            raise ValueError(f"{name} must be >= {smallest}, got {name}={count}")
    if not 0 < gain <= 1:
        raise ValueError(f"gain must be in (0, 1], got gain={gain}")
    beta = score_sensitivity(
        candidates,
        epsilon_train=epsilon / 2,
        n_train=n_train,
        n_validation=n_validation,
        columns=columns,
        n_problems=n_problems,
    )
    largest = 2 * MOVED / (epsilon / 2) * math.log(len(candidates) / MISS)
    stability = (largest + 1) / STEPS * beta  # rounding moves two scores by half a step each
    mean_runs = runs_for(len(candidates), MISS)
    scale = MOVED / (epsilon / 3)
    # P(|z| > u) = 2 q^(floor(u) + 1) / (1 + q), q = exp(-1 / scale)
    beyond = scale * math.log(2 / (1 + math.exp(-1 / scale)) * mean_runs / MISS)
    repetition = (2 * beyond + 1) / STEPS / n_validation
    return _choose(min(1.0, stability), min(1.0, repetition), mean_runs, gain, epsilon)


def _choose(
    stability: float, repetition: float, mean_runs: int, gain: float, epsilon: float
) -> TuningAdvice:
    name, share = ("stability", 2) if stability <= repetition else ("repetition", 3)
    shortfall = min(stability, repetition)
    if shortfall < gain:
        reason = (
            f"{name} falls short of the best candidate by at most {shortfall:.3g} of the score, less than "
            f"the {gain:.3g} to be gained; it trains for epsilon {price_text(epsilon / share)}"
        )
        return TuningAdvice(name, stability, repetition, mean_runs, reason)
    reason = (
        f"a choice may fall short of the best candidate by {shortfall:.3g} of the score, and only "
        f"{gain:.3g} is to be gained: train one for the whole epsilon {price_text(epsilon)}"
    )
    return TuningAdvice("fixed", stability, repetition, mean_runs, reason)

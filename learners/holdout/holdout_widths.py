"""How far the answers of a reusable holdout may be from the truth, by its kind, from public numbers."""

import math
from dataclasses import dataclass

from scipy.special import gammaln, logsumexp

from learners.holdout.advice import check_holdout, narrowest

__all__ = ["HoldoutWidth", "holdout_widths"]


@dataclass(frozen=True, slots=True)
class HoldoutWidth:
    """How far answers may be from the truth, the tolerated threshold left out.

    Parameters
    ----------
    kind
        "fixed questions", "description length", "fresh folds" or "Thresholdout".
    width
        All answers are within it at once, with the confidence asked for; 1 at most.
    adaptive
        Whether questions may depend on answers.
    private
        Whether the holdout is differentially private.
    """

    kind: str
    width: float
    adaptive: bool
    private: bool


def holdout_widths(
    n: int, *, n_questions: int, budget: int, level: float
) -> tuple[HoldoutWidth, ...]:
    """Compare the kinds of holdout, the narrowest adaptive one first.

    Parameters
    ----------
    n
        Records in the holdout, > budget.
    n_questions
        m, >= 1.
    budget
        B, overfit answers before the holdout shuts, >= 1.
    level
        Confidence, in (0, 1).

    Returns
    -------
    tuple[HoldoutWidth, ...]
        Adaptive ones in order of width; last, to compare with, questions fixed beforehand.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Only public numbers are looked at, so that taking the narrowest costs nothing.
    With delta = 1 - level and v = 1 / r + 1 values of an overfit answer:
    *Fixed questions.* Hoeffding's inequality for m of them.
    *Description length.* The i-th question is a function of which earlier ones were overfit, j < B, and of
    their values: C(i - 1, j) v^j, j < B. Over i these sum to C(m, j + 1) v^j; Hoeffding for all, and r / 2.
    *Fresh folds.* Up to the next overfit answer the questions to a fold are fixed by the other folds:
    Hoeffding with n / B records, for m questions in each of B folds. (A union over m alone is not
    enough: an analyst may leave a fold early because it is good.)
    *Thresholdout.* That of `thresholdout_advice`.

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015).

    Examples
    --------
    >>> for one in holdout_widths(10_000, n_questions=1000, budget=10, level=0.95):
    ...     print(f"{one.kind}: {one.width:.3f}")
    description length: 0.075
    fresh folds: 0.080
    Thresholdout: 0.462
    fixed questions: 0.023
    """
    check_holdout(n, n_questions, budget, level)
    delta = 1 - level
    private = narrowest(n, n_questions, budget, delta)[0]
    adaptive = [
        HoldoutWidth("description length", _described(n, n_questions, budget, delta), True, False),
        HoldoutWidth(
            "fresh folds",
            _hoeffding(n // budget, math.log(n_questions * budget), delta),
            True,
            False,
        ),
        HoldoutWidth("Thresholdout", min(1.0, private), True, True),
    ]
    fixed = HoldoutWidth(
        "fixed questions", _hoeffding(n, math.log(n_questions), delta), False, False
    )
    return (*sorted(adaptive, key=lambda one: one.width), fixed)


def _hoeffding(n: int, log_count: float, delta: float) -> float:
    """Two-sided, for exp(log_count) fixed questions at once."""
    return min(1.0, math.sqrt((log_count + math.log(2 / delta)) / (2 * n)))


def _described(n: int, n_questions: int, budget: int, delta: float) -> float:
    """Least width over grids of the overfit answers 1 / g."""

    def width(g: int) -> float:
        log_count = logsumexp(
            [
                gammaln(n_questions + 1) - gammaln(j + 2) - gammaln(n_questions - j)
                + j * math.log(g + 1)
                for j in range(min(budget, n_questions))
            ]
        )  # fmt: skip
        return _hoeffding(n, float(log_count), delta) + 0.5 / g

    return min(1.0, min(width(round(2 ** (k / 4))) for k in range(4, 64)))

"""Set up a reusable holdout from public numbers: its threshold, sigma, budget, and the widths of each kind.

>>> advice = thresholdout_advice(0.2, n=100_000, n_questions=1000, budget=1, level=0.95)
>>> round(advice.width, 3), round(advice.epsilon, 4)
(0.044, 0.0437)
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import gammaln, logsumexp

from learners.bounds import check_level, log_transfer_tail
from learners.holdout.gate_bounds import noise_tail, value_tail
from learners.holdout.thresholdout import Thresholdout
from privacy.accounting import exact
from privacy.query import is_whole

__all__ = [
    "HoldoutWidth",
    "ThresholdoutAdvice",
    "check_holdout",
    "fitted_gate",
    "holdout_widths",
    "largest_budget",
    "narrowest",
    "thresholdout_advice",
]

DEVIATIONS = math.log(100) / math.sqrt(2)  # beyond which 1 % of a Laplace law lies
COMPARISON = 2 * (4**2 + 2**2)  # variance of Thresholdout's comparison, in sigmas squared


@dataclass(frozen=True, slots=True)
class ThresholdoutAdvice:
    """The gate for a tolerance, or the reason why no gate keeps it.

    Parameters
    ----------
    gate
        None if the tolerance cannot be kept.
    epsilon
        Price of the gate; without a gate, that of the narrowest one.
    width
        Part of the tolerance that noise and sampling take.
    free
        A question whose training mean is within this of the truth never spends the budget, with the
        same confidence; 0 if no such distance is known.
    reason
        One sentence.
    """

    gate: Thresholdout | None
    epsilon: float
    width: float
    free: float
    reason: str


def thresholdout_advice(
    tolerance: float, *, n: int, n_questions: int, budget: int, level: float
) -> ThresholdoutAdvice:
    """Return a private gate whose answers are within a tolerance of the truth.

    Parameters
    ----------
    tolerance
        In (0, 1).
    n
        Records in the holdout, > budget.
    n_questions
        m, >= 1.
    budget
        B, overfit answers before the gate shuts, >= 1.
    level
        Confidence, in (0, 1).

    Returns
    -------
    ThresholdoutAdvice
        The gate of least width; its threshold is the rest of the tolerance.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** With probability >= `level` every answer but "exhausted" is within `tolerance` of the
    truth, the mean of the values as the gate rounds them, for m questions chosen adaptively, where no
    other gate reads these records; only public numbers are read.
    *Proof.* Let delta = 1 - level. (1) The answers that choose each question are (2 B / (sigma n))-
    differentially private; by `log_transfer` and Hoeffding's inequality its holdout mean is within s of
    the truth except with probability delta / (2 m). (2) Each sum of one of B offsets and one of m
    comparison noises exceeds u, to one side, with probability at most delta / (4 B m); each of B noises
    of a value exceeds u, to either side, with probability at most delta / (4 B). An answer "agrees" is within
    threshold + u + s of the truth, "overfit" within u + s; the width is u + s, least over sigma.
    `free`: noise and sampling to the other side are equally likely, a second event of chance delta.

    Examples
    --------
    >>> print(thresholdout_advice(0.05, n=10_000, n_questions=99, budget=9, level=0.95).reason)
    tolerance must exceed 0.396, which noise and sampling take of 10000 records
    """
    check_holdout(n, n_questions, budget, level)
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be in (0, 1), got tolerance={tolerance}")
    width, sigma = narrowest(n, n_questions, budget, 1 - level)
    epsilon, threshold = 2 * budget / (sigma * n), tolerance - width
    if not threshold > 0:
        why = f"tolerance must exceed {width:.3g}, which noise and sampling take of {n} records"
        return ThresholdoutAdvice(None, epsilon, width, 0.0, why)
    gate = Thresholdout(threshold=threshold, sigma=sigma, budget=budget)
    free = max(0.0, threshold - width)
    reason = (
        f"of the tolerance {tolerance:.3g} noise and sampling take {width:.3g}, which leaves a "
        f"threshold of {threshold:.3g}; questions within {free:.3g} of the truth are free"
    )
    return ThresholdoutAdvice(gate, epsilon, width, free, reason)


def fitted_gate(
    price: float | Fraction,
    *,
    n: int,
    n_scored: int,
    epsilon_score: float,
    budget: int,
    rows: int = 1,
) -> Thresholdout:
    """Return a gate of a given price that a model without overfitting passes, whatever the sizes are.

    Parameters
    ----------
    price
        Epsilon of the gate, > 0.
    n, n_scored
        Records of the holdout, and those of the training score, >= 1; public.
    epsilon_score
        Price of the noise on the training score, > 0.
    budget
        Refutations, >= 1.
    rows
        Most records of one subject, >= 1: all of them are protected together, and they may all be alike.

    Returns
    -------
    Thresholdout
        Sigma has two digits; the threshold as well, and is at least 0.02.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** The gate costs no more than its price, for any sizes; where the threshold is below 0.99, a
    model that is as good on the holdout as on its training records passes a first question 99 times in 100.
    *Proof.* Sigma is 2 budget rows / (price n), rounded up in exact arithmetic. The threshold is 3.26
    standard deviations of the difference without overfitting. Three parts add to its variance: both means
    of 0s and 1s, which are independent between subjects and may be all alike within one; the noise of the
    score; and that of the comparison, Lap(2 sigma) + Lap(4 sigma) of variance 2 (4 + 16) sigma^2.
    Beyond so many lie 0.1 % of a normal law, and 1 % of a Laplace law, which the score's noise has. A
    threshold of 0.99 means that the records are too few to refute anything.

    Examples
    --------
    >>> fitted_gate(2.5, n=67, n_scored=213, epsilon_score=0.2, budget=1)
    Thresholdout(threshold=0.36, sigma=0.012, budget=1)
    """
    numbers = n, n_scored, budget, rows
    if not (
        0 < price < math.inf
        and 0 < epsilon_score < math.inf
        and all(is_whole(one) and one >= 1 for one in numbers)
    ):
        raise ValueError(
            "price and epsilon_score must be > 0 and finite, and n, n_scored, budget and rows whole "
            f"numbers >= 1, got {price=}, {epsilon_score=}, {n=}, {n_scored=}, {budget=}, {rows=}"
        )
    sigma = _two_digits_up(2 * budget * rows / (exact(price) * n))
    score = 2 / (epsilon_score * n_scored) ** 2
    sampling = 0.25 * rows * (1 / n + 1 / n_scored)
    deviation = math.sqrt(sampling + score + COMPARISON * sigma**2)
    threshold = min(0.99, _two_digits_up(exact(max(DEVIATIONS * deviation, 0.02))))
    return Thresholdout(threshold=threshold, sigma=sigma, budget=budget)


def _two_digits_up(value: Fraction) -> float:
    step = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return float(math.ceil(value / step) * step)


def largest_budget(tolerance: float, *, n: int, n_questions: int, level: float) -> int:
    """Return the largest budget with which `thresholdout_advice` keeps honest questions free.

    Parameters
    ----------
    tolerance, n, n_questions, level
        As in `thresholdout_advice`, errors included; n >= 2.

    Returns
    -------
    int
        Largest budget, at most `n_questions`, whose width is at most half of the tolerance; 0 if not
        even one overfit answer can be afforded.

    Examples
    --------
    >>> largest_budget(0.2, n=100_000, n_questions=1000, level=0.95)
    4
    """
    check_holdout(n, n_questions, 1, level)
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be in (0, 1), got tolerance={tolerance}")
    low, high = 0, min(n_questions, n - 1) + 1
    while high - low > 1:
        middle = (low + high) // 2
        wide = narrowest(n, n_questions, middle, 1 - level)[0] > tolerance / 2
        low, high = (low, middle) if wide else (middle, high)
    return low


def narrowest(n: int, n_questions: int, budget: int, delta: float) -> tuple[float, float]:
    """Return the least u + s over sigma, and that sigma; u and s as in `thresholdout_advice`."""

    def width(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        u = max(
            noise_tail(sigma, delta / (4 * budget * n_questions), n),
            value_tail(sigma, delta / (8 * budget), n),
        )
        log_tail = log_transfer_tail(delta / (2 * n_questions), n, 2 * budget / (sigma * n))
        return u + math.sqrt((math.log(2) - log_tail) / (2 * n))

    from scipy.optimize import minimize_scalar  # heavy, and for advice only

    found = minimize_scalar(width, bounds=(math.log(1e-3 / n), 0.0), method="bounded",
                            options={"xatol": 1e-9})  # fmt: skip
    return float(found.fun), math.exp(float(found.x))


def check_holdout(n: int, n_questions: int, budget: int, level: float) -> None:
    """Raise ValueError unless a holdout of n records can be asked so many questions."""
    check_level(level)
    for name, number in (("n", n), ("n_questions", n_questions), ("budget", budget)):
        if not (is_whole(number) and number >= 1):
            raise ValueError(f"{name} must be a whole number >= 1, got {name}={number}")
    if not budget < n:
        raise ValueError(f"budget must be in 1 .. n - 1, got budget={budget} n={n}")


@dataclass(frozen=True, slots=True)
class HoldoutWidth:
    """Distance of the answers from the truth, without the tolerated threshold.

    Parameters
    ----------
    kind
        "fixed questions", "description length", "fresh folds" or "Thresholdout".
    width
        All answers are within it at once, with the requested confidence; at most 1.
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
    n, n_questions, budget, level
        As in `thresholdout_advice`.

    Returns
    -------
    tuple[HoldoutWidth, ...]
        Adaptive kinds in order of width; last, for comparison, questions fixed beforehand.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** Only public numbers are read, so that taking the narrowest kind costs nothing.
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
    """Return the two-sided width for exp(log_count) fixed questions at once."""
    return min(1.0, math.sqrt((log_count + math.log(2 / delta)) / (2 * n)))


def _described(n: int, n_questions: int, budget: int, delta: float) -> float:
    """Return the least width over grids 1 / g of the overfit answers."""

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

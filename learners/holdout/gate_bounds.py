"""Bounds on the true error from an answer of the reusable holdout.

`agreeing_holdout_bound` holds while all gates with the same rows have agreed to every question,
`private_holdout_bound` for any answer, by their differential privacy.

>>> from fractions import Fraction
>>> gate = Thresholdout(threshold=0.02, sigma=0.001, budget=1)
>>> answer = GateAnswer(0.9, "agrees", 1, asked=1, refuted=0, number=1, epsilon=Fraction(1, 5))
>>> round(agreeing_holdout_bound(answer, gate, n=10_000, level=0.95).value, 4)
0.1462
"""

import math

from learners.bounds import (
    Bound,
    check_level,
    check_rows_of_one,
    independent_records,
    largest_rate,
    log_transfer_tail,
    root_above,
)
from learners.holdout.thresholdout import STEPS, GateAnswer, Thresholdout
from privacy.accounting import price_text

__all__ = ["agreeing_holdout_bound", "noise_tail", "private_holdout_bound", "value_tail"]

ELSE = "models chosen without other releases about these rows"
ROUNDING = 3  # steps: one for each of two draws that are whole, and one for floating point


def agreeing_holdout_bound(
    answer: GateAnswer, gate: Thresholdout, *, n: int, level: float, rows: int = 1
) -> Bound:
    """Bound a model's true error from an "agrees" answer about its accuracy.

    Parameters
    ----------
    answer
        The gate's answer to the question for the model's accuracy: one boolean per record.
    gate
        The gate that was asked.
    n
        Records in the holdout, >= 1.
    level
        Confidence, in (0, 1).
    rows
        Most records of one subject, >= 1: subjects are independent, and their records may all be alike.

    Returns
    -------
    Bound
        Bound on the error 1 - accuracy. It applies only while every gate with these rows has agreed to
        every question.

    Notes
    -----
    **Guarantees.** On one path of questions that all agree, all these bounds hold at once with
    probability >= `level`, however questions and gates were chosen, if the choice depends on these rows
    through the gates' own answers alone.

    *Proof.* An agreeing answer returns the training mean, which does not depend on the holdout, and a
    repeated name has an answer that is known. So the gates and questions along the path on which
    every answer agrees are fixed before the holdout is drawn, and may be treated as non-adaptive.
    Give the j-th question the share beta = (1 - level) / (j (j + 1)); the shares add up to at most 1
    - level. Half of it pays for Chernoff's inequality, n kl(1 - E_h || 1 - E_P) <= ln(2 / beta)
    unless E_h <= E_P; half for the gate's noise, gamma + eta <= u. Agreement implies E_h >= E_t -
    threshold - gamma - eta. So 1 - E_P is at most the largest rate within ln(2 / beta) / n, in kl, of
    1 - E_t + threshold + u. Where subjects have several records, n / rows takes the place of n in Chernoff's
    inequality, as in `upper_limit_at`.

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015), the description-length argument of section 3 with no overfit
       answer.

    Examples
    --------
    >>> from fractions import Fraction
    >>> gate = Thresholdout(threshold=0.02, sigma=0.001, budget=3)
    >>> answer = GateAnswer(0.9, "agrees", 3, asked=8, refuted=1, number=2, epsilon=Fraction(6, 5))
    >>> agreeing_holdout_bound(answer, gate, n=10_000, level=0.95).applies
    False
    """
    _check(n, level, rows)
    agreed = f"all {answer.asked} questions about these rows were agreed to"
    if answer.asked == 1:
        agreed = "the one question about these rows was agreed to"
    drawn = "independent draws" if rows == 1 else f"of independent subjects, at most {rows} of each"
    assumption = f"{agreed}; they are {drawn}; {ELSE}"
    if answer.value is None or answer.refuted:
        why = f"does not apply: {answer.refuted} of {answer.asked} questions about these rows were refuted"
        return Bound(name="agreeing holdout", value=1.0, level=level, assumption=why, applies=False)
    beta = (1 - level) / (answer.asked * (answer.asked + 1))
    on_holdout = 1 - answer.value + gate.threshold + noise_tail(gate.sigma, beta / 2, n)
    error = largest_rate(min(1.0, on_holdout), math.log(2 / beta) * rows / n)
    return Bound(
        name="agreeing holdout", value=error, level=level, assumption=assumption, applies=True
    )


def _check(n: int, level: float, rows: int) -> None:
    if not n >= 1:
        raise ValueError(f"n must be >= 1, got n={n}")
    check_level(level)
    check_rows_of_one(rows)


def noise_tail(sigma: float, probability: float, n: int) -> float:
    """Return a u with P(gamma + eta > u) <= probability, for the noise of a comparison of n records.

    The sum of Laplace variables of scales b < a, 2 sigma and 4 sigma, exceeds u >= 0 with probability
    (a^2 exp(-u/a) - b^2 exp(-u/b)) / (2 (a^2 - b^2)). A discrete one of the same scale is less than one
    step larger, in law: P(z > x) <= q^x / (1 + q) <= P(Lap > x - 1), q = exp(-1 / scale).

    Examples
    --------
    >>> round(noise_tail(1.0, 0.01, n=10_000), 3)
    16.784
    """
    if not 0 < probability <= 0.5:
        raise ValueError(f"probability must be in (0, 0.5], got probability={probability}")
    a, b = 4.0, 2.0

    def excess(u: float) -> float:
        tail = (a**2 * math.exp(-u / a) - b**2 * math.exp(-u / b)) / (2 * (a**2 - b**2))
        return tail - probability

    upper = -a * math.log(probability) + a
    return sigma * root_above(excess, 0.0, upper, xtol=1e-12) + ROUNDING / STEPS / n


def value_tail(sigma: float, probability: float, n: int) -> float:
    """Return an x with P(xi > x) <= probability, for the noise xi of an overfit answer of n records."""
    return max(0.0, -sigma * math.log(2 * probability)) + ROUNDING / STEPS / n


def private_holdout_bound(
    answer: GateAnswer, gate: Thresholdout, *, n: int, level: float, rows: int = 1
) -> Bound:
    """Bound a model's true error from an answer about its accuracy, "agrees" or "overfit".

    Parameters
    ----------
    answer, gate, n, level, rows
        As in `agreeing_holdout_bound`. Where subjects have several records, the answer's price is that of one
        subject.

    Returns
    -------
    Bound
        Bound on the error 1 - accuracy. It does not apply once the budget is exhausted.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** All answers of all gates with these rows are covered at once with probability >=
    `level`, however questions and gates were chosen, if the choice depends on these rows through the
    gates' own answers alone.
    *Proof.* Let delta = 1 - level, v = 1 / (g (g + 1)) for the g-th gate and w = 1 / (i (i + 1)) for the
    i-th question to any of them. (1) It is chosen by their earlier answers, and along these the prices
    add up to `answer.epsilon`. For a fixed question kl(E_h || E_P) > c and E_h > E_P with probability at
    most exp(-n c); by `log_transfer`, whose proof fixes the answers and hence their price, the chosen
    one does with probability delta w / 2 at the tail taken. (2) An agreeing answer implies E_h >= E_t -
    threshold - gamma - eta; one of the gate's `budget` offsets gamma and the i-th eta exceed the u taken
    with probability at most delta w v / (4 budget) for each pair. (3) An overfit answer implies E_h >=
    value - xi, also after clamping; one of the gate's `budget` draws xi exceeds the x taken with
    probability delta v / (4 budget). The sum is at most delta. Records that joined later, or whose
    labels changed, change nothing: a record is all its versions together, and replacing it moves
    each earlier gate's mean by one record's share. Where subjects have several records, (1) has subjects in
    place of records, n at most, and n / rows in place of n in Chernoff's inequality, as in `upper_limit_at`.

    Examples
    --------
    >>> from fractions import Fraction
    >>> gate = Thresholdout(threshold=0.02, sigma=0.005, budget=1)
    >>> answer = GateAnswer(0.9, "overfit", 0, asked=1, refuted=1, number=1, epsilon=Fraction(1, 250))
    >>> round(private_holdout_bound(answer, gate, n=100_000, level=0.95).value, 4)
    0.1258
    """
    _check(n, level, rows)
    if answer.value is None or answer.epsilon is None:
        shut = answer.value is None
        why = "the budget was exhausted" if shut else "what these rows were asked costs a delta too"
        return Bound("private holdout", 1.0, level, f"does not apply: {why}", applies=False)
    delta, share = 1 - level, 1 / (answer.asked * (answer.asked + 1))
    chance = delta / (4 * gate.budget * answer.number * (answer.number + 1))
    if answer.status == "overfit":
        slack = value_tail(gate.sigma, chance, n)
    else:
        slack = gate.threshold + noise_tail(gate.sigma, chance * share, n)
    error = min(1.0, 1 - answer.value + slack)
    epsilon = float(answer.epsilon)
    log_tail = log_transfer_tail(delta * share / 2, n, epsilon)
    return Bound(
        name="private holdout",
        value=largest_rate(error, -log_tail * rows / n),
        level=level,
        assumption=(
            f"{independent_records(n, rows).removesuffix(',')}, "
            f"read by gates of epsilon={price_text(answer.epsilon)} together; "
            f"{ELSE}"
        ),
        applies=True,
    )

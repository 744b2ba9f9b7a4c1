"""Bounds on the true error from an answer of the reusable holdout.

`agreeing_holdout_bound` holds while the gate has agreed to every question, `private_holdout_bound` for any
answer, by the gate's differential privacy.

>>> gate = Thresholdout(threshold=0.02, sigma=0.001, budget=1)
>>> answer = GateAnswer(value=0.9, status="agrees", budget_left=1, asked=1)
>>> round(agreeing_holdout_bound(answer, gate, n=10_000, level=0.95).value, 4)
0.1462
"""

import math

from scipy.optimize import brentq

from learners.bounds import Bound, check_level, largest_rate, log_transfer_tail
from learners.holdout.thresholdout import GateAnswer, Thresholdout

__all__ = ["agreeing_holdout_bound", "noise_tail", "private_holdout_bound"]


def agreeing_holdout_bound(
    answer: GateAnswer, gate: Thresholdout, *, n: int, level: float
) -> Bound:
    """Bound a model's true error from an "agrees" answer about its accuracy.

    Parameters
    ----------
    answer
        The gate's answer to the question for the model's accuracy.
    gate
        The gate that was asked.
    n
        Records in the holdout, >= 1.
    level
        Confidence, in (0, 1).

    Returns
    -------
    Bound
        Bound on the error 1 - accuracy. It applies only while the gate has agreed to every question.

    Notes
    -----
    **Guarantees.** On one path of questions that all agree, all these bounds hold at once with
    probability >= `level`, however the questions were chosen.

    *Proof.* An agreeing answer returns the training mean, which does not depend on the holdout. So the
    questions along the path on which every answer agrees are fixed before the holdout is drawn, and may
    be treated as non-adaptive. Give the j-th question the share beta = (1 - level) / (j (j + 1)); the
    shares add up to at most 1 - level. Half of it pays for Chernoff's inequality, n kl(1 - E_h || 1 - E_P)
    <= ln(2 / beta) unless E_h <= E_P; half for the gate's noise, gamma + eta <= u. Agreement says E_h >=
    E_t - threshold - gamma - eta. So 1 - E_P is at most the largest rate within ln(2 / beta) / n, in kl, of
    1 - E_t + threshold + u.

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015), the description-length argument of section 3 with no overfit
       answer.

    Examples
    --------
    >>> gate = Thresholdout(threshold=0.02, sigma=0.001, budget=3)
    >>> answer = GateAnswer(value=0.9, status="agrees", budget_left=2, asked=8)
    >>> agreeing_holdout_bound(answer, gate, n=10_000, level=0.95).applies
    False
    """
    _check(n, level)
    assumption = "every question so far was agreed to; holdout records are independent draws"
    if answer.value is None or answer.status != "agrees" or answer.budget_left < gate.budget:
        why = "does not apply: the gate has not agreed to every question asked so far"
        return Bound(name="agreeing holdout", value=1.0, level=level, assumption=why, applies=False)
    beta = (1 - level) / (answer.asked * (answer.asked + 1))
    on_holdout = 1 - answer.value + gate.threshold + noise_tail(gate.sigma, beta / 2)
    error = largest_rate(min(1.0, on_holdout), math.log(2 / beta) / n)
    return Bound(
        name="agreeing holdout", value=error, level=level, assumption=assumption, applies=True
    )


def _check(n: int, level: float) -> None:
    if not n >= 1:
        raise ValueError(f"n must be >= 1, got n={n}")
    check_level(level)


def noise_tail(sigma: float, probability: float) -> float:
    """The u with P(gamma + eta > u) = probability, for gamma ~ Lap(2 sigma) and eta ~ Lap(4 sigma).

    For scales b < a and u >= 0: P = (a^2 exp(-u/a) - b^2 exp(-u/b)) / (2 (a^2 - b^2)).

    Examples
    --------
    >>> round(noise_tail(1.0, 0.5), 9), round(noise_tail(1.0, 0.01), 3)
    (0.0, 16.784)
    """
    if not 0 < probability <= 0.5:
        raise ValueError(f"probability must be in (0, 0.5], got probability={probability}")
    a, b = 4.0, 2.0

    def excess(u: float) -> float:
        tail = (a**2 * math.exp(-u / a) - b**2 * math.exp(-u / b)) / (2 * (a**2 - b**2))
        return tail - probability

    upper = -a * math.log(probability) + a
    return sigma * float(brentq(excess, 0.0, upper, xtol=1e-12)) if excess(0.0) > 0 else 0.0


def private_holdout_bound(answer: GateAnswer, gate: Thresholdout, *, n: int, level: float) -> Bound:
    """Bound a model's true error from an answer about its accuracy, "agrees" or "overfit".

    Parameters
    ----------
    answer, gate, n, level
        As in `agreeing_holdout_bound`.

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
    **Guarantees.** All answers of one gate are covered at once with probability >= `level`, however the
    questions were chosen.
    *Proof.* Let delta = 1 - level and w = 1 / (i (i + 1)) for the i-th question. (1) It is chosen by the
    gate's earlier answers, which are epsilon-differentially private, epsilon = 2 budget / (sigma n). For
    a fixed question kl(E_h || E_P) > c and E_h > E_P with probability at most exp(-n c); by
    `log_transfer` the chosen one does with probability delta w / 2 at the tail taken. (2) An agreeing
    answer says E_h >= E_t - threshold - gamma - eta; one of `budget` offsets gamma and the i-th eta
    exceed the u taken with probability at most delta w / (4 budget) for each pair. (3) An overfit
    answer says E_h >= value - xi, also after clamping; one of `budget` draws xi exceeds the x taken with
    probability delta / (4 budget). The sum is at most delta.

    Examples
    --------
    >>> gate = Thresholdout(threshold=0.02, sigma=0.005, budget=1)
    >>> answer = GateAnswer(value=0.9, status="overfit", budget_left=0, asked=1)
    >>> round(private_holdout_bound(answer, gate, n=100_000, level=0.95).value, 4)
    0.1223
    """
    _check(n, level)
    if answer.value is None:
        why = "does not apply: the budget was exhausted"
        return Bound("private holdout", value=1.0, level=level, assumption=why, applies=False)
    delta, share = 1 - level, 1 / (answer.asked * (answer.asked + 1))
    if answer.status == "overfit":
        slack = gate.sigma * math.log(2 * gate.budget / delta)
    else:
        slack = gate.threshold + noise_tail(gate.sigma, delta * share / (4 * gate.budget))
    error = min(1.0, 1 - answer.value + max(0.0, slack))
    epsilon = 2 * gate.budget / (gate.sigma * n)
    log_tail = log_transfer_tail(delta * share / 2, n, epsilon)
    return Bound(
        name="private holdout",
        value=largest_rate(error, -log_tail / n),
        level=level,
        assumption=f"{n} independent records, read by the gate alone, epsilon={epsilon:.3g}",
        applies=True,
    )

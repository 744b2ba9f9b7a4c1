"""What any answer of the reusable holdout says of the truth, by its differential privacy."""

import math

from learners.bounds.binary_divergence import largest_rate
from learners.bounds.bound import Bound, check_level
from learners.bounds.holdout import noise_tail
from learners.bounds.transfer import log_transfer_tail
from learners.holdout.thresholdout import GateAnswer, Thresholdout

__all__ = ["private_holdout_bound"]


def private_holdout_bound(answer: GateAnswer, gate: Thresholdout, *, n: int, level: float) -> Bound:
    """Bound a model's true error from an answer about its accuracy, "agrees" or "overfit".

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
        On the error 1 - accuracy. It does not apply once the budget is exhausted.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    **Guarantees.** All answers of one gate are covered at once with probability >= `level`, however the
    questions were chosen.
    *Proof.* Let delta = 1 - level and w = 1 / (i (i + 1)) for the i-th question. (1) It is chosen by what
    the gate said before, which is epsilon-differentially private, epsilon = 2 budget / (sigma n). For
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
    if not n >= 1:
        raise ValueError(f"n must be >= 1, got n={n}")
    check_level(level)
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

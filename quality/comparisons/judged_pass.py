"""One pass over comparisons: log-likelihood, gradient and information of the judged Bradley–Terry model.

Worker k prefers left to a tie to right with log weights

    left: (a_k d + b_k) / 2,    tie: c_k,    right: -(a_k d + b_k) / 2,

where d is the left item's score minus the right one's. With a = 1 and b = 0 it is Davidson's model, and
without ties Bradley and Terry's. It is concave in the scores given the workers, and concave in (a, b, c)
given the scores: both are multinomial logits.
"""

import numpy as np
from jaxtyping import Float64, Int8, Int32, Int64

from quality.parallel import kernel

__all__ = ["judge_pass", "marginal_information", "score_pass"]

MOST = 300.0  # largest log weight: its exponential is finite, and so is the square


@kernel
def _weights(d: float, a: float, b: float) -> tuple[float, float]:
    """Return the weights of left and right beside that of a tie, exp(c); their product is 1."""
    weight = np.exp(min(max((a * d + b) / 2.0, -MOST), MOST))
    return weight, 1.0 / weight


@kernel
def score_pass(
    worker: Int32[np.ndarray, " rows"],
    left: Int32[np.ndarray, " rows"],
    right: Int32[np.ndarray, " rows"],
    outcome: Int8[np.ndarray, " rows"],
    weight: Float64[np.ndarray, " rows"],
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    gradient: Float64[np.ndarray, " items"],
    information: Float64[np.ndarray, "items items"],
) -> float:
    """Add the gradient of the scores, and above the diagonal minus their information, in place.

    Return the log-likelihood. The information's rows add up to 0, which gives the diagonal.
    """
    total, before, tie = 0.0, -1, 0.0
    for row in range(len(worker)):
        i, j, k = left[row], right[row], worker[row]
        if k != before:
            before, tie = k, np.exp(judge[k, 2])
        a = judge[k, 0]
        to_left, to_right = _weights(score[i] - score[j], a, judge[k, 1])
        whole = to_left + to_right + tie
        lean = (to_left - to_right) / whole
        answer = outcome[row]
        slope = (1.0 if answer == 0 else -1.0 if answer == 1 else 0.0) - lean
        chance = (to_left if answer == 0 else to_right if answer == 1 else tie) / whole
        total += weight[row] * np.log(chance)
        slope *= weight[row] * a / 2.0
        gradient[i] += slope
        gradient[j] -= slope
        curve = weight[row] * a * a / 4.0 * ((to_left + to_right) / whole - lean * lean)
        information[min(i, j), max(i, j)] += curve
    return total


@kernel
def judge_pass(
    worker: Int32[np.ndarray, " rows"],
    left: Int32[np.ndarray, " rows"],
    right: Int32[np.ndarray, " rows"],
    outcome: Int8[np.ndarray, " rows"],
    weight: Float64[np.ndarray, " rows"],
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    gradient: Float64[np.ndarray, "workers 3"],
    information: Float64[np.ndarray, "workers 3 3"],
) -> None:
    """Add the gradient and, above the diagonal and on it, the information of each worker's (a, b, c)."""
    before, tie = -1, 0.0
    for row in range(len(worker)):
        k, answer, heavy = worker[row], outcome[row], weight[row]
        if k != before:
            before, tie = k, np.exp(judge[k, 2])
        d = score[left[row]] - score[right[row]]
        to_left, to_right = _weights(d, judge[k, 0], judge[k, 1])
        whole = to_left + to_right + tie
        lean, to_tie = (to_left - to_right) / whole, tie / whole
        slope = (1.0 if answer == 0 else -1.0 if answer == 1 else 0.0) - lean
        spread = 1.0 - to_tie - lean * lean
        gradient[k, 0] += heavy * d / 2.0 * slope
        gradient[k, 1] += heavy / 2.0 * slope
        gradient[k, 2] += heavy * ((1.0 if answer == 2 else 0.0) - to_tie)
        information[k, 0, 0] += heavy * d * d / 4.0 * spread
        information[k, 0, 1] += heavy * d / 4.0 * spread
        information[k, 1, 1] += heavy / 4.0 * spread
        information[k, 0, 2] -= heavy * d / 2.0 * lean * to_tie
        information[k, 1, 2] -= heavy / 2.0 * lean * to_tie
        information[k, 2, 2] += heavy * to_tie * (1.0 - to_tie)


@kernel
def _turn(cross: Float64[np.ndarray, " 3"], root: Float64[np.ndarray, "3 3"]) -> None:
    """Multiply the row vector by the lower triangular root, in place."""
    for q in range(3):
        turned = 0.0
        for p in range(q, 3):
            turned += cross[p] * root[p, q]
        cross[q] = turned


@kernel
def marginal_information(
    worker_start: Int64[np.ndarray, " workers+1"],
    left: Int32[np.ndarray, " rows"],
    right: Int32[np.ndarray, " rows"],
    weight: Float64[np.ndarray, " rows"],
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    root: Float64[np.ndarray, "workers 3 3"],
    information: Float64[np.ndarray, "items items"],
) -> None:
    """Subtract from the scores' information the loss from unknown workers, in place (a Schur complement).

    `root` holds the lower Cholesky factors of the workers' covariances.
    """
    n_items = len(score)
    cross = np.zeros((n_items, 3))
    seen = np.zeros(n_items, dtype=np.int64)
    is_seen = np.zeros(n_items, dtype=np.bool_)
    for k in range(len(worker_start) - 1):
        n_seen = 0
        a, tie = judge[k, 0], np.exp(judge[k, 2])
        for row in range(worker_start[k], worker_start[k + 1]):
            i, j = left[row], right[row]
            d = score[i] - score[j]
            to_left, to_right = _weights(d, a, judge[k, 1])
            whole = to_left + to_right + tie
            lean, to_tie = (to_left - to_right) / whole, tie / whole
            spread = weight[row] * (1.0 - to_tie - lean * lean)
            for item in (i, j):
                if not is_seen[item]:
                    is_seen[item] = True
                    seen[n_seen] = item
                    n_seen += 1
                sign = 1.0 if item == i else -1.0
                cross[item, 0] += sign * a * d / 4.0 * spread
                cross[item, 1] += sign * a / 4.0 * spread
                cross[item, 2] -= sign * weight[row] * a / 2.0 * lean * to_tie
        for x in range(n_seen):
            _turn(cross[seen[x]], root[k])
        for x in range(n_seen):
            i = seen[x]
            first, second, third = cross[i, 0], cross[i, 1], cross[i, 2]
            for y in range(n_seen):
                j = seen[y]
                information[i, j] -= (
                    first * cross[j, 0] + second * cross[j, 1] + third * cross[j, 2]
                )
        for x in range(n_seen):
            cross[seen[x], :] = 0.0
            is_seen[seen[x]] = False

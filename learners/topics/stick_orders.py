"""The order of a node's sticks: swaps of two places, by Metropolis–Hastings, or the likeliest order.

The paper's ratio holds for neighbouring places alone; the one here holds for any two.
"""

import math

import numpy as np
from jaxtyping import Int

from learners.topics.topic_counts import Counts, Law, refresh_row
from quality.parallel import kernel  # the decorator alone: it knows no label

__all__ = ["shuffle_orders", "sort_orders", "swap_log_ratio"]


@kernel
def swap_log_ratio(
    n: Int[np.ndarray, " atoms"], i: int, j: int, alpha: float, beta: float, closed: bool
) -> float:
    """Log posterior ratio of swapping the places i < j of counts in stick order.

    With T_k the counts behind place k and D = n_i - n_j, each T_k with i <= k < j grows by D.
    """
    m = len(n)
    tail = 0
    for k in range(i + 1, m):
        tail += n[k]
    change = n[i] - n[j]
    ratio = 0.0
    for k in range(i, j):
        ratio += math.lgamma(beta + tail + change) - math.lgamma(beta + tail)
        if not closed or k < m - 2:
            ratio -= math.lgamma(alpha + beta + tail + change) - math.lgamma(alpha + beta + tail)
        tail -= n[k + 1]
    if closed and j == m - 1:
        ratio += math.lgamma(alpha + n[j]) - math.lgamma(alpha + n[i])
    return ratio


@kernel
def shuffle_orders(counts: Counts, law: Law, rng: np.random.Generator) -> None:
    """Offer each node as many swaps of random places as it has atoms."""
    n = np.zeros(counts.order.shape[1], np.int64)
    for node in range(len(law.n_atoms)):
        m = law.n_atoms[node]
        for place in range(m):
            n[place] = counts.edges[node, counts.order[node, place]]
        for _ in range(m if m > 1 else 0):
            i = int(rng.random() * m)
            j = int(rng.random() * (m - 1))
            j = j + 1 if j >= i else j
            if i > j:
                i, j = j, i
            ratio = swap_log_ratio(n[:m], i, j, law.alpha, law.beta, law.closed)
            if math.log(1.0 - rng.random()) < ratio:
                column = counts.order[node, i]
                counts.order[node, i] = counts.order[node, j]
                counts.order[node, j] = column
                n[i], n[j] = n[j], n[i]
        refresh_row(counts, law, node)


def sort_orders(counts: Counts, law: Law) -> None:
    """Put each node's sticks in the order of falling counts, ties to the lower column.

    With open sticks this is the likeliest order, whatever alpha and beta.
    """
    for node in np.flatnonzero(law.n_atoms).tolist():
        m = law.n_atoms[node]
        counts.order[node, :m] = np.argsort(-counts.edges[node, :m], kind="stable")
        refresh_row(counts, law, node)

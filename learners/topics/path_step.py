"""The conditional path step: a new path given the levels of a document's words.

The weights of all paths are summed from the last node to the root, and a path is drawn from the root down:
exact, at the price of the edges and not of the paths.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from learners.topics.level_law import log_normaliser
from learners.topics.topic_counts import Assignment, Counts, Documents, Law
from quality.parallel import kernel  # the numba decorator alone

__all__ = ["draw_log", "draw_path", "score_levels"]


@kernel
def draw_log(log_weight: Float[np.ndarray, " n"], n: int, rng: np.random.Generator) -> int:
    """Draw one of the first n in proportion to weights given by their logarithms."""
    most = -math.inf
    for i in range(n):
        most = max(most, log_weight[i])
    total = 0.0
    for i in range(n):
        total += math.exp(log_weight[i] - most)
    left = rng.random() * total
    for i in range(n):
        left -= math.exp(log_weight[i] - most)
        if left < 0.0:
            return i
    last = 0  # rounding left a remainder: take the last with weight
    for i in range(n):
        if log_weight[i] > -math.inf:
            last = i
    return last


@kernel
def score_levels(
    documents: Documents, state: Assignment, counts: Counts, law: Law, d: int,
    score: Float[np.ndarray, "levels nodes"], held: Int[np.ndarray, " levels"],
) -> int:  # fmt: skip
    """Fill the log probability of each level's words at each node that can hold them; return levels used.

    The document's words are out of the counts.
    """
    n_levels, n_nodes = score.shape
    score[:] = 0.0
    held[:] = 0
    here = np.zeros(n_levels, np.int64)
    for run in range(documents.run_start[d], documents.run_start[d + 1]):
        word = documents.run_word[run]
        for t in range(documents.first[run], documents.first[run + 1]):
            here[state.level[t]] += 1
        for level in range(n_levels):
            if here[level] > 0:
                for node in range(n_nodes):
                    if law.depth[node] < n_levels - level:
                        at = counts.words[word, node]
                        for j in range(here[level]):
                            score[level, node] += law.log_word[at + j]
                held[level] += here[level]
                here[level] = 0
    used = 0
    for level in range(n_levels):
        if held[level] > 0:
            used = level + 1
            for node in range(n_nodes):
                total = counts.total[node]
                score[level, node] -= law.log_gamma[total + held[level]] - law.log_gamma[total]
    return used


@kernel
def _sum_below(
    score: Float[np.ndarray, "levels nodes"], counts: Counts, law: Law, end: int,
    below: Float[np.ndarray, "levels nodes"],
) -> None:  # fmt: skip
    """Fill `below[l, x]`: log weight of all ways on from node x with l nodes after it, x's words included."""
    n_levels, n_nodes = score.shape
    for node in range(n_nodes):
        leave = 0.0
        if law.n_atoms[node] > 0:
            leave = counts.log_edge[node, law.n_atoms[node] - 1]
        below[0, node] = score[0, node] + leave
        if end >= 0 and node != end:
            below[0, node] = -math.inf
    for level in range(1, n_levels):
        for node in range(n_nodes):
            below[level, node] = -math.inf
            if law.depth[node] >= n_levels - level:
                continue
            most = -math.inf
            for column in range(law.n_atoms[node] - 1):
                child = law.first_child[node] + column
                most = max(most, counts.log_edge[node, column] + below[level - 1, child])
            if most == -math.inf:
                continue
            total = 0.0
            for column in range(law.n_atoms[node] - 1):
                child = law.first_child[node] + column
                one = counts.log_edge[node, column] + below[level - 1, child]
                total += math.exp(one - most)
            below[level, node] = score[level, node] + most + math.log(total)


@kernel
def draw_path(
    documents: Documents, state: Assignment, counts: Counts, law: Law, d: int,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Give document d, which is out of the counts, a path drawn given its levels: equation (P)."""
    n_levels, n_nodes = state.path.shape[1], len(law.depth)
    score = np.empty((n_levels, n_nodes))
    below = np.empty((n_levels, n_nodes))
    used = score_levels(documents, state, counts, law, d, score, np.empty(n_levels, np.int64))
    _sum_below(score, counts, law, state.end[d], below)
    n = documents.start[d + 1] - documents.start[d]
    weight = np.empty(max(n_levels, counts.log_edge.shape[1]))
    for length in range(1, n_levels + 1):
        weight[length - 1] = -math.inf
        if length >= used:  # the level normaliser depends on the length: the paper leaves it out
            spread = n * log_normaliser(state.tau[d], length)
            weight[length - 1] = below[length - 1, 0] - spread
    length = draw_log(weight, n_levels, rng) + 1
    node = 0
    state.path[d, :] = -1
    state.path[d, 0] = 0
    for i in range(1, length):
        for column in range(law.n_atoms[node] - 1):
            child = law.first_child[node] + column
            weight[column] = counts.log_edge[node, column] + below[length - 1 - i, child]
        node = law.first_child[node] + draw_log(weight, law.n_atoms[node] - 1, rng)
        state.path[d, i] = node
    state.length[d] = length

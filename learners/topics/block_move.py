"""The blocked move: a new path and new levels together, proposed from frozen topics.

It lets a document cross to another part of the graph, which a path step given its levels hardly does.
`path_log_likelihoods` is its one sum over paths; the flat start and the exact likelihood use it too.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from learners.topics.concept_slots import PathTable
from learners.topics.level_law import level_probabilities, log_normaliser
from learners.topics.path_step import draw_log
from learners.topics.topic_counts import (
    Assignment,
    Counts,
    Documents,
    Law,
    add_words,
)
from quality.parallel import kernel  # the numba decorator alone

__all__ = [
    "block_move", "draw_levels", "fill_topics", "log_path", "path_log_likelihoods", "propose",
]  # fmt: skip

_TINY = 1e-200  # a product below that becomes a logarithm
_MANY = 16  # occurrences of a word from which one logarithm is quicker than the product


@kernel
def path_log_likelihoods(
    table: PathTable, topic: Float[np.ndarray, "nodes runs"], times: Int[np.ndarray, " runs"],
    tau: float, end: int, out: Float[np.ndarray, " paths"],
) -> None:  # fmt: skip
    """Fill each path's log probability of a document's words, levels summed out.

    `topic` holds each node's probability of each of the document's words. Paths that do not end at `end`
    get -inf unless it is -1.
    """
    n_levels, n_runs = table.nodes.shape[1], len(times)
    prefix = np.zeros((n_levels + 1, n_runs))
    share = np.empty(n_levels)
    length, valid = 0, 0  # so many nodes of the prefix are those of the path
    for row in range(len(table.length)):
        if table.length[row] != length:
            length, valid = table.length[row], 0
            level_probabilities(tau, length, share)
        valid = min(valid, table.shared[row])
        out[row] = -math.inf
        if end >= 0 and table.nodes[row, length - 1] != end:
            continue
        for i in range(valid, length - 1):
            node, weight = table.nodes[row, i], share[length - 1 - i]
            for run in range(n_runs):
                prefix[i + 1, run] = prefix[i, run] + weight * topic[node, run]
        valid = length - 1
        node, weight, before = table.nodes[row, length - 1], share[0], prefix[length - 1]
        total, product = 0.0, 1.0
        for run in range(n_runs):
            chance = before[run] + weight * topic[node, run]
            if times[run] > _MANY:
                total += times[run] * math.log(chance)
                continue
            for _ in range(times[run]):
                product *= chance
                if product < _TINY:
                    total += math.log(product)
                    product = 1.0
        out[row] = total + math.log(product)


@kernel
def log_path(table: PathTable, row: int, counts: Counts, law: Law) -> float:
    """Return the log predictive probability of a path, leaving included."""
    total, length = 0.0, table.length[row]
    for i in range(length):
        node = table.nodes[row, i]
        if law.n_atoms[node] > 0:
            column = law.n_atoms[node] - 1
            if i < length - 1:
                column = table.nodes[row, i + 1] - law.first_child[node]
            total += counts.log_edge[node, column]
    return total


@kernel
def fill_topics(
    documents: Documents, counts: Counts, law: Law, d: int,
    topic: Float[np.ndarray, "nodes runs"], times: Int[np.ndarray, " runs"],
) -> None:  # fmt: skip
    """Fill each node's predictive probability of each of a document's words, and how often it occurs."""
    n_words, n_nodes = counts.words.shape
    first = documents.run_start[d]
    for run in range(first, documents.run_start[d + 1]):
        word = documents.run_word[run]
        times[run - first] = documents.first[run + 1] - documents.first[run]
        for node in range(n_nodes):
            mass = law.eta + counts.words[word, node]
            topic[node, run - first] = mass / (n_words * law.eta + counts.total[node])


@kernel
def draw_levels(
    documents: Documents, state: Assignment, d: int, topic: Float[np.ndarray, "nodes runs"],
    rng: np.random.Generator,
) -> tuple[float, float]:  # fmt: skip
    """Draw each word's level given the path; return the sums of log topic and of levels."""
    length, first = state.length[d], documents.run_start[d]
    share = np.empty(length)
    level_probabilities(state.tau[d], length, share)
    log_topic, depth = 0.0, 0.0
    for run in range(first, documents.run_start[d + 1]):
        total = 0.0
        for level in range(length):
            total += share[level] * topic[state.path[d, length - 1 - level], run - first]
        for t in range(documents.first[run], documents.first[run + 1]):
            left = rng.random() * total
            chosen = length - 1
            for level in range(length - 1):
                left -= share[level] * topic[state.path[d, length - 1 - level], run - first]
                if left < 0.0:
                    chosen = level
                    break
            state.level[t] = chosen
            log_topic += math.log(topic[state.path[d, length - 1 - chosen], run - first])
            depth += chosen
    return log_topic, depth


@kernel
def propose(
    documents: Documents, state: Assignment, counts: Counts, law: Law, table: PathTable, d: int,
    topic: Float[np.ndarray, "nodes runs"], times: Int[np.ndarray, " runs"],
    rng: np.random.Generator,
) -> tuple[float, float, float]:  # fmt: skip
    """Draw a path and levels for document d, which is out of the counts, from the present topics.

    Return its log path probability, and the sums of log topic and of levels.
    """
    weight = np.empty(len(table.length))
    path_log_likelihoods(table, topic, times, state.tau[d], state.end[d], weight)
    for row in range(len(weight)):
        weight[row] += log_path(table, row, counts, law)
    row = draw_log(weight, len(weight), rng)
    state.path[d, :] = table.nodes[row]
    state.length[d] = table.length[row]
    log_topic, depth = draw_levels(documents, state, d, topic, rng)
    return log_path(table, row, counts, law), log_topic, depth


@kernel
def _log_levels(tau: float, n: int, depth: float, length: int) -> float:
    """Return the log probability of n words' levels, which sum to `depth`."""
    return float(n * (math.log(tau) - log_normaliser(tau, length)) + depth * math.log1p(-tau))


@kernel
def block_move(
    documents: Documents, state: Assignment, counts: Counts, law: Law, table: PathTable, d: int,
    score: float, greedy: bool, rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Offer document d, which is out of the counts, a new path and new levels; return whether it took them.

    `score` is the log probability of its words under its present levels, as `remove_words` returned it.
    With `greedy` it also takes whatever raises the joint density, for burn-in alone.
    """
    first, n_runs = documents.run_start[d], documents.run_start[d + 1] - documents.run_start[d]
    start, stop = documents.start[d], documents.start[d + 1]
    topic = np.empty((len(law.depth), n_runs))
    times = np.empty(n_runs, np.int64)
    fill_topics(documents, counts, law, d, topic, times)
    path, length = state.path[d].copy(), state.length[d]
    levels = state.level[start:stop].copy()
    log_topic, depth, edge = 0.0, 0.0, 0.0
    for run in range(first, documents.run_start[d + 1]):
        for t in range(documents.first[run], documents.first[run + 1]):
            log_topic += math.log(topic[path[length - 1 - state.level[t]], run - first])
            depth += state.level[t]
    for i in range(length):
        if law.n_atoms[path[i]] > 0:
            column = law.n_atoms[path[i]] - 1
            if i < length - 1:
                column = path[i + 1] - law.first_child[path[i]]
            edge += counts.log_edge[path[i], column]
    new_edge, new_log_topic, new_depth = propose(
        documents, state, counts, law, table, d, topic, times, rng
    )
    new_score = add_words(counts, law, documents, state, d)
    _take_back(counts, documents, state, d)
    ratio = (new_score - new_log_topic) - (score - log_topic)
    tau, n = state.tau[d], stop - start
    gain = new_edge + new_score + _log_levels(tau, n, new_depth, state.length[d])
    gain -= edge + score + _log_levels(tau, n, depth, length)
    if math.log(1.0 - rng.random()) < ratio or (greedy and gain > 0.0):
        return True
    state.path[d, :] = path
    state.length[d] = length
    state.level[start:stop] = levels
    return False


@kernel
def _take_back(counts: Counts, documents: Documents, state: Assignment, d: int) -> None:
    """Take words out again that were put in to be scored."""
    for t in range(documents.start[d], documents.start[d + 1]):
        node = state.path[d, state.length[d] - 1 - state.level[t]]
        counts.words[documents.word[t], node] -= 1
        counts.total[node] -= 1

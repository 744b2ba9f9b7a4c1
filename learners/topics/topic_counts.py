"""What the sampler counts: words at concepts and paths over edges, with one document in or out.

Topics, sticks and their weights are integrated out, so these counts are the whole model. A document is
taken out, given a new path and new levels, and put back. The order of a node's sticks changes by swaps of
two places, by Metropolis–Hastings, or is the likeliest: the paper's ratio holds for neighbouring places
alone, the one here for any two.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.special import betaln, gammaln

from learners.topics.concept_slots import Slots
from quality.parallel import kernel  # the numba decorator alone

__all__ = [
    "Assignment", "Counts", "Documents", "Law", "add_path", "add_words", "count", "documents_of",
    "law_of", "log_joint", "refresh_row", "remove_words", "shuffle_orders", "sort_orders", "swap_log_ratio",
]  # fmt: skip

MAX_WORDS = 2**31 - 1  # each stands in memory, and counts are of 32 bits


class Documents(NamedTuple):
    """Documents as runs of equal words, and each word once for every time it occurs.

    Tokens of document d are ``start[d]:start[d + 1]``, its runs ``run_start[d]:run_start[d + 1]``, and
    the tokens of run r ``first[r]:first[r + 1]``.
    """

    word: Int[np.ndarray, " tokens"]
    start: Int[np.ndarray, " bounds"]
    run_start: Int[np.ndarray, " bounds"]
    run_word: Int[np.ndarray, " runs"]
    first: Int[np.ndarray, " run_bounds"]


class Law(NamedTuple):
    """What stays as it is during a sweep: the slots, the priors, and tables of logarithms.

    `log_word[k]` is log(eta + k), `log_gamma[k]` is log Gamma(V eta + k).
    """

    depth: Int[np.ndarray, " nodes"]
    first_child: Int[np.ndarray, " nodes"]
    n_atoms: Int[np.ndarray, " nodes"]
    alpha: float
    beta: float
    eta: float
    a: float
    b: float
    closed: bool
    log_word: Float[np.ndarray, " counts"]
    log_gamma: Float[np.ndarray, " counts"]


class Counts(NamedTuple):
    """Words at nodes, paths over edges, the order of each node's sticks, and log edge predictives.

    The column of a child is its distance from the first child; that of leaving is the last.
    """

    words: Int[np.ndarray, "words nodes"]
    total: Int[np.ndarray, " nodes"]
    edges: Int[np.ndarray, "nodes atoms"]
    order: Int[np.ndarray, "nodes atoms"]
    log_edge: Float[np.ndarray, "nodes atoms"]


class Assignment(NamedTuple):
    """Latent state of the documents: path, number of its nodes, level of each token, and tau.

    Level 0 is the path's last node, the most specific. `end` is the node where a labelled document's path
    must end, or -1.
    """

    path: Int[np.ndarray, "documents levels"]
    length: Int[np.ndarray, " documents"]
    level: Int[np.ndarray, " tokens"]
    tau: Float[np.ndarray, " documents"]
    end: Int[np.ndarray, " documents"]


def documents_of(X: csr_array) -> Documents:
    """Return runs and tokens of a table of counts, without stored zeros and with sorted columns."""
    total = X.data.sum()
    if not total <= MAX_WORDS:
        raise ValueError(
            f"X must hold at most {MAX_WORDS:,} words in all, got {total:g}: scale the counts down"
        )
    counts = X.data.astype(np.int64)
    first = np.concatenate([[0], np.cumsum(counts)])
    run_start = X.indptr.astype(np.int64)
    run_word = X.indices.astype(np.int64)
    return Documents(np.repeat(run_word, counts), first[run_start], run_start, run_word, first)


def law_of(
    slots: Slots, documents: Documents, n_words: int, *, alpha: float, beta: float, eta: float,
    tau_prior: tuple[float, float], closed: bool,
) -> Law:  # fmt: skip
    """Return the priors, with tables as long as these documents need."""
    n_tokens = len(documents.word)
    most = int(np.bincount(documents.word, minlength=1).max(initial=0))
    a, b = map(float, tau_prior)
    return Law(
        slots.depth, slots.first_child, slots.n_atoms, float(alpha), float(beta), float(eta), a, b,
        closed, np.log(eta + np.arange(most + 1)), gammaln(n_words * eta + np.arange(n_tokens + 1)),
    )  # fmt: skip


def count(
    documents: Documents, state: Assignment, law: Law, order: Int[np.ndarray, "nodes atoms"],
    n_words: int, rows: Bool[np.ndarray, " documents"],
) -> Counts:  # fmt: skip
    """Count the documents of these rows, with fresh edge predictives."""
    n_nodes = len(law.depth)
    counts = Counts(
        np.zeros((n_words, n_nodes), np.int32), np.zeros(n_nodes, np.int64),
        np.zeros(order.shape, np.int64), order.copy(), np.zeros(order.shape),
    )  # fmt: skip
    for node in range(n_nodes):
        refresh_row(counts, law, node)
    for d in np.flatnonzero(rows).tolist():
        add_path(counts, law, state, d, 1)
        add_words(counts, law, documents, state, d)
    return counts


@kernel
def refresh_row(counts: Counts, law: Law, node: int) -> None:
    """Compute a node's log edge predictives anew: stick-breaking in the order of the node, equation (E)."""
    n = law.n_atoms[node]
    tail = 0
    for column in range(n):
        tail += counts.edges[node, column]
    log_left = 0.0
    for place in range(n):
        column = counts.order[node, place]
        here = counts.edges[node, column]
        tail -= here
        total = law.alpha + law.beta + here + tail
        if law.closed and place == n - 1:
            counts.log_edge[node, column] = log_left
        else:
            counts.log_edge[node, column] = log_left + math.log((law.alpha + here) / total)
            log_left += math.log((law.beta + tail) / total)


@kernel
def add_path(counts: Counts, law: Law, state: Assignment, d: int, sign: int) -> None:
    """Put a document's path in (1) or take it out (-1)."""
    length = state.length[d]
    for i in range(length):
        node = state.path[d, i]
        if law.n_atoms[node] > 0:
            column = law.n_atoms[node] - 1
            if i < length - 1:
                column = state.path[d, i + 1] - law.first_child[node]
            counts.edges[node, column] += sign
            refresh_row(counts, law, node)


@kernel
def add_words(counts: Counts, law: Law, documents: Documents, state: Assignment, d: int) -> float:
    """Put a document's words in; return the log probability of them, one after another (equation S)."""
    size = law.eta * counts.words.shape[0]
    score = 0.0
    for t in range(documents.start[d], documents.start[d + 1]):
        node = state.path[d, state.length[d] - 1 - state.level[t]]
        word = documents.word[t]
        score += law.log_word[counts.words[word, node]] - math.log(size + counts.total[node])
        counts.words[word, node] += 1
        counts.total[node] += 1
    return score


@kernel
def remove_words(
    counts: Counts, law: Law, documents: Documents, state: Assignment, d: int
) -> float:
    """Take a document's words out; return the log probability of putting them back."""
    size = law.eta * counts.words.shape[0]
    score = 0.0
    for t in range(documents.start[d], documents.start[d + 1]):
        node = state.path[d, state.length[d] - 1 - state.level[t]]
        word = documents.word[t]
        counts.words[word, node] -= 1
        counts.total[node] -= 1
        score += law.log_word[counts.words[word, node]] - math.log(size + counts.total[node])
    return score


def log_joint(documents: Documents, state: Assignment, counts: Counts, law: Law) -> float:
    """Return the log density of words, levels, paths, orders and tau; topics and sticks integrated out."""
    n_words = counts.words.shape[0]
    size = n_words * law.eta
    seen = counts.words[counts.words > 0]
    topics = (gammaln(size) - gammaln(size + counts.total)).sum()
    topics += (gammaln(law.eta + seen) - gammaln(law.eta)).sum()
    n = np.diff(documents.start)
    levels = np.concatenate([[0], np.cumsum(state.level)])[documents.start]
    log_stay = np.log1p(-state.tau)
    drawn = n * np.log(state.tau) + np.diff(levels) * log_stay
    drawn -= n * np.log(-np.expm1(state.length * log_stay))
    prior = (law.a - 1) * np.log(state.tau) + (law.b - 1) * log_stay - betaln(law.a, law.b)
    return float(topics + log_orders(counts, law) + (drawn + prior).sum())


def log_orders(counts: Counts, law: Law) -> float:
    """Return the log probability of all paths, given each node's order: equation (sigma)."""
    total = 0.0
    for node in np.flatnonzero(law.n_atoms):
        m = law.n_atoms[node]
        n = counts.edges[node, counts.order[node, :m]]
        tail = n.sum() - np.cumsum(n)
        n, tail = (n[:-1], tail[:-1]) if law.closed else (n, tail)
        total += (betaln(law.alpha + n, law.beta + tail) - betaln(law.alpha, law.beta)).sum()
    return float(total)


@kernel
def swap_log_ratio(
    n: Int[np.ndarray, " atoms"], i: int, j: int, alpha: float, beta: float, closed: bool
) -> float:
    """Return the log posterior ratio of swapping the places i < j of counts in stick order.

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

"""Exact likelihood of new documents, and the share of their words at each concept.

The latent state of a new document is its path and one number, so nothing has to be sampled: tau is
integrated by Gauss–Jacobi quadrature, and kept samples are averaged in probability.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaln, logsumexp, roots_jacobi

from learners.topics.block_move import path_log_likelihoods
from learners.topics.concept_slots import PathTable, Slots
from learners.topics.level_law import LEAST_TAU, level_probabilities
from learners.topics.topic_counts import Counts, Documents, Law
from quality.parallel import kernel  # the numba decorator alone

__all__ = [
    "Sample", "check_prior", "log_mean", "path_log_weights", "quadrature", "sample_of",
    "word_shares",
]  # fmt: skip

Rule: TypeAlias = tuple[Float[np.ndarray, " taus"], Float[np.ndarray, " taus"]]

N_NODES = 48
LARGEST_LOG = 700.0  # of the sum of weights
LEAST_PRIOR = 1e-6  # of each parameter of tau's Beta prior
MANY_WORDS = 1000  # beyond that a document has 4 nodes for each square root of its words


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One kept state of the chain, as a model of new documents.

    Parameters
    ----------
    topics
        Probability of each word at each node.
    edges
        Probability of each way on from a node, leaving last; rows of internal nodes sum to 1.
    """

    topics: Float[np.ndarray, "words nodes"]
    edges: Float[np.ndarray, "nodes atoms"]

    def log_paths(self, slots: Slots, table: PathTable) -> Float[np.ndarray, " paths"]:
        """Return the log probability of each path."""
        total = np.zeros(len(table.length))
        with np.errstate(divide="ignore"):
            log_edges = np.log(self.edges)
        following = np.roll(table.nodes, -1, axis=1)
        for i in range(table.nodes.shape[1]):
            here = (i < table.length) & (slots.n_atoms[table.nodes[:, i]] > 0)
            node = table.nodes[here, i]
            column = slots.n_atoms[node] - 1
            goes_on = i + 1 < table.length[here]
            column[goes_on] = following[here, i][goes_on] - slots.first_child[node[goes_on]]
            total[here] += log_edges[node, column]
        return total


def sample_of(counts: Counts, law: Law) -> Sample:
    """Return the predictive probabilities of the counts; open sticks' edges are made to sum to 1."""
    topics = (law.eta + counts.words) / (law.eta * counts.words.shape[0] + counts.total)
    is_atom = np.arange(counts.edges.shape[1]) < law.n_atoms[:, None]
    edges = np.where(is_atom, np.exp(counts.log_edge), 0.0)
    edges /= np.maximum(edges.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    for one in (topics, edges):
        one.flags.writeable = False
    return Sample(topics, edges)


def quadrature(n: int, a: float, b: float) -> Rule:
    """Return nodes and log weights that integrate a function of tau against its Beta(a, b) prior."""
    x, weight = roots_jacobi(n, b - 1, a - 1)
    log_weight = np.log(weight) - (a + b - 1) * math.log(2) - betaln(a, b)
    return np.clip((x + 1) / 2, LEAST_TAU, 1 - LEAST_TAU), log_weight


def check_prior(a: float, b: float) -> None:
    """Raise ValueError where the quadrature's weights are beyond the numbers."""
    if not min(a, b) >= LEAST_PRIOR:  # below it draws of tau need not end
        raise ValueError(f"tau_prior must be two numbers >= {LEAST_PRIOR:g}, got ({a:g}, {b:g})")
    if not (a + b - 1) * math.log(2) + betaln(a, b) < LARGEST_LOG:
        raise ValueError(
            f"tau_prior must be less one-sided or smaller, got ({a:g}, {b:g}): it has no quadrature"
        )


def n_quadrature(n_words: int) -> int:
    """Return the number of quadrature nodes for a document of so many words."""
    return N_NODES if n_words <= MANY_WORDS else math.ceil(4 * math.sqrt(n_words))


def path_log_weights(
    documents: Documents, slots: Slots, table: PathTable, sample: Sample,
    prior: tuple[float, float],
) -> Float[np.ndarray, "documents paths"]:  # fmt: skip
    """Return the log probability of each document's words and each path, levels and tau integrated out."""
    paths = sample.log_paths(slots, table)
    found = np.empty((len(documents.start) - 1, len(table.length)))
    for d, rule in enumerate(_rules(documents, prior)):
        _integrated(documents, table, sample.topics, d, *rule, found[d])
    return np.asarray(found + paths)


def _rules(documents: Documents, prior: tuple[float, float]) -> Iterator[Rule]:
    """Yield each document's quadrature."""
    known: dict[int, Rule] = {}
    for n_words in np.diff(documents.start).tolist():
        n = n_quadrature(n_words)
        if n not in known:
            known[n] = quadrature(n, *prior)
        yield known[n]


@kernel
def _integrated(
    documents: Documents, table: PathTable, topics: Float[np.ndarray, "words nodes"], d: int,
    taus: Float[np.ndarray, " taus"], log_weight: Float[np.ndarray, " taus"],
    out: Float[np.ndarray, " paths"],
) -> None:  # fmt: skip
    """Fill the log of each path's likelihood, integrated over tau."""
    topic, times = _own_topics(documents, topics, d)
    scores = np.empty(len(out))
    mass = np.zeros(len(out))
    out[:] = -math.inf
    for q in range(len(taus)):
        path_log_likelihoods(table, topic, times, taus[q], -1, scores)
        for path in range(len(out)):
            one = scores[path] + log_weight[q]
            if one > out[path]:
                mass[path] = mass[path] * math.exp(out[path] - one) + 1.0
                out[path] = one
            elif one > -math.inf:
                mass[path] += math.exp(one - out[path])
    for path in range(len(out)):
        out[path] += math.log(mass[path])


@kernel
def _own_topics(
    documents: Documents, topics: Float[np.ndarray, "words nodes"], d: int
) -> tuple[Float[np.ndarray, "nodes runs"], Int[np.ndarray, " runs"]]:
    """Return each node's probability of each of a document's words, and how often it occurs."""
    first, stop = documents.run_start[d], documents.run_start[d + 1]
    topic = np.empty((topics.shape[1], stop - first))
    times = np.empty(stop - first, np.int64)
    for run in range(first, stop):
        times[run - first] = documents.first[run + 1] - documents.first[run]
        for node in range(topics.shape[1]):
            topic[node, run - first] = topics[documents.run_word[run], node]
    return topic, times


def word_shares(
    documents: Documents, table: PathTable, sample: Sample, log_path: Float[np.ndarray, "documents paths"],
    prior: tuple[float, float],
) -> Float[np.ndarray, "documents nodes"]:  # fmt: skip
    """Return the expected share of each document's words at each node; `log_path` has its log posteriors.

    For a document without words it is the expected share of levels.
    """
    found = np.zeros((len(log_path), sample.topics.shape[1]))
    for d, (taus, log_weight) in enumerate(_rules(documents, prior)):
        rows = np.flatnonzero(log_path[d] > math.log(1e-6))
        kept = PathTable(
            np.ascontiguousarray(table.nodes[rows]), table.length[rows],
            np.zeros(len(rows), np.int64),
        )  # fmt: skip
        _shares(documents, kept, sample.topics, d, taus, log_weight, log_path[d, rows], found[d])
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@kernel
def _shares(
    documents: Documents, table: PathTable, topics: Float[np.ndarray, "words nodes"], d: int,
    taus: Float[np.ndarray, " taus"], log_weight: Float[np.ndarray, " taus"],
    log_path: Float[np.ndarray, " paths"], out: Float[np.ndarray, " nodes"],
) -> None:  # fmt: skip
    """Add each path's expected words at its nodes, by the posterior of tau given the path."""
    topic, times = _own_topics(documents, topics, d)
    n_paths, n_runs = len(table.length), len(times)
    scores = np.empty((len(taus), n_paths))
    share = np.empty(table.nodes.shape[1])
    for q in range(len(taus)):
        path_log_likelihoods(table, topic, times, taus[q], -1, scores[q])
    for path in range(n_paths):
        length, most = table.length[path], -math.inf
        for q in range(len(taus)):
            most = max(most, scores[q, path] + log_weight[q])
        mass = 0.0
        for q in range(len(taus)):
            mass += math.exp(scores[q, path] + log_weight[q] - most)
        for q in range(len(taus)):
            here = math.exp(log_path[path] + scores[q, path] + log_weight[q] - most) / mass
            if here < 1e-12:
                continue
            level_probabilities(taus[q], length, share)
            for level in range(length if n_runs == 0 else 0):
                out[table.nodes[path, length - 1 - level]] += here * share[level]
            for run in range(n_runs):
                total = 0.0
                for level in range(length):
                    total += share[level] * topic[table.nodes[path, length - 1 - level], run]
                for level in range(length):
                    node = table.nodes[path, length - 1 - level]
                    out[node] += here * times[run] * share[level] * topic[node, run] / total


def log_mean(
    samples: list[Float[np.ndarray, "documents paths"]],
) -> Float[np.ndarray, "documents paths"]:
    """Return the mean of samples in probability, as a logarithm."""
    return np.asarray(logsumexp(samples, axis=0) - math.log(len(samples)))

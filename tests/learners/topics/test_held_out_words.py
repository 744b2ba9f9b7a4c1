from itertools import product
from time import perf_counter

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.special import logsumexp
from scipy.stats import beta

from learners.topics import held_out_words
from learners.topics.block_move import path_log_likelihoods
from learners.topics.concept_slots import Slots, all_paths
from learners.topics.held_out_words import (
    Sample,
    check_prior,
    path_log_weights,
    quadrature,
    word_shares,
)
from learners.topics.topic_counts import documents_of

SLOTS = Slots.of((1, 2, 2))
TABLE = all_paths(SLOTS)


@pytest.fixture
def sample(rng):
    edges = np.zeros((5, 3))
    for node in np.flatnonzero(SLOTS.n_atoms):
        edges[node, : SLOTS.n_atoms[node]] = rng.dirichlet(np.ones(SLOTS.n_atoms[node]))
    return Sample(rng.dirichlet(np.full(6, 0.3), 5).T.copy(), edges)


def path_probability(sample, path):
    ways = [*path[1:], None]
    found = 1.0
    for node, to in zip(path, ways, strict=True):
        if SLOTS.n_atoms[node]:
            column = SLOTS.n_atoms[node] - 1 if to is None else to - SLOTS.first_child[node]
            found *= sample.edges[node, column]
    return found


def test_paths_have_the_probability_of_their_edges_and_sum_to_one(sample):
    log = sample.log_paths(SLOTS, TABLE)
    for row, one in enumerate(log):
        path = TABLE.nodes[row, : TABLE.length[row]].tolist()
        assert np.exp(one) == pytest.approx(path_probability(sample, path), abs=1e-14)
    assert np.exp(log).sum() == pytest.approx(1, abs=1e-12)


def test_the_likelihood_is_that_of_enumeration_and_adaptive_quadrature(sample):
    """Every level of every word enumerated, tau integrated by scipy, for documents of three words."""
    X = np.array([[1, 0, 2, 0, 0, 0], [0, 1, 0, 1, 1, 0]])
    documents = documents_of(csr_array(X))
    found = path_log_weights(documents, SLOTS, TABLE, sample, (2.0, 5.0))
    for d, row in product(range(2), range(len(TABLE.length))):
        path = TABLE.nodes[row, : TABLE.length[row]][::-1]
        words = documents.word[documents.start[d] : documents.start[d + 1]]

        def likelihood(tau, path=path, words=words):
            share = (1 - tau) ** np.arange(len(path)) * tau / (1 - (1 - tau) ** len(path))
            levels = product(range(len(path)), repeat=3)
            each = [
                np.prod(
                    [share[k] * sample.topics[w, path[k]] for k, w in zip(one, words, strict=True)]
                )
                for one in levels
            ]
            return sum(each) * beta.pdf(tau, 2, 5)

        wanted = quad(likelihood, 0, 1, epsabs=1e-14)[0] * path_probability(
            sample, path[::-1].tolist()
        )
        assert np.exp(found[d, row]) == pytest.approx(wanted, rel=1e-8)


def test_48_nodes_are_as_good_as_128(sample, rng, monkeypatch):
    """Within 3e-3 nats a document and 1e-4 a word, of 250 words each."""
    X = csr_array(rng.multinomial(250, rng.dirichlet(np.ones(6)), 20))
    documents = documents_of(X)
    few = logsumexp(path_log_weights(documents, SLOTS, TABLE, sample, (1.0, 1.0)), axis=1)
    monkeypatch.setattr(held_out_words, "N_NODES", 128)
    many = logsumexp(path_log_weights(documents, SLOTS, TABLE, sample, (1.0, 1.0)), axis=1)
    assert np.abs(few - many).max() < 3e-3
    assert abs((few - many).sum()) / X.sum() < 1e-4


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 5.0), (0.5, 3.0)])
def test_quadrature_has_the_moments_of_the_prior(a, b):
    tau, log_weight = quadrature(48, a, b)
    for k in range(5):
        assert (np.exp(log_weight) * tau**k).sum() == pytest.approx(beta.moment(k, a, b), abs=1e-10)


def test_word_shares_are_those_of_enumeration(sample):
    X = np.array([[2, 0, 1, 0, 3, 0]])
    documents = documents_of(csr_array(X))
    weight = path_log_weights(documents, SLOTS, TABLE, sample, (2.0, 2.0))
    log_path = weight - logsumexp(weight, axis=1, keepdims=True)
    found = word_shares(documents, TABLE, sample, log_path, (2.0, 2.0))
    wanted, grid = np.zeros(5), (np.arange(4000) + 0.5) / 4000
    for row in range(len(TABLE.length)):
        path = TABLE.nodes[row, : TABLE.length[row]][::-1]
        k = np.arange(len(path))[:, None]
        share = (1 - grid) ** k * grid / (1 - (1 - grid) ** len(path))
        mix = share[:, :, None] * sample.topics[:, path].T[:, None, :]
        log = (np.log(mix.sum(axis=0)) * X).sum(axis=1) + beta.logpdf(grid, 2, 2)
        here = np.exp(log - logsumexp(log))
        part = (mix / mix.sum(axis=0) * X).sum(axis=2) @ here
        wanted[path] += np.exp(log_path[0, row]) * part
    assert found[0] == pytest.approx(wanted / wanted.sum(), abs=1e-4)


def test_word_shares_of_a_long_document_are_integrated_as_finely_as_its_likelihood(
    rng, monkeypatch
):
    """48 nodes stand too far apart for the narrow posterior of tau: shares were wrong by up to .001."""
    slots = Slots.of((1, 1))
    table = all_paths(slots)
    topics = rng.dirichlet(np.full(6, 0.3), 2).T.copy()
    sample = Sample(topics, np.array([[1.0, 0.0], [0.0, 0.0]]))  # the path always goes on
    documents = documents_of(csr_array([rng.multinomial(20_000, topics @ [0.63, 0.37])]))
    log_path = np.array([[-np.inf, 0.0]])
    found = word_shares(documents, table, sample, log_path, (1.0, 1.0))
    tau = (np.arange(400_000) + 0.5) / 400_000
    share = np.array([1 - tau, np.ones(len(tau))]) / (2 - tau)  # of the root, and of the last node
    times = np.bincount(documents.word, minlength=6)
    log = times @ np.log(topics @ share)
    here = np.exp(log - logsumexp(log))
    root = (times @ (topics[:, :1] * share[0] / (topics @ share)) @ here) / 20_000
    assert found[0] == pytest.approx([root, 1 - root], abs=1e-7)


def test_the_likelihood_of_a_document_takes_its_distinct_words_and_not_all_of_them(sample):
    """A word that occurs often is one power: a hundred million words take half a minute one by one."""
    topic = np.ascontiguousarray(sample.topics[[0, 2, 5]].T)
    times = np.array([60_000_000, 40_000_000, 3])
    found = np.empty(len(TABLE.length))
    path_log_likelihoods(TABLE, topic, times[:0], 0.3, -1, found)  # compiled
    began = perf_counter()
    for _ in range(30):
        path_log_likelihoods(TABLE, topic, times, 0.3, -1, found)
    assert perf_counter() - began < 5
    for row, one in enumerate(found):
        path = TABLE.nodes[row, : TABLE.length[row]][::-1]
        share = 0.3 * 0.7 ** np.arange(len(path))
        wanted = times @ np.log(share / share.sum() @ topic[path])
        assert one == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("prior", [(1e-300, 1e-300), (1e-17, 1.0), (1.0, 0.0)])
def test_a_prior_next_to_nothing_is_refused(prior):
    """The first made draws of tau that did not end, the second an error of SciPy's."""
    with pytest.raises(ValueError, match="tau_prior must be two numbers >= 1e-06"):
        check_prior(*prior)
    check_prior(1e-6, 1e-6)

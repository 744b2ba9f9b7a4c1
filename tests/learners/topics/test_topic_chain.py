"""The sampler's law, by Geweke's test: documents redrawn from their state leave the prior as it is."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from learners.topics.concept_slots import Slots, all_paths
from learners.topics.topic_chain import Moves, step_priors, sweep
from learners.topics.topic_counts import (
    Assignment,
    add_path,
    count,
    documents_of,
    law_of,
    log_joint,
)
from learners.topics.topic_fit import _empty_state

SIZES, N_WORDS, N_TOKENS, N_DOCUMENTS = (1, 2, 2), 4, 5, 3
PRIORS = {"alpha": 1.5, "beta": 2.0, "eta": 0.5, "tau_prior": (2.0, 3.0), "closed": True}
SLOTS = Slots.of(SIZES)
TABLE = all_paths(SLOTS)
M = int(SLOTS.n_atoms.max())


def from_prior(rng):
    """Orders, and documents' paths, tau and levels, drawn forward; paths one after another, as an urn."""
    order = np.array([np.append(rng.permutation(M), [])[:M] for _ in range(SLOTS.n_nodes)], int)
    state = Assignment(
        np.full((N_DOCUMENTS, len(SIZES)), -1, np.int32), np.zeros(N_DOCUMENTS, np.int64),
        np.zeros(N_DOCUMENTS * N_TOKENS, np.int64), rng.beta(2, 3, N_DOCUMENTS),
        np.full(N_DOCUMENTS, -1),
    )  # fmt: skip
    documents, law = words_of(rng.integers(N_WORDS, size=(N_DOCUMENTS, N_TOKENS)))
    counts = count(documents, state, law, order, N_WORDS, np.zeros(N_DOCUMENTS, bool))
    for d in range(N_DOCUMENTS):
        path = [0]
        while SLOTS.n_atoms[path[-1]]:
            n = SLOTS.n_atoms[path[-1]]
            column = rng.choice(n, p=np.exp(counts.log_edge[path[-1], :n]))
            if column == n - 1:
                break
            path.append(int(SLOTS.first_child[path[-1]] + column))
        state.path[d, : len(path)], state.length[d] = path, len(path)
        add_path(counts, law, state, d, 1)
        share = (1 - state.tau[d]) ** np.arange(len(path))
        tokens = slice(d * N_TOKENS, (d + 1) * N_TOKENS)
        state.level[tokens] = rng.choice(len(path), N_TOKENS, p=share / share.sum())
    return state, counts.order


def words_of(words):
    X = np.array([np.bincount(row, minlength=N_WORDS) for row in words])
    documents = documents_of(csr_array(X))
    law = law_of(SLOTS, documents, N_WORDS, **PRIORS)
    # a longer table, for any words that these documents may come to hold
    return documents, law._replace(
        log_word=np.log(PRIORS["eta"] + np.arange(N_DOCUMENTS * N_TOKENS + 1))
    )


def redrawn(state, rng):
    """Words given paths and levels, from each node's urn; tokens sorted by word, levels with them."""
    held = np.full((SLOTS.n_nodes, N_WORDS), PRIORS["eta"])
    words = np.empty((N_DOCUMENTS, N_TOKENS), int)
    for d in range(N_DOCUMENTS):
        for t in range(N_TOKENS):
            node = state.path[d, state.length[d] - 1 - state.level[d * N_TOKENS + t]]
            words[d, t] = np.searchsorted(np.cumsum(held[node]), rng.random() * held[node].sum())
            held[node, words[d, t]] += 1
        order = np.argsort(words[d], kind="stable")
        words[d] = words[d, order]
        tokens = slice(d * N_TOKENS, (d + 1) * N_TOKENS)
        state.level[tokens] = state.level[tokens][order]
    return words_of(words)


def statistics(state, order, documents):
    """Eight, of every part of the state and of the words."""
    length, path = state.length, state.path
    together = np.mean([
        np.intersect1d(*(documents.word[documents.start[d] : documents.start[d + 1]] for d in pair)).size
        for pair in ((0, 1), (1, 2))
    ])  # fmt: skip
    return [
        np.mean(length == 1), np.mean(length == 3), state.tau.mean(), (state.tau**2).mean(),
        state.level.mean(), np.mean(path[:, 1] == path[0, 1]),
        order[0, 0] == M - 1, together,
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("blocked", [False, True], ids=["conditional", "block"])
def test_the_sampler_leaves_the_prior_of_eight_statistics_as_it_is(rng, blocked):
    """Geweke (2004): |z| < 4 on 8 statistics, 40 batches; a false alarm in about 2e-3 of seeds.

    Without the level normaliser's change with the path's length (the paper's equation 1) the share of
    paths of one node moves by hundreds of standard errors.
    """
    n = 2000
    forward = []
    for _ in range(n):
        state, order = from_prior(rng)
        forward.append(statistics(state, order, redrawn(state, rng)[0]))
    state, order = from_prior(rng)
    chained = []
    for _ in range(n):
        documents, law = redrawn(state, rng)
        counts = count(documents, state, law, order, N_WORDS, np.ones(N_DOCUMENTS, bool))
        moves = Moves(blocked=blocked)
        for _ in range(2):
            sweep(
                documents,
                state,
                counts,
                law,
                TABLE if blocked else None,
                moves,
                np.arange(N_DOCUMENTS),
                rng,
            )
        order = counts.order
        chained.append(statistics(state, order, documents))
    one, other = (
        np.array(some, float).reshape(40, n // 40, -1).mean(axis=1) for some in (forward, chained)
    )
    error = np.sqrt((one.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / 40)
    z = (one.mean(axis=0) - other.mean(axis=0)) / error
    assert np.abs(z).max() < 4, z


def test_counts_stay_those_of_the_documents(rng):
    """After sweeps of both kinds, against counting anew."""
    X = csr_array(rng.poisson(0.5, (30, 12)))
    documents = documents_of(X)
    for closed in (False, True):
        law = law_of(SLOTS, documents, 12, **(PRIORS | {"closed": closed}))
        state = _empty_state(documents, np.full(30, -1), law, rng)
        state.path[:, 0], state.length[:] = 0, 1
        order = np.tile(np.arange(M), (SLOTS.n_nodes, 1))
        counts = count(documents, state, law, order, 12, np.ones(30, bool))
        for table in (TABLE, None):
            law = sweep(
                documents,
                state,
                counts,
                law,
                table,
                Moves(optimize=("eta", "beta")),
                np.arange(30),
                rng,
            )
        anew = count(documents, state, law, counts.order, 12, np.ones(30, bool))
        for one, other in zip(counts, anew, strict=True):
            assert np.allclose(one, other, rtol=0, atol=1e-12)


class Scripted(np.random.Generator):
    """A generator of one normal and one uniform number."""

    def __init__(self, normal, uniform):
        super().__init__(np.random.PCG64(0))
        self.normal, self.uniform = normal, uniform

    def standard_normal(self):
        return self.normal

    def random(self):
        return self.uniform


def swept_once(rng):
    """Twenty documents of eight words after one sweep: documents, state, counts and law."""
    documents = documents_of(csr_array(rng.poisson(1.0, (20, 8))))
    law = law_of(SLOTS, documents, 8, **PRIORS)
    state = _empty_state(documents, np.full(20, -1), law, rng)
    state.path[:, 0], state.length[:] = 0, 1
    order = np.tile(np.arange(M), (SLOTS.n_nodes, 1))
    counts = count(documents, state, law, order, 8, np.ones(20, bool))
    law = sweep(documents, state, counts, law, TABLE, Moves(), np.arange(20), rng)
    return documents, state, counts, law


@pytest.mark.parametrize("name", ["alpha", "beta", "eta"])
@pytest.mark.parametrize("normal", [-1.5, 1.5])
def test_a_prior_is_accepted_up_to_its_density_on_the_logarithm(rng, name, normal):
    """To nine digits of the ratio; then the law has the tables of its new prior, and the edges too."""
    documents, state, counts, law = swept_once(rng)
    value = getattr(law, name) * np.exp(0.15 * normal)
    other = law_of(SLOTS, documents, 8, **(PRIORS | {name: value}))
    ratio = log_joint(documents, state, counts, other) - log_joint(documents, state, counts, law)
    ratio += np.log(value / getattr(law, name)) - (value - getattr(law, name))  # Exp(1), per log
    # a ratio above 0 is always accepted: there the way back is offered, whose ratio is the opposite
    begin, end, step = (law, other, normal) if ratio < 0 else (other, law, -normal)
    for shift, wanted in ((-1e-9, end), (1e-9, begin)):
        drawn = Scripted(step, -np.expm1(-abs(ratio) + shift))
        found = step_priors(documents, state, counts, begin, (name,), drawn)
        for one, known in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, known, rtol=1e-12)
    anew = count(documents, state, end, counts.order, 8, np.ones(20, bool))
    np.testing.assert_allclose(counts.log_edge, anew.log_edge, atol=1e-12)


def test_priors_are_sampled_by_the_joint_density(rng):
    """With little data and a prior Exp(1) a walk of 3000 steps stays near where the posterior is."""
    documents, state, counts, law = swept_once(rng)
    seen, step = [], law
    for _ in range(3000):
        step = step_priors(documents, state, counts, step, ("beta",), rng)
        seen.append(step.beta)
    grid = np.linspace(0.02, 14, 400)
    log = np.array([log_joint(documents, state, counts, law._replace(beta=b)) - b for b in grid])
    weight = np.exp(log - log.max())
    mean = (grid * weight).sum() / weight.sum()
    batches = np.array(seen[200:]).reshape(20, -1).mean(axis=1)
    # 20 batches of a slow walk: their spread is understated, so 7 and not 5 of their standard errors
    assert abs(batches.mean() - mean) < 7 * batches.std(ddof=1) / np.sqrt(20)

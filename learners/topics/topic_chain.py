"""The chain: sweeps over documents, orders and hyper-parameters.

Each leaves the posterior invariant, unless it is greedy or sorts the orders.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from scipy.special import gammaln

from learners.topics.block_move import block_move, fill_topics, propose
from learners.topics.concept_slots import PathTable
from learners.topics.level_law import draw_tau
from learners.topics.path_step import draw_path
from learners.topics.topic_counts import (
    Assignment,
    Counts,
    Documents,
    Law,
    add_path,
    add_words,
    log_joint,
    refresh_row,
    remove_words,
    shuffle_orders,
    sort_orders,
)
from quality.parallel import kernel  # the numba decorator alone

__all__ = ["Moves", "place", "step_priors", "sweep"]

_STEP = 0.15  # standard deviation of the random walk on the logarithm


@dataclass(frozen=True, slots=True)
class Moves:
    """Which moves a sweep makes.

    Parameters
    ----------
    blocked
        Offer each document a new path and new levels together, before the conditional steps.
    greedy
        Take every blocked move that raises the joint density: for burn-in alone.
    sort
        Put sticks in their likeliest order, in place of swaps by Metropolis–Hastings.
    optimize
        Priors to move: of "alpha", "beta" and "eta".
    """

    blocked: bool = True
    greedy: bool = False
    sort: bool = False
    optimize: tuple[str, ...] = ()


def sweep(
    documents: Documents, state: Assignment, counts: Counts, law: Law, table: PathTable | None,
    moves: Moves, rows: Int[np.ndarray, " moving"], rng: np.random.Generator,
) -> Law:  # fmt: skip
    """Move these documents, the orders and the priors once, in place; return the law as it is then."""
    if table is None:
        _conditional_sweep(documents, state, counts, law, rows, rng)
    else:
        _sweep(documents, state, counts, law, table, rows, moves.greedy, rng)
    if moves.sort:
        sort_orders(counts, law)
    else:
        shuffle_orders(counts, law, rng)
    return step_priors(documents, state, counts, law, moves.optimize, rng)


@kernel
def _sweep(
    documents: Documents, state: Assignment, counts: Counts, law: Law, table: PathTable,
    rows: Int[np.ndarray, " moving"], greedy: bool, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Make the blocked move and then the conditional steps, for each document."""
    for d in rows:
        score = remove_words(counts, law, documents, state, d)
        add_path(counts, law, state, d, -1)
        block_move(documents, state, counts, law, table, d, score, greedy, rng)
        _conditional_steps(documents, state, counts, law, d, rng)


@kernel
def _conditional_sweep(
    documents: Documents, state: Assignment, counts: Counts, law: Law,
    rows: Int[np.ndarray, " moving"], rng: np.random.Generator,
) -> None:  # fmt: skip
    """Make the conditional steps alone, as in the paper but for its errata."""
    for d in rows:
        remove_words(counts, law, documents, state, d)
        add_path(counts, law, state, d, -1)
        _conditional_steps(documents, state, counts, law, d, rng)


@kernel
def _conditional_steps(
    documents: Documents, state: Assignment, counts: Counts, law: Law, d: int,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Draw path given levels, levels given path, and tau, of a document out of the counts; put it in."""
    draw_path(documents, state, counts, law, d, rng)
    add_path(counts, law, state, d, 1)
    add_words(counts, law, documents, state, d)
    depth = _step_levels(documents, state, counts, law, d, rng)
    n = documents.start[d + 1] - documents.start[d]
    state.tau[d] = draw_tau(state.tau[d], law.a, law.b, n, depth, state.length[d], rng)


@kernel
def _step_levels(
    documents: Documents, state: Assignment, counts: Counts, law: Law, d: int,
    rng: np.random.Generator,
) -> int:  # fmt: skip
    """Draw each word's level given all others (equation L); return the sum of the levels."""
    length, size = state.length[d], law.eta * counts.words.shape[0]
    weight = np.empty(length)
    depth = 0
    for t in range(documents.start[d], documents.start[d + 1]):
        word, node = documents.word[t], state.path[d, length - 1 - state.level[t]]
        counts.words[word, node] -= 1
        counts.total[node] -= 1
        stay, total = 1.0, 0.0
        for level in range(length):
            node = state.path[d, length - 1 - level]
            mass = (law.eta + counts.words[word, node]) / (size + counts.total[node])
            weight[level] = stay * mass
            total += weight[level]
            stay *= 1.0 - state.tau[d]
        left, chosen = rng.random() * total, 0
        for level in range(length):
            chosen = level
            left -= weight[level]
            if left < 0.0:
                break
        node = state.path[d, length - 1 - chosen]
        counts.words[word, node] += 1
        counts.total[node] += 1
        state.level[t] = chosen
        depth += chosen
    return depth


@kernel
def place(
    documents: Documents, state: Assignment, counts: Counts, law: Law, table: PathTable,
    rows: Int[np.ndarray, " placed"], keep: bool, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Give documents that are not counted a first path, levels and tau, one after another.

    With `keep` each is counted before the next is placed; without, all are placed by the same counts.
    """
    for d in rows:
        n_runs = documents.run_start[d + 1] - documents.run_start[d]
        topic = np.empty((len(law.depth), n_runs))
        times = np.empty(n_runs, np.int64)
        fill_topics(documents, counts, law, d, topic, times)
        _, _, depth = propose(documents, state, counts, law, table, d, topic, times, rng)
        n = documents.start[d + 1] - documents.start[d]
        length = state.length[d]
        state.tau[d] = draw_tau(state.tau[d], law.a, law.b, n, int(depth), length, rng)
        if keep:
            add_path(counts, law, state, d, 1)
            add_words(counts, law, documents, state, d)


def step_priors(
    documents: Documents, state: Assignment, counts: Counts, law: Law, names: tuple[str, ...],
    rng: np.random.Generator,
) -> Law:  # fmt: skip
    """Offer each of these priors a step of a random walk on its logarithm; its own prior is Exp(1)."""
    for name in names:
        old = float(getattr(law, name))
        new = old * math.exp(_STEP * rng.standard_normal())
        offered = _with_prior(law, name, new, counts.words.shape[0])
        # the steps are symmetric on the logarithm, so the density there has the factor `new`
        ratio = log_joint(documents, state, counts, offered) + math.log(new) - new
        ratio -= log_joint(documents, state, counts, law) + math.log(old) - old
        if math.log(1.0 - rng.random()) < ratio:
            law = offered
            for node in range(len(law.n_atoms)):
                refresh_row(counts, law, node)
    return law


def _with_prior(law: Law, name: str, value: float, n_words: int) -> Law:
    """Return the law with another alpha, beta or eta, and the tables that belong to it."""
    if name == "alpha":
        return law._replace(alpha=value)
    if name == "beta":
        return law._replace(beta=value)
    return law._replace(
        eta=value,
        log_word=np.log(value + np.arange(len(law.log_word))),
        log_gamma=gammaln(n_words * value + np.arange(len(law.log_gamma))),
    )

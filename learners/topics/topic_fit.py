"""Learning a concept graph: starts, burn-in, the start of highest density, and the samples kept."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Int

from learners.topics.concept_slots import PathTable, Slots
from learners.topics.flat_start import flat_topics
from learners.topics.held_out_words import Sample, sample_of
from learners.topics.topic_chain import Moves, place, sweep
from learners.topics.topic_counts import (
    Assignment,
    Counts,
    Documents,
    Law,
    count,
    log_joint,
)

__all__ = ["Chain", "Schedule", "Start", "go_on", "learn"]

Start: TypeAlias = Literal["flat", "labels", "root"]

LABEL_SWEEPS = 5  # over labelled documents, level by level, before the others come


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long a chain runs, and what it does.

    Parameters
    ----------
    n_iter, burn_in
        Sweeps in all, and those of them that every restart makes; blocked moves are greedy in the first
        half of these.
    n_samples, thin
        Samples kept from the last sweeps, one of so many.
    n_restarts
        Starts, of which the one of highest joint density is continued.
    moves
        What a sweep does.
    start
        Where documents without a label begin.
    """

    n_iter: int
    burn_in: int
    n_samples: int
    thin: int
    n_restarts: int
    moves: Moves
    start: Start


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The state of a chain, with the samples that were kept and the trace of its log joint density."""

    documents: Documents
    state: Assignment
    counts: Counts
    law: Law
    samples: tuple[Sample, ...]
    trace: tuple[float, ...]


def learn(
    documents: Documents, end: Int[np.ndarray, " documents"], law: Law, slots: Slots,
    table: PathTable, n_words: int, schedule: Schedule, rng: np.random.Generator,
) -> Chain:  # fmt: skip
    """Learn from documents, of which some must end at a given node."""
    best: Chain | None = None
    highest = -np.inf
    for _ in range(schedule.n_restarts):
        state, counts = _started(documents, end, law, slots, table, n_words, schedule.start, rng)
        chain = Chain(documents, state, counts, law, (), ())
        chain = _swept(chain, table, schedule, np.arange(len(end)), schedule.burn_in, rng)
        # not from the trace, which is empty without burn-in
        density = log_joint(documents, chain.state, chain.counts, chain.law)
        if best is None or density > highest:
            best, highest = chain, density
    if best is None:
        raise ValueError(f"n_restarts must be >= 1, got n_restarts={schedule.n_restarts}")
    return _kept(best, table, schedule, np.arange(len(end)), rng)


def go_on(
    chain: Chain, documents: Documents, end: Int[np.ndarray, " documents"], law: Law,
    table: PathTable, schedule: Schedule, *, freeze: bool, rng: np.random.Generator,
) -> Chain:  # fmt: skip
    """Add documents that follow those of a chain, whose paths stay as they are with `freeze`.

    `documents` and `end` are of all documents, the chain's first.
    """
    old, n = len(chain.state.length), len(end)
    state = _empty_state(documents, end, law, rng)
    state.path[:old], state.length[:old] = chain.state.path, chain.state.length
    state.tau[:old], state.level[: len(chain.state.level)] = chain.state.tau, chain.state.level
    is_old: Bool[np.ndarray, " documents"] = np.arange(n) < old
    counts = count(documents, state, law, chain.counts.order, chain.counts.words.shape[0], is_old)
    place(documents, state, counts, law, table, np.arange(old, n), True, rng)
    grown = Chain(documents, state, counts, law, (), ())
    moving = np.arange(old, n) if freeze else np.arange(n)
    grown = _swept(grown, table, schedule, moving, schedule.burn_in, rng)
    return _kept(grown, table, schedule, moving, rng)


def _started(
    documents: Documents, end: Int[np.ndarray, " documents"], law: Law, slots: Slots,
    table: PathTable, n_words: int, start: Start, rng: np.random.Generator,
) -> tuple[Assignment, Counts]:  # fmt: skip
    """Give every document a first path: labelled ones from the general to the specific, then the others."""
    state = _empty_state(documents, end, law, rng)
    m = max(int(law.n_atoms.max()), 1)
    order = np.tile(np.arange(m), (slots.n_nodes, 1))
    none = np.zeros(len(end), dtype=bool)
    counts = count(documents, state, law, order, n_words, none)
    if start == "flat":
        counts.words[:] = flat_topics(documents, slots, table, n_words, law.eta, rng)
        counts.total[:] = counts.words.sum(axis=0)
        place(documents, state, counts, law, table, np.arange(len(end)), False, rng)
        return state, count(documents, state, law, order, n_words, ~none)
    labelled = np.flatnonzero(end >= 0)
    depth = slots.depth[end[labelled]]
    for level in np.unique(depth):
        place(documents, state, counts, law, table, labelled[depth == level], True, rng)
        for _ in range(LABEL_SWEEPS):
            now = labelled[depth <= level]
            sweep(documents, state, counts, law, table, Moves(greedy=True), now, rng)
    rest = np.flatnonzero(end < 0)
    if start == "labels":
        place(documents, state, counts, law, table, rest, True, rng)
        return state, counts
    state.path[rest, 0], state.length[rest] = 0, 1
    return state, count(documents, state, law, counts.order, n_words, ~none)


def _empty_state(
    documents: Documents, end: Int[np.ndarray, " documents"], law: Law, rng: np.random.Generator
) -> Assignment:
    """Return documents without a path, each with a tau from the prior."""
    n, n_levels = len(end), int(law.depth[-1]) + 1
    tau = np.clip(rng.beta(law.a, law.b, n), 0.01, 0.99)  # a start; every sweep draws it anew
    return Assignment(
        np.full((n, n_levels), -1, np.int32), np.zeros(n, np.int64),
        np.zeros(len(documents.word), np.int64), tau, end,
    )  # fmt: skip


def _swept(
    chain: Chain, table: PathTable, schedule: Schedule, rows: Int[np.ndarray, " moving"],
    n: int, rng: np.random.Generator,
) -> Chain:  # fmt: skip
    """Return the chain after burn-in of n sweeps, greedy in their first half."""
    law, trace = chain.law, list(chain.trace)
    for i in range(n):
        moves = replace(schedule.moves, greedy=i < n // 2)
        law = _one(chain, law, table, moves, rows, rng)
        trace.append(log_joint(chain.documents, chain.state, chain.counts, law))
    return replace(chain, law=law, trace=tuple(trace))


def _kept(
    chain: Chain, table: PathTable, schedule: Schedule, rows: Int[np.ndarray, " moving"],
    rng: np.random.Generator,
) -> Chain:  # fmt: skip
    """Return the chain after the sweeps that follow burn-in, with samples of the last."""
    law, trace, samples = chain.law, list(chain.trace), []
    n = schedule.n_iter - schedule.burn_in
    if n < 1:
        raise ValueError(
            f"n_iter must be > burn_in, got n_iter={schedule.n_iter}, burn_in={schedule.burn_in}"
        )
    for left in reversed(range(n)):
        law = _one(chain, law, table, schedule.moves, rows, rng)
        trace.append(log_joint(chain.documents, chain.state, chain.counts, law))
        if left % schedule.thin == 0 and left // schedule.thin < schedule.n_samples:
            samples.append(sample_of(chain.counts, law))
    return replace(chain, law=law, trace=tuple(trace), samples=tuple(samples))


def _one(
    chain: Chain, law: Law, table: PathTable, moves: Moves, rows: Int[np.ndarray, " moving"],
    rng: np.random.Generator,
) -> Law:  # fmt: skip
    """Make one sweep over these documents, in place."""
    paths = table if moves.blocked else None
    return sweep(chain.documents, chain.state, chain.counts, law, paths, moves, rows, rng)

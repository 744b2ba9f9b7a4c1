"""EBCC: each class has kinds of tasks on which workers err together; by variational EM.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 4, np.repeat(range(4), 3), list("aabbbbaaabbb"))
>>> labels.classes[ebcc(labels, rng=np.random.default_rng(0)).label]
array(['a', 'b', 'a', 'b'], dtype='<U1')

Dawid–Skene assumes that workers' labels are independent given the class. If some tasks of a class mislead
everybody, labels are correlated within it. Here a class is a mixture of subtypes, each with its own
confusion row for every worker, and labels are independent given the subtype. The posterior of a class is
the sum over its subtypes. Only :mod:`quality.aggregation.passes.subtypes` reads the labels.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16, Int32, Int64
from scipy.special import digamma, gammaln

from quality.aggregation.consensus import Result, check_cells, check_em, check_posterior, decide
from quality.aggregation.em import Share, Stop
from quality.aggregation.passes import (
    LANES,
    class_posterior,
    deal,
    dirichlet_moved,
    dirichlet_weights,
    find_rows,
    in_lines,
    narrow,
    subtype_pass,
    subtype_weights,
    whole_lanes,
)
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, Sums, tree_total
from quality.parallel import Progress, chunk_starts, counter, shared_out

__all__ = ["Ebcc", "ebcc"]

CLASS_PRIOR, SUBTYPES_PRIOR = 1.0, 0.1  # the paper's: of each class, and of all subtypes of one
DRAWN = 2**14  # random numbers in one draw, which a cache holds
ROOM = 2**9, 2**12  # limits on the tasks whose beliefs are in memory: about two for each row


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ebcc(Result):
    """Result of :func:`ebcc`.

    Parameters
    ----------
    posterior
        P(truth | labels); the prior where a task has no labels.
    label, tied
        As in :class:`~quality.Consensus`.
    subtype
        Share of the tasks of each subtype of each class, as ``subtype[truth, subtype]``; adds up to 1.
    evidence
        Lower bound on the log-probability of the labels, in nats, for the start that was kept.
    n_iter, converged
        Iterations from that start, and whether the log-likelihood had settled by then.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    subtype: Float64[np.ndarray, "classes subtypes"]
    evidence: float
    n_iter: int
    converged: bool


@check_arguments
def ebcc(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    n_subtypes: int = 10,
    n_starts: int = 5,
    right_prior: float = 4.0,
    wrong_prior: float = 1.0,
    groups: Int[np.ndarray, " workers"] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    rng: np.random.Generator,
) -> Ebcc:
    """Estimate the truth where workers' errors are correlated within a class.

    Variational EM starts from the soft majority vote, distributed at random over the subtypes of each
    class. Of several starts the one with the highest evidence is kept.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, groups, threads, progress
        As for :func:`~quality.dawid_skene`, errors included.
    tol
        Stop when the log-likelihood per label changes by no more than this (nats), at least 0.
    n_subtypes
        Maximum number of subtypes of each class, at least 1; subtypes without support in the labels stay
        empty.
    n_starts
        Random starts, at least 1.
    right_prior, wrong_prior
        Pseudo-counts of right labels, and of labels of each wrong class, of a worker in each subtype, above
        0.
    rng
        Generator of the starts.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** One subtype is Dawid–Skene with Dirichlet priors. A subtype with less than a billionth
    of a task stays empty. The same generator gives the same bytes, on any number of threads.

    **Limits.** The draws belong to tasks, and to the classes of each task, in the order of their codes. So
    renaming tasks or classes may lead to another of several optima.

    **Cost.** That of :func:`~quality.dawid_skene` with ``classes * subtypes`` truths, in time and in
    memory, and the digamma function of every number of its table, which has no rows for labels that a
    worker never gives. After some dozens of iterations most subtypes are empty and cost nothing.

    References
    ----------
    .. [1] Li, Rubinstein, Cohn, "Exploiting worker correlation for label aggregation in
       crowdsourcing", ICML 2019.

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> labels.classes[ebcc(labels, rng=np.random.default_rng(0)).label]
    array(['a', 'b', 'a', 'b'], dtype='<U1')
    """
    check_em(max_iter, tol, threads)
    for name, count in (("n_subtypes", n_subtypes), ("n_starts", n_starts)):
        if not count >= 1:
            raise ValueError(f"{name} must be >= 1, got {name}={count}")
    for name, value in (("right_prior", right_prior), ("wrong_prior", wrong_prior)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be > 0 and finite, got {name}={value}")
    labels = labels.merge_workers(groups)
    check_cells(labels.n_workers, labels.n_classes, labels.n_classes * n_subtypes)
    check_posterior(labels)
    model = _Model.of(labels, n_subtypes, right_prior, wrong_prior)
    room = _Room.of(model)

    def fitted(number: int) -> _Optimum:
        """Fit from one random start."""
        report = counter(progress, "EBCC", n_starts * max_iter, before=number * max_iter)
        state, stop = _dealt(labels, model, room, rng), Stop()
        while not stop.converged and stop.n_iter < max_iter:
            state, stop = _further(model, room, state, stop, tol, share)
            report(stop.n_iter)
        return _Optimum.of(model, room, state, stop, share)

    with shared_out(threads, len(model.chunk_start) - 1) as share:
        best = max(map(fitted, range(n_starts)), key=attrgetter("evidence"))
    label, tied = decide(best.posterior)
    total = best.mass.sum()
    subtype = best.mass / total if total else np.full(best.mass.shape, 1.0 / best.mass.size)
    return Ebcc(
        best.posterior, label, tied, subtype, best.evidence, best.stop.n_iter, best.stop.converged
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The labels in the form that the passes read, and the Dirichlet priors.

    `place` is the start of each label's row in a part of a table, `answer` the answer of each row, and
    `start` the first row of each worker (:mod:`quality.aggregation.passes.subtypes`). `chunk_start` is the
    first task of each chunk. `right` and `wrong` are pseudo-counts, and `prior` is for
    :func:`subtype_weights`.
    """

    task_start: Int64[np.ndarray, " starts"]
    place: Int32[np.ndarray, " labels"]
    answer: Int64[np.ndarray, " rows"]
    start: Int64[np.ndarray, " bounds"]
    chunk_start: Int64[np.ndarray, " cuts"]
    n_answers: int
    right: float
    wrong: float
    prior: tuple[int, int, float, float]

    @classmethod
    def of(cls, labels: CrowdLabels, n_subtypes: int, right: float, wrong: float) -> "_Model":
        n_classes, n_workers = labels.n_classes, labels.n_workers
        place = np.empty(labels.n_labels, dtype=np.int32)
        answer = np.empty(n_workers * n_classes, dtype=np.int64)
        start = np.empty(n_workers + 1, dtype=np.int64)
        n_rows = find_rows(labels.worker, labels.label, place, answer, start)
        # a chunk has enough labels to be worth its own counts
        chunk_start = chunk_starts(labels.task_start, 4 * n_rows * n_classes * n_subtypes)
        return cls(
            labels.task_start, place, answer[:n_rows], start, chunk_start, n_classes, right, wrong,
            (n_classes, n_subtypes, CLASS_PRIOR, SUBTYPES_PRIOR),
        )  # fmt: skip

    @property
    def n_subtypes(self) -> int:
        """Number of subtypes of all classes."""
        return self.prior[0] * self.prior[1]

    @property
    def rows(self) -> tuple[Int64[np.ndarray, " rows"], Int64[np.ndarray, " bounds"]]:
        """The answer of each row, and the first row of each worker."""
        return self.answer, self.start

    def by_class(
        self, truth: Int64[np.ndarray, " truths"], mass: Float64[np.ndarray, " truths"]
    ) -> Float64[np.ndarray, "classes subtypes"]:
        """Return numbers of the subtypes in their places; 0 for dropped subtypes."""
        whole = np.zeros(whole_lanes(self.n_subtypes))
        whole[truth] = mass
        placed: np.ndarray = whole[: self.n_subtypes].reshape(self.prior[:2])
        return placed


class _Room(NamedTuple):
    """Memory that every start uses again: a table, and the output of each chunk's pass."""

    table: Float64[np.ndarray, "parts cells"]
    counts: Float64[np.ndarray, "chunks parts cells"]
    mass: Float64[np.ndarray, "chunks truths"]
    belief: Float64[np.ndarray, "chunks parts room"]
    share: Float64[np.ndarray, "chunks tasks"]

    @classmethod
    def of(cls, model: _Model) -> "_Room":
        n_truths, n_chunks = whole_lanes(model.n_subtypes), len(model.chunk_start) - 1
        n_tasks = min(max(2 * len(model.answer), ROOM[0]), ROOM[1])
        shape = n_truths // LANES, len(model.answer) * LANES
        return cls(
            in_lines(*shape), in_lines(n_chunks, *shape), in_lines(n_chunks, n_truths),
            in_lines(n_chunks, shape[0], n_tasks * LANES), np.empty((n_chunks, n_tasks)),
        )  # fmt: skip


class _State(NamedTuple):
    """The state of one start.

    `truth` lists the remaining subtypes, as class * subtypes + subtype, in whole lanes: past the last class
    are some that never have a task. `pseudo` are the pseudo-counts that expected counts are added to.
    """

    truth: Int64[np.ndarray, " truths"]
    pseudo: Float64[np.ndarray, "parts answers"]
    counts: Float64[np.ndarray, "parts cells"]
    mass: Float64[np.ndarray, " truths"]

    def narrowed(self, n_parts: int) -> "_State":
        """Return the state cut to its first parts."""
        n_truths = n_parts * LANES
        return _State(
            self.truth[:n_truths],
            self.pseudo[:n_parts],
            self.counts[:n_parts],
            self.mass[:n_truths],
        )


def _dealt(labels: CrowdLabels, model: _Model, room: _Room, rng: np.random.Generator) -> _State:
    """Return expected counts and mass of the soft majority vote, distributed at random over subtypes."""
    truth = np.arange(room.mass.shape[1])
    same = np.arange(model.n_answers)[:, np.newaxis] == truth // model.prior[1]
    pseudo = in_lines(len(truth) // LANES, model.n_answers * LANES)
    by_part = np.where(same, model.right, model.wrong).reshape(model.n_answers, -1, LANES)
    pseudo.reshape(-1, model.n_answers, LANES)[:] = by_part.transpose(1, 0, 2)
    state = _State(truth, pseudo, room.counts[0], room.mass[0])
    state.counts.fill(0.0)
    state.mass.fill(0.0)
    step = max(1, min(DRAWN // model.n_subtypes, room.share.shape[1]))
    for first in range(0, labels.n_tasks, step):
        last = min(first + step, labels.n_tasks)
        n_labelled = int(np.count_nonzero(np.diff(labels.task_start[first : last + 1])))
        # divided by their sum: Dirichlet
        drawn = rng.standard_exponential((n_labelled, *model.prior[:2]))
        deal(
            first, last, labels.task_start, model.place, labels.label, drawn, state.counts,
            state.mass, room.belief[0], room.share[0],
        )  # fmt: skip
    return state


def _further(
    model: _Model, room: _Room, state: _State, stop: Stop, tol: float, share: Share
) -> tuple[_State, Stop]:
    """Return the state after one more iteration."""
    prior, n_parts = _weigh(model, room, state), len(state.counts)

    def sums_of(chunk: int) -> Sums:
        counts, mass = room.counts[chunk, :n_parts], room.mass[chunk, : len(prior)]
        found = subtype_pass(
            *model.chunk_start[chunk : chunk + 2], model.task_start, model.place, prior, room.table,
            counts, mass, room.belief[chunk], room.share[chunk], np.empty(len(prior)),
        )  # fmt: skip
        return counts, mass, np.array([found])

    counts, mass, found = tree_total(share(sums_of))
    state = _State(state.truth, state.pseudo, counts, mass)
    left = narrow(mass, state.truth, counts, state.pseudo, n_parts)
    if left < n_parts:
        state = state.narrowed(left)
    return state, stop.after(float(found[0]), tol, len(model.place))


def _weigh(model: _Model, room: _Room, state: _State) -> Float64[np.ndarray, " truths"]:
    """Write the table for the expected counts; return the prior, equations 7 and 8 of the paper."""
    dirichlet_weights(state.counts, *model.rows, state.pseudo, len(state.counts), room.table)
    prior: np.ndarray = subtype_weights(state.mass, state.truth, *model.prior)
    return prior


@dataclass(frozen=True, slots=True, eq=False)
class _Optimum:
    """The result of one random start; `mass` is that of each subtype of each class."""

    evidence: float
    stop: Stop
    posterior: Float64[np.ndarray, "tasks classes"]
    mass: Float64[np.ndarray, "classes subtypes"]

    @classmethod
    def of(cls, model: _Model, room: _Room, state: _State, stop: Stop, share: Share) -> "_Optimum":
        prior = _weigh(model, room, state)
        mass = model.by_class(state.truth, state.mass)
        moved = _divergence(mass.sum(axis=1), CLASS_PRIOR)
        moved += _divergence(mass, SUBTYPES_PRIOR / model.prior[1])
        moved += dirichlet_moved(
            state.counts, *model.rows, state.pseudo, len(state.counts), room.table
        )
        posterior = np.empty((len(model.task_start) - 1, model.n_answers))

        def posterior_of(chunk: int) -> Sums:
            found = class_posterior(
                *model.chunk_start[chunk : chunk + 2], model.prior[1], model.task_start, model.place,
                state.truth, prior, room.table, room.belief[chunk], room.share[chunk], posterior,
            )  # fmt: skip
            return (np.array([found]),)

        (found,) = tree_total(share(posterior_of))
        return cls(float(found[0]) - moved, stop, posterior, mass)


def _divergence(counts: np.ndarray, prior: float) -> float:
    """Return the sum of divergences of Dirichlet posteriors, on the last axis, from their prior."""
    after, size = counts + prior, counts.shape[-1]
    expected_log = digamma(after) - digamma(after.sum(axis=-1, keepdims=True))
    moved = (counts * expected_log - gammaln(after) + gammaln(prior)).sum(axis=-1)
    total = gammaln(after.sum(axis=-1)) - gammaln(size * prior)
    return float((moved + total).sum())

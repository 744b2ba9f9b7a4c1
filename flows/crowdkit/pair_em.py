"""EM over the (worker, label) pairs that occur, with crowd-kit's floor, loss and stopping rule.

A table has a row for each pair and a column for each truth, so that one sparse matrix, pairs by
tasks, is both steps: its product with the posterior counts, its transpose with the logarithm of the
table is what the labels of each task say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64, Int
from scipy.sparse import csr_array

from flows.crowdkit.frames import FLOOR, Answers
from quality import majority_vote

__all__ = ["PairFit", "Pairs", "Table", "fit_pairs", "pairs_of"]

Table = Float64[np.ndarray, "pairs truths"]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The (worker, label) pairs in order of appearance, and which tasks they were given to."""

    code: Int[np.ndarray, " pairs"]
    worker: Int[np.ndarray, " pairs"]
    label: Int[np.ndarray, " pairs"]
    n_workers: int
    given: csr_array  # pairs by tasks
    taken: csr_array  # tasks by pairs

    def normalise(self, counts: Table) -> Table:
        """P(label | truth) among the labels each worker gave."""
        counts = np.maximum(counts, FLOOR)
        table: np.ndarray = counts / self._by_worker(counts)[self.worker]
        return table

    def one_coin(self, counts: Table) -> Table:
        """P(label | truth): the worker's skill where they are the same."""
        n_classes = counts.shape[1]
        right = self.skill(counts)[self.worker, None]
        wrong = (1.0 - right) / max(n_classes - 1, 1)
        table = np.where(self.label[:, None] == np.arange(n_classes), right, wrong)
        return np.clip(table, FLOOR, 1.0 - FLOOR)

    def skill(self, counts: Table) -> Float64[np.ndarray, " workers"]:
        """Expected share of each worker's labels that are right."""
        right = counts[np.arange(len(self.label)), self.label]
        skill: np.ndarray = np.bincount(self.worker, right) / self._by_worker(counts).sum(axis=1)
        return skill

    def _by_worker(self, counts: Table) -> Float64[np.ndarray, "workers truths"]:
        return np.column_stack([np.bincount(self.worker, column) for column in counts.T])


def pairs_of(answers: Answers, pair: Int[np.ndarray, " rows"]) -> Pairs:
    """Pairs of the answers, and of rows beyond them that were given to no task of these."""
    n_rows = len(answers.task)
    place, code = pd.factorize(pair)
    worker, label = np.divmod(code, len(answers.classes))
    shape = (len(code), len(answers.tasks))
    given = csr_array((np.ones(n_rows), (place[:n_rows], answers.task)), shape=shape)
    return Pairs(code, worker, label, len(answers.workers), given, csr_array(given.T))


@dataclass(frozen=True, slots=True, eq=False)
class PairFit:
    """Where EM stopped: `counts` expected under `posterior`, `table` made of them."""

    posterior: Float64[np.ndarray, "tasks classes"]
    counts: Table
    table: Table
    losses: list[float]


def fit_pairs(
    pairs: Pairs,
    answers: Answers,
    gold: Int[np.ndarray, " tasks"],
    m_step: Callable[[Table], Table],
    *,
    table: Table | None = None,
    n_iter: int,
    tol: float,
) -> PairFit:
    """EM from the soft majority vote, or from a table, until the loss gains less than `tol`."""
    posterior = _clamp(majority_vote(answers.table).posterior.copy(), gold)
    table = m_step(pairs.given @ posterior) if table is None else table
    losses, gain = [-np.inf], np.inf
    while len(losses) <= n_iter and gain >= tol:
        log_prior = np.log(np.maximum(posterior.mean(axis=0), FLOOR))
        log_belief = pairs.taken @ np.log(table) + log_prior
        belief = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
        posterior = _clamp(belief / belief.sum(axis=1, keepdims=True), gold)
        counts = pairs.given @ posterior
        table = m_step(counts)
        losses.append(_loss(posterior, counts, table))
        gain = losses[-1] - losses[-2]
    return PairFit(posterior, counts, table, losses[1:])


def _loss(posterior: Float64[np.ndarray, "tasks classes"], counts: Table, table: Table) -> float:
    """crowd-kit's bound per label; its prior counts once for each label, not for each task."""
    log_prior = np.log(np.maximum(posterior.mean(axis=0), FLOOR))
    share = np.maximum(posterior, FLOOR)
    bound = np.sum(counts * (np.log(table) + log_prior)) - np.sum(share * np.log(share))
    return float(bound / counts.sum())


def _clamp(
    posterior: Float64[np.ndarray, "tasks classes"], gold: Int[np.ndarray, " tasks"]
) -> Float64[np.ndarray, "tasks classes"]:
    """The same array, certain of gold."""
    known = np.flatnonzero(gold >= 0)
    posterior[known] = 0.0
    posterior[known, gold[known]] = 1.0
    return posterior

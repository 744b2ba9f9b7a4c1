"""EM over the (worker, label) pairs that occur, with crowd-kit's floor, loss and stopping rule.

A table has a row for each pair and a column for each truth. One sparse matrix, pairs by tasks, then
makes both steps: its product with the posterior gives the counts, and the product of its transpose with
the logarithm of the table gives the log-likelihood of each task's labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64, Int
from scipy.sparse import csr_array

from flows.crowdkit.frames import FLOOR, CodedFrame
from quality import majority_vote

__all__ = ["PairFit", "Pairs", "Table", "fit_pairs", "pairs_of"]

Table = Float64[np.ndarray, "pairs truths"]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The (worker, label) pairs in order of appearance, and the tasks that they were given to."""

    code: Int[np.ndarray, " pairs"]
    worker: Int[np.ndarray, " pairs"]
    label: Int[np.ndarray, " pairs"]
    n_workers: int
    given: csr_array  # pairs by tasks
    taken: csr_array  # tasks by pairs

    def normalise(self, counts: Table) -> Table:
        """Return P(label | truth) among the labels that each worker gave."""
        counts = np.maximum(counts, FLOOR)
        table: np.ndarray = counts / self._by_worker(counts)[self.worker]
        return table

    def one_coin(self, counts: Table) -> Table:
        """Return P(label | truth): the worker's skill where label and truth are the same."""
        n_classes = counts.shape[1]
        right = self.skill(counts)[self.worker, None]
        wrong = (1.0 - right) / max(n_classes - 1, 1)
        table = np.where(self.label[:, None] == np.arange(n_classes), right, wrong)
        return np.clip(table, FLOOR, 1.0 - FLOOR)

    def skill(self, counts: Table) -> Float64[np.ndarray, " workers"]:
        """Return the expected share of each worker's labels that are right."""
        right = counts[np.arange(len(self.label)), self.label]
        skill: np.ndarray = np.bincount(self.worker, right) / self._by_worker(counts).sum(axis=1)
        return skill

    def _by_worker(self, counts: Table) -> Float64[np.ndarray, "workers truths"]:
        return np.column_stack([np.bincount(self.worker, column) for column in counts.T])


def pairs_of(frame: CodedFrame, pair: Int[np.ndarray, " rows"]) -> Pairs:
    """Return the pairs of the labels, and the further pairs in `pair`, which belong to no task."""
    n_rows = len(frame.task)
    place, code = pd.factorize(pair)
    worker, label = np.divmod(code, len(frame.classes))
    shape = (len(code), len(frame.tasks))
    given = csr_array((np.ones(n_rows), (place[:n_rows], frame.task)), shape=shape)
    return Pairs(code, worker, label, len(frame.workers), given, csr_array(given.T))


@dataclass(frozen=True, slots=True, eq=False)
class PairFit:
    """The result of EM: `counts` are expected under `posterior`, `table` is made of them."""

    posterior: Float64[np.ndarray, "tasks classes"]
    counts: Table
    table: Table
    losses: list[float]


def fit_pairs(
    pairs: Pairs,
    frame: CodedFrame,
    gold: Int[np.ndarray, " tasks"],
    m_step: Callable[[Table], Table],
    *,
    table: Table | None = None,
    n_iter: int,
    tol: float,
) -> PairFit:
    """Run EM from the soft majority vote, or from a table, until the loss gains less than `tol`."""
    posterior = _clamp(majority_vote(frame.table).posterior.copy(), gold)
    counts = pairs.given @ posterior
    table = m_step(counts) if table is None else table
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
    """Return crowd-kit's bound per label; its prior counts once for each label, not for each task."""
    log_prior = np.log(np.maximum(posterior.mean(axis=0), FLOOR))
    share = np.maximum(posterior, FLOOR)
    bound = np.sum(counts * (np.log(table) + log_prior)) - np.sum(share * np.log(share))
    return float(bound / counts.sum())


def _clamp(
    posterior: Float64[np.ndarray, "tasks classes"], gold: Int[np.ndarray, " tasks"]
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the same array, changed to be certain of gold."""
    known = np.flatnonzero(gold >= 0)
    posterior[known] = 0.0
    posterior[known, gold[known]] = 1.0
    return posterior

"""Dawid–Skene as crowd-kit defines it: ``DawidSkene`` and ``OneCoinDawidSkene``.

It differs from :func:`quality.dawid_skene`: the floor under counts, the absence of smoothing and the
loss that decides when to stop are crowd-kit's, and stand in :mod:`flows.crowdkit.pair_em`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64, Int

from flows.crowdkit.frames import (
    FLOOR,
    CodedFrame,
    SharesEstimator,
    by_task,
    check_iterations,
    has_no_rows,
    read_frame,
    read_gold,
    shares,
)
from flows.crowdkit.pair_em import PairFit, Pairs, Table, fit_pairs, pairs_of
from quality.aggregation import decide

__all__ = ["DawidSkene", "OneCoinDawidSkene"]


class DawidSkene(SharesEstimator):
    """Estimate the consensus and every worker's confusion together, by EM from the majority vote.

    Parameters
    ----------
    n_iter
        Maximal number of iterations; with 0 the result is the majority vote's, and what follows of it.
    tol
        Stop when an iteration adds less than this to ``loss_history_``.
    initial_error_strategy
        How `initial_error` is used: ``"assign"``, as the confusion that the first iteration starts
        from; ``"addition"``, as counts of earlier labels, added to those of `data`; None, not at all.

    Attributes
    ----------
    labels_ : Series
        Likeliest label of each task, tasks in order of appearance; among equals, the label that
        sorts first.
    probas_ : DataFrame
        P(truth | labels) of each task.
    priors_ : Series
        P(truth): the mean of ``probas_``.
    errors_ : DataFrame
        P(label | truth) for each worker and each label that she gave (rows, in order of appearance),
        and for each truth (columns).
    loss_history_ : list
        crowd-kit's bound on the log-likelihood per label, after each iteration.

    Notes
    -----
    **Guarantees.** Earlier counts given by ``"addition"`` count in every iteration;
    crowd-kit uses them in the first only. The shares of a task sum to one; crowd-kit raises shares
    below 1e-10 to 1e-10. A true label that nobody gave raises ValueError; crowd-kit makes it a class.
    The result has the same bytes on any number of cores.

    References
    ----------
    .. [1] Dawid, Skene, "Maximum likelihood estimation of observer error-rates using the EM
       algorithm", Applied Statistics 28 (1979).

    Examples
    --------
    >>> frame = pd.DataFrame(
    ...     {"task": list("aaabbbcccddd"), "worker": [1, 2, 3] * 4, "label": list("xxyyyyxxyyyy")}
    ... )
    >>> DawidSkene().fit_predict(frame).to_dict()
    {'a': 'x', 'b': 'y', 'c': 'x', 'd': 'y'}
    """

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-5,
        initial_error_strategy: Literal["assign", "addition"] | None = None,
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.initial_error_strategy = initial_error_strategy

    def fit(
        self,
        data: pd.DataFrame,
        true_labels: pd.Series | None = None,
        initial_error: pd.DataFrame | None = None,
    ) -> DawidSkene:
        """Run EM on the labels in `data`.

        `true_labels` are indexed by task; the posterior of those tasks is certain. `initial_error` is
        indexed by (worker, label) and has a column for each true label.
        """
        check_iterations(self.n_iter, self.tol, least=0)
        if has_no_rows(data):
            _set_nothing(self)
            return self
        frame = read_frame(data)
        gold = _known(frame, true_labels)
        earlier = self._read(frame, initial_error)
        pair, added, start = _pair(frame), np.zeros(()), None
        if earlier and self.initial_error_strategy == "addition":
            pair = np.concatenate([pair, earlier.pair])
        pairs = pairs_of(frame, pair)
        if earlier and self.initial_error_strategy == "addition":
            added = earlier.counts_of(pairs.code)
        elif earlier:
            start = earlier.shares_of(pairs.code, pair)

        def m_step(counts: Table) -> Table:
            return pairs.normalise(counts + added)

        fit = fit_pairs(pairs, frame, gold, m_step, table=start, n_iter=self.n_iter, tol=self.tol)
        _set_results(self, frame, pairs, fit)
        return self

    def _read(self, frame: CodedFrame, initial_error: pd.DataFrame | None) -> InitialError | None:
        """Return `initial_error` aligned with the labels, or None where it is not used."""
        if self.initial_error_strategy not in (None, "assign", "addition"):
            raise ValueError(
                "initial_error_strategy must be None, 'assign' or 'addition', got "
                f"initial_error_strategy={self.initial_error_strategy!r}"
            )
        if self.initial_error_strategy is None or initial_error is None:
            return None
        return _read_initial_error(frame, initial_error)


class OneCoinDawidSkene(SharesEstimator):
    """Estimate the consensus and one skill per worker, whose wrong labels are equally likely.

    Parameters
    ----------
    n_iter
        Maximal number of iterations; with 0 the result is the majority vote's, and what follows of it.
    tol
        Stop when an iteration adds less than this to ``loss_history_``.

    Attributes
    ----------
    skills_ : Series
        P(label = truth) of each worker, in order of appearance.
    labels_, probas_, priors_, errors_, loss_history_
        As of :class:`DawidSkene`.

    Notes
    -----
    **Guarantees.** Those of :class:`DawidSkene`. There is no argument ``initial_error_strategy``, which
    crowd-kit takes and does not use.

    References
    ----------
    .. [1] Zhang, Chen, Zhou, Jordan, "Spectral methods meet EM: a provably optimal algorithm for
       crowdsourcing", Journal of Machine Learning Research 17 (2016).

    Examples
    --------
    >>> frame = pd.DataFrame(
    ...     {"task": list("aaabbbcccddd"), "worker": [1, 2, 3] * 4, "label": list("xxyyyyxxyyyx")}
    ... )
    >>> OneCoinDawidSkene().fit(frame).skills_.round(2).to_dict()
    {1: 1.0, 2: 1.0, 3: 0.25}
    """

    def __init__(self, n_iter: int = 100, tol: float = 1e-5) -> None:
        self.n_iter = n_iter
        self.tol = tol

    def fit(self, data: pd.DataFrame) -> OneCoinDawidSkene:
        """Run EM on the labels in `data`."""
        check_iterations(self.n_iter, self.tol, least=0)
        if has_no_rows(data):
            _set_nothing(self)
            self.skills_ = pd.Series(dtype=float, name="skill")
            return self
        frame = read_frame(data)
        gold = _known(frame, None)
        pairs = pairs_of(frame, _pair(frame))
        run = fit_pairs(pairs, frame, gold, pairs.one_coin, n_iter=self.n_iter, tol=self.tol)
        _set_results(self, frame, pairs, run)
        order = pd.unique(frame.worker)
        skill = pairs.skill(run.counts)[order]
        self.skills_ = pd.Series(skill, index=frame.workers[order], name="skill")
        return self


def _pair(frame: CodedFrame) -> Int[np.ndarray, " rows"]:
    """Return one number for each row's worker and label."""
    pair: np.ndarray = frame.worker * len(frame.classes) + frame.label
    return pair


def _known(frame: CodedFrame, true_labels: pd.Series | None) -> Int[np.ndarray, " tasks"]:
    """Return the true class of each task, -1 where unknown."""
    if true_labels is None:
        return np.full(len(frame.tasks), -1)
    gold = read_gold(frame, true_labels)
    if not (gold < len(frame.classes)).all():
        raise ValueError("true_labels must be labels that occur in data, got one that does not")
    return gold


def _set_results(
    estimator: DawidSkene | OneCoinDawidSkene, frame: CodedFrame, pairs: Pairs, run: PairFit
) -> None:
    """Set the results of `estimator`, by name and in order of appearance."""
    order = pd.unique(frame.task)
    estimator.labels_ = by_task(frame, decide(run.posterior)[0], order)
    estimator.probas_ = shares(frame, run.posterior, order)
    estimator.priors_ = pd.Series(run.posterior.mean(axis=0), index=frame.classes, name="prior")
    names = [frame.workers[pairs.worker], frame.classes[pairs.label]]
    estimator.errors_ = pd.DataFrame(
        run.table,
        index=pd.MultiIndex.from_arrays(names, names=["worker", "label"]),
        columns=frame.classes.rename(None),
    )
    estimator.loss_history_ = run.losses


def _set_nothing(estimator: DawidSkene | OneCoinDawidSkene) -> None:
    """Set the results of no labels, as crowd-kit has them."""
    estimator.labels_ = pd.Series(dtype=float, name="agg_label")
    estimator.probas_, estimator.errors_ = pd.DataFrame(), pd.DataFrame()
    estimator.priors_ = pd.Series(dtype=float, name="prior")
    estimator.loss_history_ = []


@dataclass(frozen=True, slots=True, eq=False)
class InitialError:
    """crowd-kit's ``initial_error``: what is known about the workers before their labels are read.

    It has the number of each (worker, label) pair, for each truth; only workers of the data.
    """

    pair: Int[np.ndarray, " given"]
    worker: Int[np.ndarray, " given"]
    number: Float64[np.ndarray, "given truths"]

    def counts_of(self, pairs: Int[np.ndarray, " pairs"]) -> Float64[np.ndarray, "pairs truths"]:
        """Return the numbers of each pair, 0 for a pair that the table lacks."""
        place = pd.Index(self.pair).get_indexer(pairs)
        counts: np.ndarray = np.where((place >= 0)[:, None], self.number[place], 0.0)
        return counts

    def shares_of(
        self, pairs: Int[np.ndarray, " pairs"], rows: Int[np.ndarray, " rows"]
    ) -> Float64[np.ndarray, "pairs truths"]:
        """Return P(label | truth) of each pair; raise ValueError for the caller's first row without one.

        The message quotes crowd-kit's own for shares that do not add up, for those that search it.
        """
        lost = ~np.isin(rows, self.pair)
        if lost.any():
            raise ValueError(
                "initial_error must hold every (worker, label) pair of data with "
                f"initial_error_strategy='assign', got none for row {lost.argmax()} "
                "(counted from 0)"
            )
        known = np.column_stack([np.bincount(self.worker, column) for column in self.number.T])
        nothing = (known[self.worker] == 0).any(axis=1)
        if nothing.any():
            raise ValueError(
                "initial_error must say of every truth what each worker answers: The sum of each worker's "
                "error matrix in initial_error should be 1.0, got 0 for the worker of row "
                f"{nothing.argmax()} (counted from 0, workers without labels left out)"
            )
        counts = np.maximum(self.number, FLOOR)
        total = np.column_stack([np.bincount(self.worker, column) for column in counts.T])
        share = counts / total[self.worker]
        found: np.ndarray = share[pd.Index(self.pair).get_indexer(pairs)]
        return found


def _read_initial_error(frame: CodedFrame, initial_error: pd.DataFrame) -> InitialError:
    """Return the table aligned with the labels; workers who gave no label are left out."""
    _check_initial_error(frame, initial_error)
    worker = frame.workers.get_indexer(initial_error.index.get_level_values("worker"))
    label = frame.classes.get_indexer(initial_error.index.get_level_values("label"))
    if not (label >= 0).all():
        row = int((label < 0).argmax())
        raise ValueError(
            "initial_error must be of labels that occur in data, got another at row "
            f"{row} (counted from 0)"
        )
    here = worker >= 0
    number = initial_error[list(frame.classes)].to_numpy(dtype=np.float64)
    pair = worker * len(frame.classes) + label
    return InitialError(pair[here], worker[here], number[here])


def _check_initial_error(frame: CodedFrame, initial_error: pd.DataFrame) -> None:
    """Raise ValueError unless the table has the shape of crowd-kit's and finite numbers >= 0."""
    if not isinstance(initial_error, pd.DataFrame):
        raise ValueError(
            f"initial_error must be a pandas DataFrame, got {type(initial_error).__name__}"
        )
    if list(initial_error.index.names) != ["worker", "label"]:
        raise ValueError(
            "initial_error must be indexed by worker and label, got "
            f"{list(initial_error.index.names)}"
        )
    if not initial_error.index.is_unique:
        row = int(initial_error.index.duplicated().argmax())
        raise ValueError(
            f"initial_error must have one row per worker and label, got a second at row {row}"
        )
    columns = initial_error.columns
    if not (columns.is_unique and set(columns) == set(frame.classes)):
        raise ValueError(
            "initial_error must have one column for each label of data, got "
            f"{len(columns)} columns for {len(frame.classes)} labels"
        )
    number = initial_error.to_numpy(dtype=np.float64)
    good = ((number >= 0) & (number < np.inf)).all(axis=1)
    if not good.all():
        row = int((~good).argmax())
        raise ValueError(f"initial_error must be finite and >= 0, got another number at row {row}")

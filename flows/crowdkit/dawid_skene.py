"""Dawid–Skene as crowd-kit defines it: ``DawidSkene`` and ``OneCoinDawidSkene``.

Not :func:`quality.dawid_skene` under another name: the floor under counts, no smoothing, and the
loss that decides when to stop are crowd-kit's, in :mod:`flows.crowdkit.pair_em`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Int

from flows.crowdkit.estimator import SharesEstimator
from flows.crowdkit.frames import (
    Answers,
    by_task,
    check_iterations,
    read_answers,
    read_gold,
    shares,
)
from flows.crowdkit.initial_error import InitialError, read_initial_error
from flows.crowdkit.pair_em import PairFit, Pairs, Table, fit_pairs, pairs_of
from quality.aggregation import decide

__all__ = ["DawidSkene", "OneCoinDawidSkene"]


class DawidSkene(SharesEstimator):
    """Consensus and every worker's confusion together, by EM from the majority vote.

    Parameters
    ----------
    n_iter
        At most so many iterations, at least 1.
    tol
        Stop when an iteration adds less than this to ``loss_history_``.
    initial_error_strategy
        What `initial_error` is: ``"assign"``, the confusion the first iteration starts from;
        ``"addition"``, counts of earlier answers, added to those of `data`. None leaves it unused.

    Attributes
    ----------
    labels_ : Series
        Likeliest label of each task, tasks in order of appearance; the label that sorts first
        among equals.
    probas_ : DataFrame
        P(truth | labels) of each task.
    priors_ : Series
        P(truth): the mean of ``probas_``.
    errors_ : DataFrame
        P(label | truth) of each worker and label she gave (rows, in order of appearance), for each
        truth (columns).
    loss_history_ : list
        crowd-kit's bound on the log-likelihood per label, after each iteration.

    Notes
    -----
    **Guarantees.** Earlier counts given by ``"addition"`` speak in every iteration; crowd-kit
    forgets them after the first. The shares of a task sum to one; crowd-kit raises those below
    1e-10 to it. A true label that nobody gave is refused; crowd-kit makes it a class. The same
    bytes on any number of cores.

    References
    ----------
    .. [1] Dawid, Skene, "Maximum likelihood estimation of observer error-rates using the EM
       algorithm", Applied Statistics 28 (1979).

    Examples
    --------
    >>> answers = pd.DataFrame(
    ...     {"task": list("aaabbbcccddd"), "worker": [1, 2, 3] * 4, "label": list("xxyyyyxxyyyy")}
    ... )
    >>> DawidSkene().fit_predict(answers).to_dict()
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
        """Run EM on the answers in `data`.

        `true_labels`, indexed by task, hold their tasks to their truth. `initial_error` is indexed
        by (worker, label), with a column for each true label.
        """
        check_iterations(self.n_iter, self.tol)
        answers = read_answers(data)
        gold = _known(answers, true_labels)
        earlier = self._read(answers, initial_error)
        pair, added, start = _pair(answers), np.zeros(()), None
        if earlier and self.initial_error_strategy == "addition":
            pair = np.concatenate([pair, earlier.pair])
        pairs = pairs_of(answers, pair)
        if earlier and self.initial_error_strategy == "addition":
            added = earlier.counts_of(pairs.code)
        elif earlier:
            start = earlier.shares_of(pairs.code, pair)

        def m_step(counts: Table) -> Table:
            return pairs.normalise(counts + added)

        fit = fit_pairs(pairs, answers, gold, m_step, table=start, n_iter=self.n_iter, tol=self.tol)
        _tell(self, answers, pairs, fit)
        return self

    def _read(self, answers: Answers, initial_error: pd.DataFrame | None) -> InitialError | None:
        """`initial_error` lined up with the answers, if it is to be used."""
        if self.initial_error_strategy not in (None, "assign", "addition"):
            raise ValueError(
                "initial_error_strategy must be None, 'assign' or 'addition', got "
                f"initial_error_strategy={self.initial_error_strategy!r}"
            )
        if self.initial_error_strategy is None or initial_error is None:
            return None
        return read_initial_error(answers, initial_error)


class OneCoinDawidSkene(SharesEstimator):
    """Dawid–Skene with one skill per worker: right that often, wrong in all other ways alike.

    Parameters
    ----------
    n_iter
        At most so many iterations, at least 1.
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
    **Guarantees.** Those of :class:`DawidSkene`. The argument ``initial_error_strategy``, which
    crowd-kit takes and does not use, is not there.

    References
    ----------
    .. [1] Zhang, Chen, Zhou, Jordan, "Spectral methods meet EM: a provably optimal algorithm for
       crowdsourcing", Journal of Machine Learning Research 17 (2016).

    Examples
    --------
    >>> answers = pd.DataFrame(
    ...     {"task": list("aaabbbcccddd"), "worker": [1, 2, 3] * 4, "label": list("xxyyyyxxyyyx")}
    ... )
    >>> OneCoinDawidSkene().fit(answers).skills_.round(2).to_dict()
    {1: 1.0, 2: 1.0, 3: 0.25}
    """

    def __init__(self, n_iter: int = 100, tol: float = 1e-5) -> None:
        self.n_iter = n_iter
        self.tol = tol

    def fit(self, data: pd.DataFrame) -> OneCoinDawidSkene:
        """Run EM on the answers in `data`."""
        check_iterations(self.n_iter, self.tol)
        answers = read_answers(data)
        gold = _known(answers, None)
        pairs = pairs_of(answers, _pair(answers))
        run = fit_pairs(pairs, answers, gold, pairs.one_coin, n_iter=self.n_iter, tol=self.tol)
        _tell(self, answers, pairs, run)
        order = pd.unique(answers.worker)
        skill = pairs.skill(run.counts)[order]
        self.skills_ = pd.Series(skill, index=answers.workers[order], name="skill")
        return self


def _pair(answers: Answers) -> Int[np.ndarray, " rows"]:
    """One number for each row's worker and label."""
    pair: np.ndarray = answers.worker * len(answers.classes) + answers.label
    return pair


def _known(answers: Answers, true_labels: pd.Series | None) -> Int[np.ndarray, " tasks"]:
    """Gold, -1 where unknown."""
    if true_labels is None:
        return np.full(len(answers.tasks), -1)
    gold = read_gold(answers, true_labels)
    if not (gold < len(answers.classes)).all():
        raise ValueError("true_labels must be labels that occur in data, got one that does not")
    return gold


def _tell(
    estimator: DawidSkene | OneCoinDawidSkene, answers: Answers, pairs: Pairs, run: PairFit
) -> None:
    """Set results by name, in order of appearance."""
    order = pd.unique(answers.task)
    estimator.labels_ = by_task(answers, decide(run.posterior)[0], order)
    estimator.probas_ = shares(answers, run.posterior, order)
    estimator.priors_ = pd.Series(run.posterior.mean(axis=0), index=answers.classes, name="prior")
    names = [answers.workers[pairs.worker], answers.classes[pairs.label]]
    estimator.errors_ = pd.DataFrame(
        run.table,
        index=pd.MultiIndex.from_arrays(names, names=["worker", "label"]),
        columns=answers.classes.rename(None),
    )
    estimator.loss_history_ = run.losses

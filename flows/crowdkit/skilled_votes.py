"""Votes weighted by learned skills: crowd-kit's ``Wawa``, ``ZeroBasedSkill`` and ``GoldMajorityVote``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted

from flows.crowdkit.frames import (
    SharesEstimator,
    check_number,
    has_no_rows,
    read_frame,
    read_truths,
)
from flows.crowdkit.majority_vote import MajorityVote, accuracy_of, share_right
from quality import majority_vote, weighted_majority

__all__ = ["GoldMajorityVote", "Wawa", "ZeroBasedSkill"]


class SkilledVote(SharesEstimator):
    """What voters with learned skills share: the weighted vote. Each learns its skills in its own way."""

    skills_: pd.Series

    def predict(self, data: pd.DataFrame) -> pd.Series:
        """Vote on `data` by the skills learned; sets ``labels_`` and ``probas_``."""
        check_is_fitted(self, "skills_")
        vote = MajorityVote().fit(data, self.skills_)
        self.labels_, self.probas_ = vote.labels_, vote.probas_
        return self.labels_

    def predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Return the shares of the weight on each task of `data`, by the skills learned."""
        self.predict(data)
        return self.probas_

    def fit_predict(self, data: pd.DataFrame, *given: Any, **named: Any) -> pd.Series:
        """Learn from `data`, with the other arguments of ``fit``, and vote on the same labels."""
        self.fit(data, *given, **named)
        return self.predict(data)


class Wawa(SkilledVote):
    """Vote, weigh workers by their agreement with the vote, and vote again (worker agreement with aggregate).

    Attributes
    ----------
    skills_ : Series
        Share of a worker's labels that agree with the majority, workers sorted; set by ``fit``.
    labels_, probas_ : Series, DataFrame
        The weighted vote on the labels that were last predicted.

    Notes
    -----
    **Guarantees.** A worker who was not fitted raises LabelError in ``predict``. Ties as in
    :class:`MajorityVote`.

    Examples
    --------
    >>> frame = pd.DataFrame({"task": ["t1"] * 3, "worker": list("abc"), "label": [0, 0, 1]})
    >>> Wawa().fit(frame).skills_.to_dict()
    {'a': 1.0, 'b': 1.0, 'c': 0.0}
    """

    def fit(self, data: pd.DataFrame) -> Self:
        """Learn each worker's agreement with the majority."""
        if has_no_rows(data):
            self.skills_ = pd.Series(dtype=float, name="skill")
            return self
        frame = read_frame(data)
        skill = accuracy_of(frame, majority_vote(frame.table).label)
        self.skills_ = pd.Series(skill, index=frame.workers, name="skill")
        return self


class ZeroBasedSkill(SkilledVote):
    """Vote and re-estimate skills in turn; each time skills move a step towards agreement with the vote.

    Parameters
    ----------
    n_iter
        Number of steps; with 0 all skills are the first.
    lr_init
        Length of the first steps: 1 sets a skill to the agreement.
    lr_steps_to_reduce, lr_reduce_factor
        Number of steps after which the length is multiplied by the factor.
    eps
        A worker's first skill is this much above 1 / (number of labels).

    Attributes
    ----------
    skills_ : Series
        Workers' skills, workers sorted; set by ``fit``.
    labels_, probas_ : Series, DataFrame
        The weighted vote on the labels that were last predicted.

    Notes
    -----
    **Guarantees.** A worker who was not fitted raises LabelError in ``predict``. Ties as in
    :class:`MajorityVote`; crowd-kit breaks some ties by rounding, after which its skills can differ.

    Examples
    --------
    >>> frame = pd.DataFrame({"task": ["t1"] * 3, "worker": list("abc"), "label": [0, 0, 1]})
    >>> ZeroBasedSkill().fit(frame).skills_.to_dict()
    {'a': 1.0, 'b': 1.0, 'c': 0.0}
    """

    def __init__(
        self,
        n_iter: int = 100,
        lr_init: float = 1.0,
        lr_steps_to_reduce: int = 20,
        lr_reduce_factor: float = 0.5,
        eps: float = 1e-5,
    ) -> None:
        self.n_iter = n_iter
        self.lr_init = lr_init
        self.lr_steps_to_reduce = lr_steps_to_reduce
        self.lr_reduce_factor = lr_reduce_factor
        self.eps = eps

    def fit(self, data: pd.DataFrame) -> Self:
        """Learn the workers' skills."""
        check_number("n_iter", self.n_iter, whole=True)
        check_number("lr_steps_to_reduce", self.lr_steps_to_reduce, least=1, whole=True)
        for name in ("lr_init", "lr_reduce_factor"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {name}={getattr(self, name)}")
        frame = read_frame(data)
        check_number("eps", self.eps, least=-1.0 / len(frame.classes))
        skill = np.full(len(frame.workers), 1.0 / len(frame.classes) + self.eps)
        step = self.lr_init
        for iteration in range(1, self.n_iter + 1):
            if iteration % self.lr_steps_to_reduce == 0:
                step *= self.lr_reduce_factor
            label = weighted_majority(frame.table, skill).label
            skill = skill + step * (accuracy_of(frame, label) - skill)
        self.skills_ = pd.Series(skill, index=frame.workers, name="skill")
        return self


class GoldMajorityVote(SkilledVote):
    """Vote weighted by each worker's accuracy on tasks whose truth is known.

    Attributes
    ----------
    skills_ : Series
        Accuracy on gold of each worker who labelled a gold task, workers sorted; set by ``fit``.
    labels_, probas_ : Series, DataFrame
        The weighted vote on the labels that were last predicted.

    Notes
    -----
    **Guarantees.** A worker who labelled no gold task raises LabelError in ``predict``. A
    missing true label counts as unknown. With a true label that nobody gave, every label of that task
    is wrong. Ties as in :class:`MajorityVote`.

    Examples
    --------
    >>> frame = pd.DataFrame({"task": ["t1"] * 3, "worker": list("abc"), "label": [0, 0, 1]})
    >>> GoldMajorityVote().fit_predict(frame, pd.Series({"t1": 1})).to_dict()
    {'t1': 1}
    """

    def fit(self, data: pd.DataFrame, true_labels: pd.Series) -> Self:
        """Learn each worker's accuracy on gold; `true_labels` are indexed by task, which may have several."""
        if has_no_rows(data):
            self.skills_ = pd.Series(dtype=float, name="skill")
            return self
        frame = read_frame(data)
        skill = share_right(frame, *read_truths(frame, true_labels))
        tested = ~np.isnan(skill)
        self.skills_ = pd.Series(skill[tested], index=frame.workers[tested], name="skill")
        return self

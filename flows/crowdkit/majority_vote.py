"""Majority vote, plain or weighted by skills: crowd-kit's ``MajorityVote``."""

from __future__ import annotations

from typing import Literal, NoReturn

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Bool, Float64, Int

from flows.crowdkit.frames import (
    CodedFrame,
    SharesEstimator,
    by_task,
    has_no_rows,
    read_frame,
    shares,
)
from quality import LabelError, majority_vote, weighted_majority

__all__ = ["MajorityVote", "accuracy_of", "read_skills", "share_right"]


class MajorityVote(SharesEstimator):
    """Give every task the label with the most of its workers, or with the largest sum of their skills.

    Parameters
    ----------
    default_skill
        Weight of a worker who is not in `skills`, with ``on_missing_skill="value"``.
    on_missing_skill
        What to do with the labels of such a worker: ``"error"`` raises LabelError, ``"ignore"`` leaves
        them out as long as every task keeps a label, ``"value"`` weighs them by `default_skill`.

    Attributes
    ----------
    labels_ : Series
        Label of each task, tasks sorted.
    probas_ : DataFrame
        Share of a task's labels, or of their weight, that each label has; equal shares where all weight
        is 0.
    skills_ : Series
        Share of a worker's labels that agree with ``labels_``, workers sorted.

    Notes
    -----
    **Guarantees.** Shares that are equal to within rounding go to the label that sorts
    first; crowd-kit's choice follows the last bit of a sum of skills. Skills below 0 raise ValueError;
    crowd-kit divides by their sum, and a sum below 0 reverses the vote.

    Examples
    --------
    >>> frame = pd.DataFrame({"task": ["t1"] * 3, "worker": list("abc"), "label": [0, 0, 1]})
    >>> MajorityVote().fit_predict(frame).to_dict()
    {'t1': 0}
    >>> MajorityVote().fit_predict(frame, pd.Series({"a": 0.2, "b": 0.2, "c": 0.9})).to_dict()
    {'t1': 1}
    """

    def __init__(
        self,
        default_skill: float | None = None,
        on_missing_skill: Literal["error", "ignore", "value"] = "error",
    ) -> None:
        self.default_skill = default_skill
        self.on_missing_skill = on_missing_skill

    def fit(self, data: pd.DataFrame, skills: pd.Series | None = None) -> MajorityVote:
        """Vote on the labels in `data`; `skills` are indexed by worker."""
        if has_no_rows(data):
            self.labels_, self.probas_ = pd.Series(dtype=object, name="agg_label"), pd.DataFrame()
            self.skills_ = pd.Series(dtype=float, name="skill")
            return self
        if skills is None:
            frame = read_frame(data)
            vote = majority_vote(frame.table)
            posterior, label = vote.posterior, vote.label
        else:
            frame, weight = self._weigh(data, skills)
            weighted = weighted_majority(frame.table, weight)
            posterior, label = weighted.posterior, weighted.label
        self.labels_ = by_task(frame, label)
        self.probas_ = shares(frame, posterior)
        self.skills_ = pd.Series(accuracy_of(frame, label), index=frame.workers, name="skill")
        return self

    def _weigh(
        self, data: pd.DataFrame, skills: pd.Series
    ) -> tuple[CodedFrame, Float64[np.ndarray, " workers"]]:
        """Return the labels that count, and a weight for each of their workers."""
        known = ("error", "ignore", "value")
        if self.on_missing_skill not in known:
            message = f"on_missing_skill must be one of {known}"
            raise ValueError(f"{message}, got on_missing_skill={self.on_missing_skill!r}")
        if (self.on_missing_skill == "value") != (self.default_skill is not None):
            raise ValueError(
                'default_skill must be given with on_missing_skill="value" and not otherwise, got '
                f"default_skill={self.default_skill}, on_missing_skill={self.on_missing_skill!r}"
            )
        frame = read_frame(data)
        weight = read_skills(frame.workers, skills)
        missing = np.isnan(weight)[frame.worker]
        if not missing.any():
            return frame, weight
        if self.on_missing_skill == "value":
            default = pd.Series(self.default_skill, index=frame.workers)
            return frame, np.where(np.isnan(weight), read_skills(frame.workers, default), weight)
        if self.on_missing_skill == "error":
            _refuse_unknown(int(missing.argmax()), "the worker")
        left = np.bincount(frame.task[~missing], minlength=len(frame.tasks)) > 0
        if not left.all():
            _refuse_unknown(int((~left[frame.task]).argmax()), "a worker of the task")
        frame = read_frame(data[~missing])
        return frame, read_skills(frame.workers, skills)


def _refuse_unknown(row: int, who: str) -> NoReturn:
    message = f"skills must know {who} at row {row} (counted from 0), got none"
    raise LabelError(message, column="worker", row=row)


def read_skills(workers: pd.Index, skills: pd.Series) -> Float64[np.ndarray, " workers"]:
    """Return the skill of each worker, NaN where unknown."""
    if not isinstance(skills, pd.Series):
        raise ValueError(
            f"skills must be a pandas Series indexed by worker, got {type(skills).__name__}"
        )
    if not skills.index.is_unique:
        row = int(skills.index.duplicated().argmax())
        raise ValueError(f"skills must have one row per worker, got a second at row {row}")
    if not pd.api.types.is_numeric_dtype(skills.dtype):
        raise ValueError(f"skills must be numbers, got {skills.dtype}")
    weight: np.ndarray = skills.reindex(workers).to_numpy(dtype=np.float64, na_value=np.nan)
    if not (np.isnan(weight) | ((weight >= 0) & (weight < np.inf))).all():
        raise ValueError("skills must be finite and >= 0 for every worker")
    return weight


def accuracy_of(
    frame: CodedFrame, truth: Int[np.ndarray, " tasks"]
) -> Float64[np.ndarray, " workers"]:
    """Return the share of each worker's labels that equal the truth; NaN where no truth is known (-1)."""
    return share_right(frame, truth[frame.task] >= 0, truth[frame.task] == frame.label)


def share_right(
    frame: CodedFrame, known: Bool[np.ndarray, " rows"], right: Bool[np.ndarray, " rows"]
) -> Float64[np.ndarray, " workers"]:
    """Return the share of each worker's labels on tasks of known truth that are right; NaN without one."""
    n_workers = len(frame.workers)
    n_known = np.bincount(frame.worker[known], minlength=n_workers)
    n_right = np.bincount(frame.worker[known], right[known], minlength=n_workers)
    nowhere = np.full(n_workers, np.nan)
    share: np.ndarray = np.divide(n_right, n_known, out=nowhere, where=n_known > 0)
    return share

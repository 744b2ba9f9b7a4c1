"""Majority vote, plain or weighted by skills: crowd-kit's ``MajorityVote``."""

from __future__ import annotations

from typing import Literal, NoReturn

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64, Int

from flows.crowdkit.estimator import SharesEstimator
from flows.crowdkit.frames import Answers, by_task, read_answers, shares
from quality import LabelError, majority_vote, weighted_majority

__all__ = ["MajorityVote", "accuracy_of", "read_skills"]


class MajorityVote(SharesEstimator):
    """Give every task the label that most of its workers, or their skills together, speak for.

    Parameters
    ----------
    default_skill
        Weight of a worker whom `skills` does not know, with ``on_missing_skill="value"``.
    on_missing_skill
        What to do with such a worker's labels: ``"error"`` refuses them, ``"ignore"`` leaves them
        out as long as every task keeps one, ``"value"`` weighs them by `default_skill`.

    Attributes
    ----------
    labels_ : Series
        Label of each task, tasks sorted.
    probas_ : DataFrame
        Share of a task's labels, or of their weight, that each label has; even where all weight
        is 0.
    skills_ : Series
        Share of a worker's labels that agree with ``labels_``, workers sorted.

    Notes
    -----
    **Guarantees.** Equal shares go to the label that sorts first, to within rounding: crowd-kit's
    choice follows the last bit of a sum of skills. Skills below 0 are refused: crowd-kit divides by
    their sum, and a sum below 0 turns the vote around.

    Examples
    --------
    >>> answers = pd.DataFrame({"task": ["t1"] * 3, "worker": list("abc"), "label": [0, 0, 1]})
    >>> MajorityVote().fit_predict(answers).to_dict()
    {'t1': 0}
    >>> MajorityVote().fit_predict(answers, pd.Series({"a": 0.2, "b": 0.2, "c": 0.9})).to_dict()
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
        """Vote on the answers in `data`; `skills` are indexed by worker."""
        if skills is None:
            answers = read_answers(data)
            vote = majority_vote(answers.table)
            posterior, label = vote.posterior, vote.label
        else:
            answers, weight = self._weigh(data, skills)
            weighted = weighted_majority(answers.table, weight)
            posterior, label = weighted.posterior, weighted.label
        self.labels_ = by_task(answers, label)
        self.probas_ = shares(answers, posterior)
        self.skills_ = pd.Series(accuracy_of(answers, label), index=answers.workers, name="skill")
        return self

    def _weigh(
        self, data: pd.DataFrame, skills: pd.Series
    ) -> tuple[Answers, Float64[np.ndarray, " workers"]]:
        """The answers that count, and a weight for each of their workers."""
        known = ("error", "ignore", "value")
        if self.on_missing_skill not in known:
            message = f"on_missing_skill must be one of {known}"
            raise ValueError(f"{message}, got on_missing_skill={self.on_missing_skill!r}")
        if (self.on_missing_skill == "value") != (self.default_skill is not None):
            raise ValueError(
                'default_skill must be given with on_missing_skill="value" and not otherwise, got '
                f"default_skill={self.default_skill}, on_missing_skill={self.on_missing_skill!r}"
            )
        answers = read_answers(data)
        weight = read_skills(answers.workers, skills)
        missing = np.isnan(weight)[answers.worker]
        if not missing.any():
            return answers, weight
        if self.on_missing_skill == "value":
            default = pd.Series(self.default_skill, index=answers.workers)
            return answers, np.where(
                np.isnan(weight), read_skills(answers.workers, default), weight
            )
        if self.on_missing_skill == "error":
            _refuse_unknown(int(missing.argmax()), "the worker")
        left = np.bincount(answers.task[~missing], minlength=len(answers.tasks)) > 0
        if not left.all():
            _refuse_unknown(int((~left[answers.task]).argmax()), "a worker of the task")
        answers = read_answers(data[~missing])
        return answers, read_skills(answers.workers, skills)


def _refuse_unknown(row: int, who: str) -> NoReturn:
    message = f"skills must know {who} at row {row} (counted from 0), got none"
    raise LabelError(message, column="worker", row=row)


def read_skills(workers: pd.Index, skills: pd.Series) -> Float64[np.ndarray, " workers"]:
    """Skill of each worker, NaN where unknown."""
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
    answers: Answers, truth: Int[np.ndarray, " tasks"]
) -> Float64[np.ndarray, " workers"]:
    """Share of each worker's labels that equal a truth; -1 is unknown, NaN if all are."""
    known = truth[answers.task] >= 0
    right = (truth[answers.task] == answers.label)[known]
    n_workers = len(answers.workers)
    n_known = np.bincount(answers.worker[known], minlength=n_workers)
    n_right = np.bincount(answers.worker[known], right, minlength=n_workers)
    nowhere = np.full(n_workers, np.nan)
    share: np.ndarray = np.divide(n_right, n_known, out=nowhere, where=n_known > 0)
    return share

"""What estimators under crowd-kit's names share: frames as codes, results with the caller's names.

>>> frame = read_frame(pd.DataFrame({"task": ["t1"], "worker": ["w1"], "label": ["cat"]}))
>>> by_task(frame, np.array([0])).to_dict()
{'t1': 'cat'}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Bool, Float64, Int
from sklearn.base import BaseEstimator

from quality import CrowdLabels, LabelError, encode

__all__ = [
    "FLOOR", "CodedFrame", "ConsensusEstimator", "SharesEstimator", "by_task", "check_iterations",
    "check_number", "has_no_rows", "read_frame", "read_gold", "read_truths", "shares",
]  # fmt: skip

FLOOR = 1e-10  # crowd-kit's: no count, prior or share is less where a logarithm is taken


class MissingColumn(LabelError, KeyError):
    """A data frame lacks a column, or has it twice: a ValueError, and crowd-kit's KeyError as well."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the sentence in quotes


@dataclass(frozen=True, slots=True, eq=False)
class CodedFrame:
    """Codes in the order of the caller's rows; the vocabularies are sorted and named as their columns.

    `table` holds the same codes for the functions of ``quality``.
    """

    worker: Int[np.ndarray, " rows"]
    task: Int[np.ndarray, " rows"]
    label: Int[np.ndarray, " rows"]
    workers: pd.Index
    tasks: pd.Index
    classes: pd.Index
    table: CrowdLabels


def read_frame(data: pd.DataFrame) -> CodedFrame:
    """Return the columns task, worker and label as codes.

    Raises
    ------
    LabelError
        If a column lacks (then it is a KeyError too) or has a missing value, a pair is repeated or
        there is no row. It is a ValueError that names the column, and the row (counted from 0) where
        there is one.
    """
    if has_no_rows(data):
        raise LabelError("data must have at least one row, got none", column="task")
    (task, tasks), (worker, workers), (label, classes) = (
        _factorize(data[name], name) for name in ("task", "worker", "label")
    )
    table = encode(worker, task, label, classes=np.arange(len(classes)).tolist())
    return CodedFrame(worker, task, label, workers, tasks, classes, table)


def has_no_rows(data: pd.DataFrame, columns: tuple[str, ...] = ("task", "worker", "label")) -> bool:
    """Return whether a frame is empty; raise ValueError where it is no frame, or lacks a column."""
    if not isinstance(data, pd.DataFrame):
        kind = f"{type(data).__module__}.{type(data).__name__}".removeprefix("builtins.")
        raise ValueError(f"data must be a pandas DataFrame, got {kind}")
    for name in columns:
        if (data.columns == name).sum() != 1:
            found = ", ".join(map(repr, data.columns[:9]))
            message = f"data must have one column {name!r}, got columns {found or 'none'}"
            raise MissingColumn(message, column=name)
    return not len(data)


def check_iterations(n_iter: int, tol: float, *, least: int = 1) -> None:
    """Raise ValueError unless n_iter is a whole number >= least and tol a number >= 0."""
    check_number("n_iter", n_iter, least=least, whole=True)
    if not (isinstance(tol, Real) and tol >= 0):  # infinite: one iteration is enough
        raise ValueError(f"tol must be >= 0, got tol={tol!r}")


def check_number(name: str, value: float, *, least: float = 0, whole: bool = False) -> None:
    """Raise ValueError unless the value is a finite number >= least, with `whole` a whole one."""
    if not (isinstance(value, Integral if whole else Real) and least <= value < np.inf):
        kind = "a whole number" if whole else "finite"
        raise ValueError(f"{name} must be >= {least:g} and {kind}, got {name}={value!r}")


def _factorize(column: pd.Series, name: str) -> tuple[np.ndarray, pd.Index]:
    """Return codes in the sorted order of the names, and the names, which keep the column's type."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    missing = column.isna().to_numpy()
    if missing.any():
        _refuse_missing(int(missing.argmax()), name)
    try:
        codes, names = pd.factorize(column)
        order = names.argsort()
    except TypeError as fault:  # lists cannot be hashed, text and numbers not be compared
        message = f"column {name!r} must be all text or all numbers"
        raise LabelError(f"{message}: convert the column first", column=name) from fault
    blank = [isinstance(entry, str) and not entry.strip() for entry in names]
    if any(blank):
        _refuse_missing(int((codes == blank.index(True)).argmax()), name)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank[codes], names[order].rename(name)


def _refuse_missing(row: int, name: str) -> NoReturn:
    message = f"column {name!r} is missing at row {row} (counted from 0)"
    raise LabelError(f"{message}: fill it in or leave the row out", column=name, row=row)


def read_gold(frame: CodedFrame, true_labels: pd.Series) -> Int[np.ndarray, " tasks"]:
    """Return the true class of each task: -1 where unknown, the number of classes where nobody gave it."""
    if not isinstance(true_labels, pd.Series):
        raise ValueError(
            f"true_labels must be a pandas Series indexed by task, got {type(true_labels).__name__}"
        )
    true_labels = true_labels[true_labels.notna()]
    again = true_labels.index.duplicated()
    if again.any():
        message = f"true_labels must have one row per task, got a second at row {again.argmax()}"
        raise LabelError(f"{message} (counted from 0, missing values left out)", column="task")
    place = frame.tasks.get_indexer(true_labels.index)
    if not (place >= 0).any():
        raise LabelError("true_labels must have a task of data, got none", column="task")
    code = frame.classes.get_indexer(true_labels.to_numpy())
    gold = np.full(len(frame.tasks), -1, dtype=np.int64)
    gold[place[place >= 0]] = np.where(code < 0, len(frame.classes), code)[place >= 0]
    return gold


def read_truths(
    frame: CodedFrame, true_labels: pd.Series
) -> tuple[Bool[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Return for each row whether its task's truth is known, and whether its label is a true one.

    A task may have several true labels; a missing one counts as unknown.
    """
    if not isinstance(true_labels, pd.Series):
        raise ValueError(
            f"true_labels must be a pandas Series indexed by task, got {type(true_labels).__name__}"
        )
    true_labels = true_labels[true_labels.notna()]
    place = frame.tasks.get_indexer(true_labels.index)
    if not (place >= 0).any():
        raise LabelError("true_labels must have a task of data, got none", column="task")
    code = frame.classes.get_indexer(true_labels.to_numpy())
    n_classes = len(frame.classes)
    true = (place * n_classes + code)[(place >= 0) & (code >= 0)]
    return np.isin(frame.task, place), np.isin(frame.task * n_classes + frame.label, true)


def by_task(frame: CodedFrame, label: Int[np.ndarray, " tasks"], order: Any = None) -> pd.Series:
    """Return labels by name, tasks sorted or in the order given."""
    order = np.arange(len(label)) if order is None else order
    names = frame.classes.take(label[order]).to_numpy()
    return pd.Series(names, index=frame.tasks[order], name="agg_label", dtype=frame.classes.dtype)


def shares(
    frame: CodedFrame, posterior: Float64[np.ndarray, "tasks classes"], order: Any = None
) -> pd.DataFrame:
    """Return the posterior by name, tasks sorted or in the order given."""
    order = np.arange(len(posterior)) if order is None else order
    return pd.DataFrame(posterior[order], index=frame.tasks[order], columns=frame.classes)


class ConsensusEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose ``fit`` sets ``labels_``; ``get_params`` and ``clone`` are scikit-learn's."""

    fit: Callable[..., Any]
    labels_: pd.Series

    def fit_predict(self, data: pd.DataFrame, *given: Any, **named: Any) -> pd.Series:
        """Fit on `data`, with the other arguments of ``fit``, and return ``labels_``."""
        self.fit(data, *given, **named)
        return self.labels_


class SharesEstimator(ConsensusEstimator):
    """An estimator whose ``fit`` sets ``probas_`` as well."""

    probas_: pd.DataFrame

    def fit_predict_proba(self, data: pd.DataFrame, *given: Any, **named: Any) -> pd.DataFrame:
        """Fit on `data`, with the other arguments of ``fit``, and return ``probas_``."""
        self.fit_predict(data, *given, **named)
        return self.probas_

"""crowd-kit's ``initial_error``: what is known about the workers before their labels are read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64, Int

from flows.crowdkit.frames import FLOOR, CodedFrame

__all__ = ["InitialError", "read_initial_error"]


@dataclass(frozen=True, slots=True, eq=False)
class InitialError:
    """The number of each (worker, label) pair of the table, for each truth; only workers of the data."""

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
        """Return P(label | truth) of each pair; raise ValueError for the caller's first row without one."""
        lost = ~np.isin(rows, self.pair)
        if lost.any():
            raise ValueError(
                "initial_error must hold every (worker, label) pair of data with "
                f"initial_error_strategy='assign', got none for row {lost.argmax()} "
                "(counted from 0)"
            )
        counts = np.maximum(self.number, FLOOR)
        total = np.column_stack([np.bincount(self.worker, column) for column in counts.T])
        share = counts / total[self.worker]
        found: np.ndarray = share[pd.Index(self.pair).get_indexer(pairs)]
        return found


def read_initial_error(frame: CodedFrame, initial_error: pd.DataFrame) -> InitialError:
    """Return the table aligned with the labels; workers who gave no label are left out."""
    _check(frame, initial_error)
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


def _check(frame: CodedFrame, initial_error: pd.DataFrame) -> None:
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

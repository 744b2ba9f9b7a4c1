"""crowd-kit's ``initial_error``: what is known of the workers before the answers are seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64, Int

from flows.crowdkit.frames import FLOOR, Answers

__all__ = ["InitialError", "read_initial_error"]


@dataclass(frozen=True, slots=True, eq=False)
class InitialError:
    """Numbers of the (worker, label) pairs it tells of, for each truth; workers of data only."""

    pair: Int[np.ndarray, " told"]
    worker: Int[np.ndarray, " told"]
    number: Float64[np.ndarray, "told truths"]

    def counts_of(self, pairs: Int[np.ndarray, " pairs"]) -> Float64[np.ndarray, "pairs truths"]:
        """The numbers of each pair, 0 where it tells of none."""
        place = pd.Index(self.pair).get_indexer(pairs)
        counts: np.ndarray = np.where((place >= 0)[:, None], self.number[place], 0.0)
        return counts

    def shares_of(
        self, pairs: Int[np.ndarray, " pairs"], rows: Int[np.ndarray, " rows"]
    ) -> Float64[np.ndarray, "pairs truths"]:
        """P(label | truth) of each pair; the first of the caller's rows without one is refused."""
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


def read_initial_error(answers: Answers, initial_error: pd.DataFrame) -> InitialError:
    """Lined up with the answers: workers who gave none are passed over."""
    _check(answers, initial_error)
    worker = answers.workers.get_indexer(initial_error.index.get_level_values("worker"))
    label = answers.classes.get_indexer(initial_error.index.get_level_values("label"))
    if not (label >= 0).all():
        row = int((label < 0).argmax())
        raise ValueError(
            "initial_error must be of labels that occur in data, got another at row "
            f"{row} (counted from 0)"
        )
    here = worker >= 0
    number = initial_error[list(answers.classes)].to_numpy(dtype=np.float64)
    pair = worker * len(answers.classes) + label
    return InitialError(pair[here], worker[here], number[here])


def _check(answers: Answers, initial_error: pd.DataFrame) -> None:
    """Refuse another shape, and numbers that are neither counts nor shares."""
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
    if not (columns.is_unique and set(columns) == set(answers.classes)):
        raise ValueError(
            "initial_error must have one column for each label of data, got "
            f"{len(columns)} columns for {len(answers.classes)} labels"
        )
    number = initial_error.to_numpy(dtype=np.float64)
    good = ((number >= 0) & (number < np.inf)).all(axis=1)
    if not good.all():
        row = int((~good).argmax())
        raise ValueError(f"initial_error must be finite and >= 0, got another number at row {row}")

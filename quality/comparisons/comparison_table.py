"""The table of comparisons: which worker preferred which of two items, in integer codes.

>>> table = encode_comparisons(["ann", "bob"], ["x", "y"], ["y", "x"], ["x", "tie"])
>>> table
Comparisons(2 comparisons of 2 items by 2 workers, 1 tie)
>>> table.outcome
array([0, 2], dtype=int8)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int, Int8, Int32, Int64, Shaped

from quality.argument_types import check_arguments
from quality.labels import (
    CrowdLabels,
    LabelError,
    check_groups,
    code_columns,
    freeze_arrays,
    voters,
)

__all__ = ["LEFT", "RIGHT", "SIDES", "TIE", "Comparisons", "encode_comparisons"]

LEFT, RIGHT, TIE = 0, 1, 2
SIDES = {"left": LEFT, "right": RIGHT, "tie": TIE}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparisons:
    """Comparisons in codes, sorted by worker; made by :func:`encode_comparisons`.

    Parameters
    ----------
    worker, left, right
        One row per comparison: the worker, and the codes of the items shown left and right.
    outcome
        0 if the left item was preferred, 1 if the right one was, 2 for a tie.
    question
        Code of the subject of the comparison (a prompt, an image) together with the pair of items, in
        either order: rows of one question are answers to the same thing.
    workers, items
        Vocabularies in increasing order; a code need not occur.
    worker_start
        Rows of worker ``w`` are ``worker_start[w]:worker_start[w + 1]``.
    """

    worker: Int32[np.ndarray, " comparisons"]
    left: Int32[np.ndarray, " comparisons"]
    right: Int32[np.ndarray, " comparisons"]
    outcome: Int8[np.ndarray, " comparisons"]
    question: Int64[np.ndarray, " comparisons"]
    workers: Shaped[np.ndarray, " workers"]
    items: Shaped[np.ndarray, " items"]
    worker_start: Int64[np.ndarray, " workers+1"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        ties = self.n_ties
        return (
            f"Comparisons({len(self.worker)} comparisons of {len(self.items)} items by "
            f"{len(self.workers)} workers, {ties} {'tie' if ties == 1 else 'ties'})"
        )

    @property
    def n_ties(self) -> int:
        """Number of comparisons that ended in a tie."""
        return int(np.count_nonzero(self.outcome == TIE))

    def take(self, rows: Int[np.ndarray, " taken"]) -> "Comparisons":
        """Return some rows by number, in increasing order, with the same vocabularies and questions.

        Raises
        ------
        ValueError
            If these are no numbers of rows.
        """
        n = len(self.worker)
        if rows.dtype.kind not in "iu" or ((rows < 0) | (rows >= n)).any():
            raise ValueError(
                f"rows must be integers in [0, {n - 1}], got {rows.dtype} such as {rows[:3].tolist()}"
            )
        rows = np.sort(rows)
        counts = np.bincount(self.worker[rows], minlength=len(self.workers))
        return Comparisons(
            self.worker[rows],
            self.left[rows],
            self.right[rows],
            self.outcome[rows],
            self.question[rows],
            self.workers,
            self.items,
            np.concatenate([[0], np.cumsum(counts)]),
        )

    def as_labels(self) -> CrowdLabels:
        """Return the comparisons as labels: a question is a task, its classes are first, second, tie.

        The first item is the one whose name sorts first. Functions of labels then apply to comparisons:
        agreement, :func:`~quality.dependent_groups`, penalties. A worker who answered a question several
        times counts once, with her first row.
        """
        questions, task = np.unique(self.question, return_inverse=True)
        flipped = (self.left > self.right) & (self.outcome != TIE)
        label = np.where(flipped, 1 - self.outcome, self.outcome).astype(np.int16)
        _, rows = np.unique(np.stack([task, self.worker]), axis=1, return_index=True)
        return CrowdLabels.from_codes(
            self.worker[rows],
            task[rows].astype(np.int32),
            label[rows],
            workers=self.workers,
            tasks=np.arange(len(questions)),
            classes=np.array(["first", "second", "tie"]),
        )

    def weights(
        self, groups: Int[np.ndarray, " workers"] | None
    ) -> Float64[np.ndarray, " comparisons"]:
        """Return each row's weight: one over the answers of its group to its question, 1 without a group.

        A worker in no group who answers a question several times counts each time.

        Parameters
        ----------
        groups
            A group for each worker, -1 for a worker in no group, as :func:`~quality.dependent_groups` finds
            them; None if there are no groups.

        Raises
        ------
        ValueError
            If there is not one code of at least -1 for each worker.
        """
        if groups is None:
            return np.ones(len(self.worker))
        check_groups(groups, len(self.workers))
        voter = voters(groups)[self.worker].astype(np.int64)
        both = np.stack([voter, self.question])
        _, place, count = np.unique(both, axis=1, return_inverse=True, return_counts=True)
        return np.where(groups[self.worker] < 0, 1.0, 1.0 / count[place.reshape(-1)])


@check_arguments
def encode_comparisons(
    worker: Iterable[Any],
    left: Iterable[Any],
    right: Iterable[Any],
    winner: Iterable[Any],
    *,
    question: Iterable[Any] | None = None,
) -> Comparisons:
    """Check a table of comparisons and code its names.

    Parameters
    ----------
    worker, left, right
        Columns of names (texts or integers): the worker, and the items she saw left and right.
    winner
        ``left``, ``right`` or ``tie`` in every row; or in every row the name of the preferred item,
        or ``tie``.
    question
        Subject of each comparison, such as a prompt; without it all comparisons of two items are about one
        question.

    Raises
    ------
    LabelError
        If a cell is missing, an item is compared with itself, a winner is neither side, or columns
        differ in length; the message names the row.

    Examples
    --------
    >>> encode_comparisons(["ann"], ["x"], ["x"], ["tie"])
    Traceback (most recent call last):
        ...
    quality.labels.columns.LabelError: left and right must differ, got x twice at row 0 (counted from 0)
    """
    left, right, winners = list(left), list(right), [str(one) for one in winner]
    if not len(left) == len(right) == len(winners):
        lengths = [len(left), len(right), len(winners)]
        raise LabelError(f"left, right, winner must be equally long, got {lengths}", column="left")
    # each side alone first: an error names its own column and row
    asked = {"worker": worker, "left": left, "right": right, "item": [*left, *right]}
    if question is not None:
        asked["question"] = question
    coded = {name: code_columns(**{name: values})[name] for name, values in asked.items()}
    (who, workers), (item, items) = coded["worker"], coded["item"]
    here, there = np.asarray(item[: len(left)]), np.asarray(item[len(left) :])
    if len(who) != len(left):
        raise LabelError(
            f"worker and left must be equally long, got {[len(who), len(left)]}", column="worker"
        )
    if (here == there).any():
        row = int(np.argmax(here == there))
        raise LabelError(
            f"left and right must differ, got {left[row]} twice at row {row} (counted from 0)",
            column="right",
            row=row,
        )
    outcome = _outcomes(left, right, winners)
    about = np.asarray(coded["question"][0]) if question is not None else np.zeros(len(left), int)
    if len(about) != len(left):
        raise LabelError(
            f"question and left must be equally long, got {[len(about), len(left)]}",
            column="question",
        )
    low, high = np.minimum(here, there).astype(np.int64), np.maximum(here, there).astype(np.int64)
    pair = (about.astype(np.int64) * len(items) + low) * len(items) + high
    order = np.argsort(who, kind="stable")
    counts = np.bincount(who, minlength=len(workers))
    return Comparisons(
        who[order].astype(np.int32),
        here[order].astype(np.int32),
        there[order].astype(np.int32),
        outcome[order],
        pair[order],
        workers,
        items,
        np.concatenate([[0], np.cumsum(counts)]),
    )


def _outcomes(left: list[Any], right: list[Any], winners: list[str]) -> Int8[np.ndarray, " rows"]:
    """Return which side each winner names: all rows name sides, or all name items or a tie."""
    if set(winners) <= SIDES.keys():
        return np.array([SIDES[one] for one in winners], dtype=np.int8)
    found = np.empty(len(winners), dtype=np.int8)
    for row, one in enumerate(winners):
        names = {str(left[row]): LEFT, str(right[row]): RIGHT}
        side = names.get(one, TIE if one == "tie" else None)
        if side is None and one in SIDES:  # the faulty row may be another one
            items = [{str(left[at]), str(right[at])} for at in range(len(winners))]
            known = [other in SIDES or other in items[at] for at, other in enumerate(winners)]
            row = known.index(False) if False in known else row
            one = winners[row]
        if side is None:
            raise LabelError(
                "winner must be left, right or tie in every row, or in every row one of the two items or "
                f"tie, got {one} at row {row} (counted from 0), where {left[row]} met {right[row]}",
                column="winner",
                row=row,
            )
        found[row] = side
    return found

r"""Comparisons from a table: worker, left, right, winner, and what was asked.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "comparisons.csv"
...     _ = path.write_text("worker,left,right,winner\nann,x,y,x\nbob,y,x,tie\n")
...     read_comparisons(path)
Comparisons(2 comparisons of 2 items by 2 workers, 1 tie)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flows.tables.dialect import AS_FOUND, Reading
from flows.tables.refusals import TableError, placed, refuse_names
from flows.tables.text_table import TextTable, open_table
from quality import Comparisons, LabelError, encode_comparisons
from quality.comparisons import SIDES

__all__ = ["read_comparisons", "reading_of_comparisons"]

WINNERS = ("winner", "label")
QUESTIONS = ("question", "prompt", "task")


def reading_of_comparisons(reading: Reading) -> Reading:
    """Return a reading by which a comma in the name of an item is no decimal: 1,5 stays so."""
    return replace(reading, apart=("left", "right", *WINNERS, *QUESTIONS))


def read_comparisons(path: Path, reading: Reading = AS_FOUND) -> Comparisons:
    """Read a table with a row per comparison.

    The columns are worker, left, right, and winner (or label, as crowd-kit has it): left, right, tie,
    or the name of the preferred item. A column question (or prompt, or task) says what the items were
    compared on.

    Raises
    ------
    TableError
        If a column is missing, a cell blank, an item compared with itself, or a winner neither side, or if
        winners may be sides or items, because an item is called left, right or tie.
    """
    table = open_table(path, ("worker", "left", "right"), reading_of_comparisons(reading))
    winner = _one_of(table, WINNERS)
    if winner is None:
        raise TableError(
            f"{path.name} must have a column winner (or label), got {', '.join(table.names)}"
        )
    asked = _one_of(table, QUESTIONS)
    names = ("worker", "left", "right", winner, *(() if asked is None else (asked,)))
    refuse_names(table, names)
    column = {name: texts.to_pylist() for name, texts in table.texts(*names).items()}
    winners = set(column[winner])
    called = sorted({*column["left"], *column["right"]} & SIDES.keys() & winners)
    if called and winners <= SIDES.keys():
        raise TableError(
            f"{path.name}, column {winner}: must be clear, got {called[0]}, which is a side and an item too; "
            "give the item another name"
        )
    try:
        return encode_comparisons(
            column["worker"], column["left"], column["right"], column[winner],
            question=None if asked is None else column[asked],
        )  # fmt: skip
    except LabelError as error:
        raise TableError(placed(path.name, error)) from None


def _one_of(table: TextTable, names: tuple[str, ...]) -> str | None:
    """Return the first of the names that is a column."""
    return next((name for name in names if name in table.names), None)

r"""Multi-label answers from a table: lists, cells such as ``cat|dog``, or a row a label.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "answers.csv"
...     _ = path.write_text("worker,task,label\nann,t1,cat|dog\nbob,t1,dog\n")
...     read_multilabels(path)
MultiLabels(2 answers, 3 labels, 1 tasks, 2 workers, 2 classes)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flows.tables.dialect import AS_FOUND, Reading
from flows.tables.refusals import TableError, refuse_blanks
from flows.tables.text_table import open_table
from quality import LabelError, MultiLabels, encode_multilabels

__all__ = ["read_multilabels"]

LABELS = ("label", "labels")


def read_multilabels(
    path: Path,
    reading: Reading = AS_FOUND,
    *,
    split: str = "|",
    nothing: str | None = None,
    classes: tuple[str, ...] | None = None,
) -> MultiLabels:
    """Read a table of answers that hold several classes at once.

    The columns are worker, task, and label or labels: a list (of Parquet, or as JSON has it), or a text
    of classes with `split` between them. A table without lists and without `split` has a row a label:
    the rows of a worker about a task are one answer.

    Parameters
    ----------
    split
        What stands between the classes of a cell; not empty.
    nothing
        The word for an answer that no class holds. An empty list is one, too; a blank cell may be a
        missing answer, and is refused.
    classes
        The classes an answer may hold; without it those that occur.

    Raises
    ------
    TableError
        If a column is missing, a cell blank, a class not in `classes`, or an answer there twice.
    """
    if not split:
        raise TableError("what stands between labels must not be empty")
    table = open_table(path, ("worker", "task"), reading)
    column = next((name for name in LABELS if name in table.names), None)
    if column is None:
        raise TableError(
            f"{path.name} must have a column label (or labels), got {', '.join(table.names)}"
        )
    refuse_blanks(table, ("worker", "task"))
    names = {name: values.tolist() for name, values in table.columns("worker", "task").items()}
    refuse_blanks(table, (column,))
    texts = table.columns(column)[column].tolist()
    cells, one_row_each = _lists(table.file, texts), False
    if cells is None:
        one_row_each = not any(split in text for text in texts)
        cells = [[part.strip() for part in text.split(split) if part.strip()] for text in texts]
    if nothing is not None:
        cells = [[one for one in mine if one != nothing] for mine in cells]
    try:
        return encode_multilabels(
            names["worker"], names["task"], cells, classes=classes,
            repeats="join" if one_row_each else "error",
        )  # fmt: skip
    except LabelError as error:
        raise TableError(_placed(path.name, error)) from None


def _lists(file: str, texts: list[str]) -> list[list[str]] | None:
    """Return cells that are lists of JSON as lists of names; None if one is not."""
    if not all(text.startswith("[") and text.endswith("]") for text in texts):
        return None
    try:
        found = [json.loads(text) for text in texts]
    except ValueError:
        return None
    return [[_trimmed(file, row, one) for one in mine] for row, mine in enumerate(found, 1)]


def _trimmed(file: str, number: int, name: Any) -> str:
    """Return a class's name without white space around it; raise TableError if nothing is left."""
    text = "" if name is None else str(name).strip()
    if not text:
        raise TableError(
            f"{file}, row {number}: a class in the list is blank; name it or leave it out"
        )
    return text


def _placed(file: str, error: LabelError) -> str:
    """Return the sentence with the file, whose rows count from 1."""
    if error.row is None:
        return f"{file}: {error}"
    return f"{file}, row {error.row + 1}: {str(error).replace(' (counted from 0)', '')}"

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

import numpy as np
from jaxtyping import Int8

from flows.tables.dialect import AS_FOUND, Reading
from flows.tables.refusals import TableError, placed, refuse_blanks, refuse_names, text_of_value
from flows.tables.text_table import TextTable, open_table
from quality import LabelError, MultiLabels, encode_gold_sets, encode_multilabels

__all__ = ["read_gold_sets", "read_multilabels"]

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
        If a column is missing, a cell blank, a class not in `classes`, a class there with `split` in its
        name, or an answer there twice.
    """
    if not split:
        raise TableError("what stands between labels must not be empty")
    table = open_table(path, ("worker", "task"), reading)
    names = _names(table, "worker", "task")
    cells, one_row_each = _sets(table, path, split, nothing)
    try:
        return encode_multilabels(
            names["worker"], names["task"], cells, classes=classes,
            repeats="join" if one_row_each else "error",
        )  # fmt: skip
    except LabelError as error:
        broken = next((one for one in classes or () if split in one), None)
        if broken is not None:
            raise TableError(
                f"a class must not hold {split!r}, which stands between the classes of a cell, got "
                f"{broken!r}: rename it, or let another sign stand between them"
            ) from None
        raise TableError(placed(path.name, error)) from None


def read_gold_sets(
    path: Path,
    answers: MultiLabels,
    reading: Reading = AS_FOUND,
    *,
    split: str = "|",
    nothing: str | None = None,
) -> Int8[np.ndarray, "tasks classes"]:
    """Read a table of tasks whose truth is known: task, and label or labels as of answers.

    Returns
    -------
    array
        As :func:`quality.encode_gold_sets` returns it; tasks without answers are left out.

    Raises
    ------
    TableError
        If a column is missing, a cell blank, a class not one of the answers', or a task there twice.
    """
    table = open_table(path, ("task",), reading)
    tasks = _names(table, "task")["task"]
    cells, one_row_each = _sets(table, path, split, nothing)
    if one_row_each:
        joined: dict[str, list[str]] = {}
        for task, mine in zip(tasks, cells, strict=True):
            joined.setdefault(task, []).extend(mine)
        tasks, cells = list(joined), list(joined.values())
    try:
        return encode_gold_sets(answers, tasks, cells)
    except LabelError as error:
        if one_row_each:  # what was joined is no row of the file
            reason = str(error).replace(f" at row {error.row} (counted from 0)", "")
            raise TableError(f"{path.name}: {reason}") from None
        raise TableError(placed(path.name, error)) from None


def _names(table: TextTable, *columns: str) -> dict[str, list[str]]:
    """Return columns of names, none blank or too long."""
    refuse_names(table, columns)
    return {name: values.to_pylist() for name, values in table.texts(*columns).items()}


def _sets(
    table: TextTable, path: Path, split: str, nothing: str | None
) -> tuple[list[list[str]], bool]:
    """Return the set of each row, and whether the table has a row a label."""
    column = next((name for name in LABELS if name in table.names), None)
    if column is None:
        raise TableError(
            f"{path.name} must have a column label (or labels), got {', '.join(table.names)}"
        )
    refuse_blanks(table, (column,))
    texts = table.texts(column)[column].to_pylist()
    cells, one_row_each = _lists(table.file, texts), False
    if cells is None:
        _refuse_lists(table.file, texts)
        one_row_each = not any(split in text for text in texts)
        cells = [[part.strip() for part in text.split(split) if part.strip()] for text in texts]
    if nothing is not None:
        cells = [[one for one in mine if one != nothing] for mine in cells]
    return cells, one_row_each


def _lists(file: str, texts: list[str]) -> list[list[str]] | None:
    """Return cells that are lists of JSON as lists of names; None if one is not."""
    found = list[list[Any]]()
    for text in texts:
        mine = _list(text)
        if mine is None:
            return None
        found.append(mine)
    return [[_trimmed(file, row, one) for one in mine] for row, mine in enumerate(found, 1)]


def _refuse_lists(file: str, texts: list[str]) -> None:
    """Raise TableError where a cell is a list, empty or of texts, among cells that are none."""
    for row, text in enumerate(texts, 1):
        mine = _list(text)
        if mine is not None and (not mine or any(isinstance(one, str) for one in mine)):
            raise TableError(
                f"{file}, row {row}: the labels are a list here, and in other rows a text; write lists in "
                "all rows, or texts"
            )


def _list(text: str) -> list[Any] | None:
    """Return a cell that is a list of JSON; None if it is none."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        found: list[Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def _trimmed(file: str, number: int, name: Any) -> str:
    """Return a class's name without white space around it; raise TableError if nothing is left."""
    text = text_of_value(name)
    if text is None:
        raise TableError(
            f"{file}, row {number}: a class in the list must be a text or a number, got {json.dumps(name)}; "
            "name it"
        )
    if not text.strip():
        raise TableError(
            f"{file}, row {number}: a class in the list is blank; name it or leave it out"
        )
    return text.strip()

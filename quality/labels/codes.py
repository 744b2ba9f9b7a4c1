"""From names to integer codes: the columns a caller hands over, checked and counted.

Private to this room; :func:`quality.labels.table.encode` is the way in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, NoReturn, no_type_check

import numpy as np
from jaxtyping import Int, Int64, Shaped
from numba import njit

__all__ = [
    "LabelError", "class_book", "column", "declared", "factorize", "freeze_arrays", "lookup",
    "sort_codes",
]  # fmt: skip


class LabelError(ValueError):
    """Labels that cannot be used; says where and what to do.

    Parameters
    ----------
    message
        What is wrong and how to go on.
    column
        The argument at fault: ``"worker"``, ``"task"``, ``"label"`` or ``"classes"``.
    row
        Position of the first row at fault, counted from 0; None if it is not about one row.

    Examples
    --------
    >>> error = LabelError("label is missing at row 3", column="label", row=3)
    >>> error.column, error.row
    ('label', 3)
    """

    def __init__(self, message: str, *, column: str, row: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.row = row


def column(values: Iterable[Any]) -> np.ndarray | list[Any]:
    """Return a numeric array as it is, any other column as a list of Python objects."""
    if isinstance(values, str | bytes):
        raise TypeError(f"a column must be a sequence of names, got one {type(values).__name__}")
    if isinstance(values, list | tuple):
        return list(values)
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"a column must be one-dimensional, got {array.ndim} dimensions")
    return array if array.dtype.kind in "iuf" else list(array.tolist())


def factorize(
    values: np.ndarray | list[Any], name: str
) -> tuple[Int64[np.ndarray, " rows"], Shaped[np.ndarray, " names"]]:
    """Codes of a column and its sorted names; missing values and mixed types are refused."""
    if isinstance(values, np.ndarray):
        return _factorize_numbers(values, name)
    # a hash table sees each row once and leaves only the distinct names to sort
    book = list(dict.fromkeys(values))
    missing = [entry for entry in book if _is_missing(entry)]
    if missing:
        first = min(_position(values, entry) for entry in missing)
        _refuse_missing(first, name)
    kinds = {str if isinstance(entry, str) else type(entry) for entry in book}
    if len(kinds) > 1 or not issubclass(next(iter(kinds)), str | int | float | np.number):
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        message = f"{name} must be all text or all numbers of one type, got {found}"
        raise LabelError(f"{message}: convert the column first", column=name)
    book.sort()
    code = {entry: position for position, entry in enumerate(book)}
    codes = np.fromiter(map(code.__getitem__, values), dtype=np.int64, count=len(values))
    return codes, np.array(book)


def _factorize_numbers(
    values: np.ndarray, name: str
) -> tuple[Int64[np.ndarray, " rows"], Shaped[np.ndarray, " names"]]:
    """The same for a numeric array; integers of a small range need no sort."""
    if values.dtype.kind == "f" and np.isnan(values).any():
        _refuse_missing(int(np.isnan(values).argmax()), name)
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * len(values) and high <= np.iinfo(np.int64).max:
            offset = values.astype(np.int64) - low
            present = np.zeros(high - low + 1, dtype=np.bool_)
            present[offset] = True
            code = np.cumsum(present) - 1
            return code[offset], (np.flatnonzero(present) + low).astype(values.dtype)
    names, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int64), names


def class_book(classes: Sequence[Any]) -> Shaped[np.ndarray, " classes"]:
    """Declared classes, in their order."""
    given = column(classes)
    if not len(given):
        raise LabelError("classes must be one or more names, got none", column="classes")
    codes, names = factorize(given, "classes")
    if len(names) < len(codes):
        message = f"classes must all differ, got {len(codes)} of which {len(names)} differ"
        raise LabelError(message, column="classes")
    book: np.ndarray = names[codes]
    return book


def lookup(
    names: Shaped[np.ndarray, " names"], book: Shaped[np.ndarray, " codes"]
) -> Int64[np.ndarray, " names"]:
    """Code of each name in a book, -1 where the book does not hold it."""
    code = {name: position for position, name in enumerate(book.tolist())}
    return np.array([code.get(name, -1) for name in names.tolist()], dtype=np.int64)


def declared(
    codes: Int64[np.ndarray, " rows"],
    names: Shaped[np.ndarray, " names"],
    classes: Shaped[np.ndarray, " classes"],
) -> Int64[np.ndarray, " rows"]:
    """Codes of a label column in the book of classes; a label that is not in it is refused."""
    code: np.ndarray = lookup(names, classes)[codes]
    if (code < 0).any():
        row = int((code < 0).argmax())
        raise LabelError(
            f"label at row {row} (counted from 0) is not one of the classes "
            f"{tuple(classes.tolist())}: add it to classes or leave the row out",
            column="label",
            row=row,
        )
    return code


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def sort_codes(
    code: Int[np.ndarray, " rows"], n_codes: int
) -> tuple[Int64[np.ndarray, " rows"], Int64[np.ndarray, " offsets"]]:
    """Stable counting sort: the order of the rows, and where the rows of each code start."""
    start = np.zeros(n_codes + 1, dtype=np.int64)
    for row in range(len(code)):
        start[code[row] + 1] += 1
    for position in range(n_codes):
        start[position + 1] += start[position]
    place = start[:-1].copy()
    order = np.empty(len(code), dtype=np.int64)
    for row in range(len(code)):
        order[place[code[row]]] = row
        place[code[row]] += 1
    return order, start


def freeze_arrays(result: Any) -> None:
    """Make every array of a frozen result read-only; called from its ``__post_init__``."""
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


def _is_missing(entry: Any) -> bool:
    """None, NaN, pandas' NA and NaT, or text that is blank."""
    if isinstance(entry, str):
        return not entry.strip()
    return entry is None or type(entry).__name__ in ("NAType", "NaTType") or bool(entry != entry)


def _position(values: list[Any], entry: Any) -> int:
    """First row that holds this very entry; NaN differs from itself, None equals only None."""
    return next(row for row, value in enumerate(values) if value is entry or _is_missing(value))


def _refuse_missing(row: int, name: str) -> NoReturn:
    raise LabelError(
        f"{name} is missing at row {row} (counted from 0): fill it in or leave the row out",
        column=name,
        row=row,
    )

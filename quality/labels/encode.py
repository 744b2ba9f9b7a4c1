"""Columns as callers hold them, each coded the cheapest exact way. Private to this room."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Int, Shaped
from numba import njit

from quality.labels.arrow_texts import column_texts
from quality.labels.codes import LabelError, column, factorize
from quality.labels.text_codes import code_texts
from quality.labels.texts import Texts, text_array

__all__ = ["check_codes", "code_columns"]

MANY = 2**15  # rows that are worth loading the kernels for text

Coded = tuple[Int[np.ndarray, " rows"], Shaped[np.ndarray, " names"]]


def code_columns(**columns: Iterable[Any]) -> dict[str, Coded]:
    """Codes and sorted names of equally long columns, which are refused if they are not sound."""
    held: dict[str, Any] = {n: v if _is_quick(v) else column(v) for n, v in columns.items()}
    lengths = [len(values) for values in held.values()]
    if len(set(lengths)) > 1:
        message = f"{', '.join(held)} must be equally long, got {lengths}"
        raise LabelError(f"{message}: one row per label", column=next(iter(held)))
    if not lengths[0]:
        raise LabelError("there must be at least one row, got none", column=next(iter(held)))
    return {name: _code(values, name) for name, values in held.items()}


def check_codes(
    name: str,
    code: Int[np.ndarray, " rows"],
    plural: str,
    book: Shaped[np.ndarray, " names"],
    *,
    in_order: bool,
) -> None:
    """Refuse codes outside their book, and a book with a name twice or, if asked, out of order."""
    if not (code.ndim == 1 and code.dtype.kind in "iu"):
        raise ValueError(f"{name} must be integer codes, got {code.dtype} of shape {code.shape}")
    if book.ndim != 1:
        raise ValueError(f"{plural} must be one name a code, got shape {book.shape}")
    if len(code) and not (code.min() >= 0 and code.max() < len(book)):
        found = f"{code.min()} to {code.max()}"
        raise ValueError(f"{name} must be codes of the {len(book)} {plural}, got {found}")
    if in_order and not (book[:-1] < book[1:]).all():
        raise ValueError(f"{plural} must be in increasing order, each name once")
    if not (in_order or len(np.unique(book)) == len(book)):
        raise ValueError(f"{plural} must all differ")


def _is_quick(values: Any) -> bool:
    """Whether a column need not become a list of objects, unless it has a fault."""
    if _distinct_of(values) is not None:
        return True
    return hasattr(values, "__len__") and len(values) >= MANY and column_texts(values) is not None


def _code(values: Any, name: str) -> Coded:
    """Codes and sorted names: where a column can tell its distinct values, they alone are sorted."""
    pieces = column_texts(values) if len(values) >= MANY else None
    if pieces is not None:
        return _code_texts(pieces) or factorize(column(values), name)
    distinct_of = _distinct_of(values)
    if distinct_of is None:
        return factorize(values, name)
    code, distinct = distinct_of()
    book = column(distinct)
    blank = any(isinstance(entry, str) and not entry.strip() for entry in book)
    if blank or code.min() < 0:
        return factorize(column(values), name)  # which names the first row at fault
    rank, names = factorize(book, name)
    return rank[code], names


def _code_texts(pieces: list[Texts]) -> Coded | None:
    """Codes and sorted names of texts that Arrow holds; None if one is blank."""
    code, found = code_texts(pieces, sum(len(piece.start) - 1 for piece in pieces))
    names = text_array(found)
    first = names.view(np.uint32).reshape(len(names), -1)[:, 0]
    open_to_doubt = names[(first <= ord(" ")) | (first > ord("~"))]
    return None if any(not name.strip() for name in open_to_doubt.tolist()) else (code, names)


def _distinct_of(values: Any) -> Callable[[], tuple[np.ndarray, Any]] | None:
    """The way to a column's codes and distinct values, if it is text in numpy or held by pandas."""
    dtype = getattr(values, "dtype", None)
    if isinstance(values, np.ndarray):
        text = values.dtype.kind == "U" and values.ndim == 1 and values.dtype.itemsize > 0
        return partial(_distinct_text, values) if text else None
    number = isinstance(dtype, np.dtype) and dtype.kind in "iuf"  # faster as an array
    found: Any = getattr(values, "factorize", None)
    return found if callable(found) and not number else None


def _distinct_text(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes of an array of text in the order of first appearance, and the distinct texts."""
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    letters = native.view(np.uint32).reshape(len(native), native.dtype.itemsize // 4)
    code, first = _hash_rows(letters)
    return code, native[first]


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _equal(letters, one, other):
    """Whether two rows are equal."""
    at = 0
    while at < letters.shape[1] and letters[one, at] == letters[other, at]:
        at += 1
    return at == letters.shape[1]


@no_type_check
@njit(cache=True, nogil=True)
def _hash_rows(letters):
    """Code of each row among the distinct rows, and the first row of each.

    A hash only proposes a row to compare with: equal codes mean equal letters.
    """
    n_rows, width = letters.shape
    code, first = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    hashes = np.empty(n_rows, np.uint64)
    slots, n_found = np.full(1024, -1, np.int32), 0
    for row in range(n_rows):
        key = np.uint64(14695981039346656037)  # FNV-1a, a letter at a time
        for at in range(width):
            key = (key ^ np.uint64(letters[row, at])) * np.uint64(1099511628211)
        key ^= key >> np.uint64(32)
        slot = key & np.uint64(len(slots) - 1)
        while True:
            found = slots[slot]
            if found < 0:
                break
            if hashes[found] == key and _equal(letters, first[found], row):
                break
            slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
        if found < 0:
            found, n_found = n_found, n_found + 1
            slots[slot], first[found], hashes[found] = found, row, key
            if 2 * n_found > len(slots):
                slots = np.full(4 * len(slots), -1, np.int32)
                for name in range(n_found):
                    slot = hashes[name] & np.uint64(len(slots) - 1)
                    while slots[slot] >= 0:
                        slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
                    slots[slot] = name
        code[row] = found
    return code, first[:n_found].copy()

"""Columns as callers hold them, checked and turned into integer codes the cheapest exact way.

>>> coded = code_columns(worker=["bob", "ann", "bob"], task=np.array([9, 2, 2]))
>>> coded["worker"]
(array([1, 0, 1]), array(['ann', 'bob'], dtype='<U3'))
>>> coded["task"]
(array([1, 0, 0]), array([2, 9]))

A list goes through a dictionary, an array of numbers or of text through NumPy or a hash table,
a column of pandas through its own `factorize`, and a long column of text held by Arrow through
:func:`~quality.labels.code_texts`, read where it lies. Arrow is not imported: its arrays have the
buffers as attributes. :func:`code_integers` codes integers in the order of their texts.
"""

from collections.abc import Callable, Iterable, Iterator, KeysView, Sequence, ValuesView
from dataclasses import fields
from functools import partial
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Int, Int32, Int64, Shaped
from numpy.typing import DTypeLike

from quality.labels.text_codes import code_texts, ranks
from quality.labels.texts import Texts, decimals, text_array
from quality.parallel import kernel, shared_out

__all__ = [
    "LabelError",
    "array_texts",
    "check_codes",
    "class_names",
    "code_columns",
    "code_integers",
    "column",
    "column_texts",
    "declared",
    "factorize",
    "freeze_arrays",
    "lookup",
    "sort_codes",
]

FILL_IN = "fill it in or leave the row out"
OFFSETS = {"string": np.int32, "large_string": np.int64}  # by the type's name


def array_texts(array: Any) -> Texts | None:
    """Return the texts of an Arrow array, not copied; None if it holds no text or a cell is missing.

    The texts of a slice have its own letters alone.
    """
    offset = OFFSETS.get(str(array.type))
    if offset is None or array.null_count:
        return None
    if not len(array):
        return Texts(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=offset))
    _, start, letters = array.buffers()
    bounds = np.frombuffer(start, dtype=offset)[array.offset : array.offset + len(array) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    own = np.frombuffer(letters or b"", dtype=np.uint8)[first:last]
    return Texts(own, bounds - bounds[0] if first else bounds)


def column_texts(values: Any) -> list[Texts] | None:
    """Return the texts, in pieces, of a column of Arrow or of pandas on Arrow; None for other columns."""
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "storage", None) == "pyarrow" or hasattr(dtype, "pyarrow_dtype"):
        values = getattr(values, "array", values).__arrow_array__()
    chunks = getattr(values, "chunks", [values])
    if not all(hasattr(chunk, "buffers") and hasattr(chunk, "null_count") for chunk in chunks):
        return None
    pieces = [texts for texts in map(array_texts, chunks) if texts is not None]
    return pieces if len(pieces) == len(chunks) else None


class LabelError(ValueError):
    """Labels that cannot be used; the message names the column, the row and the remedy.

    Parameters
    ----------
    message
        The fault and its remedy.
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
    if isinstance(values, list | tuple | Iterator | KeysView | ValuesView):
        return list(values)
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"a column must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind in "mM":  # in nanoseconds they would become numbers
        array = array.astype(f"{array.dtype.kind}8[us]")
    return array if array.dtype.kind in "iuf" else list(array.tolist())


def factorize(
    values: np.ndarray | list[Any], name: str
) -> tuple[Int64[np.ndarray, " rows"], Shaped[np.ndarray, " names"]]:
    """Return the codes of a column and its sorted names.

    Raises LabelError for missing values and mixed types.
    """
    if isinstance(values, np.ndarray):
        return _factorize_numbers(values, name)
    # a hash table reads each row once and leaves only the distinct names to sort
    try:
        names = list(dict.fromkeys(values))
    except TypeError:  # a cell that is not hashable, such as a list
        _refuse_parts(values, name)
    missing = [entry for entry in names if _is_missing(entry)]
    if missing:
        first = min(_position(values, entry) for entry in missing)
        _refuse(first, name, "is missing", FILL_IN)
    kinds = {str if isinstance(entry, str) else type(entry) for entry in names}
    if len(kinds) > 1 or not issubclass(next(iter(kinds)), str | int | float | np.number):
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        message = f"{name} must be all text or all numbers of one type, got {found}"
        raise LabelError(f"{message}: convert the column first", column=name)
    if str in kinds and any(entry.endswith("\0") for entry in names):  # NumPy would drop it
        row = next(row for row, entry in enumerate(values) if entry.endswith("\0"))
        _refuse(row, name, "ends with a NUL character", "take it off, as no name keeps it")
    names.sort()
    sorted_names = np.array(names)
    if isinstance(names[0], int) and sorted_names.dtype.kind not in "biu":
        raise LabelError(  # two of them could be equal as doubles
            f"{name} must be integers of 64 bits, all of which are signed or none, got {names[0]} to "
            f"{names[-1]}: give them as text",
            column=name,
        )
    code = {entry: position for position, entry in enumerate(names)}
    codes = np.fromiter(map(code.__getitem__, values), dtype=np.int64, count=len(values))
    return codes, sorted_names


def _factorize_numbers(
    values: np.ndarray, name: str
) -> tuple[Int64[np.ndarray, " rows"], Shaped[np.ndarray, " names"]]:
    """Return the codes of numbers and the sorted numbers; integers of a small range need no sort."""
    if values.dtype.kind == "f" and np.isnan(values).any():
        _refuse(int(np.isnan(values).argmax()), name, "is missing", FILL_IN)
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


def class_names(classes: Sequence[Any]) -> Shaped[np.ndarray, " classes"]:
    """Return declared classes, in their order; raise LabelError unless they are different names."""
    given = column(classes)
    if not len(given):
        raise LabelError("classes must be one or more names, got none", column="classes")
    codes, names = factorize(given, "classes")
    if len(names) < len(codes):
        message = f"classes must all differ, got {len(codes)} of which {len(names)} differ"
        raise LabelError(message, column="classes")
    in_order: np.ndarray = names[codes]
    return in_order


def lookup(
    names: Shaped[np.ndarray, " names"], vocabulary: Shaped[np.ndarray, " codes"]
) -> Int64[np.ndarray, " names"]:
    """Return the code of each name in a vocabulary, -1 for a name that is not in it."""
    code = {name: position for position, name in enumerate(vocabulary.tolist())}
    return np.array([code.get(name, -1) for name in names.tolist()], dtype=np.int64)


def declared(
    codes: Int64[np.ndarray, " rows"],
    names: Shaped[np.ndarray, " names"],
    classes: Shaped[np.ndarray, " classes"],
) -> Int64[np.ndarray, " rows"]:
    """Return the codes of a label column among the classes; raise LabelError for any other label."""
    code: np.ndarray = lookup(names, classes)[codes]
    if (code < 0).any():
        row = int((code < 0).argmax())
        raise LabelError(
            f"label at row {row} (counted from 0) is not one of the classes "
            f"{', '.join(map(repr, classes.tolist()))}: add it to classes or leave the row out",
            column="label",
            row=row,
        )
    return code


def sort_codes(
    code: Int[np.ndarray, " rows"], n_codes: int, *, kind: DTypeLike = np.int64
) -> tuple[Int[np.ndarray, " rows"], Int64[np.ndarray, " offsets"]]:
    """Sort codes, stably, by counting; return the order of the rows and where each code starts.

    `kind` is the type of the order, which must be able to count the rows.
    """
    start = np.zeros(n_codes + 1, dtype=np.int64)
    order = np.empty(len(code), dtype=kind)
    _sort_codes(code, start, np.zeros_like(start), order)
    return order, start


@kernel
def _sort_codes(code, start, place, order) -> None:
    for row in range(len(code)):
        start[code[row] + 1] += 1
    for position in range(len(start) - 1):
        start[position + 1] += start[position]
        place[position + 1] = start[position + 1]
    for row in range(len(code)):
        order[place[code[row]]] = row
        place[code[row]] += 1


def freeze_arrays(result: Any) -> None:
    """Make every array of a frozen result read-only; called from its ``__post_init__``."""
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


def _is_missing(entry: Any) -> bool:
    """Return whether an entry is None, NaN, pandas' NA or NaT, or text that is blank."""
    if isinstance(entry, str):
        return not entry.strip()
    return entry is None or type(entry).__name__ in ("NAType", "NaTType") or bool(entry != entry)


def _position(values: list[Any], entry: Any) -> int:
    """Return the first row that holds this entry, compared by identity, as NaN differs from itself."""
    return next(row for row, value in enumerate(values) if value is entry or _is_missing(value))


def _refuse(row: int, name: str, fault: str, remedy: str) -> NoReturn:
    message = f"{name} {fault} at row {row} (counted from 0): {remedy}"
    raise LabelError(message, column=name, row=row)


def _refuse_parts(values: list[Any], name: str) -> NoReturn:
    single = str | int | float | np.number | None
    row = next(row for row, entry in enumerate(values) if not isinstance(entry, single))
    fault = f"must be a column of text or of numbers, got a {type(values[row]).__name__}"
    _refuse(row, name, fault, "give each row one name")


MIN_INT32, MAX_INT32 = -(2**31), 2**31 - 1


def code_integers(
    pieces: Iterable[Int[np.ndarray, " _"]],
    n_values: int,
    *,
    to: Int32[np.ndarray, " values"] | None = None,
) -> tuple[Int32[np.ndarray, " values"], Texts]:
    """Return the codes of a column that comes in pieces, and its integers as text, in text order.

    Parameters
    ----------
    pieces
        Integers that fit into 64 bits with a sign, one piece after the other.
    n_values
        Number of integers of all pieces together.
    to
        Where the codes are written; fresh memory if None. Sixteen more bytes per integer are needed.

    Examples
    --------
    >>> from quality.labels.texts import text_array
    >>> code, names = code_integers([np.array([9, 10]), np.array([9])], 3)
    >>> code, text_array(names)
    (array([1, 0, 1], dtype=int32), array(['10', '9'], dtype='<U2'))
    """
    code = np.empty(n_values, dtype=np.int32) if to is None else to
    held, row, low, high = list[np.ndarray](), [0], 0, 0
    for piece in pieces:
        row.append(row[-1] + len(piece))
        values, room = piece.astype(np.int64, copy=False), code[row[-2] : row[-1]]
        least, most = int(values.min(initial=0)), int(values.max(initial=0))
        low, high = min(low, least), max(high, most)
        if least >= MIN_INT32 and most <= MAX_INT32:
            room[:] = values  # in the memory of the codes: fresh memory costs time
            held.append(room)
        else:
            held.append(values.copy())
    if high - low > 4 * n_values:  # each integer is coded as a text of eight bytes
        coded, found = code_texts(map(_eights, held), n_values)
        distinct = found.letters.view(np.int64)
        order = np.argsort(distinct)
        order = order[_in_text_order(distinct[order])]
        return np.take(ranks(order), coded, out=code), decimals(distinct[order])
    place = np.zeros(high - low + 1, dtype=np.int32)
    for piece in held:
        _mark(piece, low, place)
    distinct = np.flatnonzero(place) + low
    order = _in_text_order(distinct)
    place[distinct - low] = ranks(order)
    with shared_out(None, len(held)) as share:
        share(lambda at: _look_up(held[at], low, place, code[row[at] : row[at + 1]]))
    return code, decimals(distinct[order])


def _eights(values: Int[np.ndarray, " values"]) -> Texts:
    """Return each integer as a text of eight bytes."""
    letters = values.astype(np.int64, copy=False).view(np.uint8)
    return Texts(letters, np.arange(0, 8 * len(values) + 1, 8))


def _in_text_order(ascending: Int64[np.ndarray, " values"]) -> Int64[np.ndarray, " values"]:
    """Return the positions of ascending integers in the order of their texts.

    A minus comes before a digit. Texts of one sign are ordered as their digits behind a decimal point. Of
    equals the shorter comes first, which it does already. The sort merges one run for each number of
    digits.
    """
    n_negative = int(np.searchsorted(ascending, 0))
    negative = np.argsort(_behind_point(ascending[:n_negative][::-1].copy()), kind="stable")
    others = np.argsort(_behind_point(ascending[n_negative:]), kind="stable")
    return np.concatenate([n_negative - 1 - negative, n_negative + others])


@kernel
def _behind_point(values):
    """Return the digits of integers, filled with zeros to nineteen digits."""
    found = np.empty(len(values), dtype=np.uint64)
    for at in range(len(values)):
        negative = np.int64(values[at] < 0)
        size = np.uint64(abs(values[at] + negative)) + np.uint64(negative)  # -2**63 fits as well
        while np.uint64(0) < size < np.uint64(10**18):
            size *= np.uint64(10)
        found[at] = size
    return found


@kernel
def _mark(values, low, place):
    """Mark the place of each value that occurs."""
    for row in range(len(values)):
        place[np.int64(values[row]) - low] = 1


@kernel
def _look_up(values, low, place, code):
    """Write the code at the place of each value."""
    for row in range(len(values)):
        code[row] = place[np.int64(values[row]) - low]


MANY = 2**15  # rows, at least, for which loading the kernels for text saves time

Coded = tuple[Int[np.ndarray, " rows"], Shaped[np.ndarray, " names"]]


def code_columns(**columns: Iterable[Any]) -> dict[str, Coded]:
    """Return the codes and sorted names of equally long columns; raise LabelError for a fault."""
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
    names: Shaped[np.ndarray, " names"],
    *,
    in_order: bool,
) -> None:
    """Raise ValueError unless codes are places in `names`, which differ and, if asked, ascend."""
    if not (code.ndim == 1 and code.dtype.kind in "iu"):
        raise ValueError(f"{name} must be integer codes, got {code.dtype} of shape {code.shape}")
    if names.ndim != 1:
        raise ValueError(f"{plural} must be one name a code, got shape {names.shape}")
    if len(code) and not (code.min() >= 0 and code.max() < len(names)):
        found = f"{code.min()} to {code.max()}"
        raise ValueError(f"{name} must be codes of the {len(names)} {plural}, got {found}")
    if in_order and not (names[:-1] < names[1:]).all():
        raise ValueError(f"{plural} must be in increasing order, each name once")
    if not (in_order or len(np.unique(names)) == len(names)):
        raise ValueError(f"{plural} must all differ")


def _is_quick(values: Any) -> bool:
    """Return whether a column need not become a list of objects, unless it has a fault."""
    if _distinct_of(values) is not None:
        return True
    return hasattr(values, "__len__") and len(values) >= MANY and column_texts(values) is not None


def _code(values: Any, name: str) -> Coded:
    """Return codes and sorted names; only distinct values are sorted if the column can list them."""
    pieces = column_texts(values) if len(values) >= MANY else None
    if pieces is not None:
        return _code_texts(pieces) or factorize(column(values), name)
    distinct_of = _distinct_of(values)
    if distinct_of is None:
        return factorize(values, name)
    code, distinct = distinct_of()
    found = column(distinct)
    blank = any(isinstance(entry, str) and not entry.strip() for entry in found)
    if blank or code.min() < 0:
        return factorize(column(values), name)  # raises an error that names the first row at fault
    rank, names = factorize(found, name)
    return rank[code], names


def _code_texts(pieces: list[Texts]) -> Coded | None:
    """Return codes and sorted names of texts that Arrow holds; None if one is blank or ends with a NUL."""
    code, found = code_texts(pieces, sum(len(piece.start) - 1 for piece in pieces))
    end = found.start[1:][np.diff(found.start) > 0]
    if len(end) < len(found.start) - 1 or not found.letters[end - 1].all():
        return None
    names = text_array(found)
    first = names.view(np.uint32).reshape(len(names), -1)[:, 0]
    open_to_doubt = names[(first <= ord(" ")) | (first > ord("~"))]
    return None if any(not name.strip() for name in open_to_doubt.tolist()) else (code, names)


def _distinct_of(values: Any) -> Callable[[], tuple[np.ndarray, Any]] | None:
    """Return a function of a column's codes and distinct values, for text in NumPy and for pandas."""
    dtype = getattr(values, "dtype", None)
    if isinstance(values, np.ndarray):
        text = values.dtype.kind == "U" and values.ndim == 1 and values.dtype.itemsize > 0
        return partial(_distinct_text, values) if text else None
    number = isinstance(dtype, np.dtype) and dtype.kind in "iuf"  # faster as an array
    found: Any = getattr(values, "factorize", None)
    return found if callable(found) and not number else None


def _distinct_text(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of an array of text in the order of first appearance, and the distinct texts."""
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    letters = native.view(np.uint32).reshape(len(native), native.dtype.itemsize // 4)
    code, first = (np.empty(len(letters), dtype=np.int32) for _ in range(2))
    # slots that are never written cost no memory
    slots = np.zeros(1 << (2 * len(letters)).bit_length(), dtype=np.int32)
    n_found = _hash_rows(letters, slots, code, first, np.empty(len(letters), dtype=np.uint64))
    return code, native[first[:n_found]]


@kernel
def _hash_rows(letters, slots, code, first, hashes):
    """Write the code of each row among the distinct rows, and the first row of each; return their number.

    A hash only proposes a row to compare with: equal codes mean equal letters. A slot holds a code plus
    one, or 0 while it is free; there are more slots than rows.
    """
    n_rows, width = letters.shape
    n_found = 0
    for row in range(n_rows):
        key = np.uint64(14695981039346656037)  # FNV-1a, a letter at a time
        for at in range(width):
            key = (key ^ np.uint64(letters[row, at])) * np.uint64(1099511628211)
        key ^= key >> np.uint64(32)
        slot = key & np.uint64(len(slots) - 1)
        while True:
            found = slots[slot] - 1
            if found < 0:
                break
            if hashes[found] == key:
                at = 0
                while at < width and letters[first[found], at] == letters[row, at]:
                    at += 1
                if at == width:
                    break
            slot = (slot + np.uint64(1)) & np.uint64(len(slots) - 1)
        if found < 0:
            found, n_found = n_found, n_found + 1
            slots[slot], first[found], hashes[found] = n_found, row, key
        code[row] = found
    return n_found

"""Columns of integers coded as the texts they are written as. Private to this package."""

from collections.abc import Iterable
from typing import no_type_check

import numpy as np
from jaxtyping import Int, Int32, Int64
from numba import njit

from quality.labels.text_codes import code_texts, ranks
from quality.labels.texts import Texts, decimals
from quality.parallel import shared_out

__all__ = ["code_integers"]

MIN_INT32, MAX_INT32 = -(2**31), 2**31 - 1


def code_integers(
    pieces: Iterable[Int[np.ndarray, " _"]], n_values: int, *, threads: int | None = None
) -> tuple[Int32[np.ndarray, " values"], Texts]:
    """Codes of a column that comes in pieces, and the distinct integers as text, in text's order.

    Parameters
    ----------
    pieces
        Integers that fit into 64 bits with a sign, one piece after the other.
    n_values
        How many integers all pieces hold together.
    threads
        How many threads work; None for one per core.

    Examples
    --------
    >>> from quality.labels.texts import text_array
    >>> code, names = code_integers([np.array([9, 10]), np.array([9])], 3)
    >>> code, text_array(names)
    (array([1, 0, 1], dtype=int32), array(['10', '9'], dtype='<U2'))
    """
    code, held, row, low, high = np.empty(n_values, dtype=np.int32), list[np.ndarray](), [0], 0, 0
    for piece in pieces:
        row.append(row[-1] + len(piece))
        values = piece.astype(np.int64, copy=False).view()
        values.flags.writeable = False  # one kind of array, one compiled kernel
        room = code[row[-2] : row[-1]]
        least, most = _narrow(values, room)
        low, high = min(low, least), max(high, most)
        held.append(room if least >= MIN_INT32 and most <= MAX_INT32 else values.copy())
    if high - low > 4 * n_values:  # eight bytes are a text
        code, found = code_texts(map(_eights, held), n_values, threads=threads)
        distinct = found.letters.view(np.int64)
        order = np.argsort(distinct)
        order = order[_in_text_order(distinct[order])]
        _to_rank(ranks(order), code)
        return code, decimals(distinct[order])
    place = np.zeros(high - low + 1, dtype=np.int32)
    for piece in held:
        _mark(piece, low, place)
    distinct = np.flatnonzero(place) + low
    order = _in_text_order(distinct)
    place[distinct - low] = ranks(order)
    with shared_out(threads, len(held)) as share:
        share(lambda at: _look_up(held[at], low, place, code[row[at] : row[at + 1]]))
    return code, decimals(distinct[order])


def _eights(values: Int[np.ndarray, " values"]) -> Texts:
    """Each integer as a text of eight bytes."""
    letters = values.astype(np.int64, copy=False).view(np.uint8)
    return Texts(letters, np.arange(0, 8 * len(values) + 1, 8))


def _in_text_order(ascending: Int64[np.ndarray, " values"]) -> Int64[np.ndarray, " values"]:
    """Positions of ascending integers in the order of their texts: a minus comes before a digit.

    Texts stand as their digits behind a decimal point do, and where those are equal the shorter
    comes first, which it does already. The sort merges one run for each number of digits.
    """
    n_negative = int(np.searchsorted(ascending, 0))
    negative = np.argsort(_behind_point(ascending[:n_negative][::-1].copy()), kind="stable")
    others = np.argsort(_behind_point(ascending[n_negative:]), kind="stable")
    return np.concatenate([n_negative - 1 - negative, n_negative + others])


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _behind_point(values):
    """The digits of integers, filled up with zeros to nineteen."""
    found = np.empty(len(values), dtype=np.uint64)
    for at in range(len(values)):
        negative = np.int64(values[at] < 0)
        size = np.uint64(abs(values[at] + negative)) + np.uint64(negative)  # -2**63 fits as well
        while np.uint64(0) < size < np.uint64(10**18):
            size *= np.uint64(10)
        found[at] = size
    return found


@no_type_check
@njit(cache=True, nogil=True)
def _narrow(values, room):
    """Copy values to where their codes will be: fresh memory costs time. The least and the most."""
    least = most = np.int64(0)
    for row in range(len(values)):
        least, most = min(least, values[row]), max(most, values[row])
        room[row] = values[row]
    return least, most


@no_type_check
@njit(cache=True, nogil=True)
def _to_rank(rank, code):
    for row in range(len(code)):
        code[row] = rank[code[row]]


@no_type_check
@njit(cache=True, nogil=True)
def _mark(values, low, place):
    for row in range(len(values)):
        place[np.int64(values[row]) - low] = 1


@no_type_check
@njit(cache=True, nogil=True)
def _look_up(values, low, place, code):
    for row in range(len(values)):
        code[row] = place[np.int64(values[row]) - low]

"""Columns of text coded exactly, from their bytes. Private to this package.

A hash only proposes a name to compare with, so equal codes mean equal bytes.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Int32, Int64, UInt8, UInt64
from numba import njit

from quality.labels.text_parts import PARTS, Room, bring_together, room_for, room_of
from quality.labels.texts import Texts, copy_text, eight, joined, sorted_texts
from quality.parallel import shared_out

__all__ = ["code_texts", "ranks"]


class _Book(NamedTuple):
    """The names met so far in one part, in the order of first appearance, and their hash table.

    A slot holds the lower half of a name's hash and, counted from 1, its code; 0 is a free one.
    """

    letters: UInt8[np.ndarray, " letters"]
    start: Int64[np.ndarray, " starts"]
    key: UInt64[np.ndarray, " keys"]
    slots: UInt64[np.ndarray, " slots"]
    n_names: int


class _Piece(NamedTuple):
    """The part of each row; where the rows of each part start, and their codes in its book."""

    part: UInt8[np.ndarray, " rows"]
    row_start: Int64[np.ndarray, " row_starts"]
    code: Int32[np.ndarray, " rows"]


def code_texts(
    pieces: Iterable[Texts], n_texts: int, *, threads: int | None = None
) -> tuple[Int32[np.ndarray, " texts"], Texts]:
    """Codes of a column that comes in pieces, and its distinct texts in the order of their bytes.

    Parameters
    ----------
    pieces
        The column, one piece after the other.
    n_texts
        How many texts all pieces hold together.
    threads
        How many threads work; None for one per core.

    Returns
    -------
    tuple of int32 array and Texts
        ``texts[code[i]]`` are the bytes of text ``i``; each occurs, and no two are equal. In UTF-8
        the order of the bytes is that of the characters.

    Notes
    -----
    **Guarantees.** Equal codes mean equal bytes, whatever the hashes. Same result on any number of
    threads, and however the column is cut into pieces.

    **Cost.** Linear in the bytes, plus sorting the distinct texts. Memory beyond the result: the
    distinct texts, and another copy of one piece, whose texts are brought together by the first
    bits of their hashes, so that they meet in a cache.

    Examples
    --------
    >>> from quality.labels.texts import text_array
    >>> letters = np.frombuffer(b"t9t10t9", dtype=np.uint8)
    >>> code, names = code_texts([Texts(letters, np.array([0, 2, 5, 7]))], 3)
    >>> code, text_array(names)
    (array([1, 0, 1], dtype=int32), array(['t10', 't9'], dtype='<U3'))
    """
    code = np.empty(n_texts, dtype=np.int32)
    coded, first, names = _code_pieces(pieces, code, threads)
    order, found = sorted_texts(names)
    rank = ranks(order)
    with shared_out(threads, len(coded)) as share:
        share(lambda at: _to_rows(*coded[at], first, rank))
    return code, found


def ranks(order: Int64[np.ndarray, " names"]) -> Int32[np.ndarray, " names"]:
    """The place of each name in their order."""
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank


def _code_pieces(
    pieces: Iterable[Texts], code: Int32[np.ndarray, " texts"], threads: int | None
) -> tuple[list[_Piece], Int64[np.ndarray, " name_starts"], Texts]:
    """The pieces in codes of the parts' books, where the names of each book start, and the names."""
    books, room, coded, row = [_new_book() for _ in range(PARTS)], room_of(0, 0), list[_Piece](), 0
    with shared_out(threads, PARTS) as share:
        for piece in pieces:
            room, end = room_for(piece, room), row + len(piece.start) - 1
            coded.append(_code_piece(piece, books, room, code[row:end], share))
            row = end
    names = joined(
        [Texts(b.letters[: b.start[b.n_names]], b.start[: b.n_names + 1]) for b in books]
    )
    return coded, np.cumsum([0, *(book.n_names for book in books)]), names


def _code_piece(
    piece: Texts,
    books: list[_Book],
    room: Room,
    code: Int32[np.ndarray, " rows"],
    share: Callable[[Callable[[int], None]], object],
) -> _Piece:
    """Codes of a piece in the books of the parts; new names join them."""
    letters, start = piece.letters.view(), room.start[: len(code) + 1]
    letters.flags.writeable = False  # one kind of array, one compiled kernel
    start[:] = piece.start
    part = np.empty(len(code), dtype=np.uint8)
    texts = room.letters, room.size, room.key
    row_start, byte_start = bring_together(letters, start, room.hash, *texts, part)

    def code_part(at: int) -> None:
        books[at] = _Book(*_code_part(at, row_start, byte_start, texts, code, *books[at]))

    share(code_part)
    return _Piece(part, row_start, code)


def _new_book() -> _Book:
    start, slots = np.zeros(256, dtype=np.int64), np.zeros(256, dtype=np.uint64)
    return _Book(np.empty(1024, np.uint8), start, np.empty(256, np.uint64), slots, 0)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _code_part(part, row_start, byte_start, texts, code, names, start, key, slots, n_names):
    """Code the texts of one part in a piece; new names join the book, which comes back."""
    row, low, end = row_start[part], byte_start[part], row_start[part + 1]
    while True:
        row, low, n_names = _code_rows(
            row, end, low, texts, code, names, start, key, slots, n_names
        )
        if row == end:
            return names, start, key, slots, n_names
        used, size = start[n_names], texts[1][row]
        if used + size > len(names):
            names = _longer(names, 2 * (used + size))
        if 2 * n_names + 2 > len(slots):
            slots = _more_slots(key, n_names, 2 * len(slots))
            start, key = _longer(start, len(slots)), _longer(key, len(slots))


@no_type_check
@njit(cache=True, nogil=True)
def _code_rows(row, end, low, texts, code, names, start, key, slots, n_names):
    """Code rows up to the end, or to the first that the book has no room for.

    Apart from what makes room, so that no array changes within the loop.
    """
    letters, size_of, keys = texts
    half, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    most_names, most_letters, most_slots = len(slots) // 2 - 1, len(names), np.int64(len(slots))
    while row < end:
        sought, size = keys[row] << shift, np.int64(size_of[row])
        slot, found = _slot(keys[row], most_slots), np.int64(-1)
        held = slots[slot]
        while held:
            if held & ~half == sought:
                name = np.int64(held & half) - 1
                at = start[name]
                if size == start[name + 1] - at and _same(letters, low, names, at, size):
                    found = name
                    break
            slot = slot + 1 if slot + 1 < most_slots else 0
            held = slots[slot]
        if found < 0:
            at = start[n_names]
            if n_names > most_names or at + size > most_letters:
                break
            found, n_names = n_names, n_names + 1
            copy_text(letters, low, size, names, at)
            start[n_names], key[found] = at + size, keys[row]
            slots[slot] = sought | np.uint64(n_names)
        code[row] = found
        row, low = row + 1, low + size
    return row, low, n_names


@no_type_check
@njit(cache=True, nogil=True)
def _slot(key, n_slots):
    """The slot of a hash among a power of two: by the bits behind those of the part."""
    return np.int64((key >> np.uint64(20)) & np.uint64(n_slots - 1))


@no_type_check
@njit(cache=True, nogil=True, forceinline=True)  # a call would count references, from all threads
def _same(one, low, other, at, size):
    """Whether two texts of one size are equal."""
    if size < 8:
        place = 0
        while place < size and one[low + place] == other[at + place]:
            place += 1
        return place == size
    for place in range(0, size - 8, 8):
        if eight(one, low + place) != eight(other, at + place):
            return False
    return eight(one, low + size - 8) == eight(other, at + size - 8)


@no_type_check
@njit(cache=True, nogil=True)
def _longer(array, size):
    """The same values in a longer array."""
    longer = np.empty(size, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@no_type_check
@njit(cache=True, nogil=True)
def _more_slots(name_key, n_names, n_slots):
    """A larger hash table of the same names."""
    slots = np.zeros(n_slots, dtype=np.uint64)
    for name in range(n_names):
        slot = _slot(name_key[name], n_slots)
        while slots[slot]:
            slot = slot + 1 if slot + 1 < n_slots else 0
        slots[slot] = name_key[name] << np.uint64(32) | np.uint64(name + 1)
    return slots


@no_type_check
@njit(cache=True, nogil=True)
def _to_rows(part, row_start, code, first, rank):
    """Codes of a piece in the order of its rows, as ranks among all names, in their own place."""
    found, place = code.copy(), row_start.copy()
    for row in range(len(code)):
        mine = np.int64(part[row])
        code[row] = rank[first[mine] + found[place[mine]]]
        place[mine] += 1

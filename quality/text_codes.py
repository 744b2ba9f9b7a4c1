"""Columns of text coded exactly, from their bytes. Private to this package.

Bytes are hashed eight at a time. A hash only proposes a name to compare with, so equal codes mean
equal bytes.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Int32, Int64, UInt8, UInt64
from numba import njit

from quality.chunks import shared_out
from quality.texts import Texts, copy_text, eight, joined, sorted_texts

__all__ = ["code_texts", "ranks"]

PARTS = 64  # of the texts, by the first bits of their hash: the names of one fit into a cache


class _Book(NamedTuple):
    """The names met so far in one part, in the order of first appearance, and their hash table.

    A slot holds the lower half of a name's hash and, counted from 1, its code; 0 is a free one.
    """

    letters: UInt8[np.ndarray, " letters"]
    start: Int64[np.ndarray, " starts"]
    key: UInt64[np.ndarray, " keys"]
    slots: UInt64[np.ndarray, " slots"]
    n_names: int


def code_texts(
    pieces: Iterable[Texts], *, threads: int | None = None
) -> tuple[Int32[np.ndarray, " texts"], Texts]:
    """Codes of a column that comes in pieces, and its distinct texts in the order of their bytes.

    Parameters
    ----------
    pieces
        The column, one piece after the other.
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
    >>> from quality.texts import text_array
    >>> letters = np.frombuffer(b"t9t10t9", dtype=np.uint8)
    >>> code, names = code_texts([Texts(letters, np.array([0, 2, 5, 7]))])
    >>> code, text_array(names)
    (array([1, 0, 1], dtype=int32), array(['t10', 't9'], dtype='<U3'))
    """
    books = [_new_book() for _ in range(PARTS)]
    with shared_out(threads, PARTS) as share:
        codes = [np.empty(0, dtype=np.int32)]
        codes += (_code_piece(piece, books, share) for piece in pieces)
    names = [Texts(b.letters[: b.start[b.n_names]], b.start[: b.n_names + 1]) for b in books]
    order, found = sorted_texts(joined(names), threads=threads)
    first = np.cumsum([0, *(book.n_names for book in books)])
    rank = ranks(order)
    with shared_out(threads, len(codes)) as share:
        share(lambda at: _to_ranks(first, rank, codes[at]))
    return np.concatenate(codes), found


def ranks(order: Int64[np.ndarray, " names"]) -> Int32[np.ndarray, " names"]:
    """The place of each name in their order."""
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank


def _code_piece(
    piece: Texts, books: list[_Book], share: Callable[[Callable[[int], None]], object]
) -> Int32[np.ndarray, " texts"]:
    """Codes of a piece, which say the part and the code in it; new names join the books."""
    letters = piece.letters.view()
    letters.flags.writeable = False  # one kind of array, one compiled kernel
    together = _bring_together(letters, piece.start.astype(np.int64))
    code = np.empty(len(piece.start) - 1, dtype=np.int32)

    def code_part(part: int) -> None:
        books[part] = _Book(*_code_part(part, *together, code, *books[part]))

    share(code_part)
    return code


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
            part, row, end, low, texts, code, names, start, key, slots, n_names
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
def _code_rows(part, row, end, low, texts, code, names, start, key, slots, n_names):
    """Code rows up to the end, or to the first that the book has no room for.

    Apart from what makes room, so that no array changes within the loop.
    """
    letters, size_of, keys, row_of = texts
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
        code[row_of[row]] = found * PARTS + part
        row, low = row + 1, low + size
    return row, low, n_names


@no_type_check
@njit(cache=True, nogil=True)
def _bring_together(letters, start):
    """The texts of a piece with those of a part together: so they meet in a cache.

    Where the rows and the bytes of each part start; letters, size, hash and row of each text.
    """
    n_rows = len(start) - 1
    row_at, byte_at = np.zeros(PARTS + 1, dtype=np.int64), np.zeros(PARTS + 1, dtype=np.int64)
    hashes = np.empty(n_rows, dtype=np.uint64)
    for row in range(n_rows):
        low, high = np.int64(start[row]), np.int64(start[row + 1])
        hashes[row] = _hash(letters, low, high)
        part = _part(hashes[row])
        row_at[part + 1] += 1
        byte_at[part + 1] += high - low
    for part in range(PARTS):
        row_at[part + 1] += row_at[part]
        byte_at[part + 1] += byte_at[part]
    row_start, byte_start = row_at.copy(), byte_at.copy()
    to, size = np.empty(byte_at[PARTS], dtype=np.uint8), np.empty(n_rows, dtype=np.int32)
    key, row_of = np.empty(n_rows, dtype=np.uint64), np.empty(n_rows, dtype=np.int32)
    for row in range(n_rows):
        low, part = np.int64(start[row]), _part(hashes[row])
        length, put = np.int64(start[row + 1]) - low, row_at[part]
        copy_text(letters, low, length, to, byte_at[part])
        size[put], key[put], row_of[put] = length, hashes[row], row
        row_at[part] += 1
        byte_at[part] += length
    return row_start, byte_start, (to, size, key, row_of)


@no_type_check
@njit(cache=True, nogil=True)
def _hash(letters, low, high):
    """A hash of a text: its size and its words, multiplied and folded one after the other."""
    mixed, at = np.uint64(high - low) * np.uint64(0x9E3779B97F4A7C15), low
    while at < high:
        if at + 8 <= high:
            word = eight(letters, at)
        elif high - low >= 8:
            word = eight(letters, high - 8)
        else:
            word = _few(letters, at, high)
        mixed = (mixed ^ word) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
        at += 8
    return mixed * np.uint64(0x9E3779B97F4A7C15)


@no_type_check
@njit(cache=True, nogil=True)
def _few(letters, low, high):
    """Fewer than eight bytes as one number."""
    word = np.uint64(0)
    for at in range(low, high):
        word = word << np.uint64(8) | np.uint64(letters[at])
    return word


@no_type_check
@njit(cache=True, nogil=True)
def _part(key):
    """The part of a hash: its first six bits."""
    return np.int64(key >> np.uint64(58))


@no_type_check
@njit(cache=True, nogil=True)
def _slot(key, n_slots):
    """The slot of a hash among a power of two: by the bits behind those of the part."""
    return np.int64((key >> np.uint64(20)) & np.uint64(n_slots - 1))


@no_type_check
@njit(cache=True, nogil=True)
def _same(one, low, other, at, size):
    """Whether two texts of one size are equal."""
    if size < 8:
        place = 0
        while place < size and one[low + place] == other[at + place]:
            place += 1
        return place == size
    for place in range(0, size - 7, 8):
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
def _to_ranks(first, rank, code):
    """Turn codes that say the part, and the code in it, into ranks."""
    for row in range(len(code)):
        code[row] = rank[first[code[row] % PARTS] + code[row] // PARTS]

"""Columns of text coded exactly, from their bytes. Private to this package.

A hash only proposes a name to compare with, so equal codes mean equal bytes.

The texts of a piece brought together by the first bits of their hash. Private to this package.

Bytes are hashed eight at a time.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, Int64, UInt8, UInt64

from quality.labels.texts import Texts, copy_text, eight, joined, sorted_texts
from quality.parallel import kernel, shared_out

__all__ = ["PARTS", "Room", "bring_together", "code_texts", "ranks", "room_for", "room_of"]

PARTS = 64  # of the texts: the names of one fit into a cache


class Room(NamedTuple):
    """Memory for one piece after the other: fresh pages would cost as much as what is done in them.

    The bounds and the hashes of the texts as they come; their letters, sizes and hashes by part.
    """

    start: Int64[np.ndarray, " starts"]
    hash: UInt64[np.ndarray, " rows"]
    letters: UInt8[np.ndarray, " letters"]
    size: Int32[np.ndarray, " rows"]
    key: UInt64[np.ndarray, " rows"]


def room_for(piece: Texts, room: Room) -> Room:
    """The same room if the piece fits in, or a larger one."""
    n_rows, n_bytes = len(piece.start) - 1, int(piece.start[-1] - piece.start[0])
    if n_rows <= len(room.size) and n_bytes <= len(room.letters):
        return room
    return room_of(max(n_rows, len(room.size)), max(n_bytes, len(room.letters)))


def room_of(n_rows: int, n_bytes: int) -> Room:
    """Room for pieces of so many texts and bytes."""
    start, letters = np.empty(n_rows + 1, dtype=np.int64), np.empty(n_bytes, dtype=np.uint8)
    size, key = np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.uint64)
    return Room(start, np.empty_like(key), letters, size, key)


@kernel
def bring_together(letters, start, hashes, to, size, key, part):
    """The texts of a piece with those of a part together: so they meet in a cache.

    Returned is where the rows and the bytes of each part start.
    """
    row_at, byte_at = np.zeros(PARTS + 1, dtype=np.int64), np.zeros(PARTS + 1, dtype=np.int64)
    for row in range(len(part)):
        low, high = start[row], start[row + 1]
        hashes[row] = _hash(letters, low, high)
        part[row] = hashes[row] >> np.uint64(58)
        row_at[part[row] + 1] += 1
        byte_at[part[row] + 1] += high - low
    for at in range(PARTS):
        row_at[at + 1] += row_at[at]
        byte_at[at + 1] += byte_at[at]
    row_start, byte_start = row_at.copy(), byte_at.copy()
    for row in range(len(part)):
        low, length, mine = start[row], start[row + 1] - start[row], np.int64(part[row])
        put = row_at[mine]
        copy_text(letters, low, length, to, byte_at[mine])
        size[put], key[put] = length, hashes[row]
        row_at[mine] += 1
        byte_at[mine] += length
    return row_start, byte_start


@kernel(forceinline=True)
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


@kernel
def _few(letters, low, high):
    """Fewer than eight bytes as one number."""
    word = np.uint64(0)
    for at in range(low, high):
        word = word << np.uint64(8) | np.uint64(letters[at])
    return word


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


@kernel
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


@kernel
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


@kernel
def _slot(key, n_slots):
    """The slot of a hash among a power of two: by the bits behind those of the part."""
    return np.int64((key >> np.uint64(20)) & np.uint64(n_slots - 1))


@kernel(forceinline=True)  # a call would count references, from all threads
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


@kernel
def _longer(array, size):
    """The same values in a longer array."""
    longer = np.empty(size, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def _more_slots(name_key, n_names, n_slots):
    """A larger hash table of the same names."""
    slots = np.zeros(n_slots, dtype=np.uint64)
    for name in range(n_names):
        slot = _slot(name_key[name], n_slots)
        while slots[slot]:
            slot = slot + 1 if slot + 1 < n_slots else 0
        slots[slot] = name_key[name] << np.uint64(32) | np.uint64(name + 1)
    return slots


@kernel
def _to_rows(part, row_start, code, first, rank):
    """Codes of a piece in the order of its rows, as ranks among all names, in their own place."""
    found, place = code.copy(), row_start.copy()
    for row in range(len(code)):
        mine = np.int64(part[row])
        code[row] = rank[first[mine] + found[place[mine]]]
        place[mine] += 1

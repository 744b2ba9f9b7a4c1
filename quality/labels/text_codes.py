"""Columns of text coded exactly, from their bytes, on several threads.

>>> letters = np.frombuffer(b"t9t10t9", dtype=np.uint8)
>>> code, names = code_texts([Texts(letters, np.array([0, 2, 5, 7]))], 3)
>>> code, names.letters.tobytes(), names.start
(array([1, 0, 1], dtype=int32), b't10t9', array([0, 3, 5]))

The texts of a piece are brought together in parts by the first bits of their hash, so that the names of
one part stay in a cache. Each part has a vocabulary of its own: its names and a hash table. A hash only
proposes a name to compare with, so that equal codes mean equal bytes.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, Int64, UInt8, UInt64

from quality.labels.texts import Texts, copy_text, eight, joined, read_only, sorted_texts
from quality.parallel import kernel, shared_out

__all__ = ["PARTS", "bring_together", "code_texts", "ranks"]

PARTS = 64  # of the texts: the names of one part fit into a cache


class Room(NamedTuple):
    """Memory that one piece after the other uses: fresh pages cost as much as the work on them.

    `start` and `hash` hold the texts in their order; `letters`, `size` and `key`, the hash again, hold
    them by part.
    """

    start: Int64[np.ndarray, " starts"]
    hash: UInt64[np.ndarray, " rows"]
    letters: UInt8[np.ndarray, " letters"]
    size: Int32[np.ndarray, " rows"]
    key: UInt64[np.ndarray, " rows"]


def room_for(piece: Texts, room: Room | None) -> Room:
    """Return the same room if the piece fits in, or a larger one."""
    n_rows, n_bytes = len(piece.start) - 1, int(piece.start[-1] - piece.start[0])
    if room is not None:
        if n_rows <= len(room.size) and n_bytes <= len(room.letters):
            return room
        n_rows, n_bytes = max(n_rows, len(room.size)), max(n_bytes, len(room.letters))
    start, letters = np.empty(n_rows + 1, dtype=np.int64), np.empty(n_bytes, dtype=np.uint8)
    size, key = np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.uint64)
    return Room(start, np.empty_like(key), letters, size, key)


@kernel
def bring_together(letters, start, hashes, to, size, key, part):
    """Copy the texts of a piece by part; return where the rows and the bytes of each part start."""
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
    """Return a hash of a text: its size and its words, multiplied and folded one after the other."""
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
    """Return fewer than eight bytes as one number."""
    word = np.uint64(0)
    for at in range(low, high):
        word = word << np.uint64(8) | np.uint64(letters[at])
    return word


class _Vocabulary(NamedTuple):
    """The names of one part so far, in the order of first appearance, and their hash table.

    A slot holds the lower half of a name's hash and, counted from 1, its code; 0 is a free one.
    """

    letters: UInt8[np.ndarray, " letters"]
    start: Int64[np.ndarray, " starts"]
    key: UInt64[np.ndarray, " keys"]
    slots: UInt64[np.ndarray, " slots"]
    n_names: int

    @classmethod
    def empty(cls) -> "_Vocabulary":
        start, slots = np.zeros(256, dtype=np.int64), np.zeros(256, dtype=np.uint64)
        return cls(np.empty(1024, np.uint8), start, np.empty(256, np.uint64), slots, 0)

    def texts(self) -> Texts:
        """Return its names."""
        start = self.start[: self.n_names + 1]
        return Texts(self.letters[: start[-1]], start)

    def with_room_for(self, size: int) -> "_Vocabulary":
        """Return the vocabulary with room for one more name of this size."""
        letters, start, key, slots, n_names = self
        used = int(start[n_names])
        if used + size > len(letters):
            letters = _longer(letters, 2 * (used + size))
        if 2 * n_names + 2 > len(slots):
            slots = _more_slots(key, n_names, 2 * len(slots))
            start, key = _longer(start, len(slots)), _longer(key, len(slots))
        return _Vocabulary(letters, start, key, slots, n_names)


class _Piece(NamedTuple):
    """The part of each row, where the rows of each part start, and their codes within their part."""

    part: UInt8[np.ndarray, " rows"]
    row_start: Int64[np.ndarray, " row_starts"]
    code: Int32[np.ndarray, " rows"]


def code_texts(
    pieces: Iterable[Texts], n_texts: int, *, to: Int32[np.ndarray, " texts"] | None = None
) -> tuple[Int32[np.ndarray, " texts"], Texts]:
    """Return the codes of a column that comes in pieces, and its distinct texts in byte order.

    Parameters
    ----------
    pieces
        The column, one piece after the other.
    n_texts
        Number of texts of all pieces together.
    to
        Where the codes are written; fresh memory if None.

    Returns
    -------
    tuple of int32 array and Texts
        ``texts[code[i]]`` are the bytes of text ``i``; each text occurs, and no two are equal. In UTF-8
        the order of the bytes is that of the characters.

    Notes
    -----
    **Guarantees.** Equal codes mean equal bytes, whatever the hashes. The result is the same on any
    number of threads, and however the column is cut into pieces.

    **Cost.** Linear in the bytes, plus sorting the distinct texts. Memory beyond the result: the
    distinct texts, a byte per text, and a copy of one piece.

    Examples
    --------
    >>> from quality.labels.texts import text_array
    >>> letters = np.frombuffer(b"t9t10t9", dtype=np.uint8)
    >>> code, names = code_texts([Texts(letters, np.array([0, 2, 5, 7]))], 3)
    >>> code, text_array(names)
    (array([1, 0, 1], dtype=int32), array(['t10', 't9'], dtype='<U3'))
    """
    code = np.empty(n_texts, dtype=np.int32) if to is None else to
    coded, first, names = _code_pieces(pieces, code)
    order, found = sorted_texts(names)
    rank = ranks(order)
    with shared_out(None, len(coded)) as share:
        share(lambda at: _to_rows(*coded[at], first, rank))
    return code, found


def ranks(order: Int64[np.ndarray, " names"]) -> Int32[np.ndarray, " names"]:
    """Return the place of each name in their order."""
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank


def _code_pieces(
    pieces: Iterable[Texts], code: Int32[np.ndarray, " texts"]
) -> tuple[list[_Piece], Int64[np.ndarray, " name_starts"], Texts]:
    """Code the pieces within their parts; return the pieces, each part's first name, and all names."""
    parts, room, coded, row = [_Vocabulary.empty() for _ in range(PARTS)], None, list[_Piece](), 0
    with shared_out(None, PARTS) as share:
        for piece in pieces:
            room, end = room_for(piece, room), row + len(piece.start) - 1
            coded.append(_code_piece(piece, parts, room, code[row:end], share))
            row = end
    first, names = (
        np.cumsum([0, *(part.n_names for part in parts)]),
        [part.texts() for part in parts],
    )
    del parts, room  # the hash tables may be larger than the names, which are copied next
    return coded, first, joined(names)


def _code_piece(
    piece: Texts,
    parts: list[_Vocabulary],
    room: Room,
    code: Int32[np.ndarray, " rows"],
    share: Callable[[Callable[[int], None]], object],
) -> _Piece:
    """Code a piece by the vocabularies of the parts; new names join them."""
    start, part = room.start[: len(code) + 1], np.empty(len(code), dtype=np.uint8)
    start[:] = piece.start
    row_start, byte_start = bring_together(
        read_only(piece.letters), start, room.hash, room.letters, room.size, room.key, part
    )
    texts = read_only(room.letters), room.size, room.key

    def code_part(at: int) -> None:
        row, low, end = row_start[at], byte_start[at], row_start[at + 1]
        while row < end:
            row, low, n_names = _code_rows(row, end, low, texts, code, *parts[at])
            parts[at] = parts[at]._replace(n_names=n_names)
            if row < end:
                parts[at] = parts[at].with_room_for(int(room.size[row]))

    share(code_part)
    return _Piece(part, row_start, code)


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    """Return the same values in a longer array."""
    longer = np.empty(size, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def _code_rows(row, end, low, texts, code, names, start, key, slots, n_names):
    """Code rows up to the end, or up to a row for whose name the vocabulary has no room."""
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
    """Return the slot of a hash, by the bits after those of the part; `n_slots` is a power of two."""
    return np.int64((key >> np.uint64(20)) & np.uint64(n_slots - 1))


@kernel(forceinline=True)  # a call would count references, from all threads
def _same(one, low, other, at, size):
    """Return whether two texts of one size are equal."""
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
def _more_slots(name_key, n_names, n_slots):
    """Return a larger hash table of the same names."""
    slots = np.zeros(n_slots, dtype=np.uint64)
    for name in range(n_names):
        slot = _slot(name_key[name], n_slots)
        while slots[slot]:
            slot = slot + 1 if slot + 1 < n_slots else 0
        slots[slot] = name_key[name] << np.uint64(32) | np.uint64(name + 1)
    return slots


@kernel
def _to_rows(part, row_start, code, first, rank):
    """Turn the codes of a piece into ranks among all names in the order of its rows, in place."""
    found, place = code.copy(), row_start.copy()
    for row in range(len(code)):
        mine = np.int64(part[row])
        code[row] = rank[first[mine] + found[place[mine]]]
        place[mine] += 1

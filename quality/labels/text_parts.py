"""The texts of a piece brought together by the first bits of their hash. Private to this package.

Bytes are hashed eight at a time.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Int32, Int64, UInt8, UInt64
from numba import njit

from quality.labels.texts import Texts, copy_text, eight

__all__ = ["PARTS", "Room", "bring_together", "room_for", "room_of"]

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


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
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


@no_type_check
@njit(cache=True, nogil=True, forceinline=True)
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

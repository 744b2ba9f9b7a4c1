"""Columns of text as bytes and offsets, as Arrow holds them: no Python object for every cell.

>>> texts = Texts(np.frombuffer(b"t9t10", dtype=np.uint8), np.array([0, 2, 5]))
>>> text_array(texts)
array(['t9', 't10'], dtype='<U3')
>>> order, in_order = sorted_texts(texts)
>>> text_array(in_order)
array(['t10', 't9'], dtype='<U3')
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int64, Shaped, UInt8, UInt64

from quality.parallel import kernel

__all__ = [
    "Texts",
    "copy_text",
    "decimals",
    "eight",
    "joined",
    "places_among",
    "read_only",
    "sorted_texts",
    "taken",
    "text_array",
]

LONG = 1024  # texts of a run that NumPy sorts faster
GAPS = (301, 132, 57, 23, 10, 4, 1)


class Texts(NamedTuple):
    """Texts in UTF-8: text ``i`` is ``letters[start[i]:start[i + 1]]``."""

    letters: UInt8[np.ndarray, " bytes"]
    start: Int[np.ndarray, " texts+1"]


def decimals(values: Int[np.ndarray, " values"]) -> Texts:
    """Return integers as text.

    Examples
    --------
    >>> text_array(decimals(np.array([-7, 0, 12])))
    array(['-7', '0', '12'], dtype='<U2')
    """
    negative = values < 0
    size = np.where(negative, -(values + negative), values).astype(np.uint64)
    size += negative  # in a second step: the least integer has no positive counterpart
    letters, start = _decimals(size, negative, len(str(size.max(initial=0))) + 1)
    return Texts(letters, start)


def text_array(texts: Texts) -> Shaped[np.ndarray, " texts"]:
    """Return texts as a NumPy array of text.

    Raises
    ------
    UnicodeDecodeError
        If the bytes of a text are not UTF-8.
    """
    letters, start = texts
    if len(letters) and letters.max() > 127:  # characters of several bytes
        whole = letters.tobytes()
        bounds = zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
        return np.array([whole[low:high].decode() for low, high in bounds], dtype=np.str_)
    width = max(int(np.diff(start).max(initial=0)), 1)
    found = np.zeros((len(start) - 1, width), dtype=np.uint32)
    _spread(letters, start, found)
    named: np.ndarray = found.view(f"<U{width}")[:, 0]
    return named


def sorted_texts(texts: Texts) -> tuple[Int64[np.ndarray, " texts"], Texts]:
    """Return the positions of different texts in the order of their bytes, and the texts in that order.

    NumPy sorts their first words, several at a time; the texts that agree in it are sorted further.
    """
    skip = _same_at_first(*texts)
    word = _words(*texts, skip)
    order = np.argsort(word)
    _settle(*texts, order, word[order], skip)
    return order, taken(texts, order)


def joined(columns: Sequence[Texts]) -> Texts:
    """Return the texts of all columns, one column after the other."""
    end = np.cumsum([0, *(len(texts.letters) for texts in columns)])
    starts = [texts.start[1:] + before for texts, before in zip(columns, end, strict=False)]
    letters = np.concatenate([texts.letters for texts in columns])
    return Texts(letters, np.concatenate([[0], *starts]).astype(np.int64))


def taken(texts: Texts, chosen: Int[np.ndarray, " chosen"]) -> Texts:
    """Return some of the texts."""
    size = texts.start[chosen + 1] - texts.start[chosen]
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    letters = np.empty(start[-1], dtype=np.uint8)
    _copy_texts(read_only(texts.letters), texts.start, chosen, letters, start)
    return Texts(letters, start)


def read_only(letters: UInt8[np.ndarray, " bytes"]) -> UInt8[np.ndarray, " bytes"]:
    """Return a read-only view: with one kind of array, each kernel is compiled once."""
    view = letters.view()
    view.flags.writeable = False
    return view


@kernel
def eight(letters, at):
    """Return eight bytes as one number; written out in unsigned numbers, it is one load."""
    at = np.uint64(at)
    word = np.uint64(letters[at])
    word |= np.uint64(letters[at + np.uint64(1)]) << np.uint64(8)
    word |= np.uint64(letters[at + np.uint64(2)]) << np.uint64(16)
    word |= np.uint64(letters[at + np.uint64(3)]) << np.uint64(24)
    word |= np.uint64(letters[at + np.uint64(4)]) << np.uint64(32)
    word |= np.uint64(letters[at + np.uint64(5)]) << np.uint64(40)
    word |= np.uint64(letters[at + np.uint64(6)]) << np.uint64(48)
    return word | np.uint64(letters[at + np.uint64(7)]) << np.uint64(56)


@kernel
def _put_eight(word, letters, at):
    """Write a number as eight bytes; written out, it is one store."""
    at = np.uint64(at)
    letters[at] = word
    letters[at + np.uint64(1)] = word >> np.uint64(8)
    letters[at + np.uint64(2)] = word >> np.uint64(16)
    letters[at + np.uint64(3)] = word >> np.uint64(24)
    letters[at + np.uint64(4)] = word >> np.uint64(32)
    letters[at + np.uint64(5)] = word >> np.uint64(40)
    letters[at + np.uint64(6)] = word >> np.uint64(48)
    letters[at + np.uint64(7)] = word >> np.uint64(56)


@kernel(forceinline=True)  # a call would count references, from all threads
def copy_text(source, low, size, to, at):
    """Copy a text eight bytes at a time; the last eight may overlap those before."""
    if size < 8:
        for place in range(size):
            to[at + place] = source[low + place]
        return
    for place in range(0, size - 8, 8):
        _put_eight(eight(source, low + place), to, at + place)
    _put_eight(eight(source, low + size - 8), to, at + size - 8)


@kernel
def _copy_texts(letters, start, chosen, to, to_start):
    """Copy the texts chosen, one after the other."""
    for place in range(len(chosen)):
        size = to_start[place + 1] - to_start[place]
        copy_text(letters, start[chosen[place]], size, to, to_start[place])


@kernel
def _same_at_first(letters, start):
    """Return the length of the longest prefix that all texts share."""
    alike = start[1] if len(start) > 1 else 0
    for text in range(len(start) - 1):
        alike = min(alike, start[text + 1] - start[text])
        at = 0
        while at < alike and letters[start[text] + at] == letters[at]:
            at += 1
        alike = at
    return alike


@kernel
def _words(letters, start, skip):
    """Return the first word of each text behind the prefix that all share."""
    word = np.empty(len(start) - 1, dtype=np.uint64)
    for text in range(len(word)):
        word[text] = _seven(letters, start[text] + skip, start[text + 1])
    return word


@kernel(forceinline=True)
def _seven(letters, at, high):
    """Return the next seven bytes, the first highest, and their number lowest: ordered as the texts."""
    word, count = np.uint64(0), min(max(high - at, 0), 7)
    for place in range(7):
        byte = np.uint64(letters[at + place]) if place < count else np.uint64(0)
        word = word << np.uint64(8) | byte
    return word << np.uint64(8) | np.uint64(count)


def _settle(
    letters: UInt8[np.ndarray, " bytes"],
    start: Int[np.ndarray, " starts"],
    order: Int64[np.ndarray, " texts"],
    word: UInt64[np.ndarray, " texts"],
    skip: int,
) -> None:
    """Sort the texts that agree in a word by their next seven bytes, until none agree.

    The words are given in order, and are overwritten. A long run of texts is left to NumPy.
    """
    tied = np.ones(len(order) + 1, dtype=np.bool_)
    tied[0] = tied[-1] = False  # whether a text agrees with the one before it
    while _any_tied(word, tied):
        skip += 7
        _sort_ties(letters, start, order, word, tied, skip)
        edge = np.flatnonzero(~tied)
        for at in np.flatnonzero(np.diff(edge) > LONG):
            run = slice(edge[at], edge[at + 1])
            by_word = np.argsort(word[run])
            order[run], word[run] = order[run][by_word], word[run][by_word]


@kernel
def _sort_ties(letters, start, order, word, tied, skip):
    """Write the next word of texts that agree in a word, and sort each run of them that is not long."""
    low = np.int64(0)
    while low < len(order):
        high = low + 1
        while tied[high]:
            high += 1
        if high - low > 1:
            for at in range(low, high):
                text = order[at]
                word[at] = _seven(letters, start[text] + skip, start[text + 1])
            if high - low <= LONG:
                _sort_run(order, word, low, high)
        low = high


@kernel
def _any_tied(word, tied):
    """Unmark the texts whose word is not that of the text before; return whether any is left."""
    left = False
    for at in range(1, len(word)):
        tied[at] &= word[at] == word[at - 1]
        left |= tied[at]
    return left


@kernel(forceinline=True)
def _sort_run(order, word, low, high):
    """Sort a run of texts and words by word, in place: Shell's sort with Ciura's gaps."""
    for gap in GAPS:
        for at in range(low + gap, high):
            text, key, to = order[at], word[at], at
            while to - gap >= low and word[to - gap] > key:
                order[to], word[to] = order[to - gap], word[to - gap]
                to -= gap
            order[to], word[to] = text, key


@kernel
def _spread(letters, start, character):
    """Write each text into its row of characters, one byte a character."""
    for text in range(len(character)):
        for at in range(start[text + 1] - start[text]):
            character[text, at] = letters[start[text] + at]


@kernel
def _decimals(size, negative, width):
    """Return the digits of each size, behind a minus if negative; no text is longer than `width`."""
    letters, end = np.empty(width * len(size), dtype=np.uint8), 0
    start, digit = np.zeros(len(size) + 1, dtype=np.int64), np.empty(20, dtype=np.uint8)
    for text in range(len(size)):
        if negative[text]:
            letters[end], end = 45, end + 1
        left, n_digits = size[text], 0
        while left or not n_digits:
            digit[n_digits] = 48 + left % np.uint64(10)
            left, n_digits = left // np.uint64(10), n_digits + 1
        for place in range(n_digits):
            letters[end + place] = digit[n_digits - 1 - place]
        end += n_digits
        start[text + 1] = end
    return letters[:end].copy(), start


def places_among(
    names: Shaped[np.ndarray, " names"], known: Shaped[np.ndarray, " known"]
) -> Int64[np.ndarray, " names"]:
    """Return how many of the sorted known names come before each name, like `numpy.searchsorted`.

    If the names are sorted too, one walk along both is enough.

    >>> places_among(np.array(["b", "c", "a"]), np.array(["a", "b", "d"]))
    array([1, 2, 0])
    """
    if not (_is_text(names.dtype) and _is_text(known.dtype)):
        place: np.ndarray = np.searchsorted(known, names)
        return place
    place = np.empty(len(names), dtype=np.int64)
    _search(_letters(names), _letters(known), place)
    return place


def _is_text(kind: np.dtype) -> bool:
    return kind.kind == "U" and kind.isnative and kind.itemsize > 0


def _letters(names: np.ndarray) -> np.ndarray:
    """Return a row of letters for each name, read-only, so that the kernel is compiled once."""
    width = names.itemsize // 4  # NumPy keeps four bytes a letter
    letters = np.ascontiguousarray(names).view(np.uint32).reshape(len(names), width)
    letters.flags.writeable = False
    return letters


@kernel
def _search(names, known, place) -> None:
    """Search for each name from the last name's place, in doubling steps, then by bisection."""
    low = 0
    for at in range(len(names)):
        if low > 0 and not _is_before(known, low - 1, names, at):
            low = 0
        high, step = low, 1
        while high < len(known) and _is_before(known, high, names, at):
            low, high, step = high + 1, high + step, 2 * step
        high = min(high, len(known))
        while low < high:
            middle = (low + high) // 2
            if _is_before(known, middle, names, at):
                low = middle + 1
            else:
                high = middle
        place[at] = low


@kernel(forceinline=True)
def _is_before(known, one, names, other) -> bool:
    """Return whether a known name comes before a name; the shorter row is filled with zeros."""
    shared = min(known.shape[1], names.shape[1])
    for letter in range(shared):
        if known[one, letter] != names[other, letter]:
            return bool(known[one, letter] < names[other, letter])
    return bool(np.any(names[other, shared:]))

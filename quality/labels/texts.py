"""Columns of text as bytes and offsets: no object for every cell. Private to this package."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int64, Shaped, UInt8

from quality.parallel import kernel

__all__ = [
    "Texts",
    "copy_text",
    "decimals",
    "eight",
    "joined",
    "sorted_texts",
    "taken",
    "text_array",
]

FEW = 32  # texts that are faster sorted by insertion


class Texts(NamedTuple):
    """Texts in UTF-8: text ``i`` is ``letters[start[i]:start[i + 1]]``."""

    letters: UInt8[np.ndarray, " bytes"]
    start: Int[np.ndarray, " texts+1"]


def decimals(values: Int[np.ndarray, " values"]) -> Texts:
    """Integers as text.

    Examples
    --------
    >>> text_array(decimals(np.array([-7, 0, 12])))
    array(['-7', '0', '12'], dtype='<U2')
    """
    negative = values < 0
    size = np.where(negative, -(values + negative), values).astype(np.uint64)
    size += negative  # apart, as the least integer has no positive one
    letters, start = _decimals(size, negative, len(str(size.max(initial=0))) + 1)
    return Texts(letters, start)


def text_array(texts: Texts) -> Shaped[np.ndarray, " texts"]:
    """Texts as a NumPy array of text.

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
    width = max(_longest(start), 1)
    found = np.zeros((len(start) - 1, width), dtype=np.uint32)
    _spread(letters, start, found)
    named: np.ndarray = found.view(f"<U{width}")[:, 0]
    return named


def sorted_texts(texts: Texts) -> tuple[Int64[np.ndarray, " texts"], Texts]:
    """Positions of different texts in the order of their bytes, and the texts in that order.

    NumPy sorts their first words, of which processors do several at a time.
    """
    skip = _same_at_first(*texts)
    word = _words(*texts, skip)
    order = np.argsort(word)
    _settle(*texts, order, word[order], skip)
    return order, taken(texts, order)


def joined(books: Sequence[Texts]) -> Texts:
    """Texts one after the other."""
    first = np.cumsum([0, *(len(book.start) - 1 for book in books)])
    end = np.cumsum([0, *(len(book.letters) for book in books)])
    start = np.zeros(first[-1] + 1, dtype=np.int64)
    for at, book in enumerate(books):
        np.add(book.start[1:], end[at], out=start[first[at] + 1 : first[at + 1] + 1])
    return Texts(np.concatenate([book.letters for book in books]), start)


def taken(texts: Texts, chosen: Int[np.ndarray, " chosen"]) -> Texts:
    """Some of the texts."""
    start = _ends(texts.start, chosen)
    letters = np.empty(start[-1], dtype=np.uint8)
    _copy_texts(texts.letters, texts.start, chosen, letters, start)
    return Texts(letters, start)


@kernel
def eight(letters, at):
    """Eight bytes as one number; written out without signs, it is one load."""
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
    """The same backwards."""
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
    """Copy a text, the last eight bytes anew if need be."""
    if size < 8:
        for place in range(size):
            to[at + place] = source[low + place]
        return
    for place in range(0, size - 8, 8):
        _put_eight(eight(source, low + place), to, at + place)
    _put_eight(eight(source, low + size - 8), to, at + size - 8)


@kernel
def _copy_texts(letters, start, chosen, to, to_start):
    for place in range(len(chosen)):
        size = to_start[place + 1] - to_start[place]
        copy_text(letters, start[chosen[place]], size, to, to_start[place])


@kernel
def _longest(start):
    """Most bytes that a text has."""
    most = 0
    for text in range(len(start) - 1):
        most = max(most, start[text + 1] - start[text])
    return most


@kernel
def _ends(start, chosen):
    """Where each of the texts chosen begins and ends, one after the other."""
    found = np.zeros(len(chosen) + 1, dtype=np.int64)
    for place in range(len(chosen)):
        found[place + 1] = found[place] + start[chosen[place] + 1] - start[chosen[place]]
    return found


@kernel
def _same_at_first(letters, start):
    """How many bytes all texts begin with alike."""
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
    """The first word of each text behind what all begin with."""
    word = np.empty(len(start) - 1, dtype=np.uint64)
    for text in range(len(word)):
        word[text] = _seven(letters, start[text] + skip, start[text + 1])
    return word


@kernel(forceinline=True)
def _seven(letters, at, high):
    """The next seven bytes, the first highest, and how many of them there are: ordered as texts are."""
    word, count = np.uint64(0), min(max(high - at, 0), 7)
    for place in range(7):
        byte = np.uint64(letters[at + place]) if place < count else np.uint64(0)
        word = word << np.uint64(8) | byte
    return word << np.uint64(8) | np.uint64(count)


@kernel
def _settle(letters, start, order, word, skip):
    """Sort texts that agree in a word by the next seven bytes, those that still do likewise.

    The words come in order, and are overwritten.
    """
    n_texts = len(order)
    tied = np.ones(n_texts + 1, dtype=np.bool_)
    tied[0] = tied[n_texts] = False  # whether a text agrees with the one before it
    while _any_tied(word, tied):
        skip, low = skip + 7, 0
        while low < n_texts:
            high = low + 1
            while tied[high]:
                high += 1
            if high - low > 1:
                for at in range(low, high):
                    text = order[at]
                    word[at] = _seven(letters, start[text] + skip, start[text + 1])
                if high - low > FEW:
                    _sort_many(order[low:high], word[low:high])
                else:
                    _sort_few(order, word, low, high)
            low = high


@kernel
def _any_tied(word, tied):
    """Whether texts that agreed with the one before it do so in their words as well."""
    left = False
    for at in range(1, len(word)):
        tied[at] &= word[at] == word[at - 1]
        left |= tied[at]
    return left


@kernel
def _sort_many(order, word):
    """Sort both by word, in place."""
    if word.min() < word.max():
        by_word = np.argsort(word)
        order[:], word[:] = order[by_word], word[by_word]


@kernel(forceinline=True)
def _sort_few(order, word, low, high):
    """The same for a run of few, by insertion."""
    for at in range(low + 1, high):
        text, key, to = order[at], word[at], at
        while to > low and word[to - 1] > key:
            order[to], word[to] = order[to - 1], word[to - 1]
            to -= 1
        order[to], word[to] = text, key


@kernel
def _spread(letters, start, character):
    for text in range(len(character)):
        for at in range(start[text + 1] - start[text]):
            character[text, at] = letters[start[text] + at]


@kernel
def _decimals(size, negative, width):
    """Decimal digits of sizes, behind a minus where asked; none has more characters than `width`."""
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

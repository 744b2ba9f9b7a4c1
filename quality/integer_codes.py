"""Columns of integers coded as the texts they are written as. Private to this package."""

from typing import no_type_check

import numpy as np
from jaxtyping import Int, Int32
from numba import njit

from quality.text_codes import code_texts, ranks
from quality.texts import Texts, decimals, sorted_texts

__all__ = ["code_integers"]


def code_integers(
    values: Int[np.ndarray, " values"], *, threads: int | None = None
) -> tuple[Int32[np.ndarray, " values"], Texts]:
    """Codes of integers, and the distinct ones as text, in the order of text.

    Parameters
    ----------
    values
        Integers that fit into 64 bits with a sign.
    threads
        How many threads work; None for one per core.

    Examples
    --------
    >>> from quality.texts import text_array
    >>> code, names = code_integers(np.array([9, 10, 9]))
    >>> code, text_array(names)
    (array([1, 0, 1], dtype=int32), array(['10', '9'], dtype='<U2'))
    """
    wide = np.ascontiguousarray(values, dtype=np.int64)
    low, high = int(wide.min(initial=0)), int(wide.max(initial=0))
    if high - low <= 4 * len(wide):
        code, distinct = _code_range(wide, low, high)
    else:  # eight bytes are a text
        eights = Texts(wide.view(np.uint8), np.arange(0, 8 * len(wide) + 1, 8))
        code, found = code_texts([eights], threads=threads)
        distinct = found.letters.view(np.int64)
    order, names = sorted_texts(decimals(distinct), threads=threads)
    _to_rank(ranks(order), code)
    return code, names


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _to_rank(rank, code):
    for row in range(len(code)):
        code[row] = rank[code[row]]


@no_type_check
@njit(cache=True, nogil=True)
def _code_range(values, low, high):
    """Codes of integers of a small range, and the distinct ones in their order."""
    place = np.zeros(high - low + 1, dtype=np.int32)
    for row in range(len(values)):
        place[values[row] - low] = 1
    n_found = 0
    for offset in range(len(place)):
        n_found += place[offset]
    distinct, n_found = np.empty(n_found, dtype=np.int64), 0
    for offset in range(len(place)):
        if place[offset]:
            distinct[n_found], place[offset] = low + offset, n_found
            n_found += 1
    code = np.empty(len(values), dtype=np.int32)
    for row in range(len(values)):
        code[row] = place[values[row] - low]
    return code, distinct

"""Columns of text that Arrow holds, read where they lie. Private to this package.

Arrow is not imported: its arrays say themselves what they hold and where.
"""

from typing import Any

import numpy as np

from quality.labels.texts import Texts

__all__ = ["array_texts", "column_texts"]

OFFSETS = {"string": np.int32, "large_string": np.int64}  # by the type's name


def array_texts(array: Any) -> Texts | None:
    """The texts of an Arrow array, not copied; None if it holds no text or a cell is missing."""
    offset = OFFSETS.get(str(array.type))
    if offset is None or array.null_count:
        return None
    if not len(array):
        return Texts(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=offset))
    _, start, letters = array.buffers()
    bounds = np.frombuffer(start, dtype=offset)[array.offset : array.offset + len(array) + 1]
    return Texts(np.frombuffer(letters or b"", dtype=np.uint8), bounds)


def column_texts(values: Any) -> list[Texts] | None:
    """The same of a column, in pieces: of pandas if it is backed by Arrow, or Arrow's own."""
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "storage", None) == "pyarrow" or hasattr(dtype, "pyarrow_dtype"):
        values = getattr(values, "array", values).__arrow_array__()
    chunks = getattr(values, "chunks", [values])
    if not all(hasattr(chunk, "buffers") and hasattr(chunk, "null_count") for chunk in chunks):
        return None
    pieces = [texts for texts in map(array_texts, chunks) if texts is not None]
    return pieces if len(pieces) == len(chunks) else None

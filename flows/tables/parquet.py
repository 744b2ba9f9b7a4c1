"""Columns of a Parquet file as codes of their sorted names, read the quick way.

`parquet_codes` returns None where a cell may be at fault; `flows.tables.text_table` then reads the file
again and names the fault. Cells stay bytes in Arrow's buffers: no object is made of them, and no text is
trimmed. `parquet_texts` has the same codes for a table too large for memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int32

from flows.tables.arrow import numpy_array
from flows.tables.refusals import MAX_LETTERS
from flows.tables.text_table import Coded
from quality.labels import Texts, array_texts, code_integers, code_texts, taken, text_array

__all__ = ["parquet_codes", "parquet_texts"]

ROWS_AT_ONCE = 2**19  # rows read at once, at most
PLAIN = 4  # bytes that a text takes at least; cells that take fewer are places in a dictionary


class _NotPlain(Exception):
    """The column must be read the slow way."""


def _fresh(n_rows: int) -> Int32[np.ndarray, " rows"]:
    return np.empty(n_rows, dtype=np.int32)


def parquet_codes(path: Path, names: Sequence[str]) -> dict[str, Coded] | None:
    """Return columns as codes of their sorted names, rows in the file's order; None as `parquet_texts`."""
    found = parquet_texts(path, names)
    if found is None:
        return None
    return {name: Coded(code, text_array(texts)) for name, (code, texts) in found.items()}


def parquet_texts(
    path: Path,
    names: Sequence[str],
    *,
    room: Callable[[int], Int32[np.ndarray, " rows"]] = _fresh,
) -> dict[str, tuple[Int32[np.ndarray, " rows"], Texts]] | None:
    """Return the codes of columns of text or of integers, in the file's order, and their sorted names.

    The codes of a column are written into the `room` for so many. Return None where they must be read the
    slow way, which trims cells and names faults: if the file cannot be read, lacks a column or has no
    rows, or if a cell is missing, of another type, blank, too long for a name, not UTF-8, holds a NUL, or
    begins or ends with what may be white space.
    """
    try:
        with pq.ParquetFile(path) as file:
            held, metadata = file.schema_arrow.names, file.metadata
        if len({name.lower() for name in held}) < len(held) or not set(names) <= set(held):
            return None
        with ThreadPoolExecutor(len(names)) as pool:
            found = pool.map(lambda name: _coded(path, metadata, name, room), names)
            return dict(zip(names, found, strict=True))
    except (_NotPlain, pa.ArrowException, OSError, UnicodeDecodeError):
        return None


def _coded(
    path: Path,
    metadata: pq.FileMetaData,
    name: str,
    room: Callable[[int], Int32[np.ndarray, " rows"]],
) -> tuple[Int32[np.ndarray, " rows"], Texts]:
    """Return one column as codes, and its names."""
    n_rows = metadata.num_rows
    repeated = [name] if n_rows and _is_repeated(metadata, name) else []
    # buffered ahead, a whole row group's column would lie in memory that is fresh each time
    unbuffered = {"metadata": metadata, "pre_buffer": False}
    with pq.ParquetFile(path, read_dictionary=repeated, **unbuffered) as file:
        kind = file.schema_arrow.field(name).type
        if not n_rows:
            raise _NotPlain
        chunks, to = _chunks(file, name), room(n_rows)
        if pa.types.is_dictionary(kind):
            code, names = _code_dictionaries(chunks, to)
        elif pa.types.is_integer(kind) and kind != pa.uint64():
            code, names = code_integers(map(numpy_array, chunks), n_rows, to=to)
        else:
            code, names = code_texts(map(_texts_of, chunks), n_rows, to=to)
    return code, _plain(names)


def _is_repeated(metadata: pq.FileMetaData, name: str) -> bool:
    """Return whether the file holds a column of text mostly as places in a dictionary."""
    group = metadata.row_group(0)
    columns = (group.column(at) for at in range(group.num_columns))
    column = next((c for c in columns if c.path_in_schema == name), None)
    if column is None or column.physical_type != "BYTE_ARRAY":
        return False
    return bool(column.total_uncompressed_size < PLAIN * column.num_values)


def _chunks(file: pq.ParquetFile, name: str) -> Iterator[Any]:
    """Yield a column's Arrow arrays, none with a missing cell; the next is read meanwhile."""
    batches = file.iter_batches(ROWS_AT_ONCE, columns=[name], use_threads=False)
    n_left = file.metadata.num_rows
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = pool.submit(next, batches, None)
            n_left -= batch.num_rows
            if n_left < 0 or batch[name].null_count:
                raise _NotPlain
            yield batch[name]
    if n_left:  # the caller has allocated n_rows
        raise _NotPlain


def _texts_of(array: Any) -> Texts:
    """Return an array's own buffers."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    texts = array_texts(array)
    if texts is None:
        raise _NotPlain
    return texts


def _code_dictionaries(
    chunks: Iterable[Any], row: Int32[np.ndarray, " rows"]
) -> tuple[Int32[np.ndarray, " rows"], Texts]:
    """Return codes of a column that comes as places in dictionaries; only entries that occur are names."""
    begin, first, parts = [0], [0], list[Any]()
    # a place in one dictionary becomes one in all, then a code, in the same memory
    for chunk in chunks:
        if chunk.dictionary.null_count:
            raise _NotPlain
        if not (parts and chunk.dictionary.equals(parts[-1])):
            parts.append(chunk.dictionary)
            first.append(first[-1] + len(chunk.dictionary))
        begin.append(begin[-1] + len(chunk))
        row[begin[-2] : begin[-1]] = numpy_array(chunk.indices)
        row[begin[-2] : begin[-1]] += first[-2]
    code, names = code_texts(map(_texts_of, parts), first[-1])
    used = np.zeros(len(names.start) - 1, dtype=np.bool_)
    for low, high in pairwise(begin):
        row[low:high] = code[row[low:high]]
        used[row[low:high]] = True
    if used.all():
        return row, names
    rank = np.cumsum(used, dtype=np.int32) - 1
    for low, high in pairwise(begin):
        row[low:high] = rank[row[low:high]]
    return row, taken(names, np.flatnonzero(used))


def _plain(names: Texts) -> Texts:
    """Return the names; raise _NotPlain if one is blank, may be too long, or has white space to trim."""
    letters, start = names
    length = np.diff(start)
    if not (length.min() > 0 and length.max() <= MAX_LETTERS and letters.all()):
        raise _NotPlain
    if min(letters[start[:-1]].min(), letters[start[1:] - 1].min()) <= ord(" "):
        raise _NotPlain
    if letters.max() > 127 and any(name != name.strip() for name in text_array(names).tolist()):
        raise _NotPlain
    return names

"""Columns of a Parquet file in codes: the quick way, gone where there is no fault to tell.

Cells stay bytes in Arrow's buffers; no object is made of them, and no text is trimmed.

Between Arrow, Parquet and NumPy, without pandas.

`pyarrow.array` loads pandas, where it is installed, to ask of whatever it is given whether it is a series;
so do `read_table` and `to_numpy`. A run in memory has no other use for pandas, and would wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.tables.text_table import Coded
from quality.labels import Texts, array_texts, code_integers, code_texts, taken, text_array

__all__ = ["Column", "arrow_array", "arrow_table", "numpy_array", "parquet_codes", "read_parquet"]

Column: TypeAlias = "np.ndarray | Sequence[str] | pa.Array | pa.ChunkedArray"

TEXTS_AT_ONCE = 2**16  # texts that are encoded at once


def arrow_table(columns: Mapping[str, Column]) -> pa.Table:
    """A table of columns of one length, each made by `arrow_array`.

    Examples
    --------
    >>> arrow_table({"task": ["a", "b"], "share": np.array([0.5, np.nan])}).to_pylist()
    [{'task': 'a', 'share': 0.5}, {'task': 'b', 'share': None}]
    """
    return pa.table({name: arrow_array(column) for name, column in columns.items()})


def arrow_array(column: Column) -> pa.Array | pa.ChunkedArray:
    """Numbers, truth values or texts as an Arrow array; a matrix as one list a row.

    What is not defined, NaN, is null. Numbers that lie in one piece are not copied.

    Examples
    --------
    >>> arrow_array(np.array([[0.25, 0.75], [1.0, 0.0]])).to_pylist()
    [[0.25, 0.75], [1.0, 0.0]]
    """
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    array = column if isinstance(column, np.ndarray) else _text_array(column)
    if array.ndim == 2:
        start = np.arange(0, array.size + 1, array.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(arrow_array(start), arrow_array(array.ravel()))
    if array.dtype.kind == "U":
        return _arrow_texts(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"a column must hold numbers, truth values or texts, got {array.dtype}")
    known = None
    if array.dtype.kind == "f" and np.isnan(array).any():
        known = _bits(~np.isnan(array))
    data = _bits(array) if array.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(array))
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), array.size, [known, data])


def read_parquet(path: Path, columns: Iterable[str] | None = None) -> pa.Table:
    """A Parquet file whole, or some of its columns in the order they are asked for."""
    asked = None if columns is None else list(columns)
    with pq.ParquetFile(path) as file:
        table = file.read(columns=asked)
    return table if asked is None else table.select(asked)


def numpy_array(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Numbers or truth values, none of them null, as a read-only array.

    Examples
    --------
    >>> numpy_array(arrow_array(np.array([True, False])))
    array([ True, False])
    """
    if column.null_count:
        raise ValueError(f"every cell must hold a number, {column.null_count} are null")
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_boolean(whole.type):
        return numpy_array(whole.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(whole)


def _bits(truth: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truth, bitorder="little"))


def _text_array(column: Sequence[str]) -> np.ndarray:
    for one in column:
        if not isinstance(one, str):
            raise TypeError(f"a column that is no array must hold texts, got {one!r}")
    return np.array(column, dtype=np.str_)


def _arrow_texts(array: np.ndarray) -> pa.Array:
    """As UTF-8; the cast refuses more than Arrow's `string` can hold."""
    pieces = [
        _encoded(array[at : at + TEXTS_AT_ONCE]) for at in range(0, array.size, TEXTS_AT_ONCE)
    ]
    end = np.concatenate([np.zeros(1, np.int64), *(length for length, _ in pieces)]).cumsum()
    buffers = [None, pa.py_buffer(end), pa.py_buffer(b"".join(text for _, text in pieces))]
    return pa.Array.from_buffers(pa.large_string(), array.size, buffers).cast(pa.string())


def _encoded(piece: np.ndarray) -> tuple[np.ndarray, bytes]:
    """Length in bytes of each text, and all of them, end to end."""
    width = piece.dtype.itemsize // 4  # NumPy keeps four bytes a letter
    letter = np.ascontiguousarray(piece).view(np.uint32).reshape(piece.size, width)
    if letter.max(initial=0) >= 128:
        texts = [text.encode() for text in piece.tolist()]
        return np.array([len(text) for text in texts]), b"".join(texts)
    length = np.strings.str_len(piece)
    return length, letter[np.arange(width) < length[:, None]].astype(np.uint8).tobytes()


ROWS_AT_ONCE = 2**19  # rows read at once, at most
PLAIN = 4  # bytes that a text takes at the least; cells that take fewer repeat a dictionary's


class _NotPlain(Exception):
    """A column has to be read the slow way."""


def parquet_codes(path: Path, names: Sequence[str]) -> dict[str, Coded] | None:
    """Columns of text or of integers as codes of their sorted names, rows in the file's order.

    None where they have to be read the slow way, which trims cells and tells faults: if the file
    cannot be read, lacks a column or rows, or if a cell is missing, of another type, blank, not
    UTF-8, has a NUL in it or what may be white space at an end.
    """
    try:
        with pq.ParquetFile(path) as file:
            held, metadata = file.schema_arrow.names, file.metadata
        if len({name.lower() for name in held}) < len(held) or not set(names) <= set(held):
            return None
        with ThreadPoolExecutor(len(names)) as pool:
            found = pool.map(lambda name: _coded(path, metadata, name), names)
            return dict(zip(names, found, strict=True))
    except (_NotPlain, pa.ArrowException, OSError, UnicodeDecodeError):
        return None


def _coded(path: Path, metadata: pq.FileMetaData, name: str) -> Coded:
    """One column."""
    n_rows = metadata.num_rows
    repeated = [name] if n_rows and _is_repeated(metadata, name) else []
    # buffered ahead, a whole row group's column would lie in memory that is fresh each time
    unbuffered = {"metadata": metadata, "pre_buffer": False}
    with pq.ParquetFile(path, read_dictionary=repeated, **unbuffered) as file:
        kind = file.schema_arrow.field(name).type
        if not n_rows:
            raise _NotPlain
        if pa.types.is_dictionary(kind):
            code, names = _code_dictionaries(_chunks(file, name), n_rows)
        elif pa.types.is_integer(kind) and kind != pa.uint64():
            code, names = code_integers(map(numpy_array, _chunks(file, name)), n_rows)
        else:
            code, names = code_texts(map(_texts_of, _chunks(file, name)), n_rows)
    return Coded(code, text_array(_plain(names)))


def _is_repeated(metadata: pq.FileMetaData, name: str) -> bool:
    """Whether the file holds a column of text as a dictionary and little more."""
    group = metadata.row_group(0)
    columns = (group.column(at) for at in range(group.num_columns))
    column = next((c for c in columns if c.path_in_schema == name), None)
    if column is None or column.physical_type != "BYTE_ARRAY":
        return False
    return bool(column.total_uncompressed_size < PLAIN * column.num_values)


def _chunks(file: pq.ParquetFile, name: str) -> Iterator[Any]:
    """A column's Arrow arrays, none with a missing cell; the next is read meanwhile."""
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
    if n_left:  # who takes the rows has counted on them
        raise _NotPlain


def _texts_of(array: Any) -> Texts:
    """An array's own buffers."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    texts = array_texts(array)
    if texts is None:
        raise _NotPlain
    return texts


def _code_dictionaries(chunks: Iterable[Any], n_rows: int) -> tuple[np.ndarray, Texts]:
    """Codes of a column that comes as places in dictionaries; only what occurs is a name."""
    row, begin, first, books = np.empty(n_rows, dtype=np.int32), [0], [0], list[Any]()
    for chunk in chunks:  # a place becomes one in all dictionaries, then a code, in its own memory
        if chunk.dictionary.null_count:
            raise _NotPlain
        if not (books and chunk.dictionary.equals(books[-1])):
            books.append(chunk.dictionary)
            first.append(first[-1] + len(chunk.dictionary))
        begin.append(begin[-1] + len(chunk))
        row[begin[-2] : begin[-1]] = numpy_array(chunk.indices)
        row[begin[-2] : begin[-1]] += first[-2]
    code, names = code_texts(map(_texts_of, books), first[-1])
    used = np.zeros(len(names.start) - 1, dtype=np.bool_)
    for low, high in pairwise(begin):
        row[low:high] = code[row[low:high]]
        used[row[low:high]] = True
    if used.all():
        return row, names
    return (np.cumsum(used, dtype=np.int32) - 1)[row], taken(names, np.flatnonzero(used))


def _plain(names: Texts) -> Texts:
    """Names that are what their cells are: nothing to trim, nothing blank."""
    letters, start = names
    if not ((start[:-1] < start[1:]).all() and letters.all()):
        raise _NotPlain
    if min(letters[start[:-1]].min(), letters[start[1:] - 1].min()) <= ord(" "):
        raise _NotPlain
    if letters.max() > 127 and any(name != name.strip() for name in text_array(names).tolist()):
        raise _NotPlain
    return names

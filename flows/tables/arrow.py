"""Between Arrow, Parquet and NumPy, without pandas; and files of a run read back, damaged ones refused.

>>> numpy_array(arrow_table({"share": np.array([0.5, 0.25])})["share"])
array([0.5 , 0.25])

`pyarrow.array`, `read_table` and `to_numpy` load pandas where it is installed, to ask of each argument
whether it is a series. A run in memory has no other use for pandas and would wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "Column",
    "arrow_array",
    "arrow_table",
    "coded_texts",
    "list_array",
    "numpy_array",
    "read_first",
    "read_json",
    "read_parquet",
    "release_memory",
    "text_column",
    "undamaged",
    "write_parquet",
]

Column: TypeAlias = "np.ndarray | Sequence[str] | pa.Array | pa.ChunkedArray"

TEXTS_AT_ONCE = 2**16  # texts encoded at once
DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError)
DECODED = 2**20  # texts decoded at once


def arrow_table(columns: Mapping[str, Column]) -> pa.Table:
    """Return a table of columns of one length, each made by `arrow_array`.

    Examples
    --------
    >>> arrow_table({"task": ["a", "b"], "share": np.array([0.5, np.nan])}).to_pylist()
    [{'task': 'a', 'share': 0.5}, {'task': 'b', 'share': None}]
    """
    return pa.table({name: arrow_array(column) for name, column in columns.items()})


def arrow_array(column: Column, *, known: np.ndarray | None = None) -> pa.Array | pa.ChunkedArray:
    """Return numbers, truth values or texts as an Arrow array; a matrix as one list per row.

    NaN becomes null, and so do integers that are not `known`. Contiguous numbers are not copied.

    Examples
    --------
    >>> arrow_array(np.array([[0.25, 0.75], [1.0, 0.0]])).to_pylist()
    [[0.25, 0.75], [1.0, 0.0]]
    """
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if not isinstance(column, np.ndarray):
        return _text_array(column)
    array = column
    if array.ndim == 2:
        start = np.arange(0, array.size + 1, array.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(arrow_array(start), arrow_array(array.ravel()))
    if array.dtype.kind == "U":
        return _arrow_texts(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"a column must hold numbers, truth values or texts, got {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        known = ~np.isnan(array)
    valid = None if known is None else _bits(known)
    data = _bits(array) if array.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(array))
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), array.size, [valid, data])


def list_array(start: np.ndarray, values: np.ndarray | pa.Array) -> pa.Array:
    """Return one list per row, of which row ``i`` has ``values[start[i]:start[i + 1]]``.

    Examples
    --------
    >>> list_array(np.array([0, 2, 3]), np.array([0.5, 0.25, 1.0])).to_pylist()
    [[0.5, 0.25], [1.0]]
    """
    return pa.ListArray.from_arrays(arrow_array(start.astype(np.int32)), arrow_array(values))


def coded_texts(
    names: np.ndarray | pa.Array | pa.ChunkedArray, code: np.ndarray
) -> pa.Array | pa.ChunkedArray:
    """Return ``names[code]`` as texts in UTF-8; NumPy would keep four bytes for every letter of the longest.

    Examples
    --------
    >>> coded_texts(np.array(["no", "yes"]), np.array([1, 0, 1])).to_pylist()
    ['yes', 'no', 'yes']
    """
    texts = arrow_array(names.astype(str, copy=False) if isinstance(names, np.ndarray) else names)
    return texts.take(arrow_array(code))


def read_parquet(
    path: Path, columns: Iterable[str] | None = None, *, repeated: Sequence[str] = ()
) -> pa.Table:
    """Return a Parquet file, whole or some of its columns in the order given.

    Columns of `repeated` texts come as places in a dictionary of different ones.
    """
    asked = None if columns is None else list(columns)
    with undamaged(path), _opened(path, repeated) as file:
        table = file.read(columns=asked)
    return table if asked is None else table.select(asked)


def _opened(path: Path, repeated: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(path, read_dictionary=repeated, page_checksum_verification=True)


def read_first(path: Path, n_rows: int) -> pa.Table:
    """Return the first rows of a Parquet file, without reading far beyond them."""
    batches, n_read = list[pa.RecordBatch](), 0
    with undamaged(path), _opened(path) as file:
        for batch in file.iter_batches(n_rows, use_threads=False):
            batches.append(batch)
            n_read += len(batch)
            if n_read >= n_rows:
                break
        return pa.Table.from_batches(batches, file.schema_arrow)[:n_rows]


def write_parquet(path: Path, parts: Iterable[pa.Table]) -> None:
    """Write a Parquet file from parts, one or more, of which one is in memory at a time.

    Every page has a checksum, so that flipped bits on a disk are noticed.
    """
    rest = iter(parts)
    first = next(rest)
    with pq.ParquetWriter(path, first.schema, write_page_checksum=True) as file:
        for part in chain([first], rest):
            file.write_table(part)


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Raise EngineError where a file that a run wrote is damaged; FileNotFoundError passes.

    Examples
    --------
    >>> with undamaged(Path("crowd.npz")):
    ...     raise ValueError("no archive")
    Traceback (most recent call last):
    flows.settings.section.EngineError: crowd.npz cannot be read and may be damaged (no archive); begin...
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        import zipfile  # a command that finds no damage waits for none of these
        import zlib

        from flows.settings import EngineError

        if not isinstance(error, (*DAMAGED, zipfile.BadZipFile, zlib.error)):
            raise
        what = " ".join(str(error).split()) or type(error).__name__
        raise EngineError(
            f"{path} cannot be read and may be damaged ({what}); {_way_on(path)}"
        ) from None


def _way_on(path: Path) -> str:
    """Return what to do about a damaged file of a run."""
    if path.name == "manifest.json":  # by which even another run looks at this one
        return f"move {path.parent} away, and run again"
    finished = (path.parent / "manifest.json").is_file() and path.parent.name[:1] != "."
    return "make another run with --again" if finished else "begin anew without --resume"


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object that a run wrote; EngineError if its file is damaged."""
    with undamaged(path):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it must hold one object")
        return found


def numpy_array(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return numbers or truth values, none of them null, as a read-only array.

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


def text_column(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column's texts as a NumPy array, a million at a time; a missing one is the word None.

    Examples
    --------
    >>> text_column(pa.chunked_array([["a"], ["bcd", "e"]]))
    array(['a', 'bcd', 'e'], dtype='<U3')
    """
    from quality.labels import array_texts, text_array  # numba, which a statement need not load

    chunks = [
        chunk.slice(at, DECODED)
        for chunk in column.chunks
        for at in range(0, max(len(chunk), 1), DECODED)
    ]
    pieces = [array_texts(chunk) for chunk in chunks]
    known = [piece for piece in pieces if piece is not None]
    if not known or len(known) < len(pieces):
        return np.array(column.to_pylist(), dtype=np.str_)
    width = max(
        int(np.diff(piece.start).max(initial=1))
        if piece.letters.max(initial=0) < 128  # a byte is a letter
        else text_array(piece).itemsize // 4
        for piece in known
    )
    found = np.empty(len(column), dtype=f"<U{width}")
    end = np.cumsum([len(piece.start) - 1 for piece in known])
    for piece, last in zip(known, end, strict=True):
        found[last - len(piece.start) + 1 : last] = text_array(piece)
    return found


def release_memory() -> None:
    """Give Arrow's unused memory back to the system: after columns of many names it is gigabytes."""
    pa.default_memory_pool().release_unused()


def _bits(truth: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truth, bitorder="little"))


def _text_array(column: Sequence[str]) -> pa.Array:
    try:
        whole = "".join(column)
    except TypeError:
        wrong = next(one for one in column if not isinstance(one, str))
        raise TypeError(f"a column that is no array must hold texts, got {wrong!r}") from None
    if whole.isascii():
        return _of_pieces([np.fromiter(map(len, column), np.int64, len(column))], [whole.encode()])
    texts = [text.encode() for text in column]
    return _of_pieces([np.fromiter(map(len, texts), np.int64, len(texts))], texts)


def _arrow_texts(array: np.ndarray) -> pa.Array:
    """Return texts as UTF-8; the cast raises ArrowInvalid beyond what Arrow's `string` can hold."""
    pieces = [
        _encoded(array[at : at + TEXTS_AT_ONCE]) for at in range(0, array.size, TEXTS_AT_ONCE)
    ]
    return _of_pieces([length for length, _ in pieces], [text for _, text in pieces])


def _of_pieces(lengths: Sequence[np.ndarray], letters: Sequence[bytes]) -> pa.Array:
    """Return the texts whose lengths in bytes and letters stand in pieces, one after the other."""
    end = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    buffers = [None, pa.py_buffer(end), pa.py_buffer(b"".join(letters))]
    return pa.Array.from_buffers(pa.large_string(), len(end) - 1, buffers).cast(pa.string())


def _encoded(piece: np.ndarray) -> tuple[np.ndarray, bytes]:
    """Return the length in bytes of each text, and all texts concatenated."""
    width = piece.dtype.itemsize // 4  # NumPy keeps four bytes a letter
    letter = np.ascontiguousarray(piece).view(np.uint32).reshape(piece.size, width)
    if letter.max(initial=0) >= 128:
        texts = [text.encode() for text in piece.tolist()]
        return np.array([len(text) for text in texts]), b"".join(texts)
    length = np.strings.str_len(piece)
    return length, letter[np.arange(width) < length[:, None]].astype(np.uint8).tobytes()

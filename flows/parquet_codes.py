"""Columns of a Parquet file in codes: the quick way, gone where there is no fault to tell.

Cells stay bytes in Arrow's buffers; no object is made of them, and no text is trimmed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.text_table import Coded
from quality.arrow_texts import array_texts
from quality.integer_codes import code_integers
from quality.text_codes import code_texts
from quality.texts import Texts, taken, text_array

__all__ = ["parquet_codes"]

PIECE = 2**20  # rows read at once, in whole row groups
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
    repeated = [name] if metadata.num_rows and _is_repeated(metadata, name) else []
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=repeated) as file:
        kind = file.schema_arrow.field(name).type
        if not metadata.num_rows:
            raise _NotPlain
        if pa.types.is_dictionary(kind):
            code, names = _code_dictionaries(list(_chunks(file, name)))
        elif pa.types.is_integer(kind) and kind != pa.uint64():
            code, names = code_integers(chunk.to_numpy() for chunk in _chunks(file, name))
        else:
            code, names = code_texts(_texts(chunk) for chunk in _chunks(file, name))
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
    """A column's Arrow arrays, none with a missing cell; the next are read meanwhile."""

    def read(groups: list[int]) -> Any:
        return file.read_row_groups(groups, columns=[name], use_threads=False)[name]

    spans = _spans(file.metadata)
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(read, spans[0])
        for groups in [*spans[1:], None]:
            chunks = ahead.result().chunks
            if groups is not None:
                ahead = pool.submit(read, groups)
            for chunk in chunks:
                if chunk.null_count:
                    raise _NotPlain
                yield chunk


def _spans(metadata: pq.FileMetaData) -> list[list[int]]:
    """Row groups that are read at once."""
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    spans: dict[int, list[int]] = {}
    for group, begin in enumerate(np.cumsum([0, *rows[:-1]]).tolist()):
        spans.setdefault(begin // PIECE, []).append(group)
    return list(spans.values())


def _texts(array: Any) -> Texts:
    """An array's own buffers."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    texts = array_texts(array)
    if texts is None:
        raise _NotPlain
    return texts


def _code_dictionaries(chunks: list[Any]) -> tuple[np.ndarray, Texts]:
    """Codes of a column that comes as places in dictionaries; only what occurs is a name."""
    if any(chunk.dictionary.null_count for chunk in chunks):
        raise _NotPlain
    code, names = code_texts(_texts(chunk.dictionary) for chunk in chunks)
    first = np.cumsum([0, *(len(chunk.dictionary) for chunk in chunks)])
    begin = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    row, used = np.empty(begin[-1], dtype=np.int32), np.zeros(len(names.start) - 1, dtype=np.bool_)
    for at, chunk in enumerate(chunks):
        mine = code[first[at] : first[at + 1]][chunk.indices.to_numpy()]
        row[begin[at] : begin[at + 1]], used[mine] = mine, True
    if used.all():
        return row, names
    return (np.cumsum(used, dtype=np.int32) - 1)[row], taken(names, np.flatnonzero(used))


def _plain(names: Texts) -> Texts:
    """Names that are what their cells are: nothing to trim, nothing blank."""
    letters, start = names
    if not (np.diff(start).all() and letters.all()):
        raise _NotPlain
    if min(letters[start[:-1]].min(), letters[start[1:] - 1].min()) <= ord(" "):
        raise _NotPlain
    if letters.max() > 127 and any(name != name.strip() for name in text_array(names).tolist()):
        raise _NotPlain
    return names

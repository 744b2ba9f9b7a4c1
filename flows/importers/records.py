"""Exports in JSON: an array of records, or one record a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from flows.files import open_text
from flows.importers.responses import SHOWN, readable
from flows.tables import TableError, text_of_value

__all__ = ["expect", "keys_of", "name_in", "read_records"]

NEWLINE = "\n"
KINDS: dict[type, str] = {str: "text", list: "list", dict: "object"}
GAP = re.compile(r"[\s,]*")
Record = dict[str, Any]
Kind = TypeVar("Kind", str, list[Any], dict[str, Any])


def read_records(path: Path, needed: tuple[str, ...], of: str) -> Iterator[tuple[int, Record]]:
    """Yield records with their numbers from 1, decoded one at a time, each checked for its keys."""
    with readable(path), open_text(path) as file:
        text = file.read()
    row = 0
    for row, record in enumerate(_values(text, path.name), start=1):
        if not isinstance(record, dict):
            raise TableError(
                f"{path.name}, record {row}: must be a JSON object with the keys "
                f"{', '.join(needed)} to be of {of}, got a {type(record).__name__}; check --format"
            )
        missing = [key for key in needed if key not in record]
        if missing:
            raise TableError(
                f"{path.name}, record {row}: must have the keys {', '.join(needed)} to be of {of}; "
                f"missing: {', '.join(missing)} (it has {keys_of(record)}); "
                "check --format"
            )
        yield row, record
    if not row:
        raise TableError(f"{path.name} has no records; export it again")


def keys_of(record: Record) -> str:
    """Return the first keys of a record, for a message."""
    return ", ".join(list(record)[:SHOWN])


def expect(value: object, kind: type[Kind], what: str, file: str, row: int) -> Kind:
    """Return a part of a record; raise TableError if it is of another kind."""
    if not isinstance(value, kind):
        raise TableError(
            f"{file}, record {row}: {what} must be a {KINDS[kind]}, got a {type(value).__name__}; "
            "check --format"
        )
    return value


def name_in(record: Record, key: str, file: str, row: int) -> str:
    """Return a worker's or a task's name as text, blank where it is missing."""
    text = text_of_value(record.get(key))
    if text is None:
        raise TableError(f"{file}, record {row}, key {key}: must be a name or a number")
    return text


def _values(text: str, file: str) -> Iterator[Any]:
    """Yield the values of an array or of lines, one in memory at a time."""
    decoder, end = json.JSONDecoder(), len(text.rstrip())
    array = text.lstrip().startswith("[")
    if array and text[end - 1] != "]":
        raise TableError(f"{file} ends in the middle of its array; export it again")
    at = text.index("[") + 1 if array else 0
    at, end = GAP.match(text, at).end(), end - array  # type: ignore[union-attr]
    while at < end:
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            where = f"line {text.count(NEWLINE, 0, getattr(error, 'pos', at)) + 1}"
            fault = getattr(error, "msg", "a number too long or lists too deep")
            raise TableError(f"{file}, {where}: is not JSON ({fault}); check --format") from None
        yield value
        at = GAP.match(text, at).end()  # type: ignore[union-attr]

"""An export that is JSON: an array of records, or one record a line."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from flows.importers.responses import text_of
from flows.tables import TableError

__all__ = ["expect", "name_in", "read_records"]

NEWLINE = "\n"
KINDS: dict[type, str] = {str: "text", list: "list", dict: "object"}
GAP = re.compile(r"[\s,]*")
Record = dict[str, Any]
Kind = TypeVar("Kind", str, list[Any], dict[str, Any])


def read_records(path: Path, needed: tuple[str, ...], of: str) -> Iterator[tuple[int, Record]]:
    """Records with their numbers from 1, decoded one at a time, each checked for its keys."""
    if not path.is_file():
        raise TableError(f"{path} does not exist; mend the path")
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise TableError(f"{path.name} must be UTF-8 text; check --format") from None
    except (OSError, EOFError) as error:
        raise TableError(f"{path.name} cannot be read: {error}") from None
    row = 0
    for row, record in enumerate(_values(text, path.name), start=1):
        if not isinstance(record, dict):
            raise TableError(
                f"{path.name}, record {row}: must be a JSON object with the keys "
                f"{', '.join(needed)} to be of {of}, it is none; check --format"
            )
        missing = [key for key in needed if key not in record]
        if missing:
            raise TableError(
                f"{path.name}, record {row}: must have the keys {', '.join(needed)} to be of {of}; "
                f"missing: {', '.join(missing)} (it has {', '.join(list(record)[:12])}); "
                "check --format"
            )
        yield row, record
    if not row:
        raise TableError(f"{path.name} has no records; export it again")


def expect(value: object, kind: type[Kind], what: str, file: str, row: int) -> Kind:
    """A part of a record, refused where it is of another kind."""
    if not isinstance(value, kind):
        raise TableError(
            f"{file}, record {row}: {what} must be a {KINDS[kind]}, got a {type(value).__name__}; "
            "check --format"
        )
    return value


def name_in(record: Record, key: str, file: str, row: int) -> str:
    """A worker's or a task's name as text, blank where there is none."""
    text = text_of(record.get(key))
    if text is None:
        raise TableError(f"{file}, record {row}, key {key}: must be a name or a number")
    return text


def _values(text: str, file: str) -> Iterator[Any]:
    """The values of an array or of lines; a value is let go once the next is asked for."""
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
            told = getattr(error, "msg", "a number too long or lists too deep")
            raise TableError(f"{file}, {where}: is not JSON ({told}); check --format") from None
        yield value
        at = GAP.match(text, at).end()  # type: ignore[union-attr]

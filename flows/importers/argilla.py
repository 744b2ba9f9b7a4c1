"""Argilla 2: records exported as JSON or JSON lines, nested or flat.

Flat records (`to_list(flatten=True)`) hold the status of each answer: drafts count as unfinished,
discarded ones as skipped. Nested records hold no status, so all their answers are taken. There are no
durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.importers.records import expect, keys_of, name_in, read_records
from flows.importers.responses import Dropped, Response
from flows.tables import TableError

__all__ = ["read_argilla"]

OF = "an Argilla export"
ANSWERS = ".responses"
FATES = {None: None, "submitted": None, "discarded": Dropped.skipped, "draft": Dropped.unfinished}


def read_argilla(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the responses of a dataset."""
    for row, record in read_records(path, ("id",), OF):
        task = name_in(record, "id", path.name, row)
        for question, response in _given(record, path.name, row):
            status = response.get("status")
            if not isinstance(status, str | None) or status not in FATES:
                raise TableError(
                    f"{path.name}, record {row}: the status of an answer must be submitted, "
                    f"discarded or draft, got {status!r}"
                )
            worker = name_in(response, "user_id", path.name, row)
            answers = {question: response.get("value")}
            yield Response(row, worker, task, answers, None, FATES[status], partly=True)


def _given(record: dict[str, Any], file: str, row: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each question's answers, each with its worker."""
    flat = [key for key in record if key.endswith(ANSWERS)]
    if not flat and not isinstance(record.get("responses"), dict):
        raise TableError(
            f"{file}, record {row}: must have the key responses (nested) or keys <question>"
            f"{ANSWERS} (flat); it has {keys_of(record)}; check --format"
        )
    for question, given in (record.get("responses") or {}).items() if not flat else ():
        for response in expect(given, list, f"responses to {question}", file, row):
            yield question, expect(response, dict, "a response", file, row)
    for key in flat:
        values, users, statuses = (  # None where the question has no answer
            expect(record.get(name) or [], list, name, file, row)
            for name in (key, f"{key}.users", f"{key}.status")
        )
        statuses = statuses or [None] * len(values)
        if not len(values) == len(users) == len(statuses):
            raise TableError(
                f"{file}, record {row}: {key}, its users and status must be of one length"
            )
        for value, user, status in zip(values, users, statuses, strict=True):
            yield key.removesuffix(ANSWERS), {"value": value, "user_id": user, "status": status}

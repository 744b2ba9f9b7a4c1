"""Prodigy: the JSON lines of a dataset, one annotation a line.

A task is its `_input_hash`. Where options were shown, the label is the accepted option. Where one label
was shown to be accepted or rejected, that label is the question and the answer is `accept` or `reject`.
Ignored tasks, and rejected ones with options, count as skipped. A worker is `_annotator_id`, or
`_session_id` in older files. There are no durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.importers.records import keys_of, name_in, read_records
from flows.importers.responses import Dropped, Response
from flows.tables import TableError

__all__ = ["read_prodigy"]

OF = "a Prodigy dataset"
ANSWERS = ("accept", "reject", "ignore")


def read_prodigy(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the responses of a dataset."""
    for row, record in read_records(path, ("_input_hash", "answer"), OF):
        if record["answer"] not in ANSWERS:
            raise TableError(
                f"{path.name}, record {row}: the answer must be one of {', '.join(ANSWERS)}"
            )
        key = "_session_id" if record.get("_annotator_id") is None else "_annotator_id"
        worker, task = (name_in(record, name, path.name, row) for name in (key, "_input_hash"))
        question, value, dropped = _answer(record, path.name, row)
        yield Response(row, worker, task, {question: value}, None, dropped, partly=True)


def _answer(record: dict[str, Any], file: str, row: int) -> tuple[str, object, Dropped | None]:
    """Return the question, the answer, and whether it was skipped."""
    if "options" in record:
        skipped = record["answer"] != "accept"
        return "choice", record.get("accept"), Dropped.skipped if skipped else None
    if isinstance(record.get("label"), str):
        skipped = record["answer"] == "ignore"
        return record["label"], record["answer"], Dropped.skipped if skipped else None
    raise TableError(
        f"{file}, record {row}: must have the key options or the key label; it has "
        f"{keys_of(record)}"
    )

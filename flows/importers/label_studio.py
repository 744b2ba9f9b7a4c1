"""Label Studio: the JSON export, one task a record, and JSON-MIN, one annotation a record.

Questions are the names of `Choices`, `Rating` and `Pairwise` tags. Only the worker's id is read, where the
export holds one, else her e-mail address; in JSON-MIN the worker is `annotator`. A pairwise answer is the
word left or right; the items that stood there are named by keys of the task's data, which `columns` gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.importers.records import expect, keys_of, name_in, read_records
from flows.importers.responses import Dropped, Response
from flows.importers.sheet import number_of_seconds
from flows.tables import TableError

__all__ = ["read_label_studio"]

OF = "a Label Studio export"
KINDS = {
    "choices": "choices",
    "rating": "rating",
    "pairwise": "selected",
}  # keys of a result's value
Record = dict[str, Any]


def read_label_studio(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the responses of a project, with seconds; cancelled annotations count as skipped."""
    if len(columns) == 1:
        raise TableError("--map must name left and right, both of them: keys of the data of a task")
    # where answers of several choices are JSON again
    if path.name.lower().endswith((".csv", ".tsv")):
        raise TableError(
            f"{path.name} must be the JSON or JSON-MIN export of Label Studio, got its CSV or TSV, whose "
            "cells lose what an answer is; export it again as JSON, or check --format"
        )
    for row, record in read_records(path, ("id",), OF):
        pair = _pair(record, columns, path.name, row)
        if "annotations" in record:
            task = name_in(record, "id", path.name, row)
            for found in expect(record["annotations"], list, "annotations", path.name, row):
                annotation = expect(found, dict, "an annotation", path.name, row)
                yield _annotation(annotation, task, path.name, row)._replace(pair=pair)
        elif "annotator" in record:
            yield _flat(record, path.name, row)._replace(pair=pair)
        else:
            raise TableError(
                f"{path.name}, record {row}: must have the key annotations (JSON) or annotator "
                f"(JSON-MIN); it has {keys_of(record)}; check --format"
            )


def _pair(
    record: Record, columns: Mapping[str, str], file: str, row: int
) -> tuple[str, str] | None:
    """Return the names of the items left and right, where keys of the task's data are given for them."""
    if not columns:
        return None
    data = record
    if "annotations" in record:
        data = expect(record.get("data"), dict, "data", file, row)
    left, right = (name_in(data, columns[side], file, row) for side in ("left", "right"))
    if not (left.strip() and right.strip()):
        raise TableError(
            f"{file}, record {row}: {columns['left']} and {columns['right']} must name the items left and "
            f"right; the data have {keys_of(data)}; check --map"
        )
    return left, right


def _annotation(annotation: Record, task: str, file: str, row: int) -> Response:
    """Return one worker's annotation; choices made in parts of a task are listed together."""
    by = annotation.get("completed_by")
    person, key = annotation, "completed_by"
    if isinstance(by, dict):
        person, key = by, "email" if by.get("id") in (None, "") else "id"
    answers: dict[str, list[object]] = {}
    for part in expect(annotation.get("result") or [], list, "result", file, row):
        result = expect(part, dict, "a result", file, row)
        kind = result.get("type")
        if isinstance(kind, str) and kind in KINDS:
            value = expect(result.get("value"), dict, "a result's value", file, row)
            question = expect(result.get("from_name"), str, "a result's from_name", file, row)
            chosen = value.get(KINDS[kind])
            answers.setdefault(question, []).extend(
                chosen if isinstance(chosen, list) else [chosen]
            )
    dropped = None
    if annotation.get("was_cancelled"):
        dropped = Dropped.skipped
    elif annotation.get("ground_truth"):
        dropped = Dropped.truth
    worker = name_in(person, key, file, row)
    return Response(row, worker, task, answers, _seconds(annotation, file, row), dropped)


def _flat(record: Record, file: str, row: int) -> Response:
    """Return a record of JSON-MIN: the task's data, its id, the answers, and then the worker."""
    keys = list(record)
    first, last = keys.index("id") + 1, keys.index("annotator")
    answers = {key: _bare(record[key]) for key in keys[first:last]}
    worker, task = (name_in(record, key, file, row) for key in ("annotator", "id"))
    return Response(row, worker, task, answers, _seconds(record, file, row))


def _bare(value: object) -> object:
    """Return the choices of a value that holds them as a part."""
    for key in KINDS.values():
        if isinstance(value, dict) and key in value:
            return value[key]
    return value


def _seconds(record: Record, file: str, row: int) -> float | None:
    return number_of_seconds(name_in(record, "lead_time", file, row), f"{file}, record {row}")

"""Tasks to post again, as platforms read them: the inputs of an export, for the tasks of a label plan.

Mechanical Turk takes a CSV with a column for each variable of the project's template, Toloka a TSV of
`INPUT:` columns, Label Studio a JSON list of tasks. One batch of Mechanical Turk and one pool of Toloka
ask for the same number of labels of every task, so a repost may be limited to the tasks that want so
many.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from flows.choices import PostedTo
from flows.files import OutputFile
from flows.importers import name_in, open_sheet, read_records
from flows.tables import TableError, quoting_of

__all__ = ["Reposted", "write_repost"]

Wanted: TypeAlias = Mapping[str, Sequence[str]]
"""Tasks, each with the workers whom the plan asks."""
INPUTS = {"mturk": "Input.", "toloka": "INPUT:"}


@dataclass(frozen=True, slots=True)
class Reposted:
    """Result of :func:`write_repost`: the tasks written, and those that the export does not hold."""

    written: tuple[str, ...]
    missing: tuple[str, ...]


def write_repost(
    platform: PostedTo, wanted: Wanted, export: Path, output: OutputFile, *, task: str | None = None
) -> Reposted:
    """Write the tasks of a plan in the order of the export, each once, with what workers were shown.

    Parameters
    ----------
    platform
        Whose export it is, and who reads the file.
    wanted
        Tasks to post again, each with the workers whom the plan asks.
    export
        The platform's export that the labels came from.
    output
        The file.
    task
        The column of the task's id, if the import mapped one; None for the platform's own.

    Raises
    ------
    TableError
        If the export is not of that platform, holds no task of the plan, or has a text that is not Unicode.
    OutputError
        If the file cannot be written.

    Notes
    -----
    **Guarantees.** Answers, workers and times of the export are not in the file.
    """
    found = dict(FOUND[platform](wanted, export, task))
    if not found:
        raise TableError(
            f"{export.name} holds no task of the label plan; give the export that the labels came from, and "
            "with --task the column that the import took for the task"
        )
    text = WRITERS[platform](list(found.values()))
    try:
        output.write(partial(Path.write_text, data=text, encoding="utf-8"))
    except UnicodeEncodeError:
        raise TableError(f"{export.name} holds a text that is not Unicode; mend it") from None
    return Reposted(tuple(found), tuple(name for name in wanted if name not in found))


def _of_table(
    platform: str,
    own: tuple[str, ...],
    delimiter: str,
    wanted: Wanted,
    export: Path,
    task: str | None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each task of a table once, with its inputs."""
    sheet = open_sheet(export, delimiter)
    inputs = [name for name in sheet.names if name.startswith(INPUTS[platform])]
    if not inputs:
        raise TableError(
            f"{export.name} has no column {INPUTS[platform]}<name>, which holds what workers were shown; "
            "check --format"
        )
    known = task or next((name for name in own if name in sheet.names), None)
    if known is None and len(inputs) == 1:
        known = inputs[0]
    sheet.need([known or own[0]], "such an export", "check --format and --task")
    tasks, *cells = sheet.columns([known or own[0], *inputs])
    seen = set()
    for name, *row in zip(map(str.strip, tasks), *cells, strict=True):  # as a run reads names
        if name in wanted and name not in seen:
            seen.add(name)
            yield name, dict(zip(inputs, row, strict=True))


def _of_label_studio(
    wanted: Wanted, export: Path, task: str | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each task of a JSON export once: its data, and whom the plan asks."""
    for row, record in read_records(export, ("id", "data"), "a Label Studio export"):
        data = record["data"]
        if not isinstance(data, dict):
            raise TableError(f"{export.name}, record {row}: data must be an object; check --format")
        name = name_in(data if task else record, task or "id", export.name, row).strip()
        if name in wanted:
            asked = list(wanted[name])
            yield name, {"data": data, "meta": {"labels_wanted": len(asked), "ask": asked}}


def _table(delimiter: str, prefix: str, rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table whose columns have lost a prefix."""
    written = io.StringIO(newline="")
    quoting = quoting_of(cell for row in rows for cell in (*row, *row.values()))
    lines = csv.writer(written, delimiter=delimiter, lineterminator="\n", quoting=quoting)
    lines.writerow([name.removeprefix(prefix) for name in rows[0]])
    lines.writerows(row.values() for row in rows)
    return written.getvalue()


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(list(rows), indent=1, ensure_ascii=False) + "\n"


FOUND: Mapping[PostedTo, Callable[..., Iterator[tuple[str, dict[str, Any]]]]] = {
    "mturk": partial(_of_table, "mturk", ("HITId",), ","),
    "toloka": partial(_of_table, "toloka", ("ASSIGNMENT:task_id",), "\t"),
    "label-studio": _of_label_studio,
}
WRITERS: Mapping[PostedTo, Callable[[Sequence[Mapping[str, Any]]], str]] = {
    "mturk": partial(_table, ",", INPUTS["mturk"]),
    "toloka": partial(_table, "\t", ""),
    "label-studio": _json,
}

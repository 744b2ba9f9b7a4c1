"""Toloka: the assignments TSV of a pool, one task of a suite a row.

A task is its `ASSIGNMENT:task_id`, or the one input field of files without it. Times are those of
a suite, shared evenly among its tasks. In older files the assignment is on the suite's last
row alone, and applies to the rows above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flows.importers.responses import Dropped, Response, fate_of
from flows.importers.sheet import Sheet, open_sheet, page_seconds, seconds_between, shown
from flows.tables import TableError

__all__ = ["read_toloka"]

OF = "a Toloka assignments file"
OUTPUT, INPUT = "OUTPUT:", "INPUT:"
WORKER, STATUS = "ASSIGNMENT:worker_id", "ASSIGNMENT:status"
SUITE, TASK = "ASSIGNMENT:assignment_id", "ASSIGNMENT:task_id"
START, END = "ASSIGNMENT:started", "ASSIGNMENT:submitted"
FATES = {
    "APPROVED": None,  # the interface answers ACCEPTED for the same
    "ACCEPTED": None,
    "SUBMITTED": None,
    "REJECTED": Dropped.rejected,
    "SKIPPED": Dropped.skipped,
    "ACTIVE": Dropped.unfinished,
    "EXPIRED": Dropped.unfinished,
}


def read_toloka(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the responses of a pool, each with an even share of its suite's seconds, if known."""
    sheet = open_sheet(path, "\t")
    outputs = [n for n in sheet.names if n.startswith(OUTPUT)] or [f"{OUTPUT}<field>"]
    asked = [columns["label"]] if "label" in columns else outputs
    worker = columns.get("worker", WORKER)
    sheet.need([worker, STATUS, *asked], OF)
    task = columns.get("task") or _task_column(sheet)
    sheet.need([task], OF)
    cells = zip(*sheet.columns([task, *asked, worker, STATUS, SUITE, START, END]), strict=True)
    rows = list(_filled(cells, 1 + len(asked), sheet.file))
    names = [name.removeprefix(OUTPUT) for name in asked]
    size = Counter(suite[2] for _, _, suite in rows)
    for row, own, (who, status, suite, start, end) in rows:
        fate = fate_of(status, FATES, f"{sheet.file}, row {row}, column {STATUS}")
        whole = seconds_between(start, end, None, f"{sheet.file}, row {row}") if suite else None
        answers = dict(zip(names, own[1:], strict=True))
        seconds = page_seconds(whole, size[suite])
        yield Response(row, who, own[0], answers, seconds, fate)


def _task_column(sheet: Sheet) -> str:
    """Return the column of the task's id, or the only input field."""
    inputs = [name for name in sheet.names if name.startswith(INPUT)]
    if TASK in sheet.names or not inputs:
        return TASK
    if len(inputs) > 1:
        raise TableError(
            f"{sheet.file} has no {TASK} and several inputs ({shown(inputs)}); name the "
            "one that identifies a task with --map task=INPUT:<field>"
        )
    return inputs[0]


def _filled(
    cells: Iterator[Sequence[str]], width: int, file: str
) -> Iterator[tuple[int, Sequence[str], Sequence[str]]]:
    """Yield rows as their own cells and their suite's; blank rows are left out."""
    waiting: list[tuple[int, Sequence[str]]] = []
    for row, found in enumerate(cells, start=1):
        own, suite = found[:width], found[width:]
        if not any(found):
            continue
        waiting.append((row, own))
        if any(suite):
            yield from ((earlier, its, suite) for earlier, its in waiting)
            waiting.clear()
    if waiting:
        raise TableError(f"{file}, row {waiting[0][0]}: no row of its suite names a worker")

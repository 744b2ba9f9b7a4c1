"""Appen, formerly Figure Eight and CrowdFlower: the full report, one judgment a row.

Questions are the columns that have a twin `<q>_gold`, or all of the job's columns where no column has
one. Judgments that the platform marks as `_tainted` count as rejected. Times are those of a page,
shared evenly among its judgments. A worker's place (`_ip`, `_city`, ...) is never read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flows.importers.responses import Dropped, Response
from flows.importers.sheet import open_sheet, page_seconds, seconds_between
from flows.tables import TableError

__all__ = ["read_appen"]

OF = "an Appen full report"
PERSONAL = ("_ip", "_city", "_region", "_country", "_channel")
TAINTED = "_tainted"
START, END = "_started_at", "_created_at"
CLOCK = "%m/%d/%Y %H:%M:%S"


def read_appen(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the responses of a job, each with an even share of the page's seconds."""
    sheet = open_sheet(path)
    worker, task = columns.get("worker", "_worker_id"), columns.get("task", "_unit_id")
    asked = [columns["label"]] if "label" in columns else _questions(sheet.names)
    personal = [name for name in (worker, task, *asked) if name in PERSONAL]
    if personal:
        raise TableError(f"{sheet.file}: column {personal[0]} is personal and is never imported")
    sheet.need([worker, task, *(asked or ["<question>"])], OF)
    columns_read = sheet.columns([worker, task, START, END, TAINTED, *asked])
    size = Counter(zip(columns_read[0], columns_read[2], columns_read[3], strict=True))
    rows = zip(*columns_read, strict=True)
    for row, (who, unit, start, end, out, *cells) in enumerate(rows, start=1):
        page = seconds_between(start, end, CLOCK, f"{sheet.file}, row {row}")
        answers = {
            question: cell.split("\n") if "\n" in cell else cell
            for question, cell in zip(asked, cells, strict=True)
        }
        dropped = Dropped.rejected if out.lower() == "true" else None
        yield Response(row, who, unit, answers, page_seconds(page, size[who, start, end]), dropped)


def _questions(names: Sequence[str]) -> list[str]:
    """Return the columns with a twin of gold answers, or the job's own columns where there is no twin."""
    own = [name for name in names if not name.startswith("_")]
    return [name for name in own if f"{name}_gold" in names] or own

"""Amazon Mechanical Turk: the batch results CSV of the requester site, one assignment a row.

A task is a HIT unless `task` is mapped to a column of the input. The answer to a question is a
column `Answer.<q>`, `Answer.<q>.label`, a list of labels as JSON in `Answer.<q>.labels`, one
true-or-false column `Answer.<q>.<option>` for each option, or a part of the JSON in
`Answer.taskAnswers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flows.importers.responses import Dropped, Response, fate_of
from flows.importers.sheet import Sheet, number_of_seconds, open_sheet
from flows.tables import TableError

__all__ = ["read_mturk"]

ANSWER = "Answer."
FORM = "Answer.taskAnswers"
LIST = ".labels"  # ends the column of a question with several labels
STATUS = "AssignmentStatus"
TIME = "WorkTimeInSeconds"
FATES = {"Submitted": None, "Approved": None, "Rejected": Dropped.rejected}


def read_mturk(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the responses of a batch, with the seconds of each assignment."""
    sheet = open_sheet(path)
    named = {"worker": "WorkerId", "task": "HITId", "seconds": TIME} | dict(columns)
    asked = [n for n in sheet.names if n.startswith(ANSWER)] or [f"{ANSWER}<question>"]
    if "label" in columns:
        asked = [columns["label"]]
    sheet.need([named["worker"], named["task"], STATUS, *asked], "an MTurk batch")
    sheet.need([columns["seconds"]] if "seconds" in columns else [], "an MTurk batch")
    worker, task, status, times, *rest = sheet.columns(
        [named["worker"], named["task"], STATUS, named["seconds"], *asked]
    )
    answers = _answers(sheet, dict(zip(asked, rest, strict=True)), "label" in columns)
    for row, cells in enumerate(zip(worker, task, status, times, answers, strict=True), start=1):
        fate = fate_of(cells[2], FATES, f"{sheet.file}, row {row}, column {STATUS}")
        seconds = number_of_seconds(cells[3], f"{sheet.file}, row {row}, column {named['seconds']}")
        yield Response(row, cells[0], cells[1], cells[4], seconds, fate)


def _answers(
    sheet: Sheet, cells: Mapping[str, Sequence[str]], mapped: bool
) -> Iterator[Mapping[str, object]]:
    """Yield each row's answers by question."""
    if not mapped and list(cells) == [FORM]:
        return (_form(sheet, row, cell) for row, cell in enumerate(cells[FORM], start=1))
    questions = {name: [name] for name in cells} if mapped else _questions(cells)
    columns = [
        _ticked({name.split(".", 2)[2]: cells[name] for name in of})
        if len(of) > 1
        else _listed(cells[of[0]])
        if of[0].endswith(LIST)
        else cells[of[0]]
        for of in questions.values()
    ]
    return (dict(zip(questions, row, strict=True)) for row in zip(*columns, strict=True))


def _questions(cells: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the columns of each question: one, or one for each option where all cells are true or false."""
    families: dict[str, list[str]] = {}
    for name in cells:
        families.setdefault(name.split(".")[1], []).append(name)
    questions: dict[str, list[str]] = {}
    for family, names in families.items():
        labelled = next(
            (n for n in names if n in (f"{ANSWER}{family}.label", f"{ANSWER}{family}{LIST}")), ""
        )
        options = [name for name in names if name != f"{ANSWER}{family}"]
        if labelled:
            questions[family] = [labelled]
        elif len(options) > 1 and options == names and _boolean([cells[n] for n in options]):
            questions[family] = options
        else:
            questions |= {name.removeprefix(ANSWER): [name] for name in names}
    return questions


def _boolean(columns: Sequence[Sequence[str]]) -> bool:
    return {cell.lower() for column in columns for cell in column} <= {"true", "false", ""}


def _ticked(options: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield the options that are true, row by row."""
    for row in zip(*options.values(), strict=True):
        yield [name for name, cell in zip(options, row, strict=True) if cell.lower() == "true"]


def _listed(cells: Sequence[str]) -> Iterator[object]:
    """Yield the labels of cells that are lists as JSON; others as they are."""
    for cell in cells:
        try:
            found = json.loads(cell) if cell.lstrip().startswith("[") else cell
        except (ValueError, RecursionError):
            found = cell
        yield found


def _form(sheet: Sheet, row: int, cell: str) -> dict[str, object]:
    """Return answers of a crowd form, `[{question: value or {"label": value} or {option: bool}}]`."""
    try:
        found = json.loads(cell or "{}")
    except json.JSONDecodeError:
        raise TableError(f"{sheet.file}, row {row}, column {FORM}: is not JSON") from None
    if isinstance(found, list):
        found = found[0] if len(found) == 1 else found or {}
    if not isinstance(found, dict):
        raise TableError(f"{sheet.file}, row {row}, column {FORM}: must hold one JSON object")
    return {question: _form_value(value) for question, value in found.items()}


def _form_value(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for key in ("label", "labels"):
        if key in value:
            return value[key]
    if value and all(isinstance(ticked, bool) for ticked in value.values()):
        return [option for option, ticked in value.items() if ticked]
    return value

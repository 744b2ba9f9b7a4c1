"""What the terminal and a log show of a stage, and that whoever listened before still hears of it."""

from __future__ import annotations

import errno
import io
import os
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from flows.terminal import console


@dataclass(frozen=True)
class FakeRun:
    """As much of a run as a step needs."""

    progress: Any = None


@dataclass(frozen=True)
class FakeStage:
    """A stage's name; `run_stage` is replaced."""

    name: str = "judge_workers"


def printed_around(monkeypatch: pytest.MonkeyPatch, run: FakeRun, *, terminal: bool) -> str:
    """What is printed around a stage that reports its progress."""
    shown = io.StringIO()

    def run_stage(_: object, run: FakeRun) -> str:
        run.progress("honest crowds", 40, 199)
        return "done"

    monkeypatch.setattr(console, "run_stage", run_stage)
    step: Any = console.console_step(Console(file=shown, force_terminal=terminal, width=200))
    assert step(FakeStage(), run) == "done"
    return shown.getvalue()


def test_a_log_has_one_line_of_a_short_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = printed_around(monkeypatch, FakeRun(), terminal=False).splitlines()
    assert line.startswith("judge workers ")
    assert line.endswith("done")


def test_a_terminal_has_a_bar_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed_around(monkeypatch, FakeRun(), terminal=True)
    assert "judge workers" in shown
    assert "honest crowds, 40 of 199" in shown
    assert "so far" not in shown


def test_who_listened_to_the_run_before_still_does(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []
    run = FakeRun(progress=lambda *step: told.append(step))
    printed_around(monkeypatch, run, terminal=False)
    assert told == [("honest crowds", 40, 199)]


@pytest.mark.parametrize(
    "cells", [("1.5", "-0.25"), ("0%", "100%"), ("4,000", "7"), ("2.4e-06", "1")]
)
def test_a_column_of_numbers_is_flush_right(cells: tuple[str, ...]) -> None:
    """A sign, a comma or a per cent turned the column to the left."""
    shown = io.StringIO()
    rows = [["a", cell, "z"] for cell in cells]
    console.print_rows(Console(file=shown, width=80), "Table", ["name", "a number", "last"], rows)
    _, head, *lines = shown.getvalue().splitlines()
    ends = {line.index(f"{cell}  z") + len(cell) for cell, line in zip(cells, lines, strict=True)}
    assert ends == {head.index("  last")}


def test_a_place_that_cannot_be_written_is_told_with_what_to_do() -> None:
    """`report` and `watch` on a disk mounted read-only said what failed, and not how to go on."""
    error = OSError(errno.EROFS, os.strerror(errno.EROFS), "runs/one/report.html")
    assert console.is_mistake(error)
    assert console.sentence(error).startswith("runs/one/report.html: Read-only file system; ")
    assert "copy the folder" in console.sentence(error)

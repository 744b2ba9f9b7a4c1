"""What the terminal and a log show while a stage runs."""

from __future__ import annotations

import io
import re
import time
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


def printed_while(
    monkeypatch: pytest.MonkeyPatch, *, first_word: float, terminal: bool = False
) -> str:
    """What is printed around a stage that tells its progress and waits until a line came, or not."""
    shown = io.StringIO()

    def run_stage(_: object, run: FakeRun) -> str:
        run.progress("honest crowds", 40, 199)
        until = time.monotonic() + 60
        while first_word < 1 and "of 199" not in shown.getvalue() and time.monotonic() < until:
            time.sleep(0.005)
        return "done"

    monkeypatch.setattr(console, "run_stage", run_stage)
    monkeypatch.setattr(console, "FIRST_WORD", first_word)
    step: Any = console.console_step(Console(file=shown, force_terminal=terminal, width=200))
    assert step(FakeStage(), FakeRun()) == "done"
    return shown.getvalue()


def test_a_log_says_what_a_long_stage_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    *said, last = printed_while(monkeypatch, first_word=0.01).splitlines()
    assert re.fullmatch(r"judge workers … honest crowds, 40 of 199; \d+ s so far", said[-1])
    assert last.endswith("done")


def test_a_log_has_one_line_of_a_short_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = printed_while(monkeypatch, first_word=30.0).splitlines()
    assert line.endswith("done")


def test_a_terminal_has_a_bar_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed_while(monkeypatch, first_word=30.0, terminal=True)
    assert "judge workers" in shown
    assert "so far" not in shown

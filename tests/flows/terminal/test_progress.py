"""Signs of work: lines in a log, a bar on a terminal, and what both say."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from flows.terminal import Waited, progress, repeating, waiting


def until_printed(shown: io.StringIO, text: str) -> None:
    """Wait until a line holds the text."""
    end = time.monotonic() + 60
    while text not in shown.getvalue() and time.monotonic() < end:
        time.sleep(0.005)


def test_a_log_says_what_is_waited_for_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_WORD", 0.01)
    shown = io.StringIO()
    with waiting(Console(file=shown, width=40), "judge workers …") as report:
        until_printed(shown, "so far")
        report("honest crowds", 40, 199)
        until_printed(shown, "of 199")
        report("agreement", 0, 1)
        until_printed(shown, "agreement")
    first, *_, last = shown.getvalue().splitlines()
    assert re.fullmatch(r"judge workers … \d+ s so far", first)
    assert re.search(
        r"^judge workers … honest crowds, 40 of 199; \d+ s so far$", shown.getvalue(), re.M
    )
    assert re.fullmatch(r"judge workers … agreement; \d+ s so far", last)


def test_a_log_has_no_line_of_a_short_step() -> None:
    shown = io.StringIO()
    with waiting(Console(file=shown), "judge workers …") as report:
        report("honest crowds", 40, 199)
    assert shown.getvalue() == ""


def test_words_come_after_twice_as_long_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 10, 20, 40 and 80 ms, or later where the machine is busy."""
    monkeypatch.setattr(progress, "FIRST_WORD", 0.01)
    told: list[float] = []
    begin = time.perf_counter()
    with repeating(lambda: told.append(time.perf_counter() - begin)):
        while len(told) < 4 and time.perf_counter() - begin < 60:
            time.sleep(0.005)
    assert all(at >= 0.01 * 2**place for place, at in enumerate(told))


def test_a_terminal_shows_words_and_a_bar() -> None:
    shown = io.StringIO()
    with waiting(Console(file=shown, force_terminal=True, width=80), "judge workers …") as report:
        report("honest crowds", 40, 199)
    assert "judge workers … honest crowds, 40 of 199" in shown.getvalue()
    assert "0:00:0" in shown.getvalue()


def test_a_quiet_console_shows_nothing() -> None:
    shown = io.StringIO()
    with waiting(Console(file=shown, quiet=True, force_terminal=True), "workers …") as report:
        report("honest crowds", 40, 199)
    assert shown.getvalue() == ""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the clock shows, to be set."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


def test_what_is_left_follows_from_the_pace_so_far(clock: list[float]) -> None:
    waited = Waited()
    clock[0] = 110.0
    waited.note("honest crowds", 40, 200)
    assert waited.left() is None
    clock[0] = 120.0
    waited.note("honest crowds", 60, 200)
    assert waited.left() == pytest.approx(70.0)
    clock[0] = 130.0
    assert waited.left() == pytest.approx(60.0)
    assert waited.words() == "honest crowds, 60 of 200, at most 60 s more"
    assert waited.words(counts=False) == "honest crowds, at most 60 s more"
    assert waited.seconds == pytest.approx(30.0)


def test_steps_with_names_are_of_one_work(clock: list[float]) -> None:
    waited = Waited()
    waited.note("candidates: MACE", 0, 4)
    clock[0] = 105.0
    waited.note("candidates: GLAD", 1, 4)
    assert waited.left() == pytest.approx(15.0)
    waited.note("balanced loads", 1, 4)
    assert waited.left() is None


def test_work_that_begins_anew_has_no_pace_yet(clock: list[float]) -> None:
    waited = Waited()
    waited.note("EM", 0, 100)
    clock[0] = 105.0
    waited.note("EM", 50, 100)
    waited.note("EM", 1, 100)
    assert waited.left() is None


def test_work_without_steps_has_its_name_alone(clock: list[float]) -> None:
    waited = Waited()
    assert waited.words() == ""
    waited.note("agreement", 0, 1)
    clock[0] = 200.0
    assert waited.counted is None
    assert waited.words() == "agreement"

"""What the benchmark of silences takes for new words on a terminal."""

from __future__ import annotations

from pathlib import Path

from benchmarks.flows.silences import UNSEEN, listened


def test_a_clock_that_runs_and_a_wheel_that_turns_are_no_words() -> None:
    line = "\x1b[32m{}\x1b[0m judge workers … honest crowds, 3 of 9 \x1b[91m━━━{}\x1b[0m {}"
    one, other = line.format("⠋", "╸", "0:00:07"), line.format("⠴", "━", "0:01:12")
    words = "judge workers … honest crowds, 3 of 9"
    assert UNSEEN.sub("", one).split() == UNSEEN.sub("", other).split() == words.split()


def test_a_command_is_listened_to_from_its_start_to_its_end(tmp_path: Path) -> None:
    took, found = listened(["--version"], tmp_path)
    assert found[0].shown == ""
    assert any(one.shown.startswith("crowdassay ") for one in found)
    assert sum(one.seconds for one in found) <= took

"""The tutorial: every command on the page is run, and prints the lines that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)

SIGN_OF_WORK = re.compile(r"^.* … .*\d+ s so far\n", re.MULTILINE)  # where a machine is busy


def shown(page: str) -> list[tuple[str, str]]:
    """Commands of the page in their order, each with the output that the page shows."""
    text = "\n".join(BLOCK.findall(page))
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def mismatch(output: str, printed: str) -> str | None:
    """The first line shown that is not printed where it must be; None where all are.

    Any run of blanks stands for one, `…` in a line for anything in it, and a line of `…` for any lines.
    """
    left = [line for line in printed.splitlines() if line.strip()]
    skip = False
    for line in filter(str.strip, output.splitlines()):
        if line.strip() == "…":
            skip = True
            continue
        matching = re.compile(r"\s+".join(map(_word, line.split())))
        while left and skip and not matching.fullmatch(left[0].strip()):
            left.pop(0)
        if not left or not matching.fullmatch(left.pop(0).strip()):
            return line
        skip = False
    return None if skip or not left else left[0]


def _word(word: str) -> str:
    return ".*".join(re.escape(part) for part in word.split("…"))


@pytest.mark.parametrize(
    ("shown", "printed", "wrong"),
    [
        ("a  b\n", "a b\n\n", None),
        ("a … c", "a  b\tc", None),
        ("…\nc", "a\nb\nc", None),
        ("a\n…", "a\nb", None),
        ("a\nc", "a\nb\nc", "c"),
        ("a", "a\nb", "b"),
        ("…\nd", "a\nb", "d"),
        ("3 of 3 left", "2 of 3 left", "3 of 3 left"),
    ],
)
def test_a_line_that_differs_is_named(shown: str, printed: str, wrong: str | None) -> None:
    assert mismatch(shown, printed) == wrong


@pytest.mark.slow
def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    environment = dict(os.environ, NO_COLOR="1", COLUMNS="200")
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    commands = shown((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert len(commands) > 5
    for command, output in commands:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        printed = done.stdout + SIGN_OF_WORK.sub("", done.stderr)
        wrong = mismatch(output, printed)
        assert wrong is None, f"{wrong!r} is not what came of\n$ {command}\n{printed}"

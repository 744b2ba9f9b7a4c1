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


def shown(page: str) -> list[tuple[str, str]]:
    """Commands of the page in their order, each with the output that the page shows."""
    text = "\n".join(BLOCK.findall(page))
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def pattern(output: str) -> str:
    """What a command may print: the lines shown, any run of blanks for one, and anything for `…`."""
    lines = [
        "(?s:.*?)" if line.strip() == "…" else r"\s+".join(map(_word, line.split()))
        for line in output.strip("\n").splitlines()
    ]
    return r"\s*" + r"\s*".join(lines) + r"\s*"


def _word(word: str) -> str:
    return ".*?".join(re.escape(part) for part in word.split("…"))


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
        printed = done.stdout + done.stderr
        assert re.fullmatch(pattern(output), printed), f"$ {command}\n{printed}"

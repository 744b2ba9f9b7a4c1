"""The process of a command: its exit code, its whole output and its exit handlers, as of any process."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALL = """
import atexit, sys
atexit.register(print, "the handler ran")
{before}
from flows.cli import main
sys.argv = ["crowdassay", {argument!r}]
main()
print("never reached")
"""


def call(argument: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CALL.format(argument=argument, before=before)],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("before", ["", "import distributed"], ids=["quick", "ordinary"])
@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("serv", 2)])
def test_the_exit_code_the_whole_output_and_the_handlers_are_as_of_any_process(
    argument: str, code: int, before: str
) -> None:
    done = call(argument, before)
    assert done.returncode == code
    lines = done.stdout.splitlines()
    assert lines[-1] == "the handler ran"
    assert ("Examples" in done.stdout or "Commands" in done.stdout) == (code == 0)
    assert ("No such command" in done.stderr) == (code == 2)


def test_a_mistake_of_the_code_has_its_traceback() -> None:
    done = call("--help", "import flows.cli.root\nflows.cli.root.app = lambda: 1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "the handler ran" in done.stdout


def test_a_sentence_for_an_exit_code_is_printed() -> None:
    done = call("--help", "import flows.cli.root\nflows.cli.root.app = lambda: sys.exit('so')")
    assert (done.returncode, done.stderr) == (1, "so\n")

"""The end of the terminal ends a command as SIGTERM does, and Ctrl-C its imports in silence."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.campaign import write_small_campaign

ROOT = Path(__file__).resolve().parents[3]


def test_the_end_of_the_terminal_cancels_a_run_which_is_resumed(
    tmp_path: Path, ctrl_c: None
) -> None:
    """On a terminal that goes: what is written to it fails from then on. It was listed as one that died."""
    path = write_small_campaign(tmp_path)
    terminal, end = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "run", str(path), "--no-prefect"],
        cwd=ROOT, stdin=end, stdout=end, stderr=end, start_new_session=True,
    )  # fmt: skip
    os.close(end)
    while not (begun := list(tmp_path.glob("runs/*/workers.parquet"))):
        assert run.poll() is None
        time.sleep(0.01)
    os.close(terminal)
    run.send_signal(signal.SIGHUP)  # as the kernel does to the terminal's foreground group
    assert run.wait(timeout=100) == 129
    assert json.loads((begun[0].parent / "manifest.json").read_text())["state"] == "cancelled"
    assert CliRunner().invoke(app, ["run", str(path), "--no-prefect", "--resume"]).exit_code == 0
    assert len([folder for folder in (tmp_path / "runs").iterdir() if folder.is_dir()]) == 1


@pytest.mark.parametrize(("imported", "ends"), [("typer", -signal.SIGINT), ("no module", 0)])
def test_ctrl_c_while_the_command_line_is_imported_is_no_traceback(
    imported: str, ends: int, ctrl_c: None
) -> None:
    """A traceback came, for a quarter of a second of each command; afterwards Ctrl-C is Python's again."""
    program = f"""
import os, signal, sys
def interrupt(event, args):
    if event == "import" and args[0] == {imported!r}:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
import flows.cli
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stderr) == (ends, "")

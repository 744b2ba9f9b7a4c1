"""The command `watch`: what it prints, how it ends by input and by signals, and its state."""

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

HEAD = "worker,task,label\n"
ROWS = "".join(f"w{w},t{t},{'ab'[(t + (w == 3)) % 2]}\n" for t in range(40) for w in range(4))


def run(*arguments: object, given: str | None = None) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["watch", *map(str, arguments)], input=given)
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text(HEAD + ROWS)
    return path


def test_once_prints_the_table_and_ends(labels: Path) -> None:
    code, out, _ = run(labels, "--once")
    assert code == 0
    assert "160 labels, 4 workers, 40 tasks" in out
    assert "w3 40 40 0.00" in " ".join(out.split())


def test_once_takes_a_last_row_without_an_end_unless_a_state_goes_on(
    labels: Path, tmp_path: Path
) -> None:
    with labels.open("a") as file:
        file.write("w9,t0,a")
    assert "161 labels, 5 workers, 40 tasks" in run(labels, "--once")[1]
    state = ("--once", "--state", tmp_path / "state.npz")
    assert "160 labels, 4 workers, 40 tasks, 7 bytes wait" in run(labels, *state)[1]
    with labels.open("a") as file:
        file.write("b\n")
    assert "161 labels, 5 workers, 40 tasks" in run(labels, *state)[1]
    labels.write_text(HEAD + 'w0,t0,"a\n' + ROWS)
    code, _, error = run(labels, "--once")
    assert (code, "labels.csv, row 1: " in error) == (2, True)


def test_another_probability_than_that_of_the_state_is_refused(
    labels: Path, tmp_path: Path
) -> None:
    state = ("--once", "--state", tmp_path / "state.npz")
    assert run(labels, *state)[0] == 0
    code, _, error = run(labels, *state, "--false-alarm", 0.5)
    assert code == 2
    assert "was begun with --false-alarm 0.05, got 0.5; leave the option out" in error
    assert run(labels, *state, "--false-alarm", 0.05)[0] == 0


def test_json_is_one_object_with_every_worker(labels: Path) -> None:
    code, out, _ = run(labels, "--once", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["labels"] == 160
    assert [one["worker"] for one in found["workers"]] == ["w0", "w1", "w2", "w3"]
    assert found["workers"][3]["reliability"] == 0
    assert found["workers"][0]["fatigue"] is None


def test_json_has_the_alarms_of_every_block_of_a_long_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, turned = tmp_path / "labels.csv", range(100, 150)
    rows = [
        f"w{w},t{t},{'ab'[(t + (w == 3 and t in turned)) % 2]}"
        for t in range(600)
        for w in range(5)
    ]
    path.write_text(HEAD + "\n".join(rows) + "\n")
    (_, out, _), seen = run(path, "--once", "--json"), []
    monkeypatch.setattr("flows.watching.label_lines.BLOCK", 2**12)
    for state in ([], ["--state", tmp_path / "state.npz"]):
        seen.append(json.loads(run(path, "--once", "--json", *state)[1])["alarms"])
    whole = {one["worker"] for one in json.loads(out)["alarms"]}
    assert whole == {one["worker"] for one in seen[0]} == {"w3"}
    assert seen[0] == seen[1]


def test_quiet_prints_nothing_but_json_and_the_state_goes_on(labels: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.npz"
    assert run(labels, "--once", "--quiet", "--state", state) == (0, "", "")
    code, out, _ = run(labels, "--once", "--quiet", "--json")
    assert (code, json.loads(out)["labels"]) == (0, 160)
    with labels.open("a") as file:
        file.write("w9,t0,a\n")
    _, out, _ = run(labels, "--once", "--state", state)
    assert "161 labels, 5 workers, 40 tasks" in out


def test_standard_input_is_read_to_its_end_and_the_consensus_written(tmp_path: Path) -> None:
    path = tmp_path / "consensus.csv"
    code, out, _ = run("-", "--consensus", path, given=HEAD + ROWS)
    assert code == 0
    assert "160 labels" in out
    lines = path.read_text().splitlines()
    assert lines[0] == "task,label,confidence"
    assert [line.split(",")[1] for line in lines[1:]] == ["a", "b"] * 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who,task,label\n", "must have the column 'worker'"),
        (HEAD + "w0,,a\n", "row 1, column task: the cell is blank"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(labels: Path, text: str, message: str) -> None:
    labels.write_text(text)
    code, _, error = run(labels, "--once")
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1


def test_the_state_is_not_overwritten_by_the_consensus(labels: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.csv"
    assert run(labels, "--once", "--state", state)[0] == 0
    before = state.read_bytes()
    told = run(labels, "--once", "--state", state, "--consensus", state, "--force")
    assert told[0] == 2
    assert "state.csv is an input of this command" in told[2]
    assert state.read_bytes() == before


def test_a_missing_file_and_an_output_over_the_input_are_refused(labels: Path) -> None:
    assert run(labels.with_name("none.csv"), "--once")[0] == 2
    code, _, error = run(labels, "--once", "--consensus", labels, "--force")
    assert code == 2
    assert "is an input of this command" in error


def started(labels: Path, *arguments: object, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flows.cli", "watch", str(labels), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )  # type: ignore[call-overload, no-any-return]


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def heed_interrupts() -> None:
    """Take the default, whether or not the tests run in the background, where they are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("number", "before"),
    [
        (signal.SIGINT, heed_interrupts),
        (signal.SIGTERM, heed_interrupts),
        (signal.SIGTERM, ignore_interrupts),
    ],
)
def test_a_signal_ends_it_cleanly_with_its_table_and_its_state(
    labels: Path, tmp_path: Path, number: int, before: object
) -> None:
    """Also in the background, where SIGINT is ignored; and what came while it ran is in the table."""
    state = tmp_path / "state.npz"
    process = started(labels, "--every", 0.1, "--state", state, preexec_fn=before)
    assert process.stdout is not None
    assert "160 labels" in process.stdout.readline()
    with labels.open("a") as file:
        file.write("w9,t0,a\n")
    assert "161 labels" in process.stdout.readline()
    if before is ignore_interrupts:
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    assert "Watched: 161 labels, 5 workers" in out
    assert "161 labels" in run(labels, "--once", "--state", state)[1]


def test_what_a_killed_watch_had_not_saved_is_read_again(labels: Path, tmp_path: Path) -> None:
    """SIGKILL lets it save nothing; the next one ends with what one that was never killed has."""
    state, never = tmp_path / "state.npz", tmp_path / "never.npz"
    assert run(labels, "--once", "--state", state)[0] == 0
    with labels.open("a") as file:
        file.write("w9,t0,a\n")
    process = started(labels, "--every", 0.1, "--state", state)
    assert process.stdout is not None
    assert "161 labels" in process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    with labels.open("a") as file:
        file.write("w9,t1,a\n")
    after = run(labels, "--once", "--state", state)
    assert "162 labels" in after[1]
    assert after == run(labels, "--once", "--state", never)


def test_a_pipe_that_stays_open_is_followed_and_ended_by_sigterm() -> None:
    process = started(Path("-"), "--every", 0.1, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HEAD + ROWS)
    process.stdin.flush()
    assert "160 labels" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    process.stdin.close()
    assert "Watched: 160 labels" in process.stdout.read()
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


def test_on_a_terminal_the_table_is_live(labels: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "flows.cli", "watch", str(labels), "--every", "0.1"]
    environment = dict(os.environ, TERM="xterm", COLUMNS="120")
    process = subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=environment, preexec_fn=heed_interrupts
    )
    os.close(theirs)
    seen = b""
    while b"Watching: 160 labels" not in seen:
        seen += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    while b"Watched: 160 labels" not in seen:
        seen += os.read(ours, 4096)
    assert process.wait(timeout=60) == 0
    os.close(ours)


SIGNALLED = """
import os, signal, sys
from flows.cli.crowd import watch_command

for nth in range(1, 12):
    calls = 0

    def send(frame, event, argument):
        global calls
        calls += event == "call"
        if event == "call" and calls == nth:
            os.kill(os.getpid(), signal.SIGTERM)

    with watch_command._ended_by_signals() as ending:
        sys.setprofile(send)
        ending.wait(0.01)
        sys.setprofile(None)
        assert ending.is_set() == (calls >= nth)
"""


def test_a_signal_at_any_step_of_waiting_ends_it() -> None:
    """The lock of an `Event` is held at some of them, and its handler waited for ever."""
    subprocess.run([sys.executable, "-c", SIGNALLED], check=True, timeout=60)

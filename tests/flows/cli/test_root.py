"""What commands share: options, help, mistakes as sentences, and the process that runs a command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from flows.cli import app, root
from flows.cli.root import console, mistakes, show_rows
from flows.pipeline import run_pipeline
from flows.settings import load_settings
from flows.spending import open_account
from flows.terminal import print_rows, progress
from tests.flows.campaign import write_small_campaign


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its whole name, groups included."""
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")


ROOT = Path(__file__).resolve().parents[3]
LEFT = """
import asyncio, atexit, sys, threading, time, types
import duckdb
from flows.cli import main
sys.modules["prefect"] = types.ModuleType("prefect")
threading.Thread(target=lambda: asyncio.run(asyncio.sleep(60)), daemon=True).start()
threading.Thread(target=lambda: (time.sleep(3.0), print("waited for"))).start()
atexit.register(print, "let go")
duckdb.connect().execute("SELECT 1").fetchall()
sys.argv = ["crowdassay", "--version"]
main()
"""
COMMANDS = dict(commands(typer.main.get_command(app)))


def test_a_name_that_no_file_can_have_is_a_sentence() -> None:
    told = CliRunner().invoke(app, ["report", "a" * 300])
    assert told.exit_code == 2
    assert "File name too long" in told.stderr


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("simulate --output x --workers 3", "--workers is for a crowd: give its size as --tasks"),
        ("simulate --output x --classes 3", "--classes is for a crowd"),
        ("simulate --output x --labels-per-task 3", "--labels-per-task is for a crowd"),
        ("rank x.csv --budget 3", "--budget needs --publish, the folder to publish to; add that"),
        ("rank x.csv --publication 2026-11", "--publication needs --publish"),
        ("rank x.csv --epsilon 1.0", "--epsilon needs --publish"),
        ("rank x.csv --begun", "--begun needs --publish"),
        ("rank x.csv --campaign arena", "--campaign needs --publish"),
        ("rank x.csv --state state", "--state needs --publish"),
        ("multilabel x.csv --max-labels 2", "--max-labels needs --publish"),
        ("multilabel x.csv --tasks tasks.csv", "--tasks needs --publish"),
        ("multilabel x.csv --campaign posts", "--campaign needs --publish"),
        ("multilabel x.csv --state state", "--state needs --publish"),
        ("agreement x.csv --epsilon 0.1", "--epsilon is for --models; leave it out"),
        ("check x.csv --merge", "--merge is for the copy of --clean; leave it out"),
        (
            "watch x.csv --once --every 2.0",
            "--every is for a file that is followed; leave it or --once out",
        ),
        (
            "agreement x.csv --order a,b",
            "--order is for --metric ordinal or interval, got nominal;",
        ),
        ("simulate --output x --several 2", "--several is for a crowd: give its size as --tasks"),
        ("simulate --output x --ordered", "--ordered is for a crowd: give its size as --tasks"),
        (
            "simulate --output x --tasks 60 --several 2 --ordered",
            "--ordered is for a crowd of one class a task, and --several of more; leave one of them",
        ),
        ("simulate x.g --output x --tasks 9", "--tasks is for a crowd without a script; leave it"),
        ("simulate x.g --output x --workers 9", "--workers is for a crowd without a script; leave"),
        ("init x.csv --question mood", "--question is of an export with several, got 'mood' for"),
        ("rank x.csv --publish x --guard-formulas", "--guard-formulas needs --output, which says"),
        (
            "rank x.csv --output y.parquet --guard-formulas",
            "--guard-formulas is for .csv and .tsv; write one, or leave it out",
        ),
        (
            "import x.csv --format table --output y.jsonl --guard-formulas",
            "--guard-formulas is for .csv and .tsv",
        ),
        ("rank x.csv --force", "--force needs --output or --publish, which says what to write"),
        (
            "audit public_folder --epsilon 0.5",
            "--epsilon is for a mechanism, not for public_folder",
        ),
        ("audit lattice_laplace --unit row", "--unit is for public_folder; leave it out"),
        (
            "budget --preview x.toml --dataset crowd",
            "--dataset is of what was spent, and --preview of",
        ),
        (
            "import - --format lm-eval --output x.csv",
            "names the model by the folder of its file, got -",
        ),
        (
            "import x.csv --format table --keep-rejected --output y.csv",
            "--keep-rejected is for --format appen, mturk, toloka, whose exports say what was rejected, got "
            "table; leave it out",
        ),
    ],
)
def test_an_option_that_would_be_dropped_is_refused_in_one_sentence(
    command: str, told: str
) -> None:
    """Also where what was given is the default, as of --epsilon 1."""
    found = CliRunner().invoke(app, command.split())
    assert (found.exit_code, found.stdout) == (2, "")
    assert told in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["multilabel x.csv", "import x.csv --format jsonl --several --output y.csv"]
)
def test_a_word_for_nothing_is_not_empty(command: str) -> None:
    told = CliRunner().invoke(app, [*command.split(), "--nothing", ""])
    assert (told.exit_code, "--nothing must be a word" in told.stderr) == (2, True)


@pytest.mark.parametrize(
    ("command", "of"),
    [
        ("check", "'labels'"),
        ("aggregate", "'labels'"),
        ("watch", "'labels'"),
        ("rank", "'comparisons'"),
        ("multilabel", "'answers'"),
        ("gate", "'scores'"),
        ("gate x.csv --state", "'--state'"),
        ("watch x.csv --state", "'--state'"),
        ("rank x.csv --publish pub --state", "'--state'"),
    ],
)
def test_an_empty_path_is_not_the_working_folder(command: str, of: str) -> None:
    """As of a variable that is not set: a gate began a state there, with a holdout of its own."""
    told = CliRunner().invoke(app, [*command.split(), ""])
    assert told.exit_code == 2
    assert f"Invalid value for {of}: must name a file or a folder" in told.stderr


@pytest.mark.parametrize(
    ("state", "told"), [("~/state", "without ~"), ("s3://crowd/state", "not an address")]
)
@pytest.mark.parametrize(
    "command", ["gate x.csv", "rank x.csv --publish pub", "multilabel x.csv --publish pub"]
)
def test_a_state_folder_is_where_its_path_says(command: str, state: str, told: str) -> None:
    """A shell leaves ~ in --state=~/state as it is, and a new ledger was begun in a folder called ~."""
    found = CliRunner().invoke(app, [*command.split(), f"--state={state}"])
    assert (found.exit_code, told in found.stderr) == (2, True)
    assert "--state must be a" in found.stderr
    assert not Path("~").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--several 5 --classes 3", "--several must be from 1 to 3 classes, got --several=5"),
        ("--workers 1", "--labels-per-task must be in [1, --workers=1], got --labels-per-task=5"),
        ("--several 2 --strategy sybils=2", "--strategy must be among honest, careless,"),
        ("--workers 99999999999", "--workers must be at most 10,000,000, got 99,999,999,999"),
        (
            "--strategy sybils=99999999999",
            "workers of strategies must be at most 10,000,000, got 99",
        ),
        ("--tasks 1000000000000", "--tasks must be at most 10,000,000, got 1,000,000,000,000"),
        ("--tasks 9999999 --labels-per-task 40", "--tasks times labels (with several, classes)"),
        ("--several 2 --tasks 99999 --classes 99999", "must be at most 100,000,000, got 9,999,"),
    ],
)
def test_a_crowd_that_cannot_be_is_told_by_the_options_that_were_given(
    tmp_path: Path, options: str, told: str
) -> None:
    words = ["simulate", "--tasks", "10", "--output", str(tmp_path / "x"), *options.split()]
    found = CliRunner().invoke(app, words)
    assert (found.exit_code, told in found.stderr) == (2, True), found.stderr


def test_campaigns_that_take_long_to_simulate_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The default ones take more than five seconds, in which nothing was said."""
    monkeypatch.setattr(progress, "FIRST_WORD", 0.01)
    few = ["power", "--tasks", "60", "--workers", "20", "--most", "5", "--campaigns", "4", "--json"]
    told = CliRunner().invoke(app, few)
    assert "campaigns simulated … " in told.stderr
    assert json.loads(told.stdout)["tasks"] == 60
    assert CliRunner().invoke(app, [*few, "--quiet"]).stderr == ""


def test_init_offers_no_standard_input_as_it_takes_none() -> None:
    told = CliRunner().invoke(app, ["init", "--help"], env={"COLUMNS": "200"}).stdout
    assert "a file, a folder, a pattern" in told
    assert "or -" not in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_cannot_be_written_is_a_sentence() -> None:
    command = [sys.executable, "-m", "flows.cli", "--version"]
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert told.returncode == 2
    assert told.stderr.strip() == "crowdassay: standard output: No space left on device"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_with_an_example(name: str) -> None:
    told = CliRunner().invoke(app, [*name.split(), "--help"])
    assert told.exit_code == 0
    assert re.search(f"Examples?: crowdassay {name}", " ".join(told.output.split()))


def test_the_help_begins_with_the_command_that_all_is_about_and_is_in_the_modules_order() -> None:
    modules = [command.callback.__module__ for command in COMMANDS.values() if command.callback]
    assert next(iter(COMMANDS)) == "run"
    assert (
        len(list(groupby(modules))) == len(set(modules)) + 1
    )  # groups of commands are listed last


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("ledger", "plan")])
def test_every_command_can_be_quiet(name: str) -> None:
    assert "--quiet" in [option for one in COMMANDS[name].params for option in one.opts]


@pytest.mark.parametrize(
    "command",
    [
        "init labels.csv",
        "plan gold settings.toml",
        "audit lattice_laplace --draws 100",
        "budget state",
        "ledger verify state",
        "ledger backup state copy.sqlite",
    ],
)
def test_what_tells_of_a_campaign_can_be_quiet(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_small_campaign(tmp_path)
    if "state" in command:
        settings = load_settings(path)
        assert settings.privacy is not None
        open_account(settings, settings.privacy, n=360)
    if "init" in command:
        path.unlink()
    told = CliRunner().invoke(app, [*command.split(), "--quiet"])
    assert (told.exit_code, told.output) == (0, "")


def test_a_quiet_run_prints_nothing_and_the_next_is_not_quiet(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    told = CliRunner().invoke(app, ["run", str(path), "--no-prefect", "--quiet"])
    assert (told.exit_code, told.output) == (0, "")
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "report.html").is_file()
    told = CliRunner().invoke(app, ["run", str(path), "--no-prefect", "--quiet", "--json"])
    assert json.loads(told.stdout)["folder"] == str(folder)
    assert CliRunner().invoke(app, ["report", str(folder)]).output.startswith("report  ")


def test_quiet_still_tells_errors(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["run", str(tmp_path / "none.toml"), "-q"])
    assert told.exit_code == 2
    assert "none.toml cannot be read" in told.stderr


def test_colours_are_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    console().print("plain", style="bold red")
    assert capsys.readouterr().out == "plain\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    console().print("red", style="bold red")
    assert "\x1b[" in capsys.readouterr().out


def test_no_color_is_heeded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://no-color.org: on a terminal too; what is bold may stay so."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    console().print("plain", style="red")
    assert capsys.readouterr().out == "plain\n"


GOES_ON = (
    "; what is paid stays paid; crowdassay run SETTINGS --resume goes on after the whole stages"
)


@pytest.mark.parametrize(("command", "goes_on"), [("run", GOES_ON), ("audit", ""), ("check", "")])
def test_stopping_by_hand_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, goes_on: str
) -> None:
    """It named --resume after commands that have none."""
    monkeypatch.setattr(sys, "argv", ["crowdassay", command])
    with pytest.raises(typer.Exit) as stopped, mistakes():
        raise KeyboardInterrupt
    assert stopped.value.exit_code == 130
    assert capsys.readouterr().err == f"crowdassay: stopped{goes_on}\n"


def test_ctrl_c_while_a_command_imports_is_the_same_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typer made a silent end of it, for a second or two of each command."""
    other = typer.Typer()

    @other.command()
    def demo() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(root, "app", other)
    monkeypatch.setattr(sys, "argv", ["crowdassay"])
    with pytest.raises(SystemExit) as stopped:
        root._run_command()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "crowdassay: stopped\n"


def test_a_narrow_terminal_cuts_nothing_off() -> None:
    terminal = Console(width=40, record=True)
    cells = ["2026-11-21 19:13", "class counts", "group: a-site-with-a-long-name"]
    print_rows(terminal, "title", ["time", "what", "cell"], [cells])
    shown = terminal.export_text()
    assert "…" not in shown
    letters = sorted("".join(shown.split()))
    assert letters == sorted("".join("".join(["title", "time", "what", "cell", *cells]).split()))


def test_a_colon_cuts_no_cell_off(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows("Runs", ["of", "note"], [["a:b", "moved: far"]], None, numbers=())
    assert capsys.readouterr().out.split() == ["Runs", "of", "note", "a:b", "moved:", "far"]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_width_breaks_a_word(width: int) -> None:
    terminal = Console(width=width, record=True)
    cells = [
        "20261126T181651Z-a-campaign-with-a-name",
        "complete",
        "2026-11-26 18:16:51+00:00",
        "12, the last one",
    ]
    print_rows(terminal, "Runs", ["run", "state", "started", "whole stages"], [cells])
    shown = terminal.export_text()
    assert sorted(shown.split()) == sorted(
        ["Runs", "run", "state", "started", "whole", "stages", *" ".join(cells).split()]
    )


@pytest.mark.parametrize("columns", ["40", "60", "200"])
def test_a_run_says_the_same_at_any_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    path = write_small_campaign(tmp_path)
    told = CliRunner().invoke(app, ["run", str(path), "--no-prefect"])
    assert told.exit_code == 0
    assert "…" not in told.output
    assert "left (unit: consensus label)" in " ".join(told.output.split())


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


LIVE = """
import os, threading
from types import ModuleType

class Large:
    def __del__(self, write=os.write):
        write(1, b"taken apart")

def work():
    threading.main_thread().join()
    print("the thread ended")

sys.modules["prefect"] = ModuleType("prefect")
sys.modules["prefect"].large = Large()
threading.Thread(target=work).start()
"""


def test_a_process_with_threads_waits_for_them_and_takes_no_objects_apart() -> None:
    done = call("--version", LIVE)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == ["the thread ended", "the handler ran"]


def test_a_mistake_of_the_code_has_its_traceback() -> None:
    done = call("--help", "import flows.cli.root\nflows.cli.root.app = lambda: 1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "the handler ran" in done.stdout


def test_a_sentence_for_an_exit_code_is_printed() -> None:
    done = call("--help", "import flows.cli.root\nflows.cli.root.app = lambda: sys.exit('so')")
    assert (done.returncode, done.stderr) == (1, "so\n")


@pytest.mark.parametrize(
    "ascii_only", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_terminal_that_knows_no_other_letters_has_them_escaped(
    ascii_only: dict[str, str], tmp_path: Path
) -> None:
    """As in a job whose locale is ASCII: what a line says must not end the work."""
    rows = [f"{worker},t{n},{'ab'[n % 2]}" for worker in ("Zoë", "bob", "cy") for n in range(3)]
    table = tmp_path / "labels.csv"
    table.write_text(
        "\n".join(["worker,task,label", *rows, "bob,t9,a", "cy,t9,b"]), encoding="utf-8"
    )
    command = [sys.executable, "-m", "flows.cli", "workers", str(table)]
    environment = {**os.environ, "PYTHONUTF8": "0", "COLUMNS": "90", **ascii_only}
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"Zo\\xeb" in done.stdout


def call_without_reader(*arguments: str, cwd: Path | None = None) -> int:
    """The exit code of a command whose output nobody reads, as after `| head` has what it wants."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "flows.cli", *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=closed, cwd=cwd, env=environment)
    return done.returncode


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("serv", 2), ("run", 2)])
def test_a_closed_pipe_changes_no_exit_code(argument: str, code: int) -> None:
    assert call_without_reader(argument) == code


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("serv", 2)])
def test_closed_streams_change_no_exit_code(argument: str, code: int) -> None:
    command = ["sh", "-c", '"$@" >&- 2>&-', "sh", sys.executable, "-m", "flows.cli", argument]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    assert subprocess.run(command, env=environment).returncode == code


@pytest.mark.parametrize(("command", "code"), [("check -", 2), ("watch - --once", 0)])
def test_a_closed_input_is_an_empty_one(command: str, code: int) -> None:
    words = ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-m", "flows.cli", *command.split()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    told = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (told.returncode, "Traceback" in told.stderr) == (code, False)
    assert ("is empty; it needs a header" in told.stderr) == bool(code)


def test_a_run_whose_reader_has_gone_is_finished(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    for more in ([], ["--again", "--json"]):
        assert call_without_reader("run", "settings.toml", "--no-prefect", *more, cwd=tmp_path) == 0
    assert [(run / "report.html").is_file() for run in (tmp_path / "runs").iterdir()] == [True] * 2


def test_rows_that_nobody_reads_are_written_nevertheless(tmp_path: Path) -> None:
    """Also where they are written to the closed pipe itself."""
    write_small_campaign(tmp_path)
    asked = ("aggregate", "labels.csv", "--aggregator", "majority_vote", "--output")
    assert call_without_reader(*asked, "consensus.csv", cwd=tmp_path) == 0
    assert len((tmp_path / "consensus.csv").read_text().splitlines()) == 361
    assert call_without_reader(*asked, "/dev/stdout", cwd=tmp_path) == 0


DEAF = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"]  # as in the background, after nohup


@pytest.mark.parametrize("start", [[], DEAF], ids=["foreground", "background"])
def test_sigterm_ends_a_run_with_one_sentence_and_it_is_cancelled_and_resumed(
    start: list[str], tmp_path: Path
) -> None:
    """Real processes; what was done before the signal is not done again."""
    path = write_small_campaign(tmp_path)
    command = [*start, sys.executable, "-m", "flows.cli", "run", str(path), "--no-prefect"]
    run = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    while not (begun := list(tmp_path.glob("runs/*/workers.parquet"))):
        assert run.poll() is None
        time.sleep(0.01)
    run.terminate()
    _, told = run.communicate(timeout=100)
    assert run.returncode == 143
    *waits, line = told.splitlines()
    assert [wait for wait in waits if " s so far" not in wait] == []  # they come on a busy machine
    assert line == f"crowdassay: stopped by SIGTERM{GOES_ON}"
    assert json.loads((begun[0].parent / "manifest.json").read_text())["state"] == "cancelled"
    again = CliRunner().invoke(app, ["run", str(path), "--no-prefect", "--resume"])
    assert again.exit_code == 0
    assert len([folder for folder in (tmp_path / "runs").iterdir() if folder.is_dir()]) == 1


IN_A_DESTRUCTOR = """
import os, sys, time, weakref
from flows.cli import root
def come(*_):
    os.kill(os.getpid(), int(sys.argv.pop()))
    time.sleep(0.01)
class Held:
    def __del__(self):
        come()
class Seen:
    pass
def let_go():
    held = Held() if sys.argv.pop() == "destructor" else Seen()
    watched = weakref.ref(held, come) if type(held) is Seen else None
    del held
    time.sleep(60)
root.app = let_go
root.main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("where", ["destructor", "callback"])
@pytest.mark.usefixtures("ctrl_c")
def test_a_signal_in_a_destructor_ends_the_command_as_any_other(
    where: str, number: signal.Signals
) -> None:
    """Python ignores what is raised there, with a traceback: the run would go on to its end."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_DESTRUCTOR, str(int(number)), where],
        cwd=ROOT, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert "ignored" not in done.stderr
    if number != signal.SIGINT:
        assert done.returncode == 128 + number
        assert done.stderr.startswith(f"crowdassay: stopped by {number.name}")
    else:  # outside a command's own block too, as while it is made
        assert done.returncode == 130
        assert done.stderr.endswith("crowdassay: stopped\n")


def test_a_query_that_a_signal_ended_cancels_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not discarded as one that is refused: DuckDB makes an error of its own of Ctrl-C or SIGTERM."""
    settings = load_settings(write_small_campaign(tmp_path))

    def interrupted(*_: object) -> str:
        raise RuntimeError("Query interrupted")

    with pytest.raises(RuntimeError, match="Query interrupted"):
        run_pipeline(settings, step=interrupted)
    (manifest,) = tmp_path.glob("runs/*/manifest.json")
    assert json.loads(manifest.read_text())["state"] == "cancelled"


def test_a_query_that_ctrl_c_ended_is_told_as_ctrl_c_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback came, and code 1. That SIGTERM ended a query the process itself tells, at its end."""
    with pytest.raises(typer.Exit) as ended, mistakes():
        raise RuntimeError("Query interrupted")
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "crowdassay: stopped\n"
    monkeypatch.setattr("flows.cli.root._Terminated.came", signal.SIGTERM)
    with pytest.raises(RuntimeError, match="Query interrupted"), mistakes():
        raise RuntimeError("Query interrupted")
    assert not capsys.readouterr().err


def test_a_process_with_threads_that_go_on_ends_without_a_word_of_what_they_hold() -> None:
    """As Prefect's do. DuckDB would list it, below the report's path, were the process taken apart."""
    done = subprocess.run([sys.executable, "-c", LEFT], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert "waited for" in said
    assert said[-1] == "let go"

"""What commands write where the user says: nothing is lost, whichever command, name and end it is."""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.campaign import write_small_campaign


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its whole name, those of groups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))
READ = {
    "after",
    "answers",
    "before",
    "comparisons",
    "export",
    "gold",
    "labels",
    "preview",
    "run_folder",
    "scores",
    "script",
    "settings",
    "state",
    "tasks",
}
# How a command that writes where the user says is called: {} is what it writes.
WRITTEN = {
    ("aggregate", "output"): "aggregate labels.csv --output {}",
    ("agreement", "output"): "agreement labels.csv --tasks tasks.csv --output {}",
    ("check", "clean"): "check labels.csv --clean {}",
    ("check", "quarantine"): "check labels.csv --quarantine {}",
    ("deploy", "yaml"): "deploy settings.toml --pool crowd --yaml {}",
    ("import", "output"): "import labels.csv --format table --output {}",
    ("init", "output"): "init labels.csv tasks.csv --gold gold.csv --output {}",
    ("multilabel", "output"): "multilabel labels.csv --gold gold.csv --output {}",
    ("multilabel", "probabilities"): "multilabel labels.csv --gold gold.csv --probabilities {}",
    ("plan gold", "output"): "plan gold settings.toml --output {}",
    ("rank", "output"): "rank comparisons.csv --output {}",
    ("simulate", "output"): "simulate --output {}",
    ("watch", "consensus"): "watch labels.csv --once --consensus {}",
    ("workers", "output"): "workers labels.csv --output {}",
}
# These never overwrite: `test_a_demo_keeps_what_is_there`, `test_a_backup_is_a_ledger_and_never_overwrites`.
NEVER = {("demo", "folder"), ("ledger backup", "file")}
# These need a finished run: tests/flows/cli/finished.
FINISHED = {("block", "output"), ("compare", "output"), ("repost", "output")}
# These pay first: tests/flows/cli/crowd/test_multilabel_publication.py, test_rank_publication.py.
PAID = {("multilabel", "publish"), ("rank", "publish")}
# These take one file.
SINGLE = {("deploy", "yaml"), ("import", "output"), ("simulate", "output"), ("watch", "consensus")}
# What settings name is read too.
NAMED = {("plan gold", "output"): ("labels.csv", "gold.csv")}
INPUTS = ("labels.csv", "tasks.csv", "gold.csv", "settings.toml", "comparisons.csv")
COMPARED = "worker,left,right,winner\nann,x,y,x\nbob,y,z,tie\ncy,z,x,x\n"


def test_every_command_that_writes_where_the_user_says_is_tried_here() -> None:
    """A new path of a command is read, or it is in the list of what is written."""
    paths = {
        (name, argument)
        for name, command in COMMANDS.items()
        for argument, hint in get_type_hints(inspect.unwrap(command.callback)).items()
        if "Path" in str(hint)
    }
    assert {name for _, name in paths} >= READ
    assert {one for one in paths if one[1] not in READ} == WRITTEN.keys() | NEVER | FINISHED | PAID


@pytest.mark.parametrize("name", [name for name, _ in WRITTEN])
def test_it_can_be_forced(name: str) -> None:
    assert "--force" in [option for one in COMMANDS[name].params for option in one.opts]


WRITES_ALWAYS = ("block", "import", "init", "repost", "simulate")
DROPPED = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in ("--force", "--guard-formulas")
    if name not in WRITES_ALWAYS and any(option in one.opts for one in command.params)
]


@pytest.mark.parametrize(("name", "option"), DROPPED)
def test_what_says_how_to_write_is_refused_where_nothing_is_written(name: str, option: str) -> None:
    read = [one.name for one in COMMANDS[name].params if one.param_type_name == "argument"]
    pool = ["--pool", "crowd"] * (name == "deploy")
    told = CliRunner().invoke(app, [*name.split(), *read, *pool, option])
    assert (told.exit_code, told.stdout) == (2, "")
    (line,) = told.stderr.splitlines()
    written = [f"--{argument}" for one, argument in WRITTEN.keys() | FINISHED if one == name]
    assert line.startswith(f"crowdassay: {option} needs --")
    assert all(one in line for one in written)


PAIRS = {
    "check": ("check labels.csv --clean {} --quarantine {}", "--clean and --quarantine"),
    "multilabel": (
        "multilabel labels.csv --output {} --probabilities {}",
        "--output and --probabilities",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_results_are_two_files(name: str, campaign: Path, tmp_path: Path) -> None:
    """By whatever name; what is there is kept."""
    assert sum(one == name for one, _ in WRITTEN) == 2
    words, options = PAIRS[name]
    (tmp_path / "one.csv").write_text("kept")
    (tmp_path / "other.csv").symlink_to(tmp_path / "one.csv")
    for other in ("one.csv", "campaign/../one.csv", "other.csv"):
        line = words.format(tmp_path / "one.csv", tmp_path / other)
        found = CliRunner().invoke(app, [*line.split(), "--force"])
        assert found.exit_code == 2
        assert f"{options} must be two files" in " ".join(found.stderr.split())
        assert (tmp_path / "one.csv").read_text() == "kept"


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a small campaign, in which the command is called."""
    folder = tmp_path / "campaign"
    folder.mkdir()
    write_small_campaign(folder)
    (folder / "comparisons.csv").write_text(COMPARED)
    monkeypatch.chdir(folder)
    return folder


def call(which: tuple[str, str], output: Path, *more: str) -> Any:
    words = [word.format(output) for word in WRITTEN[which].split()]
    return CliRunner().invoke(app, [*words, *more])


def file_of(which: tuple[str, str], output: Path) -> Path:
    """The file that is looked at, of a command that fills a folder."""
    return output / "labels.csv" if which[0] == "simulate" else output


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in INPUTS}


@pytest.mark.parametrize("which", sorted(WRITTEN), ids=" ".join)
def test_without_force_nothing_is_overwritten(
    which: tuple[str, str], campaign: Path, tmp_path: Path
) -> None:
    """It is refused before anything is read: the labels are no table."""
    (campaign / "labels.csv").write_text("no table")
    output = tmp_path / "output.csv"
    file = file_of(which, output)
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    told = call(which, output)
    assert told.exit_code == 2
    # before it may stand that Prefect takes long to load, on a slow machine
    line = told.stderr.splitlines()[-1]
    assert f"{file} exists" in line
    assert file.read_text() == "mine"


@pytest.mark.parametrize("which", sorted(WRITTEN), ids=" ".join)
def test_with_force_it_is_and_nothing_else_is_left(
    which: tuple[str, str], campaign: Path, tmp_path: Path
) -> None:
    output, before = tmp_path / "output.csv", contents(campaign)
    assert call(which, output).exit_code == 0
    file = file_of(which, output)
    written = file.read_bytes()
    file.write_text("mine")
    assert call(which, output, "--force").exit_code == 0
    assert file.read_bytes() == written
    assert contents(campaign) == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["campaign", "output.csv"]
    assert [one for one in tmp_path.rglob(".*") if one.name.startswith(".")] == []


def ways(given: Path, folder: Path) -> Iterator[Path]:
    """Names by which a file is reached."""
    folder.mkdir()
    (folder / "symbolic.csv").symlink_to(given)
    (folder / "hard.csv").hardlink_to(given)
    (folder / "folder").symlink_to(given.parent)
    yield given
    yield Path(os.path.relpath(given))
    yield given.parent / ".." / given.parent.name / given.name
    yield folder / "symbolic.csv"
    yield folder / "hard.csv"
    yield folder / "folder" / given.name


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "forced"])
@pytest.mark.parametrize("which", sorted(WRITTEN.keys() - {("simulate", "output")}), ids=" ".join)
def test_no_input_is_overwritten_by_whatever_name(
    which: tuple[str, str], force: tuple[str, ...], campaign: Path, tmp_path: Path
) -> None:
    inputs = [word for word in WRITTEN[which].split() if word in INPUTS]
    assert inputs
    for number, name in enumerate((*inputs, *NAMED.get(which, ()))):
        given = campaign / name
        before = given.read_bytes()
        for output in ways(given, tmp_path / str(number)):
            told = call(which, output, *force)
            assert told.exit_code == 2, output
            assert len(told.stderr.splitlines()) == 1
            assert given.read_bytes() == before


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "forced"])
@pytest.mark.parametrize("labels", ["days", "days/*.csv"])
@pytest.mark.parametrize("which", sorted(WRITTEN.keys() - SINGLE), ids=" ".join)
def test_no_table_of_a_folder_or_pattern_is_overwritten(
    which: tuple[str, str], labels: str, force: tuple[str, ...], campaign: Path
) -> None:
    """Also not one elsewhere, to which a link in the folder leads."""
    name = "comparisons.csv" if which[0] == "rank" else "labels.csv"
    (campaign / "days").mkdir()
    (campaign / "days" / "monday.csv").symlink_to(campaign / "elsewhere.csv")
    header, *rows = (campaign / name).read_text().splitlines(keepends=True)
    for part, file in enumerate(("elsewhere.csv", "days/tuesday.csv")):
        (campaign / file).write_text("".join([header, *rows[part::2]]))
    settings = campaign / "settings.toml"
    settings.write_text(settings.read_text().replace(name, labels))
    for output in (campaign / "elsewhere.csv", campaign / "days" / "tuesday.csv"):
        before, words = output.read_bytes(), WRITTEN[which].replace(name, labels)
        told = CliRunner().invoke(app, [*words.format(output).split(), *force])
        assert told.exit_code == 2, output
        assert len(told.stderr.splitlines()) == 1
        assert output.read_bytes() == before


def test_init_overwrites_no_table_of_a_folder_or_pattern(campaign: Path) -> None:
    (campaign / "days").mkdir()
    for name in ("monday.csv", "tuesday.csv"):
        shutil.copy(campaign / "labels.csv", campaign / "days" / name)
    before = contents(campaign / "days" / "..")
    for labels in ("days", "days/*.csv"):
        asked = ["init", labels, "tasks.csv", "--force", "--output", "days/tuesday.csv"]
        assert CliRunner().invoke(app, asked).exit_code == 2
    new = ["init", "days", "tasks.csv", "--output", "days/settings.toml"]
    assert "which this command reads" in CliRunner().invoke(app, new).stderr
    assert contents(campaign) == before
    assert (campaign / "days" / "tuesday.csv").read_bytes() == before["labels.csv"]


@pytest.mark.parametrize("asked", ["demo --no-prefect --folder", "simulate --output"])
def test_a_file_in_a_folders_place_is_not_overwritten(asked: str, campaign: Path) -> None:
    before = contents(campaign)
    told = CliRunner().invoke(app, [*asked.split(), "labels.csv"])
    assert told.exit_code == 2
    (line,) = told.stderr.splitlines()
    assert "cannot be a folder for results" in line
    assert contents(campaign) == before


def test_a_demo_keeps_what_is_there(tmp_path: Path) -> None:
    """Also a link that leads nowhere, through which a copy would be written elsewhere."""
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "settings.toml").write_text("mine")
    (folder / "gold.csv").symlink_to(tmp_path / "elsewhere.csv")
    told = CliRunner().invoke(app, ["demo", "--folder", str(folder), "--no-prefect"])
    assert told.exit_code == 2
    assert (folder / "settings.toml").read_text() == "mine"
    assert not (tmp_path / "elsewhere.csv").exists()


KILLED = """
import os, signal, sys
from flows.cli import main
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["crowdassay", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("which", sorted(WRITTEN), ids=" ".join)
def test_a_kill_in_the_midst_leaves_the_former_file(
    which: tuple[str, str], campaign: Path, tmp_path: Path
) -> None:
    """Killed when all is written aside, before it takes the file's place; a part is never there."""
    output = tmp_path / "output.csv"
    file = file_of(which, output)
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    words = [word.format(output) for word in WRITTEN[which].split()]
    done = subprocess.run([sys.executable, "-c", KILLED, *words, "--force"], env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert file.read_text() == "mine"
    (aside,) = file.parent.glob(f".crowdassay-*/{file.name}")
    assert aside.stat().st_size > len("mine")


@pytest.mark.parametrize("command", ["aggregate", "workers"])
def test_a_table_is_written_as_its_name_ends(campaign: Path, command: str) -> None:
    for name in ("table.csv", "table.parquet"):
        told = CliRunner().invoke(app, [command, "labels.csv", "--output", name])
        assert told.exit_code == 0, told.stderr
    text, typed = pd.read_csv("table.csv"), pd.read_parquet("table.parquet")
    assert list(text.columns) == list(typed.columns)
    assert typed["labels"].dtype.kind == "i"
    assert text["labels"].tolist() == typed["labels"].tolist()
    told = CliRunner().invoke(app, [command, "labels.csv", "--output", "table.xlsx"])
    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    assert "must end in .csv, .tsv, .parquet, .jsonl" in told.stderr
    assert not Path("table.xlsx").exists()


@pytest.mark.parametrize("which", sorted(WRITTEN.keys() - {("simulate", "output")}), ids=" ".join)
def test_a_missing_folder_is_refused_before_the_work(
    which: tuple[str, str], campaign: Path, tmp_path: Path
) -> None:
    (campaign / "labels.csv").write_text("no table")
    told = call(which, tmp_path / "missing" / "output.csv")
    assert told.exit_code == 2
    assert "missing must be a folder, and is not there; make it first" in told.stderr


def test_more_workers_to_remove_than_there_are_is_refused(campaign: Path) -> None:
    told = CliRunner().invoke(app, ["workers", "labels.csv", "--n-workers", "500"])
    assert told.exit_code == 2
    assert "must be below" in told.stderr
    assert "got n_workers=500" in told.stderr
    text = Path("settings.toml").read_text()
    Path("settings.toml").write_text(text.replace("fraction = 0.1", "n_workers = 500"))
    told = CliRunner().invoke(app, ["run", "settings.toml", "--no-prefect"])
    assert (told.exit_code, "got n_workers=500" in told.stderr) == (2, True)


def test_nothing_that_a_label_holds_reaches_the_terminal_as_a_command(campaign: Path) -> None:
    evil = "=cmd\x1b[2J\u202e"
    rows = [f"w{w},t{t},{evil if w == t else 'b'}" for w in range(3) for t in range(3)]
    Path("odd.csv").write_text("\n".join(["worker,task,label", *rows]) + "\n")
    told = CliRunner().invoke(app, ["aggregate", "odd.csv", "--aggregator", "kos"])
    refused = CliRunner().invoke(app, ["workers", "odd.csv", "--output", f"{evil}.csv2"])
    guarded = CliRunner().invoke(
        app, ["aggregate", "odd.csv", "--output", "out.csv", "--guard-formulas"]
    )
    assert guarded.exit_code == 0
    for text in (told.output, told.stderr, refused.stderr, guarded.output):
        assert not set("\x1b\u202e") & set(text)
    assert "=cmd" not in [row.split(",")[1][:4] for row in Path("out.csv").read_text().splitlines()]

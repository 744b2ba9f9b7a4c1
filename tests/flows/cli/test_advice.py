"""Advice works: each command that a message recommends is run in the situation in which it is given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.campaign import write_small_campaign

ROWS = [f"w{w},t{t},{'ab'[(w * t) % 2]}" for w in range(4) for t in range(4)]


def invoke(*words: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, header: str, rows: list[str], encoding: str = "utf-8") -> Path:
    path = Path(name)
    path.write_bytes("\n".join([header, *rows, ""]).encode(encoding))
    return path


@pytest.mark.parametrize("name", ["labels.csv", "my labels.csv", "labels.tsv"])
@pytest.mark.parametrize("command", ["workers", "aggregate", "check"])
def test_other_names_are_mapped_by_the_command_that_is_named(
    folder: Path, name: str, command: str
) -> None:
    write(name, "who,item,label", ROWS)
    refused = invoke(command, name)
    assert refused.exit_code == 2
    advice = re.search(r"crowdassay (import .+ --output \S+)$", refused.stderr.strip())
    assert advice is not None
    words = advice[1].replace("worker=...", "worker=who").replace("task=...", "task=item")
    told = invoke(*shlex.split(words))
    assert told.exit_code == 0, told.stderr
    assert invoke(command, "imported.csv").exit_code == 0


@pytest.mark.parametrize("command", ["workers", "aggregate", "init"])
def test_repeats_are_kept_by_the_option_that_is_named(folder: Path, command: str) -> None:
    write("labels.csv", "worker,task,label", [*ROWS, ROWS[0]])
    refused = invoke(command, "labels.csv")
    assert (refused.exit_code, "(--duplicates first)" in refused.stderr) == (2, True)
    assert invoke(command, "labels.csv", "--duplicates", "first").exit_code == 0


def test_an_encoding_is_said_by_the_option_that_is_named(folder: Path) -> None:
    late = [*(f"w{n},t{n},a" for n in range(60_000)), *ROWS, "josé,t1,b"]
    write("labels.csv", "worker,task,label", late, "cp1252")
    words = ("aggregate", "labels.csv", "--aggregator", "majority_vote")
    refused = invoke(*words, "--duplicates", "first")
    advice = re.search(r"--encoding \w+", refused.stderr)
    assert (refused.exit_code, advice is not None) == (2, True)
    assert advice is not None
    assert invoke(*words, "--duplicates", "first", *advice[0].split()).exit_code == 0


def test_a_wide_table_is_read_by_the_option_that_is_named(folder: Path) -> None:
    write("labels.csv", "task,ann,ben", ["1,a,b", "2,b,b", "3,a,a"])
    refused = invoke("aggregate", "labels.csv")
    assert (refused.exit_code, "--wide (wide = true) reads it so" in refused.stderr) == (2, True)
    assert invoke("aggregate", "labels.csv", "--wide").exit_code == 0


def test_a_budget_is_raised_and_then_said_in_the_settings(folder: Path) -> None:
    settings = write_small_campaign(folder)
    text = settings.read_text()
    settings.write_text(text.replace("epsilon = 20.0", "epsilon = 3.0"))
    refused = invoke("run", str(settings), "--no-prefect")
    assert refused.exit_code == 2
    assert "a larger epsilon, or smaller prices, in the settings" in refused.stderr
    settings.write_text(text)
    assert invoke("run", str(settings), "--no-prefect").exit_code == 0
    settings.write_text(text.replace("epsilon = 20.0", "epsilon = 40.0"))
    refused = invoke("run", str(settings), "--no-prefect", "--again")
    assert refused.exit_code == 2
    advice = re.search(r"crowdassay (budget .+ --raise-to EPSILON)", refused.stderr)
    assert advice is not None
    given = {"STATE": "state", "NAME": "small", "EPSILON": "40"}
    words = [given.get(word, word) for word in advice[1].split()]
    assert invoke(*words).exit_code == 0
    assert invoke("run", str(settings), "--no-prefect", "--again").exit_code == 0


def test_torn_lines_are_set_aside_by_the_command_that_is_named(folder: Path) -> None:
    write("labels.csv", "worker,task,label", [*ROWS, "torn"])
    told = invoke("check", "labels.csv")
    assert "--clean FILE" in told.output
    assert invoke("check", "labels.csv", "--clean", "clean.csv").exit_code == 0
    assert invoke("aggregate", "clean.csv").exit_code == 0

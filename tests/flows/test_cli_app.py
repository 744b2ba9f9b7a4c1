"""What every command shares: an example in its help, silence where asked, colours on a terminal alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from flows.cli import app
from flows.cli.app import console
from tests.flows.campaign import write_small_campaign


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its whole name, groups included."""
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")


COMMANDS = dict(commands(typer.main.get_command(app)))
LONG = ("aggregate", "demo", "deploy", "import", "report", "run", "serve", "simulate", "workers")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_with_an_example(name: str) -> None:
    told = CliRunner().invoke(app, [*name.split(), "--help"])
    assert told.exit_code == 0
    assert f"Example: crowdassay {name}" in " ".join(told.output.split())


@pytest.mark.parametrize("name", LONG)
def test_long_commands_can_be_quiet(name: str) -> None:
    assert "--quiet" in [option for one in COMMANDS[name].params for option in one.opts]


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

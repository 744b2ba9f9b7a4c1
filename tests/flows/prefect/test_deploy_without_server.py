"""What `serve` and `deploy` say where they cannot go on, and the yaml they write; no server needed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.campaign import write_small_campaign


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_campaign(tmp_path_factory.mktemp("campaign"))


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Prefect API, whatever the tester's own profile says."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["--cron", "5"], '--cron must be five fields, minute hour day month weekday, as in "0 6'),
        (["--cron", "61 * * * *"], 'got "61 * * * *"'),
        (["--interval", "0"], "--interval must be seconds above 0, got 0"),
        (["--interval", "nan"], "--interval must be seconds above 0, got nan"),
        (["--interval", "5", "--cron", "0 6 * * *"], "give one of --cron and --interval"),
        ([], "start one with `prefect server start` and set PREFECT_API_URL=http://127.0.0.1:4200"),
    ],
)
@pytest.mark.parametrize(
    "command", [["serve"], ["deploy", "--pool", "crowd"]], ids=["serve", "deploy"]
)
def test_what_cannot_be_scheduled_is_told_in_a_sentence(
    command: list[str], asked: list[str], sentence: str, settings: Path, nobody: None
) -> None:
    told = CliRunner().invoke(app, [*command, str(settings), *asked])
    assert told.exit_code == 2
    (line,) = told.stderr.splitlines()
    assert line.startswith("crowdassay: ")
    assert sentence in line


def test_settings_are_checked_before_anything_is_deployed(tmp_path: Path, nobody: None) -> None:
    told = CliRunner().invoke(app, ["serve", str(tmp_path / "none.toml")])
    assert told.exit_code == 2
    assert "none.toml cannot be read" in told.stderr


@pytest.mark.parametrize(
    ("asked", "schedules"),
    [
        ([], []),
        (["--interval", "60"], [{"interval": 60}]),
        (["--cron", "0 6 * * *"], [{"cron": "0 6 * * *", "timezone": "UTC"}]),
    ],
)
def test_the_yaml_holds_paths_and_names_only(
    asked: list[str], schedules: object, settings: Path, tmp_path: Path, nobody: None
) -> None:
    """No server is asked; quotes in names stay quotes."""
    written = tmp_path / "prefect.yaml"
    command = ["deploy", str(settings), "--pool", "the team's", "--yaml", str(written), *asked]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    assert '[privacy] publication = "%Y' in told.stdout  # one is proposed
    (deployment,) = yaml.safe_load(written.read_text())["deployments"]
    assert deployment["parameters"] == {"settings_path": str(settings), "resume": False}
    assert deployment["schedules"] == schedules
    assert deployment["work_pool"]["name"] == "the team's"
    assert (
        deployment["work_pool"]["job_variables"]["env"]["PREFECT_LOGGING_TO_API_ENABLED"] == "false"
    )


@pytest.mark.prefect
def test_cron_is_in_utc_wherever_the_server_stands(settings: Path) -> None:
    """As `--cron` says, and as the yaml has it."""
    from flows.prefect.deploy import Schedule, _deployment
    from flows.settings import load_settings

    deployment = _deployment(settings, load_settings(settings), Schedule(cron="0 6 * * *"), None)
    (found,) = deployment.schedules
    assert (found.schedule.cron, found.schedule.timezone) == ("0 6 * * *", "UTC")


@pytest.mark.prefect
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serving_is_ended_by_sigterm_as_by_ctrl_c(number: signal.Signals) -> None:
    """The runner leaves as a context manager does, which pauses schedules; nothing is un-awaited."""
    from prefect.runner import Runner

    from flows.prefect.deploy import _until_ended

    former, told = signal.getsignal(signal.SIGTERM), []

    class Waiting(Runner):
        async def start(self, *_: object, **__: object) -> None:
            signal.signal(signal.SIGTERM, self.handle_sigterm)  # as Prefect's does
            threading.Timer(0.1, os.kill, [os.getpid(), number]).start()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                told.append("left")
                raise

    try:
        _until_ended(Waiting())
    finally:
        signal.signal(signal.SIGTERM, former)
    assert told == ["left"]

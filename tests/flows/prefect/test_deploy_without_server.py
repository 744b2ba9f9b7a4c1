"""What `serve` and `deploy` say where they cannot go on, and the yaml they write; no server needed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Self
from unittest.mock import AsyncMock, Mock
from uuid import UUID, uuid4

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli import app
from flows.settings import SettingsError
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
        (
            ["--interval", "1e300"],
            "--interval must be at most 10 years, 316,224,000 seconds, got 1e+3",
        ),
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
    *waits, line = told.stderr.splitlines()
    assert all(" s so far" in wait for wait in waits)  # a busy machine is slow to answer
    assert line.startswith("crowdassay: ")
    assert sentence in line


@pytest.mark.parametrize("yaml", [[], ["--yaml", "prefect.yaml"]], ids=["deploy", "yaml"])
def test_a_pool_without_a_name_is_refused(yaml: list[str], settings: Path, nobody: None) -> None:
    told = CliRunner().invoke(app, ["deploy", str(settings), "--pool", "", *yaml])
    assert (told.exit_code, "--pool must name a work pool, got ''" in told.stderr) == (2, True)
    assert not Path("prefect.yaml").exists()


def test_settings_are_checked_before_anything_is_deployed(tmp_path: Path, nobody: None) -> None:
    told = CliRunner().invoke(app, ["serve", str(tmp_path / "none.toml")])
    assert told.exit_code == 2
    assert "none.toml cannot be read" in told.stderr


@pytest.mark.parametrize(
    ("asked", "schedules"),
    [
        ([], []),
        (["--interval", "60"], [{"interval": 60}]),
        (["--interval", "1234567"], [{"interval": 1234567}]),  # which :g rounds, to a text in YAML
        (["--interval", "1234567.25"], [{"interval": 1234567.25}]),
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


ENDS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a runner does that reaches no server and has no run to start."""
    from prefect.runner import Runner

    told = list[str]()

    async def add(*_: object) -> UUID:
        told.append("added")
        return uuid4()

    async def enter(self: Runner) -> Runner:
        self._scheduled_run_poller = self._cancelling_observer = Mock()
        self._cancellation_manager = Mock()
        return self

    async def start(self: Runner) -> None:
        signal.signal(signal.SIGTERM, self.handle_sigterm)  # as Prefect's does
        async with self:
            await asyncio.sleep(10)
            told.append("served to the end")

    async def nothing(*_: object) -> None:
        pass

    @asynccontextmanager
    async def client() -> AsyncIterator[Mock]:
        yield Mock(pause_deployment=AsyncMock(side_effect=lambda _: told.append("paused")))

    for name, done in (
        ("aadd_deployment", add), ("start", start), ("__aenter__", enter), ("__aexit__", nothing),
        ("cancel_all", nothing),
    ):  # fmt: skip
        monkeypatch.setattr(Runner, name, done)
    monkeypatch.setattr("flows.prefect.deploy.get_client", client)
    former = [(number, signal.getsignal(number)) for number in ENDS]
    yield told
    assert [(number, signal.getsignal(number)) for number, _ in former] == former


def send(number: int) -> None:
    threading.Timer(0.1, os.kill, [os.getpid(), number]).start()


@pytest.mark.prefect
@pytest.mark.parametrize("number", ENDS)
def test_serving_is_ended_by_sigterm_and_the_terminals_end_as_by_ctrl_c(
    number: signal.Signals, runner: list[str], ctrl_c: None
) -> None:
    from flows.prefect.deploy import _serve_until_ended, _Serving

    def ready() -> None:
        runner.append("ready")
        send(number)

    _serve_until_ended(_Serving(Mock(), ready, runner.append))
    assert runner[:3] == ["added", "ready", "paused"]


@pytest.mark.prefect
def test_sigterm_ends_a_job_in_the_background(runner: list[str], ctrl_c: None) -> None:
    """Which ignores Ctrl-C and the terminal's end, as after nohup. Another SIGTERM disturbs nothing."""
    from flows.prefect.deploy import _serve_until_ended, _Serving

    def ready() -> None:
        runner.append("ready")
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):
            os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _serve_until_ended(_Serving(Mock(), ready, runner.append))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert runner[:3] == ["added", "ready", "paused"]


@pytest.mark.prefect
@pytest.mark.parametrize("number", ENDS)
def test_what_is_asked_to_end_before_it_serves_does_not_say_that_it_serves(
    number: signal.Signals, runner: list[str], ctrl_c: None
) -> None:
    from flows.prefect.deploy import _serve_until_ended, _Serving

    class Slow(_Serving):
        async def aadd_deployment(self, *_: object) -> UUID:
            os.kill(os.getpid(), number)
            runner.append("added")
            return uuid4()

    _serve_until_ended(Slow(Mock(), lambda: runner.append("ready"), runner.append))
    assert runner[:2] == ["added", "paused"]


@pytest.mark.prefect
def test_a_run_that_heeds_no_signal_is_killed(
    runner: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is in a long call of a library; here a process that stands still. Prefect records it."""
    from prefect.runner._process_manager import ProcessHandle

    from flows.prefect import deploy

    async def never(*_: object) -> None:
        await asyncio.sleep(600)

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as run:
        run.send_signal(signal.SIGSTOP)

        class Busy(deploy._Serving):
            cancel_all = never

            async def __aenter__(self) -> Self:
                await self._process_manager.add(uuid4(), ProcessHandle(run))
                self._client = Mock(read_flow_run=AsyncMock(return_value=going_on))
                self._state_proposer = Mock(propose_crashed=AsyncMock())
                send(signal.SIGTERM)
                return await super().__aenter__()

        going_on = Mock(state=Mock(is_final=lambda: False))
        monkeypatch.setattr(deploy, "CANCEL_SECONDS", 0.1)
        serving = Busy(Mock(), lambda: None, runner.append)
        deploy._serve_until_ended(serving)
        assert run.wait() == -signal.SIGKILL
        assert serving._state_proposer.propose_crashed.await_args.args == (going_on, deploy.ENDED)


@pytest.mark.prefect
def test_runs_that_overlap_are_cancelled_at_once(runner: list[str]) -> None:
    """One after the other, the later were killed unasked: Prefect waits three seconds for each."""
    from flows.prefect.deploy import _serve_until_ended, _Serving

    class Overlapping(_Serving):
        async def __aenter__(self) -> Self:
            await super().__aenter__()
            together = asyncio.Barrier(2)
            self._cancellation_manager.cancel_by_id = cancel(together)
            for _ in range(2):
                await self._process_manager.add(uuid4(), Mock())
            send(signal.SIGTERM)
            return self

    def cancel(together: asyncio.Barrier) -> Callable[[UUID], Awaitable[None]]:
        async def cancelled(_: UUID) -> None:
            await together.wait()
            runner.append("cancelled")

        return cancelled

    _serve_until_ended(Overlapping(Mock(), lambda: None, runner.append))
    assert runner == ["added", "paused", "cancelled", "cancelled"]


@pytest.mark.prefect
def test_an_api_that_has_gone_is_a_sentence_and_runs_end_nevertheless(
    runner: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from httpx import ConnectError

    from flows.prefect.deploy import _serve_until_ended, _Serving

    gone = Mock(side_effect=ConnectError("All connection attempts failed"))
    monkeypatch.setattr("flows.prefect.deploy.get_client", gone)

    class Alone(_Serving):
        async def cancel_all(self, *_: object) -> None:
            runner.append("cancelled")

    with pytest.raises(SettingsError, match="no longer answers"):
        _serve_until_ended(Alone(Mock(), partial(send, signal.SIGTERM), runner.append))
    assert runner == ["added", "cancelled"]


@pytest.mark.prefect
def test_serving_goes_on_while_the_server_is_away_and_says_so_once() -> None:
    """At the third question without an answer Prefect's loop printed a traceback and ended serving."""
    from httpx import ConnectError, HTTPStatusError, Request, Response
    from prefect.utilities.services import critical_service_loop

    from flows.prefect.deploy import AWAY, BACK, _Serving

    def answer(code: int) -> HTTPStatusError:
        return HTTPStatusError("", request=Request("GET", "http://x"), response=Response(code))

    away = [ConnectError("refused")] * 4 + [answer(502)] * 4
    asker, told = Mock(due=AsyncMock(side_effect=[*away, None, None, answer(404)])), list[str]()
    _Serving(Mock(), lambda: None, told.append)._ask_on(asker, "due")
    with pytest.raises(HTTPStatusError) as caught:
        asyncio.run(critical_service_loop(asker.due, interval=0.0, printer=told.append))
    assert caught.value.response.status_code == 404  # which no waiting mends
    assert told == [AWAY, BACK]


@pytest.mark.prefect
@pytest.mark.parametrize("former", ["/elsewhere/settings.toml", "the same", None])
def test_a_deployment_that_takes_anothers_place_says_whose(
    former: str | None, settings: Path
) -> None:
    """Two campaigns of one name: the first one's runs ended without a word."""
    from prefect.exceptions import ObjectNotFound

    from flows.prefect.deploy import Schedule, _deployment, _say_replaced
    from flows.settings import load_settings

    deployment, told = (
        _deployment(settings, load_settings(settings), Schedule(), None),
        list[str](),
    )
    path = str(settings) if former == "the same" else former
    client = Mock()
    client.read_deployment_by_name.return_value.parameters = {"settings_path": path}
    if former is None:
        client.read_deployment_by_name.side_effect = ObjectNotFound(Exception())
    _say_replaced(client, deployment, told.append)
    said = (
        f"crowdassay/small ran {former} and runs it no more; --name gives each its own deployment"
    )
    assert told == ([said] if former == "/elsewhere/settings.toml" else [])


SENDERS = {
    "tests/flows/cli/spending/test_folder_audit.py": "a_signal_to_every_process",
    "tests/flows/cli/test_root.py": "in_a_destructor",
    "tests/flows/cli/test_signals.py": "terminal or imported",
    "tests/flows/cli/crowd/test_watch_command.py": "signal or terminal or sigterm",
    "tests/flows/prefect/test_deploy.py": "job_in_the_background",
    "tests/flows/prefect/test_deploy_without_server.py": "sigterm or asked_to_end",
    "tests/flows/prefect/test_flow.py": "starts_ends_with_its_run",
}
"""Test files that send Ctrl-C, and their tests that do."""


def ignore_the_terminal() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def test_every_test_that_sends_ctrl_c_is_known() -> None:
    root = Path(__file__).parents[3]
    found = [
        path for path in root.glob("tests/**/test_*.py") if "signal.SIGINT" in path.read_text()
    ]
    assert {path.relative_to(root).as_posix() for path in found} == set(SENDERS)


@pytest.mark.slow
@pytest.mark.parametrize("file", SENDERS)
def test_what_sends_ctrl_c_passes_where_it_is_ignored(file: str) -> None:
    """As under `nohup make test &`, whose shell starts a job in the background deaf to it."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", file]
    done = subprocess.run(
        [*command, "-k", SENDERS[file]], cwd=Path(__file__).parents[3], capture_output=True,
        text=True, timeout=600, check=False, preexec_fn=ignore_the_terminal,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout

"""A run whose Prefect server dies ends soon, in a sentence, and keeps what it has done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.flows.served_year import free_port, until
from flows.prefect import server
from flows.prefect.server import QUIET, answers_within, api_reachable
from flows.run import Run
from flows.settings import EngineError
from flows.tables import TableError
from tests.flows.prefect.test_flow import put_tiny_stages, put_work, tiny_work, write_settings

pytestmark = pytest.mark.prefect


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """The port and the home of each server: Prefect keeps clients, and a database is soon opened again."""
    return free_port(), tmp_path_factory.mktemp("home")


@pytest.fixture
def api(place: tuple[int, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A server that is configured, also where Prefect is imported; call it to kill that."""
    from prefect.settings import PREFECT_API_URL, temporary_settings  # before the URL is set

    port, home = place
    told, url = QUIET | {"PREFECT_HOME": str(home)}, f"http://127.0.0.1:{port}/api"
    for name, value in (told | {"PREFECT_API_URL": url}).items():
        monkeypatch.setenv(name, value)
    program = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port), "--no-ui"]
    process = subprocess.Popen(
        program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    until(api_reachable)

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    with temporary_settings({PREFECT_API_URL: url}):
        yield kill
    kill()


def services() -> dict[int, object]:
    """Prefect's services that this process keeps, each with the address of a server."""
    from prefect.concurrency.services import ConcurrencySlotAcquisitionWithLeaseService as Turns

    return dict(Turns._instances)


@pytest.mark.parametrize("dies_in", ["aggregate", "write_report"])
def test_a_run_whose_server_dies_ends_soon_and_keeps_what_it_has_done(
    dies_in: str, api: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect asked a dead server again and again, for minutes, and its error was shown as it is.

    A run that is whole without a server stays whole; any other goes on later.
    """
    from flows.prefect import flow, task

    monkeypatch.setattr(task, "BACK_SECONDS", 1.0)
    monkeypatch.setattr(flow, "RECORD_SECONDS", 1.0)
    put_tiny_stages(monkeypatch)

    def work(run: Run) -> str:
        api()
        return tiny_work(dies_in)(run)

    put_work(monkeypatch, dies_in, work)
    path, told = write_settings(tmp_path / "campaign"), list[str]()
    begin = time.monotonic()

    def run() -> object:
        return flow.run_as_flow(path, home=tmp_path, print_line=told.append)

    if dies_in == "write_report":
        run()
        assert told == [flow.LOST]
    else:
        with pytest.raises(EngineError, match=r"publish proportions and what .* --resume goes on"):
            run()
        assert len(list((tmp_path / "campaign").glob("runs/.partial-*/aggregate.json"))) == 1
    assert services() == {}, "they would ask that server for the next run of this process"
    assert time.monotonic() - begin < 90


@pytest.mark.parametrize("dies_in", ["aggregate", "write_report"])
def test_a_flow_that_is_called_has_its_own_outcome_soon(
    dies_in: str,
    api: Callable[[], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Prefect's error of a connection came after three minutes, also where the run was whole."""
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from flows.prefect import crowd_quality_flow, task

    monkeypatch.setattr(task, "BACK_SECONDS", 1.0)
    put_tiny_stages(monkeypatch)

    def work(run: Run) -> str:
        api()
        return tiny_work(dies_in)(run)

    put_work(monkeypatch, dies_in, work)
    path = str(write_settings(tmp_path / "campaign"))
    begin = time.monotonic()
    if dies_in == "write_report":
        assert crowd_quality_flow(path, return_state=True).is_completed()
        assert task.LOST in capsys.readouterr().err
    else:
        with pytest.raises(EngineError, match=r"publish proportions and what .* --resume goes on"):
            crowd_quality_flow(path)
    assert time.monotonic() - begin < 50
    assert services() == {}, "they would ask that server for the next run of this process"
    assert PREFECT_CLIENT_MAX_RETRIES.value() == PREFECT_CLIENT_MAX_RETRIES.default()
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        pytest.raises(EngineError, match="nothing was run"),
    ):
        crowd_quality_flow(path)


def test_a_watch_that_is_called_has_its_own_error_soon(
    api: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had Prefect's error of a connection, after three minutes."""
    from flows.prefect import task, watch_flow

    monkeypatch.setattr(task, "BACK_SECONDS", 1.0)
    begin = time.monotonic()

    def watch(*_: object, **__: object) -> None:
        api()
        raise TableError("labels.csv, row 3, column task: the cell is blank")

    monkeypatch.setattr(watch_flow, "watch_once", watch)
    with pytest.raises(TableError, match="row 3"):
        watch_flow.watch_labels_flow("labels.csv", "state.npz")
    assert time.monotonic() - begin < 50


def test_the_process_of_a_served_run_asks_a_server_that_is_gone_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Prefect runs it without a call; its process stood still for three minutes."""
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES

    from flows.prefect import task

    monkeypatch.setattr(task, "server_answers", lambda _: False)
    told = list[str]()
    try:
        task.with_or_without_server(lambda: None, say=told.append)
        assert (PREFECT_CLIENT_MAX_RETRIES.value(), told) == (0, [task.LOST])
    finally:
        task._call.get().settings.close()


def test_sigterm_ends_a_run_whose_server_has_died(
    api: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came as Prefect's own error of a connection, with no word of the signal."""
    from flows.prefect import flow

    class Ended(BaseException):
        pass

    def end(*_: object) -> None:
        raise Ended

    def work(run: Run) -> str:
        api()
        os.kill(os.getpid(), signal.SIGTERM)
        return ""

    put_tiny_stages(monkeypatch)
    put_work(monkeypatch, "aggregate", work)
    former = signal.signal(signal.SIGTERM, end)
    begin = time.monotonic()
    try:
        with pytest.raises(Ended):
            flow.run_as_flow(
                write_settings(tmp_path / "campaign"), home=tmp_path, print_line=lambda _: None
            )
    finally:
        signal.signal(signal.SIGTERM, former)
    assert time.monotonic() - begin < 60


def test_a_server_that_is_started_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([OSError("refused"), OSError("refused"), None])

    class Answer:
        def __enter__(self) -> None:
            if (error := next(answers)) is not None:
                raise error

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(server.urllib.request, "urlopen", lambda *_, **__: Answer())
    monkeypatch.setattr(server.time, "sleep", lambda _: None)
    assert answers_within("http://127.0.0.1:1/api", 60.0)
    assert next(answers, "asked no more") == "asked no more"

"""The run as a Prefect flow: the same files, nothing private sent, and no server left behind.

One run on an embedded server leaves its home to the tests after it; stages are tiny, so that what is
measured is the wrapping. Servers start in subprocesses, which is what the module's time goes to.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from flows import pipeline
from flows.prefect.server import ServerUnavailable, api_reachable, embedded_server
from flows.run import Run
from flows.stages import STAGES
from flows.tables import TableError
from quality import LabelError

pytestmark = pytest.mark.prefect

CANARY = "worker-of-the-third-kind"
HOLDS_A_SERVER = """
import sys, time
from pathlib import Path
from flows.prefect.server import embedded_server
with embedded_server(Path(sys.argv[1])) as url:
    print(url, flush=True)
    time.sleep(600)
"""


def tiny_work(name: str) -> Callable[[Run], str]:
    """A stage's work: read, write, print and say a private value, and skip what may be released."""

    def work(run: Run) -> str:
        print(CANARY)
        run.write_json(f"{name}.json", {"read": run.settings.input.labels.read_text()})
        run.write_json("inputs.json", {"name": run.settings.name})
        for skipped in ("proportions", "class_ratios", "model", "gate", "spend"):
            run.write_json(f"{skipped}.json", {"skipped": CANARY})
        return f"{name} saw {CANARY}"

    return work


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the stages, each of which has tiny work; a test may set other work."""
    return put_tiny_stages(monkeypatch)


def put_tiny_stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    assert len(STAGES) == 8
    tiny = tuple(replace(stage, function=tiny_work(stage.name)) for stage in STAGES)
    monkeypatch.setattr(pipeline, "STAGES", tiny)
    return [stage.name for stage in tiny]


def put_work(monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[Run], str]) -> None:
    """Give one stage other work."""
    changed = [
        replace(stage, function=work) if stage.name == name else stage for stage in pipeline.STAGES
    ]
    monkeypatch.setattr(pipeline, "STAGES", tuple(changed))


def failing(name: str, error: Exception, calls: list[str]) -> Callable[[Run], str]:
    def work(run: Run) -> str:
        calls.append(name)
        raise error

    return work


def write_settings(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "labels.csv").write_text(f"worker,task,label\n{CANARY},t1,a\n")
    path = folder / "settings.toml"
    path.write_text(f'name = "tiny"\nclasses = ["a", "{CANARY}"]\n[input]\nlabels = "labels.csv"\n')
    return path


def files(folder: Path) -> dict[str, bytes]:
    """What a run wrote, but for the manifest, which holds times."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name: text for name, text in found.items() if name != "manifest.json"}


def names_and_lines(result: pipeline.RunResult) -> list[tuple[str, str]]:
    return [(said.stage, said.line) for said in result.stages]


def recorded_turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the limits at which turns are asked for."""
    from flows.prefect import task

    asked: list[str] = []

    def concurrency(name: str, **_: float) -> contextlib.nullcontext[None]:
        asked.append(name)
        return contextlib.nullcontext()

    monkeypatch.setattr(task, "concurrency", concurrency)
    return asked


class Kept:
    """An embedded run: its lines, its result, and its server's home."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from flows.prefect.flow import run_as_flow

        self.settings = write_settings(folder / "campaign")
        self.home = folder / "prefect"
        self.told: list[str] = []
        self.turns = recorded_turns(monkeypatch)
        self.result = run_as_flow(self.settings, home=self.home, print_line=self.told.append)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """One run on an embedded server, which has ended."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        unconfigure(monkeypatch, tmp_path_factory.mktemp("nobody"))
        put_tiny_stages(monkeypatch)
        return Kept(tmp_path_factory.mktemp("kept"), monkeypatch)


@pytest.fixture(scope="module")
def server(kept: Kept) -> Iterator[str]:
    """A server on that home, again."""
    with embedded_server(kept.home) as url:
        yield url


@pytest.fixture
def configured(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """That server, as the API that the user configured."""
    monkeypatch.setenv("PREFECT_API_URL", server)
    return server


def unconfigure(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No Prefect API, whatever the tester's own profile says."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(folder))
    monkeypatch.chdir(folder)


def task_states(url: str, run_id: UUID) -> dict[str, str]:
    """The tasks of a flow run by name, with their states, as the API tells them."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: url}), get_client(sync_client=True) as client:
        found = client.read_task_runs(
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run_id]))
        )
    return {run.name: run.state.type.value for run in found if run.state is not None}


def told_run_id(told: list[str]) -> UUID:
    (line,) = told
    return UUID(line.rsplit("/", 1)[1])


def all_text(database: Path) -> str:
    """Every value of every row of every table."""
    with sqlite3.connect(database) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        rows = [
            row
            for table in tables
            if not table.startswith(("sqlite_", "ix_", "uq_"))
            for row in read_all(connection, table)
        ]
    connection.close()
    return "\n".join(map(str, rows))


def read_all(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    try:
        return connection.execute(f'SELECT * FROM "{table}"').fetchall()
    except sqlite3.OperationalError:  # the name is an index's
        return []


def test_a_flow_writes_the_files_that_a_plain_run_writes(kept: Kept, stages: list[str]) -> None:
    from flows.settings import load_settings

    plain = pipeline.run_pipeline(load_settings(kept.settings), again=True)
    assert files(kept.result.folder) == files(plain.folder)
    assert names_and_lines(kept.result) == names_and_lines(plain)
    assert {said.stage for said in kept.result.stages} == set(stages)


def test_a_kept_run_is_shown_later_completed_task_by_task(
    kept: Kept, server: str, stages: list[str]
) -> None:
    assert f"PREFECT_HOME={kept.home}" in kept.told[0]
    assert task_states(server, told_run_id(kept.told)) == dict.fromkeys(stages, "COMPLETED")


def test_a_kept_run_shows_its_settings_and_that_all_stages_are_done(kept: Kept) -> None:
    text = all_text(kept.home / "prefect.db")
    assert str(kept.settings.resolve()) in text
    assert "8 of 8 stages done" in text


def test_turns_are_asked_for_where_other_runs_may_be(
    kept: Kept, configured: str, stages: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An embedded server has one run alone."""
    from flows.prefect.flow import run_as_flow

    asked = recorded_turns(monkeypatch)
    run_as_flow(write_settings(tmp_path), home=tmp_path, print_line=lambda line: None)
    holding = [stage for stage in STAGES if stage.holds_ledger]
    assert asked == ["crowdassay-ledger-tiny"] * len(holding)
    assert kept.turns == []


def test_plain_parameters_are_sent_without_a_web_framework(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others are converted by Prefect, which loads one for it."""
    from flows import crowd_quality_flow

    asked = {"settings_path": Path("settings.toml")}
    assert crowd_quality_flow.serialize_parameters(asked) == {"settings_path": "settings.toml"}
    monkeypatch.setitem(sys.modules, "fastapi.encoders", None)
    plain = {"settings_path": "settings.toml", "resume": True}
    assert crowd_quality_flow.serialize_parameters(plain) == plain
    with pytest.raises(ImportError):
        crowd_quality_flow.serialize_parameters(asked)


def test_database_and_log_are_their_owners_alone(kept: Kept) -> None:
    for name in ("prefect.db", "server.log"):
        assert (kept.home / name).stat().st_mode & 0o777 == 0o600, name


def test_nothing_private_is_kept_by_prefect(kept: Kept) -> None:
    """The canary is a row of the input, a class of the settings, printed by every stage and in its line."""
    written = [path.read_bytes() for path in kept.home.rglob("*") if path.is_file()]
    assert any(b"judge_workers" in text for text in written)
    assert not any(CANARY.encode() in text for text in written)
    text = all_text(kept.home / "prefect.db")
    assert "judge_workers" in text
    assert CANARY not in text


@pytest.mark.parametrize("error", [LabelError(CANARY, column="worker"), KeyError(CANARY)])
def test_an_error_leaves_as_it_is_and_untold(
    error: Exception,
    kept: Kept,
    configured: str,
    stages: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """A user's mistake has its own type, one task failed, its message is in no row, no log is printed."""
    from flows.prefect.flow import run_as_flow

    calls: list[str] = []
    told: list[str] = []
    put_work(monkeypatch, "aggregate", failing("aggregate", error, calls))
    with pytest.raises(type(error)) as caught:
        run_as_flow(write_settings(tmp_path), home=tmp_path / "unused", print_line=told.append)
    assert caught.value is error
    states = task_states(configured, told_run_id(told))
    assert states == {
        "read_and_check": "COMPLETED",
        "judge_workers": "COMPLETED",
        "aggregate": "FAILED",
    }
    text = all_text(kept.home / "prefect.db")
    assert type(error).__name__ in text
    assert CANARY not in text
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "unused").exists()


def test_prefect_keeps_nothing_that_a_failed_stage_held(
    configured: str, stages: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Prefect keeps states until the process ends: an error in one would keep its frames' tables."""
    from flows.prefect.flow import run_as_flow

    class Table:
        pass

    held: list[weakref.ref[Table]] = []

    def aggregate(run: Run) -> str:
        table = Table()
        held.append(weakref.ref(table))
        raise LabelError("missing", column="worker")

    put_work(monkeypatch, "aggregate", aggregate)
    with contextlib.suppress(LabelError):
        run_as_flow(write_settings(tmp_path), home=tmp_path, print_line=lambda line: None)
    gc.collect()
    assert [table() for table in held] == [None]


@pytest.mark.parametrize(
    ("name", "error", "tries"),
    [
        ("read_and_check", OSError(5, "Input/output error"), 3),
        ("read_and_check", FileNotFoundError(2, "No such file or directory"), 1),
        ("read_and_check", LabelError("missing", column="worker"), 1),
        ("publish_proportions", OSError(5, "Input/output error"), 1),
    ],
)
def test_only_reading_is_tried_again(
    name: str,
    error: Exception,
    tries: int,
    configured: str,
    stages: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from flows.prefect import task as prefect_task
    from flows.prefect.flow import run_as_flow

    calls: list[str] = []
    monkeypatch.setattr(prefect_task, "RETRY_SECONDS", [0.0, 0.0])
    put_work(monkeypatch, name, failing(name, error, calls))
    with pytest.raises(type(error)):
        run_as_flow(write_settings(tmp_path), home=tmp_path, print_line=lambda line: None)
    assert calls == [name] * tries


def test_the_flow_can_be_called_and_says_which_stage_begins(
    server: str, stages: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error: that of a served run stands in the terminal of `serve`."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows import crowd_quality_flow

    with temporary_settings({PREFECT_API_URL: server}):
        result = crowd_quality_flow(str(write_settings(tmp_path)))
    assert {said.stage for said in result.stages} == set(stages)
    said = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("crowdassay: ")
    ]
    begun = [f"crowdassay: tiny: {name.replace('_', ' ')} …" for name in stages]
    assert said == [*begun, f"crowdassay: report  {result.report}"]


def newest_run(url: str) -> tuple[str, str, str]:
    """Name, state's name and state's type of the flow run that was made last."""
    from prefect import get_client
    from prefect.client.schemas.sorting import FlowRunSort
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: url}), get_client(sync_client=True) as client:
        (found,) = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)
    assert found.state is not None
    return found.name, found.state.name, found.state.type.value


def test_a_run_is_called_by_its_campaign_and_the_time(
    server: str, stages: list[str], tmp_path: Path
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows import crowd_quality_flow

    with temporary_settings({PREFECT_API_URL: server}):
        crowd_quality_flow(str(write_settings(tmp_path)))
    name, *state = newest_run(server)
    assert re.fullmatch(r"tiny \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", name)
    assert state == ["Completed", "COMPLETED"]


def test_a_run_in_which_nothing_is_new_ends_in_a_state_of_that_name(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows import crowd_quality_flow
    from flows.prefect import flow

    earlier = pipeline.RunResult(tmp_path, tmp_path / "report.html", (), unchanged=True)
    monkeypatch.setattr(flow, "run_pipeline", lambda *_, **__: earlier)
    monkeypatch.setattr(flow, "publish_releases", lambda *_: None)
    with temporary_settings({PREFECT_API_URL: server}):
        assert crowd_quality_flow(str(write_settings(tmp_path))) is earlier
    assert newest_run(server)[1:] == ("Unchanged", "COMPLETED")


def test_a_refused_run_ends_in_a_failed_state_of_that_name(server: str, tmp_path: Path) -> None:
    """A mistake that the user can mend; any other error is called Failed."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows import crowd_quality_flow

    path = write_settings(tmp_path)
    (tmp_path / "labels.csv").write_text("worker,task,label\n")
    with temporary_settings({PREFECT_API_URL: server}), pytest.raises(TableError):
        crowd_quality_flow(str(path))
    assert newest_run(server)[1:] == ("Refused", "FAILED")


def test_the_inner_step_runs_every_stage(
    configured: str, stages: list[str], tmp_path: Path
) -> None:
    """The command line's own step, which prints one line per stage, is what a task's body is."""
    from flows.prefect.flow import run_as_flow

    lines: list[str] = []

    def printing(stage: pipeline.Stage, run: Run) -> str:
        lines.append(pipeline.run_stage(stage, run))
        return lines[-1]

    run_as_flow(
        write_settings(tmp_path), home=tmp_path, print_line=lambda line: None, step=printing
    )
    assert sorted(lines) == sorted(f"{name} saw {CANARY}" for name in stages)


def test_without_a_server_the_run_is_done_in_process(
    stages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect.flow import run_as_flow

    unconfigure(monkeypatch, tmp_path)
    told: list[str] = []
    result = run_as_flow(
        write_settings(tmp_path),
        home=tmp_path / "home",
        print_line=told.append,
        startup_timeout=0.01,
    )
    assert {said.stage for said in result.stages} == set(stages)
    (line,) = told
    assert "did not answer within 0.01 s" in line
    assert line.endswith("running in process")


@pytest.mark.slow
def test_a_server_that_cannot_start_says_so(tmp_path: Path) -> None:
    """Its database cannot be opened: its log says so. SIGTERM's former handler is restored."""
    (tmp_path / "prefect.db").mkdir()
    former = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(ServerUnavailable, match="ended while starting"),
        embedded_server(tmp_path),
    ):
        pytest.fail("it cannot have started")
    assert signal.getsignal(signal.SIGTERM) is former
    assert "unable to open database file" in (tmp_path / "server.log").read_text()


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="children are read from /proc"
)


@needs_proc
def test_the_server_ends_when_its_run_is_killed(kept: Kept, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(kept.home / "prefect.db", home)  # tables are there, so it starts sooner
    with holding_a_server(home) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith(b"http://127.0.0.1:")
        child = child_of(run)
        run.kill()
    assert ends(child)


@needs_proc
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_server_that_starts_ends_with_its_run(
    number: signal.Signals, status: int, tmp_path: Path, ctrl_c: None
) -> None:
    """Once it is there it ends as where the block ends, which is another test."""
    with holding_a_server(tmp_path) as run:
        child = child_of(run)
        run.send_signal(number)
        assert run.wait() == status
    assert ends(child)


def holding_a_server(home: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_SERVER, str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def child_of(run: subprocess.Popen[bytes]) -> int:
    """Its one child, as soon as it has one."""
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.02)
    (child,) = found
    return int(child)


def ends(pid: int) -> bool:
    """Whether the process ends within a minute."""
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that waits to be reaped does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_the_block_ends_the_server_on_an_error(kept: Kept) -> None:
    """The home's server of the module runs on meanwhile, on a port of its own."""
    seen: list[str] = []

    def run_that_fails() -> None:
        with embedded_server(kept.home) as url:
            assert is_healthy(url)
            seen.append(url)
            raise KeyError

    with pytest.raises(KeyError):
        run_that_fails()
    assert not is_healthy(seen[0])


@pytest.mark.parametrize(("for_one_run", "deployments"), [(True, 404), (False, 200)])
def test_a_server_for_one_run_serves_what_a_run_asks_and_no_more(
    kept: Kept, for_one_run: bool, deployments: int
) -> None:
    with embedded_server(kept.home, for_one_run=for_one_run) as url:
        for what, status in (("flow_runs", 200), ("artifacts", 200), ("deployments", deployments)):
            assert httpx.post(f"{url}/{what}/filter", json={}).status_code == status


def is_healthy(url: str) -> bool:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PREFECT_API_URL", url)
        return api_reachable() == url


def test_a_dead_api_is_not_reachable() -> None:
    assert not is_healthy("http://127.0.0.1:9/api")


@pytest.mark.parametrize("written", [None, b"NAME=M\xfcller\n"], ids=["none", "latin-1"])
def test_prefect_is_not_imported_to_learn_that_nothing_configures_it(
    tmp_path: Path, written: bytes | None
) -> None:
    """A file that is there for something else may be in any encoding."""
    if written is not None:
        (tmp_path / ".env").write_bytes(written)
    asks = (
        "import sys; from flows.prefect.server import api_reachable; "
        "print(api_reachable(), 'prefect' in sys.modules)"
    )
    plain = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    plain |= {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run(
        [sys.executable, "-c", asks], cwd=tmp_path, env=plain, capture_output=True, check=True
    )
    assert said.stdout.split() == [b"None", b"False"]


def test_the_active_profile_configures_the_api(server: str, tmp_path: Path) -> None:
    profile = f'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "{server}"\n'
    (tmp_path / "profiles.toml").write_text(profile)
    plain = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    plain |= {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    asks = "from flows.prefect.server import api_reachable; print(api_reachable())"
    said = subprocess.run(
        [sys.executable, "-c", asks], cwd=tmp_path, env=plain, capture_output=True, check=True
    )
    assert said.stdout.decode().strip() == server

"""The flow on a schedule, on demand and on a work pool's worker, on a real Prefect server.

One server and one process that serves are shared, and so are the runs that several tests look at: each
is a fixture, so that every test passes alone. The campaign is the planted one, whose private values
are looked for in all that the server has kept. Runs are processes of their own: the module takes
about a minute of processor time.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.flows.served_year import free_port, started, until
from flows.cli import app
from flows.prefect.server import QUIET
from tests.flows.campaign import write_small_campaign
from tests.flows.run.test_canaries import PLANTED, plant

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

pytestmark = pytest.mark.prefect

ROOT = Path(__file__).resolve().parents[3]
NAME = "crowdassay/small"
LABEL, WAIT = "okapi-label", 900.0
TABLES = ("artifact", "artifact_collection", "events", "flow_run", "flow_run_state", "log")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's folder."""
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="module")
def api(home: Path) -> Iterator[str]:
    """A Prefect server with its schedulers, and that server as the configured API."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in (QUIET | {"PREFECT_HOME": str(home), "PREFECT_API_URL": url}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PREFECT_RUNNER_POLL_FREQUENCY", "1")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
        with started("prefect", "server", "start", "--port", str(port), "--no-ui"):
            from flows.prefect.server import api_reachable

            until(api_reachable)
            yield url


@pytest.fixture(scope="module")
def client(api: str) -> Iterator[SyncPrefectClient]:
    from prefect import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The planted campaign, whose first run spends 90 % of the budget."""
    path = plant(tmp_path_factory.mktemp("campaign"))
    path.write_text(path.read_text().replace("epsilon = 20.0", "epsilon = 10.5"))
    return path


@pytest.fixture(scope="module")
def alert(client: SyncPrefectClient) -> str:
    """The sample automation, created as its file says; its name."""
    from prefect.automations import Automation

    text = (ROOT / "sample_data" / "prefect" / "automation.yaml").read_text()
    return Automation(**yaml.safe_load(text)).create().name


@pytest.fixture(scope="module")
def serving(client: SyncPrefectClient, settings: Path, alert: str) -> Iterator[Any]:
    """`crowdassay serve`, which has a run due in half a minute."""
    with started("flows.cli", "serve", str(settings), "--interval", "30") as process:
        yield process


def runs_of(client: SyncPrefectClient, *tags: str) -> list[FlowRun]:
    """Flow runs with these tags, oldest first."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
    from prefect.client.schemas.sorting import FlowRunSort

    return client.read_flow_runs(
        flow_run_filter=FlowRunFilter(tags=FlowRunFilterTags(all_=list(tags))),
        sort=FlowRunSort.EXPECTED_START_TIME_ASC,
    )


@pytest.fixture(scope="module")
def fired(client: SyncPrefectClient, serving: object) -> FlowRun:
    """A scheduled run, ended. The schedule is switched off as soon as it has begun: one is enough."""

    def begun() -> FlowRun | None:
        runs = runs_of(client, "auto-scheduled", "crowdassay", "small")
        return runs[0] if runs and runs[0].start_time is not None else None

    def ended() -> FlowRun | None:
        now = client.read_flow_run(run.id)
        return now if now.state is not None and now.state.is_final() else None

    run = until(begun)
    deployment = client.read_deployment_by_name(NAME)
    (schedule,) = deployment.schedules
    switch = f"/deployments/{deployment.id}/schedules/{schedule.id}"
    client.request("PATCH", switch, json={"active": False})
    return until(ended)


def test_a_scheduled_run_fires(fired: FlowRun, settings: Path) -> None:
    """Its parameters are the settings' path and `resume`; it carries the campaign's name as a tag."""
    assert fired.state is not None
    assert fired.state.type.value == "COMPLETED"
    assert fired.parameters == {"settings_path": str(settings), "resume": False}
    assert any(
        (folder / "report.html").is_file() for folder in (settings.parent / "runs").iterdir()
    )


def test_its_progress_releases_and_report_are_artifacts(
    client: SyncPrefectClient, fired: FlowRun
) -> None:
    found = {
        artifact.key: artifact.data
        for artifact in client.read_artifacts()
        if artifact.flow_run_id == fired.id
    }
    assert set(found) == {
        f"crowdassay-small-{what}"
        for what in ("progress", "proportions", "class-ratios", "summary", "report")
    }
    assert found["crowdassay-small-progress"] == 100.0
    assert "8 stages done" in str(found["crowdassay-small-summary"])
    assert "report.html" in str(found["crowdassay-small-report"])


def test_a_budget_that_is_nearly_spent_sets_off_the_sample_automation(
    client: SyncPrefectClient, alert: str, fired: FlowRun
) -> None:
    def went_off() -> dict[str, Any] | None:
        told = events(client, "prefect.automation.action.executed", "crowdassay.budget.low")
        names = {one["event"] for one in told}
        return told[-1] if len(names) == 2 else None

    until(went_off)
    (low, *_) = events(client, "crowdassay.budget.low")
    assert low["resource"]["prefect.resource.id"] == "crowdassay.campaign.small"
    assert low["payload"] == {
        "campaign": "small",
        "at_least": 0.8,
        "budget": {"epsilon": 10.5, "delta": 0.0},
    }


def events(client: SyncPrefectClient, *names: str) -> list[dict[str, Any]]:
    answer = client.request("POST", "/events/filter", json={"filter": {"event": {"name": names}}})
    found: list[dict[str, Any]] = answer.json()["events"]
    return found


def test_a_run_is_asked_for_by_another_program(api: str, serving: object) -> None:
    run = asked(api)
    assert run.state is not None
    assert run.state.type.value == "COMPLETED"


def asked(api: str, **parameters: str) -> FlowRun:
    """A run of the served deployment, ended, as a program asks for it."""
    from prefect.deployments import run_deployment
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api}):
        return run_deployment(
            NAME, parameters=parameters, timeout=WAIT, poll_interval=1, as_subflow=False
        )


@pytest.fixture(scope="module")
def stopped_alert(client: SyncPrefectClient) -> str:
    """The sample automation for runs without a result, created as its file says; its id."""
    from prefect.automations import Automation

    text = (ROOT / "sample_data" / "prefect" / "stopped.yaml").read_text()
    return str(Automation(**yaml.safe_load(text)).create().id)


@pytest.fixture(scope="module")
def failed(
    api: str, serving: object, stopped_alert: str, tmp_path_factory: pytest.TempPathFactory
) -> FlowRun:
    """A run that refuses a label, which is planted, and quotes it where the flow is served."""
    path = plant(tmp_path_factory.mktemp("refused"))
    table = path.parent / "labels.csv"
    labels = table.read_text().splitlines()
    worker, task, _ = labels[-1].split(",")
    table.write_text("\n".join([*labels[:-1], f"{worker},{task},{LABEL}\n"]))
    return asked(api, settings_path=str(path))


def test_a_failed_run_tells_its_errors_type_alone(failed: FlowRun) -> None:
    assert failed.state is not None
    assert (failed.state.type.value, failed.state.name) == ("FAILED", "Refused")
    assert "TableError" in str(failed.state.message)
    assert failed.name.startswith("small ")


def test_a_refused_run_sets_off_the_sample_automation(
    client: SyncPrefectClient, failed: FlowRun, stopped_alert: str
) -> None:
    def went_off() -> list[dict[str, Any]] | None:
        told = events(client, "prefect.automation.action.executed")
        return [one for one in told if stopped_alert in str(one["resource"])] or None

    def refused() -> dict[str, Any] | None:
        told = events(client, "prefect.flow-run.Refused")
        own = f"prefect.flow-run.{failed.id}"
        return next((one for one in told if one["resource"]["prefect.resource.id"] == own), None)

    assert until(refused)["resource"]["prefect.state-type"] == "FAILED"
    assert until(went_off)  # nothing else that this module runs ends without a result


@pytest.mark.slow
def test_deploy_names_the_pool_that_is_missing(api: str, settings: Path) -> None:
    told = CliRunner().invoke(app, ["deploy", str(settings), "--pool", "nobody"])
    assert told.exit_code == 2
    assert "`prefect work-pool create nobody --type process` makes it" in told.stderr


@pytest.fixture(scope="module")
def pooled(client: SyncPrefectClient, settings: Path) -> str:
    """The name of the campaign's deployment to a pool."""
    from prefect.client.schemas.actions import WorkPoolCreate

    client.create_work_pool(WorkPoolCreate(name="crowd", type="process"))
    told = CliRunner().invoke(
        app, ["deploy", str(settings), "--pool", "crowd", "--name", "pooled", "--cron", "0 6 * * *"]
    )
    assert told.exit_code == 0, told.stderr
    assert "deployed crowdassay/pooled" in told.output
    return "crowdassay/pooled"


@pytest.mark.slow
def test_a_worker_runs_what_is_deployed(api: str, client: SyncPrefectClient, pooled: str) -> None:
    from prefect.deployments import run_deployment
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api}):
        run = run_deployment(pooled, timeout=0, as_subflow=False)
    worker = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "crowd", "--run-once"]
    subprocess.run(worker, check=True, capture_output=True, timeout=WAIT)
    ended = client.read_flow_run(run.id)  # type: ignore[union-attr]  # a run outside of a loop
    assert ended.state is not None
    assert ended.state.type.value == "COMPLETED"


@pytest.mark.slow
def test_the_yaml_that_is_written_deploys_the_same(
    client: SyncPrefectClient, pooled: str, settings: Path, tmp_path: Path
) -> None:
    asked = ["deploy", str(settings), "--pool", "crowd", "--name", "by-yaml", "--cron", "0 6 * * *"]
    written = [*asked, "--yaml", str(tmp_path / "prefect.yaml")]
    assert CliRunner().invoke(app, written).exit_code == 0
    assert "--force overwrites it" in CliRunner().invoke(app, written).stderr
    deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    subprocess.run(deploy, cwd=tmp_path, check=True, capture_output=True, timeout=WAIT)
    one, other = (client.read_deployment_by_name(name) for name in (pooled, "crowdassay/by-yaml"))
    for field in ("entrypoint", "parameters", "tags", "work_pool_name", "job_variables"):
        assert getattr(one, field) == getattr(other, field), field
    assert [each.schedule for each in one.schedules] == [each.schedule for each in other.schedules]


def test_a_job_in_the_background_serves_when_it_says_so_until_sigterm(
    client: SyncPrefectClient, tmp_path: Path
) -> None:
    """As service managers and `kill` end it: the run that goes on is cancelled, the schedule paused."""
    settings, log, name = write_small_campaign(tmp_path), tmp_path / "serve.log", "crowdassay/ended"
    settings.write_text(settings.read_text().replace('name = "small"', 'name = "ended"'))
    asked = ["flows.cli", "serve", str(settings), "--interval", "3600"]

    def says_so() -> bool | None:
        return f"serving {name};" in log.read_text() or None

    def begun() -> FlowRun | None:
        now = client.read_flow_run(run.id)
        return now if now.start_time is not None else None

    with started(*asked, log=log) as serving:
        until(says_so)
        deployment = client.read_deployment_by_name(name)
        assert not deployment.paused
        run = client.create_flow_run_from_deployment(deployment.id)
        until(begun)
        serving.send_signal(signal.SIGINT)  # is not heeded
        serving.terminate()
        assert serving.wait(timeout=WAIT) == 0
    assert client.read_deployment_by_name(name).paused
    ended = client.read_flow_run(run.id)
    assert not runs_here(str(run.id))
    assert ended.state is not None
    assert ended.state.type.value in {"CANCELLED", "CRASHED"}  # if it was slow to end


def runs_here(flow_run: str) -> bool:
    """Whether a process of this machine makes the flow run, as its environment says."""
    for found in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if flow_run.encode() in found.read_bytes():
                return True
    return False


def test_nothing_planted_is_in_a_row_of_the_servers(
    home: Path, fired: FlowRun, failed: FlowRun
) -> None:
    """Workers, tasks, features, the refused label: artifacts, events, states, logs and the rest."""
    connection = sqlite3.connect(home / "prefect.db")
    names = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    rows = {name: str(connection.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names}
    connection.close()
    assert set(TABLES) <= set(rows)
    assert all(len(rows[name]) > 2 for name in TABLES if name != "log")
    assert rows["log"] == "[]"
    text = "\n".join(rows.values())
    assert "TableError" in text
    assert [planted for planted in (*PLANTED, LABEL) if planted in text] == []

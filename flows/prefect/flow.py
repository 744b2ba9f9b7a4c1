# ruff: noqa: E402 - Prefect reads its environment when it is imported, so that is set first
"""The run as a Prefect flow: the same pipeline, each stage a task.

    from flows.prefect import crowd_quality_flow
    crowd_quality_flow("settings.toml")

Prefect records that a stage ran, when, and how it ended. What a stage reads, finds or prints stays out
of Prefect's database: tasks take nothing and return nothing, no printed or logged line is sent, and of
an error only the type is sent, because its message may quote a row. Artifacts show what was released.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flows.pipeline import RunResult, Stage, Step, run_pipeline, run_stage
from flows.prefect.server import ServerUnavailable, api_reachable, embedded_server, quieten
from flows.run import Run
from flows.settings import EngineError, SettingsError, load_settings
from flows.terminal import both, is_mistake, printable, sentence, waiting

quieten()

import httpx
from prefect import Flow, State, get_client, tags
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.runtime import flow_run
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_HOME,
    PREFECT_LOGGING_TO_API_ENABLED,
    temporary_settings,
)
from prefect.utilities.urls import url_for
from rich.console import Console

from flows.prefect.artifacts import publish_releases, step_with_progress
from flows.prefect.task import (
    LOST,
    LastingFlow,
    Outcome,
    PlainFlow,
    end_services,
    ended,
    failed,
    prefect_step,
    raise_signal_behind,
    server_answers,
    with_or_without_server,
)

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["TAG", "crowd_quality_flow", "run_as_flow"]

T = TypeVar("T")
TAG = "crowdassay"
RECORD_SECONDS = 10.0
RETRIES = 3  # of a request, over 14 seconds; Prefect's own five take a minute, and a run makes many
NOT_RUN = "no stage was run; --resume goes on in an earlier run, with or without that server"


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of `run_as_flow`."""

    settings_path: Path
    campaign: str
    step: Step
    resume: bool
    again: bool
    alone: bool


def run_as_flow(
    settings_path: Path,
    *,
    home: Path,
    print_line: Callable[[str], None],
    step: Step = run_stage,
    resume: bool = False,
    again: bool = False,
    startup_timeout: float = 300.0,
) -> RunResult:
    """Run the pipeline as a flow on the configured Prefect API, or else on an embedded server.

    Parameters
    ----------
    settings_path
        The settings file.
    home
        Folder of the embedded server's database, kept after the run.
    print_line
        Called with the line that says where to look at the run, or that it runs in process.
    step
        How a stage is run inside its task.
    resume
        Go on in the newest run that did not end.
    again
        Run even if nothing is new since the last complete run.
    startup_timeout
        Seconds that the embedded server has to start; after that the run is made in process.

    Returns
    -------
    RunResult
        The result of `run_pipeline`.

    Notes
    -----
    **Guarantees.** The same stages write the same run folder as in process. A user's
    mistake is raised with its own type. The embedded server ends with this call, however the call ends.
    The run and its tasks are tagged
    "crowdassay" and with the campaign's name.

    Examples
    --------
    >>> home = Path("state/prefect")
    >>> run_as_flow(Path("settings.toml"), home=home, print_line=print)  # doctest: +SKIP
    """
    settings = load_settings(settings_path)  # a mistake is reported before a server is started
    configured = api_reachable()
    request = _Request(settings_path, settings.name, step, resume, again, alone=configured is None)
    given: dict[Any, Any] = {PREFECT_LOGGING_TO_API_ENABLED: False}
    if PREFECT_CLIENT_MAX_RETRIES.value() == PREFECT_CLIENT_MAX_RETRIES.default():
        given[PREFECT_CLIENT_MAX_RETRIES] = RETRIES
    if configured is not None:
        with temporary_settings(given | {PREFECT_API_URL: configured}):
            return _run(request, lambda run_id: print_line(_where(run_id)))
    # the heartbeat is for servers that supervise runs, and takes a second to stop; this server has no
    # tokens against forged requests, for which a client asks again and again, and is of this version
    given |= {
        PREFECT_HOME: home.resolve(),
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False,
        PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED: False,
    }
    try:
        with (
            embedded_server(home, startup_timeout=startup_timeout, for_one_run=True) as api_url,
            temporary_settings(given | {PREFECT_API_URL: api_url}),
        ):
            return _run(request, lambda run_id: print_line(_where_kept(run_id, home)))
    except ServerUnavailable as missing:
        print_line(f"{missing}: running in process")
        return run_pipeline(settings, step=step, resume=resume, again=again)


def _flow_over(
    body: Callable[[Path, bool], T], kind: type[PlainFlow[[str, bool], T]] = PlainFlow
) -> Flow[[str, bool], T]:
    """Return the flow that calls `body`, which is not its parameter, because Prefect stores parameters."""

    def crowd_quality_flow(settings_path: str, resume: bool = False) -> T:
        """Judge workers, aggregate labels, release proportions, train privately, test, report."""
        return body(Path(settings_path), resume)

    return kind(
        crowd_quality_flow,
        name="crowdassay",
        version=version("crowdassay"),
        flow_run_name=_run_name,
        persist_result=False,
        log_prints=False,
    )


def _run_name() -> str:
    """Return the campaign and the time, by which a run is called in Prefect."""
    path = Path(flow_run.parameters["settings_path"])
    try:
        campaign = load_settings(path).name
    except SettingsError:  # the run itself reports it
        campaign = path.name
    return f"{campaign} {datetime.now(UTC):%Y-%m-%d %H:%M:%S}"


def _called(settings_path: Path, resume: bool) -> RunResult | State[None]:
    """Make the run for a direct caller of the flow, or for the process that serves it."""
    return with_or_without_server(partial(_reported, settings_path, resume), say=_say)


def _reported(settings_path: Path, resume: bool) -> RunResult | State[None]:
    """Make the run; the caller gets the error that the failed state holds."""
    try:
        result = _pipeline(settings_path, _said_step, resume=resume)
        _say("nothing is new" if result.unchanged else f"report  {result.report}")
        state = ended(result)
        if state is None:
            return result
        state.data = result  # which Prefect gives the caller, and keeps nowhere
        return state
    except Exception as error:  # raised again by Prefect, which is sent its type alone
        if is_mistake(error):
            _say(sentence(error))
        clear_frames(error.__traceback__)  # Prefect keeps the error: let it not keep open tables
        return failed(error, data=error)


def _said_step(stage: Stage, run: Run) -> str:
    """Run a stage; say which begins, and what it waits for where that takes long."""
    name = f"{run.settings.name}: {stage.name.replace('_', ' ')}"
    _say(f"{name} …")
    with waiting(
        Console(stderr=True, highlight=False, markup=False), f"crowdassay: {name} …"
    ) as shown:
        return run_stage(stage, replace(run, progress=both(shown, run.progress)))


def _say(line: str) -> None:
    """Print a line for the log of this process alone, which shows a served run's in its terminal."""
    print(f"crowdassay: {printable(line)}", file=sys.stderr, flush=True)


crowd_quality_flow = cast("Flow[[str, bool], RunResult]", _flow_over(_called, LastingFlow))
"""The pipeline as a Prefect flow: call it with the path of a settings file, or serve or deploy it
(`flows.prefect.deploy`). Its process names each stage that begins on its standard error.

It runs against the configured API. Without one Prefect starts a temporary server, which keeps running
when the process is killed; the server that `run_as_flow` starts does not.
"""


def _pipeline(
    settings_path: Path, step: Step, *, resume: bool, again: bool = False, alone: bool = False
) -> RunResult:
    """Run the pipeline with each stage a task; then publish what it released as artifacts."""
    settings = load_settings(settings_path)
    with tags(TAG, settings.name):
        in_task = prefect_step(step, alone=alone)
        shown = step_with_progress(in_task, settings.name, seen=not alone)
        result = run_pipeline(settings, step=shown, resume=resume, again=again)
    publish_releases(settings.name, result)
    return result


def _run(request: _Request, print_where: Callable[[str | None], None]) -> RunResult:
    """Run the flow, wait until it is recorded, say where to look at it; return or raise its outcome."""
    begun: set[str] = set()

    def counted(stage: Stage, run: Run) -> str:
        begun.add(stage.name)
        return request.step(stage, run)

    outcome = Outcome(
        lambda: _pipeline(
            request.settings_path,
            counted,
            resume=request.resume,
            again=request.again,
            alone=request.alone,
        )
    )
    with ExitStack() as at_once:
        gone = False

        def body(path: Path, resume: bool) -> State[None] | None:
            nonlocal gone
            try:
                return outcome.attempt()
            finally:  # of a signal too: Prefect would go on asking a server that is gone
                gone = not server_answers(RECORD_SECONDS if outcome.returned else 0.0)
                if gone:
                    at_once.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))

        try:
            with tags(TAG, request.campaign):
                parameters = (str(request.settings_path.resolve()), request.resume)
                state = _flow_over(body)(*parameters, return_state=True)
            run_id = cast("UUID", state.state_details.flow_run_id)
            _await_record(FlowRunFilter(id=FlowRunFilterId(any_=[run_id])), n_tasks=len(begun))
            print_where(str(run_id))
        except httpx.TransportError as error:
            raise_signal_behind(error)
            if not outcome.known:
                raise EngineError(f"Prefect's server no longer answers: {NOT_RUN}") from error
            gone = True
            if outcome.returned:
                print_where(None)
        finally:
            end_services(within=0.0 if gone else RECORD_SECONDS)
    return outcome.get()


def _await_record(this_run: FlowRunFilter, *, n_tasks: int) -> None:
    """Return when the server has recorded how each task ended; events reach it with a delay."""
    deadline = time.monotonic() + RECORD_SECONDS
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            runs = client.read_task_runs(flow_run_filter=this_run)
            if sum(run.state is not None and run.state.is_final() for run in runs) >= n_tasks:
                return
            time.sleep(0.1)


def _where(run_id: str | None) -> str:
    """Return the page of a run on the configured server, or that it has none."""
    if run_id is None:
        return LOST
    return f"this run in Prefect: {url_for('flow-run', run_id)}"


def _where_kept(run_id: str | None, home: Path) -> str:
    """Return the command that shows a run of the embedded server again, or that it is not kept whole."""
    if run_id is None:
        return LOST
    prefect = "prefect" if shutil.which("prefect") else f"{shlex.quote(sys.executable)} -m prefect"
    given = {"PREFECT_HOME": str(home.resolve()), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    if "PREFECT_API_URL" in os.environ:
        given["PREFECT_API_URL"] = "http://127.0.0.1:4200/api"
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
    return (
        f"this run in Prefect: start `DO_NOT_TRACK=1 {settings} {prefect} server start`, "
        f"then open http://127.0.0.1:4200/runs/flow-run/{run_id}"
    )

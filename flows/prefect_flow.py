# ruff: noqa: E402 - Prefect reads its environment when it is imported, so QUIET is set first
"""The run as a Prefect flow: the same story, each stage a task. No other file imports Prefect's SDK.

Prefect records that a stage ran, when, and how it ended. What a stage read, found or said stays out
of its database: tasks take nothing and return nothing, nothing printed or logged is sent, and of an
error only the type is told, because its message may quote a row.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from flows.pipeline import RunResult, Stage, Step, run_pipeline, run_stage
from flows.prefect_server import QUIET, ServerUnavailable, api_reachable, embedded_server
from flows.run_store import Run
from flows.settings import load_settings

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)
_unproxied = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
os.environ["no_proxy"] = f"{_unproxied},127.0.0.1,localhost".removeprefix(",")

from prefect import Flow, State, Task, get_client
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.events.worker import EventsWorker
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_HOME,
    PREFECT_LOGGING_TO_API_ENABLED,
    temporary_settings,
)
from prefect.states import Failed
from prefect.utilities.urls import url_for

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.schemas.objects import TaskRun

__all__ = ["crowd_quality_flow", "prefect_step", "run_as_flow"]

T = TypeVar("T")
READING = "read_and_check"
LASTING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
RETRY_SECONDS = [1.0, 5.0]
RECORD_SECONDS = 10.0


class UntoldError(Exception):
    """An error as Prefect may see it, which may log and does keep what it sees: its type alone."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.kind = type(error)


class Past(Generic[T]):
    """Carries what some work returns or raises past Prefect, which hears only how it ended."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._returned: list[T] = []
        self._raised: list[Exception] = []

    def attempt(self) -> State[None] | None:
        """Do the work; tell None if it is done, or a failed state that names an error's type."""
        try:
            self._returned = [self._work()]
        except Exception as error:  # of any type: its message may quote rows, its frames hold them
            self._raised = [error]
            return _failed(error, data=UntoldError(error))
        return None

    def outcome(self) -> T:
        """What the last attempt returned, or what it raised."""
        if self._returned:
            return self._returned.pop()
        raise self._raised.pop()


def prefect_step(inner: Step) -> Step:
    """Run each stage as a Prefect task named after it, whose body is `inner`.

    Parameters
    ----------
    inner
        How the stage is run inside the task, e.g. the step that prints its line.

    Returns
    -------
    Step
        A step for `run_pipeline` inside a flow.

    Notes
    -----
    **Guarantees.** Nothing of the run is a task's input or result, and no error's message is told to
    Prefect. An error leaves as it was raised. Only reading is tried again, and only where the
    operating system failed in a way that may pass; a stage that spends budget never is.

    Examples
    --------
    >>> step = prefect_step(run_stage)
    """

    def step(stage: Stage, run: Run) -> str:
        past = Past(lambda: inner(stage, run))
        _as_task(stage.__name__, past.attempt)()
        return past.outcome()

    return step


def run_as_flow(
    settings_path: Path,
    *,
    home: Path,
    tell: Callable[[str], None],
    step: Step = run_stage,
    resume: bool = False,
    startup_timeout: float = 300.0,
) -> RunResult:
    """Run the pipeline as a flow on the configured Prefect API, or else on an embedded server.

    Parameters
    ----------
    settings_path
        The settings file.
    home
        Folder of the embedded server's database, kept after the run.
    tell
        Takes the line that says where the run can be looked at, or that it runs in process.
    step
        How a stage is run inside its task.
    resume
        Go on in the newest run that died.
    startup_timeout
        Seconds the embedded server has to start; where it does not, the run is done in process.

    Returns
    -------
    RunResult
        As of `run_pipeline`.

    Notes
    -----
    **Guarantees.** The same stages write the same run folder as in process. A user's mistake leaves
    with its own type. The embedded server ends with this call, however the call ends.

    Examples
    --------
    >>> home = Path("state/prefect")
    >>> run_as_flow(Path("settings.toml"), home=home, tell=print)  # doctest: +SKIP
    """
    given: dict[Any, Any] = {PREFECT_LOGGING_TO_API_ENABLED: False}
    configured = api_reachable()
    if configured is not None:
        with temporary_settings(given | {PREFECT_API_URL: configured}):
            return _run(settings_path, step, resume, lambda run_id: tell(_where(run_id)))
    # the heartbeat is for servers that watch over runs, and takes a second to stop
    given |= {PREFECT_HOME: home.resolve(), PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    try:
        with (
            embedded_server(home, startup_timeout=startup_timeout) as api_url,
            temporary_settings(given | {PREFECT_API_URL: api_url}),
        ):
            return _run(settings_path, step, resume, lambda run_id: tell(_where_kept(run_id, home)))
    except ServerUnavailable as missing:
        tell(f"{missing}: running in process")
        return run_pipeline(load_settings(settings_path), step=step, resume=resume)


def _flow_over(body: Callable[[Path, bool], T]) -> Flow[[str, bool], T]:
    """The flow that does `body`, which is no parameter of it: parameters are stored."""

    def crowd_quality_flow(settings_path: str, resume: bool = False) -> T:
        """Judge workers, aggregate labels, release proportions, train privately, test, report."""
        return body(Path(settings_path), resume)

    return Flow(
        crowd_quality_flow,
        name="crowdassay",
        version=version("crowdassay"),
        flow_run_name="{settings_path}",
        persist_result=False,
        log_prints=False,
    )


def _called(settings_path: Path, resume: bool) -> RunResult | State[None]:
    """The run for who calls the flow itself, and gets the error that the failed state holds."""
    try:
        return _pipeline(settings_path, run_stage, resume)
    except Exception as error:  # raised again by Prefect, which is told its type alone
        clear_frames(error.__traceback__)  # and keeps it to the end: open tables are not kept
        return _failed(error, data=error)


crowd_quality_flow = cast("Flow[[str, bool], RunResult]", _flow_over(_called))
"""The pipeline as a Prefect flow: call it with the path of a settings file, or `.serve(...)` it.

It runs against the configured API. Without one Prefect starts a temporary server of its own, which
is left behind when the process is killed; the one that `run_as_flow` starts is not.
"""


def _pipeline(settings_path: Path, step: Step, resume: bool) -> RunResult:
    """The whole story, each stage a task."""
    return run_pipeline(load_settings(settings_path), step=prefect_step(step), resume=resume)


def _as_task(name: str, work: Callable[[], T]) -> Task[[], T]:
    """A task that takes nothing, stores nothing, and is tried again only where that is harmless."""
    return Task(
        work,
        name=name,
        task_run_name=name,
        cache_policy=NO_CACHE,
        persist_result=False,
        log_prints=False,
        retries=len(RETRY_SECONDS) if name == READING else 0,
        retry_delay_seconds=RETRY_SECONDS,
        retry_condition_fn=_may_pass,
    )


def _may_pass(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether the operating system failed in a way that may pass; a user's mistake never does."""
    kind = cast("UntoldError", state.result(raise_on_failure=False)).kind
    return issubclass(kind, OSError) and not issubclass(kind, LASTING)


def _failed(error: Exception, *, data: Exception) -> State[None]:
    """A failed state that names the error's type, and holds `data` for this process."""
    return Failed(message=f"{type(error).__name__}, told where the run was started", data=data)


def _run(
    settings_path: Path, step: Step, resume: bool, tell_where: Callable[[str], None]
) -> RunResult:
    """Run the flow, see it recorded, say where it can be seen; return or raise what it did."""
    begun: set[str] = set()

    def noted(stage: Stage, run: Run) -> str:
        begun.add(stage.__name__)
        return step(stage, run)

    past = Past(lambda: _pipeline(settings_path, noted, resume))
    flow = _flow_over(lambda path, resume: past.attempt())
    try:
        state = flow(str(settings_path.resolve()), resume, return_state=True)
    finally:
        EventsWorker.drain_all(timeout=RECORD_SECONDS)
    run_id = cast("UUID", state.state_details.flow_run_id)
    _await_record(FlowRunFilter(id=FlowRunFilterId(any_=[run_id])), n_tasks=len(begun))
    tell_where(str(run_id))
    return past.outcome()


def _await_record(this_run: FlowRunFilter, *, n_tasks: int) -> None:
    """Return when the server has recorded how each task ended: it hears of that by events, later."""
    deadline = time.monotonic() + RECORD_SECONDS
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            runs = client.read_task_runs(flow_run_filter=this_run)
            if sum(run.state is not None and run.state.is_final() for run in runs) >= n_tasks:
                return
            time.sleep(0.1)


def _where(run_id: str) -> str:
    """The page of a run on the configured server."""
    return f"this run in Prefect: {url_for('flow-run', run_id)}"


def _where_kept(run_id: str, home: Path) -> str:
    """The command that shows a run of the embedded server again."""
    prefect = "prefect" if shutil.which("prefect") else f"{shlex.quote(sys.executable)} -m prefect"
    given = {"PREFECT_HOME": str(home.resolve()), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    if "PREFECT_API_URL" in os.environ:
        given["PREFECT_API_URL"] = "http://127.0.0.1:4200/api"
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
    return (
        f"this run in Prefect: start `DO_NOT_TRACK=1 {settings} {prefect} server start`, "
        f"then open http://127.0.0.1:4200/runs/flow-run/{run_id}"
    )

# ruff: noqa: E402 - Prefect reads its environment when it is imported, so that is set first
"""The flow on a schedule or on demand: served by this process, or deployed to a work pool's workers.

Both need a Prefect API that keeps running. The embedded server of `run_as_flow` ends with its run and
has no scheduler, so a schedule on it would stop unnoticed. A deployment's parameters are the path of
the settings file and whether to resume, nothing else.
"""

from __future__ import annotations

import asyncio
import math
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Self, cast

from flows.files import OutputFile
from flows.prefect.server import QUIET, api_reachable, quieten
from flows.settings import Settings, SettingsError, load_settings
from flows.spending import propose_key

quieten()

from httpx import HTTPStatusError, TransportError
from prefect import get_client
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.types.entrypoint import EntrypointType

from flows.prefect.flow import TAG, crowd_quality_flow
from flows.prefect.task import ledger_limit

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient
    from prefect.deployments.runner import RunnerDeployment

__all__ = ["Schedule", "deploy_campaign", "serve_campaign", "write_prefect_yaml"]

NO_API = (
    "a Prefect API must be configured and answer: start one with `prefect server start` and set "
    "PREFECT_API_URL=http://127.0.0.1:4200/api"
)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, `kill`, the end of the terminal
AWAY = "Prefect's API does not answer; runs that are due begin when it does"
BACK = "Prefect's API answers again"
CANCEL_SECONDS = 4.0  # in which runs end when serving ends; then they are killed
RECORD_SECONDS = 2.0  # in which runs that were not cancelled in time are recorded as crashed
ENDED = "ended with the process that served it"
YEAR_SECONDS = 366 * 86_400
MOST_YEARS = 10  # of an interval: Prefect's dates and durations end
# The environment of a worker's runs; a served run inherits this process's.
RUN_ENVIRONMENT = {name: value for name, value in QUIET.items() if "SERVER" not in name}


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a deployment runs: by cron (in UTC), at an interval in seconds, or on demand only.

    Raises
    ------
    SettingsError
        If both are given, cron is not a five-field cron expression, or the interval is not above 0 or
        longer than `MOST_YEARS`.

    Examples
    --------
    >>> Schedule(cron="0 6 * * *")
    Schedule(cron='0 6 * * *', interval=None)
    """

    cron: str | None = None
    interval: float | None = None

    @property
    def runs_a_year(self) -> float:
        """How often it runs in a year, at most; infinite where that is not known."""
        return math.inf if self.interval is None else math.ceil(YEAR_SECONDS / self.interval)

    def __post_init__(self) -> None:
        if self.cron is not None and self.interval is not None:
            raise SettingsError("give one of --cron and --interval")
        if self.interval is not None and not 0 < self.interval < float("inf"):
            raise SettingsError(f"--interval must be seconds above 0, got {self.interval:g}")
        if self.interval is not None and self.interval > MOST_YEARS * YEAR_SECONDS:
            raise SettingsError(
                f"--interval must be at most {MOST_YEARS} years, {MOST_YEARS * YEAR_SECONDS:,} seconds, got "
                f"{self.interval:g}; leave it out for runs on demand only"
            )
        if self.cron is not None and not _is_cron(self.cron):
            raise SettingsError(
                '--cron must be five fields, minute hour day month weekday, as in "0 6 * * *", got '
                f'"{self.cron}"'
            )


def serve_campaign(
    settings_path: Path, schedule: Schedule, *, name: str | None, print_line: Callable[[str], None]
) -> None:
    """Deploy the flow and run it here, one process per run, until this process is ended.

    Parameters
    ----------
    settings_path
        The settings file.
    schedule
        When to run.
    name
        Name of the deployment; by default the campaign's.
    print_line
        Called with each line that says what is served and how to request a run.

    Raises
    ------
    SettingsError
        If the settings cannot be used, or no Prefect API answers.

    Notes
    -----
    **Guarantees.** (1) Ctrl-C, SIGTERM or the end of the terminal pauses the schedule, cancels the runs
    that go on, and ends this process, in seconds; also where it is in the background and ignores SIGINT.
    (2) The lines are printed when the schedule is on and runs are started. (3) Prefect stores the
    settings' path, never what is in the file. (4) A server that is away for a while does not end this
    process: one line tells that it is away, and one that it is back.

    Examples
    --------
    >>> schedule = Schedule(cron="0 6 * * *")
    >>> serve_campaign(Path("settings.toml"), schedule, name=None, print_line=print)  # doctest: +SKIP
    """
    settings = load_settings(settings_path)
    with temporary_settings({PREFECT_API_URL: _api()}):
        deployment = _deployment(settings_path, settings, schedule, name)
        with get_client(sync_client=True) as client:
            _limit_ledger(client, settings)
            _say_replaced(client, deployment, print_line)
        _propose_key(settings, schedule, print_line)

        def ready() -> None:
            print_line(f"serving {deployment.full_name}; Ctrl-C ends it and pauses its schedule")
            print_line(_how_to_request(deployment.full_name))

        _serve_until_ended(_Serving(deployment, ready, print_line))


def deploy_campaign(
    settings_path: Path,
    schedule: Schedule,
    *,
    pool: str,
    name: str | None,
    print_line: Callable[[str], None],
) -> str:
    """Deploy the flow to a work pool of type process, whose workers have crowdassay installed.

    Parameters
    ----------
    settings_path
        The settings file, at a path that is the same for every worker.
    pool
        Name of the work pool.
    schedule, name, print_line
        As in `serve_campaign`.

    Returns
    -------
    str
        The deployment's full name, for `run_deployment`.

    Raises
    ------
    SettingsError
        If the settings cannot be used, no Prefect API answers, or the pool has no name or is not there.

    Examples
    --------
    >>> where = {"pool": "crowd", "name": None, "print_line": print}
    >>> deploy_campaign(Path("settings.toml"), Schedule(), **where)  # doctest: +SKIP
    'crowdassay/web-2026'
    """
    _check_pool_is_named(pool)
    settings = load_settings(settings_path)
    with temporary_settings({PREFECT_API_URL: _api()}):
        deployment = _deployment(settings_path, settings, schedule, name)
        deployment.job_variables = {"env": RUN_ENVIRONMENT}
        with get_client(sync_client=True) as client:
            _check_pool(client, pool)
            _limit_ledger(client, settings)
            _say_replaced(client, deployment, print_line)
        deployment.apply(work_pool_name=pool)
    _propose_key(settings, schedule, print_line)
    print_line(
        f"deployed {deployment.full_name}; `prefect worker start --pool {shlex.quote(pool)}` runs it"
    )
    print_line(_how_to_request(deployment.full_name))
    return deployment.full_name


def write_prefect_yaml(
    output: Path,
    settings_path: Path,
    schedule: Schedule,
    *,
    pool: str,
    name: str | None,
    force: bool = False,
    print_line: Callable[[str], None],
) -> None:
    """Write a commented prefect.yaml with this deployment, for `prefect deploy --all`.

    Another file is overwritten with `force`, the settings never.

    Raises
    ------
    OutputError
        If the file exists, or is the settings file.
    SettingsError
        If the settings cannot be used, or the pool has no name.

    Examples
    --------
    >>> where = {"pool": "crowd", "name": None, "print_line": print}
    >>> paths = Path("prefect.yaml"), Path("settings.toml")
    >>> write_prefect_yaml(*paths, Schedule(), **where)  # doctest: +SKIP
    """
    _check_pool_is_named(pool)
    settings = load_settings(settings_path)
    written = OutputFile(output, inputs=(settings_path,), force=force)
    template = Template((files("flows.prefect") / "prefect.yaml").read_text(encoding="utf-8"))
    text = template.substitute(
        name=_quoted(name or settings.name),
        campaign=_quoted(settings.name),
        settings=_quoted(str(settings_path.resolve())),
        schedules=_schedules(schedule),
        pool=_quoted(pool),
        env="\n".join(
            f"          {key}: {_quoted(value)}" for key, value in RUN_ENVIRONMENT.items()
        ),
    )
    written.write(lambda aside: aside.write_text(text, encoding="utf-8"))
    _propose_key(settings, schedule, print_line)


def _propose_key(settings: Settings, schedule: Schedule, print_line: Callable[[str], None]) -> None:
    """Print which publication key this schedule and budget allow, or what the settings' own costs."""
    words = propose_key(settings, runs_a_year=schedule.runs_a_year)
    if words is not None:
        print_line(words)


class _Serving(Runner):
    """Prefect's runner of one deployment, which says when it serves, and ends soon when it is asked to.

    Prefect's own handler of SIGTERM does not wait until schedules are paused; and a job in the
    background ignores SIGINT, so that SIGTERM cannot be turned into Ctrl-C. Prefect's own loops print a
    traceback and end serving when the server has not answered three times.
    """

    def __init__(
        self,
        deployment: RunnerDeployment,
        ready: Callable[[], None],
        print_line: Callable[[str], None],
    ) -> None:
        super().__init__(pause_on_shutdown=False)
        self._deployment, self._ready, self._print_line = deployment, ready, print_line
        self._away = False
        self._scheduled: UUID | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked_to_end = False
        self.not_paused: TransportError | None = None

    async def serve(self) -> None:
        """Serve until the task is cancelled; asked to end before it serves, end then."""
        self._scheduled = await self.aadd_deployment(self._deployment)
        try:
            await self.start()
        finally:
            await self._pause()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._ask_on(self._scheduled_run_poller, "_get_and_submit_flow_runs")
        self._ask_on(self._cancelling_observer, "_check_for_cancelled_flow_runs")
        self._task = asyncio.current_task()
        if self._asked_to_end:
            self._cancel()
        else:
            self._ready()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._pause()
        await self._end_runs()
        await super().__aexit__(*exc_info)

    def _ask_on(self, asker: Any, question: str) -> None:
        """Let a loop of Prefect's ask again and again while the server is away, which is said once."""
        ask = getattr(asker, question)

        async def asked(*args: Any, **options: Any) -> None:
            try:
                await ask(*args, **options)
            except (TransportError, HTTPStatusError) as error:
                if isinstance(error, HTTPStatusError) and error.response.status_code < 500:
                    raise
                self._say_away(True)
            else:
                self._say_away(False)

        setattr(asker, question, asked)

    def _say_away(self, away: bool) -> None:
        """Print whether the server is away, if that is new."""
        if away != self._away:
            self._away = away
            self._print_line(AWAY if away else BACK)

    async def cancel_all(self) -> None:
        """Cancel the runs that go on, all at once: Prefect's own waits seconds for each in turn."""
        runs = self._process_manager.flow_run_ids()
        cancelled = map(self._cancellation_manager.cancel_by_id, runs)
        await asyncio.gather(*cancelled, return_exceptions=True)

    async def _end_runs(self) -> None:
        runs = self._process_manager.flow_run_ids()
        try:
            await asyncio.wait_for(self.cancel_all(), CANCEL_SECONDS)
        except TimeoutError:  # in a long call a run heeds no signal
            for run in self._process_manager.flow_run_ids():
                await self._process_manager.kill(run, force=True)
            with suppress(TimeoutError):
                crashed = map(self._record_crashed, runs)
                recorded = asyncio.gather(*crashed, return_exceptions=True)
                await asyncio.wait_for(recorded, RECORD_SECONDS)

    async def _record_crashed(self, run_id: UUID) -> None:
        """Record a run as crashed if its end is not recorded; else Prefect would show it as running."""
        run = await self._client.read_flow_run(run_id)
        if run.state is None or not run.state.is_final():
            await self._state_proposer.propose_crashed(run, ENDED)

    async def _pause(self) -> None:
        """Pause the schedule, once; what goes wrong must not leave runs behind, so it is kept for the end."""
        scheduled, self._scheduled = self._scheduled, None
        if scheduled is not None:
            try:
                async with get_client() as client:
                    await client.pause_deployment(scheduled)
            except TransportError as error:
                self.not_paused = error

    def handle_sigterm(self, *_: object) -> None:
        if not self._asked_to_end:
            self._asked_to_end = True
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def _serve_until_ended(serving: _Serving) -> None:
    """Serve until a signal asks for the end, also before the schedule is on, so that it is not left on."""
    with _handled_by(serving.handle_sigterm), suppress(asyncio.CancelledError):
        asyncio.run(serving.serve())
    if serving.not_paused is not None:
        raise SettingsError(
            "Prefect's API no longer answers; whether the schedule is paused there is not known"
        ) from serving.not_paused


@contextmanager
def _handled_by(handler: Callable[..., None]) -> Iterator[None]:
    """Let the signals that ask for an end call `handler` during the block, where they are not ignored."""
    former = {number: signal.getsignal(number) for number in ENDING}
    for number, before in former.items():
        if before is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


def _deployment(
    settings_path: Path, settings: Settings, schedule: Schedule, name: str | None
) -> RunnerDeployment:
    """Return what Prefect stores: the flow's import path, the settings' path, and when to run."""
    cron = None if schedule.cron is None else Cron(schedule.cron, timezone="UTC")
    when: dict[str, Any] = {"schedule": cron, "interval": schedule.interval}
    deployment = crowd_quality_flow.to_deployment(
        name or settings.name,
        parameters={"settings_path": str(settings_path.resolve()), "resume": False},
        tags=[TAG, settings.name],
        entrypoint_type=EntrypointType.MODULE_PATH,
        **{key: value for key, value in when.items() if value is not None},
    )
    return cast("RunnerDeployment", deployment)


def _api() -> str:
    url = api_reachable()
    if url is None:
        raise SettingsError(NO_API)
    return url


def _limit_ledger(client: SyncPrefectClient, settings: Settings) -> None:
    """Limit the data set's ledger to one run at a time, as `prefect_step` describes."""
    client.upsert_global_concurrency_limit_by_name(ledger_limit(settings.name), 1)


def _say_replaced(
    client: SyncPrefectClient, deployment: RunnerDeployment, print_line: Callable[[str], None]
) -> None:
    """Print which other settings the deployment of this name has run, as it runs them no more."""
    with suppress(ObjectNotFound):
        former = client.read_deployment_by_name(deployment.full_name).parameters
        path = former.get("settings_path")
        if path not in (None, deployment.parameters["settings_path"]):
            print_line(
                f"{deployment.full_name} ran {path} and runs it no more; --name gives each its own deployment"
            )


def _check_pool_is_named(pool: str) -> None:
    """Raise SettingsError for an empty name, under which Prefect answers for all pools."""
    if not pool.strip():
        raise SettingsError(f"--pool must name a work pool, got {pool!r}")


def _check_pool(client: SyncPrefectClient, pool: str) -> None:
    try:
        found = client.read_work_pool(pool)
    except ObjectNotFound:
        raise SettingsError(
            f"there is no work pool {pool!r}; `prefect work-pool create {shlex.quote(pool)} --type "
            "process` makes it"
        ) from None
    if found.type != "process":
        raise SettingsError(f"--pool must be of type process, got {pool!r} of type {found.type}")


def _how_to_request(full_name: str) -> str:
    return (
        f"a run on demand: `prefect deployment run {shlex.quote(full_name)}`, or from a program "
        f'prefect.deployments.run_deployment("{full_name}")'
    )


def _is_cron(text: str) -> bool:
    """Return whether a text is a cron expression of five fields, as Prefect reads it."""
    try:
        Cron(text)
    except ValueError:
        return False
    return len(text.split()) == 5


def _schedules(schedule: Schedule) -> str:
    """Return the YAML list of schedules, on the line of its key."""
    if schedule.cron is not None:
        return f"[{{cron: {_quoted(schedule.cron)}, timezone: UTC}}]"
    return "[]" if schedule.interval is None else f"[{{interval: {_number(schedule.interval)}}}]"


def _number(value: float) -> str:
    """Return a number in digits, exactly; with an exponent and no dot it would be a text in YAML.

    >>> _number(1234567.0), _number(0.00001)
    ('1234567', '0.00001')
    """
    return f"{Decimal(repr(value)).normalize():f}"


def _quoted(text: str) -> str:
    """Return a YAML string in single quotes."""
    return "'" + text.replace("'", "''") + "'"

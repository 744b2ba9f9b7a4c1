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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, cast

from flows.prefect.server import QUIET, api_reachable, quieten
from flows.settings import Settings, SettingsError, load_settings
from flows.spending import propose_key

quieten()

from prefect import get_client
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.types.entrypoint import EntrypointType

from flows.prefect.flow import TAG, crowd_quality_flow
from flows.prefect.task import ledger_limit

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.deployments.runner import RunnerDeployment

__all__ = ["Schedule", "deploy_campaign", "serve_campaign", "write_prefect_yaml"]

NO_API = (
    "a Prefect API must be configured and answer: start one with `prefect server start` and set "
    "PREFECT_API_URL=http://127.0.0.1:4200/api"
)
YEAR_SECONDS = 366 * 86_400
# The environment of a worker's runs; a served run inherits this process's.
RUN_ENVIRONMENT = {name: value for name, value in QUIET.items() if "SERVER" not in name}


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a deployment runs: by cron (in UTC), at an interval in seconds, or on demand only.

    Raises
    ------
    SettingsError
        If both are given, cron is not a five-field cron expression, or the interval is not above 0.

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
    **Guarantees.** The schedule is paused when this process ends, by Ctrl-C or SIGTERM. Prefect
    stores the settings' path, never what is in the file.

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
        _propose_key(settings, schedule, print_line)
        print_line(f"serving {deployment.full_name}; Ctrl-C ends it and pauses its schedule")
        print_line(_how_to_request(deployment.full_name))
        runner = Runner()
        runner.add_deployment(deployment)
        _until_ended(runner)


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
        If the settings cannot be used, no Prefect API answers, or there is no such pool.

    Examples
    --------
    >>> where = {"pool": "crowd", "name": None, "print_line": print}
    >>> deploy_campaign(Path("settings.toml"), Schedule(), **where)  # doctest: +SKIP
    'crowdassay/web-2026'
    """
    settings = load_settings(settings_path)
    with temporary_settings({PREFECT_API_URL: _api()}):
        deployment = _deployment(settings_path, settings, schedule, name)
        deployment.job_variables = {"env": RUN_ENVIRONMENT}
        with get_client(sync_client=True) as client:
            _check_pool(client, pool)
            _limit_ledger(client, settings)
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
    print_line: Callable[[str], None],
) -> None:
    """Write a commented prefect.yaml with this deployment, for `prefect deploy --all`.

    Raises
    ------
    SettingsError
        If the settings cannot be used, or the file exists.

    Examples
    --------
    >>> where = {"pool": "crowd", "name": None, "print_line": print}
    >>> paths = Path("prefect.yaml"), Path("settings.toml")
    >>> write_prefect_yaml(*paths, Schedule(), **where)  # doctest: +SKIP
    """
    settings = load_settings(settings_path)
    if output.exists():
        raise SettingsError(f"{output} exists, and is not overwritten")
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
    output.write_text(text, encoding="utf-8")
    _propose_key(settings, schedule, print_line)


def _propose_key(settings: Settings, schedule: Schedule, print_line: Callable[[str], None]) -> None:
    """Print which publication key this schedule and budget allow, or what the settings' own costs."""
    words = propose_key(settings, runs_a_year=schedule.runs_a_year)
    if words is not None:
        print_line(words)


def _until_ended(runner: Runner) -> None:
    """Serve until Ctrl-C or SIGTERM; both end it in the same way, because Prefect's SIGTERM does not wait."""

    def as_ctrl_c(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    runner.handle_sigterm = as_ctrl_c  # type: ignore[method-assign]  # set when it starts
    with suppress(KeyboardInterrupt):
        asyncio.run(runner.start())


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
    return "[]" if schedule.interval is None else f"[{{interval: {schedule.interval:g}}}]"


def _quoted(text: str) -> str:
    """Return a YAML string in single quotes."""
    return "'" + text.replace("'", "''") + "'"

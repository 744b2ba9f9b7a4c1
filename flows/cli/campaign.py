"""Commands that run a campaign: run, demo, simulate, report; on a schedule: serve, deploy."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.root import (
    AsJson,
    Force,
    Quiet,
    app,
    console,
    counted,
    mistakes,
    print_line,
    refuse_dropped,
    refuse_unwritten,
    waiting_for,
)

if TYPE_CHECKING:
    from rich.console import Console

    from flows.pipeline import RunResult
    from flows.settings import Settings

__all__ = ["demo", "deploy", "report", "run", "serve", "simulate"]

SettingsFile = Annotated[Path, typer.Argument(help="settings file (TOML)")]
Cron = Annotated[str | None, typer.Option(help='when to run, in UTC, e.g. "0 6 * * *"')]
Interval = Annotated[float | None, typer.Option(help="seconds from one run to the next")]
Name = Annotated[str | None, typer.Option(help="the deployment's [default: the campaign's]")]
SAMPLE = "sample-campaign"  # as its settings name it
OF_CROWD = ("workers", "labels_per_task", "classes", "ordered", "several", "strategy")
"""What `simulate` takes for a crowd alone, beside its --tasks."""
SAID = {
    "answers_per_task": "--labels-per-task", "labels_per_task": "--labels-per-task",
    "max_labels": "--several", "n_tasks": "--tasks", "n_workers": "--workers", "others": "--strategy",
}  # fmt: skip
"""What sentences about a crowd's numbers call them, and the options that give these."""


@app.command(epilog="Example: `crowdassay run settings.toml --resume`")
def run(
    settings: SettingsFile,
    resume: Annotated[bool, typer.Option(help="go on in the newest run that did not end")] = False,
    again: Annotated[bool, typer.Option(help="run though nothing is new since the last")] = False,
    prefect: Annotated[
        bool | None,
        typer.Option(
            help="force the Prefect flow or the plain run, the last of both given [default: a flow where an "
            "API is configured]"
        ),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run the pipeline on one campaign's settings."""
    with mistakes():
        how = {"resume": resume, "again": again, "as_json": json_}
        _run(settings, prefect=prefect, embedded=bool(prefect), **how)


@app.command(epilog="Example: `crowdassay demo --folder demo`")
def demo(
    folder: Annotated[Path, typer.Option(help="where the sample campaign is copied to")] = Path(
        "demo"
    ),
    prefect: Annotated[bool, typer.Option(help="run as a Prefect flow, or in process")] = True,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run the whole pipeline on the sample campaign."""
    from flows.simulate import copy_sample  # NumPy, for this command only

    with mistakes():
        _refuse_other_campaign(folder)
        settings_path = copy_sample(folder)
        _run(settings_path, prefect=prefect, embedded=True, resume=False, again=True, as_json=json_)


@app.command(
    epilog="Example: `crowdassay simulate --tasks 500 --strategy sybils=6 --output crowd`, or from a "
    "script `crowdassay simulate sybils.g --output crowd`"
)
def simulate(
    context: typer.Context,
    output: Annotated[Path, typer.Option(help="folder to write the campaign into")],
    script: Annotated[
        Path | None,
        typer.Argument(
            help="a script of the population simulator, or one that comes along: sybils.g"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the simulation")] = 1,
    tasks: Annotated[int | None, typer.Option(min=1, help="a crowd of so many tasks")] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="its workers; adversaries who answer alone (random, malicious, ...) are among them, those "
            "who answer alike (sybils, ...), and all with --several, come beside them",
        ),
    ] = 40,
    labels_per_task: Annotated[int, typer.Option(min=1, help="honest labels of a task")] = 5,
    classes: Annotated[int, typer.Option(min=2, help="its classes")] = 2,
    ordered: Annotated[
        bool,
        typer.Option("--ordered", help="the classes are grades: 3 or more, near misses likelier"),
    ] = False,
    several: Annotated[
        int | None, typer.Option(min=1, help="up to so many classes hold for a task at once")
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="adversaries in it: sybils=6, with --several spammer=6, with --ordered shifted=6; may be "
            "repeated"
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Simulate labels whose truth is known: a campaign, with --tasks a crowd, or what a script says."""
    from flows.settings import SettingsError  # pydantic, for this command only
    from flows.simulate import (  # NumPy
        strategies_of,
        write_campaign,
        write_crowd,
        write_multilabels,
        write_scripted,
    )

    with mistakes():
        if script is not None:
            refuse_dropped(
                context, ("tasks", *OF_CROWD), "is for a crowd without a script; leave it out"
            )
        if tasks is None:
            refuse_dropped(context, OF_CROWD, "is for a crowd: give its size as --tasks")
        if several is not None:
            why = "is for a crowd of one class a task, and --several of more; leave one of them out"
            refuse_dropped(context, ("ordered",), why)
        if script is not None:
            with waiting_for("the script followed"):
                record, lines = write_scripted(output, script, seed=seed, force=force)
            for line in lines:
                print_line(line)
            n_labels = len(record.label)
        elif tasks is None:
            n_labels = len(write_campaign(output, seed=seed, force=force).label)
        else:
            size: dict[str, Any] = {"n_tasks": tasks, "n_workers": workers, "n_classes": classes}
            try:
                kinds = strategies_of(strategy or ())
                with waiting_for("a crowd simulated"):
                    if several is not None:
                        n_labels = write_multilabels(
                            output, **size, answers_per_task=labels_per_task, max_labels=several,
                            kinds=kinds, seed=seed, force=force,
                        ).table.n_answers  # fmt: skip
                    else:
                        n_labels = len(write_crowd(
                            output, **size, labels_per_task=labels_per_task, strategies=kinds, seed=seed,
                            ordered=ordered, force=force,
                        ).label)  # fmt: skip
            except ValueError as error:  # a size or a strategy, whose sentence says which
                raise SettingsError(_by_options(str(error))) from None
        console().print(f"{counted(n_labels, 'label')} written to {output}", soft_wrap=True)


@app.command(epilog="Example: `crowdassay report runs/20261121T094500Z-campaign`")
def report(
    run_folder: Annotated[Path, typer.Argument(help="folder of a finished run")],
    show_worker_ids: Annotated[
        bool | None,
        typer.Option(
            help="print worker ids as they are, or not [default: as the run's settings say]"
        ),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(help="write this worker's page instead, by id or as the report calls her"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Build a finished run's reports again, or one worker's page, and say where they lie."""
    from jinja2 import UndefinedError  # the pages' libraries, for this command only

    from flows.report import write_reports, write_worker_page
    from flows.run import refuse_unfinished

    with mistakes():
        refuse_unfinished(run_folder, "spend.json")
        by_id = _names_workers(run_folder) if show_worker_ids is None else show_worker_ids
        if worker is not None:
            page = write_worker_page(run_folder, worker, show_worker_ids=by_id)
            print_line(f"worker  {page}")
            return
        try:
            with waiting_for("reports"):
                write_reports(run_folder, show_worker_ids=by_id)
        except (FileNotFoundError, KeyError, UndefinedError) as lacking:
            raise FileNotFoundError(_of_another_version(run_folder, lacking)) from lacking
        console().print(f"report  {run_folder / 'report.html'}", soft_wrap=True)


@app.command(epilog='Example: `crowdassay serve settings.toml --cron "0 6 * * *"`')
def serve(
    settings: SettingsFile,
    cron: Cron = None,
    interval: Interval = None,
    name: Name = None,
    quiet: Quiet = False,
) -> None:
    """Run a campaign on a schedule and on demand, in this process, with a Prefect server that stays."""
    with mistakes():
        with waiting_for("Prefect"):
            from flows.prefect import Schedule, serve_campaign  # seconds, for this command only

        serve_campaign(settings, Schedule(cron, interval), name=name, print_line=print_line)


@app.command(epilog='Example: `crowdassay deploy settings.toml --pool crowd --cron "0 6 * * *"`')
def deploy(
    context: typer.Context,
    settings: SettingsFile,
    pool: Annotated[str, typer.Option(help="work pool of type process")],
    cron: Cron = None,
    interval: Interval = None,
    name: Name = None,
    yaml: Annotated[
        Path | None, typer.Option(help="write this prefect.yaml instead, with comments")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Deploy a campaign to a Prefect work pool, whose workers run it on a schedule and on demand."""
    with mistakes():
        refuse_unwritten(context, {"--yaml": yaml})
        with waiting_for("Prefect"):
            from flows.prefect import Schedule, deploy_campaign, write_prefect_yaml  # seconds

        schedule = Schedule(cron, interval)
        where: dict[str, Any] = {"pool": pool, "name": name, "print_line": print_line}
        if yaml is None:
            deploy_campaign(settings, schedule, **where)
            return
        write_prefect_yaml(yaml, settings, schedule, force=force, **where)
        print_line(f"{yaml} is written; `prefect deploy --all` beside it deploys it")


def _refuse_other_campaign(folder: Path) -> None:
    """Raise SettingsError for a folder with a campaign of its own, whose budget the demo would spend."""
    from flows.settings import SettingsError, load_settings  # pydantic, for this command only

    path = folder / "settings.toml"
    if path.is_file() and (name := load_settings(path).name) != SAMPLE:
        raise SettingsError(
            f"--folder must be for the sample campaign, got {folder}, where {name!r} lies: name a new folder "
            f"or run that campaign by crowdassay run {shlex.quote(str(path))}"
        )


def _by_options(sentence: str) -> str:
    """Return a sentence about a crowd's numbers with the options that give them.

    >>> _by_options("max_labels must be from 1 to 3 classes, got max_labels=5")
    '--several must be from 1 to 3 classes, got --several=5'
    """
    return re.sub(rf"\b({'|'.join(SAID)})\b", lambda one: SAID[one[0]], sentence)


def _names_workers(folder: Path) -> bool:
    """Return whether a finished run's own report calls workers by their ids."""
    from flows.tables import read_json  # for these commands only

    settings = read_json(folder / "manifest.json")["settings"]
    return bool(settings.get("report", {}).get("worker_names"))


def _of_another_version(folder: Path, lacking: Exception) -> str:
    """Return why a finished run has no report: another version wrote it, without data that the pages read."""
    from importlib.metadata import version  # for this sentence only

    from flows.tables import read_json

    what = Path(lacking.filename).name if isinstance(lacking, OSError) else lacking
    made = read_json(folder / "manifest.json")["versions"]
    return (
        f"{folder} was written by other code (crowdassay {made['crowdassay']}, this is "
        f"{version('crowdassay')}) and lacks what the reports show, {what}; its own report.html "
        "stays as it is, and `crowdassay run SETTINGS --again` makes a run with this code"
    )


def _run(
    path: Path, *, prefect: bool | None, embedded: bool, resume: bool, again: bool, as_json: bool
) -> None:
    """Run as a flow if asked to or if an API is configured, else in process; print the result."""
    from flows.pipeline import nothing_new  # the rooms, where there is something to run
    from flows.settings import load_settings
    from flows.spending import check_budget

    settings = load_settings(path)
    terminal = console(quiet=as_json)
    with waiting_for("a look at what is new"):
        result = None if again else nothing_new(settings, resume=resume)
        left = None if result is not None else _of_unfinished(path, settings, resume=resume)
    if left is not None:
        terminal.print(left, soft_wrap=True)
    if result is None:
        if short := check_budget(settings):
            terminal.print(short, soft_wrap=True)
        result = _result(
            path, settings, terminal, prefect=prefect, embedded=embedded, resume=resume
        )
    if as_json:
        print(json.dumps(_as_json(result), indent=1))
        return
    if result.unchanged:
        terminal.print(
            "nothing is new: inputs, settings and version are those of "
            f"{result.folder}; --again runs nevertheless",
            soft_wrap=True,
        )
        return
    from flows.terminal import print_summary  # the rooms, where a run was made

    print_summary(terminal, result)


def _result(
    path: Path,
    settings: Settings,
    terminal: Console,
    *,
    prefect: bool | None,
    embedded: bool,
    resume: bool,
) -> RunResult:
    """Make the run; it is known that something is to be done."""
    from flows.pipeline import run_pipeline  # the rooms, where there is something to run
    from flows.terminal import console_step

    step = console_step(terminal)
    if prefect is not False:
        from flows.prefect import api_reachable  # for a flow only

        if embedded or api_reachable() is not None:
            from flows.prefect import run_as_flow  # Prefect takes seconds

            def say(line: str) -> None:
                terminal.print(line, soft_wrap=True)

            if api_reachable() is None:
                terminal.print("starting a Prefect server that ends with this run", style="dim")
            try:
                settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                from flows.settings import SettingsError  # pydantic, which is loaded by now

                raise SettingsError(
                    f"state must be a folder that can be made and written, got {settings.state}: "
                    f"{error.strerror}"
                ) from None
            return run_as_flow(
                path,
                home=settings.state / "prefect",
                print_line=say,
                step=step,
                resume=resume,
                again=True,
            )
        terminal.print(
            "no Prefect API is configured and reachable: running in process", style="dim"
        )
    return run_pipeline(settings, step=step, resume=resume, again=True)


def _of_unfinished(path: Path, settings: Settings, *, resume: bool) -> str | None:
    """Return a sentence on an unfinished run: `--resume` would go on in it, or why it would not."""
    from flows.run import (  # the rooms
        find_unfinished,
        has_digest_key,
        identity_of,
        unfinished_runs,
        why_begun_anew,
    )

    if resume:
        why = why_begun_anew(settings)
        return None if why is None else f"--resume begins a new run: {why}"
    if not unfinished_runs(settings) or not has_digest_key(settings):
        return None
    found = find_unfinished(settings, identity_of(settings))
    if found is None:
        return None
    go_on = f"crowdassay run {shlex.quote(str(path))} --resume"
    return f"an earlier run did not end ({found.folder}); {go_on} goes on from there"


def _as_json(result: RunResult) -> dict[str, object]:
    stages = [{"stage": s.stage, "line": s.line, "seconds": s.seconds} for s in result.stages]
    return {
        "folder": str(result.folder),
        "report": str(result.report),
        "unchanged": result.unchanged,
        "stages": stages,
    }

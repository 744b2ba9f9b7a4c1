"""The command `crowdassay`. Heavy imports happen inside the commands, so that `--help` stays quick."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from flows.pipeline import RunResult
    from flows.settings import Settings
    from quality import CrowdLabels

__all__ = ["app", "main"]

REPEATED = "what to do with a worker's repeated labels of a task"
MISTAKE = 2  # exit code for what the user can mend
SHOWN = 15

app = typer.Typer(
    name="crowdassay",
    help="Assays the crowd: raw crowd labels in; results that can be trusted, released and reused out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

LabelsFile = Annotated[Path, typer.Argument(help="table with the columns worker, task, label")]
Output = Annotated[Path | None, typer.Option(help="write all rows to this CSV")]


class Penalty(StrEnum):
    """Which disagreement penalty."""

    soft = "soft"
    hard = "hard"


class Duplicates(StrEnum):
    """Which of a worker's labels of one task stands."""

    error = "error"
    first = "first"
    last = "last"


class Aggregator(StrEnum):
    """How labels become one per task."""

    dawid_skene = "dawid_skene"
    hierarchical_dawid_skene = "hierarchical_dawid_skene"
    majority_vote = "majority_vote"
    one_coin = "one_coin"


@app.command(epilog="Example: `crowdassay demo --folder demo`")
def demo(
    folder: Annotated[Path, typer.Option(help="where the sample campaign is copied to")] = Path(
        "demo"
    ),
    prefect: Annotated[bool, typer.Option(help="run as a Prefect flow, or in process")] = True,
    json_: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Run the whole pipeline on the sample campaign."""
    from flows.sample import copy_sample

    with _mistakes():
        settings_path = copy_sample(folder)
        _run(settings_path, prefect=prefect, embedded=True, resume=False, as_json=json_)


@app.command(epilog="Example: `crowdassay run settings.toml --resume`")
def run(
    settings: Annotated[Path, typer.Argument(help="settings file (TOML)")],
    resume: Annotated[bool, typer.Option(help="go on in the newest run that died")] = False,
    prefect: Annotated[
        bool | None,
        typer.Option(
            help="force the Prefect flow or the plain run [default: a flow where an API is configured]"
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Run the pipeline on one campaign's settings."""
    with _mistakes():
        _run(settings, prefect=prefect, embedded=bool(prefect), resume=resume, as_json=json_)


@app.command(epilog="Example: `crowdassay workers labels.csv --fraction 0.1`")
def workers(
    labels: LabelsFile,
    penalty: Annotated[Penalty, typer.Option(help="penalty the filter removes by")] = Penalty.soft,
    fraction: Annotated[
        float, typer.Option(min=0, max=1, help="share of the workers to remove")
    ] = 0.15,
    duplicates: Annotated[Duplicates, typer.Option(help=REPEATED)] = Duplicates.error,
    output: Output = None,
) -> None:
    """Rank workers by reputation and say whom to remove, and why."""
    from flows.answers import worker_rows

    with _mistakes():
        header, rows = worker_rows(
            _read(labels, duplicates), penalty=penalty.value, fraction=fraction
        )
        _show("Workers: whom to remove, then by reputation, least first", header, rows, output)


@app.command(epilog="Example: `crowdassay aggregate labels.csv --output consensus.csv`")
def aggregate(
    labels: LabelsFile,
    aggregator: Annotated[
        Aggregator, typer.Option(help="aggregation method")
    ] = Aggregator.dawid_skene,
    duplicates: Annotated[Duplicates, typer.Option(help=REPEATED)] = Duplicates.error,
    output: Output = None,
) -> None:
    """Turn crowd labels into one consensus label per task."""
    from flows.answers import consensus_rows

    with _mistakes():
        header, rows = consensus_rows(_read(labels, duplicates), aggregator=aggregator.value)
        _show("Consensus labels", header, rows, output)


@app.command(epilog="Example: `crowdassay simulate --seed 7 --output campaign`")
def simulate(
    output: Annotated[Path, typer.Option(help="folder to write the campaign into")],
    seed: Annotated[int, typer.Option(min=0, help="seed of the simulation")] = 1,
) -> None:
    """Simulate a campaign whose truth is known: labels, tasks, gold, settings, truth."""
    from flows.simulate import write_campaign

    with _mistakes():
        campaign = write_campaign(output, seed=seed)
        _console().print(f"{len(campaign.label):,} labels written to {output}", soft_wrap=True)


@app.command(epilog="Example: `crowdassay budget state`")
def budget(
    state: Annotated[Path, typer.Argument(help="state folder, the one with ledger.sqlite")] = Path(
        "state"
    ),
    raise_to: Annotated[
        float | None,
        typer.Option(help="new epsilon of a data set's budget; the old one stays on record"),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="the data set whose budget is raised")] = None,
    json_: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Show what each data set's privacy budget is, what it was spent on, and what is left."""
    from flows.accounts import read_statements

    with _mistakes():
        statements = read_statements(state, dataset=dataset, raise_to=raise_to)
        if json_:
            print(json.dumps(statements, indent=1))
            return
        for found in statements:
            _print_statement(found)


@app.command(epilog="Example: `crowdassay report runs/20261121T094500Z-campaign`")
def report(
    run_folder: Annotated[Path, typer.Argument(help="folder of a finished run")],
    show_worker_ids: Annotated[bool, typer.Option(help="print worker ids as they are")] = False,
) -> None:
    """Build a finished run's reports again and say where they lie."""
    from flows.report import write_reports

    with _mistakes():
        if not (run_folder / "spend.json").is_file():
            raise FileNotFoundError(
                f"{run_folder} must be the folder of a finished run; the file spend.json is not in it"
            )
        write_reports(run_folder, show_worker_ids=show_worker_ids)
        _console().print(f"report  {run_folder / 'report.html'}", soft_wrap=True)


def main() -> None:
    """Run the command line, as `python -m flows.cli` does."""
    app()


def _run(path: Path, *, prefect: bool | None, embedded: bool, resume: bool, as_json: bool) -> None:
    """Run as a flow where that is asked for or an API is configured, else in process; print what it found."""
    from flows.settings import load_settings

    settings = load_settings(path)
    console = _console(quiet=as_json)
    _tell_unfinished(console, settings, resume=resume)
    result = _result(path, settings, console, prefect=prefect, embedded=embedded, resume=resume)
    if as_json:
        print(json.dumps(_as_json(result), indent=1))
        return
    from flows.terminal import print_summary

    print_summary(console, result)


def _result(
    path: Path,
    settings: Settings,
    console: Console,
    *,
    prefect: bool | None,
    embedded: bool,
    resume: bool,
) -> RunResult:
    from flows.pipeline import run_pipeline
    from flows.terminal import console_step

    step = console_step(console)
    if prefect is not False:
        from flows.prefect_server import api_reachable

        if embedded or api_reachable() is not None:
            from flows.prefect_flow import run_as_flow

            def tell(line: str) -> None:
                console.print(line, soft_wrap=True)

            if api_reachable() is None:
                console.print("starting a Prefect server that ends with this run", style="dim")
            settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            return run_as_flow(
                path, home=settings.state / "prefect", tell=tell, step=step, resume=resume
            )
        console.print("no Prefect API is configured and reachable: running in process", style="dim")
    return run_pipeline(settings, step=step, resume=resume)


def _tell_unfinished(console: Console, settings: Settings, *, resume: bool) -> None:
    from flows.run_store import unfinished_runs

    left = unfinished_runs(settings)
    if left and not resume:
        console.print(
            f"an earlier run did not end ({left[0]}); --resume goes on from there", soft_wrap=True
        )


def _as_json(result: RunResult) -> dict[str, object]:
    stages = [{"stage": s.stage, "line": s.line, "seconds": s.seconds} for s in result.stages]
    return {"folder": str(result.folder), "report": str(result.report), "stages": stages}


def _read(path: Path, duplicates: Duplicates) -> CrowdLabels:
    from flows.tables import read_labels

    return read_labels(path, classes=None, duplicates=duplicates.value, known_tasks=None)


def _show(title: str, header: list[str], rows: list[list[str]], output: Path | None) -> None:
    """Print the first rows, and write all of them where asked."""
    import csv

    from flows.listing import print_rows

    shown = [[*row[:-1], row[-1].partition(":")[0]] for row in rows[:SHOWN]]
    print_rows(_console(), title, header, shown)
    if len(rows) > SHOWN and output is None:
        _console().print(
            f"… and {len(rows) - SHOWN:,} more; --output FILE writes them all", style="dim"
        )
    if output is not None:
        with output.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])


def _print_statement(found: dict[str, Any]) -> None:
    from flows.listing import print_rows

    rows = [
        [str(e["entry"]), e["time"], e["what"], e["cell"] or "-", f"{e['epsilon']:g}"]
        for e in found["entries"]
    ]
    title = (
        f"{found['dataset']}: epsilon {found['spent']['epsilon']:g} of {found['budget']['epsilon']:g} spent, "
        f"{found['left']['epsilon']:g} left (unit: {found['unit']})"
    )
    print_rows(_console(), title, ["entry", "time", "what", "cell", "epsilon"], rows)
    _console().print(
        "cells of one partition compose in parallel: the dearest cell counts", style="dim"
    )


def _console(*, quiet: bool = False) -> Console:
    from rich.console import Console

    return Console(quiet=quiet, highlight=False)


@contextmanager
def _mistakes() -> Iterator[None]:
    """Turn a user's mistake into one sentence on stderr and exit code 2; nothing else is caught."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        from flows.mistakes import MISTAKES, sentence  # the rooms are imported for a mistake only

        if not isinstance(error, MISTAKES):
            raise
        print(f"crowdassay: {sentence(error)}", file=sys.stderr)
        raise typer.Exit(MISTAKE) from None


if __name__ == "__main__":
    main()

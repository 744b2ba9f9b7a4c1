"""What the terminal shows: a line per stage, the closing table, tables of text, and mistakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from flows.pipeline import RunResult, Stage, Step, run_stage
from flows.run.store import Run
from flows.settings import EngineError, SettingsError
from flows.tables import TableError
from learners import ConvergenceError
from privacy import BudgetError, LedgerError, UnitError
from quality import LabelError

__all__ = ["MISTAKES", "console_step", "print_rows", "print_summary", "sentence"]


def print_rows(
    console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table of text under a title; a column of numbers is flush right, and no cell is cut off."""
    console.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for j, name in enumerate(header):
        numeric = all(row[j].replace(".", "", 1).isdigit() for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


MISTAKES = (
    BudgetError,
    ConvergenceError,
    EngineError,
    FileNotFoundError,
    LabelError,
    LedgerError,
    PermissionError,
    SettingsError,
    TableError,
    UnitError,
)


def sentence(error: Exception) -> str:
    """Return what went wrong and how to go on, for the terminal."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, BudgetError) or "change_budget" in str(error):
        return f"{error} (crowdassay budget STATE --dataset NAME --raise-to EPSILON)"
    return str(error)


NAME_WIDTH = 20
Json = dict[str, Any]


def console_step(console: Console) -> Step:
    """Return a step that runs a stage with a progress bar, and prints the stage's line at its end."""

    def step(stage: Stage, run: Run) -> str:
        name = stage.__name__.replace("_", " ")
        begin = time.perf_counter()
        columns = (SpinnerColumn(), "{task.description}", BarColumn(), TimeElapsedColumn())
        with Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as bars:
            line = run_stage(stage, replace(run, progress=_bar(bars, f"{name} …")))
        seconds = f"{time.perf_counter() - begin:6.1f} s"
        shown = Text.assemble((f"{name:<{NAME_WIDTH}}", "bold"), (seconds, "dim"), "  ", line)
        console.print(shown, soft_wrap=True)
        return line

    return step


def _bar(bars: Progress, name: str) -> Callable[[str, int, int], None]:
    """Return a callback that draws the progress of long work; before its first call the bar is indefinite."""
    bar = bars.add_task(name, total=None)

    def draw(what: str, done: int, total: int) -> None:
        bars.update(bar, description=f"{name} {what}", completed=done, total=total)

    return draw


def print_summary(console: Console, result: RunResult) -> None:
    """The closing table: what was found, what it cost, how far to believe it; and where the report lies."""
    run = Run(result.folder, None)  # type: ignore[arg-type]  # read only: settings are not needed
    table = Table(title="What the run found", title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column()
    for name, sentence in _verdicts(run):
        table.add_row(name, Text(sentence))
    console.print()
    console.print(table)
    console.print(Text.assemble(("report  ", "bold"), str(_short(result.report))), soft_wrap=True)


def _verdicts(run: Run) -> list[tuple[str, str]]:
    """One sentence for each question a data lead asks."""
    crowd, consensus = run.read_json("quality.json"), run.read_json("consensus.json")
    answers = [
        ("crowd", _crowd(crowd)),
        ("consensus", _consensus(consensus)),
    ]
    for name, file, say in (
        ("proportions", "proportions.json", _proportions),
        ("class ratios", "class_ratios.json", _ratios),
        ("model", "model.json", _model),
        ("holdout", "gate.json", _gate),
        ("error bound", "bounds.json", _bound),
        ("privacy", "spend.json", _spend),
    ):
        found = run.read_json(file)
        answers.append((name, f"skipped: {found['skipped']}" if "skipped" in found else say(found)))
    return answers


def _crowd(found: Json) -> str:
    without = (
        f"{_alpha(found['alpha_kept'])} without the {found['n_removed']:,} removed"
        if found["n_removed"]
        else "nobody was removed"
    )
    return f"agreement alpha {_alpha(found['alpha'])} (1: all agree, 0: as by chance), {without}"


def _alpha(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _consensus(found: Json) -> str:
    gold = found["gold"]
    checked = (
        "no gold tasks to check against"
        if gold is None
        else (
            f"{gold['accuracy']:.1%} right on {gold['n']:,} gold tasks "
            f"({gold['low']:.1%} to {gold['high']:.1%}; with all workers {gold['unfiltered']:.1%}, "
            f"majority vote of all {gold['majority_vote']:.1%})"
        )
    )
    return f"mean confidence {found['mean_confidence']:.3f}, {checked}"


def _proportions(found: Json) -> str:
    return (
        f"{found['mechanism']} at epsilon {found['epsilon']:g}{_planned(found)} per "
        f"{found['unit']}, each count within ±{found['half_width_labels']:g} labels at {found['level']:.0%}"
    )


def _planned(found: Json) -> str:
    """How many releases the price is for, where there are several."""
    return f" for all {found['n_planned']} releases" if "n_planned" in found else ""


def _ratios(found: Json) -> str:
    return f"cross-validated L1 error {found['cross_validated_l1']:.3f}, intervals at {found['level']:.0%}"


def _model(found: Json) -> str:
    seen = found["validation"]
    return (
        f"{seen['private']:.1%} on {seen['n']:,} validation tasks; {seen['non_private']:.1%} without "
        f"privacy, {seen['majority_class']:.1%} for the commonest class"
    )


def _gate(found: Json) -> str:
    value = "no answer" if found["value"] is None else f"answer {found['value']:.1%}"
    return (
        f"{found['status']}, {value}; {found['budget_left']} of {found['budget']} refutations left"
    )


def _bound(found: Json) -> str:
    best = next(bound for bound in found["bounds"] if bound["name"] == found["least"])
    return (
        f"at most {best['value']:.1%} of new tasks judged unlike the consensus, with "
        f"{found['level']:.0%} confidence ({best['name']})"
    )


def _spend(found: Json) -> str:
    return (
        f"epsilon {found['spent']['epsilon']:g} of {found['budget']['epsilon']:g} spent, "
        f"{found['left']['epsilon']:g} left (unit: {found['unit']})"
    )


def _short(path: Path) -> Path:
    """The path as seen from here, where that is shorter."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

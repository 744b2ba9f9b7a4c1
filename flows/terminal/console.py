"""What the terminal shows: a line per stage, the closing table, tables of text, and mistakes."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.files import OutputError
from flows.pipeline import RunResult, Stage, Step, run_stage
from flows.run import Run
from flows.settings import EngineError, SettingsError
from flows.stages import STAGES
from flows.tables import TableError
from flows.terminal.progress import waiting
from flows.terminal.texts import printable
from learners import ConvergenceError
from privacy import BudgetError, LedgerError, UnitError
from quality import LabelError

if TYPE_CHECKING:
    from quality import Progress

__all__ = [
    "both", "console_step", "is_mistake", "noise_words", "print_rows", "print_summary", "sentence",
]  # fmt: skip


GAP = 2  # between columns
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[-+]\d+)?%?")  # as cells show it


def print_rows(
    console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table of text under a title; a column of numbers is flush right.

    No cell is cut off, and no word is broken: a name can be copied, also from a line that is too long.
    """
    console.print(Text(printable(title), style="bold"), soft_wrap=True)
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = _widths([*zip(header, *cells, strict=True)], console.width)
    table = Table(box=None, pad_edge=False, width=sum(widths) + GAP * len(widths))
    for j, (name, width) in enumerate(zip(header, widths, strict=True)):
        numeric = all(NUMBER.fullmatch(row[j]) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table, crop=False)


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the widths of columns: the widest give way until all fit, or each is as its longest word.

    >>> _widths([("run", "a-long-name"), ("stages", "7, the last report")], 30)
    [11, 15]
    """
    words = [max(cell_len(word) for cell in one for word in [*cell.split(), ""]) for one in columns]
    whole = [max(map(cell_len, one)) for one in columns]
    for most in range(max(whole), -1, -1):
        widths = [max(word, min(cell, most)) for word, cell in zip(words, whole, strict=True)]
        if sum(widths) + GAP * len(widths) <= room:
            break
    return widths


def noise_words(price: Mapping[str, Any]) -> str:
    """Say how the noise behind a price is drawn.

    Examples
    --------
    >>> noise_words({"arithmetic": "exact"})
    'exact noise'
    """
    return "exact noise" if price["arithmetic"] == "exact" else "noise in double precision"


MISTAKES = (
    BudgetError, ConvergenceError, EngineError, FileNotFoundError, LabelError, LedgerError,
    OutputError, PermissionError, SettingsError, TableError, UnitError,
)  # fmt: skip
OF_PLACES = {
    errno.EDQUOT, errno.EFBIG, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOSPC, errno.ENOTDIR, errno.EROFS,
}  # fmt: skip


READ_ONLY = "; this command writes there: remount it, or copy the folder to a writable disk"


def is_mistake(error: BaseException) -> bool:
    """Return whether the user can mend an error: a refusal, or a place that cannot be read or written."""
    return isinstance(error, MISTAKES) or (isinstance(error, OSError) and error.errno in OF_PLACES)


def sentence(error: Exception) -> str:
    """Return the error and how to go on, as a sentence for the terminal."""
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return what + READ_ONLY * (error.errno == errno.EROFS)
    if isinstance(error, BudgetError) and not error.spent.epsilon:
        # nothing was opened that could be raised: the settings alone say the budget
        return f"{error} (a larger epsilon, or smaller prices, in the settings)"
    if isinstance(error, BudgetError) or "change_budget" in str(error):
        return (
            f"{error} (crowdassay budget STATE --dataset NAME --raise-to EPSILON, and then the same "
            "epsilon in the settings)"
        )
    return str(error)


NAME_WIDTH = 20


def console_step(console: Console) -> Step:
    """Return a step that runs a stage and prints its line at its end.

    Meanwhile it shows what the stage waits for: see :func:`flows.terminal.waiting`; on standard error if the
    console is no terminal, where a line more would stand among the results. An earlier listener to the run's
    progress stays.
    """
    aside = console if console.is_terminal else Console(stderr=True, quiet=console.quiet)

    def step(stage: Stage, run: Run) -> str:
        name = stage.name.replace("_", " ")
        begin = time.perf_counter()
        with waiting(aside, f"{name} …") as shown:
            line = run_stage(stage, replace(run, progress=both(shown, run.progress)))
        seconds = f"{time.perf_counter() - begin:6.1f} s"
        shown_line = Text.assemble(
            (f"{name:<{NAME_WIDTH}}", "bold"), (seconds, "dim"), "  ", printable(line)
        )
        console.print(shown_line, soft_wrap=True)
        return line

    return step


def both(first: Progress, second: Progress | None) -> Progress:
    """Return a callback that reports to both."""
    if second is None:
        return first

    def report(what: str, done: int, total: int) -> None:
        first(what, done, total)
        second(what, done, total)

    return report


def print_summary(console: Console, result: RunResult) -> None:
    """Print the closing table: the findings, their price, their evidence; and where the report lies."""
    run = Run(result.folder, None)  # type: ignore[arg-type]  # read only: settings are not needed
    table = Table(
        title="What the run found (exact numbers, for the team)",
        title_justify="left",
        show_header=False,
        box=None,
    )
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    for verdict in (one for stage in STAGES for one in stage.verdicts):
        table.add_row(verdict.title, Text(printable(verdict.of(run))))
    console.print()
    console.print(table)
    console.print(Text.assemble(("report  ", "bold"), str(_short(result.report))), soft_wrap=True)


def _short(path: Path) -> Path:
    """Return the path relative to the working folder, where that is shorter."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

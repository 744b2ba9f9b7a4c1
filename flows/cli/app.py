"""The command `crowdassay`, and what its commands share: the terminal, and mistakes as a sentence.

The process of a command: quick to start and quick to end.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Output", "Quiet", "app", "console", "main", "mistakes", "show_rows"]

_hushed = ContextVar("_hushed", default=False)
MISTAKE = 2  # exit code for what the user can mend
STOPPED = 130  # as shells have it for Ctrl-C
SHOWN = 15

app = typer.Typer(
    name="crowdassay",
    help="Assays the crowd: raw crowd labels in; results that can be trusted, released and reused out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _hush(context: typer.Context, quiet: bool) -> bool:
    """Keep the console silent until the command has ended."""
    context.call_on_close(partial(_hushed.reset, _hushed.set(quiet)))
    return quiet


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="print nothing but errors", callback=_hush)
]
Output = Annotated[Path | None, typer.Option(help="write all rows to this CSV")]


def console(*, quiet: bool = False) -> Console:
    """Standard output, as a person sees it: in colour on a terminal alone, and silent where asked."""
    from rich.console import Console

    return Console(quiet=quiet or _hushed.get(), highlight=False)


@contextmanager
def mistakes() -> Iterator[None]:
    """Turn a user's mistake, or Ctrl-C, into one sentence on stderr; nothing else is caught."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        from flows.terminal import MISTAKES, sentence  # the rooms are imported for a mistake only

        if not isinstance(error, MISTAKES):
            raise
        print(f"crowdassay: {sentence(error)}", file=sys.stderr)
        raise typer.Exit(MISTAKE) from None
    except KeyboardInterrupt:
        print(
            "crowdassay: stopped; a run goes on from its last whole stage with --resume",
            file=sys.stderr,
        )
        raise typer.Exit(STOPPED) from None


def show_rows(title: str, header: list[str], rows: list[list[str]], output: Path | None) -> None:
    """Print the first rows, and write all of them where asked."""
    import csv

    from flows.terminal import print_rows

    shown = [[*row[:-1], row[-1].partition(":")[0]] for row in rows[:SHOWN]]
    print_rows(console(), title, header, shown)
    if len(rows) > SHOWN and output is None:
        console().print(
            f"… and {len(rows) - SHOWN:,} more; --output FILE writes them all", style="dim"
        )
    if output is not None:
        with output.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])


OBJECTS = 500_000  # new ones before the collector looks
LIVE = {"distributed", "prefect"}  # have threads of their own, which an ordinary exit waits for


def _mention_kernels() -> None:
    """Print where compiled kernels are kept, if a command used them and that is a makeshift."""
    from flows.cli.warm import kernels_notice

    notice = kernels_notice()
    if notice is not None and not _hushed.get():
        print(f"crowdassay: {notice}", file=sys.stderr)


def main() -> None:
    """Run the command that the arguments name, and end the process.

    The libraries of a run make hundreds of thousands of objects that stay. The collector need not look
    through them again and again while they are imported, nor take them apart one by one at the end.
    """
    gc.set_threshold(OBJECTS)
    try:
        app()
    except SystemExit as ended:
        _mention_kernels()
        if not isinstance(ended.code, int) or LIVE & sys.modules.keys():
            raise
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)

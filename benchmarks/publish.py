"""Print a benchmark's table and keep it as a page under docs/results/."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

__all__ = ["RESULTS", "parser_of", "publish"]

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser for the caller's command, whose help is the caller's docstring with its example."""
    command = sys._getframe(1).f_globals["__spec__"].name
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(f"python -m {command}", description=doc, formatter_class=form)


def publish(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    note: str,
    picture: Figure | None = None,
) -> None:
    """Print a table and write it as Markdown, with the caller's command and a picture.

    The note describes how the figures were measured.
    """
    # the module that called, though run by -m
    command = sys._getframe(1).f_globals["__spec__"].name
    table = Table(*header, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console = Console(width=150, markup=False)
    console.print(table)
    console.print(note)
    lines = [
        f"# {title}",
        "",
        f"Printed by `python -m {command}`. {note}",
        "",
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    RESULTS.mkdir(parents=True, exist_ok=True)
    if picture is not None:
        lines += ["", f"![{title}]({name}.svg)"]
        with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
            picture.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

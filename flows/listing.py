"""Rows of text as a table on the terminal, for the commands that answer without a run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["print_rows"]


def print_rows(
    console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """A plain table of text under a title; a column of numbers is set flush right, nothing is cut off."""
    console.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for j, name in enumerate(header):
        numeric = all(row[j].replace(".", "", 1).isdigit() for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)

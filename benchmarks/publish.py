"""A benchmark's table: printed for who runs it, and kept under docs/results/ for who reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

__all__ = ["publish"]

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


def publish(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    note: str,
    picture: Figure | None = None,
    by: str | None = None,
) -> None:
    """Print a table and write it as Markdown, with a picture; `note` says how it was measured.

    `by` is the benchmark, where the page has another name.
    """
    table = Table(*header, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console = Console(width=150)
    console.print(table)
    console.print(note)
    lines = [
        f"# {title}",
        "",
        f"Printed by `python -m benchmarks.{by or name}`. {note}",
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

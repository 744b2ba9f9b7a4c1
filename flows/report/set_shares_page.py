"""Published shares of several labels at once, as a page in plain words and as files for machines.

>>> write_set_shares(set_shares_files(Path("public")), published.public())  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from flows.files import OutputFile
from flows.report.html import render_template
from flows.report.pages import SHOWN_CELLS, SHOWN_GROUPS
from flows.report.publication_files import publication_files, write_publication
from privacy import Unit

__all__ = ["render_set_shares", "set_shares_files", "write_set_shares"]

FORMAT = "crowdassay shares of several labels"
VERSION = 1
COLUMNS = {
    "group": "name of the group of tasks; which task is in which group is public",
    "class": "name of the class",
    "n": "tasks of the group that were counted, exact and public",
    "noisy_count": "released count of tasks for which the class holds: the exact one plus noise; it may be "
    "negative or above n",
    "share": "noisy_count / n, kept within 0 and 1; shares of a group need not add up to 1",
    "low": "lower end of the interval for the exact share, cut off at 0",
    "high": "upper end of the interval for the exact share, cut off at 1",
}


def render_set_shares(facts: Mapping[str, Any]) -> str:
    """Render the page that may be shown: shares by group and class, what they mean and what they cost.

    Parameters
    ----------
    facts
        Released values and public facts alone: `name`, `publication`, `epsilon`, `budget`, `unit`,
        `level`, `max_labels`, `threshold`, `half_width_labels`, `scale`, `arithmetic`, and `rows` of
        `COLUMNS`, by group and then class.

    Notes
    -----
    **Guarantees.** The same facts give the same bytes; the page refers to nothing outside its folder; names
    are text, never markup.
    """
    groups = [
        {"group": group, "cells": list(cells)}
        for group, cells in groupby(facts["rows"], key=lambda row: row["group"])
    ]
    classes = [cell["class"] for cell in groups[0]["cells"]]
    shown = min(SHOWN_GROUPS, max(1, SHOWN_CELLS // len(classes)))
    released = {
        **facts, "groups": groups[:shown], "of_classes": classes, "n_groups": len(groups), "ordered": False,
    }  # fmt: skip
    return render_template("set_shares.html.j2", {"name": facts["name"], "released": released})


def set_shares_files(
    folder: Path, *, inputs: Sequence[Path] = (), force: bool = False
) -> tuple[OutputFile, ...]:
    """Return the files of a publication in a folder; see :func:`.publication_files`."""
    return publication_files(folder, "shares", inputs=inputs, force=force)


def write_set_shares(files: Sequence[OutputFile], facts: Mapping[str, Any]) -> None:
    """Write the page, `release.json`, and the table as CSV and Parquet, each whole.

    Parameters
    ----------
    files
        As `set_shares_files` returns them.
    facts
        As for :func:`render_set_shares`.
    """
    unit = Unit(facts["unit"])
    about = {
        "format": FORMAT, "version": VERSION, **facts, "columns": COLUMNS,
        "protects": f"{unit.protects}, which may be of several classes. {unit.beyond}",
    }  # fmt: skip
    write_publication(files, render_set_shares(facts), about, texts={"group", "class"})

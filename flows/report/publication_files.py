"""Publications without a run: a page in plain words, and files for machines beside it.

There are two kinds, shares of several labels at once and shares of wins. Each has its page, `release.json`,
and its table as CSV and Parquet.

>>> write_set_shares(set_shares_files(Path("public")), published.public())  # doctest: +SKIP
>>> write_win_shares(win_shares_files(Path("public")), published.public())  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pyarrow.parquet as pq

from flows.files import OutputFile, output_folder
from flows.report.html import render_template
from flows.report.pages import SHOWN_CELLS, SHOWN_GROUPS
from flows.tables import arrow_table
from privacy import Unit

__all__ = [
    "render_set_shares", "render_win_shares", "set_shares_files", "win_shares_files", "write_set_shares",
    "write_win_shares",
]  # fmt: skip

VERSION = 1
SET_SHARES = "crowdassay shares of several labels"
SET_COLUMNS = {
    "group": "name of the group of tasks; which task is in which group is public",
    "class": "name of the class",
    "n": "tasks of the group that were counted, exact and public",
    "noisy_count": "released count of tasks for which the class holds: the exact one plus noise; it may be "
    "negative or above n",
    "share": "noisy_count / n, kept within 0 and 1; shares of a group need not add up to 1",
    "low": "lower end of the interval for the exact share, cut off at 0",
    "high": "upper end of the interval for the exact share, cut off at 1",
}
WIN_SHARES = "crowdassay shares of wins"
WIN_COLUMNS = {
    "item": "name of the item; which items were compared, how often and by whom is public",
    "comparisons": "comparisons that the item was in, exact and public",
    "noisy_half_points": "released half points, two for a comparison won and one for a tie: the exact ones "
    "plus noise. Those of all items add up to twice the number of comparisons; one may be negative",
    "share": "noisy_half_points / (2 comparisons), kept within 0 and 1: the share won, a tie as half of one",
    "low": "lower end of the interval for the exact share, cut off at 0",
    "high": "upper end of the interval for the exact share, cut off at 1",
    "score": "log strength by Bradley and Terry's model, which follows from all half points; they add up to "
    "0",
    "error": "standard error of the score, of chance and noise",
    "rank": "place by the score, 1 for the highest",
    "best": "best place that the item may have; those of all items hold at once at the level",
    "worst": "worst place, likewise",
}


def render_set_shares(facts: Mapping[str, Any]) -> str:
    """Render the page that may be shown: shares by group and class, what they mean and what they cost.

    Parameters
    ----------
    facts
        Released values and public facts alone: `name`, `publication`, `epsilon`, `budget`, `unit`,
        `level`, `max_labels`, `threshold`, `half_width_labels`, `scale`, `arithmetic`, and `rows` of
        `SET_COLUMNS`, by group and then class.

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


def render_win_shares(facts: Mapping[str, Any]) -> str:
    """Render the page that may be shown: shares, ranks, what they mean and what they cost.

    Parameters
    ----------
    facts
        Released values and public facts alone: `name`, `publication`, `epsilon`, `budget`, `unit`, `level`,
        `n_comparisons`, `half_width_half_points`, `scale`, `arithmetic`, and `rows` of `WIN_COLUMNS`.

    Notes
    -----
    **Guarantees.** The same facts give the same bytes; the page refers to nothing outside its folder; names
    are text, never markup.
    """
    return render_template("win_shares.html.j2", {"name": facts["name"], "released": facts})


def set_shares_files(
    folder: Path, *, inputs: Sequence[Path] = (), force: bool = False
) -> tuple[OutputFile, ...]:
    """Return the files of a publication in a folder; see :func:`_files`."""
    return _files(folder, "shares", inputs=inputs, force=force)


def win_shares_files(
    folder: Path, *, inputs: Sequence[Path] = (), force: bool = False
) -> tuple[OutputFile, ...]:
    """Return the files of a publication in a folder; see :func:`_files`."""
    return _files(folder, "wins", inputs=inputs, force=force)


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
        "format": SET_SHARES, "version": VERSION, **facts, "columns": SET_COLUMNS,
        "protects": f"{unit.protects}, which may be of several classes. {unit.beyond}",
    }  # fmt: skip
    _write(files, render_set_shares(facts), about, texts={"group", "class"})


def write_win_shares(files: Sequence[OutputFile], facts: Mapping[str, Any]) -> None:
    """Write the page, `release.json`, and the table as CSV and Parquet, each whole.

    Parameters
    ----------
    files
        As `win_shares_files` returns them.
    facts
        As for :func:`render_win_shares`.
    """
    unit = Unit(facts["unit"])
    about = {
        "format": WIN_SHARES, "version": VERSION, **facts, "columns": WIN_COLUMNS,
        "protects": f"{unit.protects}. {unit.beyond}",
    }  # fmt: skip
    _write(files, render_win_shares(facts), about, texts={"item"})


def _files(
    folder: Path, table: str, *, inputs: Sequence[Path] = (), force: bool = False
) -> tuple[OutputFile, ...]:
    """Return the files of a publication in a folder, which is made; checked before anything is paid.

    Parameters
    ----------
    folder, table
        Where the files are to stand, and the name of the two tables among them.
    inputs, force
        Files that are never overwritten, and whether others may be.

    Raises
    ------
    OutputError
        If one of them exists and `force` does not say that it may be overwritten, or it is an input.
    """
    made = output_folder(folder)
    names = "public.html", "release.json", f"{table}.csv", f"{table}.parquet"
    return tuple(OutputFile(made / name, inputs=tuple(inputs), force=force) for name in names)


def _write(
    files: Sequence[OutputFile], page: str, about: Mapping[str, Any], *, texts: Set[str]
) -> None:
    """Write the page, `release.json`, and the table as CSV and Parquet, each whole.

    Parameters
    ----------
    files
        As :func:`_files` returns them.
    page
        The page that may be shown, HTML.
    about
        What `release.json` says: `format`, `version`, `columns` by name with their meaning, the `rows`, and
        other public facts. The Parquet file carries all of it but the rows, under the format's name.
    texts
        Columns that hold names; the others hold numbers.
    """
    text = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    columns = {name: [row[name] for row in about["rows"]] for name in about["columns"]}
    table = arrow_table(
        {name: cells if name in texts else np.array(cells) for name, cells in columns.items()}
    )
    meaning = {key: value for key, value in about.items() if key != "rows"}
    described = table.replace_schema_metadata(
        {about["format"]: json.dumps(meaning, allow_nan=False)}
    )
    writers = (
        partial(Path.write_text, data=page, encoding="utf-8"),
        partial(Path.write_text, data=text, encoding="utf-8"),
        partial(csv.write_csv, table),
        partial(pq.write_table, described),
    )
    for file, write in zip(files, writers, strict=True):
        file.write(write)

"""Publications without a run: a page in plain words, and files for machines beside it.

There are two kinds, shares of several labels at once and shares of wins. Each has its page, `release.json`,
and its table as CSV and Parquet.

>>> WIN_SHARES.write(WIN_SHARES.files(Path("public")), published.public())  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
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

__all__ = ["SET_SHARES", "WIN_SHARES", "Publication"]

VERSION = 1
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


@dataclass(frozen=True, slots=True)
class Publication:
    """A kind of publication: its files in a folder, and how each is made of released values.

    Parameters
    ----------
    format
        What `release.json` calls it.
    table
        The name of the two tables.
    columns
        Columns of the tables, with their meaning.
    names
        Columns that hold names; the others hold numbers.
    template
        Of the page that may be shown.
    shown
        What the page shows of the released values.
    of_unit
        What is added to what the price protects.
    """

    format: str
    table: str
    columns: Mapping[str, str]
    names: Set[str]
    template: str
    shown: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    of_unit: str = ""

    def files(
        self, folder: Path, *, inputs: Sequence[Path] = (), force: bool = False
    ) -> tuple[OutputFile, ...]:
        """Return the files in a folder, which is made; checked before anything is paid.

        Parameters
        ----------
        folder
            Where the files are to stand.
        inputs, force
            Files that are never overwritten, and whether others may be.

        Raises
        ------
        OutputError
            If one of them exists and `force` does not say that it may be overwritten, or it is an input.
        """
        made = output_folder(folder)
        names = "public.html", "release.json", f"{self.table}.csv", f"{self.table}.parquet"
        return tuple(OutputFile(made / name, inputs=tuple(inputs), force=force) for name in names)

    def render(self, facts: Mapping[str, Any]) -> str:
        """Render the page that may be shown: the values, their meaning and their price.

        Parameters
        ----------
        facts
            Released values and public facts alone: `name`, `publication`, `epsilon`, `budget`, `unit`, what
            its template shows, and `rows` of `columns`.

        Notes
        -----
        **Guarantees.** The same facts give the same bytes; the page refers to nothing outside its folder;
        names are text, never markup.
        """
        return render_template(
            self.template, {"name": facts["name"], "released": self.shown(facts)}
        )

    def write(self, files: Sequence[OutputFile], facts: Mapping[str, Any]) -> None:
        """Write the page, `release.json`, and the table as CSV and Parquet, each whole.

        The Parquet file carries all of `release.json` but the rows, under the format's name.

        Parameters
        ----------
        files
            As :meth:`files` returns them.
        facts
            As for :meth:`render`.
        """
        unit = Unit(facts["unit"])
        about = {
            "format": self.format, "version": VERSION, **facts, "columns": dict(self.columns),
            "protects": f"{unit.protects}{self.of_unit}. {unit.beyond}",
        }  # fmt: skip
        page = self.render(facts)
        text = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        columns = {name: [row[name] for row in facts["rows"]] for name in self.columns}
        table = arrow_table(
            {
                name: cells if name in self.names else np.array(cells)
                for name, cells in columns.items()
            }
        )
        meaning = {key: value for key, value in about.items() if key != "rows"}
        described = table.replace_schema_metadata(
            {self.format: json.dumps(meaning, allow_nan=False)}
        )
        writers = (
            partial(Path.write_text, data=page, encoding="utf-8"),
            partial(Path.write_text, data=text, encoding="utf-8"),
            partial(csv.write_csv, table),
            partial(pq.write_table, described),
        )
        for file, write in zip(files, writers, strict=True):
            file.write(write)


def _by_group(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts with the rows gathered by group, as many as a page shows."""
    groups = [
        {"group": group, "cells": list(cells)}
        for group, cells in groupby(facts["rows"], key=lambda row: row["group"])
    ]
    classes = [cell["class"] for cell in groups[0]["cells"]]
    shown = min(SHOWN_GROUPS, max(1, SHOWN_CELLS // len(classes)))
    return {
        **facts, "groups": groups[:shown], "of_classes": classes, "n_groups": len(groups), "ordered": False,
    }  # fmt: skip


SET_SHARES = Publication(
    "crowdassay shares of several labels",
    "shares",
    SET_COLUMNS,
    {"group", "class"},
    "set_shares.html.j2",
    _by_group,
    ", which may be of several classes",
)
WIN_SHARES = Publication(
    "crowdassay shares of wins", "wins", WIN_COLUMNS, {"item"}, "win_shares.html.j2"
)

"""Published shares of wins, as a page in plain words and as files for machines.

>>> write_win_shares(win_shares_files(Path("public")), published.public())  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pyarrow.parquet as pq

from flows.files import OutputFile, output_folder
from flows.report.html import render_template
from flows.tables import arrow_table
from privacy import Unit

__all__ = ["render_win_shares", "win_shares_files", "write_win_shares"]

FORMAT = "crowdassay shares of wins"
VERSION = 1
NAMES = "public.html", "release.json", "wins.csv", "wins.parquet"
COLUMNS = {
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


def render_win_shares(facts: Mapping[str, Any]) -> str:
    """Render the page that may be shown: shares, ranks, what they mean and what they cost.

    Parameters
    ----------
    facts
        Released values and public facts alone: `name`, `publication`, `epsilon`, `budget`, `unit`, `level`,
        `n_comparisons`, `half_width_half_points`, `scale`, `arithmetic`, and `rows` of `COLUMNS`.

    Notes
    -----
    **Guarantees.** The same facts give the same bytes; the page refers to nothing outside its folder; names
    are text, never markup.
    """
    return render_template("win_shares.html.j2", {"name": facts["name"], "released": facts})


def win_shares_files(
    folder: Path, *, inputs: Sequence[Path] = (), force: bool = False
) -> tuple[OutputFile, ...]:
    """Return the files of a publication in a folder, which is made; checked before anything is paid.

    Raises
    ------
    OutputError
        If one of them exists and `force` does not say that it may be overwritten, or it is an input.
    """
    made = output_folder(folder)
    return tuple(OutputFile(made / name, inputs=tuple(inputs), force=force) for name in NAMES)


def write_win_shares(files: Sequence[OutputFile], facts: Mapping[str, Any]) -> None:
    """Write the page, `release.json`, and the table as CSV and Parquet, each whole.

    Parameters
    ----------
    files
        As `win_shares_files` returns them.
    facts
        As for :func:`render_win_shares`.
    """
    page, unit = render_win_shares(facts), Unit(facts["unit"])
    about = {"format": FORMAT, "version": VERSION, **facts, "columns": COLUMNS}
    about["protects"] = f"{unit.protects}. {unit.beyond}"
    text = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    columns = {name: [row[name] for row in facts["rows"]] for name in COLUMNS}
    table = arrow_table(
        {name: cells if name == "item" else np.array(cells) for name, cells in columns.items()}
    )
    meaning = {key: value for key, value in about.items() if key != "rows"}
    described = table.replace_schema_metadata({FORMAT: json.dumps(meaning, allow_nan=False)})
    writers = (
        partial(Path.write_text, data=page, encoding="utf-8"),
        partial(Path.write_text, data=text, encoding="utf-8"),
        partial(csv.write_csv, table),
        partial(pq.write_table, described),
    )
    for file, write in zip(files, writers, strict=True):
        file.write(write)

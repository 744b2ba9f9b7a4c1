"""Published shares of wins, as a page in plain words and as files for machines.

>>> write_win_shares(win_shares_files(Path("public")), published.public())  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.files import OutputFile
from flows.report.html import render_template
from flows.report.publication_files import publication_files, write_publication
from privacy import Unit

__all__ = ["render_win_shares", "win_shares_files", "write_win_shares"]

FORMAT = "crowdassay shares of wins"
VERSION = 1
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
    """Return the files of a publication in a folder; see :func:`.publication_files`."""
    return publication_files(folder, "wins", inputs=inputs, force=force)


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
        "format": FORMAT, "version": VERSION, **facts, "columns": COLUMNS,
        "protects": f"{unit.protects}. {unit.beyond}",
    }  # fmt: skip
    write_publication(files, render_win_shares(facts), about, texts={"item"})

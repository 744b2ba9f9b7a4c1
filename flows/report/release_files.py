"""The releases as files for machines: CSV and Parquet tables, and one JSON object with their meaning.

They hold what the public page holds, picked by the same names, and nothing else of the run folder.

>>> write_release_files(Path("runs/20261121T094500Z-web"))  # doctest: +SKIP
('release.json', 'proportions.csv', 'proportions.parquet')
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from flows.files import write_whole
from flows.report.pages import CAMPAIGN, GROUPED, public_page
from flows.tables import read_json, read_parquet
from privacy import Unit

__all__ = ["release", "write_release_files"]

FORMAT = "crowdassay release"
VERSION = 1
COLUMNS = {
    "proportions": {
        "group": "name of the group of tasks; which task is in which group is public",
        "class": "name of the class",
        "n": "tasks of the group that were counted, exact and public",
        "noisy_count": "released count: the exact one plus noise; it may be negative. With lattice "
        "Laplace noise a group's counts add up to n, with other noise they need not",
        "proportion": "noisy counts projected to shares that are >= 0 and add up to 1",
        "low": "lower end of the interval for the exact share, cut off at 0",
        "high": "upper end of the interval for the exact share, cut off at 1",
    },
    "corrected_shares": {
        "group": "name of the group of tasks; of several the first is all of them together, alone where "
        "single ones have too little gold",
        "class": "name of the class",
        "n": "tasks of the group that were counted, exact and public",
        "n_gold": "gold tasks behind the correction, public",
        "share": "estimated share of tasks that truly are of the class, from the released counts and the "
        "released correction by gold",
        "low": "lower end of the interval for the true share; it counts the noise, the crowd's mistakes "
        "and that gold is a sample",
        "high": "upper end of the interval, likewise",
    },
    "class_ratios": {
        "group": "name of the group of tasks, none of which is labelled",
        "class": "name of the class",
        "n": "tasks in the group",
        "ratio": "estimated share, from the published proportions and the tasks' features",
        "low": "lower end of the interval; none for a group that is not a mixture of the classes seen",
        "high": "upper end of the interval, likewise",
    },
}
AT_MOST = {
    "at_most": "share of the class and those below it, in the order declared; sums of the shares beside it",
    "at_most_low": "lower end of its interval; those of a group's classes hold together at the level",
    "at_most_high": "upper end of its interval, likewise",
}
OF_SETS = {
    "noisy_count": "released count of tasks for which the class holds: the exact one plus noise; it may be "
    "negative or above n",
    "proportion": "noisy_count / n, kept within 0 and 1; those of a group need not add up to 1",
}
MODEL = ("coef", "features", "norm_bound", "regularization")
PLAIN = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
BROKEN = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=("\n", ": "))


def release(folder: Path) -> dict[str, Any]:
    """Collect what a run released, as JSON.

    Parameters
    ----------
    folder
        A run folder with all its stages written.

    Returns
    -------
    dict
        `format`, `version`, `name`, the `publication`'s key and the campaign's whole `budget` (None
        where nothing is released), and for each kind of release None or its facts; tables are
        lists of rows beside the meaning of their columns. `units` says what a price of each unit
        protects, and what it does not.

    Notes
    -----
    **Guarantees.** Nothing in it depends on anything but released values and public facts.
    """
    found = _with_tables(folder)
    for stage in COLUMNS:
        if found[stage] is not None:
            found[stage]["rows"] = found[stage]["rows"].to_pylist()
    return found


def _with_tables(folder: Path) -> dict[str, Any]:
    """Collect a :func:`release` with tables in place of their rows."""
    page = public_page(folder)
    found: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    found |= {key: page[key] for key in ("name", *CAMPAIGN)}
    for stage in COLUMNS:
        facts = page[stage]
        if facts is not None:
            table = _table(folder, stage)
            kept = {key: value for key, value in facts.items() if key not in GROUPED}
            meaning = COLUMNS[stage] | AT_MOST | (OF_SETS if "max_labels" in facts else {})
            columns = {name: meaning[name] for name in table.column_names}
            facts = {**kept, "columns": columns, "rows": table}
        found[stage] = facts
    model = page["model"]
    if model is not None:
        whole = read_json(folder / "model.json")
        model = model | {key: whole[key] for key in MODEL}
    units = {
        facts["unit"] for facts in page.values() if isinstance(facts, dict) and "unit" in facts
    }
    protects = {unit: f"{Unit(unit).protects}. {Unit(unit).beyond}" for unit in sorted(units)}
    return found | {"model": model, "gate": page["gate"], "units": protects}


def write_release_files(folder: Path) -> tuple[str, ...]:
    """Write `public/release.json` and, for each table released, `public/<table>.csv` and `.parquet`.

    A Parquet file has level, noise and the meaning of its columns in its metadata as well. `folder` is
    that of a run with all its stages written. Return the names of the files in `public/`.

    Notes
    -----
    **Guarantees.** Each file is written whole or not at all; the same folder gives the same bytes.
    """
    found, target = _with_tables(folder), folder / "public"
    target.mkdir(exist_ok=True)
    text = _row_a_line(found) + "\n"
    write_whole(target / "release.json", partial(Path.write_text, data=text, encoding="utf-8"))
    names = ["release.json"]
    for stage in COLUMNS:
        if found[stage] is not None:
            facts = dict(found[stage])
            table = facts.pop("rows")
            write_whole(target / f"{stage}.csv", partial(csv.write_csv, table))
            described = table.replace_schema_metadata({FORMAT: json.dumps(facts, allow_nan=False)})
            write_whole(target / f"{stage}.parquet", partial(pq.write_table, described))
            names += [f"{stage}.csv", f"{stage}.parquet"]
    return tuple(names)


def _row_a_line(value: Any, margin: str = "\n") -> str:
    """Write JSON with a line for each value of an object, and for each row of a table.

    >>> print(_row_a_line({"unit": "label", "rows": pa.table({"n": [3, 4]})}))
    {
     "unit": "label",
     "rows": [
      {"n": 3},
      {"n": 4}
     ]
    }
    """
    inner = f"{margin} "
    if isinstance(value, dict) and value:
        items = (f"{PLAIN.encode(key)}: {_row_a_line(one, inner)}" for key, one in value.items())
        return f"{{{','.join(inner + item for item in items)}{margin}}}"
    if isinstance(value, pa.Table):
        # not by an indent of the encoder's: with one it is many times slower
        return f"[{','.join(inner + row for row in _rows(value))}{margin}]"
    return PLAIN.encode(value)


def _rows(table: pa.Table) -> list[str]:
    """Write each row, of texts, numbers and nulls, as `PLAIN` writes an object.

    >>> _rows(pa.table({"n": [3, 4], "group": ["a, b", None]}))
    ['{"n": 3, "group": "a, b"}', '{"n": 4, "group": null}']
    """
    columns = [
        _column(PLAIN.encode(name), table.column(name).to_pylist()) for name in table.column_names
    ]
    return [f"{{{', '.join(cells)}}}" for cells in zip(*columns, strict=True)]


def _column(key: str, values: list[Any]) -> list[str]:
    """Write a key and each of its values."""
    # a text's own line breaks are written as \n, so breaks are between values alone
    text = BROKEN.encode(values)[1:-1].replace("\n", f"\n{key}: ")
    return f"{key}: {text}".split("\n") if values else []


def _table(folder: Path, stage: str) -> pa.Table:
    """Return the columns of a release's table that may be shown, by name."""
    table = read_parquet(folder / f"{stage}.parquet")
    return table.select(
        [*COLUMNS[stage], *(name for name in AT_MOST if name in table.column_names)]
    )

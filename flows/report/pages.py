"""What each page may see: the run folder read into plain rows, for the team and for the public.

`public_page` is the gate of the public report. It picks released fields by name and opens no other
file, so a field that somebody adds to a JSON file stays internal until it is named here. The ledger's
statement is not among them: whether and when an entry was made can depend on private data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["GROUPED", "internal_page", "pseudonyms", "public_page"]

Facts = dict[str, Any]
Rows = list[dict[str, Any]]

# What one page can hold and a reader can read; the rest stays in the run folder's tables.
SHOWN_FLAGGED = 100
SHOWN_KEPT = 5
SHOWN_POINTS = 400
SHOWN_CELLS = 160
SHOWN_GROUPS = 40
SHOWN_ENTRIES = 100
SHOWN_TASKS = 10

# The public page's fields, by name: what is not here is not released.
GROUPED = ("groups", "of_classes", "n_groups")
PROPORTIONS = (
    "mechanism",
    "reason",
    "epsilon",
    "delta",
    "unit",
    "level",
    "expected_l1_labels",
    "half_width_labels",
    "noise",
)
CLASS_RATIOS = ("method", "level")
MODEL = ("classes", "epsilon_train", "epsilon_select", "epsilon_score", "train_score")
GATE = ("status", "value", "threshold", "epsilon")
ENTRY = ("entry", "time", "what", "cell", "plan", "epsilon", "delta")
COLUMNS = {
    "proportions": ("group", "class", "n", "proportion", "low", "high"),
    "class_ratios": ("group", "class", "n", "ratio", "low", "high"),
}


def internal_page(folder: Path, *, show_worker_ids: bool) -> Facts:
    """Everything the team's report shows, exact values and people included."""
    quality = _read_json(folder, "quality.json")
    workers = _read_table(folder, "workers.parquet")
    names = workers["worker"].to_pylist() + [row["worker"] for row in quality["refused"]]
    called = dict(zip(names, names, strict=True)) if show_worker_ids else pseudonyms(names)
    whole = ("inputs", "consensus", "bounds", "robustness")
    page = {name: _read_json(folder, f"{name}.json") for name in whole}
    return page | {
        "quality": quality,
        "called": called,
        "workers": _worker_rows(workers),
        "next_labels": _read_table(folder, "next_labels.parquet")[:SHOWN_TASKS].to_pylist(),
        "proportions": _by_group(folder, "proportions"),
        "class_ratios": _by_group(folder, "class_ratios"),
        "model": _read_json(folder, "model.json"),
        "gate": _read_json(folder, "gate.json"),
        "spend": _spend(folder),
    }


def public_page(folder: Path) -> Facts:
    """Released values alone, picked by name; a stage that released nothing is None."""
    ratios = _by_group(folder, "class_ratios")
    # Ratios read the tasks' features in the clear: no release unless the run says these are public.
    ratios_public = ratios.get("public") is True
    proportions = _by_group(folder, "proportions")
    # How many releases a plan is for is public; how many were drawn tells that the data changed.
    planned = ("n_planned",) if "n_planned" in proportions else ()
    return {
        "name": _read_json(folder, "inputs.json")["name"],
        "proportions": _released(proportions, PROPORTIONS + planned + GROUPED),
        "class_ratios": _released(ratios, CLASS_RATIOS + GROUPED) if ratios_public else None,
        "model": _released(_read_json(folder, "model.json"), MODEL),
        "gate": _released(_read_json(folder, "gate.json"), GATE),
    }


def pseudonyms(names: Iterable[str]) -> dict[str, str]:
    """Name workers by the first digits of a digest: `worker 7f3a`, longer where two would meet.

    Parameters
    ----------
    names
        Worker ids; repeated ones are taken once.

    Returns
    -------
    dict
        Id -> pseudonym, the same for the same set of ids.

    Notes
    -----
    **Guarantees.** Different ids have different pseudonyms.
    The digest has no key: whoever holds a list of ids can recompute it. It keeps ids off a screen
    and out of a mail; it does not make a report anonymous.

    Examples
    --------
    >>> pseudonyms(["A1B2C3", "A9Z8Y7"])
    {'A1B2C3': 'worker 675c', 'A9Z8Y7': 'worker 7b63'}
    """
    digest = {name: hashlib.blake2b(name.encode(), digest_size=16).hexdigest() for name in names}
    digits = 4
    while len({text[:digits] for text in digest.values()}) < len(digest):
        digits += 1
    return {name: f"worker {text[:digits]}" for name, text in digest.items()}


def _read_json(folder: Path, name: str) -> Facts:
    """One JSON object of the run folder."""
    facts: Facts = json.loads((folder / name).read_text(encoding="utf-8"))
    return facts


def _read_table(folder: Path, name: str) -> pa.Table:
    """One table of the run folder."""
    return pq.read_table(folder / name)


def _released(facts: Facts, fields: Iterable[str]) -> Facts | None:
    """The named fields of a release, or None where nothing was released."""
    return None if "skipped" in facts else {field: facts[field] for field in fields}


def _by_group(folder: Path, stage: str) -> Facts:
    """A stage's facts with the rows of its table gathered by group, in the table's order."""
    facts = _read_json(folder, f"{stage}.json")
    if "skipped" in facts:
        return facts
    rows = pq.read_table(folder / f"{stage}.parquet", columns=list(COLUMNS[stage])).to_pylist()
    groups = [
        {"group": group, "cells": list(cells)}
        for group, cells in groupby(rows, key=lambda row: row["group"])
    ]
    classes = [cell["class"] for cell in groups[0]["cells"]]
    shown = min(SHOWN_GROUPS, max(1, SHOWN_CELLS // len(classes)))
    return facts | {"groups": groups[:shown], "of_classes": classes, "n_groups": len(groups)}


def _spend(folder: Path) -> Facts:
    """The data set's privacy statement, newest entries first."""
    facts = _read_json(folder, "spend.json")
    if "skipped" in facts:
        return facts
    entries = [{field: entry.get(field) for field in ENTRY} for entry in facts["entries"]]
    newest = sorted(entries, key=lambda entry: entry["entry"], reverse=True)[:SHOWN_ENTRIES]
    in_file = len(entries)
    n_entries = facts.get("n_entries", in_file)
    return facts | {"entries": newest, "n_in_file": in_file, "n_entries": n_entries}


def _worker_rows(workers: pa.Table) -> Facts:
    """The flagged, the least and the most trusted of the others, and the points of the chart."""
    flagged = workers.filter(pc.field("flagged"))
    kept = workers.filter(~pc.field("flagged"))
    known = kept.filter(pc.field("reputation").is_valid())  # no conflict, no reputation, no rank
    highest = max(SHOWN_KEPT, len(known) - SHOWN_KEPT)
    shown = {
        "flagged": flagged[:SHOWN_FLAGGED].to_pylist(),
        "lowest": known[:SHOWN_KEPT].to_pylist(),
        "highest": known[highest:].to_pylist(),
    }
    return shown | {
        "n_flagged": len(flagged),
        "n_kept": len(kept),
        "n_more": len(workers) - sum(len(rows) for rows in shown.values()),
        "flagged_points": _points(flagged),
        "kept_points": _points(kept),
        "thinned": max(len(flagged), len(kept)) > SHOWN_POINTS,
    }


def _points(workers: pa.Table) -> list[tuple[float, float]]:
    """Agreement and soft penalty of evenly spaced workers, at most `SHOWN_POINTS` of them."""
    step = max(1, -(-len(workers) // SHOWN_POINTS))
    chosen = workers.take(pa.array(range(0, len(workers), step), pa.int64()))
    pairs = zip(chosen["agreement"].to_pylist(), chosen["soft_penalty"].to_pylist(), strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None]

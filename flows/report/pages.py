"""What each page may see: the run folder read into plain rows, for the team and for the public.

`public_page` is the gate of the public report. It picks released fields by name and opens no other file, so a
field that somebody adds to a JSON file stays internal until it is named here. The ledger's statement is not
among them: whether and when an entry was made can depend on private data.

>>> public_page(Path("runs/20261121T094500Z-web"))["gate"]  # doctest: +SKIP
{'status': 'agrees', 'value': 0.81, 'threshold': 0.1, 'epsilon': 1.5}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flows.report.rows import SHOWN_TASKS, planned_rows, pseudonyms, task_rows, worker_rows
from flows.settings import InputSettings
from flows.tables import arrow_array, read_first, read_json, read_parquet

__all__ = ["CAMPAIGN", "GROUPED", "internal_page", "lineage", "public_page"]

PLACES = ("runs", "state")  # folders, which do not bear on the result


def lineage(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return versions, and settings as rows of section, key and value; a path is its file's name."""
    python = {"python": manifest["python"]}
    return {
        "versions": python | manifest["versions"],
        "settings": list(_settings(manifest["settings"])),
    }


def _settings(settings: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Return a row for each key that is set, the sections' after the others'."""
    plain = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    for section, keys in {"": plain, **settings}.items():
        if isinstance(keys, Mapping):
            for key, value in keys.items():
                if value is not None and key not in PLACES:
                    is_path = section == "input" and key in PATHS
                    yield {"section": section, "key": key, "value": _words(value, is_path=is_path)}


def _words(value: Any, *, is_path: bool) -> str:
    """Return a value in words."""
    if isinstance(value, list):
        return ", ".join(_words(one, is_path=is_path) for one in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(one, is_path=is_path)}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return PurePath(value).name if is_path else str(value)


def _holds_path(annotation: Any) -> bool:
    """Return whether values of a type are paths, or have any within."""
    return annotation is Path or any(map(_holds_path, get_args(annotation)))


PATHS = {key for key, one in InputSettings.model_fields.items() if _holds_path(one.annotation)}


Facts = dict[str, Any]

# What one page can hold and a reader can read; the rest stays in the run folder's tables.
SHOWN_CELLS = 160
SHOWN_GROUPS = 40
SHOWN_ENTRIES = 100
SHOWN_RUNS = 24

# The public page's fields, by name: what is not here is not released.
CAMPAIGN = ("publication", "budget")  # public facts of the settings, None where nothing is released
OLDER = {"skipped": "the run was made by a version without it"}
GROUPED = ("groups", "of_classes", "n_groups", "ordered")
PROPORTIONS = (
    "mechanism", "reason", "epsilon", "delta", "unit", "level", "expected_l1_labels",
    "half_width_labels", "noise", "arithmetic",
)  # fmt: skip
CORRECTED = (
    "epsilon", "delta", "unit", "level", "arithmetic", "sampling", "n_gold", "n_needed", "apart",
)  # fmt: skip
CLASS_RATIOS = ("method", "level")
MODEL = (
    "classes", "method", "epsilon_train", "epsilon_select", "epsilon_score", "delta_train", "unit",
    "arithmetic", "train_score",
)  # fmt: skip
REDUCED = ("components", "epsilon_components", "delta_components")  # of a model on components alone
GATE = ("status", "value", "threshold", "epsilon", "unit", "arithmetic")
ENTRY = ("entry", "time", "what", "cell", "plan", "arithmetic", "epsilon", "delta")
COLUMNS = {
    "proportions": ("group", "class", "n", "proportion", "low", "high"),
    "corrected_shares": ("group", "class", "n", "share", "low", "high"),
    "class_ratios": ("group", "class", "n", "ratio", "low", "high"),
}
AT_MOST = ("at_most", "at_most_low", "at_most_high")  # likewise, where classes are ordered


def internal_page(folder: Path, *, show_worker_ids: bool) -> Facts:
    """Return everything that the team's report shows, exact values and people included."""
    quality = _read_json(folder, "quality.json")
    workers = read_parquet(folder / "workers.parquet", repeated=["reason"])
    names = workers["worker"].to_pylist()
    called = dict(zip(names, names, strict=True)) if show_worker_ids else pseudonyms(names)
    whole = ("inputs", "consensus", "bounds", "robustness")
    page = {name: _read_json(folder, f"{name}.json") for name in whole}
    trend, manifest = _trend(folder), _read_json(folder, "manifest.json")
    tasks = read_first(folder / "next_labels.parquet", SHOWN_TASKS)
    plan = read_parquet(folder / "label_plan.parquet")
    texts = _texts(folder, tasks["task"], plan["task"])
    return page | {
        "stages": list(manifest["stages"]),
        "quality": quality,
        "called": called,
        "workers": worker_rows(workers),
        "tasks": task_rows(tasks, page["consensus"]["classes"], texts),
        "planned": planned_rows(plan, texts),
        "proportions": _by_group(folder, "proportions"),
        "corrected_shares": _by_group(folder, "corrected_shares"),
        "class_ratios": _by_group(folder, "class_ratios"),
        "archetypes": _asked_for(folder, "archetypes.json"),
        "error_features": _asked_for(folder, "error_features.json"),
        "decision_images": _asked_for(folder, "decision_images.json"),
        "psychometrics": _asked_for(folder, "psychometrics.json"),
        "model": _read_json(folder, "model.json"),
        "gate": _read_json(folder, "gate.json"),
        "spend": _spend(folder),
        "trend": trend,
        "topics": _asked_for(folder, "topics.json"),
        "asked": _asked(trend),
        "lineage": lineage(manifest),
    }


def _texts(folder: Path, *shown: pa.ChunkedArray) -> dict[str, str]:
    """Return the text of each task shown, where a column of the task tables holds it."""
    if not (folder / "task_texts.parquet").is_file():
        return {}
    tasks = arrow_array([task for column in shown for task in column.to_pylist()])
    found = dict[str, str]()
    with pq.ParquetFile(folder / "task_texts.parquet") as file:
        for batch in file.iter_batches():
            rows = batch.filter(pc.is_in(batch["task"], tasks))
            found.update(zip(rows["task"].to_pylist(), rows["text"].to_pylist(), strict=True))
    return found


def public_page(folder: Path) -> Facts:
    """Return released values alone, picked by name; a stage that released nothing is None."""
    ratios = _by_group(folder, "class_ratios")
    # Ratios read the tasks' features in the clear: no release unless the run says these are public.
    ratios_public = ratios.get("public") is True
    proportions = _by_group(folder, "proportions")
    # How many releases a plan is for is public; how many were drawn reveals that the data changed.
    model = _read_json(folder, "model.json")
    own = ("n_planned", "max_tasks", "together", "max_labels", "threshold")
    planned = tuple(key for key in own if key in proportions)
    released = {
        "proportions": _released(proportions, PROPORTIONS + planned + GROUPED),
        "corrected_shares": _released(_by_group(folder, "corrected_shares"), CORRECTED + GROUPED),
        "class_ratios": _released(ratios, CLASS_RATIOS + GROUPED) if ratios_public else None,
        "model": _released(model, MODEL + tuple(key for key in REDUCED if key in model)),
        "gate": _released(_read_json(folder, "gate.json"), GATE),
    }
    anything = any(facts is not None for facts in released.values())
    terms = {key: proportions.get(key) if anything else None for key in (*CAMPAIGN, "unit")}
    return {"name": _read_json(folder, "inputs.json")["name"]} | terms | released


def _read_json(folder: Path, name: str) -> Facts:
    """Return a JSON object of the run folder."""
    return read_json(folder / name)


def _asked_for(folder: Path, name: str) -> Facts | None:
    """Return a JSON object that settings may ask for; None where they did not."""
    return _read_json(folder, name) if (folder / name).is_file() else None


def _released(facts: Facts, fields: Iterable[str]) -> Facts | None:
    """Return the named fields of a release, or None if nothing was released."""
    return None if "skipped" in facts else {field: facts[field] for field in fields}


def _by_group(folder: Path, stage: str) -> Facts:
    """Return a stage's facts with the rows of its table gathered by group, in the table's order."""
    facts = _read_json(folder, f"{stage}.json") if (folder / f"{stage}.json").is_file() else OLDER
    if "skipped" in facts:
        return facts
    table = read_parquet(folder / f"{stage}.parquet")
    ordered = AT_MOST[0] in table.column_names
    ends = pc.run_end_encode(table["group"].combine_chunks()).run_ends.to_pylist()
    shown = min(SHOWN_GROUPS, max(1, SHOWN_CELLS // ends[0]), len(ends))
    columns = [*COLUMNS[stage], *(AT_MOST if ordered else ())]
    rows = table.select(columns).slice(length=ends[shown - 1]).to_pylist()
    groups = [
        {"group": group, "cells": list(cells)}
        for group, cells in groupby(rows, key=lambda row: row["group"])
    ]
    for group in groups if ordered else ():
        group["mean"] = _mean_grade(group["cells"])
    classes = [cell["class"] for cell in groups[0]["cells"]]
    sizes = {"of_classes": classes, "n_groups": len(ends), "ordered": ordered}
    return facts | {"groups": groups, **sizes}


def _mean_grade(cells: list[Facts]) -> Facts:
    """Return the mean grade, the lowest being 1, and its interval by the cumulative shares."""
    at, most, least = (
        None if cells[0][name] is None else len(cells) - sum(cell[name] for cell in cells[:-1])
        for name in AT_MOST
    )
    return {"at": at, "low": least, "high": most}


def _spend(folder: Path) -> Facts:
    """Return the data set's privacy statement, newest entries first."""
    facts = _read_json(folder, "spend.json")
    if "skipped" in facts:
        return facts
    entries = [{field: entry.get(field) for field in ENTRY} for entry in facts["entries"]]
    newest = sorted(entries, key=lambda entry: entry["entry"], reverse=True)[:SHOWN_ENTRIES]
    in_file = len(entries)
    return {"n_entries": in_file} | facts | {"entries": newest, "n_in_file": in_file}


def _trend(folder: Path) -> Facts | None:
    """Return the campaign's newest runs, oldest first, each with the group that moved most, or None."""
    if not (folder / "trend.json").is_file():
        return None
    runs: list[Facts] = _read_json(folder, "trend.json")["runs"]
    rows = [
        run | {"moved": max((run["drift"] or {}).items(), key=lambda item: item[1], default=None)}
        for run in runs[-SHOWN_RUNS:]
    ]
    return {"runs": rows, "n_runs": len(runs)}


def _asked(trend: Facts | None) -> list[Facts]:
    """Return the shown runs that asked the holdout, oldest first; empty if only this one did."""
    asked = [run for run in (trend["runs"] if trend else ()) if run.get("gate")]
    return asked if len(asked) > 1 else []

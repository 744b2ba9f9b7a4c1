"""Runs that this campaign has made: all that are complete, and whether there is anything new since.

What a campaign's runs hand on from one to the next: what its aggregator believed of the workers.

A run that goes on (`consensus.go_on`) starts EM from the fit of the newest complete run before it.
Which run that is, is written into the run folder before its fit is first used, with a copy of it: so
a run that is resumed, or made again of the same inputs, starts where the first one did.

The campaign over its runs: how labels, workers, agreement, spend, holdout and proportions moved.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.files import file_digest, write_whole
from flows.run.store import MANIFEST, Run, code_version
from flows.settings.settings import Settings
from flows.tables.sources import input_paths, is_query

if TYPE_CHECKING:
    from quality import Consensus, CrowdLabels, EMStart

__all__ = [
    "begun_from",
    "complete_runs",
    "facts_of",
    "in_words",
    "keep_fit",
    "same_work",
    "start_of",
    "trend",
    "unchanged_run",
]

NEEDED = (MANIFEST, "inputs.json", "quality.json", "proportions.json", "spend.json", "report.html")


def complete_runs(settings: Settings) -> list[Run]:
    """Complete runs of the campaign, in the order they were started; one that lacks a file is none."""
    named = re.compile(rf"(\d{{8}}T\d{{6}}Z)-{re.escape(settings.name)}(?:-(\d+))?")
    found = []
    for folder in settings.runs.glob(f"*-{settings.name}*"):
        place = named.fullmatch(folder.name)
        if place is None or not all((folder / name).is_file() for name in NEEDED):
            continue
        run = Run(folder, settings)
        said = run.read_json(MANIFEST)
        if (said["name"], said["state"]) == (settings.name, "complete"):
            found.append((place[1], int(place[2] or 1), run))
    return [run for *_, run in sorted(found, key=lambda one: one[:2])]


def unchanged_run(settings: Settings, identity: str) -> Run | None:
    """The newest complete run, if another would have its inputs, settings and code version.

    What a query answers is fetched aside and compared by its digest.
    """
    newest = next(iter(reversed(complete_runs(settings))), None)
    if newest is None or newest.work() != {"identity": identity} | code_version():
        return None
    return (
        newest if all(_same_answer(newest, *one) for one in input_paths(settings.input)) else None
    )


def same_work(one: Run, other: Run) -> bool:
    """Whether two runs had the same inputs, settings and code version."""
    if one.work() != other.work():
        return False
    first, second = (run.read_json("inputs.json")["files"] for run in (one, other))
    return bool(first == second)


def _same_answer(run: Run, role: str, path: Path) -> bool:
    """Whether a query has the answer that a run has read; files are known by their digests already."""
    if not is_query(path):
        return True
    from flows.tables.sql import fetch  # a client of databases, for a query only

    with tempfile.TemporaryDirectory(dir=run.settings.runs, prefix=".asked-") as folder:
        answer = Path(folder) / "answer.parquet"
        fetch(path, run.settings.input.url_env, answer)
        one = {"role": role, "name": path.name, "sha256": file_digest(answer)}
    return one in run.read_json("inputs.json")["files"]


CHOSEN, START, FIT = "start.json", "start.npz", "fit.npz"
ARRAYS = ("workers", "classes", "prior", "confusion")


def start_of(run: Run, labels: CrowdLabels) -> EMStart | None:
    """Where EM starts on these labels: where an earlier run's ended, or None for the majority vote."""
    if begun_from(run) is None:
        return None
    from quality import EMStart  # numba, which a run where nothing is new need not load

    with np.load(run.folder / START, allow_pickle=False) as kept:
        earlier = EMStart(*(kept[name] for name in ARRAYS))
    return earlier.matched(labels.workers, labels.classes)


def begun_from(run: Run) -> str | None:
    """Name of the run whose fit this one goes on from; chosen once, and kept."""
    if not run.settings.consensus.go_on:
        return None
    if not (run.folder / CHOSEN).is_file():
        _choose(run)
    name: str | None = run.read_json(CHOSEN)["run"]
    return name


def keep_fit(run: Run, fit: EMStart) -> None:
    """Keep what the aggregator believed of the workers, for the next run that goes on."""
    arrays = {name: getattr(fit, name) for name in ARRAYS}

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(run.folder / FIT, write)


def facts_of(run: Run, start: EMStart, found: Consensus, anew: Consensus | None) -> dict[str, Any]:
    """What the run says of where it started, and, where EM was begun anew too, of what differs."""
    known = int(start.confusion.any(axis=(1, 2)).sum())
    facts = {"run": begun_from(run), "n_known_workers": known}
    if anew is None:
        return facts
    differ = int(np.count_nonzero(anew.label != found.label))
    return facts | {"n_iter_anew": getattr(anew, "n_iter", 1), "n_differ": differ}


def in_words(facts: dict[str, Any] | None, n_iter: int) -> str:
    """The same for the stage's line; nothing where EM was begun anew."""
    if facts is None:
        return ""
    said = f"; gone on from {facts['run']} in {n_iter} iterations"
    if "n_differ" not in facts:
        return said
    return (
        f"{said} ({facts['n_iter_anew']} anew, which {facts['n_differ']:,} tasks would differ by)"
    )


def _choose(run: Run) -> None:
    """Copy the start of a run of the same work, or else the newest fit of the same aggregator."""
    name, source = _found(run)
    if source is not None:
        write_whole(run.folder / START, lambda aside: shutil.copyfile(source, aside))
    run.write_json(CHOSEN, {"run": name})


def _found(run: Run) -> tuple[str | None, Path | None]:
    """Whose fit to go on from, and where it lies."""
    for earlier in reversed(complete_runs(run.settings)):
        said = earlier.read_json("consensus.json")["aggregator"]
        if not (earlier.folder / FIT).is_file() or said != run.settings.consensus.aggregator:
            continue
        if not same_work(earlier, run):
            return earlier.final_name, earlier.folder / FIT
        name = earlier.read_json(CHOSEN)["run"]
        return name, None if name is None else earlier.folder / START
    return None, None


GATE = ("question", "status", "value", "budget", "budget_left")


def trend(run: Run) -> dict[str, Any]:
    """One row a run, oldest first; the last is this run, whose outputs but the reports are whole.

    Returns
    -------
    dict
        ``{"runs": [row, ...]}``. A row has

        - ``run``, ``started``: its folder's name, and when it was started (ISO 8601, UTC);
        - ``n_labels``, ``n_tasks``, ``n_workers``, ``n_groups``: of the labels, tasks and groups
          that have labels;
        - ``n_removed``: workers whom the filter removed;
        - ``alpha``, ``alpha_kept``: Krippendorff's alpha of all workers and of those kept, or None;
        - ``epsilon``, ``delta``: what was spent of the budget by then, or None;
        - ``gate``: question, status, value, budget and what is left of it, of the holdout's answer; or
          None, where it was not asked;
        - ``drift``: total variation between the released proportions and those of the row before,
          by group that both have; or None, where either released nothing.

    Notes
    -----
    **Guarantees.** Runs in a row on the same inputs, settings and code version are one row, that of
    the first: running again adds none. Drift is of released values alone, and costs nothing.
    """
    earlier = [one for one in complete_runs(run.settings) if one.folder != run.folder]
    rows: list[dict[str, Any]] = []
    before: Run | None = None
    for one in [*earlier, run]:
        if before is None or not same_work(before, one):
            rows.append(_row(one, before))
            before = one
    return {"runs": rows}


def _row(run: Run, before: Run | None) -> dict[str, Any]:
    """What one run found and had spent."""
    counts, crowd = run.read_json("inputs.json"), run.read_json("quality.json")
    spent = run.read_json("spend.json").get("spent", {})
    sizes = {
        "n_labels": counts["n_labels"],
        "n_tasks": counts["n_labelled_tasks"],
        "n_workers": counts["n_workers"],
        "n_groups": counts["n_groups"],
    }
    return {
        "run": run.final_name,
        "started": run.read_json(MANIFEST)["started"],
        **sizes,
        "n_removed": crowd["n_removed"],
        "alpha": crowd["alpha"],
        "alpha_kept": crowd["alpha_kept"],
        "epsilon": spent.get("epsilon"),
        "delta": spent.get("delta"),
        "gate": _gate(run),
        "drift": None if before is None else _drift(before, run),
    }


def _gate(run: Run) -> dict[str, Any] | None:
    """What the holdout said to the run."""
    found = run.read_json("gate.json")
    return None if "skipped" in found else {key: found[key] for key in GATE}


def _drift(before: Run, run: Run) -> dict[str, float] | None:
    """Total variation of the released proportions, by group."""
    old, new = _proportions(before), _proportions(run)
    if old is None or new is None:
        return None
    return {group: _total_variation(old[group], now) for group, now in new.items() if group in old}


def _total_variation(one: dict[str, float], other: dict[str, float]) -> float:
    """Half the sum of the differences; a class that one of them lacks has the share 0 there."""
    gaps = [abs(one.get(name, 0.0) - other.get(name, 0.0)) for name in {**one, **other}]
    return float(np.sum(gaps) / 2)


def _proportions(run: Run) -> dict[str, dict[str, float]] | None:
    """Released proportions by group and class."""
    if "skipped" in run.read_json("proportions.json"):
        return None
    found: dict[str, dict[str, float]] = {}
    for row in run.read_table("proportions.parquet").to_pylist():
        found.setdefault(row["group"], {})[row["class"]] = row["proportion"]
    return found

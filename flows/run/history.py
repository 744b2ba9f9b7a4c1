"""The campaign's earlier runs: is there anything new, where does EM start, and how did the numbers move.

A run with `consensus.go_on` starts EM from the fit of the newest complete run before it. It writes
the name of that run and a copy of the fit into its own folder before it first uses them: so a run that is
resumed, or made again of the same inputs, starts where the first one did.

>>> from flows.settings import load_settings
>>> settings = load_settings(Path("demo/settings.toml"))  # doctest: +SKIP
>>> [run.folder.name for run in complete_runs(settings)]  # doctest: +SKIP
['20261121T094500Z-sample-campaign']
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from flows.files import file_digest, write_arrays, write_whole
from flows.run.store import MANIFEST, Run, code_version, digest_key, publication_now, read_on
from flows.settings import Settings
from flows.tables import input_paths, is_fetched, undamaged

if TYPE_CHECKING:
    from quality import CrowdLabels, EMStart

__all__ = [
    "begun_from", "complete_runs", "keep_fit", "ledger_heads", "same_work", "start_of", "trend",
    "unchanged_run", "while_others_prune",
]  # fmt: skip

T = TypeVar("T")
NEEDED = (MANIFEST, "inputs.json", "quality.json", "proportions.json", "spend.json", "report.html")


def complete_runs(settings: Settings) -> list[Run]:
    """Return the campaign's complete runs in the order of their start; skip a run that lacks a file.

    A run that another process prunes meanwhile is skipped too.
    """
    named = re.compile(rf"(\d{{8}}T\d{{6}}Z)-{re.escape(settings.name)}(?:-(\d+))?")
    found = []
    for folder in settings.runs.glob(f"*-{settings.name}*"):
        place = named.fullmatch(folder.name)
        if place is None or not all((folder / name).is_file() for name in NEEDED):
            continue
        run = Run(folder, settings)
        with suppress(FileNotFoundError):
            manifest = run.read_json(MANIFEST)
            if (manifest.get("name"), manifest.get("state")) == (settings.name, "complete"):
                found.append((place[1], int(place[2] or 1), run))
    return [run for *_, run in sorted(found, key=lambda one: one[:2])]


def while_others_prune(settings: Settings, look: Callable[[list[Run]], T]) -> T:
    """Return the result of `look` at the complete runs; it is repeated if one was pruned meanwhile."""
    while True:
        runs = complete_runs(settings)
        try:
            return look(runs)
        except FileNotFoundError:
            if all(run.folder.is_dir() for run in runs):  # then a file is missing, not a run
                raise


def unchanged_run(settings: Settings, identity: str) -> Run | None:
    """Return the newest complete run if a new one would have its inputs, settings, key and code version.

    The answer of a database query is fetched aside and compared by its digest.
    """
    return while_others_prune(settings, lambda runs: _unchanged(settings, identity, runs))


def _unchanged(settings: Settings, identity: str, runs: list[Run]) -> Run | None:
    """Return the last of the runs if a new one would be the same."""
    newest = next(iter(reversed(runs)), None)
    if newest is None or newest.work() != {"identity": identity} | code_version():
        return None
    if newest.publication != publication_now(settings):
        return None
    if not all(_same_answer(newest, *one) for one in input_paths(settings.input)):
        return None
    read_on(newest)
    return newest


def same_work(one: Run, other: Run) -> bool:
    """Return whether two runs had the same inputs, settings and code version."""
    if one.work() != other.work():
        return False
    first, second = (run.read_json("inputs.json")["files"] for run in (one, other))
    return bool(first == second)


def ledger_heads(settings: Settings) -> dict[tuple[int, str], str]:
    """Return where the ledger stood after each of the campaign's runs, with the run's folder.

    Runs that did not end count too: rows and seal of the ledger's head, as their manifests hold them.
    """
    heads = {}
    for path in settings.runs.glob(f"*-{settings.name}*/{MANIFEST}"):
        try:
            manifest = Run(path.parent, settings).read_json(MANIFEST)
        except FileNotFoundError:  # another run has just ended
            continue
        head = manifest.get("ledger")
        if manifest.get("name") == settings.name and head is not None:
            heads[head["n_rows"], head["seal"]] = path.parent.name
    return heads


def _same_answer(run: Run, role: str, path: Path) -> bool:
    """Return whether a query has the answer that a run has read; the identity covers files already."""
    if not is_fetched(path):
        return True
    from flows.tables import fetch_rows  # clients of databases and stores, for such tables only

    with tempfile.TemporaryDirectory(dir=run.settings.runs, prefix=".asked-") as folder:
        answer = Path(folder) / "answer.parquet"
        fetch_rows(path, run.settings.input.url_env, answer)
        digest = file_digest(answer, digest_key(run.settings))
        one = {"role": role, "name": path.name, "digest": digest}
    return one in run.read_json("inputs.json")["files"]


CHOSEN, START, FIT = "start.json", "start.npz", "fit.npz"
ARRAYS = ("workers", "classes", "prior", "confusion")


def start_of(run: Run, labels: CrowdLabels) -> EMStart | None:
    """Return where EM starts on these labels: where an earlier run ended, or None for majority vote."""
    if begun_from(run) is None:
        return None
    from quality import EMStart  # numba, which a run where nothing is new need not load

    path = run.folder / START
    with undamaged(path), path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
        earlier = EMStart(*(kept[name] for name in ARRAYS))
    return earlier.matched(labels.workers, labels.classes)


def begun_from(run: Run) -> str | None:
    """Return the name of the run whose fit this one goes on from; it is chosen once and kept."""
    if not run.settings.consensus.go_on:
        return None
    if not (run.folder / CHOSEN).is_file():
        _choose(run)
    name: str | None = run.read_json(CHOSEN)["run"]
    return name


def keep_fit(run: Run, fit: EMStart) -> None:
    """Write the aggregator's parameters for the next run that goes on."""
    write_arrays(run.folder / FIT, {name: getattr(fit, name) for name in ARRAYS})


def _choose(run: Run) -> None:
    """Copy the start of a run on the same inputs, or else the newest fit of the same aggregator."""

    def copied(runs: list[Run]) -> str | None:
        name, source = _source(run, runs)
        if source is not None:
            write_whole(run.folder / START, lambda aside: shutil.copyfile(source, aside))
        return name

    run.write_json(CHOSEN, {"run": while_others_prune(run.settings, copied)})


def _source(run: Run, runs: list[Run]) -> tuple[str | None, Path | None]:
    """Return which of the runs to go on from, and the file of its fit."""
    for earlier in reversed(runs):
        aggregator = earlier.read_json("consensus.json")["aggregator"]
        if not (earlier.folder / FIT).is_file() or aggregator != run.settings.aggregator:
            continue
        if not same_work(earlier, run):
            return earlier.final_name, earlier.folder / FIT
        name = earlier.read_json(CHOSEN)["run"]
        return name, None if name is None else earlier.folder / START
    return None, None


GATE = ("question", "status", "value", "budget", "budget_left")


def trend(run: Run) -> dict[str, Any]:
    """Set the campaign's runs side by side, oldest first; the last is this run, before its reports.

    Returns
    -------
    dict
        ``{"runs": [row, ...]}``. A row has

        - ``run``, ``started``: its folder's name, and the time of its start (ISO 8601, UTC);
        - ``n_labels``, ``n_tasks``, ``n_workers``, ``n_groups``: of the labels, tasks and groups
          that have labels;
        - ``n_removed``: workers whom the filter removed;
        - ``alpha``, ``alpha_kept``: Krippendorff's alpha of all workers and of those kept, or None;
        - ``epsilon``, ``delta``: what was spent of the budget by then, or None;
        - ``gate``: question, status, value, budget and budget left of the holdout's answer, or None
          if it was not asked;
        - ``drift``: total variation between the released proportions and those of the row before,
          by group that both have, or None if either released nothing; where several classes may
          hold, the largest difference of one class. It is the least share of a group's tasks that
          have other classes.

    Notes
    -----
    **Guarantees.** Runs in a row on the same inputs, settings, publication key and code version are one
    row, that of the first: running again adds none. Drift is computed from released values alone, and
    costs nothing. A run that another process prunes meanwhile has no row.
    """
    return {"runs": while_others_prune(run.settings, lambda runs: _rows(run, runs))}


def _rows(run: Run, runs: list[Run]) -> list[dict[str, Any]]:
    """Return the rows of the complete runs, and last that of this run."""
    rows: list[dict[str, Any]] = []
    before: Run | None = None
    for one in [*(other for other in runs if other.folder != run.folder), run]:
        if before is None or not (same_work(before, one) and before.publication == one.publication):
            rows.append(_row(one, before))
            before = one
    return rows


def _row(run: Run, before: Run | None) -> dict[str, Any]:
    """Return the row of one run."""
    counts, crowd = run.read_json("inputs.json"), run.read_json("quality.json")
    spent = run.read_json("spend.json").get("spent", {})
    return {
        "run": run.final_name,
        "started": run.read_json(MANIFEST)["started"],
        "n_labels": counts["n_labels"],
        "n_tasks": counts["n_labelled_tasks"],
        "n_workers": counts["n_workers"],
        "n_groups": counts["n_groups"],
        "n_removed": crowd["n_removed"],
        "alpha": crowd["alpha"],
        "alpha_kept": crowd["alpha_kept"],
        "epsilon": spent.get("epsilon"),
        "delta": spent.get("delta"),
        "gate": _gate(run),
        "drift": None if before is None else _drift(before, run),
    }


def _gate(run: Run) -> dict[str, Any] | None:
    """Return the holdout's answer in a run."""
    found = run.read_json("gate.json")
    return None if "skipped" in found else {key: found[key] for key in GATE}


def _drift(before: Run, run: Run) -> dict[str, float] | None:
    """Return how far the released proportions of each group differ."""
    old, new = _proportions(before), _proportions(run)
    if old is None or new is None:
        return None
    several = "max_labels" in run.read_json("proportions.json")
    distance = _largest_gap if several else _total_variation
    return {group: distance(old[group], now) for group, now in new.items() if group in old}


def _gaps(one: dict[str, float], other: dict[str, float]) -> list[float]:
    """Return the difference of each class; one that either lacks has the share 0 there."""
    return [abs(one.get(name, 0.0) - other.get(name, 0.0)) for name in {**one, **other}]


def _total_variation(one: dict[str, float], other: dict[str, float]) -> float:
    """Return half the sum of the differences, for shares that add up to 1."""
    return float(np.sum(_gaps(one, other)) / 2)


def _largest_gap(one: dict[str, float], other: dict[str, float]) -> float:
    """Return the largest difference, for shares of which a task may be in several."""
    return float(np.max(_gaps(one, other)))


def _proportions(run: Run) -> dict[str, dict[str, float]] | None:
    """Return released proportions by group and class."""
    if "skipped" in run.read_json("proportions.json"):
        return None
    found: dict[str, dict[str, float]] = {}
    for row in run.read_table("proportions.parquet").to_pylist():
        found.setdefault(row["group"], {})[row["class"]] = row["proportion"]
    return found

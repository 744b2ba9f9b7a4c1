"""The campaign over its runs: how labels, workers, agreement, spend, holdout and proportions moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.run.history import complete_runs, same_work
from flows.run.store import MANIFEST, Run

__all__ = ["trend"]

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

"""Tasks as the report shows them: the least certain ones, and whom to ask about which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

__all__ = ["planned_rows", "task_rows"]

SHOWN_TASKS = 12
SHOWN_CLASSES = 4  # that a task was given
SHOWN_ASKED = 20
SHOWN_PER_WORKER = 12


def task_rows(tasks: pa.Table, classes: Sequence[str]) -> list[dict[str, Any]]:
    """The first tasks of a table ranked by uncertainty, with the answers given in words."""
    return [
        row | {"given": _given(row["counts"], classes)} for row in tasks[:SHOWN_TASKS].to_pylist()
    ]


def planned_rows(plan: pa.Table) -> dict[str, Any]:
    """The planned labels gathered by worker, whose answers tell most first; those left out counted."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for row in plan.to_pylist():
        asked.setdefault(row["worker"], []).append(row)
    rows = [
        {
            "worker": worker,
            "n": len(labels),
            "gain": sum(label["gain"] for label in labels),
            "tasks": [label["task"] for label in labels[:SHOWN_PER_WORKER]],
            "n_more": max(0, len(labels) - SHOWN_PER_WORKER),
        }
        for worker, labels in asked.items()
    ]
    rows.sort(key=lambda row: -row["gain"])
    return {"rows": rows[:SHOWN_ASKED], "n_more": max(0, len(rows) - SHOWN_ASKED)}


def _given(counts: Sequence[int], classes: Sequence[str]) -> str:
    """`3 × toxic, 1 × benign`, the class named most first, then in the order of classes."""
    named = sorted((code for code, n in enumerate(counts) if n), key=lambda code: -counts[code])
    words = [f"{counts[code]:,}\u00a0×\u00a0{classes[code]}" for code in named[:SHOWN_CLASSES]]
    rest = sum(counts[code] for code in named[SHOWN_CLASSES:])
    return ", ".join([*words, f"{rest:,} others"] if rest else words)

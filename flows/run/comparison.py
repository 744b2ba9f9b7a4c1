"""What changed from one run to another: labels turned, workers in and out, shares, and the price.

>>> changes = compare_runs(Path("runs/20261121-web"), Path("runs/20261122-web"))  # doctest: +SKIP
>>> changes.n_turned  # doctest: +SKIP
14
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from flows.run.listing import refuse_unfinished
from flows.tables import read_json, read_parquet
from privacy.accounting import price_text

__all__ = ["Change", "RunChanges", "compare_runs"]

NEEDED = ("inputs.json", "quality.json", "workers.parquet", "consensus.parquet", "spend.json")
SHARES = (("proportions", "proportion"), ("corrected_shares", "share"), ("class_ratios", "ratio"))

Label: TypeAlias = tuple[str, float | None]  # and its confidence


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: its subject, before and after in words, and its meaning."""

    what: str
    of: str
    before: str
    after: str
    note: str


@dataclass(frozen=True, slots=True)
class RunChanges:
    """Result of :func:`compare_runs`.

    Parameters
    ----------
    changes
        Everything that differs: the campaign's numbers, then workers, shares and labels.
    n_common
        Tasks with a consensus label in both runs.
    n_turned
        Those whose label differs.
    n_moved
        Published shares whose intervals do not meet.
    same_campaign
        Whether both runs bear the same name.
    """

    changes: tuple[Change, ...]
    n_common: int
    n_turned: int
    n_moved: int
    same_campaign: bool


def compare_runs(before: Path, after: Path) -> RunChanges:
    """Compare two finished runs.

    Parameters
    ----------
    before, after
        Their folders.

    Raises
    ------
    FileNotFoundError
        If one is not the folder of a finished run.

    Notes
    -----
    **Guarantees.** A run compared with itself has no changes. In the other order before and after change
    places.

    **Shares.** Two shares have moved if their intervals do not meet: where a share is the same in both
    runs, one of its two intervals must then have missed it.
    """
    folders = before, after
    for folder in folders:
        refuse_unfinished(folder, *NEEDED)
    numbers = [_numbers(folder) for folder in folders]
    of_run = [
        Change(what, "run", numbers[0][what], value, "")
        for what, value in numbers[1].items()
        if numbers[0][what] != value
    ]
    workers = list(_worker_changes(*(_workers(folder) for folder in folders)))
    shares = list(_share_changes(*(_shares(folder) for folder in folders)))
    labels = [_labels(folder) for folder in folders]
    common = labels[0].keys() & labels[1].keys()
    turned = list(_turned(labels[0], labels[1], common))
    new, gone = (len(one.keys() - other.keys()) for one, other in (labels[::-1], labels))
    tasks = [
        Change("tasks", "run", f"{len(labels[0]):,}", f"{len(labels[1]):,}", f"{new:,} new, {gone:,} gone")
    ]  # fmt: skip
    names = [_read(folder, "inputs.json")["name"] for folder in folders]
    return RunChanges(
        (*of_run, *(tasks if new or gone else ()), *workers, *shares, *turned),
        len(common),
        len(turned),
        sum(change.note.startswith("moved") for change in shares),
        names[0] == names[1],
    )


def _read(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name)


def _numbers(folder: Path) -> dict[str, str]:
    """Return the run's numbers in words."""
    inputs, quality, spend = (
        _read(folder, f"{name}.json") for name in ("inputs", "quality", "spend")
    )
    consensus = _read(folder, "consensus.json") if (folder / "consensus.json").is_file() else {}
    gold, known = consensus.get("gold"), "skipped" not in spend
    alpha = quality["alpha"]
    return {
        "labels": f"{inputs['n_labels']:,}",
        "workers": f"{inputs['n_workers']:,}",
        "workers removed": f"{quality['n_removed']:,}",
        "agreement alpha": "undefined" if alpha is None else f"{alpha:.3f}",
        "aggregator": str(consensus.get("aggregator", "")),
        "right on gold": "no gold" if gold is None else f"{gold['accuracy']:.1%} of {gold['n']:,}",
        "epsilon spent": price_text(spend["spent"]["epsilon"]) if known else "no budget",
        "epsilon left": price_text(spend["left"]["epsilon"], left=True) if known else "no budget",
    }


def _workers(folder: Path) -> dict[str, tuple[bool, str]]:
    """Return whether each worker was removed, and why."""
    rows = read_parquet(folder / "workers.parquet", ["worker", "flagged", "reason"]).to_pylist()
    return {row["worker"]: (row["flagged"], row["reason"] or "") for row in rows}


def _worker_changes(
    before: dict[str, tuple[bool, str]], after: dict[str, tuple[bool, str]]
) -> Iterator[Change]:
    """Yield workers who are new, who are gone, and who were removed in one run alone."""
    for name in sorted(before.keys() | after.keys()):
        states = [
            "absent" if name not in run else "removed" if run[name][0] else "kept"
            for run in (before, after)
        ]
        if states[0] != states[1]:
            removed = after if states[1] == "removed" else before
            reason = removed.get(name, (False, ""))[1] if "removed" in states else ""
            yield Change("worker", name, states[0], states[1], reason)


def _shares(folder: Path) -> dict[tuple[str, str, str], tuple[float, float | None, float | None]]:
    """Return published shares with their intervals, by kind of share, group and class."""
    found = {}
    for name, column in SHARES:
        if (folder / f"{name}.parquet").is_file():
            rows = read_parquet(
                folder / f"{name}.parquet", ["group", "class", column, "low", "high"]
            )
            for row in rows.to_pylist():
                found[column, row["group"], row["class"]] = row[column], row["low"], row["high"]
    return found


def _share_changes(
    before: dict[tuple[str, str, str], tuple[float, float | None, float | None]],
    after: dict[tuple[str, str, str], tuple[float, float | None, float | None]],
) -> Iterator[Change]:
    """Yield the shares that differ, with their intervals."""
    for key in [*before, *(key for key in after if key not in before)]:
        if before.get(key) == after.get(key):
            continue
        words, note = [_share_words(run.get(key)) for run in (before, after)], ""
        if key in before and key in after:
            (_, low, high), (_, low_now, high_now) = before[key], after[key]
            if None in (low, high, low_now, high_now):
                note = "an interval is missing"
            else:
                apart = low_now > high or low > high_now  # type: ignore[operator]  # None is dealt with
                note = "moved: the intervals do not meet" if apart else "the intervals meet"
        yield Change(f"{key[0]} of {key[2]}", key[1], words[0], words[1], note)


def _share_words(share: tuple[float, float | None, float | None] | None) -> str:
    """Return a share and its interval in words."""
    if share is None:
        return "none"
    value, low, high = share
    return (
        f"{value:.1%}" if low is None or high is None else f"{value:.1%} ({low:.1%} to {high:.1%})"
    )


def _labels(folder: Path) -> dict[str, Label]:
    """Return each task's consensus label and confidence, None where models alone have labelled it."""
    rows = read_parquet(folder / "consensus.parquet", ["task", "label", "confidence"])
    columns = (rows[name].to_pylist() for name in ("task", "label", "confidence"))
    return {task: (label, sure) for task, label, sure in zip(*columns, strict=True)}


def _turned(
    before: dict[str, Label], after: dict[str, Label], common: set[str]
) -> Iterator[Change]:
    """Yield the tasks whose label differs, those first that both runs were surest about."""

    def least_sure(task: str) -> float:
        return min(-1.0 if sure is None else sure for _, sure in (before[task], after[task]))

    turned = [task for task in common if before[task][0] != after[task][0]]
    for task in sorted(turned, key=lambda task: (-least_sure(task), task)):
        words = [
            label if sure is None else f"{label} ({sure:.1%})"
            for label, sure in (before[task], after[task])
        ]
        yield Change("label", task, words[0], words[1], "turned")

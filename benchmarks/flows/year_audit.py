"""What tells the years of neighbouring campaigns apart: an audit of all that a year publishes.

    python -m benchmarks.flows.year_audit --pairs 120

A small campaign (48 tasks in two groups, gold on half of them) publishes two months, the second with
twice the tasks of the first, under `planned_runs = 2` and epsilon 1: class counts and their correction by
gold of each cohort, a model trained on each cohort and averaged, its score, and the gate that pools the
cohorts' holdouts. A neighbour differs in one task of the first month: its consensus label, its gold label
and, where the unit is a row, its features; the task is one to train on, or one of the holdout. Both years
are published so many times each, in turns, every time from a new ledger and a new record of cohorts. Half
of the publications choose what tells the two apart best: among the set of both months' files, a digest of
each file's bytes, every number shown and combinations of them. The other half count how often it holds.
The bound is one that epsilon exceeds with the confidence named, at the year's delta (Clopper-Pearson); a
price below it would be refuted. An exact leak would show as a bound of about log(pairs / 20).
"""

from __future__ import annotations

import csv
import hashlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.publish import parser_of, publish
from flows.report import write_release_files
from flows.run import MANIFEST, Run, open_run
from flows.settings import Settings, load_settings
from flows.spending import as_numbers, read_statements
from flows.spending.learning_rows import deal
from flows.stages import STAGES
from privacy import AuditBound, audit_releases

__all__ = ["USES", "audit_year"]

LEVEL = 0.999
N_TASKS, FAR, OTHER = 48, "60.0", {"a": "b", "b": "a"}
USES = ("training", "holdout")
"""What the neighbours' task is used for: its rows cost in parallel with those of the other use."""
SETTINGS = """\
name = "audited"
classes = ["a", "b"]
[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
gold = "gold.csv"
gold_sampling = "random"
[privacy]
epsilon = 1.0
delta = 1e-3
unit = "{unit}"
planned_runs = 2
correction_epsilon = 0.2
[model]
norm_bound = 2.0
[gate]
threshold = "auto"
[consensus]
aggregator = "majority_vote"
[filter]
fraction = 0.0
"""
SHARED_MEMORY = Path("/dev/shm")
HEADER = (
    "unit", "the task is used for", "pairs", "counted on", "price", "epsilon at least", "held here, there",
    "distinguishers tried", "refuted",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Month:
    """A month's run up to where it spends, which is the same for all years, and its manifest then."""

    run: Run
    begun: dict[str, Any]


def audit_year(
    unit: str, use: str, draws: int, *, level: float = LEVEL
) -> tuple[AuditBound, dict[str, float]]:
    """Publish both neighbours' years so many times; return what that proves, and the price booked."""
    where = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        here, there = (_months(Path(folder, name), unit, use) for name in ("here", "there"))
        shown: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
        for _ in range(draws):
            first = secrets.randbelow(2)  # the time of day, which is shown, tells nothing
            for side in (first, 1 - first):
                shown[side].append(_live_through((here, there)[side]))
        spent: dict[str, float] = read_statements(here[0].run.settings.state)[0]["spent"]
    numbers = as_numbers(shown[0], shown[1])
    return audit_releases(*numbers, epsilon=spent["epsilon"], level=level), spent


def _months(folder: Path, unit: str, use: str) -> tuple[_Month, ...]:
    """Both months of a campaign, or of its neighbour, whose consensus is found."""
    folder.mkdir()
    months = []
    for share in (0.5, 1.0):
        settings = _write_campaign(folder, unit, use, changed=folder.name == "there", share=share)
        run = open_run(settings)
        for stage in STAGES:
            if stage.holds_ledger:
                break
            stage(run)
        months.append(_Month(run, run.read_json(MANIFEST)))
    return tuple(months)


def _live_through(months: Sequence[_Month]) -> dict[str, Any]:
    """Publish a year from a new ledger; return all that its public folders show."""
    shutil.rmtree(months[0].run.settings.state, ignore_errors=True)
    for month in months:
        month.run.write_json(MANIFEST, month.begun)  # it names no earlier ledger
    shown = {}
    for number, month in enumerate(months, start=1):
        for stage in STAGES:
            if stage.holds_ledger:
                stage(month.run)
        names, public = write_release_files(month.run.folder), month.run.folder / "public"
        shown[f"month {number}"] = {
            "files": ", ".join(sorted(names)),
            "bytes": {name: hashlib.blake2b((public / name).read_bytes()).hexdigest() for name in names},
            "release": json.loads((public / "release.json").read_text(encoding="utf-8")),
        }  # fmt: skip
    return shown


def _write_campaign(folder: Path, unit: str, use: str, *, changed: bool, share: float) -> Settings:
    """Write the tasks that have joined, of the campaign or of its neighbour."""
    path, tasks = folder / "settings.toml", [f"t{number:02d}" for number in range(N_TASKS)]
    path.write_text(SETTINGS.format(unit=unit), encoding="utf-8")
    settings = load_settings(path)
    truth = ["ab"[number % 5 < 2] for number in range(N_TASKS)]
    x = [f"{(1.0 if one == 'b' else -1.0) + 0.03 * (j % 7):.2f}" for j, one in enumerate(truth)]
    if changed:
        task = _task_of(settings, tasks, use)
        truth[task] = OTHER[truth[task]]
        if unit == "row":
            x[task] = FAR
    joined = [number for number in range(N_TASKS) if number // 2 % 2 < 2 * share]

    def said(task: int, worker: int) -> str:  # a dissent, without which no worker is judged
        return OTHER[truth[task]] if (task, worker) == (1, 2) else truth[task]

    tables = {
        "labels": [["worker", "task", "label"]]
        + [[f"w{k}", tasks[j], said(j, k)] for j in joined for k in range(3)],
        "gold": [["task", "label"], *([tasks[j], truth[j]] for j in joined if j % 2 == 0)],
        "tasks": [["task", "group", "x0"]]
        + [[name, f"g{j % 2}", x[j]] for j, name in enumerate(tasks)],
    }
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
    return settings


def _task_of(settings: Settings, tasks: list[str], use: str) -> int:
    """The number of a gold task of the first month that is used so."""
    validation = 0.2 if settings.model is None else settings.model.validation
    held, validated = deal(
        np.array(tasks), seed=settings.seed, holdout=settings.gate.holdout, validation=validation
    )
    wanted = held if use == "holdout" else ~held & ~validated
    return next(number for number in range(0, N_TASKS, 4) if wanted[number])


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--pairs", type=int, default=120, metavar="N", help="years of each")
    parser.add_argument("--units", nargs="+", default=["row"])
    asked, rows = parser.parse_args(), list[list[str]]()
    for unit in asked.units:
        for use in USES:
            bound, spent = audit_year(unit, use, asked.pairs)
            price = f"epsilon {spent['epsilon']:g}, delta {spent['delta']:g}"
            rows.append(
                [unit, use, f"{asked.pairs:,}", f"{bound.draws:,}", price,
                 f"{bound.least_epsilon(spent['delta']):.2f}",
                 ", ".join(f"{one:,}" for one in bound.hits), f"{bound.tried:,}",
                 "yes" if bound.refutes(spent["delta"]) else "no"]
            )  # fmt: skip
            print(rows[-1], flush=True)
            page(rows)


def page(rows: list[list[str]]) -> None:
    """Publish what has been audited so far."""
    note = " ".join(" ".join(__doc__.splitlines()[4:]).split())
    title = f"What tells the years of neighbours apart, with {LEVEL:.1%} confidence"
    publish("year_audit", title, HEADER, rows, note=note)


if __name__ == "__main__":
    main()

"""A year whose months are killed anywhere, again and again, comes to what an undisturbed year comes to."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.pipeline import run_pipeline
from flows.run import Run
from flows.settings import load_settings
from flows.spending import read_statements, year_of
from tests.flows.spending.test_year import year_campaign
from tests.flows.stages.test_year_counts import found, grow

TOUCHES = {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "sqlite3.connect"}
MOST_TOUCHES, MOST_SECONDS = (
    360,
    2.5,
)  # of a run of this campaign; now and then a run outlives its kill
CLEAR = ("workers.parquet", "consensus.parquet", "next_labels.parquet")  # without noise
WARM = (
    "flows.pipeline", "flows.stages.consensus", "flows.stages.learning.model",
    "flows.stages.publication", "flows.stages.reading", "flows.stages.reporting",
    "flows.stages.workers", "matplotlib.figure", "sqlalchemy",
)  # fmt: skip


def live_through(folder: Path, months: int, kills: dict[int, int]) -> dict[str, Any]:
    """Live through months, in some of which runs are killed first; return what a year must come to."""
    path, chance = campaign(folder, months), random.Random(0)
    runs, spent, deaths = list[Run](), list[dict[str, float]](), Counter[int]()
    for month in range(1, months + 1):
        settings = grow(path, month / months)
        for number in range(kills.get(month, 0)):
            answered = {one for one in ledger(path) if one[2]}
            deaths[die_somewhere(path, chance, by_time=number % 3 == 2)] += 1
            assert answered <= set(ledger(path))
        runs.append(Run(run_pipeline(settings, resume=chance.random() < 0.5).folder, settings))
        spent.append(read_statements(settings.state)[0]["spent"])
    assert sum(kills.values()) == 0 or deaths[-signal.SIGKILL] + deaths[-signal.SIGPROF] > 0
    with np.load(settings.state / f"cohorts-{settings.name}.npz") as held:
        cohorts = {name: held[name].tolist() for name in held.files}
    year = year_of(settings)
    assert year is not None
    assert spent == [{"epsilon": float(year.cost().epsilon), "delta": year.delta}] * months
    return {
        "ledger": sorted(ledger(path)),
        "cohorts": cohorts,
        "skipped": [
            name for run in runs for name, one in found(settings, run.folder).items()
            if "skipped" in one
        ],
        "used": [run.read_json("proportions.json")["year"]["used"] for run in runs],
        "sizes": [run.read_table("proportions.parquet")["n"].to_pylist() for run in runs],
        "clear": [[(run.folder / name).read_bytes() for name in CLEAR] for run in runs],
    }  # fmt: skip


def campaign(folder: Path, months: int) -> Path:
    """The small campaign's labelled groups, with a year of so many months; every month has some gold."""
    path = year_campaign(folder, "planned_tasks = 360", "correction_epsilon = 2.0")
    path.write_text(path.read_text().replace("planned_runs = 4", f"planned_runs = {months}"))
    tasks = path.with_name("tasks.csv")
    kept = [line for line in tasks.read_text().splitlines() if ",u" not in line]
    tasks.write_text("\n".join(kept) + "\n")
    return path


def ledger(path: Path) -> list[tuple[str, str, bool]]:
    """All that the ledger was asked, and whether it has answered."""
    settings = load_settings(path)
    if not (settings.state / "ledger.sqlite").exists():
        return []
    statements = read_statements(settings.state, entries=10_000)
    return [(e["what"], e["cell"], e["released"]) for one in statements for e in one["entries"]]


def die_somewhere(path: Path, chance: random.Random, *, by_time: bool) -> int:
    """Run where the system ends it at a random touch of the campaign's files, or moment; how it ended."""
    moment = chance.uniform(0.0, MOST_SECONDS) if by_time else chance.randint(1, MOST_TOUCHES)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(WARM))
    asked = (path, moment, by_time, chance.random() < 0.5)
    process = context.Process(target=run_and_die, args=asked)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL, -signal.SIGPROF)
    return process.exitcode


def run_and_die(path: Path, moment: float, by_time: bool, resume: bool) -> None:
    """Run, begun anew as by a schedule or resumed, until a touch of a file or for some CPU seconds."""
    touched, folder = count(1), str(path.parent)

    def die(event: str, args: tuple[Any, ...]) -> None:
        if event in TOUCHES and folder in str(args[0]) and next(touched) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    if by_time:  # its default action ends a process as SIGKILL does
        signal.setitimer(signal.ITIMER_PROF, moment)
    else:
        sys.addaudithook(die)
    run_pipeline(load_settings(path), resume=resume)


def test_two_months_killed_anywhere_come_to_what_they_come_to_undisturbed(tmp_path: Path) -> None:
    undisturbed = live_through(tmp_path / "one", 2, {})
    assert undisturbed["skipped"] == []
    assert live_through(tmp_path / "other", 2, {1: 1, 2: 2}) == undisturbed


@pytest.mark.slow
def test_a_year_killed_anywhere_comes_to_what_it_comes_to_undisturbed(tmp_path: Path) -> None:
    """In its first, sixth and twelfth month, eight times each."""
    undisturbed = live_through(tmp_path / "one", 12, {})
    assert [one for one in undisturbed["skipped"] if one != "corrected_shares"] == []
    assert live_through(tmp_path / "other", 12, {1: 8, 6: 8, 12: 8}) == undisturbed

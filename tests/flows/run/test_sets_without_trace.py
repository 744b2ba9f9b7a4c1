"""Non-interference where answers are sets of classes: no trace beside what was released."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quality import simulate_multilabels
from tests.flows.run.test_non_interference import Tape, difference, edit, shown_by

SETS = """\
name = "sets"
classes = ["a", "b", "c", "d"]
[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
gold = "gold.csv"
several = "|"
nothing = "none"
[privacy]
epsilon = 6.0
max_labels = 2
"""


def campaign_of_sets(folder: Path) -> Path:
    """90 tasks in three groups, each with up to three of four classes, by 14 workers of whom two guess."""
    crowd = simulate_multilabels(
        n_tasks=90, n_workers=14, answers_per_task=4, n_classes=4, max_labels=3,
        others={"spammer": 2}, rng=np.random.default_rng(3),
    )  # fmt: skip
    table, names = crowd.table, np.array(list("abcd"))
    folder.mkdir()
    given = ["|".join(names[table.set_of(one)]) or "none" for one in range(table.n_answers)]
    pairs = zip(table.worker.tolist(), table.task.tolist(), given, strict=True)
    truth = ["|".join(names[row]) or "none" for row in crowd.truth[:30]]
    tables = {
        "labels": [
            "worker,task,label",
            *(f"w{who:02d},t{task:03d},{one}" for who, task, one in pairs),
        ],
        "tasks": ["task,group", *(f"t{task:03d},g{task % 3}" for task in range(90))],
        "gold": ["task,label", *(f"t{task:03d},{one}" for task, one in enumerate(truth))],
    }
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "settings.toml"
    path.write_text(SETS, encoding="utf-8")
    return path


def other_sets(rows: list[str], *tasks: str) -> list[str]:
    """Everybody gives these tasks another set: none of the classes, or all four."""
    return [
        row.rpartition(",")[0] + (",none" if "|" in row else ",a|b|c|d")
        if row.split(",")[1] in tasks
        else row
        for row in rows
    ]


SET_CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "the sets of one task": lambda rows: other_sets(rows, "t000"),
    "the sets of half of the tasks": lambda rows: other_sets(
        rows, *(f"t{one:03d}" for one in range(0, 90, 2))
    ),
    "one answer": lambda rows: [rows[0].rpartition(",")[0] + ",a|b|c|d", *rows[1:]],
}


def test_of_several_classes_nothing_shows_but_what_was_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likewise where answers are sets: who was removed, how many classes were left out, gold and all."""
    path, tape = campaign_of_sets(tmp_path / "campaign"), Tape(monkeypatch)
    shutil.copytree(path.parent, tmp_path / "unchanged")
    files, rows = shown_by(path)
    assert (len(files), len(tape.drawn)) == (4, 1)
    for number, change in enumerate(SET_CHANGES.values()):
        folder = tmp_path / f"changed {number}"
        shutil.copytree(tmp_path / "unchanged", folder)
        edit(folder / "labels.csv", change)
        edit(folder / "gold.csv", lambda gold: [gold[0].split(",")[0] + ",a|b", *gold[1:]])
        tape.rewind()
        public, ledger = shown_by(folder / "settings.toml")
        assert difference(files, public) == []
        assert ledger == rows
        assert tape.place == 1

"""Runs of several classes at once on public data recoded: what `crowdassay run` finds and publishes.

    python -m benchmarks.flows.several_in_a_run [--keep FOLDER]

With `--keep` the campaigns and their runs stay in a folder, to be looked at.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA
from benchmarks.quality.multilabel import recoded
from flows.files import output_folder
from flows.pipeline import run_pipeline
from flows.settings import load_settings
from flows.tables import read_parquet
from privacy import bounded_labels

SETS = ("web", "dog", "labelme", "music")
MAX_LABELS = 3
SETTINGS = """\
name = "{name}"
classes = {classes}

[input]
labels = "labels.csv"
gold = "gold.csv"
several = "|"

[privacy]
epsilon = 2.0
proportions_epsilon = 1.0
max_labels = {max_labels}
"""
HEADER = ("answers", "tasks, classes", "workers removed", "alpha, MASI", "exactly right", "vote", "macro-F1",
          "left out", "mean error of a share", "intervals that cover", "CPU s")  # fmt: skip
NOTE = """
Each public set is of one class a task, recoded: a cell holds the class and the two groups of neighbouring
classes that it is in, so that every answer and every truth has three of twice as many classes.

- `crowdassay run` as it is by default, with `several = "|"`, `max_labels = {most}`, epsilon 1 for the shares
  of all tasks, and gold to check.
- Exactly right is the share of gold tasks whose whole set is; the vote takes each class that more than half
  of a task's workers gave. Macro-F1 is over the classes.
- Left out are classes of the consensus beyond the bound, of all its classes. Published shares are compared
  with the exact ones of the run's own consensus within the bound; intervals are at 90%, of noise alone.
- CPU seconds are of the whole run in one process, pages and charts included.
""".strip()


def write_campaign(name: str, folder: Path) -> Path:
    """Write the tables and settings of a recoded set, and return the settings' path."""
    case = recoded(name, "groups")
    n = case.n_classes // 2
    called = [f"class-{code}" for code in range(n)]
    called += [f"group-{code}" for code in range(n)]
    output_folder(folder)

    def cell(codes: Any) -> str:
        return "|".join(called[code] for code in sorted(codes))

    rows = zip(case.worker, case.task, map(cell, case.sets), strict=True)
    labels = ["worker,task,label", *(f"w{worker},t{task},{said}" for worker, task, said in rows)]
    truth = zip(case.known.tolist(), case.truth, strict=True)
    gold = ["task,label", *(f"t{task},{cell(np.flatnonzero(row).tolist())}" for task, row in truth)]
    for file, lines in (("labels", labels), ("gold", gold)):
        (folder / f"{file}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "settings.toml"
    text = SETTINGS.format(name=name, classes=json.dumps(called), max_labels=MAX_LABELS)
    path.write_text(text, encoding="utf-8")
    return path


def bounded_shares(run: Path, classes: list[str]) -> np.ndarray:
    """Return the exact share of each class in a run's consensus, of its likeliest classes of a task."""
    cells = read_parquet(run / "class_cells.parquet")
    _, task = np.unique(np.array(cells["task"].to_pylist()), return_inverse=True)
    column = np.array([classes.index(name) for name in cells["class"].to_pylist()])
    chance = np.zeros((task.max() + 1, len(classes)))
    chance[task, column] = np.array(cells["probability"])
    shares: np.ndarray = bounded_labels(chance, max_labels=MAX_LABELS).mean(axis=0)
    return shares


def row_of(name: str, folder: Path) -> tuple[str, ...]:
    """Run a recoded set and return its row."""
    settings = load_settings(write_campaign(name, folder))
    began = time.process_time()
    run = run_pipeline(settings).folder
    cpu = time.process_time() - began
    inputs, quality, consensus, released = (
        json.loads((run / f"{one}.json").read_text(encoding="utf-8"))
        for one in ("inputs", "quality", "consensus", "proportions")
    )
    gold, left_out = consensus["gold"], released["n_left_out"]
    table = read_parquet(run / "proportions.parquet")
    share, low, high = (np.array(table[one]) for one in ("proportion", "low", "high"))
    exact = bounded_shares(run, inputs["classes"])
    covered = ((low <= exact) & (exact <= high)).sum()
    n_chosen = sum(one["n_tasks"] for one in consensus["sets"]["classes"])
    return (
        name,
        f"{inputs['n_labelled_tasks']:,}, {inputs['n_classes']}",
        f"{quality['n_removed']} of {inputs['n_workers']}",
        f"{quality['alpha']:.2f}",
        f"{gold['accuracy']:.1%}",
        f"{gold['majority_vote']:.1%}",
        f"{gold['macro_f1']:.3f}",
        f"{left_out:,} of {n_chosen:,}",
        f"{np.abs(share - exact).mean():.4f}",
        f"{covered} of {exact.size}",
        f"{cpu:.1f}",
    )


def main() -> None:
    """Run every set and publish the page."""
    parser = parser_of(__doc__)
    parser.add_argument("--keep", type=Path, default=None)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if keep is None else keep
        rows = [row_of(name, folder / name) for name in SETS if (DATA / name).is_dir()]
    publish(
        "several_in_a_run", "Several classes at once in a run", HEADER, rows,
        note=NOTE.format(most=MAX_LABELS),
    )  # fmt: skip


if __name__ == "__main__":
    main()

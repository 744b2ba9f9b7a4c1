"""A run with the settings that `crowdassay init` writes, by stage, at several sizes.

    python -m benchmarks.flows.default_run --shapes small million

Each shape is a simulated campaign of text ids in shuffled rows (degrees by a power law, or one to five
labels each where workers are many; 70 % of the workers honest, 20 % random, 10 % malicious), written as
Parquet with its task table: groups, features around class means, and a tenth of the tasks in groups
without labels. `init` proposes settings from the tables, and the run goes through them in a process of
its own, on all its threads; compiled kernels are loaded by a small run before the clock starts. CPU
seconds are those of all threads; wall seconds depend on what else the cores are doing. Peak memory is
that of the process so far, the interpreter, its libraries and the small run included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.flows.ingest import in_own_process, peak_megabytes
from benchmarks.publish import publish
from benchmarks.quality.crowdkit_speed import measure_crowdkit
from flows.pipeline import run_pipeline, run_stage
from flows.proposal import CampaignTables, write_settings
from flows.run import Run
from flows.settings import load_settings
from flows.stages import Stage
from flows.tables.tables import read_labels
from quality import power_law_assignment, simulate_crowd

HEADER = ("campaign", "stage", "cpu s", "wall s", "peak MB so far")
MOST_LABELS_OF_PEER = 1_000_000
PEER = "DawidSkene:100"
UNLABELLED = 0.1  # of the tasks


@dataclass(frozen=True)
class Shape:
    """The size of a campaign."""

    n_labels: int
    n_workers: int
    n_classes: int = 3
    n_groups: int = 20
    n_features: int = 8
    per_task: int = 5


SHAPES = {
    "small": Shape(20_000, 120),
    "million": Shape(1_000_000, 2_000),
    "ten-million": Shape(10_000_000, 20_000),
    "many-workers": Shape(3_000_000, 1_000_000),
    "many-classes": Shape(100_000, 2_000, n_classes=1_000, n_features=0),
    "most-classes": Shape(100_000, 2_000, n_classes=10_000, n_features=0),
    "many-groups": Shape(1_000_000, 2_000, n_classes=40, n_groups=5_000, n_features=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--folder", type=Path, help="run the campaign in this folder alone")
    asked = parser.parse_args()
    if asked.folder:
        print(json.dumps(measure(asked.folder)))
        return
    rows = []
    for name in asked.shapes:
        shape = SHAPES[name]
        title = (
            f"{shape.n_labels:,} labels, {shape.n_workers:,} workers, {shape.n_classes:,} classes, "
            f"{shape.n_groups:,} groups, {shape.n_features} features"
        )
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            write_campaign(folder, shape)
            found = in_own_process("flows.default_run", "--folder", str(folder))
            rows += [(title, stage, *map(_figure, figures)) for stage, *figures in found]
            if shape.n_labels <= MOST_LABELS_OF_PEER and shape.n_classes < 100:
                seconds = peer_seconds(folder / "labels.parquet")
                rows.append(
                    (
                        title,
                        f"crowd-kit's DawidSkene alone, {PEER[-3:]} iterations",
                        seconds,
                        "",
                        "",
                    )
                )
    note = " ".join(" ".join(__doc__.splitlines()[4:]).split())
    publish("default_run", "What a run does by default", HEADER, rows, note=note)


def measure(folder: Path) -> list[tuple[str, float, float, float]]:
    """Name, CPU and wall seconds and peak memory of each step of a campaign's run."""
    with tempfile.TemporaryDirectory() as scratch:
        warm = Path(scratch)
        write_campaign(warm, Shape(2_000, 30, n_groups=4))
        run_by_default(warm)
    lines = run_by_default(folder)
    total = [sum(line[place] for line in lines) for place in (1, 2)]
    return [*lines, ("whole run", *total, lines[-1][3])]


def run_by_default(folder: Path) -> list[tuple[str, float, float, float]]:
    """Propose settings and run them, each step under the clock."""
    lines = []
    begin = [time.process_time(), time.perf_counter()]

    def clock(name: str) -> None:
        now = [time.process_time(), time.perf_counter()]
        lines.append((name, now[0] - begin[0], now[1] - begin[1], peak_megabytes()))
        begin[:] = now

    def step(stage: Stage, run: Run) -> str:
        clock("between stages")
        line = run_stage(stage, run)
        clock(stage.name)
        return line

    settings = folder / "settings.toml"
    write_settings(
        settings,
        CampaignTables(folder / "labels.parquet", (folder / "tasks.parquet",)),
        name="trial",
    )
    clock("init")
    run_pipeline(load_settings(settings), step=step)
    clock("between stages")
    between = [line for line in lines if line[0] == "between stages"]
    rest = ("opening, closing", *(sum(line[at] for line in between) for at in (1, 2)), lines[-1][3])
    return [*(line for line in lines if line[0] != "between stages"), rest]


def write_campaign(folder: Path, shape: Shape) -> None:
    """Write labels.parquet and tasks.parquet of a simulated campaign."""
    rng = np.random.default_rng(0)
    n_labelled = shape.n_labels // shape.per_task
    n_tasks = round(n_labelled / (1 - UNLABELLED))
    truth = rng.integers(shape.n_classes, size=n_tasks)
    worker, task, label = labels_of(shape, truth[:n_labelled], rng)
    order = rng.permutation(len(task))
    number = rng.permutation(10 * n_tasks)[:n_tasks] * 1_000_003
    names = {
        "worker": pa.array([f"worker-{value:07d}" for value in range(shape.n_workers)]),
        "task": pa.array([f"task-{value:019d}" for value in number.tolist()]),
        "label": pa.array([f"class-{value:05d}" for value in range(shape.n_classes)]),
    }
    codes = {"worker": worker, "task": task, "label": label}
    labels = {name: names[name].take(pa.array(code[order])) for name, code in codes.items()}
    pq.write_table(pa.table(labels), folder / "labels.parquet", compression="zstd")
    n_labelled_groups = max(1, round(shape.n_groups * (1 - UNLABELLED)))
    group = np.arange(n_tasks) % n_labelled_groups
    group[n_labelled:] = n_labelled_groups + np.arange(n_tasks - n_labelled) % (
        shape.n_groups - n_labelled_groups
    )
    tasks = {
        "task": names["task"],
        "group": pa.array([f"group-{value:05d}" for value in group.tolist()]),
    }
    centre = rng.standard_normal((shape.n_classes, shape.n_features))
    for place in range(shape.n_features):
        feature = centre[truth, place] + rng.standard_normal(n_tasks)
        tasks[f"x{place}"] = pa.array(feature.astype(np.float32))
    pq.write_table(pa.table(tasks), folder / "tasks.parquet", compression="zstd")


def labels_of(
    shape: Shape, truth: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Worker, task and class code of each label."""
    n_workers = shape.n_workers
    if shape.n_labels < 10 * n_workers:  # an open crowd: each worker comes by once
        return open_crowd(shape, truth, rng)
    assignment = power_law_assignment(
        n_tasks=len(truth), n_workers=n_workers, labels_per_task=shape.per_task, rng=rng
    )
    adversaries = {"random": n_workers // 5, "malicious": n_workers // 10}
    crowd = simulate_crowd(
        assignment, truth, n_classes=shape.n_classes, adversaries=adversaries, rng=rng
    )
    return crowd.worker, crowd.task, crowd.label


def open_crowd(
    shape: Shape, truth: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each worker has a block of neighbouring tasks, so that nobody has one twice."""
    size = rng.integers(1, 2 * (shape.n_labels // shape.n_workers), size=shape.n_workers)
    worker = np.repeat(np.arange(shape.n_workers), size)[: shape.n_labels]
    task = np.arange(len(worker)) % len(truth)
    reliability = np.where(
        np.arange(shape.n_workers) % 10 < 7, rng.beta(12, 3, shape.n_workers), 1 / shape.n_classes
    )
    reliability[np.arange(shape.n_workers) % 10 == 9] = 0.0
    right = rng.random(len(worker)) < reliability[worker]
    other = (truth[task] + rng.integers(1, shape.n_classes, len(task))) % shape.n_classes
    return worker, task, np.where(right, truth[task], other)


def peer_seconds(path: Path) -> str:
    """CPU seconds of crowd-kit's Dawid–Skene on the same labels, as integer codes."""
    labels = read_labels(path, classes=None, duplicates="error", known_tasks=None)
    return _figure(float(measure_crowdkit(labels, PEER).seconds[PEER]))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


if __name__ == "__main__":
    main()

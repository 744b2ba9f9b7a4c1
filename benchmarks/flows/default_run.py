"""A run with the settings that `crowdassay init` writes, by stage, at several sizes.

    python -m benchmarks.flows.default_run --shapes many-workers ten-million

Each shape is a simulated campaign of text ids in shuffled rows, written as Parquet with its task table:
groups, features around class means, and a tenth of the tasks in groups without labels. Workers have
labels by a power law or, where they are many, one to five neighbouring tasks each. 70 % of them are
honest, 20 % answer at random, 10 % are malicious.

`init` proposes settings from the tables, and the run goes through them in a process of its own, on all
its threads. On shards an `[engine]` is added to them, with `whole_labels = 0`: nothing is done on the
whole table, as beyond twenty million labels. All kernels are compiled first, and a small run loads those
that it needs before the clock starts. A refusal is given in its own words.

CPU seconds are those of all threads; wall seconds depend on what else the cores are doing, and CPU seconds
on what else the machine is doing: a loop in Python, timed before and after, says how fast it was. Peak memory
is that of the process so far: the interpreter, its libraries and the small run included, and pages of files
that are mapped, which the system takes back when it needs them.

A large campaign takes long, so the command measures the shapes that it is asked for and keeps the other
rows of the page. The last column is the day on which a row was measured.

The last rows are no measurements. They carry the labels' CPU seconds and memory on, from the smallest to
the largest of the campaigns on shards, in proportion to the labels.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.flows.ingest import in_own_process, peak_megabytes
from benchmarks.machine import LOOP, loop_seconds
from benchmarks.publish import RESULTS, parser_of, publish
from benchmarks.quality.crowdkit_speed import measure_crowdkit
from flows.cli.kernels import compile_kernels
from flows.pipeline import run_pipeline, run_stage
from flows.proposal import CampaignTables, write_settings
from flows.run import Run
from flows.settings import load_settings
from flows.stages import Stage
from flows.tables.tables import read_labels
from quality import power_law_assignment, simulate_crowd

HEADER = ("campaign", "stage", "cpu s", "wall s", "peak MB so far", "measured")
MOST_LABELS_OF_PEER = 1_000_000
PEER_ITERATIONS = 20  # of the hundred that crowd-kit makes by default
DAY, CORES, MEMORY_GB = 86_400, 16, 64  # of a machine that is to be done within a day
UNLABELLED = 0.1  # of the tasks
AT_ONCE = 1_048_576  # labels written as text
REFUSED = "refused: "
ENGINE = "engine.toml"  # what is added to the settings
PAGE = RESULTS / "default_run.md"


@dataclass(frozen=True)
class Shape:
    """The size of a campaign."""

    n_labels: int
    n_workers: int
    n_classes: int = 3
    n_groups: int = 20
    n_features: int = 8
    per_task: int = 5
    on_shards: bool = False

    @property
    def title(self) -> str:
        """The size in words."""
        return (
            f"{self.n_labels:,} labels, {self.n_workers:,} workers, {self.n_classes:,} classes, "
            f"{self.n_groups:,} groups, {self.n_features} features{', on shards' * self.on_shards}"
        )


SHAPES = {
    "small": Shape(20_000, 120),
    "million": Shape(1_000_000, 2_000),
    "ten-million": Shape(10_000_000, 20_000),
    "million-on-shards": Shape(1_000_000, 2_000, on_shards=True),
    "ten-million-on-shards": Shape(10_000_000, 20_000, on_shards=True),
    "hundred-million-on-shards": Shape(100_000_000, 200_000, n_features=20, on_shards=True),
    "many-workers": Shape(3_000_000, 1_000_000),
    "many-classes": Shape(100_000, 2_000, n_classes=1_000, n_features=0),
    "most-classes": Shape(100_000, 2_000, n_classes=10_000, n_features=0),
    "many-groups": Shape(1_000_000, 2_000, n_classes=40, n_groups=5_000, n_features=0),
}


USUAL = ("small", "million", "many-classes", "most-classes")  # the others take many minutes


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(USUAL))
    parser.add_argument("--folder", type=Path, help="run the campaign in this folder alone")
    asked = parser.parse_args()
    if asked.folder:
        print(json.dumps(measure(asked.folder)))
        return
    compile_kernels()
    note = "\n\n".join(" ".join(part.split()) for part in __doc__.split("\n\n")[2:])
    day = date.today().isoformat()
    for name in asked.shapes:
        shape = SHAPES[name]
        peer = shape.n_labels <= MOST_LABELS_OF_PEER and not shape.on_shards
        before_it = loop_seconds()
        found, seconds = measured(shape, peer=peer)
        speed = _figure((before_it + loop_seconds()) / 2)
        rows = [(shape.title, stage, *map(_figure, figures), day) for stage, *figures in found]
        rows.append((shape.title, LOOP, speed, "", "", day))
        if seconds is not None:
            said = f"crowd-kit's DawidSkene alone, {PEER_ITERATIONS} iterations"
            rows.append((shape.title, said, _figure(seconds), "", "", day))
        before = rows_of(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
        before[shape.title] = rows
        every = [row for one in SHAPES.values() for row in before.get(one.title, ())]
        everything = every + carried_on(totals_in(before))  # at once: the next may take an hour
        publish("default_run", "What a run does by default", HEADER, everything, note=note)


def rows_of(page: str) -> dict[str, list[tuple[str, ...]]]:
    r"""The rows of a page's table, by their first cell.

    >>> rows_of("| a | b |\n|---|---|\n| small | 1 |\n| small | 2 |")
    {'small': [('small', '1'), ('small', '2')]}
    """
    found: dict[str, list[tuple[str, ...]]] = {}
    table = [line for line in page.splitlines() if line.startswith("| ")]
    for line in table[1:]:
        cells = tuple(line.removeprefix("| ").removesuffix(" |").split(" | "))
        found.setdefault(cells[0], []).append(cells)
    return found


def totals_in(rows: dict[str, list[tuple[str, ...]]]) -> dict[int, tuple[float, float]]:
    """CPU seconds and peak memory of the whole runs on shards, by labels."""
    totals = {}
    for shape in SHAPES.values():
        for _, stage, cpu, _, memory, *_ in rows.get(shape.title, ()):
            if stage == "whole run" and shape.on_shards:
                figures = (float(figure.replace(",", "")) for figure in (cpu, memory))
                totals[shape.n_labels] = (next(figures), next(figures))
    return totals


def measured(
    shape: Shape, *, peer: bool
) -> tuple[list[tuple[str, float, float, float]], float | None]:
    """Name, CPU and wall seconds and peak memory of each step; and the peer's CPU seconds, if asked for.

    There is no peer for a hundred classes or more: its tables are a row for each worker and class.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_campaign(folder, shape)
        found = in_own_process("flows.default_run", "--folder", str(folder))
        if not peer or shape.n_classes >= 100:
            return found, None
        return found, peer_seconds(folder / "labels.parquet", PEER_ITERATIONS)


def ratio_to_crowdkit_alone(n_labels: int) -> float:
    """How many times a whole default run goes into 100 iterations of crowd-kit's Dawid–Skene."""
    shape = Shape(n_labels, n_labels // 500)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_campaign(folder, shape)
        *_, (_, seconds, _, _) = in_own_process("flows.default_run", "--folder", str(folder))
        return peer_seconds(folder / "labels.parquet", 100) / seconds


def carried_on(totals: dict[int, tuple[float, float]]) -> list[tuple[str, ...]]:
    """What 1e9 and 1e10 labels would take, and how many machines, by two or more of the totals."""
    if len(totals) < 2:
        return []
    low, high = min(totals), max(totals)
    cpu, memory = ((totals[high][at] - totals[low][at]) / (high - low) for at in (0, 1))
    rows = []
    for n_labels in (10**9, 10**10):
        seconds, megabytes = cpu * n_labels, memory * n_labels
        by_time, by_memory = seconds / (DAY * CORES), megabytes / (MEMORY_GB * 1e3)
        machines = math.ceil(max(by_time, by_memory))
        what = (
            f"in proportion: {seconds / 3600:,.0f} CPU hours, and {megabytes / 1e3:,.0f} GB with the pages "
            f"of mapped files; {machines:,} machines of {CORES} cores and {MEMORY_GB} GB for a day"
        )
        figures = _figure(seconds), "", _figure(megabytes), ""
        rows.append((f"{n_labels:,} labels", what, *figures))
    return rows


def measure(
    folder: Path, *, aggregator: str | None = None
) -> list[tuple[str, float, float, float]]:
    """Name, CPU and wall seconds and peak memory of each step of a campaign's run.

    By the aggregator that is asked for, where one is.
    """
    with tempfile.TemporaryDirectory() as scratch:
        warm = Path(scratch)
        write_campaign(warm, Shape(2_000, 30))
        run_by_default(warm, aggregator)
    lines = run_by_default(folder, aggregator)
    if lines[-1][0].startswith(REFUSED):
        return lines
    total = [sum(line[place] for line in lines) for place in (1, 2)]
    return [*lines, ("whole run", *total, lines[-1][3])]


def run_by_default(
    folder: Path, aggregator: str | None = None
) -> list[tuple[str, float, float, float]]:
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
    tables = CampaignTables(folder / "labels.parquet", (folder / "tasks.parquet",))
    try:
        write_settings(settings, tables, name="trial")
        if (folder / ENGINE).exists():
            more = (folder / ENGINE).read_text(encoding="utf-8")
            settings.write_text(settings.read_text(encoding="utf-8") + more, encoding="utf-8")
        if aggregator:
            proposed = settings.read_text(encoding="utf-8")
            asked = proposed.replace("[consensus]", f'[consensus]\naggregator = "{aggregator}"', 1)
            settings.write_text(asked, encoding="utf-8")
        clock("init")
        run_pipeline(load_settings(settings), step=step)
    except ValueError as error:
        clock(f"{REFUSED}{error}")
        return [line for line in lines if line[0] != "between stages"]
    clock("between stages")
    between = [line for line in lines if line[0] == "between stages"]
    rest = ("opening, closing", *(sum(line[at] for line in between) for at in (1, 2)), lines[-1][3])
    return [*(line for line in lines if line[0] != "between stages"), rest]


def write_campaign(folder: Path, shape: Shape) -> None:
    """Write labels.parquet and tasks.parquet of a simulated campaign, and the engine that it asks for."""
    if shape.on_shards:
        (folder / ENGINE).write_text("\n[engine]\nwhole_labels = 0\n", encoding="utf-8")
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
    schema = pa.schema([(name, pa.string()) for name in codes])
    with pq.ParquetWriter(folder / "labels.parquet", schema, compression="zstd") as file:
        for first in range(0, len(order), AT_ONCE):
            rows = order[first : first + AT_ONCE]
            file.write_table(
                pa.table(
                    {key: names[key].take(pa.array(code[rows])) for key, code in codes.items()}
                )
            )
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
    if is_open(shape):
        return open_crowd(shape, truth, rng)
    assignment = power_law_assignment(
        n_tasks=len(truth), n_workers=n_workers, labels_per_task=shape.per_task, rng=rng
    )
    adversaries = {"random": n_workers // 5, "malicious": n_workers // 10}
    crowd = simulate_crowd(
        assignment, truth, n_classes=shape.n_classes, adversaries=adversaries, rng=rng
    )
    return crowd.worker, crowd.task, crowd.label


def is_open(shape: Shape) -> bool:
    """Whether each worker comes by once."""
    return shape.n_labels < 10 * shape.n_workers


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


def peer_seconds(path: Path, n_iter: int) -> float:
    """CPU seconds of crowd-kit's Dawid–Skene on the same labels, as integer codes."""
    labels = read_labels(path, classes=None, duplicates="error", known_tasks=None)
    work = f"DawidSkene:{n_iter}"
    return float(measure_crowdkit(labels, work).seconds[work])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


if __name__ == "__main__":
    main()

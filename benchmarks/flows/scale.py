"""The cost of a Dawid–Skene iteration on tables of a million labels and more, and an estimate beyond.

    python -m benchmarks.flows.scale

A simulated crowd (5 labels a task, 4 classes, four labels in five right) is written as Parquet,
streamed into shards of 5,000,000 labels, and fitted from there. Each row is a process of
its own, which counts what it and its Dask workers take. *Held* shards stay in memory between
passes, *streamed* ones are read from disk in every pass. CPU seconds are those of all threads and
processes; wall seconds depend on what else the cores are doing. Moved is an upper bound:
the table of
probabilities to every process, and the expected counts of every shard to where they are added up;
threads move nothing. Peak is of the process that runs the fit, its streaming into shards included.

The penalties of the tables by the smallest crowd go to a page of their own, `scale_penalties`.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from benchmarks.flows.ingest import in_own_process, peak_megabytes
from benchmarks.publish import parser_of, publish
from flows.settings import EngineSettings
from flows.sharding.engine import open_engine
from flows.sharding.shards import open_shards, write_shards
from quality import (
    LocalEngine,
    balanced_loads,
    conflict_graph_by_shards,
    cut_labels,
    encode,
    load_levels,
)
from quality.aggregation.em import EMFit
from quality.aggregation.sharded_em import dawid_skene_by_shards
from quality.reputation.penalties import soft_penalty_by_shards
from quality.reputation.sharded_filtering import filter_workers_by_shards

HEADER = (
    "labels", "workers", "runs on", "into shards, cpu s", "cpu s / iteration", "wall s / iteration",
    "ns / label / iteration", "peak MB", "MB moved / iteration",
)  # fmt: skip
PENALTIES = "soft", "filter", "conflict graph", "hard", "balanced"
PENALTY_NOTE = """
The tables and shards of `benchmarks.flows.scale`, each in a process of its own, shards read from disk in
every pass. The soft penalty is a pass over the shards. The filter removes 15 % of the workers by it,
one by one, with a pass for many of them at once, and looks again at the tasks of each removed
worker. The conflict graph takes one more pass and comes together in this process; the hard
penalty (levels, every optimum's largest and smallest load) and the balanced penalty are
optimal over the whole graph, found here on one core. CPU
seconds are those of all threads. Peak is of the process. In each table the balanced loads, rounded up,
were the hard levels: two algorithms, one optimum.
"""
N_WORKERS, N_CLASSES, PER_TASK = 10_000, 4, 5
CROWDS_LABELS = 10**7  # of the tables by larger crowds, whose confusion matrices leave the caches
SHARD, BLOCK = 5_000_000, 200_000  # labels of a shard; tasks written at once
HELD_GB = 4.0
DASK_PROCESSES = 2
BEYOND = {10**9: 100_000, 10**10: 1_000_000}  # labels, and workers of such a crowd
ITERATIONS, CORES, LARGE_SHARD = 50, 16, 10**8  # of a fit; of a machine; labels, 0.8 GB in memory

Found = tuple[int, int, str, dict[str, float]]  # labels, workers, how they were run, figures


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[10**6, 10**7, 10**8])
    parser.add_argument("--crowds", type=int, nargs="*", default=list(BEYOND.values()))
    parser.add_argument("--dask", type=int, nargs="*", default=[10**6, 10**7])
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "HOW"))
    asked = parser.parse_args()
    if asked.measure:
        folder, how = Path(asked.measure[0]), asked.measure[1]
        figures = (
            penalties(folder) if how == "penalties" else measure(folder, how, asked.iterations)
        )
        print(json.dumps(figures))
        return
    tables = [(size, N_WORKERS) for size in sorted({*asked.labels, *asked.dask})]
    found: list[Found] = []
    judged: list[tuple[str, ...]] = []
    for n_labels, n_workers in [*((CROWDS_LABELS, crowd) for crowd in asked.crowds), *tables]:
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            write_crowd(Path(folder) / "labels.parquet", n_labels, n_workers)
            crowd = n_workers != N_WORKERS
            for how in ["streamed"] if crowd else runs_of(n_labels, asked.labels, asked.dask):
                arguments = ("--measure", folder, how, "--iterations", str(asked.iterations))
                figures = in_own_process("flows.scale", *arguments)
                found.append((n_labels, n_workers, how, figures))
                print(*found[-1], flush=True)
            if not crowd:
                figures = in_own_process("flows.scale", "--measure", folder, "penalties")
                judged.append(penalty_row(n_labels, figures))
                print(*judged[-1], flush=True)
    publish_fits(found)
    header = (
        "labels",
        "label nodes",
        "entries",
        *(f"{name}, cpu s" for name in PENALTIES),
        "peak MB",
    )
    note = " ".join(PENALTY_NOTE.split())
    publish("scale_penalties", "Penalties past memory", header, judged, note=note)


def publish_fits(found: list[Found]) -> None:
    """Print and write what was found, the smallest table first."""
    rows = [row_of(*one) for one in sorted(found, key=lambda one: one[:2])]
    title = "Dawid–Skene past memory and past one machine"
    publish("scale", title, HEADER, rows, note=described(found))


def runs_of(n_labels: int, local: list[int], dask: list[int]) -> list[str]:
    """Ways to run one size; what would take most of a small machine's memory is streamed alone."""
    runs = ["streamed"] if n_labels in local else []
    runs += ["held"] if n_labels in local and n_labels <= 10**7 else []
    return runs + (["dask"] if n_labels in dask else [])


def measure(folder: Path, how: str, n_iter: int) -> dict[str, float]:
    """Seconds of an iteration and peak memory; the first run of a folder makes its shards."""
    begin = time.process_time()
    if not (folder / "shards").exists():
        write_shards(
            folder / "labels.parquet", folder / "shards", shard_labels=SHARD, memory_gb=1.5,
            classes=None, duplicates="error",
        )  # fmt: skip
    into_shards = time.process_time() - begin
    shards = open_shards(folder / "shards")
    chosen = EngineSettings(
        kind="dask" if how == "dask" else "local",
        workers=DASK_PROCESSES if how == "dask" else None,
        memory_gb=HELD_GB,
    )
    hold = how != "streamed"
    seconds: list[tuple[float, float]] = []
    with open_engine(shards, chosen, hold=hold) as engine:

        def after(_: EMFit) -> None:
            workers = cast(Any, engine).client.run(time.process_time) if how == "dask" else {}
            seconds.append((time.process_time() + sum(workers.values()), time.perf_counter()))

        dawid_skene_by_shards(engine, max_iter=n_iter + 1, tol=0.0, after=after)
    cpu, wall = np.diff(seconds, axis=0).mean(axis=0).tolist()
    size = sum(path.stat().st_size for path in shards.paths)
    places = DASK_PROCESSES + len(shards.paths) if how == "dask" else 0
    return {
        "into_shards": into_shards, "cpu": cpu, "wall": wall, "peak": peak_megabytes(),
        "moved": places * payload(shards.n_workers) / 1e6, "disk": size / 1e6,
    }  # fmt: skip


def penalties(folder: Path) -> dict[str, float]:
    """Seconds of each penalty on the shards of a folder, and peak memory."""
    small = csr_array(np.ones((2, 2), dtype=np.int8))
    load_levels(small), balanced_loads(small)  # compiled before
    tiny = LocalEngine(cut_labels(encode([0, 1, 2], [0, 0, 0], [0, 1, 1]), [0, 1]))
    filter_workers_by_shards(tiny, np.arange(1), n_workers=1)
    shards, seconds = open_shards(folder / "shards"), [time.process_time()]
    with open_engine(shards, EngineSettings(kind="local", memory_gb=HELD_GB), hold=False) as engine:
        soft_penalty_by_shards(engine)
        seconds.append(time.process_time())
        filter_workers_by_shards(engine, np.arange(shards.n_tasks), fraction=0.15)
        seconds.append(time.process_time())
        graph = conflict_graph_by_shards(engine)
    seconds.append(time.process_time())
    levels = load_levels(graph)
    seconds.append(time.process_time())
    load = balanced_loads(graph).load
    seconds.append(time.process_time())
    if not np.array_equal(np.ceil(load - 1e-6), levels.level):
        raise RuntimeError("the balanced load rounded up must be the hard level")
    spent = dict(zip(PENALTIES, np.diff(seconds).tolist(), strict=True))
    return {**spent, "nodes": graph.shape[0], "entries": graph.nnz, "peak": peak_megabytes()}


def penalty_row(n_labels: int, found: dict[str, float]) -> tuple[str, ...]:
    cells = (f"{found[name]:.2f}" for name in PENALTIES)
    sizes = (f"{found[name]:,.0f}" for name in ("nodes", "entries"))
    return (f"{n_labels:,}", *sizes, *cells, f"{found['peak']:.0f}")


def payload(n_workers: int) -> int:
    """Bytes of a table of probabilities, which are those of the expected counts."""
    return 8 * n_workers * N_CLASSES**2


def row_of(n_labels: int, n_workers: int, how: str, found: dict[str, float]) -> tuple[str, ...]:
    named = {"dask": f"Dask, {DASK_PROCESSES} processes", "held": "threads, held"}
    into = f"{found['into_shards']:.1f}" if found["into_shards"] > 0.05 else ""
    return (
        f"{n_labels:,}", f"{n_workers:,}", named.get(how, "threads, streamed"), into, f"{found['cpu']:.3f}",
        f"{found['wall']:.3f}", f"{1e9 * found['cpu'] / n_labels:.0f}", f"{found['peak']:.0f}",
        f"{found['moved']:.1f}",
    )  # fmt: skip


def described(found: list[Found]) -> str:
    """How it was measured, and what larger tables need by these figures."""
    parts = [" ".join(__doc__.split("\n\n")[2].split())]
    streamed = {(n, crowd): one for n, crowd, how, one in found if how == "streamed"}
    parts.append(
        f"Larger tables are computed, not run: with the streamed row of as many workers, "
        f"{ITERATIONS} iterations, and machines of {CORES} such cores,"
    )
    parts += [
        _worked_out(beyond, n_workers, streamed[CROWDS_LABELS, n_workers])
        for beyond, n_workers in BEYOND.items()
        if (CROWDS_LABELS, n_workers) in streamed
    ]
    if overhead := overhead_of(found):
        parts.append(overhead)
    parts.append(f"{os.cpu_count()} cores, shared with other work.")
    return " ".join(parts)


def _worked_out(n_labels: int, n_workers: int, row: dict[str, float]) -> str:
    """What a table beyond those that were run needs, by one row's figures."""
    each, into = row["cpu"] / CROWDS_LABELS, row["into_shards"] / CROWDS_LABELS
    fit, cut = n_labels * each * ITERATIONS / 3600, n_labels * into / 3600
    small, large = (
        (CORES + math.ceil(n_labels / size)) * payload(n_workers) / 1e9
        for size in (SHARD, LARGE_SHARD)
    )
    minutes = 60 * (cut + fit) / CORES
    return (
        f"{n_labels:.0e} labels by {n_workers:,} workers take {cut:.1f} core hours into shards "
        f"({n_labels * row['disk'] / CROWDS_LABELS / 1e3:.0f} GB on disk) and {fit:.1f} core hours to "
        f"fit, that is {minutes:.2g} minutes on one machine and {minutes / 10:.2g} on ten; an iteration "
        f"moves {small:.1f} GB at most with these shards, {large:.1f} GB with shards of {LARGE_SHARD:,} "
        "labels."
    )


def overhead_of(found: list[Found]) -> str:
    """Dask beside threads that hold the same shards."""
    by_run: dict[tuple[int, str], Any] = {
        (n, how): one for n, crowd, how, one in found if crowd == N_WORKERS
    }
    ratios = [
        f"{n_labels:,} labels {one['cpu'] / by_run[n_labels, 'held']['cpu']:.2f} times the CPU and "
        f"{one['wall'] / by_run[n_labels, 'held']['wall']:.2f} times the wall seconds"
        for (n_labels, how), one in by_run.items()
        if how == "dask" and (n_labels, "held") in by_run
    ]
    return (
        f"Dask takes of {' and of '.join(ratios)} of threads that hold the shards."
        if ratios
        else ""
    )


def write_crowd(path: Path, n_labels: int, n_workers: int) -> None:
    """A crowd of integer names, its rows shuffled within blocks of tasks; never whole in memory."""
    rng, n_tasks = np.random.default_rng(0), n_labels // PER_TASK
    schema = pa.schema([("worker", pa.int32()), ("task", pa.int32()), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first in range(0, n_tasks, BLOCK):
            task = np.arange(first, min(first + BLOCK, n_tasks), dtype=np.int32)
            step = rng.integers(1, n_workers // PER_TASK, size=(task.size, 1))
            begin = rng.integers(n_workers, size=(task.size, 1))
            worker = (begin + step * np.arange(PER_TASK)) % n_workers  # five who differ
            truth = rng.integers(N_CLASSES, size=(task.size, 1))
            wrong = rng.integers(N_CLASSES, size=worker.shape)
            label = np.where(rng.random(worker.shape) < 0.8, truth, wrong)
            order = rng.permutation(worker.size)
            columns = (worker.ravel(), np.repeat(task, PER_TASK), label.ravel())
            cells = [
                pa.array(column[order], type=field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(cells, schema=schema))


if __name__ == "__main__":
    main()

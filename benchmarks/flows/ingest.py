"""The cost of reading a Parquet file into the label table, beside pandas and DuckDB, which do less.

    python -m benchmarks.flows.ingest --labels 1000000

A simulated crowd (5 labels a task, 250 a worker on average, degrees by a power law, rows shuffled) is
written as zstd Parquet: once with task ids of 24 characters, once with integer ids. Each path reads it
in a process of its own, three times, and the page shows the time with the least CPU seconds. Compiled
kernels are loaded before the clock starts, and 2 GB of memory are touched just before, so that the first
path does not pay for pages that a virtual machine fetches anew; the last sentence gives that cost. CPU
seconds are those of all threads; "of it system" is the part of the operating system, almost all of it
the supply of memory. Wall seconds depend on what else the cores are doing. "Rows" names the result:
*sorted table* is a `CrowdLabels` (missing values and repeats refused, names sorted, rows sorted by task
and worker); *codes* are integers in the order of the file, nothing checked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.publish import parser_of, publish
from flows.tables.tables import read_labels
from quality import CrowdLabels, encode, power_law_assignment, simulate_crowd

COLUMNS = ("worker", "task", "label")
TRIES, MOST_MEMORY = 3, 2_000_000_000
HEADER = ("ids", "path", "rows", "cpu s", "of it system", "wall s", "peak MB", "cpu / read_labels")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--path", help="measure this path alone, on --file")
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()
    if given.path:
        print(json.dumps(measure(PATHS[given.path][1], given.file)))
        return
    rows, sizes, (fresh, again) = [], {}, fresh_memory()
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("text", "integer"):
            path = Path(folder) / f"{ids}.parquet"
            write_crowd(path, given.labels, text=ids == "text")
            sizes[ids] = path.stat().st_size / 1e6
            ours = 0.0
            for name, (kind, _) in PATHS.items():
                asked = "--path", name, "--file", str(path)
                found = min(
                    (in_handed_out_memory(*asked) for _ in range(TRIES)), key=itemgetter("cpu")
                )
                ours = ours or found["cpu"]
                seconds = (f"{found[what]:.2f}" for what in ("cpu", "system", "wall"))
                ratio = f"{found['cpu'] / ours:.2f}x"
                rows.append((ids, name, kind, *seconds, f"{found['peak']:.0f}", ratio))
    note = (
        " ".join(" ".join(__doc__.splitlines()[4:]).split())
        + f" {given.labels:,} labels; {sizes['text']:.0f} MB with text ids, {sizes['integer']:.0f} MB "
        f"with integers; in the same run copying 64 MB ran at {copy_bandwidth():.1f} GB/s, and touching "
        f"400 MB took {fresh:.2f} CPU s, with memory that the system had handed out just before "
        f"{again:.2f}."
    )
    title = f"Reading {given.labels:,} labels"
    publish("ingest", title, HEADER, rows, note=note)


def by_us(path: Path) -> CrowdLabels:
    return read_labels(path, classes=None, duplicates="error", known_tasks=None)


def by_encode(path: Path) -> CrowdLabels:
    frame = pd.read_parquet(path)
    return encode(frame["worker"], frame["task"], frame["label"])


def by_pandas(path: Path) -> list[np.ndarray]:
    frame = pd.read_parquet(path)
    return [pd.factorize(frame[name])[0] for name in COLUMNS]


def by_duckdb(path: Path) -> dict[str, np.ndarray]:
    """The shortest exact coding in SQL: distinct values, numbered, joined."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE raw AS SELECT * FROM read_parquet(?)", [str(path)])
    for name in COLUMNS:
        numbered = f"SELECT {name}, (row_number() OVER () - 1)::INTEGER AS {name}_code"
        connection.execute(
            f"CREATE TABLE {name}s AS {numbered} FROM (SELECT DISTINCT {name} FROM raw)"
        )
    joins = " ".join(f"JOIN {name}s USING ({name})" for name in COLUMNS)
    codes = ", ".join(f"{name}_code" for name in COLUMNS)
    return connection.execute(f"SELECT {codes} FROM raw {joins}").fetchnumpy()


PATHS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "read_labels": ("sorted table", by_us),
    "pandas.read_parquet + encode": ("sorted table", by_encode),
    "pandas.read_parquet + factorize": ("codes", by_pandas),
    "duckdb distinct + join": ("codes", by_duckdb),
}


def measure(act: Callable[[Path], Any], path: Path) -> dict[str, float]:
    """Seconds and peak memory of one path in this process."""
    with tempfile.TemporaryDirectory() as folder:
        for text in (True, False):  # kernels loaded
            small = Path(folder) / f"{text}.parquet"
            write_crowd(small, 5_000, text=text)
            act(small)
    before, wall = os.times(), time.perf_counter()
    act(path)
    after, wall = os.times(), time.perf_counter() - wall
    system = after.system - before.system
    cpu = after.user - before.user + system
    return {"cpu": cpu, "system": system, "wall": wall, "peak": peak_megabytes()}


def in_handed_out_memory(*arguments: str) -> dict[str, float]:
    """What a path took in pages that the system need not fetch from whatever the machine runs on."""
    touch(MOST_MEMORY)
    found: dict[str, float] = in_own_process("flows.ingest", *arguments)
    return found


def touch(n_bytes: int) -> None:
    """Write to every page of so much memory, and give it back."""
    np.empty(n_bytes, dtype=np.uint8)[::4096] = 1


def in_own_process(benchmark: str, *arguments: str) -> Any:
    """What a benchmark prints as JSON when it runs alone."""
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def peak_megabytes() -> float:
    """Most memory this process ever held, by Linux's account; `getrusage` would count its parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def copy_bandwidth() -> float:
    """Bytes read and written in a second of copying 64 MB, the best of five, in 1e9."""
    source = np.ones(8_000_000)
    target, seconds = np.empty_like(source), []
    for _ in range(5):
        begin = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - begin)
    return 2 * source.nbytes / min(seconds) / 1e9


def fresh_memory() -> list[float]:
    """CPU seconds of touching every page of 400 MB, and of doing so once more in what that gave back."""
    seconds = []
    for _ in range(2):
        begin = time.process_time()
        touch(400_000_000)
        seconds.append(time.process_time() - begin)
    return seconds


def write_crowd(path: Path, n_labels: int, *, text: bool) -> None:
    """A power-law crowd of 70 % honest, 20 % random and 10 % malicious workers, two classes."""
    rng = np.random.default_rng(0)
    n_tasks, n_workers = n_labels // 5, n_labels // 250
    rows = power_law_assignment(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=5, rng=rng)
    adversaries = {"random": n_workers // 5, "malicious": n_workers // 10}
    truth = rng.integers(2, size=n_tasks)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries=adversaries, rng=rng)
    order = rng.permutation(len(crowd.task))
    columns = {name: pa.array(getattr(crowd, name)[order]) for name in COLUMNS}
    if text:
        number = rng.permutation(10 * n_tasks)[:n_tasks] * 1_000_003
        tasks = pa.array([f"task-{value:019d}" for value in number.tolist()])
        workers = pa.array([f"worker-{value:06d}" for value in range(n_workers)])
        books = {"worker": workers, "task": tasks, "label": pa.array(["no", "yes"])}
        columns = {name: books[name].take(codes) for name, codes in columns.items()}
    pq.write_table(pa.table(columns), path, compression="zstd")


if __name__ == "__main__":
    main()

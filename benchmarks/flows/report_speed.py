"""The time to build the two reports of a large campaign, and the size of the pages.

    python -m benchmarks.flows.report_speed

CPU time of `flows.report.write_reports` on the run folder of a drawn crowd, the least of three: pages,
charts and the release files. A page lists the ends of a crowd and adds up the rest.
Exits with 1 where 100,000 workers and tasks take 2 s or more, or a page has 1 MB or more.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.publish import parser_of, publish
from benchmarks.quality.dawid_skene_speed import least
from flows.report import write_reports
from tests.flows.report.report_folder import edit, write_folder

SIZES = (1_000, 100_000)
SECONDS, BYTES = 2.0, 1_000_000
HEADER = ("workers", "tasks", "seconds", "report.html", "public.html", "promised")


def main() -> None:
    parser_of(__doc__).parse_args()
    rows, kept = [], []
    for size in SIZES:
        with TemporaryDirectory() as name:
            folder = campaign(Path(name), size)
            write_reports(folder)  # imported, and the templates compiled
            seconds, _ = least(time.process_time, lambda folder=folder: write_reports(folder), 3)
            pages = [(folder / f"{page}.html").stat().st_size for page in ("report", "public")]
        kept.append(seconds < SECONDS and max(pages) < BYTES)
        sizes = (f"{n_bytes / 1000:,.0f} kB" for n_bytes in pages)
        rows.append(
            (f"{size:,}", f"{size:,}", f"{seconds:.2f}", *sizes, "yes" if kept[-1] else "NO")
        )
    note = " ".join(" ".join(__doc__.splitlines()[4:]).split())
    publish("report_speed", "Building the reports", HEADER, rows, note=note)
    if not all(kept):
        raise SystemExit(1)


def campaign(folder: Path, size: int) -> Path:
    """A run folder with so many workers and tasks, in a hundred groups."""
    write_folder(folder, workers=100, flagged=10, groups=100)
    rng = np.random.default_rng(0)
    few = pq.read_table(folder / "workers.parquet")
    workers = few.take(pa.array(np.sort(rng.integers(0, len(few), size))))
    names = pa.array([f"A{code:013d}" for code in range(size)])
    workers = _with(workers, {"worker": names, "rank": pa.array(np.arange(1, size + 1))})
    pq.write_table(workers, folder / "workers.parquet")
    first, second = names[:2].to_pylist()
    pair = {"workers": [first, second], "n_shared": 41, "n_same": 17, "expected": 3.25}
    edit(
        folder / "quality.json",
        removed=[],
        refused=[{"worker": first, "reason": "none"}],
        pairs={"n_tested": 10 * size, "n_flagged": size, "shown": [pair] * 10},
    )
    plan = pq.read_table(folder / "label_plan.parquet")
    pq.write_table(_with(plan, {"worker": names[: len(plan)]}), folder / "label_plan.parquet")
    tasks = pq.read_table(folder / "next_labels.parquet")
    tasks = tasks.take(pa.array(np.sort(rng.integers(0, len(tasks), size))))
    pq.write_table(tasks, folder / "next_labels.parquet")
    return folder


def _with(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """The same table with other columns in their places."""
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


if __name__ == "__main__":
    main()

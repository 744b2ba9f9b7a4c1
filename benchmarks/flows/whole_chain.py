"""The whole chain, from a Parquet file to a consensus, stage by stage.

    python -m benchmarks.flows.whole_chain --labels 1000000

The crowd of `benchmarks.flows.ingest` with text ids (two classes, 24-character task ids), read, judged and
aggregated in one process of its own, at its defaults of threads; compiled kernels are loaded before
the clock starts. CPU seconds are those of all threads; wall seconds depend on what else the cores are
doing; peak memory is that of the process so far, the interpreter and its libraries included.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.flows.ingest import (
    by_us,
    copy_bandwidth,
    in_own_process,
    peak_megabytes,
    write_crowd,
)
from benchmarks.publish import parser_of, publish
from quality import (
    CrowdLabels,
    dawid_skene,
    filter_workers,
    hard_level,
    hard_penalty,
    soft_penalty,
)

HEADER = ("stage", "cpu s", "wall s", "peak MB so far")
REMOVALS, ITERATIONS = 10, 100


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help="run the chain alone, on this file")
    asked = parser.parse_args()
    if asked.file:
        print(json.dumps(chain(asked.file)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.parquet"
        write_crowd(path, asked.labels, text=True)
        stages = in_own_process("flows.whole_chain", "--file", str(path))
    base, *stages = stages
    rows = [(name, f"{c:.2f}", f"{w:.2f}", f"{peak:.0f}") for name, c, w, peak in stages]
    cpu, wall = (sum(stage[at] for stage in stages) for at in (1, 2))
    rows.append(("whole chain", f"{cpu:.2f}", f"{wall:.2f}", f"{stages[-1][3]:.0f}"))
    note = (
        " ".join(" ".join(__doc__.splitlines()[4:]).split())
        + f" Before the first stage it is {base[3]:.0f} MB. Copying 64 MB ran at {copy_bandwidth():.1f} "
        "GB/s in the same run."
    )
    publish(
        "whole_chain", f"{asked.labels:,} labels, from file to consensus", HEADER, rows, note=note
    )


def chain(path: Path) -> list[tuple[str, float, float, float]]:
    """Name, CPU and wall seconds and peak memory of each stage; the first line is the warm-up."""
    lines: list[tuple[str, float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.parquet"
        write_crowd(small, 5_000, text=True)
        judge(by_us(small), lambda name, act: act())
    lines.append(("warm-up", 0.0, 0.0, peak_megabytes()))

    def clock(name: str, act: Callable[[], Any]) -> Any:
        cpu, wall = time.process_time(), time.perf_counter()
        found = act()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        lines.append((name, cpu, wall, peak_megabytes()))
        return found

    judge(clock("ingest: read, check, code, sort", lambda: by_us(path)), clock)
    return lines


def judge(labels: CrowdLabels, clock: Callable[[str, Callable[[], Any]], Any]) -> None:
    """Every stage after reading."""
    clock("soft penalty", lambda: soft_penalty(labels))
    clock("hard penalty (semi-matching)", lambda: hard_penalty(labels))
    filtered = clock(
        f"filter: {REMOVALS} removals by level",
        lambda: filter_workers(labels, penalty=hard_level, n_workers=REMOVALS),
    )
    kept = clock("kept labels", lambda: labels.keep_workers(filtered.keep))
    clock(
        f"Dawid–Skene, {ITERATIONS} iterations",
        lambda: dawid_skene(kept, max_iter=ITERATIONS, tol=0.0),
    )


if __name__ == "__main__":
    main()

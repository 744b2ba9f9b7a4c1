"""Every aggregation kernel on one simulated crowd: its CPU time, beside crowd-kit's in the same run.

    python -m benchmarks.quality.kernels_speed --labels 10000000

The crowd is that of `benchmarks.quality.dawid_skene_speed`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from os import getloadavg
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowdkit_speed import Peer, measure_crowdkit
from benchmarks.quality.dawid_skene_speed import power_law_crowd, read_bandwidth
from quality import (
    CrowdLabels,
    dawid_skene,
    glad,
    hierarchical_dawid_skene,
    kos,
    majority_vote,
    one_coin_dawid_skene,
    soft_penalty,
)

HEADER = (
    "kernel", "classes", "1 thread, cpu s", "2 threads, cpu s", "2 threads, wall s",
    "crowd-kit, cpu s", "crowd-kit / ours on 1 thread",
)  # fmt: skip
HEAD = {"GLAD": 5_000, "OneCoinDawidSkene": 200_000}  # rows that crowd-kit's are timed on
MORE = 4  # iterations of crowd-kit's, less one: the difference shows what one takes
LONG = 2.0  # seconds of a run that is not made twice
START_UP = """
import time, numpy, numba, scipy.sparse, scipy.special
start = time.process_time()
import quality
print(time.process_time() - start)
"""
PEAK = r"""
import re, sys, numpy as np
from quality import CrowdLabels, dawid_skene, encode
with np.load(sys.argv[1]) as held:
    labels = CrowdLabels(**held)
dawid_skene(encode([0], [0], [0], classes=range(labels.n_classes)), threads=2)  # compiled
def peak():  # of this process image alone, which ru_maxrss is not
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
before = peak()
dawid_skene(labels, max_iter=3, tol=0.0, threads=2)
print(peak() - before)
"""
NOTE = """
{labels:,} labels, {tasks:,} tasks, {workers:,} workers, degrees by a power law. Process CPU time,
compiled before, least of two runs unless they are long; wall time depends on what else the two cores
are doing (load {load:.1f} at the end). An iteration is a difference of two runs, 11 iterations and 1
(GLAD: 2 and 1), and so is crowd-kit's, 4 and 1. crowd-kit 1.4.2 has the same integer codes in a data
frame. Its figures with "e" are extrapolated from measured seconds an iteration: 100 iterations are the
first one and 99 more; GLAD is timed on the first {glad:,} rows and one-coin on the first {coin:,}, and
multiplied. One thread that sums 400 MB reads {bandwidth:.1f} GB/s here before, {after:.1f} at the end: less
than the machine's own where others use its memory too, which slows what waits for it. Beyond the table,
Dawid–Skene with two threads needs {memory} at its peak. Importing quality takes {start:.2f} s of CPU
beyond numpy, scipy and numba.
"""


@dataclass(frozen=True)
class Kernel:
    """What is run, with how many threads and iterations; and crowd-kit's name for it."""

    name: str
    run: Callable[[CrowdLabels, int, int], Any]
    peer: str | None = None
    iterations: tuple[int, int] | None = None  # an iteration is the difference; None: one run
    threaded: bool = True
    binary: bool = False


def em(rule: Callable[..., Any]) -> Callable[[CrowdLabels, int, int], Any]:
    return lambda labels, threads, n: rule(labels, max_iter=n, tol=0.0, threads=threads)


def from_codes(labels: CrowdLabels) -> CrowdLabels:
    """The table again, from its own codes in shuffled rows."""
    worker, task, label = SHUFFLED[labels.n_labels, labels.n_classes]
    books = {"workers": labels.workers, "tasks": labels.tasks, "classes": labels.classes}
    return CrowdLabels.from_codes(worker, task, label, **books)


SHUFFLED: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}
KERNELS = (
    Kernel(
        "sort integer codes, majority vote",
        lambda labels, threads, n: majority_vote(from_codes(labels)),
        "MajorityVote", threaded=False,
    ),
    Kernel("majority vote", lambda labels, threads, n: majority_vote(labels), threaded=False),
    Kernel("soft penalty", lambda labels, threads, n: soft_penalty(labels), threaded=False),
    Kernel("Dawid–Skene, 100 iterations", em(dawid_skene), "DawidSkene"),
    Kernel("one-coin, an iteration", em(one_coin_dawid_skene), "OneCoinDawidSkene", (1, 11)),
    Kernel("hierarchical, an iteration", em(hierarchical_dawid_skene), None, (1, 11)),
    Kernel("GLAD, an iteration", em(glad), "GLAD", (1, 2)),
    Kernel(
        "KOS, an iteration",
        lambda labels, threads, n: kos(
            labels, max_iter=n, tol=0.0, rng=np.random.default_rng(0), threads=threads
        ),
        "KOS", (1, 11), binary=True,
    ),
)  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, default=1_000_000)
    n_labels = parser.parse_args().labels
    rows, memory = [], []
    bandwidth = read_bandwidth()
    for n_classes in (2, 5):
        small, labels = (crowd(size, n_classes) for size in (2_000, n_labels))
        kernels = [kernel for kernel in KERNELS if n_classes == 2 or not kernel.binary]
        ours = [measure(kernel, small, labels) for kernel in kernels]
        memory.append(f"{peak_beyond(labels) / 1e6:.0f} MB with {n_classes} classes")
        peer = measure_crowdkit(labels, *works(kernels))
        rows += [row(*pair, labels, peer) for pair in zip(kernels, ours, strict=True)]
        print(*rows[-len(kernels) :], sep="\n", flush=True)
    note = NOTE.format(
        labels=labels.n_labels, tasks=labels.n_tasks, workers=labels.n_workers,
        load=getloadavg()[0], bandwidth=bandwidth / 1e9, after=read_bandwidth() / 1e9,
        glad=HEAD["GLAD"], coin=HEAD["OneCoinDawidSkene"], memory=" and ".join(memory),
        start=min(fresh(START_UP) for _ in range(5)),
    )  # fmt: skip
    publish("kernels_speed", "Aggregation kernels", HEADER, rows, note=" ".join(note.split()))


def crowd(n_labels: int, n_classes: int) -> CrowdLabels:
    """The crowd, and its codes in shuffled rows kept for `from_codes`."""
    labels = power_law_crowd(n_labels, n_classes, np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(labels.n_labels)
    columns = tuple(code[order] for code in (labels.worker, labels.task, labels.label))
    SHUFFLED[labels.n_labels, n_classes] = columns
    return labels


def measure(kernel: Kernel, small: CrowdLabels, labels: CrowdLabels) -> list[float]:
    """CPU seconds with one thread, with two, and of a whole run the wall time of two."""
    counts = kernel.iterations or (100,)
    kernel.run(small, 1, 2)  # compiled
    found = []
    for threads in (1, 2) if kernel.threaded else (1,):
        spent = [seconds(kernel, labels, threads, n) for n in counts]
        found.append(
            (spent[-1] - spent[0]) / max(counts[-1] - counts[0], 1) if spent[1:] else spent[0]
        )
    whole = 2 if kernel.iterations is None else 1  # a difference of wall times is mostly noise
    print(kernel.name, labels.n_classes, *found, flush=True)
    return [*found[0][:1], *(value for both in found[1:] for value in both[:whole])]


def seconds(kernel: Kernel, labels: CrowdLabels, threads: int, n_iter: int) -> np.ndarray:
    """CPU and wall time of a run, the least of two unless it is a long one."""
    best = np.full(2, np.inf)
    for _ in range(2):
        before = np.array([time.process_time(), time.perf_counter()])
        kernel.run(labels, threads, n_iter)
        best = np.minimum(best, np.array([time.process_time(), time.perf_counter()]) - before)
        if best[0] > LONG:
            break
    return best


def works(kernels: list[Kernel]) -> list[str]:
    """What crowd-kit is asked for: one iteration and some more, of the slowest on few rows."""
    return [
        f"{kernel.peer}:{n}" + (f":{HEAD[kernel.peer]}" if kernel.peer in HEAD else "")
        for kernel in kernels
        if kernel.peer
        for n in ((1,) if kernel.peer == "MajorityVote" else (1, MORE))
    ]


def row(kernel: Kernel, ours: list[float], labels: CrowdLabels, peer: Peer) -> list[str]:
    cells = [f"{value:.3g}" for value in ours] + ["-"] * (3 - len(ours))
    theirs, mark = crowdkits(kernel, labels, peer)
    if isinstance(theirs, str):
        return [kernel.name, str(labels.n_classes), *cells, theirs, "-"]
    return [
        kernel.name, str(labels.n_classes), *cells, f"{theirs:.3g}{mark}", f"{theirs / ours[0]:.0f}"
    ]  # fmt: skip


def crowdkits(kernel: Kernel, labels: CrowdLabels, peer: Peer) -> tuple[float | str, str]:
    """crowd-kit's seconds for the same, or why there are none; and whether they are extrapolated."""
    if kernel.peer is None:
        return "-", ""
    spent = [peer.seconds[work] for work in works([kernel])]
    failed = [found for found in spent if isinstance(found, str)]
    if failed:
        return failed[0], ""
    if kernel.peer == "MajorityVote":
        return float(spent[0]), ""
    each = (float(spent[1]) - float(spent[0])) / (MORE - 1)
    if kernel.iterations is None:
        return float(spent[0]) + 99 * each, "e"
    part = min(HEAD.get(kernel.peer, labels.n_labels) / labels.n_labels, 1.0)
    return each / part, "e" if part < 1.0 else ""


def peak_beyond(labels: CrowdLabels) -> float:
    """Bytes that Dawid–Skene adds, at its peak, to a fresh process that holds the table alone."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.npz"
        np.savez(table, **{field.name: getattr(labels, field.name) for field in fields(labels)})
        return fresh(PEAK, str(table))


def fresh(code: str, *arguments: str) -> float:
    """The number that a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()

"""The cost of keeping the hard penalty while workers are removed: repaired, beside computed anew.

    python -m benchmarks.quality.decremental --labels 100000 1000000 10000000

Process CPU time, one thread, compiled before. The worker with the highest level is removed, 15 % of
the workers in all. "Repaired" counts finding and removing her, "set-up" the first semi-matching.
"Anew" is what a caller without the repair does after each removal: the table of the workers left,
their conflict graph, its semi-matching and the levels; "solver" is the last two alone. Both are
timed at ten points of the same series and multiplied, and there cost and sorted loads are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.dawid_skene_speed import read_bandwidth
from quality import (
    Assignment,
    CrowdLabels,
    conflict_graph,
    encode,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
)
from quality.matching.cost_reducing import matching_and_level
from quality.matching.dynamic import DynamicMatching

__all__ = ["DESIGNS", "crowd", "ratio_to_recompute"]

HEADER = (
    "design", "labels", "workers", "removed", "set-up s", "repaired s", "anew s", "solver s",
    "anew / repaired", "anew / (set-up + repaired)", "solver / repaired",
)  # fmt: skip

Design = Callable[..., Assignment]
DESIGNS: dict[str, Design] = {"power law": power_law_assignment, "regular": regular_assignment}


@dataclass(frozen=True, slots=True)
class Series:
    """CPU seconds of one series of removals: done by repair, and multiplied from ten points."""

    set_up: float
    repaired: float
    anew: float
    solver: float


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[100_000])
    sizes = parser.parse_args().labels
    bandwidth = read_bandwidth()
    rows = [line(name, n_labels) for n_labels in sizes for name in DESIGNS]
    note = " ".join(" ".join(__doc__.splitlines()[4:]).split())
    note += f" A sum over 400 MB read {bandwidth / 1e9:.1f} GB/s."
    title = "Repairing the semi-matching against solving it anew"
    publish("decremental", title, HEADER, rows, note=note)


def ratio_to_recompute(n_labels: int, design: Design = power_law_assignment) -> float:
    """How many times the repairs go into computing all anew; both begin with a first solution."""
    found = measure(crowd(design, n_labels))
    return found.anew / found.repaired


def line(name: str, n_labels: int) -> tuple[str, ...]:
    """One row of the table."""
    labels = crowd(DESIGNS[name], n_labels)
    found = measure(labels)
    sizes = (labels.n_labels, labels.n_workers, int(0.15 * labels.n_workers))
    seconds = (found.set_up, found.repaired, found.anew, found.solver)
    ratios = (
        found.anew / found.repaired,
        found.anew / (found.set_up + found.repaired),
        found.solver / found.repaired,
    )
    return (
        name,
        *(f"{size:,}" for size in sizes),
        *(f"{value:.3g}" for value in seconds),
        *(f"{ratio:,.0f}x" for ratio in ratios),
    )


def measure(labels: CrowdLabels) -> Series:
    """One crowd: the series of removals, repaired; ten of its states, computed anew."""
    n_removals = int(0.15 * labels.n_workers)
    _compile()
    begin = process_time()
    matching = DynamicMatching(labels)
    set_up = process_time() - begin
    keep, rank = np.ones(labels.n_workers, dtype=bool), np.zeros(labels.n_workers)
    checked = set(np.linspace(1, n_removals, 10).astype(int).tolist())
    repaired = anew = solver = 0.0
    for removal in range(1, n_removals + 1):
        begin = process_time()
        worker = matching.highest(keep, rank)
        matching.remove(worker)
        repaired += process_time() - begin
        keep[worker] = False
        if removal in checked:
            seconds = _anew(labels, keep, matching)
            anew, solver = anew + seconds[0], solver + seconds[1]
    times = n_removals / len(checked)
    return Series(set_up, repaired, anew * times, solver * times)


def _anew(labels: CrowdLabels, keep: np.ndarray, matching: DynamicMatching) -> tuple[float, float]:
    """CPU seconds of everything anew, and of the solver alone; the results must agree."""
    begin = process_time()
    graph = conflict_graph(labels.keep_workers(keep))
    solving = process_time()
    fresh, _ = matching_and_level(graph)
    end = process_time()
    if fresh.cost != matching.cost or (np.sort(fresh.load) != np.sort(matching.load)).any():
        raise SystemExit("the repaired semi-matching is not optimal")
    return end - begin, end - solving


def _compile() -> None:
    """Go through everything once, on a small crowd."""
    labels = crowd(power_law_assignment, 2_000)
    keep, matching = np.ones(labels.n_workers, dtype=bool), DynamicMatching(labels)
    matching.remove(matching.highest(keep, np.zeros(labels.n_workers)))
    matching_and_level(conflict_graph(labels.keep_workers(keep)))


def crowd(design: Design, n_labels: int) -> CrowdLabels:
    """Five labels a task, 250 a worker; 70 % honest, 20 % random, 10 % malicious."""
    rng = np.random.default_rng(0)
    n_tasks, n_workers = n_labels // 5, n_labels // 250
    rows = design(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=5, rng=rng)
    truth = rng.integers(2, size=n_tasks)
    adversaries = {"random": n_workers // 5, "malicious": n_workers // 10}
    found = simulate_crowd(rows, truth, n_classes=2, adversaries=adversaries, rng=rng)
    return encode(found.worker, found.task, found.label)


if __name__ == "__main__":
    main()

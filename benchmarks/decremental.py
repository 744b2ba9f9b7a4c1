"""What it costs to keep the hard penalty while workers are removed: repaired against solved anew.

    python -m benchmarks.decremental --labels 100000

Process CPU time, one thread. The worker with the highest level is removed, 15 % of the workers in
all. "Solved anew" is the semi-matching of the conflict graph of those left, timed at ten points of
the same series and multiplied; "with tables" adds what a caller pays for the graph and the levels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time

import numpy as np

from benchmarks.publish import publish
from quality import (
    Assignment,
    CrowdLabels,
    conflict_graph,
    encode,
    power_law_assignment,
    regular_assignment,
    semi_matching,
    simulate_crowd,
)
from quality.dynamic_matching import DynamicMatching
from quality.levels import hard_level

HEADER = ("design", "labels", "workers", "removed", "repaired s", "anew s", "with tables s")
RATIOS = ("anew / repaired", "with tables / repaired")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=100_000)
    n_labels = parser.parse_args().labels
    designs = {"power law": power_law_assignment, "regular": regular_assignment}
    measure("warm-up", power_law_assignment, 2_000)
    rows = [measure(name, design, n_labels) for name, design in designs.items()]
    publish(
        "decremental",
        "Repairing the semi-matching against solving it anew",
        HEADER + RATIOS,
        rows,
        note=" ".join(" ".join(__doc__.splitlines()[4:]).split()),
    )


def measure(name: str, design: Callable[..., Assignment], n_labels: int) -> tuple[str, ...]:
    """One crowd: the series of removals, repaired; ten of its states, solved anew."""
    labels = crowd(design, n_labels)
    n_removals = int(0.15 * labels.n_workers)
    matching, keep = DynamicMatching(labels), np.ones(labels.n_workers, dtype=bool)
    checked = set(np.linspace(1, n_removals, 10).astype(int).tolist())
    repaired = anew = tables = 0.0
    for removal in range(1, n_removals + 1):
        begin = process_time()
        worker = int(matching.top_level(keep).argmax())
        matching.remove(worker)
        repaired += process_time() - begin
        keep[worker] = False
        if removal in checked:
            kept = labels.keep_workers(keep)
            graph = conflict_graph(kept)
            begin = process_time()
            fresh = semi_matching(graph)
            anew += process_time() - begin
            if fresh.cost != matching.cost:
                raise SystemExit("the repaired semi-matching is not optimal")
            begin = process_time()
            hard_level(labels.keep_workers(keep))
            tables += process_time() - begin
    anew, tables = (total * n_removals / len(checked) for total in (anew, tables))
    sizes = f"{labels.n_labels:,}", f"{labels.n_workers:,}", f"{n_removals:,}"
    seconds = f"{repaired:.3f}", f"{anew:.2f}", f"{tables:.2f}"
    return name, *sizes, *seconds, f"{anew / repaired:.0f}x", f"{tables / repaired:.0f}x"


def crowd(design: Callable[..., Assignment], n_labels: int) -> CrowdLabels:
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

"""Fail where a promised speed is missed: ratios within one run, and exact equality of the results.

    python -m benchmarks.gates

Exits with 1 if a gate fails. CPU time of both sides on the same crowd, of 100,000 labels by default: the
noise of a shared machine affects both, and every gate leaves room for the rest of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.flows.default_run import ratio_to_crowdkit_alone
from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowdkit_speed import measure_crowdkit
from benchmarks.quality.dawid_skene_speed import least, power_law_crowd
from benchmarks.quality.decremental import DESIGNS, ratio_to_recompute
from benchmarks.quality.semi_matching_speed import ratio_to_highs
from quality import dawid_skene

LABELS = 100_000
RUN_LABELS = 200_000  # of a whole run: below that, what does not grow with the labels is most of it
RUNS = 5  # of what takes milliseconds
CLIP = 1e-10  # crowd-kit's least probability, here the smoothing: posteriors agree to about 1e-7
HEADER = ("gate", "equal in", "at least", "found", "passed")


@dataclass(frozen=True)
class Gate:
    """A promised ratio of speeds and the ratio found; a difference in the results ends the run."""

    name: str
    equal: str
    at_least: float
    found: float


def main() -> None:
    parser_of(__doc__).parse_args()
    gates = [
        *(
            Gate(
                f"Dawid–Skene, 100 iterations, {n_classes} classes, against crowd-kit 1.4.2",
                "every label; posteriors to 1e-6", 50, ratio_to_crowdkit(LABELS, n_classes),
            )
            for n_classes in (2, 5)
        ),
        Gate(
            "semi-matching with its graph, against SciPy's linear program (HiGHS)",
            "cost", 200, ratio_to_highs(LABELS),
        ),
        *(
            Gate(
                f"repairing the semi-matching against solving anew after each of "
                f"{LABELS // 250 * 15 // 100} removals, {design} degrees, median of {RUNS} runs",
                "cost and sorted loads", 20,
                median(ratio_to_recompute(LABELS, DESIGNS[design]) for _ in range(RUNS)),
            )
            for design in ("regular", "power law")
        ),
        Gate(
            f"a whole run by default of {RUN_LABELS:,} labels, against 100 iterations of crowd-kit's "
            "Dawid–Skene alone on them",
            "–", 1, ratio_to_crowdkit_alone(RUN_LABELS),
        ),
    ]  # fmt: skip
    rows = [
        (gate.name, gate.equal, f"{gate.at_least:.0f}x", f"{gate.found:.3g}x",
         "yes" if gate.found >= gate.at_least else "NO")
        for gate in gates
    ]  # fmt: skip
    publish(
        "gates", "Gates", HEADER, rows, note=" ".join(" ".join(__doc__.splitlines()[4:]).split())
    )
    if not all(gate.found >= gate.at_least for gate in gates):
        raise SystemExit(1)


def ratio_to_crowdkit(n_labels: int, n_classes: int) -> float:
    """How many times ours goes into crowd-kit's 100 iterations; the results must agree."""
    labels = power_law_crowd(n_labels, n_classes, np.random.default_rng(0))
    peer = measure_crowdkit(labels, "DawidSkene:100")
    dawid_skene(labels, max_iter=1)  # compiled
    seconds, ours = least(
        time.process_time,
        lambda: dawid_skene(labels, tol=0.0, smoothing=CLIP, threads=1),
        5,
    )
    labelled = np.diff(labels.task_start) > 0
    theirs = peer.posterior["DawidSkene:100"]
    if (ours.label[labelled] != theirs.argmax(axis=1)).any():
        raise SystemExit("Dawid–Skene's labels are not crowd-kit's")
    if np.abs(ours.posterior[labelled] - theirs).max() > 1e-6:
        raise SystemExit("Dawid–Skene's posteriors are not crowd-kit's")
    return float(peer.seconds["DawidSkene:100"]) / seconds


if __name__ == "__main__":
    main()

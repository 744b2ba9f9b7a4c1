"""First looks in the choice of an aggregator, beside fits to the end: weights and CPU seconds.

    python -m benchmarks.quality.first_looks

Simulated crowds large enough for one fold to be held out. `auto` fits its candidates roughly at first, and
to the end only those that are not far behind; here it does so, and then with every candidate fitted to the
end. `weights apart` is half of the sum of the differences between the weights, at most 1. CPU seconds are of
the scoring alone, both in one process, after a small crowd has been scored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.publish import parser_of, publish
from quality import (
    CrowdLabels,
    encode,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
)
from quality.choice.automatic import CANDIDATES, ENOUGH, Candidate, InPasses, hold_out
from quality.choice.held_out_labels import predict_held_out, right_of

SIZES = (400_000,)  # larger ones take minutes
WORKERS_EACH = 400  # labels
OPEN = 4  # labels a worker, of a crowd in which each comes by once
TO_THE_END: dict[str, Candidate] = {
    name: fit.fit if isinstance(fit, InPasses) else fit for name, fit in CANDIDATES.items()
}
# adversaries as shares of the workers
CROWDS: dict[str, dict[str, Any]] = {
    "a fifth random, a tenth malicious": {"random": 0.2, "malicious": 0.1},
    "all honest": {},
    "half random": {"random": 0.5},
    "three fifths random": {"random": 0.6},
    "three tenths malicious": {"malicious": 0.3},
    "nine twentieths malicious": {"malicious": 0.45},
    "two fifths random, three tenths malicious": {"random": 0.4, "malicious": 0.3},
    "three tenths of one class each": {"uniform": 0.3},
    "a fifth with one script": {"colluding": 0.2},
    "a fifth mirroring others": {"sophisticated": 0.2},
    "two classes, 95 % of one": {"n_classes": 2, "largest": 0.95, "random": 0.3},
    "two classes, 90 % of one, malicious": {"n_classes": 2, "largest": 0.9, "malicious": 0.3},
    "five ordered classes, half shifted": {"n_classes": 5, "shifted": 0.5},
    "ten classes": {"n_classes": 10, "random": 0.3},
    "forty classes": {"n_classes": 40, "random": 0.3},
    "four labels a worker": {"each": OPEN, "random": 0.2, "malicious": 0.1},
    "eight labels a worker, two classes": {"each": 2 * OPEN, "n_classes": 2, "random": 0.2},
    "poor workers": {"reliability": (6.0, 6.0)},
    "poor workers, two classes": {"reliability": (6.0, 5.0), "n_classes": 2, "malicious": 0.1},
    "two labels a task": {"per_task": 2, "random": 0.3},
    "twenty labels a task": {"per_task": 20, "random": 0.4},
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", nargs="+", type=int, default=list(SIZES))
    sizes = parser.parse_args().labels
    scored(crowd_of(ENOUGH * 10, np.random.default_rng(0)), CANDIDATES)
    rows = []
    for n_labels in sizes:
        for number, (title, knobs) in enumerate(CROWDS.items()):
            labels = crowd_of(n_labels, np.random.default_rng(number), **knobs)
            first, seconds = scored(labels, CANDIDATES)
            whole, all_seconds = scored(labels, TO_THE_END)
            apart = sum(abs(first[name] - whole[name]) for name in first) / 2
            best = max(whole, key=whole.__getitem__)
            figures = f"{apart:.6f}", f"{seconds:.2f}", f"{all_seconds:.2f}"
            rows.append((f"{labels.n_labels:,}", title, best, *figures))
    header = ("labels", "crowd", "chosen", "weights apart", "CPU s", "CPU s, fits to the end")
    note = " ".join(" ".join(__doc__.split("\n\n")[2:]).split())
    publish("first_looks", "First looks in the choice of an aggregator", header, rows, note=note)


def scored(
    labels: CrowdLabels, candidates: Mapping[str, Candidate]
) -> tuple[dict[str, float], float]:
    """The weight of each candidate, and CPU seconds."""
    begin = time.process_time()
    scores, _, _ = hold_out(
        labels,
        candidates,
        lambda out, fitted: (
            predict_held_out(labels, out, fitted.posterior),
            right_of(labels, fitted.posterior),
        ),
        10,
        ENOUGH,
        None,
    )
    return {score.name: score.weight for score in scores}, time.process_time() - begin


def crowd_of(
    n_labels: int,
    rng: np.random.Generator,
    *,
    each: int = WORKERS_EACH,
    per_task: int = 5,
    n_classes: int = 3,
    largest: float | None = None,
    reliability: tuple[float, float] = (12.0, 3.0),
    **shares: float,
) -> CrowdLabels:
    """Simulated labels; where workers are many each has as many labels as the others."""
    n_workers, n_tasks = n_labels // each, n_labels // per_task
    drawn = regular_assignment if each < WORKERS_EACH else power_law_assignment
    rows = drawn(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=per_task, rng=rng)
    rest = (1 - (largest or 1 / n_classes)) / (n_classes - 1)
    chance = [1 - rest * (n_classes - 1), *[rest] * (n_classes - 1)]
    truth = rng.choice(n_classes, size=n_tasks, p=chance)
    adversaries = {kind: round(share * n_workers) for kind, share in shares.items()}
    simulate = partial(simulate_crowd, n_classes=n_classes, adversaries=adversaries)
    crowd = simulate(rows, truth, reliability=reliability, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label)


if __name__ == "__main__":
    main()

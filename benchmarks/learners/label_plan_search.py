"""Which task for which worker: the least certain tasks, a predictive index, and the exact plan of all tasks.

``python -m benchmarks.learners.label_plan_search [tasks ...]``
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.publish import parser_of, publish
from flows.stages.label_plan import considered_tasks
from quality import CrowdLabels, plan_labels
from quality.reports import posterior_entropy

EXACT = 100_000  # tasks of which the exact plan is made
WORKERS, BUDGET, PER_WORKER, PER_TASK, MOST = 100, 500, 10, 2, 2_000


def workers(rng: np.random.Generator, n_classes: int, *, special: bool) -> np.ndarray:
    """P(answer | truth): right in .94 on two classes and a guess on others, or right in .6 to .95 on all."""
    confusion = np.full((WORKERS, n_classes, n_classes), 1 / n_classes)
    for one in confusion:
        known = rng.choice(n_classes, 2, replace=False) if special else np.arange(n_classes)
        right = 0.94 if special else rng.uniform(0.6, 0.95)
        one[known] = (1 - right) / (n_classes - 1)
        one[known, known] = right
    return confusion


def beliefs(rng: np.random.Generator, n_tasks: int, n_classes: int) -> np.ndarray:
    """A third of the tasks each nearly settled, between two or three classes, and open."""
    shape = np.repeat(rng.choice([0.05, 0.15, 0.5], n_tasks)[:, None], n_classes, 1)
    drawn = rng.gamma(shape) + 1e-9
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


def planned(believed: np.ndarray, confusion: np.ndarray) -> float:
    """The gain of the plan that chooses from these tasks, in nats."""
    none = np.zeros(0, dtype=np.int64)
    names = (np.arange(size) for size in (len(confusion), *believed.shape))
    labels = CrowdLabels.from_codes(
        none, none, none, **dict(zip(("workers", "tasks", "classes"), names, strict=True))
    )
    plan = plan_labels(
        labels, believed, confusion, budget=BUDGET, per_worker=PER_WORKER, per_task=PER_TASK
    )
    return float(plan.gain.sum())


def row(n_tasks: int, n_classes: int, *, special: bool) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    believed, confusion = beliefs(rng, n_tasks, n_classes), workers(rng, n_classes, special=special)
    uncertain = np.argsort(-posterior_entropy(believed), kind="stable")
    ways = [
        lambda: np.sort(uncertain[:MOST]),
        lambda: considered_tasks(believed, uncertain, confusion, MOST),
        lambda: np.arange(n_tasks),
    ]
    found = []
    for choose in ways[: 3 if n_tasks <= EXACT else 2]:
        begun = time.process_time()
        gain = planned(believed[choose()], confusion)
        found.append((gain, time.process_time() - begun))
    exact = found[2][0] if len(found) == 3 else None
    cells = [
        f"{gain:.0f}{f' ({gain / exact:.1%})' if exact else ''}, {seconds:.1f} s"
        for gain, seconds in found
    ]
    cells += ["-"] * (3 - len(found))
    who = "specialists" if special else "generalists"
    best = (
        "the index" if found[1][0] > 1.01 * found[0][0] else "the least certain, without a search"
    )
    if best == "the index" and exact and found[2][1] <= found[1][1]:
        best = "all tasks, exact"
    return (f"{n_tasks:,} tasks, {n_classes} classes, {who}", *cells, best)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tasks", nargs="*", type=int, default=[50_000, 1_000_000])
    sizes = parser.parse_args().tasks
    rows = [
        row(size, n_classes, special=special)
        for size in sizes
        for n_classes, special in ((8, True), (8, False), (3, True), (2, True))
        if size <= EXACT or (n_classes == 8 and special)
    ]
    header = (
        "what",
        f"the {MOST:,} least certain",
        "with a predictive index",
        "all tasks, exact",
        "who wins",
    )
    note = (
        f"{WORKERS} workers, {BUDGET} labels, at most {PER_WORKER} of each worker and {PER_TASK} of each "
        "task; expected gain in nats, its share of the exact plan's, and CPU seconds of choosing the tasks "
        "and planning. The index judges all tasks for a sample of workers and 400 for each of the others "
        "(`[report] plan_search`). Specialists know two classes and guess on the others; what they gain most "
        "from is not what is least certain. With generalists, or two classes, the search adds nothing: leave "
        "it off. Of some 10,000 tasks the exact plan takes no longer than the search; the search is for more."
    )
    publish("label_plan_search", "Which task for which worker", header, rows, note=note)


if __name__ == "__main__":
    main()

"""Aggregators where labels are few: the shared sets with labels, workers or tasks left out at random.

python -m benchmarks.quality.thinned
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.crowdkit_labels import PEERS, ask_crowdkit
from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, FAMILIES, read_set, right
from quality import (
    CrowdLabels,
    auto,
    dawid_skene,
    glad,
    hierarchical_dawid_skene,
    mace,
    majority_vote,
    one_coin_dawid_skene,
)
from quality.choice.automatic import CANDIDATES, Candidate

RULES: dict[str, Candidate] = {
    "auto": auto,
    "majority_vote": majority_vote,
    "weighted_majority": CANDIDATES["weighted_majority"],
    "one_coin_dawid_skene": one_coin_dawid_skene,
    "mace": mace,
    "glad": glad,
    "hierarchical_dawid_skene": hierarchical_dawid_skene,
    "dawid_skene": dawid_skene,
}
N_TASKS, MIN_GOLD = 150, 40
SECONDS = 5  # of CPU, that a fit of crowd-kit's may take
LARGE = ("mill",)  # 37,332 workers: crowd-kit takes minutes for each table
LIMIT = 1.0  # points under the better of majority vote and Dawid–Skene


@dataclass(frozen=True)
class Thinned:
    """What is left of a set: the labels, gold of their tasks, and which part that is."""

    kind: str
    labels: CrowdLabels
    gold: np.ndarray


def thinned(labels: CrowdLabels, gold: np.ndarray, seed: int) -> Iterator[Thinned]:
    """Fewer labels of each task, fewer workers, fewer tasks, the busiest workers, and all others."""
    rng = np.random.default_rng(seed)
    for most in (2, 3):
        yield left(f"{most} labels a task", labels, gold, place_in_task(labels, rng) < most)
    for name, share in (("half", 0.5), ("a fifth", 0.2)):
        keep = rng.random(labels.n_workers) < share
        yield left(f"{name} of the workers", labels, gold, keep[labels.worker])
    known = np.flatnonzero(gold >= 0)
    some = np.zeros(labels.n_tasks, dtype=np.bool_)
    some[rng.choice(known, min(N_TASKS, len(known)), replace=False)] = True
    yield left(f"{N_TASKS} tasks", labels, gold, some[labels.task])
    busy = busiest(labels)[labels.worker]
    yield left("the busiest workers", labels, gold, busy)
    yield left("the others", labels, gold, ~busy)


def busiest(labels: CrowdLabels) -> np.ndarray:
    """Whether each worker is one of the fewest who gave half of the labels."""
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    order = np.argsort(-n_labels, kind="stable")
    found = np.zeros(labels.n_workers, dtype=np.bool_)
    found[order[: np.searchsorted(np.cumsum(n_labels[order]), labels.n_labels / 2) + 1]] = True
    return found


def place_in_task(labels: CrowdLabels, rng: np.random.Generator) -> np.ndarray:
    """Each label's place among those of its task, in an order drawn at random."""
    order = np.lexsort((rng.random(labels.n_labels), labels.task))
    place = np.empty(labels.n_labels, dtype=np.int64)
    place[order] = np.arange(labels.n_labels) - labels.task_start[labels.task[order]]
    return place


def left(kind: str, labels: CrowdLabels, gold: np.ndarray, rows: np.ndarray) -> Thinned:
    """The tasks and workers who still have labels."""
    tasks, task = np.unique(labels.task[rows], return_inverse=True)
    workers, worker = np.unique(labels.worker[rows], return_inverse=True)
    part = CrowdLabels.from_codes(
        worker, task, labels.label[rows],
        workers=labels.workers[workers], tasks=labels.tasks[tasks], classes=labels.classes,
    )  # fmt: skip
    return Thinned(kind, part, gold[tasks])


def measure(part: Thinned) -> dict[str, float]:
    """Per cent right of every rule that has an answer."""
    found = {name: right(rule(part.labels).posterior, part.gold) for name, rule in RULES.items()}
    for name, answer in ask_crowdkit(part.labels, SECONDS).items():
        share = answer.right(part.gold)
        if isinstance(share, float):
            found[f"crowd-kit {name}"] = share
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="draws of what is left of a set")
    n_seeds = parser.parse_args().seeds
    found: dict[str, list[dict[str, float]]] = {}
    for name in (name for family in FAMILIES for name in family if name not in LARGE):
        draws: dict[str, list[dict[str, float]]] = {}
        for seed in range(n_seeds):
            for part in thinned(*read_set(DATA / name), seed):
                if np.count_nonzero(part.gold >= 0) >= MIN_GOLD:
                    draws.setdefault(part.kind, []).append(measure(part))
        for kind, shares in draws.items():
            common = set.intersection(*map(set, shares))
            means = {rule: float(np.mean([share[rule] for share in shares])) for rule in common}
            found.setdefault(kind, []).append(means)
        print(name, flush=True)
    rows = [row for kind, sets in found.items() for row in rows_of(kind, sets)]
    header = ("left of each set, rule", "sets", "mean", "auto there", "under")
    note = NOTE.format(n_seeds=n_seeds)
    publish("thinned", "Aggregators on parts of the sets", header, rows, note=note)


def rows_of(kind: str, sets: list[dict[str, float]]) -> Iterator[tuple[str, ...]]:
    """A row for each rule: its mean over the sets where it has an answer, and `auto`'s on these."""
    for rule in (*RULES, *(f"crowd-kit {name}" for name in PEERS)):
        those = [one for one in sets if rule in one]
        if those:
            mean, there = (np.mean([one[name] for one in those]) for name in (rule, "auto"))
            under = sum(is_under(one, rule) for one in those)
            yield f"{kind}, {rule}", str(len(those)), f"{mean:.2f}", f"{there:.2f}", str(under)


def is_under(found: dict[str, float], rule: str) -> bool:
    """Whether a rule is more than a point under the better of majority vote and Dawid–Skene."""
    return found[rule] < max(found["majority_vote"], found["dawid_skene"]) - LIMIT


NOTE = (
    "Per cent of gold tasks right, ties of ours in expectation, mean over the shared sets but mill. Of "
    "each set are left: two or three labels of each task, half or a fifth of the workers, drawn at "
    f"random; {N_TASKS} of the tasks with gold; the fewest workers who gave half of the labels; all others. "
    f"Draws of each: {{n_seeds}}; parts with fewer than {MIN_GOLD} gold tasks left out. `auto` was "
    "settled on these parts and the whole sets (page `choice` leaves each family out): a fit. "
    f"Auto there: `auto`'s mean over the same sets. Under: sets more than {LIMIT:g} point under the "
    "better of majority vote and Dawid–Skene, both ours. crowd-kit 1.4.2 by integer ids, 100 iterations "
    f"where it takes a number, no answer after {SECONDS} CPU seconds."
)


if __name__ == "__main__":
    main()

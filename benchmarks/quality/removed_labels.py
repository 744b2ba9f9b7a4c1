"""What the labels of removed workers are worth to the pool: weighed, or dropped.

python -m benchmarks.quality.removed_labels
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, FAMILIES, read_set, right
from benchmarks.quality.thinned import LARGE, MIN_GOLD, thinned
from quality import (
    CrowdLabels,
    auto,
    dependent_groups,
    encode,
    filter_dishonest,
    majority_vote,
    regular_assignment,
    simulate_crowd,
)

KINDS: Mapping[str, tuple[str, ...]] = {
    "answer at random": ("random",),
    "always wrong": ("malicious",),
    "always the same class": ("uniform",),
    "agree on a wrong class": ("colluding",),
    "copy one of them": ("sybils",),
    "a third each: random, wrong, same class": ("random", "malicious", "uniform"),
}
SHARES, CLASSES, SEEDS = (0.1, 0.2, 0.3), (2, 3, 5), 3
N_TASKS, N_WORKERS, PER_TASK = 500, 50, 5
HEADER = (
    "crowd", "tables", "workers removed", "majority vote", "majority vote, dropped", "auto, weighed",
    "auto, dropped", "weighed less dropped", "least", "most",
)  # fmt: skip
NOTE = (
    "Per cent of tasks right, ties in expectation: means over the tables from which the default filter "
    "(false removal rate .1) removes anybody; the last columns are points. `auto` as a run has it: groups "
    "who do not answer on their own have one vote. Weighed, the default: the pool has the labels of all "
    "workers. Dropped: those of the workers kept. Above, the shared sets but mill, and the parts of the page "
    f"`thinned`, of those with {MIN_GOLD} gold tasks. Below, simulated: {N_TASKS} tasks, {PER_TASK} labels "
    f"of each, {N_WORKERS} workers of whom that share are adversaries (those who copy come on top). Honest "
    "workers are right with a probability of their own, mean .8. "
    f"{', '.join(map(str, CLASSES))} classes, {SEEDS} draws of each."
)


@dataclass(frozen=True)
class Scores:
    """Workers removed, and per cent right by vote and pool: by all labels, and without those removed."""

    n_removed: int
    vote: float
    vote_kept: float
    pool: float
    pool_kept: float


def measure(labels: CrowdLabels, truth: np.ndarray) -> Scores | None:
    """The scores of a table; None where nobody is removed."""
    found = filter_dishonest(labels, rng=np.random.default_rng(0))
    if found.keep.all():
        return None
    kept, groups = labels.keep_workers(found.keep), dependent_groups(labels).group
    one_each = groups if (groups >= 0).any() else None
    rules = (
        (majority_vote(labels), majority_vote(kept)),
        (
            auto(labels, groups=one_each),
            auto(kept, groups=one_each),
        ),
    )
    shares = [right(one.posterior, truth) for pair in rules for one in pair]
    return Scores(int(np.count_nonzero(~found.keep)), *shares)


def sets() -> Iterator[tuple[str, Scores | None]]:
    """The shared sets, and parts of them."""
    for name in (name for family in FAMILIES for name in family if name not in LARGE):
        labels, gold = read_set(DATA / name)
        yield "shared sets, whole", measure(labels, gold)
        for part in thinned(labels, gold, 0):
            if np.count_nonzero(part.gold >= 0) >= MIN_GOLD:
                yield "shared sets, parts", measure(part.labels, part.gold)


def simulated() -> Iterator[tuple[str, Scores | None]]:
    """Crowds with adversaries of each kind."""
    for kind, strategies in KINDS.items():
        for share in SHARES:
            for n_classes in CLASSES:
                for seed in range(SEEDS):
                    each = round(share * N_WORKERS / len(strategies))
                    drawn = crowd(dict.fromkeys(strategies, each), n_classes, seed)
                    yield f"{kind}, {share:.0%}", measure(*drawn)


def crowd(
    adversaries: Mapping[str, int], n_classes: int, seed: int
) -> tuple[CrowdLabels, np.ndarray]:
    """A simulated crowd's labels and the truth of its tasks."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(
        n_tasks=N_TASKS, n_workers=N_WORKERS, labels_per_task=PER_TASK, rng=rng
    )
    truth = rng.integers(n_classes, size=N_TASKS)
    found = simulate_crowd(rows, truth, n_classes=n_classes, adversaries=adversaries, rng=rng)
    labels = encode(found.worker, found.task, found.label, classes=range(n_classes))
    return labels, truth[labels.tasks.astype(np.int64)]


def row(name: str, scores: list[Scores]) -> tuple[str, ...]:
    """A row of the page."""
    gain = np.array([one.pool - one.pool_kept for one in scores])
    means = (
        np.mean([getattr(one, which) for one in scores])
        for which in ("vote", "vote_kept", "pool", "pool_kept")
    )
    removed = np.mean([one.n_removed for one in scores])
    return (
        name, str(len(scores)), f"{removed:.1f}", *(f"{mean:.1f}" for mean in means), f"{gain.mean():+.1f}",
        f"{gain.min():+.1f}", f"{gain.max():+.1f}",
    )  # fmt: skip


def main() -> None:
    parser_of(__doc__).parse_args()
    found: dict[str, list[Scores]] = {}
    for parts in (sets(), simulated()):
        for name, scores in parts:
            if scores is not None:
                found.setdefault(name, []).append(scores)
    rows = [row(name, scores) for name, scores in found.items()]
    publish("removed_labels", "Labels of removed workers", HEADER, rows, note=NOTE)


if __name__ == "__main__":
    main()

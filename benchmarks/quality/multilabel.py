"""Sets of classes beside crowd-kit's BinaryRelevance over DawidSkene: macro-F1, calibration, CPU time.

    python -m benchmarks.quality.multilabel [--crowds N] [--rows N]

crowd-kit runs in an environment of its own.
"""

from __future__ import annotations

import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.peers.peers import CROWDKIT
from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, read_set
from quality import (
    MultiLabelConsensus,
    MultiLabels,
    encode_multilabels,
    multilabel_consensus,
    simulate_multilabels,
)
from quality.multilabel import KINDS

SETS = ("web", "dog", "labelme", "music")
HEADER = ("answers", "tasks, classes", "macro-F1", "crowd-kit", "votes", "calibration error",
          "of the model", "CPU s", "crowd-kit CPU s", "times as fast")  # fmt: skip
MOST_OTHERS = 0.6  # of a crowd of one kind beside honest workers
FIRST_SEED = 1000  # others than those by which a constant was settled
NOTE = """
crowd-kit is its BinaryRelevance over DawidSkene with 100 iterations.

- Public sets are of one class a task, recoded: `one` is the set of that class, `groups` has besides it the
  two groups of neighbouring classes that it is in, `grades` has the grades that it reaches.
- Simulated tasks have five answers each, and truths of up to three of 10 classes or five of 50; figures are
  the mean of {crowds} crowds. Of the workers {others:.0%} are of the kind named, or an eighth of each kind.
- Macro-F1 is over the classes that hold somewhere, with gold.
- The calibration error is over tens of probability, of the classes that some worker gave a task.
- CPU seconds are of fitting, the less of two fits of one process: here from an encoded table, for which
  encoding takes about a microsecond an answer, there from a data frame.
- What one constant of the calibration rests on, leaves and weather and other simulated crowds, is not on this
  page.
""".strip()


class Case(NamedTuple):
    """Answers and the truth of some of their tasks."""

    name: str
    worker: list[int]
    task: list[int]
    sets: list[list[int]]
    n_classes: int
    known: np.ndarray  # tasks
    truth: np.ndarray  # of them, by classes


class Score(NamedTuple):
    """The figures of one case."""

    mine: float
    peer: float
    votes: float
    calibrated: float
    model: float
    cpu: float
    peer_cpu: float


def recoded(name: str, how: str) -> Case:
    """A public set of one class a task as sets of classes.

    ``one``: the set of that class. ``groups``: the class, and two groups of neighbouring classes that it
    is in, so that every set has three labels. ``grades``: the grades that it reaches, for ordered classes.
    """
    labels, gold = read_set(DATA / name)
    n = labels.n_classes

    def recode(code: int) -> list[int]:
        if how == "one":
            return [code]
        return list(range(code)) if how == "grades" else [code, n + code, n + (code + 1) % n]

    n_classes = {"one": n, "groups": 2 * n, "grades": n - 1}[how]
    known = np.flatnonzero((gold >= 0) & (np.diff(labels.task_start) > 0))
    truth = np.zeros((len(known), n_classes), dtype=bool)
    for row, task in enumerate(known):
        truth[row, recode(int(gold[task]))] = True
    sets = [recode(code) for code in labels.label.tolist()]
    return Case(
        f"{name}, {how}",
        labels.worker.tolist(),
        labels.task.tolist(),
        sets,
        n_classes,
        known,
        truth,
    )


def simulated(kind: str, n_classes: int, seed: int) -> Case:
    """A crowd in which a kind of worker is the majority, or all kinds are."""
    n_tasks, n_workers = (400, 40) if n_classes <= 10 else (500, 50)
    others = {kind: round(MOST_OTHERS * n_workers)} if kind != "all kinds" else {}
    if kind == "all kinds":
        others = {name: n_workers // 8 for name in KINDS if name != "honest"}
    others.pop("honest", None)
    crowd = simulate_multilabels(
        n_tasks=n_tasks, n_workers=n_workers, answers_per_task=5, n_classes=n_classes,
        max_labels=3 if n_classes <= 10 else 5, others=others, rng=np.random.default_rng(seed),
    )  # fmt: skip
    table = crowd.table
    name = f"simulated, {kind}"
    workers, tasks = table.worker.tolist(), table.task.tolist()
    return Case(name, workers, tasks, sets_of(table), n_classes, np.arange(n_tasks), crowd.truth)


def sets_of(table: MultiLabels) -> list[list[int]]:
    """The codes of every answer's classes."""
    bounds, label = table.label_start.tolist(), table.label.tolist()
    return [label[first:last] for first, last in pairwise(bounds)]


def crowdkit_on(case: Case) -> tuple[np.ndarray, float]:
    """Which classes crowd-kit finds for the known tasks, and its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps({"worker": case.worker, "task": case.task, "label": case.sets}))
        printed = CROWDKIT.run("multilabel_side.py", str(path))
    if printed is None:
        raise SystemExit("crowd-kit's environment cannot be built here: is there a package index?")
    answer = json.loads(printed)
    found = np.zeros(case.truth.shape, dtype=bool)
    for row, task in enumerate(case.known.tolist()):
        found[row, answer["found"].get(str(task), [])] = True
    return found, answer["cpu"]


def here_on(case: Case) -> tuple[MultiLabels, MultiLabelConsensus, float]:
    """Encode and fit, with the CPU seconds of the fit, the less of two."""
    table = encode_multilabels(
        case.worker, case.task, case.sets, classes=list(range(case.n_classes))
    )
    cpu = float("inf")
    for _ in range(2):
        began = time.process_time()
        found = multilabel_consensus(table)
        cpu = min(cpu, time.process_time() - began)
    return table, found, cpu


def macro_f1(truth: np.ndarray, found: np.ndarray) -> float:
    """Mean F1 of the classes that hold somewhere."""
    some = truth.any(axis=0)
    both = (truth & found).sum(axis=0)[some]
    return float(np.mean(2 * both / (truth.sum(axis=0) + found.sum(axis=0))[some]))


def calibration_error(truth: np.ndarray, chance: np.ndarray) -> float:
    """Expected calibration error over tens, of cells that somebody gave."""
    place = np.minimum((chance * 10).astype(int), 9)
    gaps = [abs(chance[place == one].sum() - truth[place == one].sum()) for one in range(10)]
    return float(sum(gaps) / len(chance))


def score(case: Case) -> Score:
    """All figures of one case."""
    table, found, cpu = here_on(case)
    peer, peer_cpu = crowdkit_on(case)
    at = np.searchsorted(table.tasks, case.known)
    cell_task = np.repeat(np.arange(table.n_tasks), np.diff(found.start))
    chosen = np.zeros((table.n_tasks, case.n_classes), dtype=bool)
    chosen[cell_task, found.label] = found.chosen
    given = np.zeros((table.n_tasks, case.n_classes))
    np.add.at(given, (np.repeat(table.task, np.diff(table.label_start)), table.label), 1)
    votes = given > np.diff(table.task_start)[:, np.newaxis] / 2
    truth = np.full((table.n_tasks, case.n_classes), -1)
    truth[at] = case.truth
    holds = truth[cell_task, found.label]
    seen = holds >= 0
    return Score(
        macro_f1(case.truth, chosen[at]), macro_f1(case.truth, peer), macro_f1(case.truth, votes[at]),
        calibration_error(holds[seen], found.probability[seen]),
        calibration_error(holds[seen], found.model[seen]), cpu, peer_cpu,
    )  # fmt: skip


def row_of(cases: list[Case]) -> tuple[str, ...]:
    """The means of some cases of a name."""
    mean = Score(*np.mean([score(case) for case in cases], axis=0))
    first = cases[0]
    n_tasks = len(set(first.task))
    mark = "**" if mean.mine > mean.peer else ""
    return (
        first.name, f"{n_tasks:,}, {first.n_classes}", f"{mark}{mean.mine:.3f}{mark}",
        f"{mean.peer:.3f}", f"{mean.votes:.3f}", f"{mean.calibrated:.3f}", f"{mean.model:.3f}",
        f"{mean.cpu:.4f}", f"{mean.peer_cpu:.2f}", f"{mean.peer_cpu / mean.cpu:,.0f}",
    )  # fmt: skip


def large(n: int) -> tuple[str, ...]:
    """CPU seconds at many answers."""
    crowd = simulate_multilabels(
        n_tasks=n // 5, n_workers=2_000, answers_per_task=5, n_classes=50, max_labels=5,
        others={"careless": 400, "spammer": 200}, rng=np.random.default_rng(0),
    )  # fmt: skip
    began = time.process_time()
    found = multilabel_consensus(crowd.table)
    spent = time.process_time() - began
    f1 = macro_f1(crowd.truth, found.table() > 0.5)
    name = f"simulated, {n:,} answers, {len(crowd.table.label):,} labels"
    return (name, f"{n // 5:,}, 50", f"{f1:.3f}", *["–"] * 4, f"{spent:.1f}", "–", "–")


def main() -> None:
    asked = parser_of(__doc__)
    asked.add_argument("--crowds", type=int, default=2)
    asked.add_argument("--rows", type=int, default=500_000)
    given = asked.parse_args()
    here_on(simulated("honest", 10, 0))  # compiles
    rows = [row_of([recoded(name, how)]) for name in SETS for how in ("one", "groups")]
    rows.insert(2, row_of([recoded("web", "grades")]))
    seeds = range(FIRST_SEED, FIRST_SEED + given.crowds)
    for n_classes in (10, 50):
        for kind in (*KINDS, "all kinds"):
            rows.append(row_of([simulated(kind, n_classes, seed) for seed in seeds]))
    publish(
        "multilabel",
        "Several classes at once",
        HEADER,
        [*rows, large(given.rows)],
        note=NOTE.format(crowds=given.crowds, others=MOST_OTHERS),
    )


if __name__ == "__main__":
    main()

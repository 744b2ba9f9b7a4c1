"""The filter among workers who grade, by penalties with and without distance.

python -m benchmarks.quality.graded_filter [--crowds 20] [--processes 2]
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.publish import parser_of, publish
from quality import CrowdLabels, encode, filter_dishonest, regular_assignment, simulate_crowd
from quality.reputation.graded_answers import fit_graded

N_WORKERS, N_LABELS, DECAY, RATE = 40, 5, 0.3, 0.1
SKILLS = {"four in five right": (12.0, 3.0), "three in five right": (6.0, 4.0)}


class Design(NamedTuple):
    """A campaign: how many tasks, and how frequent each grade is."""

    name: str
    n_tasks: int
    share: tuple[float, ...]


FIVE = Design("5 grades", 250, (0.2,) * 5)
OTHER_DESIGNS = (
    Design("3 grades", 250, (1 / 3,) * 3),
    Design("7 grades", 250, (1 / 7,) * 7),
    Design("5 grades, 12 labels a worker", 96, (0.2,) * 5),
    Design("5 grades, seven in ten the lowest", 250, (0.7, 0.15, 0.08, 0.05, 0.02)),
)
OTHERS: Mapping[str, Mapping[str, int]] = {
    "nobody": {},
    "random": {"random": 6},
    "uniform": {"uniform": 6},
    "malicious": {"malicious": 6},
    "shifted": {"shifted": 6},
}
HEADER = (
    "design",
    "honest workers",
    "six others of 40",
    "others found, by distance",
    "without",
    "honest removed, by distance",
    "without",
    "crowds that lose honest ones, by distance",
    "without",
)


class Row(NamedTuple):
    """What one row of the page is about."""

    design: Design
    skill: str
    others: str


def crowd(
    seed: int, design: Design, others: Mapping[str, int], reliability: tuple[float, float]
) -> tuple[CrowdLabels, np.ndarray]:
    """Labels of a crowd that grades, and the kind of each worker."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(
        n_tasks=design.n_tasks, n_workers=N_WORKERS, labels_per_task=N_LABELS, rng=rng
    )
    n_grades = len(design.share)
    found = simulate_crowd(
        rows, rng.choice(n_grades, size=design.n_tasks, p=design.share), n_classes=n_grades,
        adversaries=others, reliability=reliability, decay=DECAY, rng=rng,
    )  # fmt: skip
    names = np.array([f"w{code:02d}" for code in found.worker])
    return encode(names, found.task, found.label, classes=list(range(n_grades))), found.kind


def cells_of(row: Row, n_crowds: int) -> tuple[str, ...]:
    """The cells of a row: who was found and who was lost, by distance and without."""
    others = OTHERS[row.others]
    found, honest, lost = np.zeros((3, 2), dtype=int)
    for seed in range(n_crowds):
        labels, kind = crowd(seed, row.design, others, SKILLS[row.skill])
        for place, ordered in enumerate((True, False)):
            removed = filter_dishonest(
                labels,
                false_removal_rate=RATE,
                ordered=ordered,
                rng=np.random.default_rng(seed),
            ).removed
            n_honest = int((kind[removed] == "honest").sum())
            found[place] += len(removed) - n_honest
            honest[place] += n_honest
            lost[place] += n_honest > 0
    n_others = n_crowds * sum(others.values())
    return (
        row.design.name, row.skill, row.others,
        *(f"{one} of {n_others}" if n_others else "" for one in found),
        *(f"{one / n_crowds:.2f} a crowd" for one in honest),
        *(f"{one} of {n_crowds}" for one in lost),
    )  # fmt: skip


def seconds_of_fit(n_labels: int) -> float:
    """CPU seconds of the fit of so many labels, five a task and a hundred a worker."""
    rng = np.random.default_rng(0)
    rows = regular_assignment(
        n_tasks=n_labels // 5, n_workers=n_labels // 100, labels_per_task=5, rng=rng
    )
    found = simulate_crowd(
        rows, rng.integers(5, size=n_labels // 5), n_classes=5, adversaries={},
        reliability=SKILLS["three in five right"], decay=DECAY, rng=rng,
    )  # fmt: skip
    labels = encode(found.worker, found.task, found.label, classes=list(range(5)))
    began = time.process_time()
    fit_graded(labels)
    return time.process_time() - began


def main() -> None:
    """Print the table and write it down."""
    parser = parser_of(__doc__)
    parser.add_argument("--crowds", type=int, default=20, help="simulated crowds a row")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    asked = [Row(FIVE, skill, name) for skill in SKILLS for name in OTHERS]
    hard = "three in five right"
    asked += [Row(one, hard, name) for one in OTHER_DESIGNS for name in ("nobody", "random")]
    with ProcessPoolExecutor(given.processes) as pool:
        rows = list(pool.map(partial(cells_of, n_crowds=given.crowds), asked))
    seconds_of_fit(1_000)  # compiles
    small, large = seconds_of_fit(100_000), seconds_of_fit(1_000_000)
    publish(
        "graded_filter",
        "The filter among workers who grade",
        HEADER,
        rows,
        note=(
            f"{N_WORKERS} workers, {N_LABELS} labels a task, {FIVE.n_tasks} tasks (96 where a worker has 12 "
            f"labels), {given.crowds} crowds a row; grades are equally frequent by default. A "
            f"wrong grade of an honest worker is {DECAY:g} times as frequent with each grade farther off. "
            f"False removal rate {RATE:g}: the chance to lose anybody where nobody is dishonest. By "
            "distance: weighted penalties, judged by graders; without: as for names. Seeds are fixed. The "
            f"fit of the honest graders takes {small:.2f} CPU seconds for 100,000 labels and {large:.1f} "
            "for 1,000,000, of 5 grades."
        ),
    )


if __name__ == "__main__":
    main()

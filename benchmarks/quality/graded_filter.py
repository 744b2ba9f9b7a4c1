"""The filter among workers who grade, by penalties with and without distance.

python -m benchmarks.quality.graded_filter [--crowds 20]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

from benchmarks.publish import publish
from quality import CrowdLabels, encode, filter_dishonest, regular_assignment, simulate_crowd

N_WORKERS, N_TASKS, N_LABELS, N_GRADES, DECAY, RATE = 40, 250, 5, 5, 0.3, 0.1
SKILLS = {"four in five right": (12.0, 3.0), "three in five right": (6.0, 4.0)}
OTHERS: Mapping[str, Mapping[str, int]] = {
    "nobody": {},
    "random": {"random": 6},
    "uniform": {"uniform": 6},
    "malicious": {"malicious": 6},
    "shifted": {"shifted": 6},
}
HEADER = (
    "honest workers",
    "six others of 40",
    "others found, by distance",
    "without",
    "honest removed, by distance",
    "without",
    "crowds that lose honest ones, by distance",
    "without",
)


def crowd(
    seed: int, others: Mapping[str, int], reliability: tuple[float, float]
) -> tuple[CrowdLabels, np.ndarray]:
    """Labels of a crowd that grades, and the kind of each worker."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(
        n_tasks=N_TASKS, n_workers=N_WORKERS, labels_per_task=N_LABELS, rng=rng
    )
    found = simulate_crowd(
        rows, rng.integers(N_GRADES, size=N_TASKS), n_classes=N_GRADES, adversaries=others,
        reliability=reliability, decay=DECAY, rng=rng,
    )  # fmt: skip
    names = np.array([f"w{code:02d}" for code in found.worker])
    return encode(names, found.task, found.label, classes=list(range(N_GRADES))), found.kind


def main() -> None:
    """Print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crowds", type=int, default=20, help="simulated crowds a row")
    n_crowds, rows = parser.parse_args().crowds, []
    for skill, reliability in SKILLS.items():
        for name, others in OTHERS.items():
            found, honest, lost = np.zeros((3, 2), dtype=int)
            for seed in range(n_crowds):
                labels, kind = crowd(seed, others, reliability)
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
            rows.append((
                skill, name,
                *(f"{one} of {n_others}" if n_others else "" for one in found),
                *(f"{one / n_crowds:.2f} a crowd" for one in honest),
                *(f"{one} of {n_crowds}" for one in lost),
            ))  # fmt: skip
    publish(
        "graded_filter",
        "The filter among workers who grade",
        HEADER,
        rows,
        note=(
            f"{N_TASKS} tasks of {N_GRADES} grades, {N_LABELS} labels each by {N_WORKERS} workers, "
            f"{n_crowds} crowds a row. A wrong grade of an honest worker is {DECAY:g} times as "
            f"frequent with each grade farther off. False removal rate {RATE:g}: the chance to lose "
            "anybody where nobody is dishonest. By distance: weighted penalties, judged by graders; "
            "without: as for names. Seeds are fixed."
        ),
    )


if __name__ == "__main__":
    main()

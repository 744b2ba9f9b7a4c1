"""How well the false removal rate finds adversaries, beside the fixed 15 % rule.

    python -m benchmarks.filter_power --runs 10

100 workers, 500 tasks, five labels a task, two classes, honest accuracies Beta(12, 3); 30 of the
workers are adversaries, or none. Means over the runs; a share of crowds carries its standard error.
Precision is the share of adversaries among the removed, power the share of adversaries removed;
"paper" removes as many workers as the false removal rate did, by the highest penalty.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from quality import encode, filter_workers, regular_assignment, simulate_crowd
from quality.strategies import STRATEGIES

RESULT = Path(__file__).resolve().parents[1] / "docs" / "results" / "filter_power.md"
RATE = 0.1
HEADER = ("adversaries", "removed", "precision", "power", "paper: precision",
          "15 %: precision", "15 %: power", "crowds with a removal")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="crowds for each strategy")
    n_runs = parser.parse_args().runs
    rows = [row(name, n_runs) for name in ("none", *STRATEGIES)]
    table = Table(*HEADER, title=f"false removal rate {RATE}, {n_runs} crowds a row")
    for cells in rows:
        table.add_row(*cells)
    Console(width=140).print(table)
    lines = [" | ".join(("", *cells, "")).strip() for cells in (HEADER, *rows)]
    lines.insert(1, "|" + "---|" * len(HEADER))
    title = f"# Power of the false removal rate {RATE}"
    how = f"`python -m benchmarks.filter_power --runs {n_runs}`"
    notes = (__doc__ or "").split("\n\n")[-1].strip()
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text("\n\n".join([title, how, "\n".join(lines), notes]) + "\n")


def row(strategy: str, n_runs: int) -> tuple[str, ...]:
    """One line of the table."""
    found = np.array([measure(strategy, seed) for seed in range(n_runs)])
    removed, precision, power, paper, fixed, fixed_power = (
        f"{np.nanmean(values):.2f}" if np.isfinite(values).any() else "–" for values in found.T
    )
    share = float(np.mean(found[:, 0] > 0))
    error = np.sqrt(share * (1 - share) / n_runs)
    shown = f"{share:.2f} ± {error:.2f}"
    return strategy, removed, precision, power, paper, fixed, fixed_power, shown


def measure(strategy: str, seed: int) -> tuple[float, ...]:
    """One crowd: removed, precision and power of the rate, the paper's rule at as many, at 15 %."""
    rng = np.random.default_rng([30, seed])
    rows = regular_assignment(n_tasks=500, n_workers=100, labels_per_task=5, rng=rng)
    adversaries = {} if strategy == "none" else {strategy: 30}
    crowd = simulate_crowd(
        rows, rng.integers(2, size=500), n_classes=2, adversaries=adversaries, rng=rng
    )
    labels = encode(crowd.worker, crowd.task, crowd.label, classes=(0, 1))
    bad = crowd.kind != "honest"
    rate = filter_workers(labels, false_removal_rate=RATE, rng=rng).removed
    same = filter_workers(labels, n_workers=len(rate)).removed
    fixed = filter_workers(labels, fraction=0.15).removed
    return (
        len(rate), share(bad[rate]), share(bad[rate], 30 * bad.any()), share(bad[same]),
        share(bad[fixed]), share(bad[fixed], 30 * bad.any()),
    )  # fmt: skip


def share(hit: np.ndarray, of: int | None = None) -> float:
    """Hits over how many; not a number over none."""
    n = len(hit) if of is None else of
    return float(np.count_nonzero(hit) / n) if n else float("nan")


if __name__ == "__main__":
    main()

"""How well a run on the sample campaign finds what was planted.

    python -m benchmarks.flows.sample_truth --runs 5

Each run has a state of its own, so its releases are drawn afresh; figures that depend on the noise are
means over the runs.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.publish import parser_of, publish
from flows.pipeline import run_pipeline
from flows.run.store import Run
from flows.settings.settings import load_settings
from flows.simulate import copy_sample
from sample_data import __path__ as sample_path


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=5, help="independent runs to average over")
    runs = [measure() for _ in range(parser.parse_args().runs)]
    rows = [
        [name, f"{np.mean([run[name] for run in runs]):.4g}", _range([run[name] for run in runs])]
        for name in runs[0]
    ]
    publish(
        "sample_truth",
        "Sample campaign: found against planted",
        ("figure", "mean", "least to largest"),
        rows,
        note=f"Mean of {len(runs)} runs, each with a ledger of its own, so that its noise is fresh.",
    )


def _range(values: list[float]) -> str:
    return "" if min(values) == max(values) else f"{min(values):.4g} to {max(values):.4g}"


def measure() -> dict[str, float]:
    """One run in a fresh folder, scored against the truth."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(copy_sample(Path(folder)))
        run = Run(run_pipeline(settings).folder, settings)
        return workers(run) | published(run) | ratios(run) | model(run)


def truth(name: str) -> dict[str, str]:
    with (Path(next(iter(sample_path))) / "truth" / name).open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {row[0]: row[1] for row in rows}


def workers(run: Run) -> dict[str, float]:
    kind = truth("workers.csv")
    table = run.read_table("workers.parquet").to_pydict()
    flagged = [
        worker for worker, flag in zip(table["worker"], table["flagged"], strict=True) if flag
    ]
    honest = sum(kind[worker] == "honest" for worker in flagged)
    label = truth("tasks.csv")
    consensus = run.read_table("consensus.parquet").to_pydict()
    right = [label[t] == c for t, c in zip(consensus["task"], consensus["label"], strict=True)]
    return {
        "adversaries planted": sum(k != "honest" for k in kind.values()),
        "adversaries flagged": len(flagged) - honest,
        "honest workers flagged": honest,
        "consensus accuracy": float(np.mean(right)),
    }


def published(run: Run) -> dict[str, float]:
    """L1 error in labels per group: of the noise alone, and against the truth."""
    table = run.read_table("proportions.parquet").to_pydict()
    consensus, label = run.read_table("consensus.parquet").to_pydict(), truth("tasks.csv")
    noise, against_truth = {}, {}
    for group, name, n, noisy, share in zip(
        *(table[key] for key in ("group", "class", "n", "noisy_count", "proportion")), strict=True
    ):
        members = [
            t for t, g in zip(consensus["task"], consensus["group"], strict=True) if g == group
        ]
        counted = sum(
            c == name
            for g, c in zip(consensus["group"], consensus["label"], strict=True)
            if g == group
        )
        true = sum(label[task] == name for task in members)
        noise[group] = noise.get(group, 0) + abs(noisy - counted)
        against_truth[group] = against_truth.get(group, 0) + abs(share * n - true)
    return {
        "proportions: expected noise, labels a group": run.read_json("proportions.json")[
            "expected_l1_labels"
        ],
        "proportions: noise found, labels a group": float(np.mean(list(noise.values()))),
        "proportions: error against truth, labels a group": float(
            np.mean(list(against_truth.values()))
        ),
    }


def ratios(run: Run) -> dict[str, float]:
    """L1 error of the unlabelled groups' class ratios, and how often the interval holds the truth."""
    table, label = run.read_table("class_ratios.parquet").to_pydict(), truth("tasks.csv")
    with (run.settings.input.tasks[0]).open(newline="") as file:
        group_of = {row["task"]: row["group"] for row in csv.DictReader(file)}
    error, inside = {}, []
    for group, name, ratio, low, high in zip(
        *(table[key] for key in ("group", "class", "ratio", "low", "high")), strict=True
    ):
        members = [task for task, g in group_of.items() if g == group]
        true = float(np.mean([label[task] == name for task in members]))
        error[group] = error.get(group, 0) + abs(ratio - true)
        inside.append(low <= true <= high)
    return {
        "class ratios: L1 error": float(np.mean(list(error.values()))),
        "class ratios: intervals that hold the truth": float(np.mean(inside)),
    }


def model(run: Run) -> dict[str, float]:
    found, gate = run.read_json("model.json"), run.read_json("gate.json")
    bounds, spend = run.read_json("bounds.json"), run.read_json("spend.json")
    least = next(b["value"] for b in bounds["bounds"] if b["name"] == bounds["least"])
    return {
        "model accuracy: private": found["validation"]["private"],
        "model accuracy: without privacy": found["validation"]["non_private"],
        "model accuracy: commonest class": found["validation"]["majority_class"],
        "gate agrees": float(gate["status"] == "agrees"),
        "bound on the true error": least,
        "epsilon spent": spend["spent"]["epsilon"],
        "epsilon budget": spend["budget"]["epsilon"],
    }


if __name__ == "__main__":
    main()

"""A year of monthly runs of the sample campaign on one budget: every month paid, published and judged.

    python -m benchmarks.flows.year

The campaign grows from a twelfth to its whole; the year's runs are real ones, in a folder of their own.
The gate alone is simulated over many years, and the last month's model is trained again and again.
"""

from __future__ import annotations

import csv
import json
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learners.stability import seeded
from benchmarks.publish import parser_of, publish
from flows.pipeline import run_pipeline
from flows.run import Run, load_crowd
from flows.settings import Settings, load_settings
from flows.simulate import copy_sample
from flows.spending import preview, read_statements, year_of
from flows.spending.cohorts import known_sizes
from learners import LinearModel, NoisyGradientDescent, StabilityValidation
from learners.holdout import ScoreCounts, judge_pooled
from learners.private.objective_perturbation import training_query
from privacy import LatticeLaplace, choose_mechanism

RUNS, EPSILON, DELTA = 12, 8.0, 1e-6
DRAWS, RIGHT, GAP = 20, (0.9, 0.8), 0.1
NOTE = (
    "The sample campaign grows from {first:,} to {last:,} labelled tasks in twelve runs with "
    "`planned_runs = 12`, epsilon 8 and delta 1e-6 for all of them. The gate is simulated over {years:,} "
    "years: sound models are right on .8 of training and fresh tasks, overfitted ones on .9 and .8."
)
MODEL_NOTE = (
    "Accuracy on a fifth of the sample campaign's tasks that nothing was trained on, against the consensus "
    "of a run: mean of {draws} draws with its standard error. The year's model is the average of twelve, "
    "each trained on a twelfth of the other tasks at epsilon {price:g}. The others are trained once on all "
    "of them, at epsilon 2.5 with the score's 0.2, as a run's settings may choose."
)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--years", type=int, default=2_000, help="simulated years of the gate")
    parser.add_argument("--runs", type=int, default=RUNS, help="months that are really run")
    parser.add_argument("--only", choices=("months", "model"), help="one of the two pages")
    given = parser.parse_args()
    if given.only != "model":
        publish_months(given.runs, given.years)
    if given.only != "months":
        publish_model()


def publish_months(n_runs: int, years: int) -> None:
    """Run the year, and simulate its gate."""
    with tempfile.TemporaryDirectory() as folder:
        settings, months = run_year(Path(folder), n_runs)
        rows = [*ledger_rows(settings), *month_rows(settings, months)]
    rows += gate_rows(settings, years)
    sizes = [month["n"] for month in months]
    publish(
        "year",
        "A year of runs on one budget",
        ("figure", "found", "to hold"),
        rows,
        note=NOTE.format(first=sizes[0], last=sizes[-1], years=years),
    )


def publish_model() -> None:
    """Draw the last month's model, and models that are trained once, again and again."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(prepare(Path(folder)))
        rows = model_rows(settings, Run(run_pipeline(settings).folder, settings))
    year = year_of(settings)
    assert year is not None
    publish(
        "year_model",
        "The model of month 12, against one trained once",
        ("model", "accuracy", "to hold"),
        rows,
        note=MODEL_NOTE.format(draws=DRAWS, price=year.train),
    )


def run_year(folder: Path, n_runs: int) -> tuple[Settings, list[dict[str, Any]]]:
    """Run every month on the tasks that have joined by then."""
    path = prepare(folder)
    grow, months = growing(folder), []
    for month in range(1, n_runs + 1):
        n_joined = grow(month)
        settings = load_settings(path)
        result = run_pipeline(settings)
        run = Run(result.folder, settings)
        found = {name: run.read_json(f"{name}.json") for name in ("proportions", "model", "gate")}
        spent = run.read_json("spend.json")["spent"]
        months.append(found | {"run": run, "n": n_joined, "spent": spent})
        print(month, *(line.line for line in result.stages[3:7]), spent, sep="\n  ", flush=True)
    return settings, months


def prepare(folder: Path) -> Path:
    """The sample campaign with a budget for a year, and no prices but that."""
    path = copy_sample(folder)
    text = path.read_text().replace(
        "epsilon = 4.0\n",
        f"epsilon = {EPSILON}\ndelta = {DELTA}\nplanned_runs = {RUNS}\nplanned_tasks = 4000\n",
    )
    prices = r"^(proportions_epsilon|epsilon_\w+|threshold|sigma|budget) = .*\n"
    path.write_text(re.sub(prices, "", text, flags=re.MULTILINE))
    return path


def growing(folder: Path) -> Callable[[int], int]:
    """What leaves a campaign the tasks that have joined by a month, and returns their number."""
    labels, gold = (rows_of(folder / name) for name in ("labels.csv", "gold.csv"))
    tasks = sorted({row[1] for row in labels[1:]})
    random.Random(1).shuffle(tasks)

    def grow(month: int) -> int:
        joined = set(tasks[: round(len(tasks) * month / RUNS)])
        for name, rows, column in (("labels.csv", labels, 1), ("gold.csv", gold, 0)):
            write_rows(folder / name, [rows[0], *(row for row in rows if row[column] in joined)])
        return len(joined)

    return grow


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def write_rows(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def ledger_rows(settings: Settings) -> list[list[str]]:
    """The ledger's sum, the plan's price and the preview, which are to agree exactly."""
    year = year_of(settings)
    assert year is not None
    spent = read_statements(settings.state)[0]["spent"]
    predicted = preview(settings.state, settings)["year"]["price"]
    price = {"epsilon": float(year.cost().epsilon), "delta": float(year.cost().delta)}
    agree = spent == predicted == price
    return [["ledger's sum, plan's price, preview", json.dumps(spent), f"equal: {agree}"]]


def month_rows(settings: Settings, months: list[dict[str, Any]]) -> list[list[str]]:
    """What every month published, and the error of its counts against that of a single release."""
    single = choose_mechanism(3, EPSILON / 3, DELTA / 3).expected_l1
    error = [month["proportions"].get("expected_l1_labels", np.inf) / single for month in months]
    silent = [
        j
        for j, month in enumerate(months, start=1)
        if any("skipped" in month[name] for name in ("proportions", "model", "gate"))
    ]
    sound = [month["gate"].get("status") == "agrees" for month in months]
    return [
        ["months run", str(len(months)), f"{RUNS}"],
        ["months refused or silent", str(len(silent)), "0"],
        ["cohorts", str(len(known_sizes(settings.state, settings.name))), f"{RUNS}"],
        ["counts' expected error, months of the single release's", ratios(error), "at most 2.50"],
        ["months in which the gate agreed", str(sum(sound)), f"{RUNS}"],
    ]


def ratios(error: list[float]) -> str:
    shown = [1, 3, 6, 9, 12]
    return ", ".join(f"{m}: {error[m - 1]:.2f}" for m in shown if m <= len(error))


def model_rows(settings: Settings, run: Run) -> list[list[str]]:
    """The average of a year's models against one that is trained once, drawn again and again."""
    year, model = year_of(settings), settings.model
    assert year is not None
    assert model is not None
    crowd, bound = load_crowd(run.folder), model.norm_bound
    label = run.read_table("consensus.parquet").column("label").to_pylist()
    classes = [str(name) for name in crowd.labels.classes]
    y, x = np.array([classes.index(name) for name in label]), crowd.label_features()
    monthly = NoisyGradientDescent(year.train, year.delta, bound, len(classes))
    descent = NoisyGradientDescent(2.3, DELTA, bound, len(classes))
    pure = StabilityValidation(model.regularization, 2.0, 0.3, bound, len(classes))
    found: dict[str, list[float]] = {"a year of cohorts": [], "once, descent": [], "once, pure": []}
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(y))
        held, rest = order[: len(y) // 5], order[len(y) // 5 :]
        validation, learnt = rest[: len(rest) // 5], rest[len(rest) // 5 :]
        coefs = [
            draw(monthly, x[part], y[part], 100 * seed + month)
            for month, part in enumerate(np.array_split(learnt, RUNS))
        ]
        mask = np.isin(rest, validation)
        drawn = (
            np.mean(coefs, axis=0),
            draw(descent, x[learnt], y[learnt], 100 * seed + 50),
            draw(pure, x[rest], y[rest], 100 * seed + 51, mask),
        )
        for accuracies, coef in zip(found.values(), drawn, strict=True):
            accuracies.append(right(coef, x[held], y[held], bound))
    mean = {name: float(np.mean(accuracies)) for name, accuracies in found.items()}
    best = max(mean["once, descent"], mean["once, pure"])
    held_to = f"at least {best - 0.03:.3f}: {mean['a year of cohorts'] >= best - 0.03}"
    return [
        [
            name,
            f"{mean[name]:.3f} ± {np.std(one, ddof=1) / np.sqrt(DRAWS):.3f}",
            held_to if j == 0 else "",
        ]
        for j, (name, one) in enumerate(found.items())
    ]


def draw(
    mechanism: Any, x: np.ndarray, y: np.ndarray, seed: int, validation: np.ndarray | None = None
) -> np.ndarray:
    query = training_query(x, y, dataset="benchmark", validation=validation)
    return np.array(mechanism.draw(query, seeded(seed))["coef"])


def right(coef: np.ndarray, x: np.ndarray, y: np.ndarray, norm_bound: float) -> float:
    return float((LinearModel(coef, norm_bound).predict(x) == y).mean())


def gate_rows(settings: Settings, years: int) -> list[list[str]]:
    """How often the gate lets sound models pass, and refutes overfitted ones, month by month."""
    rng, year = np.random.default_rng(0), year_of(settings)
    assert year is not None
    passes = gate_share(rng, (RIGHT[1], RIGHT[1]), year, years, "agrees")
    power = gate_share(rng, RIGHT, year, years, "overfit")
    return [
        ["sound models that pass, least month", f"{min(passes):.4f}", "at least .99"],
        [
            "models overfitted by .1 that are refuted, months 3, 6, 9, 12",
            ", ".join(f"{power[m - 1]:.3f}" for m in (3, 6, 9, 12)),
            "at least .9 from month 6",
        ],
        ["least of months 6 to 12", f"{min(power[5:]):.3f}", "at least .9"],
    ]


def gate_share(
    rng: np.random.Generator, shares: tuple[float, float], year: Any, years: int, status: str
) -> list[float]:
    """Share of years, month by month, in which the gate says so of models that are right so often."""
    n = 4000 // RUNS
    sizes = round(n * 0.8 * 0.8), round(n * 0.2)
    laws = [LatticeLaplace(price).law(2) for price in (year.score, year.gate)]
    drawn = [
        rng.binomial(size, share, (years, RUNS))
        + rng.choice(law.support, p=law.probability / law.probability.sum(), size=(years, RUNS))
        for size, share, law in zip(sizes, shares, laws, strict=True)
    ]
    said = np.zeros((years, RUNS), dtype=bool)
    for one in range(years):
        for month in range(1, RUNS + 1):
            counts = [
                ScoreCounts(tuple(right[one, :month].tolist()), (size,) * month, law.variance)
                for right, size, law in zip(drawn, sizes, laws, strict=True)
            ]
            said[one, month - 1] = judge_pooled(*counts).status == status
    shares_said: list[float] = said.mean(axis=0).tolist()
    return shares_said


if __name__ == "__main__":
    main()

"""Ranking by comparisons beside evalica, choix, crowd-kit: same models, held-out answers, coverage, speed.

    python -m benchmarks.quality.comparisons [--crowds N] [--rows N]

The peers run in an environment of their own. The held-out answers are a fifth of each set, five times.
"""

from __future__ import annotations

import csv
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.peers.peers import PAIRWISE
from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA
from quality import (
    Comparisons,
    bradley_terry,
    crowd_bradley_terry,
    encode_comparisons,
    rank_intervals,
)
from quality.comparisons import TIE

FOLDS = 5
HEADER = ("set", "measure", "crowdassay", "evalica, ties half", "evalica", "choix",
          "crowd-kit BT", "crowd-kit NoisyBT")  # fmt: skip
ORDER = ("evalica (ties half)", "evalica", "choix", "crowd-kit BradleyTerry",
         "crowd-kit NoisyBradleyTerry")  # fmt: skip
SIDES = {"model_a": "left", "model_b": "right", "tie": "tie"}


def preferences(who: str) -> Comparisons:
    """People's comparisons, those of two models, or all."""
    with (DATA / "preferences" / "comparisons.csv").open(newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if who == "all" or row["worker"].startswith("model") == (who == "models")
        ]
    names = ("worker", "left", "right", "winner")
    return encode_comparisons(
        *([row[name] for row in rows] for name in names),
        question=[row["prompt"] for row in rows],
    )


def mtbench() -> Comparisons:
    """People and models on two answers; a task's name is question, left, right, turn."""
    rows = []
    for name in ("people.csv", "models.csv"):
        with (DATA / "panels" / "mtbench" / name).open(newline="") as file:
            rows += list(csv.DictReader(file))
    parts = [row["task"].split("__") for row in rows]
    return encode_comparisons(
        [row["worker"] for row in rows],
        [part[1] for part in parts],
        [part[2] for part in parts],
        [SIDES[row["label"]] for row in rows],
        question=[f"{part[0]} {part[3]}" for part in parts],
    )


def peers_on(table: Comparisons) -> dict[str, dict]:
    """What the peers make of the rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(
            path, worker=table.worker, left=table.left, right=table.right, outcome=table.outcome,
            n_items=len(table.items),
        )  # fmt: skip
        printed = PAIRWISE.run("pairwise_side.py", str(path))
    return {} if printed is None else json.loads(printed)


def losses(table: Comparisons) -> dict[str, list[float]]:
    """Mean log loss of who wins, given that there is no tie, on held-out answers."""
    fold = np.random.default_rng(0).integers(FOLDS, size=len(table.worker))
    found: dict[str, list[float]] = {}
    for number in range(FOLDS):
        train, test = (
            table.take(np.flatnonzero(fold != number)),
            table.take(np.flatnonzero(fold == number)),
        )
        decided = test.outcome != TIE
        chance = crowd_bradley_terry(train).chances(test)[decided]
        left = chance[:, 0] / (chance[:, 0] + chance[:, 1])
        found.setdefault("crowdassay", []).append(log_loss(left, test.outcome[decided]))
        for name, peer in peers_on(train).items():
            if peer["score"] is None:
                continue
            score = np.array(peer["score"])
            left = 1 / (1 + np.exp(score[test.right] - score[test.left]))[decided]
            found.setdefault(name, []).append(log_loss(left, test.outcome[decided]))
    return found


def log_loss(left: np.ndarray, outcome: np.ndarray) -> float:
    """Mean negative log-probability of the sides preferred."""
    chance = np.clip(np.where(outcome == 0, left, 1 - left), 1e-12, 1)
    return float(-np.log(chance).mean())


def set_rows(name: str, table: Comparisons) -> list[tuple[str, ...]]:
    """A set's rows: the same model's scores, and what is predicted of held-out answers."""
    peers = peers_on(table)
    rows = []
    half, drop = (bradley_terry(table, ties=ties).score for ties in ("half", "drop"))  # type: ignore[arg-type]
    cells = []
    for peer in ORDER:
        mine = half if "half" in peer else drop
        score = peers.get(peer, {}).get("score")
        same = score is not None and "Noisy" not in peer
        cells.append(f"{np.abs(np.array(score) - mine).max():.0e}" if same else "–")
    rows.append((name, "largest difference of a log score, same model", "0", *cells))
    loss = losses(table)
    cells = [f"{np.mean(loss[peer]):.4f}" if peer in loss else "fails" for peer in ORDER]
    rows.append(
        (name, "held-out log loss of who wins", f"**{np.mean(loss['crowdassay']):.4f}**", *cells)
    )
    return rows


def crowd(
    rng: np.random.Generator, n_items: int, n_workers: int, n: int
) -> tuple[Comparisons, np.ndarray]:
    """A crowd of the model: workers who differ in sharpness, side and ties."""
    score = rng.normal(size=n_items)
    judge = rng.normal([1.0, 0.0, -0.3], [0.5, 0.4, 0.8], size=(n_workers, 3))
    worker, left = rng.integers(n_workers, size=n), rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    half = (judge[worker, 0] * (score[left] - score[right]) + judge[worker, 1]) / 2
    said = (np.stack([half, -half, judge[worker, 2]], 1) + rng.gumbel(size=(n, 3))).argmax(axis=1)
    table = encode_comparisons(
        worker, left, right, np.array(["left", "right", "tie"])[said].tolist()
    )
    score = score[table.items.astype(int)] * judge[:, 0].mean()
    return table, score - score.mean()


def coverage(n_crowds: int) -> list[tuple[str, ...]]:
    """How often 95 % intervals hold, one score at a time and all ranks at once."""
    rows = []
    for n_items, n_workers, n in ((10, 5, 600), (20, 30, 1500), (40, 100, 3000)):
        one, all_ = [], []
        for seed in range(n_crowds):
            rng = np.random.default_rng(seed)
            table, score = crowd(rng, n_items, n_workers, n)
            found = crowd_bradley_terry(table)
            one.append(
                np.mean(np.abs(found.score - score) < 1.96 * np.sqrt(np.diag(found.covariance)))
            )
            ranks = rank_intervals(found.score, found.covariance, n_draws=500, rng=rng)
            true = np.argsort(np.argsort(-score)) + 1
            all_.append(bool(np.all((ranks.best <= true) & (true <= ranks.worst))))
        name = f"simulated: {n_items} items, {n_workers} workers, {n:,} comparisons"
        rows.append((name, "95 % intervals that hold: scores", f"{np.mean(one):.3f}", *["–"] * 5))
        rows.append(
            (name, "95 % intervals that hold: all ranks", f"{np.mean(all_):.3f}", *["–"] * 5)
        )
    return rows


def speed(n: int) -> tuple[str, ...]:
    """CPU seconds of a million comparisons and more, of 1,000 items by 500 workers."""
    crowd_bradley_terry(crowd(np.random.default_rng(1), 10, 5, 100)[0])  # compiles
    table, _ = crowd(np.random.default_rng(0), 1_000, 500, n)
    began = time.process_time()
    found = crowd_bradley_terry(table)
    spent = time.process_time() - began
    assert found.converged
    return (f"simulated: 1,000 items, 500 workers, {n:,} comparisons", "CPU s of the fit", f"{spent:.1f}",
            *["–"] * 5)  # fmt: skip


def main() -> None:
    asked = parser_of(__doc__)
    asked.add_argument("--crowds", type=int, default=200)
    asked.add_argument("--rows", type=int, default=10_000_000)
    given = asked.parse_args()
    sets = {f"preferences, {who}": preferences(who) for who in ("people", "models", "all")}
    rows = [
        row
        for name, table in {**sets, "mtbench": mtbench()}.items()
        for row in set_rows(name, table)
    ]
    publish(
        "comparisons",
        "Ranking by comparisons",
        HEADER,
        [*rows, *coverage(given.crowds), speed(given.rows)],
        note=(
            "The same model is Bradley and Terry's by maximum likelihood, ties as half a win or left out. "
            f"Held out is a fifth of the answers, {FOLDS} times; ties among them do not count. No constant "
            f"was settled on these sets. {given.crowds} simulated crowds each."
        ),
    )


if __name__ == "__main__":
    main()

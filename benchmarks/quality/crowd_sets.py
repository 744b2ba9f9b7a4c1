"""The shared research data: labels and gold of one set, repeated labels dropped."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np

from quality import CrowdLabels, encode, encode_gold

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

SETS = (
    "rte", "temp", "bluebird", "task2", "trec2011_task2", "web", "dog", "labelme", "music",
    "sentence_polarity", "fact_eval", "mill",
)  # fmt: skip
NEWER = (
    "weather_cf", "weather_amt", "product", "adult2", "leaves", "div150_q1", "div150_q2",
    "barzan_tweets", "sentiment_tweets",
)  # fmt: skip
FAMILIES = (
    ("rte", "temp"), ("task2", "trec2011_task2"), ("web",), ("bluebird",), ("dog",), ("labelme",), ("music",),
    ("sentence_polarity",), ("fact_eval",), ("mill",), ("weather_cf", "weather_amt"), ("product",),
    ("adult2",), ("leaves",), ("div150_q1", "div150_q2"), ("barzan_tweets", "sentiment_tweets"),
)  # fmt: skip


def read_set(folder: Path, *, keep: str = "first") -> tuple[CrowdLabels, np.ndarray]:
    """Labels and gold (-1: unknown); a worker's first label for a task, or those that are `agreed`."""
    labels, gold = _rows(folder / "labels.csv"), _rows(folder / "gold.csv")
    classes = sorted({row["label"] for row in labels + gold})
    kept = {(row["worker"], row["task"]): row for row in reversed(labels)}
    if keep == "agreed":  # a pair with two labels is left out
        for row in labels:
            pair = row["worker"], row["task"]
            if pair in kept and kept[pair]["label"] != row["label"]:
                del kept[pair]
    columns = ([row[name] for row in kept.values()] for name in ("worker", "task", "label"))
    table = encode(*columns, classes=classes)
    return table, encode_gold(table, [r["task"] for r in gold], [r["label"] for r in gold])


def arrivals(folder: Path, table: CrowdLabels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of worker, task and label in the order of the file, the first of repeated labels."""
    codes = [
        {str(name): i for i, name in enumerate(one)}
        for one in (table.workers, table.tasks, table.classes)
    ]
    kept: dict[tuple[str, str], str] = {}
    for row in _rows(folder / "labels.csv"):
        kept.setdefault((row["worker"], row["task"]), row["label"])
    cells = ((*pair, label) for pair, label in kept.items())
    found = np.array([[code[cell] for code, cell in zip(codes, row, strict=True)] for row in cells])
    worker, task, label = found.T
    return worker, task, label


def _rows(path: Path) -> list[dict[str, str]]:
    """A CSV file, compressed or not."""
    packed = path.with_name(f"{path.name}.gz")
    text = path.read_text() if path.exists() else gzip.decompress(packed.read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def right(posterior: np.ndarray, gold: np.ndarray) -> float:
    """Per cent of the gold tasks that are right, ties split in expectation."""
    best = posterior >= posterior.max(axis=1, keepdims=True) - 1e-12
    known = gold >= 0
    return 100 * float(np.mean(best[known, gold[known]] / best[known].sum(axis=1)))

"""Reading the shared research data, for the golden numbers of its README.md."""

import csv
from pathlib import Path

import numpy as np

from quality import CrowdLabels, encode, encode_gold

__all__ = ["read_crowd"]


def read_crowd(folder: Path) -> tuple[CrowdLabels, np.ndarray]:
    """The labels of one data set, and the true class of each task (-1: unknown)."""
    labels, gold = _rows(folder / "labels.csv"), _rows(folder / "gold.csv")
    classes = sorted({row["label"] for row in labels + gold})
    columns = ([row[name] for row in labels] for name in ("worker", "task", "label"))
    table = encode(*columns, classes=classes)
    return table, encode_gold(table, [r["task"] for r in gold], [r["label"] for r in gold])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))

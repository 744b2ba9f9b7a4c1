"""Response times: in the order of the encoded labels, and refused where they are no times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.tables.tables import read_labels, read_seconds
from flows.tables.text_table import TableError
from quality import CrowdLabels

ROWS = [
    ("w2", "t1", "x", "4.5"),
    ("w1", "t2", "y", ""),
    ("w1", "t1", "x", "2"),
    ("w3", "t2", "x", "0"),
]


def write(folder: Path, rows: list[tuple[str, ...]]) -> Path:
    path = folder / "labels.csv"
    lines = ["worker,task,label,seconds", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def labels_of(path: Path, duplicates: str = "error") -> CrowdLabels:
    return read_labels(path, classes=None, duplicates=duplicates, known_tasks=None)  # type: ignore[arg-type]


def test_seconds_stand_in_the_order_of_the_labels(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    labels = labels_of(path)
    found = read_seconds(path, "seconds", labels, duplicates="error")
    expected = {(w, t): float(s or "nan") for w, t, _, s in ROWS}
    named = zip(labels.workers[labels.worker], labels.tasks[labels.task], strict=True)
    np.testing.assert_array_equal(found, [expected[str(w), str(t)] for w, t in named])


def test_seconds_of_the_repeat_that_stands(tmp_path: Path) -> None:
    path = write(tmp_path, [*ROWS, ("w2", "t1", "y", "9")])
    labels = labels_of(path, "last")
    found = read_seconds(path, "seconds", labels, duplicates="last")
    assert sorted(found[~np.isnan(found)]) == [0.0, 2.0, 9.0]


@pytest.mark.parametrize("cell", ["-1", "soon", "nan", "inf"])
def test_what_is_no_time_is_refused_with_its_row(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, [*ROWS, ("w3", "t1", "x", cell)])
    with pytest.raises(TableError, match=rf"row 5, column seconds: '{cell}' must be seconds"):
        read_seconds(path, "seconds", labels_of(path), duplicates="error")

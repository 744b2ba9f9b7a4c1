"""What the first stage wrote is what the later stages find."""

from __future__ import annotations

import mmap
from dataclasses import fields
from pathlib import Path

import numpy as np

from flows.run import Crowd, load_crowd, save_crowd
from flows.tables.tables import Gold, TaskTable
from quality import encode

LABELS = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["é", "no", "no"], classes=["no", "é"])


def test_a_campaign_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    table = TaskTable(
        np.array(["t1", "t2", "t3"]),
        np.array([0, 1, 1], dtype=np.int32),
        np.array(["north", "south"]),
        np.array([[0.5], [1.5], [2.5]]),
        ("x",),
    )
    saved = Crowd(LABELS, table, Gold(np.array(["t1"]), np.array(["no"])))
    save_crowd(tmp_path, saved)
    loaded = load_crowd(tmp_path)
    for name in type(LABELS).__dataclass_fields__:
        assert np.array_equal(getattr(LABELS, name), getattr(loaded.labels, name)), name
    assert loaded.table.names.tolist() == ["t1", "t2", "t3"]
    assert loaded.label_features().tolist() == [[0.5], [1.5]]
    assert saved.row is None
    assert loaded.row is not None
    assert loaded.row.tolist() == saved.label_row().tolist() == [0, 1]
    assert loaded.group_names.tolist() == ["north", "south"]
    assert loaded.table.feature_names == ("x",)
    assert loaded.gold_code().tolist() == [0, -1]


def test_labels_alone_are_a_campaign(tmp_path: Path) -> None:
    save_crowd(tmp_path, Crowd(LABELS, None, None))
    loaded = load_crowd(tmp_path)
    assert loaded.tasks is None
    assert loaded.gold is None
    assert loaded.labels.tasks.tolist() == ["t1", "t2"]


def test_rows_are_found_again_as_they_were_and_names_are_not_read(tmp_path: Path) -> None:
    save_crowd(tmp_path, Crowd(LABELS, None, None))
    loaded = load_crowd(tmp_path).labels
    for field in fields(LABELS):
        found, expected = getattr(loaded, field.name), getattr(LABELS, field.name)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        assert not found.flags.writeable
        assert field.name not in ("workers", "tasks", "classes") or is_mapped(found)


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array's bytes are those of a file."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap)

"""What the first stage wrote is what the later stages find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.run import Crowd, forget_crowd, load_crowd, save_crowd
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


def test_the_campaign_loaded_last_is_kept_read_only_until_another_is_saved(tmp_path: Path) -> None:
    save_crowd(tmp_path, Crowd(LABELS, None, None, np.array([1.0, 2.0, 3.0])))
    loaded = load_crowd(tmp_path)
    assert load_crowd(tmp_path) is loaded
    assert loaded.seconds is not None
    with pytest.raises(ValueError, match="read-only"):
        loaded.seconds[0] = 0.0
    save_crowd(tmp_path, Crowd(LABELS, None, None, np.array([1.0, 2.0, 4.0])))
    again = load_crowd(tmp_path)
    assert again.seconds is not None
    assert again.seconds.tolist() == [1.0, 2.0, 4.0]
    forget_crowd()
    assert load_crowd(tmp_path) is not again


def test_a_campaign_that_another_process_wrote_is_read_anew(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    save_crowd(there, Crowd(LABELS, None, None, np.array([1.0, 2.0, 4.0])))
    save_crowd(here, Crowd(LABELS, None, None, np.array([1.0, 2.0, 3.0])))
    load_crowd(here)
    (there / "crowd.npz").replace(here / "crowd.npz")
    seconds = load_crowd(here).seconds
    assert seconds is not None
    assert seconds.tolist() == [1.0, 2.0, 4.0]

"""What the first stage wrote is what the later stages find."""

from __future__ import annotations

import mmap
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from flows.run import Crowd, Run, load_crowd, save_crowd
from flows.settings import EngineError
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


@pytest.mark.parametrize("name", ["manifest.json", "workers.parquet", "crowd.npz"])
@pytest.mark.parametrize("way", ["torn", "empty", "turned"])
def test_a_damaged_file_of_a_run_is_named_in_one_sentence(
    tmp_path: Path, name: str, way: str
) -> None:
    """They were a BadZipFile, an ArrowInvalid, a JSONDecodeError; of turned bits another table was read."""
    run = Run(tmp_path / ".partial-1-web", settings=None)  # type: ignore[arg-type]  # read from alone
    run.folder.mkdir()
    save_crowd(run.folder, Crowd(LABELS, None, None))
    run.write_json("manifest.json", {"name": "web", "stages": {"read_and_check": "é" * 40}})
    run.write_table("workers.parquet", pa.table({"share": np.linspace(0, 1, 500)}))
    held = (run.folder / name).read_bytes()
    half = len(held) // 2
    at = held.index(b"NUMPY") + 130 if name == "crowd.npz" else half  # a code: names are not read
    turned = held[:at] + bytes([held[at] ^ 255]) + held[at + 1 :]
    (run.folder / name).write_bytes({"torn": held[:half], "empty": b"", "turned": turned}[way])
    way_on = f"move {run.folder} away" if name == "manifest.json" else "begin anew without --resume"
    read = {"crowd.npz": lambda _: load_crowd(run.folder), "manifest.json": run.read_json}
    with pytest.raises(EngineError, match=f"{name} cannot be read and may be damaged .*; {way_on}"):
        read.get(name, run.read_table)(name)


def test_what_a_finished_run_wrote_is_made_by_another(tmp_path: Path) -> None:
    run = Run(tmp_path / "1-web", settings=None)  # type: ignore[arg-type]  # read from alone
    run.folder.mkdir()
    for name in ("manifest.json", "spend.json"):
        run.write_json(name, {})
    (run.folder / "spend.json").write_text("[]")
    with pytest.raises(EngineError, match=r"spend\.json .* must hold one object.* with --again"):
        run.read_json("spend.json")
    with pytest.raises(FileNotFoundError):
        run.read_json("quality.json")


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array's bytes are those of a file."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap)

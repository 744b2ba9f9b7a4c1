"""The releases as files: what they hold, what they cannot hold, and that others can read them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.report import write_reports
from flows.report.release_files import COLUMNS, release, write_release_files
from tests.flows.report_folder import SKIPPED, overwrite_what_is_internal, write_folder, write_json


def test_release_files_depend_on_released_values_alone(tmp_path: Path) -> None:
    one, other = write_folder(tmp_path / "one"), write_folder(tmp_path / "other")
    overwrite_what_is_internal(other)
    names = write_release_files(one)
    assert names == write_release_files(other)
    for name in names:
        assert (one / "public" / name).read_bytes() == (other / "public" / name).read_bytes()


def test_the_tables_are_the_same_in_every_format(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    write_release_files(folder)
    whole = json.loads((folder / "public" / "release.json").read_text(encoding="utf-8"))
    for stage, columns in COLUMNS.items():
        rows = whole[stage]["rows"]
        assert list(rows[0]) == list(columns) == list(whole[stage]["columns"])
        assert pq.read_table(folder / "public" / f"{stage}.parquet").to_pylist() == rows
        with (folder / "public" / f"{stage}.csv").open(encoding="utf-8", newline="") as file:
            read = list(csv.DictReader(file))
        assert [row["group"] for row in read] == [row["group"] for row in rows]
        assert [float(row["low"]) for row in read] == [row["low"] for row in rows]


def test_the_noise_and_its_price_are_told(tmp_path: Path) -> None:
    found = release(write_folder(tmp_path))["proportions"]
    assert {"mechanism", "epsilon", "delta", "unit", "level", "noise"} <= set(found)
    assert found["noise"]["scale"] == 2.0


@pytest.mark.parametrize("stage", ["proportions", "class_ratios", "model", "gate"])
def test_what_was_not_released_is_null_and_has_no_file(tmp_path: Path, stage: str) -> None:
    folder = write_folder(tmp_path)
    write_json(folder / f"{stage}.json", {"skipped": SKIPPED[stage]})
    names = write_release_files(folder)
    assert json.loads((folder / "public" / "release.json").read_text("utf-8"))[stage] is None
    assert not [name for name in names if name.startswith(f"{stage}.")]


def test_ratios_from_private_features_have_no_file(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    facts = json.loads((folder / "class_ratios.json").read_text(encoding="utf-8"))
    write_json(folder / "class_ratios.json", facts | {"public": False})
    assert "class_ratios.csv" not in write_release_files(folder)


def test_reports_come_with_the_files(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    write_reports(folder)
    assert {path.name for path in (folder / "public").iterdir()} == {
        "release.json",
        *(f"{stage}.{kind}" for stage in COLUMNS for kind in ("csv", "parquet")),
    }

"""The releases as files: what they hold, what they cannot hold, and that others can read them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.report import release_files, write_reports
from flows.report.pages import public_page
from flows.report.release_files import COLUMNS, release, write_release_files
from flows.stages.publication import _proportion_table
from privacy import LatticeLaplace, Release
from tests.flows.report.report_folder import (
    SKIPPED,
    overwrite_what_is_internal,
    write_folder,
    write_json,
)
from tests.privacy.toy import counts_query


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


def test_a_reader_without_this_package_can_use_them(tmp_path: Path) -> None:
    """pandas and json alone: a noisy count +- the half width is the interval at the level given."""
    folder, width = write_folder(tmp_path), 5
    groups = {"north": [38, -3, 5], "south": [2, 8, 50]}
    event = LatticeLaplace(0.5).event(counts_query((1, 1, 1)))
    table = _proportion_table(
        ["benign", "odd", "toxic"],
        list(groups),
        np.array([sum(row) for row in groups.values()]),
        tuple(Release(row, entry, event, True) for entry, row in enumerate(groups.values(), 1)),
        width,
        exclusive=True,
    )
    pq.write_table(table, folder / "proportions.parquet")
    write_release_files(folder)
    public = folder / "public"
    facts = json.loads((public / "release.json").read_text(encoding="utf-8"))["proportions"]
    for found in (
        pd.read_csv(public / "proportions.csv"),
        pd.read_parquet(public / "proportions.parquet"),
        pd.DataFrame(facts["rows"]),
    ):
        assert list(found.columns) == list(facts["columns"])
        assert found["noisy_count"].tolist() == [*groups["north"], *groups["south"]]
        for column in ("noisy_count", "n"):
            total = found.groupby("group")[column].agg(
                "sum" if column == "noisy_count" else "first"
            )
            assert total.to_dict() == {"north": 40, "south": 60}
        for end, sign in (("low", -1), ("high", 1)):
            share = (found["noisy_count"] + sign * facts["half_width_labels"]) / found["n"]
            np.testing.assert_allclose(found[end], share.clip(0, 1))
        np.testing.assert_allclose(found.groupby("group")["proportion"].sum(), 1)
    metadata = pq.read_schema(public / "proportions.parquet").metadata[b"crowdassay release"]
    assert json.loads(metadata) == {key: facts[key] for key in facts if key != "rows"}
    assert (facts["level"], facts["half_width_labels"]) == (0.9, width)


NAMES = st.lists(st.text(), unique=True, max_size=4)
CELLS = (
    st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip


@given(names=NAMES, n_rows=st.integers(0, 5), data=st.data())
def test_rows_are_written_together_as_they_are_one_by_one(
    names: list[str], n_rows: int, data: Any
) -> None:
    kinds = [st.none() | data.draw(st.sampled_from(CELLS)) for _ in names]
    columns = [data.draw(st.lists(cell, min_size=n_rows, max_size=n_rows)) for cell in kinds]
    table = pa.table([pa.array(column) for column in columns], names)
    assert release_files._rows(table) == [
        release_files.PLAIN.encode(row) for row in table.to_pylist()
    ]


def test_no_row_holds_what_json_has_no_word_for() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        release_files._rows(pa.table({"low": [0.0, math.nan]}))


def test_the_noise_and_its_price_are_told(tmp_path: Path) -> None:
    found = release(write_folder(tmp_path))["proportions"]
    assert {"mechanism", "epsilon", "delta", "unit", "level", "noise"} <= set(found)
    assert found["noise"]["scale"] == 2.0


@pytest.mark.parametrize(
    "stage", ["proportions", "corrected_shares", "class_ratios", "model", "gate"]
)
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


NEVER_PUBLIC = {
    "asked", "budget_left", "entries", "entry", "fresh", "n_drawn", "position", "released_at",
    "spent", "time", "validation",
}  # fmt: skip
"""What tells when an entry was made, whether one was, or how often: it can depend on private data."""


def keys_of(value: object) -> set[str]:
    """Every key of an object and of what it holds."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_no_public_object_tells_when_or_how_often_something_was_booked(tmp_path: Path) -> None:
    """By name, in every file; the run folder holds them all, so that each could have been shown."""
    folder = write_folder(tmp_path)
    entry = pq.read_table(folder / "proportions.parquet")
    held = {
        name for path in folder.glob("*.json") for name in keys_of(json.loads(path.read_text()))
    }
    assert {"released_at", "entry", "asked", "budget_left", "validation"} <= held
    assert "entry" in entry.column_names
    write_release_files(folder)
    assert keys_of(public_page(folder)) & NEVER_PUBLIC == set()
    assert keys_of(release(folder)) & NEVER_PUBLIC == set()
    for path in (folder / "public").iterdir():
        if path.suffix == ".parquet":
            metadata = json.loads(pq.read_schema(path).metadata[b"crowdassay release"])
            assert set(pq.read_schema(path).names) & NEVER_PUBLIC == set()
            assert keys_of(metadata) & NEVER_PUBLIC == set()
        if path.suffix == ".csv":
            assert (
                set(path.read_text(encoding="utf-8").splitlines()[0].split(",")) & NEVER_PUBLIC
                == set()
            )


def test_the_public_page_names_no_time_of_an_entry(tmp_path: Path) -> None:
    """Nor its number: the facts that the page is written from do not hold them."""
    folder = write_folder(tmp_path)
    proportions = json.loads((folder / "proportions.json").read_text(encoding="utf-8"))
    when = "2031-07-19T13:37:11+00:00"
    write_json(folder / "proportions.json", proportions | {"released_at": when})
    write_reports(folder)
    shown = [folder / "public.html", *(folder / "public").iterdir()]
    for path in shown:
        text = path.read_bytes().decode("utf-8", errors="replace")
        assert "2031" not in text
        assert "13:37" not in text

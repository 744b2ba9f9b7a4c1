"""Tables that users ask for: the suffix is the format, whatever they hold is read back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.files import OutputError
from flows.tables import OUTPUT_SUFFIXES, TableError, table_file, write_table

COLUMNS = {
    "task": ["t,1", "7"],
    "label": ["=cat", "\x1b[31mdog"],
    "share": [0.25, None],
    "n": [3, 4],
}


def read_back(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    sep = "\t" if path.suffix == ".tsv" else ","
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter=sep))
    return [
        {"task": r["task"], "label": r["label"],
         "share": float(r["share"]) if r["share"] else None, "n": int(r["n"])}
        for r in rows
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", OUTPUT_SUFFIXES)
def test_the_suffix_is_the_format(tmp_path: Path, suffix: str) -> None:
    file = table_file(tmp_path / f"table{suffix}")
    write_table(COLUMNS, file)
    assert read_back(file.path) == [
        {"task": "t,1", "label": "=cat", "share": 0.25, "n": 3},
        {"task": "7", "label": "\x1b[31mdog", "share": None, "n": 4},
    ]


def test_the_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    for suffix in OUTPUT_SUFFIXES:
        small, large = (table_file(tmp_path / f"table{s}") for s in (suffix, suffix.upper()))
        for file in (small, large):
            write_table(COLUMNS, file)
        assert small.path.read_bytes() == large.path.read_bytes()


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.CSV2", "table.csv.gz"])
def test_another_suffix_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TableError, match=rf"^{name}: the output must end in \.csv, \.tsv, "):
        table_file(tmp_path / name)


def test_a_missing_folder_is_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not_there must be a folder, and is not there"):
        table_file(tmp_path / "not_there" / "table.csv")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_formulas_are_guarded_in_texts_and_numbers_stay(tmp_path: Path, suffix: str) -> None:
    file = table_file(tmp_path / f"table{suffix}")
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]
    labels = [*formulas, "cat", "x=1"]
    write_table({"label": labels, "gain": [-0.5] * len(labels)}, file, guard=True)
    sep = "\t" if suffix == ".tsv" else ","
    with file.path.open(newline="") as opened:
        rows = list(csv.reader(opened, delimiter=sep))
    guarded = [*(f"'{text}" for text in formulas), "cat", "x=1"]
    assert rows[1:] == [[text, "-0.5"] for text in guarded]


@settings(max_examples=50, deadline=None)
@given(cells=st.lists(st.text("ab\",;\t\n\r'=é", max_size=4), min_size=1, max_size=5))
def test_any_text_of_a_cell_comes_back(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for suffix, sep in ((".csv", ","), (".tsv", "\t")):
        file = table_file(folder / f"table{suffix}")
        write_table({"first": ["x"] * len(cells), "cell": cells}, file)
        with file.path.open(newline="") as opened:
            assert [row[1] for row in csv.reader(opened, delimiter=sep)][1:] == cells


def test_a_column_without_cells_has_a_type(tmp_path: Path) -> None:
    file = table_file(tmp_path / "table.parquet")
    write_table({"task": [], "label": []}, file)
    assert {str(kind) for kind in pq.read_schema(file.path).types} == {"string"}
    numbers = table_file(tmp_path / "numbers.parquet")
    write_table({"task": ["t1"], "seconds": [None]}, numbers)
    assert str(pq.read_schema(numbers.path).field("seconds").type) == "double"


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_names_of_columns_are_quoted_and_guarded_as_cells_are(tmp_path: Path, suffix: str) -> None:
    file = table_file(tmp_path / f"table{suffix}")
    write_table({"=run()": ["1"], "a\rb": ["2"]}, file, guard=True)
    with file.path.open(newline="") as opened:
        rows = list(csv.reader(opened, delimiter="\t" if suffix == ".tsv" else ","))
    assert rows == [["'=run()", "a\rb"], ["1", "2"]]

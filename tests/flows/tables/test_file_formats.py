"""The same campaign from every format, wide tables, standard input, and workbooks."""

from __future__ import annotations

import gzip
import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.settings import InputSettings
from flows.tables import (
    Reading,
    TableError,
    connected,
    keep_standard_input,
    open_sources,
    open_table,
    read_labels,
)
from flows.tables.file_formats import FORMATS
from quality import CrowdLabels
from tests.flows.tables.workbook import write_workbook

NEEDED = ("worker", "task", "label")
ROOT = Path(__file__).resolve().parents[3]
ROWS = [("ann", "1", "cat"), ("ben", "1", "dog"), ("ann", "2", "ça"), ("eve", "2", "cat")]


def write_as(folder: Path, suffix: str) -> Path:
    """Write the rows in a format."""
    path = folder / f"labels{suffix}"
    records = [dict(zip(NEEDED, row, strict=True)) for row in ROWS]
    sep = "\t" if ".tsv" in suffix else ","
    text = {
        "csv": "\n".join(sep.join(row) for row in [NEEDED, *ROWS]),
        "jsonl": "\n".join(map(json.dumps, records)),
        "json": json.dumps(records, indent=1),
    }
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif suffix == ".xlsx":
        numbers = [[w, int(t), label] for w, t, label in ROWS]
        write_workbook(path, {"empty": [], "crowd": [list(NEEDED), *numbers]})
    else:
        base = suffix.removesuffix(".gz").lstrip(".")
        data = text[{"tsv": "csv", "ndjson": "jsonl"}.get(base, base)].encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    return path


def write_encoded(path: Path, encoding: str) -> Path:
    """Write the rows as records in an encoding."""
    data = json.dumps([dict(zip(NEEDED, row, strict=True)) for row in ROWS], ensure_ascii=False)
    text = data.encode(encoding)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def read(labels: Path, folder: Path, **given: object) -> CrowdLabels:
    folder.mkdir(exist_ok=True)
    sources = open_sources(InputSettings.model_validate({"labels": labels, **given}), folder)
    with sources.naming_files():
        table = sources.labels.table
        return read_labels(table, classes=None, duplicates="error", known_tasks=None)


def same(one: CrowdLabels, other: CrowdLabels) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("worker", "task", "label", "workers", "tasks", "classes")
    )


WRITTEN_HERE = sorted(FORMATS.keys() - {".xls", ".ods"})  # which the same reader reads


@pytest.mark.parametrize("suffix", WRITTEN_HERE)
def test_every_format_gives_the_same_labels(tmp_path: Path, suffix: str) -> None:
    plain = read(write_as(tmp_path, ".csv"), tmp_path / "run")
    assert same(read(write_as(tmp_path, suffix), tmp_path / "run"), plain)
    (tmp_path / "both").mkdir()
    write_as(tmp_path / "both", suffix)
    more = tmp_path / "both" / "more.csv"
    more.write_text("worker,task,label\nzoe,1,cat\n")
    assert read(tmp_path / "both", tmp_path / "run").workers.tolist() == [
        "ann",
        "ben",
        "eve",
        "zoe",
    ]


def test_a_plain_file_is_read_where_it_lies_and_an_odd_one_once(tmp_path: Path) -> None:
    odd = tmp_path / "odd.csv"
    odd.write_text(write_as(tmp_path, ".csv").read_text().replace(",", ";"))
    folder = tmp_path / "run"
    folder.mkdir()
    for path, table, clauses in (
        (tmp_path / "labels.csv", tmp_path / "labels.csv", ()),
        (odd, folder / "labels.parquet", ("odd.csv was read separated by ';'",)),
    ):
        sources = open_sources(InputSettings(labels=path), folder)
        assert (sources.labels.table, sources.read_as) == (table, clauses)


def test_a_fault_in_an_odd_file_is_told_with_its_name_and_row(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("worker;task;label\nann;t1;a\nben;;a\n")
    with pytest.raises(TableError, match=r"^odd\.csv, row 2, column task: the cell is blank"):
        read(path, tmp_path / "run")


def test_a_wide_table_has_a_worker_a_column(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("item;ann;ben;eve\n1;cat;dog;\n2;ça; ;cat\n")
    assert same(
        read(path, tmp_path / "run", wide=True), read(write_as(tmp_path, ".csv"), tmp_path / "r")
    )
    with pytest.raises(TableError, match=r"--wide \(wide = true\) reads it so"):
        read(path, tmp_path / "run")
    path.write_text("worker\nann\n")
    with pytest.raises(TableError, match="a column of tasks and one per worker to be wide"):
        read(path, tmp_path / "run", wide=True)
    path.write_text("worker,task,label\nann,1,cat\nben,1,dog\n")
    told = r"wide\.csv has a row per label \(worker, task, label\); a wide table has .* leave out --wide"
    with pytest.raises(TableError, match=told):
        read(path, tmp_path / "run", wide=True)


@pytest.mark.parametrize(
    ("suffix", "name"),
    [(".csv", ""), (".json", ".json"), (".jsonl", ".jsonl"), (".parquet", ".parquet"),
     (".csv.gz", ".csv.gz"), (".xlsx", ".xlsx")],
)  # fmt: skip
def test_standard_input_is_what_it_begins_with(tmp_path: Path, suffix: str, name: str) -> None:
    stream = io.BytesIO(write_as(tmp_path, suffix).read_bytes())
    (tmp_path / "in").mkdir()
    kept = keep_standard_input(tmp_path / "in", stream)
    assert kept.name == f"standard input{name}"
    assert same(read(kept, tmp_path / "run"), read(tmp_path / f"labels{suffix}", tmp_path / "run"))


@pytest.mark.parametrize("suffix", [".csv.gz", ".jsonl.gz", ".json.gz"])
@pytest.mark.parametrize(
    ("fault", "words"), [("changed", "CRC check failed"), ("cut", "ended before")]
)
def test_a_damaged_file_by_gzip_is_refused(
    tmp_path: Path, suffix: str, fault: str, words: str
) -> None:
    """DuckDB reads on in such a file: other names were taken for the table's, or it never ended."""
    path = write_as(tmp_path, suffix)
    whole = path.read_bytes()
    damaged = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    path.write_bytes(damaged if fault == "changed" else whole[:-9])
    with pytest.raises(TableError, match=rf"{path.name} must be a whole file by gzip, .*{words}"):
        open_table(path, NEEDED)


def test_a_sheet_is_named_or_the_first_with_cells(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    write_workbook(path, {"notes": [["hello"]], "crowd": [list(NEEDED), *map(list, ROWS)]})
    with pytest.raises(
        TableError,
        match=r"book.xlsx must have the columns .* \(it has hello, from its sheet 'notes' of 2: name "
        r"another in --sheet or sheet under \[input\]\); ",
    ):
        open_table(path, NEEDED)
    with pytest.raises(
        TableError, match=r"no rows below its header, from its sheet 'notes' of 2: "
    ):
        open_table(path, ())
    table = open_table(path, NEEDED, Reading(sheet="crowd"))
    assert table.read_as == "from its sheet 'crowd' of 2"
    assert table.query("SELECT count(*) FROM t") == [(4,)]
    with pytest.raises(
        TableError,
        match=r"no sheet 'x'; --sheet, or sheet under \[input\], must be one of 'notes', 'crowd', "
        r"and holds for every workbook",
    ):
        open_table(path, NEEDED, Reading(sheet="x"))
    write_workbook(path, {"notes": [], "crowd": [list(NEEDED), *map(list, ROWS)]})
    with pytest.raises(
        TableError,
        match=r"'notes' is empty; fill it, or name another .* in --sheet or sheet under \[input\]$",
    ):
        open_table(path, NEEDED, Reading(sheet="notes"))


def test_a_hidden_sheet_is_read_where_it_is_named_or_alone_has_cells(tmp_path: Path) -> None:
    """Nobody who opens the workbook sees it: what stands there is an old copy, or not for others."""
    sheets: dict[str, list[list[object]]] = {
        "secret": [list(NEEDED), ["x", "y", "z"]], "crowd": [list(NEEDED), *map(list, ROWS)],
    }  # fmt: skip
    path = tmp_path / "hidden.xlsx"
    write_workbook(path, sheets, hidden="secret")
    assert open_table(path, NEEDED).read_as == "from its sheet 'crowd' of 2"
    assert open_table(path, NEEDED, Reading(sheet="secret")).read_as.startswith("from its sheet 's")
    write_workbook(path, sheets | {"crowd": []}, hidden="secret")
    assert open_table(path, NEEDED).read_as == "from its sheet 'secret' of 2"


def test_blank_rows_of_a_sheet_are_said_as_no_row_number_counts_them(tmp_path: Path) -> None:
    """Those behind the last row with cells shift no row."""
    path, blank = tmp_path / "book.xlsx", [""] * len(NEEDED)
    table, head = [list(one) for one in ROWS], list(NEEDED)
    write_workbook(path, {"crowd": [head, table[0], blank, blank, *table[1:], blank]})
    found = open_table(path, NEEDED)
    assert found.read_as == "without 2 blank rows, which no row number counts"
    assert found.query("SELECT count(*) FROM t") == [(4,)]
    write_workbook(path, {"crowd": [head, *table, blank]})
    assert open_table(path, NEEDED).read_as == ""


def test_what_is_no_workbook_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "book.xlsx"
    path.write_bytes(b"worker,task,label\n")
    with pytest.raises(TableError, match="cannot be read as a workbook"):
        open_table(path, NEEDED)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(
        TableError, match=r"reader is not installed: pip install 'crowdassay\[excel\]'"
    ):
        open_table(path, NEEDED)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("3", "must hold records"),
        ('[["ann", "t1", "a"]]', "must hold records"),
        ('{"worker": "ann"', "not a readable table"),
        ('{"worker": "ann", "task": 1}', "missing: label"),
        ("[]", "is empty"),
        ("", "is empty"),
    ],
)
def test_json_that_is_no_table_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "labels.json"
    path.write_text(text)
    with pytest.raises(TableError, match=told):
        open_table(path, NEEDED)


def test_an_address_is_refused_with_what_to_do() -> None:
    with pytest.raises(TableError, match="is not on this machine; fetch it first"):
        open_table(Path("https://example.org/labels.csv"), NEEDED)


@pytest.mark.parametrize("name", ["labels.json", "labels.json.gz"])
@pytest.mark.parametrize(
    ("encoding", "given"),
    [("utf-8", {"encoding": "utf-8"}), ("cp1252", {"encoding": "cp1252"}), ("utf-16", {})],
)
def test_records_are_read_in_an_encoding_given_or_marked_also_gzipped(
    tmp_path: Path, name: str, encoding: str, given: dict[str, str]
) -> None:
    plain = read(write_as(tmp_path, ".csv"), tmp_path / "run")
    assert same(plain, read(write_encoded(tmp_path / name, encoding), tmp_path / "run", **given))


def test_an_encoding_that_python_does_not_know_is_refused_for_records_too(tmp_path: Path) -> None:
    path = write_encoded(tmp_path / "labels.json", "utf-8")
    with pytest.raises(TableError, match="encoding must be one that Python knows, .* 'nonsense'"):
        read(path, tmp_path / "run", encoding="nonsense")


@pytest.mark.parametrize("name", ["task", "label"])
def test_nan_in_parquet_is_a_missing_cell(tmp_path: Path, name: str) -> None:
    """The bounds that Parquet keeps leave NaN out, so that DuckDB took it for a whole number, and failed."""
    columns = {"worker": ["w1", "w2"] * 30, "task": [1.0, 2.0] * 30, "label": [0.0, 1.0] * 30}
    columns[name] = [1.5, math.nan] * 30
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table(columns), path)
    sentence = rf"rows 2, 4, 6 and 27 more, column {name}: the cell is blank"
    with pytest.raises(TableError, match=sentence):
        read(path, tmp_path / "run")
    (tmp_path / "days").mkdir()
    for day in (1, 2):
        pq.write_table(pa.table(columns), tmp_path / "days" / f"{day}.parquet")
    with pytest.raises(TableError, match=f"1.parquet, row 2.*, column {name}: the cell is blank"):
        read(tmp_path / "days", tmp_path / "run")


def test_records_of_columns_are_refused(tmp_path: Path) -> None:
    """pandas writes so by default; it was one label, whose worker was all cells of a column."""
    path = tmp_path / "labels.json"
    columns = zip(NEEDED, zip(*ROWS, strict=True), strict=True)
    path.write_text(json.dumps({name: dict(enumerate(cells)) for name, cells in columns}))
    with pytest.raises(
        TableError, match=r'must hold one value in each .*\(pandas: orient="records"\)'
    ):
        read(path, tmp_path / "run")


def test_a_whole_number_of_records_is_one_name_with_a_point_and_without(tmp_path: Path) -> None:
    """Once a value is missing, pandas writes whole numbers with a point; other values stay as they stand."""
    lines = [
        '{"worker": 7, "task": 1.0, "label": "7.0", "a \\"b": [1.0]}',
        '{"worker": 7.0, "task": 2.5, "label": 7.0, "a \\"b": 1e3}',
        '{"worker": -0.0, "task": 1e300, "label": true, "a \\"b": null}',
    ]
    rows = [
        ("7", "1", "7.0", "[1.0]"),
        ("7", "2.5", "7", "1000"),
        ("-0.0", "1e+300", "true", None),
    ]
    for name, text in (("a.jsonl", "\n".join(lines)), ("b.json", f"[{','.join(lines)}]")):
        (tmp_path / name).write_text(text)
        table = open_table(tmp_path / name, NEEDED)
        assert table.names == (*NEEDED, 'a "b')
        found = table.query("SELECT * FROM raw")
        assert found[:2] == rows[:2]
        assert (found[2][0], float(found[2][1]), *found[2][2:]) == ("-0.0", 1e300, "true", None)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".jsonl"])
@pytest.mark.parametrize("place", ["labels[1]{}", "labels*{}", "la?els{}", "run[1]/labels{}"])
def test_a_name_that_looks_like_a_pattern_is_that_of_one_file(
    tmp_path: Path, suffix: str, place: str
) -> None:
    """Files that the pattern would match lie beside it."""
    name = place.format(suffix)
    path, beside = tmp_path / name, tmp_path / name.translate(str.maketrans("*?", "xb", "[]"))
    for one in (path, beside):
        one.parent.mkdir(exist_ok=True)
        write_as(tmp_path, suffix).replace(one)
    if suffix != ".parquet":  # another file, which must not be read
        data = gzip.decompress(beside.read_bytes()) if suffix == ".csv.gz" else beside.read_bytes()
        data = data.replace(b"ann", b"zoe")
        beside.write_bytes(gzip.compress(data) if suffix == ".csv.gz" else data)
    else:
        pq.write_table(pa.table({name: ["zoe"] for name in NEEDED}), beside)
    found = open_table(path, NEEDED).columns(*NEEDED)
    assert list(zip(*(found[name].tolist() for name in NEEDED), strict=True)) == ROWS


@pytest.mark.parametrize("names", [("worker", "task", "label", "label"), (*NEEDED, "LABEL")])
def test_columns_of_one_name_in_parquet_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    """DuckDB calls the second `label_1`, and the first would be read for both."""
    path = tmp_path / "labels.parquet"
    columns = [pa.array([one]) for one in ("ann", "t1", "cat", "dog")]
    pq.write_table(pa.Table.from_arrays(columns, names=list(names)), path)
    told = r"^labels\.parquet: .* must differ, .* got 'label' .column 3., .* .column 4."
    with pytest.raises(TableError, match=told):
        open_table(path, NEEDED)
    with pytest.raises(TableError, match=told):  # before an engine reads it in place
        open_sources(InputSettings(labels=path), tmp_path)


def test_keys_that_differ_in_capital_letters_are_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"worker": "ann", "task": 1, "label": "cat", "Label": "dog"}\n')
    with pytest.raises(TableError, match=r"must differ, .* got 'label' .column 3., 'Label'"):
        open_table(path, NEEDED)


def test_a_nan_in_records_is_a_missing_cell(tmp_path: Path) -> None:
    """Python writes it so; Infinity and large numbers stay what they are."""
    path = tmp_path / "labels.jsonl"
    cells = ("NaN", "1.5", "2.0", "1e400", '"NaN"', "null", "12345678901234567890123")
    path.write_text("\n".join(f'{{"worker": "a", "task": 1, "label": {one}}}' for one in cells))
    found = open_table(path, NEEDED).query("SELECT label FROM t")
    texts = [None, "1.5", "2", "1e400", "NaN", None, "12345678901234567890123"]
    assert [label for (label,) in found] == texts


def test_bytes_are_text_where_they_are_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    label = pa.array(["ça".encode(), b"cat", b"\xff"], pa.binary())
    pq.write_table(pa.table({"worker": ["a", "b", "c"], "task": ["1"] * 3, "label": label}), path)
    found = open_table(path, NEEDED).columns("label")["label"].tolist()
    assert found == ["ça", "cat", r"\xFF"]


def test_records_in_another_encoding_are_told_what_to_say(tmp_path: Path) -> None:
    path = write_encoded(tmp_path / "labels.json", "cp1252")
    with pytest.raises(TableError, match=r"is not UTF-8 text; say what it is: --encoding cp1252"):
        open_table(path, NEEDED)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_records_that_begin_with_a_mark_are_known_on_standard_input(
    tmp_path: Path, encoding: str
) -> None:
    data = '{"worker": "ann", "task": "1", "label": "cat"}\n'.encode(encoding)
    path = keep_standard_input(tmp_path, io.BytesIO(data))
    assert open_table(path, NEEDED).columns("label")["label"].tolist() == ["cat"]
    named = tmp_path / "labels.csv"
    named.write_bytes('{"worker": "ann"}\n'.encode("utf-8-sig"))
    with pytest.raises(TableError, match=r"and is JSON; name it"):
        open_table(named, NEEDED)


def test_what_memory_does_not_hold_is_its_owners_alone_and_goes_with_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself DuckDB leaves rows that it spills in the working directory, where all may read them."""
    monkeypatch.chdir(tmp_path)
    connection = connected()
    connection.execute("SET memory_limit = '20MB'; SET threads = 1")
    connection.execute("CREATE TABLE t AS SELECT hash(range)::VARCHAR AS a FROM range(600_000)")
    connection.execute("CREATE TABLE u AS SELECT DISTINCT a FROM t ORDER BY a")
    ((place,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    assert any(Path(place).iterdir())
    assert Path(place).stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())
    del connection
    assert not Path(place).exists()


def test_no_table_is_read_by_another_connection() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "flows").rglob("*.py")]
    assert sum(text.count("duckdb.connect(") for text in texts) == 1

"""How files are written: what is detected, what is reported of it, and what a user sets instead."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.tables import Reading, TableError, TextTable, open_table
from flows.tables.dialect import sniff

ROWS = [("José", "t1", "café", "1,5"), ("ben", "t1", "thé", "0,25"), ("ann", "t2", "café", "12")]
HEADER = ("worker", "task", "label", "seconds")
NEEDED = ("worker", "task", "label")


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def lines(sep: str = ",", end: str = "\n", *, quoted: bool = False) -> str:
    mark = '"' if quoted else ""
    rows = [HEADER, *((*row[:3], f'"{row[3]}"' if sep == "," else row[3]) for row in ROWS)]
    return (
        end.join(sep.join(f"{mark}{c}{mark}" if quoted else c for c in row) for row in rows) + end
    )


def names_of(table: TextTable) -> list[tuple[str, ...]]:
    return [tuple(map(str, row)) for row in zip(*table.columns(*NEEDED).values(), strict=True)]


ODD = {
    "plain.csv": (lines(), "utf-8", ""),
    "tab.tsv": (lines("\t"), "utf-8", "separated by tabs, decimals after a comma"),
    "tab.csv": (lines("\t"), "utf-8", "separated by tabs, decimals after a comma"),
    "pipe.csv": (lines("|"), "utf-8", "separated by '|', decimals after a comma"),
    "european.csv": (lines(";", "\r\n"), "cp1252", "separated by ';', in cp1252, decimals"),
    "latin.csv": (lines(";"), "latin-1", "separated by ';', in cp1252, decimals after a comma"),
    "mark.csv": (lines(), "utf-8-sig", ""),
    "excel.csv": (lines("\t", "\r\n"), "utf-16", "separated by tabs, in utf-16, decimals"),
    "little.csv": (lines(), "utf-16-le", "in utf-16-le"),
    "big.csv": (lines(), "utf-16-be", "in utf-16-be"),
    "said.csv": ("sep=;\n" + lines(";"), "utf-8", "separated by ';', with the first line left out"),
    "noted.csv": ("# by hand\n#\n\n" + lines(), "utf-8", "with the first 3 lines left out"),
    "mac.csv": (lines(end="\r"), "utf-8", ""),
    "quoted.csv": (lines(";", quoted=True), "utf-8", "separated by ';', decimals after a comma"),
    "gone.csv.gz": (lines(";"), "cp1252", "separated by ';', in cp1252"),
    "trailing.csv": (lines(",").replace("\n", ",\n"), "utf-8", "without 1 column without name"),
    "name": (lines("\t"), "utf-8", "separated by tabs"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_file_is_read_as_it_is_written_and_the_guess_is_said(tmp_path: Path, name: str) -> None:
    text, encoding, said = ODD[name]
    table = open_table(write(tmp_path / name, text, encoding), NEEDED)
    assert names_of(table) == [row[:3] for row in ROWS]
    assert table.read_as.startswith(said)
    assert bool(table.read_as) == bool(said)


@pytest.mark.parametrize("end", ["", " "])
def test_a_header_that_looks_like_a_comment_is_said(tmp_path: Path, end: str) -> None:
    """The first row was listed as the columns that the file has, without a word of the line above it."""
    path = write(tmp_path / "labels.csv", f"#{end}worker,task,label\nann,t1,a\nben,t1,b\n")
    told = (
        r"\(it has ann, t1, a, with the first line left out: a header must not begin with #, as "
        r"comments do\);"
    )
    with pytest.raises(TableError, match=told):
        open_table(path, NEEDED)


@pytest.mark.parametrize("end", ["\n", "\n\n", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_a_header_whose_cells_hold_line_ends_costs_no_row(tmp_path: Path, end: str) -> None:
    for above in ("", "# by hand\n"):
        text = f'{above}"your{end}note",worker,task,label\nx,ann,t1,a\ny,ben,t1,b\n'
        table = open_table(write(tmp_path / "labels.csv", text), NEEDED)
        assert table.names == (f"your{end}note", *NEEDED)
        assert names_of(table) == [("ann", "t1", "a"), ("ben", "t1", "b")]


@pytest.mark.parametrize("first", ["", "Unnamed: 0"])
def test_an_index_of_pandas_is_left_out(tmp_path: Path, first: str) -> None:
    text = f"{first},worker,task,label\n0,ann,t1,a\n1,ben,t1,b\n"
    table = open_table(write(tmp_path / "labels.csv", text), NEEDED)
    assert table.names == NEEDED
    assert table.read_as == "without its first column, an index"
    kept = (
        open_table(write(tmp_path / "x.csv", text.replace("\n1,", "\n7,")), ()) if first else None
    )
    assert kept is None or kept.names == ("Unnamed: 0", *NEEDED)


def test_decimal_commas_become_points_except_in_names(tmp_path: Path) -> None:
    text = "task;x1;x2\n1,5;-1.234,5;3\n2,5;0,25;1,5e-3\n"
    table = open_table(write(tmp_path / "tasks.csv", text), ("task",))
    found = {name: cells.tolist() for name, cells in table.columns("task", "x1", "x2").items()}
    assert found == {"task": ["1,5", "2,5"], "x1": ["-1234.5", "0.25"], "x2": ["3", "1.5e-3"]}


def test_thousands_in_groups_are_whole_numbers_where_a_column_says_so(tmp_path: Path) -> None:
    text = "task;price;x\nt1;1.234;1.234\nt2;2.500,5;0,25\nt3;-12.345.678;1\nt4;7;2.500\n"
    table = open_table(write(tmp_path / "tasks.csv", text), ("task",))
    found = {name: cells.tolist() for name, cells in table.columns("price", "x").items()}
    assert found == {
        "price": ["1234", "2500.5", "-12345678", "7"],
        "x": ["1.234", "0.25", "1", "2.500"],
    }


def test_labels_with_commas_are_no_decimals(tmp_path: Path) -> None:
    text = "worker;task;label;note\nann;t1;1,5;a,b\nben;t1;2,5;1,5\n"
    table = open_table(write(tmp_path / "labels.csv", text), NEEDED)
    assert table.columns("label", "note")["note"].tolist() == ["a,b", "1,5"]
    assert table.columns("label")["label"].tolist() == ["1,5", "2,5"]


@pytest.mark.parametrize("name", ["labels.csv.gz", "LABELS.CSV.GZ"])
def test_a_zipped_file_is_read_whatever_letters_its_name_has(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"worker;task;label\nann;t1;yes\n"))
    assert open_table(path, NEEDED).columns("label")["label"].tolist() == ["yes"]


def test_a_user_overrules_the_guess(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", "worker;task,label\nann;t1,жук\nben;t2,жук\n", "cp1251")
    found = sniff(path, Reading(sep=";", encoding="cp1251"))
    assert (found.sep, found.encoding) == (";", "cp1251")
    assert (
        open_table(path, (), Reading(";", "cp1251")).columns("task,label")["task,label"][0]
        == "t1,жук"
    )


@pytest.mark.parametrize(
    ("text", "reading", "told"),
    [
        ("a,b\n", Reading(encoding="base64"), "encoding must be one that Python knows"),
        ("a,b\n", Reading(encoding="none such"), "got 'none such'"),
        ("é,b\n", Reading(encoding="ascii"), "is not text in ascii; say what it is: --encoding"),
        ("a,b\n", Reading(encoding="utf-32"), "is not text in utf-32"),
        ("worker,,task,label\nw,x,t,l\n", Reading(), "column 2 has no name"),
        ("worker,task,label,Label\nw,t,l,l\n", Reading(), "in more than capital letters"),
        ("", Reading(), "is empty"),
        ("\n\n\n", Reading(), "is empty"),
        ("# only a comment\n", Reading(), "missing: worker, task, label"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(
    tmp_path: Path, text: str, reading: Reading, told: str
) -> None:
    with pytest.raises(TableError, match=told):
        open_table(write(tmp_path / "labels.csv", text), NEEDED, reading)


def test_a_fault_behind_the_beginning_names_its_line_and_the_option(tmp_path: Path) -> None:
    rows = "ann,t1,a\n" * 100_000
    path = tmp_path / "labels.csv"
    path.write_bytes(b"worker,task,label\n" + rows.encode() + b"jos\xe9,t1,a\n")
    with pytest.raises(
        TableError, match="line 100002 is not UTF-8 text; say what it is: --encoding"
    ):
        open_table(path, NEEDED)
    table = open_table(path, NEEDED, Reading(encoding="cp1252"))
    assert table.columns("worker")["worker"][-1] == "josé"


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".tsv", ".json", ".csv.gz"]))
def test_any_bytes_are_a_table_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("bytes") / f"labels{suffix}"
    path.write_bytes(data)
    try:
        open_table(path, NEEDED)
    except TableError as error:
        told = str(error)
        assert "labels" in told


CELLS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=4).filter(
    lambda text: text.strip() == text and not text.startswith("#") and '"' not in text
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=2, max_size=5),
    sep=st.sampled_from(",;\t|"),
)
def test_cells_of_any_separator_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], sep: str
) -> None:
    quoted = "\n".join(sep.join(f'"{c}"' for c in row) for row in [NEEDED, *rows])
    path = write(tmp_path_factory.mktemp("cells") / "labels.csv", quoted)
    assert names_of(open_table(path, NEEDED)) == rows


PACKED = {
    "gzip": "compressed by gzip; name it *.csv.gz",
    "zstd": "compressed by zstd; unpack it first",
    "bz2": "compressed by bzip2; unpack it first",
    "lz4": "compressed by lz4; unpack it first",
}


@pytest.mark.parametrize("how", PACKED)
def test_a_file_that_is_no_text_is_named_for_what_it_is(tmp_path: Path, how: str) -> None:
    """Its bytes stood in the message, as names of columns."""
    path = tmp_path / f"labels.csv.{how}"
    with pa.CompressedOutputStream(str(path), how) as file:
        file.write(lines().encode())
    with pytest.raises(TableError) as refused:
        open_table(path, NEEDED)
    assert str(refused.value) == f"{path.name} must be CSV by its name, and is {PACKED[how]}"


@pytest.mark.parametrize(
    ("begins", "what"),
    [
        (b"SQLite format 3\0" + bytes(84), "a SQLite database; write the table"),
        (b"ARROW1\0\0" + bytes(90), "Arrow's file format; write it as Parquet or CSV"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF; name the table"),
        (bytes(range(8)) + b"DUCK\x43\0" + bytes(90), "a DuckDB database; write the table"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(90), "a workbook of an old Excel; name it"),
        (b"\n<!DOCTYPE HTML>\n<p>log in</p>", "a web page; name the table that it shows"),
    ],
)
def test_a_database_and_other_binary_files_are_named(
    tmp_path: Path, begins: bytes, what: str
) -> None:
    """A database was read as UTF-16, and its bytes stood in the message."""
    path = tmp_path / "labels.db"
    path.write_bytes(begins)
    with pytest.raises(TableError, match=f"must be CSV by its name, and is {what}"):
        open_table(path, NEEDED)


@pytest.mark.parametrize(
    "text",
    ['{"worker": "ann", "task": 1}\n', '[{"worker": "ann"}]', '[\n  {\n "worker": 1}]', "PAR1..."],
)
def test_a_file_of_another_format_is_named_for_what_it_is(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "labels.csv", text)
    with pytest.raises(
        TableError, match=r"must be CSV by its name, and is (JSON|Parquet); name it"
    ):
        open_table(path, NEEDED)


def test_a_cell_under_no_name_is_not_left_out_with_its_column(tmp_path: Path) -> None:
    """A comma that should have been in quotes, far below the rows by which the dialect is found out."""
    path = tmp_path / "labels.csv"
    rows = [f"ann,t{number},cat," for number in range(1_000)]
    path.write_text("\n".join(["worker,task,label,", *rows]) + "\n")
    assert open_table(path, NEEDED).read_as == "without 1 column without name and cells"
    path.write_text("\n".join(["worker,task,label,", *rows, "ann,t,cat, or dog"]) + "\n")
    with pytest.raises(TableError, match=r"^labels.csv, row 1001: column 4 .* the cell ' or dog'"):
        open_table(path, NEEDED)

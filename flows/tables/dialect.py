r"""How a file of delimited text is written: separator, encoding, what stands above the header, decimals.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "labels.csv"
...     _ = path.write_bytes("sep=;\nworker;task;label\nJosé;t1;café\n".encode("cp1252"))
...     print(sniff(path, Reading()).oddities())
separated by ';', in cp1252, with the first line left out

Only the beginning of a file is looked at. What a user says in `Reading` is not guessed.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Any

from flows.choices import LABEL_COLUMNS
from flows.files import encoding_by_mark
from flows.tables.refusals import TableError

__all__ = [
    "AS_FOUND", "DECIMALS", "LEFT_OUT", "Dialect", "Reading", "sniff", "unzipped", "utf8_copy",
]  # fmt: skip

PREFIX = 2**19  # bytes looked at
RECORDS = 200  # rows looked at
SEPARATORS = (",", ";", "\t", "|")  # in the order in which a tie is decided
DECIMAL = r"\s*[-+]?\d{1,3}(\.?\d{3})*,\d+([eE][-+]?\d+)?\s*"
THOUSANDS = r"\s*[-+]?\d{1,3}(\.\d{3})+"  # the beginning of a number in groups of three digits
NUMBER = re.compile(rf"{DECIMAL}|{THOUSANDS}\s*|\s*[-+]?\d+([eE][-+]?\d+)?\s*")
DECIMALS, LEFT_OUT = "decimals after a comma", "left out"  # as `Dialect.oddities` says it
IN_WORDS = {"\t": "tabs"}  # how a separator is named
NO_TEXT = {  # patterns of how files begin that are no table in text, with what they are and what to do
    rb"\x1f\x8b": ("compressed by gzip", "name it *.csv.gz"),
    rb"\x28\xb5\x2f\xfd": ("compressed by zstd", "unpack it first"),
    rb"\xfd7zXZ": ("compressed by xz", "unpack it first"),
    rb"BZh": ("compressed by bzip2", "unpack it first"),
    rb"\x04\x22\x4d\x18": ("compressed by lz4", "unpack it first"),
    rb"PK\x03\x04": ("a workbook or a zip archive", "name it *.xlsx, or unpack it first"),
    rb"\xd0\xcf\x11\xe0\xa1\xb1": ("a workbook of an old Excel", "name it *.xls"),
    rb"PAR1": ("Parquet", "name it *.parquet"),
    rb"SQLite format 3\0": ("a SQLite database", "write the table that is meant to a CSV file"),
    rb".{8}DUCK.{2}\0{6}": ("a DuckDB database", "write the table that is meant to a CSV file"),
    rb"ARROW1": ("Arrow's file format", "write it as Parquet or CSV"),
    rb"%PDF": ("a PDF", "name the table that it was made from"),
    rb"\s*(?i:<!doctype html|<html)": ("a web page", "name the table that it shows or links to"),
    rb'\s*(\[\s*)?\{\s*"': ("JSON", "name it *.json"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """The dialect of tables that a user gives; None is detected.

    Parameters
    ----------
    sep
        What separates the cells of a line.
    encoding
        The encoding of the text, by a name that Python knows.
    sheet
        The sheet of a workbook.
    wide
        Whether labels have a row per task and a column per worker.
    columns
        Pairs of worker, task or label and the column that a table has for it.
    truth
        The column of a gold table that holds the truths, and is read as its labels.
    lenient
        Whether the torn lines of a CSV are kept aside; otherwise the first is refused.
    apart
        More columns of names, under which a comma is no decimal.
    """

    sep: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    wide: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    truth: str | None = None
    lenient: bool = False
    apart: tuple[str, ...] = ()

    @property
    def keeps_columns(self) -> bool:
        """Whether a table's columns are those of its file, under the same names."""
        return not (self.wide or self.columns or self.truth is not None)

    def names(self, column: str) -> bool:
        """Return whether the cells of a column of this name are names, in which a comma is no decimal."""
        mapped = {meant for _, meant in self.columns}
        return column in {*LABEL_COLUMNS, *mapped, *self.apart, self.truth}

    def keys(self) -> dict[str, Any]:
        """Return the keys under ``[input]`` that say the same."""
        columns = tuple(f"{role}={column}" for role, column in self.columns)
        return {
            "sep": self.sep, "encoding": self.encoding, "sheet": self.sheet, "wide": self.wide,
            "columns": columns,
        }  # fmt: skip


AS_FOUND = Reading()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one file is written.

    Parameters
    ----------
    columns
        Place and name of each column that is read.
    width
        The number of all columns.
    sep, encoding
        What separates cells; the encoding.
    above, skip
        Lines above the header, and one more: to DuckDB a header whose cells hold line ends is one.
    decimal, grouped
        Whether numbers have a decimal comma; the places of columns in which a number such as 2.500,5 says
        that 1.234 is a whole one.
    left_out, blank
        Columns that are not read, in words; the places of those with neither name nor cells at the beginning.
    """

    columns: tuple[tuple[int, str], ...]
    width: int
    sep: str = ","
    encoding: str = "utf-8"
    above: int = 0
    skip: int = 1
    decimal: bool = False
    left_out: str = ""
    blank: tuple[int, ...] = ()
    grouped: frozenset[int] = frozenset()

    @property
    def is_plain(self) -> bool:
        """Whether the file is UTF-8 text separated by commas, with its header in the first line."""
        return not self.oddities()

    def oddities(self) -> str:
        """Return what is not plain, without its full stop; empty if nothing is."""
        above = "with the first line" if self.above == 1 else f"with the first {self.above} lines"
        odd = {
            f"separated by {IN_WORDS.get(self.sep, repr(self.sep))}": self.sep != ",",
            f"in {self.encoding}": self.encoding != "utf-8",
            f"{above} {LEFT_OUT}": self.above > 0,
            DECIMALS: self.decimal,
            f"without {self.left_out}": bool(self.left_out),
        }
        return ", ".join(words for words, true in odd.items() if true)


def sniff(path: Path, reading: Reading) -> Dialect:
    """Return how a file is written, from its beginning and the user's options.

    Raises
    ------
    TableError
        If the file is not text in the encoding given or found, or has no header.
    """
    with unzipped(path) as file:
        start = file.read(PREFIX)
    _refuse_no_text(start, path)
    encoding = _encoding_of(start, reading.encoding)
    text = _decoded(start, encoding, path, whole=len(start) < PREFIX)
    above, sep = _above_header(text)
    body = text.split("\n", above)[-1] if above else text
    sep = reading.sep or sep or _separator_of(body, path)
    rows = list(_records(body, sep))
    if not rows:
        raise TableError(
            f"{path.name} is empty; it needs a header and rows below it: export it again"
        )
    header, rest = rows[0], rows[1:]
    columns, blank, left_out = _columns_of([name.strip() for name in header], rest)
    found = Dialect(
        columns, len(header), sep, encoding, above, above + 1, left_out=left_out, blank=blank
    )
    if sep == "," or not _has_decimal_commas(found, rest, reading):
        return found
    return replace(found, decimal=True, grouped=_grouped(rest))


def _refuse_no_text(start: bytes, path: Path) -> None:
    """Raise TableError for the beginning of a file that is no delimited text."""
    for mark, (kind, way_on) in NO_TEXT.items():
        if re.match(mark, start.removeprefix(codecs.BOM_UTF8), re.DOTALL):
            raise TableError(f"{path.name} must be CSV by its name, and is {kind}; {way_on}")


def _encoding_of(start: bytes, given: str | None) -> str:
    """Return the encoding given, or that of the mark at the beginning, or a guess by the bytes."""
    if given is not None:
        return _known(given)
    marked = encoding_by_mark(start)
    if marked is not None:
        return "utf-8" if marked == "utf-8-sig" else marked
    if start.count(b"\0") > len(start) / 5:  # ASCII in two bytes
        return "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "cp1252" if _decodes(start, "cp1252") else "latin-1"
    return "utf-8"


def _known(name: str) -> str:
    try:
        found = codecs.lookup(name)
        "".encode(name)
    except (LookupError, UnicodeError, ValueError):
        raise TableError(
            f"encoding must be one that Python knows, such as utf-8, utf-16, latin-1 or cp1252, got "
            f"{name!r}"
        ) from None
    return found.name if found.name != "utf-8-sig" else "utf-8"


def _decodes(start: bytes, encoding: str) -> bool:
    try:
        start.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(start: bytes, encoding: str, path: Path, *, whole: bool) -> str:
    """Return the beginning as text, without a mark; of a longer file, up to its last whole line."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(start)
    except (UnicodeError, ValueError):
        raise not_encoded(path, encoding) from None
    text = text.removeprefix("\ufeff")
    return text if whole or "\n" not in text else text[: text.rindex("\n") + 1]


def not_encoded(path: Path, encoding: str) -> TableError:
    """Return the refusal of a file that is not text in an encoding."""
    return TableError(
        f"{path.name} is not text in {encoding}; say what it is: --encoding cp1252, latin-1, utf-16 "
        "..., or the key encoding under [input]"
    )


def _above_header(text: str) -> tuple[int, str | None]:
    """Return the number of lines above the header, and the separator that one of them names."""
    sep = None
    for above, line in enumerate(text.split("\n", 100)[:100]):
        named = re.fullmatch(r"\"?sep=(.)\"?\s*", line, re.IGNORECASE)
        if named:
            sep = named[1]
        elif line.strip() and not line.startswith("#"):
            return above, sep
    return 0, sep


def _separator_of(body: str, path: Path) -> str:
    """Return the separator by which most rows have as many cells as the header."""
    best, sep = (0.0, 0), "\t" if ".tsv" in map(str.lower, path.suffixes) else ","
    for one in SEPARATORS:
        rows = [len(row) for row in _records(body, one)]
        if not rows or rows[0] < 2:
            continue
        even = sum(width == rows[0] for width in rows) / len(rows)
        if (even, rows[0]) > best:
            best, sep = (even, rows[0]), one
    return sep


def _records(body: str, sep: str) -> Iterator[list[str]]:
    """Yield the first rows that are not blank."""
    # not str.splitlines, which breaks a cell at U+2028 and other characters too
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=sep)
    try:
        yield from (row for row in islice(reader, RECORDS) if row)
    except csv.Error:  # a cell that is too long: the rows before it must do
        return


def _columns_of(
    header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[tuple[int, str], ...], tuple[int, ...], str]:
    """Return the columns to read, the places of those of nothing, and in words what is left out."""
    out: list[int] = []
    index = bool(rows) and header[0] in ("", "Unnamed: 0") and len(header) > 1 and _counts(rows)
    if index:
        out.append(0)
    blank = [
        at
        for at, name in enumerate(header)
        if not name and at not in out and not any(row[at].strip() for row in rows if at < len(row))
    ]
    words = ["its first column, an index"] if index else []
    words += (
        [f"{len(blank)} column{'s' * (len(blank) > 1)} without name and cells"] if blank else []
    )
    kept = tuple((at, name) for at, name in enumerate(header) if at not in {*out, *blank})
    return kept, tuple(blank), " and ".join(words)


def _counts(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first cells are whole numbers, each one more than the last."""
    cells = [row[0] for row in rows]
    if not all(cell.isdecimal() and len(cell) < 19 for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _has_decimal_commas(found: Dialect, rows: Sequence[Sequence[str]], reading: Reading) -> bool:
    """Return whether a column that is no name holds numbers alone, and some with a decimal comma."""
    for at, name in found.columns:
        cells = [row[at] for row in rows if at < len(row) and row[at].strip()]
        if reading.names(name) or not any(re.fullmatch(DECIMAL, cell) for cell in cells):
            continue
        if all(NUMBER.fullmatch(cell) for cell in cells):
            return True
    return False


def _grouped(rows: Sequence[Sequence[str]]) -> frozenset[int]:
    """Return the places of columns with a number that has both thousands in groups and a decimal comma."""
    number = re.compile(rf"{THOUSANDS},\d.*")
    return frozenset(at for row in rows for at, cell in enumerate(row) if number.fullmatch(cell))


def unzipped(path: Path) -> BufferedIOBase:
    """Open a file of text to be read, through gzip where its name ends so."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def utf8_copy(path: Path, encoding: str, copy: Path) -> Path:
    """Write the file's text as UTF-8 without a mark to `copy`, a block at a time; return `copy`.

    Raises
    ------
    TableError
        If the file is not text in the encoding, or Python knows no encoding of that name.
    """
    decoder, first = codecs.getincrementaldecoder(_known(encoding))(), True
    with unzipped(path) as file, copy.open("wb") as out:
        try:
            while block := file.read(PREFIX):
                text = decoder.decode(block)
                out.write((text.removeprefix("\ufeff") if first else text).encode())
                first = first and not text
            out.write(decoder.decode(b"", final=True).encode())
        except (UnicodeError, ValueError):
            raise not_encoded(path, encoding) from None
    return copy

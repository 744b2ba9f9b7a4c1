r"""One file as a table of text: its rows are numbered, and its faults are named with row, column and value.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "labels.csv"
...     _ = path.write_text("worker,task,label\nann,t1, cat \n")
...     open_table(path, ("worker", "task", "label")).columns("label")
{'label': array(['cat'], dtype='<U3')}

Rows count from 1; the header is not counted. How a file is loaded says `flows.tables.file_formats`.
"""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, NoReturn

import duckdb
import numpy as np
import pyarrow as pa
from jaxtyping import Int, Shaped

from flows.choices import LABEL_COLUMNS
from flows.files import name_advice
from flows.tables.arrow import text_column
from flows.tables.dialect import AS_FOUND, LEFT_OUT, Reading
from flows.tables.file_formats import (
    CSV,
    OF_SHEET,
    Columns,
    Loaded,
    apart,
    connected,
    format_of,
    load_file,
)
from flows.tables.refusals import (
    BROKEN,
    ROW,
    TableError,
    cell,
    literal,
    number,
    quote,
    refuse_same_columns,
    refuse_vocabulary,
    text_of_cell,
    text_of_number,
)

__all__ = [
    "WHOLE",
    "Coded",
    "Part",
    "TextTable",
    "column_names",
    "first_fault",
    "guess_roles",
    "is_number",
    "numbers_of",
    "open_table",
    "refuse_missing",
    "refusing",
    "write_texts",
]

KEPT = 10_000  # bytes of a line that cannot be read that DuckDB keeps, as the tests hold
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")  # types joined faster than text
ROLES = {
    "worker": "worker annotator labeler labeller rater judge user contributor respondent coder assessor",
    "task": "task item example unit question query document sample hit image instance record object",
    "label": "label labels answer response rating score class category choice annotation grade vote "
    "judgment judgement verdict",
}  # each also with "id" or "name" behind it


class Coded(NamedTuple):
    """A column as codes of its sorted names."""

    code: Int[np.ndarray, " rows"]
    names: Shaped[np.ndarray, " names"]


@dataclass(frozen=True, slots=True)
class TextTable:
    """One file in DuckDB: its cells as they came (`raw`), and as numbered rows of text (`t`).

    Of the columns that are `numbers`, `t` has the doubles too, so that features need not become text and
    numbers again.
    """

    connection: duckdb.DuckDBPyConnection
    file: str
    names: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    read_as: str = ""  # what of the file is not plain, in words
    torn: tuple[tuple[str, str], ...] = ()  # lines kept aside, each with where it is
    place: Callable[[int], str] = "row {}".format  # where a row comes from
    parquet: Path | None = None  # the file, if its columns are those of the table

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the table `t`."""
        return self.connection.execute(sql, list(parameters)).fetchall()

    def columns(self, *names: str) -> dict[str, np.ndarray]:
        """Return whole columns of text, in the order of the rows."""
        return {name: text_column(column) for name, column in self.texts(*names).items()}

    def texts(self, *names: str) -> dict[str, pa.ChunkedArray]:
        """Return whole columns of text as Arrow holds them, in the order of the rows."""
        quoted = ", ".join(quote(name) for name in names)
        found = self.connection.sql(f"SELECT {quoted} FROM t ORDER BY {ROW}").to_arrow_table()
        return dict(zip(names, found.columns, strict=True))

    def cells(self, *names: str) -> list[tuple[str, ...]]:
        """Return the cells of columns, untrimmed, a row of the file a tuple; a missing one is blank."""
        kinds = {row[0]: row[1] for row in self.query("DESCRIBE raw")}
        texts = (text_of_number(cell(name), kinds[f"cell {name}"]) for name in names)
        quoted = ", ".join(f"coalesce({text}, '')" for text in texts)
        return self.query(f"SELECT {quoted} FROM raw ORDER BY rowid")

    def codes(self, *names: str) -> dict[str, Coded]:
        """Return columns without blanks as codes, all in one order of rows, which need not be the file's.

        Only distinct cells are trimmed and sorted. Rows are joined to them by the cell itself, never by
        a hash.
        """
        for name in names:
            self._make_vocabulary(name)
        codes = ", ".join(f"{_vocabulary(name)}.rowid::INTEGER AS {quote(name)}" for name in names)
        joins = " ".join(
            f"JOIN {_vocabulary(name)} ON raw.{cell(name)} = {_vocabulary(name)}.cell"
            for name in names
        )
        rows = self.connection.execute(f"SELECT {codes} FROM raw {joins}").fetchnumpy()
        return {name: self._coded(name, rows[name]) for name in names}

    def keep(self, chosen: Literal["min", "max"], columns: str) -> None:
        """Keep the first or the last row for each value of some columns; rows keep their numbers."""
        cells = ", ".join(f"{quote(name)} AS {cell(name)}" for name in self.names)
        for sql in (
            f"CREATE TABLE kept AS SELECT * FROM t WHERE {ROW} IN "
            f"(SELECT {chosen}({ROW}) FROM t GROUP BY {columns})",
            "DROP VIEW t",
            "DROP TABLE raw",
            "ALTER TABLE kept RENAME TO t",
            f"CREATE VIEW raw AS SELECT {cells} FROM t",
        ):
            self.query(sql)

    def _make_vocabulary(self, name: str) -> None:
        """Make a table of a column's distinct cells, sorted by text: the row of a cell is its code."""
        self.query(
            f"CREATE OR REPLACE TABLE {_vocabulary(name)} AS SELECT cell, {text_of_cell('cell')} AS name "
            f"FROM (SELECT DISTINCT {cell(name)} AS cell FROM raw) ORDER BY name, cell"
        )
        refuse_vocabulary(self, _vocabulary(name), name)

    def _coded(self, name: str, code: np.ndarray) -> Coded:
        """Return codes and names; cells that differ only in the white space around them are one name."""
        found = self.connection.execute(f"SELECT name FROM {_vocabulary(name)} ORDER BY rowid")
        names = np.asarray(found.fetchnumpy()["name"], dtype=np.str_)
        new = np.append(True, names[1:] != names[:-1])
        return Coded(code, names) if new.all() else Coded((np.cumsum(new) - 1)[code], names[new])


def open_table(
    path: Path,
    needed: tuple[str, ...],
    reading: Reading = AS_FOUND,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> TextTable:
    """Load one file; raise TableError if it is missing, empty, torn, or lacks a column.

    The table is made in a database in memory: by default in one of its own, else in that of a `connection`
    that holds no other.
    """
    connection = connected() if connection is None else connection
    with refusing(path), TemporaryDirectory(prefix="crowdassay-") as folder:
        found = load_file(connection, path, reading, Path(folder))
        names = tuple(name for name, _ in found.columns)
        _check_header(path, found, () if reading.wide else needed)
        connection.execute(_load(found.columns, found.rows))
        torn = _torn_lines(path, connection) if "read_csv" in found.rows and reading.lenient else ()
        if reading.wide:
            names = _make_long(connection, path, found.columns)
    numbers = (
        {} if reading.wide else {one: kind for one, kind in found.columns if is_number(one, kind)}
    )
    # DuckDB keeps the order of what it reads, so `rowid` counts the rows of the file
    texts = ", ".join(
        f"{text_of_number(cell(name), numbers[name]) if name in numbers else text_of_cell(cell(name))} "
        f"AS {quote(name)}"
        for name in names
    )
    doubled = () if reading.wide else numbers_of(found.columns)
    doubles = "".join(f", {cell(name)}::DOUBLE AS {number(name)}" for name in doubled)
    connection.execute(f"CREATE VIEW t AS SELECT rowid + 1 AS {ROW}, {texts}{doubles} FROM raw")
    parquet = path if path.suffix.lower() == ".parquet" and reading.keeps_columns else None
    table = TextTable(connection, path.name, names, doubled, found.read_as, torn, parquet=parquet)
    if not torn and table.query("SELECT count(*) FROM raw")[0][0] == 0:
        raise TableError(
            f"{path.name} has no rows below its header{_of_sheet(found)}; export it again"
        )
    return table


def column_names(
    path: Path, needed: tuple[str, ...], reading: Reading = AS_FOUND
) -> tuple[str, ...]:
    """Return the names of the columns that `open_table` would find, without loading the rows."""
    if reading.wide:
        return LABEL_COLUMNS
    with (
        refusing(path),
        connected() as connection,
        TemporaryDirectory(prefix="crowdassay-") as folder,
    ):
        found = load_file(connection, path, reading, Path(folder))
        names = tuple(name for name, _ in found.columns)
        _check_header(path, found, needed)
    return names


class Part(NamedTuple):
    """Of one file: its columns, its number of rows, what is not plain, in words, and lines kept aside."""

    names: tuple[str, ...]
    n_rows: int
    read_as: str
    torn: tuple[tuple[str, str], ...]


def write_texts(
    files: Sequence[Path],
    needed: tuple[str, ...],
    kept: tuple[str, ...],
    paths: Sequence[Path],
    reading: Reading,
) -> Iterator[Part]:
    """Write the columns to keep of each file, or without any all of them, as Parquet, every cell as its text.

    One that a file need not have and has not is blank. The files have one connection, as it takes longer
    than a small file.
    """
    with connected() as connection:
        for file, path in zip(files, paths, strict=True):
            with apart(connection) as alone:
                opened = open_table(file, needed, reading, alone)
                names, rows = kept or opened.names, opened.query("DESCRIBE raw")
                text = {row[0]: text_of_number(quote(row[0]), row[1]) for row in rows}
                cells = ", ".join(
                    f"{text.get(f'cell {name}', 'NULL::VARCHAR')} AS {quote(name)}"
                    for name in names
                )
                opened.query(
                    f"COPY (SELECT {cells} FROM raw) TO {literal(str(path))} (FORMAT parquet)"
                )
                n_rows = opened.query("SELECT count(*) FROM raw")[0][0]
                yield Part(opened.names, n_rows, opened.read_as, opened.torn)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Raise TableError in place of what reading a file that is missing or damaged raises."""
    if not path.is_file():
        refuse_missing(path)
    try:
        str(path).encode()  # DuckDB takes no other names
    except UnicodeEncodeError:
        raise TableError(
            f"a table's path must be UTF-8 text, got {str(path)!a}; "
            + name_advice("rename the file, or its folder")
        ) from None
    try:
        yield
    except duckdb.Error as error:
        raise TableError(f"{path.name}: {first_fault(error)}") from None
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system, not of the file: it may pass, and the run is tried again
        raise TableError(f"{path.name} cannot be read: {error}; export it again") from None


def _torn_lines(path: Path, connection: duckdb.DuckDBPyConnection) -> tuple[tuple[str, str], ...]:
    """Return the lines that were kept aside, each with where it is and its text.

    Raises
    ------
    TableError
        If DuckDB kept the beginning of one alone: behind an open quote the rest may be most of the rows.
    """
    found = connection.execute(
        "SELECT line, any_value(csv_line), coalesce(max(strlen(csv_line)), 0) FROM reject_errors "
        "GROUP BY line ORDER BY line"
    ).fetchall()
    cut = next((line for line, _, size in found if size >= KEPT), None)
    if cut is not None:
        raise TableError(
            f"{path.name}, line {cut}: a line that cannot be read must be shorter than {KEPT:,} bytes to be "
            'kept aside, and this one runs on, as where a " is not closed; mend it, and check again'
        )
    return tuple((f"line {line}", str(text).strip("\n")) for line, text, _ in found)


def refuse_missing(path: Path) -> NoReturn:
    """Raise TableError for what is no file, and say what to do."""
    if re.match(r"((delta|iceberg)\+)?(s3|gs|gcs|r2|az|abfss|hf|https?|ftp|file):/", str(path)):
        raise TableError(
            f"{str(path).partition('?')[0]} is not on this machine; fetch it first, and name the file"
        )
    if path.is_dir():
        raise TableError(f"{path} is a folder, and one file is read here; name a file in it")
    if path.exists():
        raise TableError(
            f"{path} is a pipe or a device, and a file is read more than once; save what comes, and name "
            "that file"
        )
    raise TableError(f"{path} does not exist; mend the path")


def _make_long(
    connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns
) -> tuple[str, ...]:
    """Turn a row per task and a column per worker into a row per label; blank cells are no labels."""
    names = [name for name, _ in columns]
    if len(names) < 2:
        raise TableError(
            f"{path.name} must have a column of tasks and one per worker to be wide; it has "
            f"{', '.join(names)}; leave out --wide (wide = true)"
        )
    if set(LABEL_COLUMNS) <= guess_roles(names).keys():
        raise TableError(
            f"{path.name} has a row per label ({', '.join(guess_roles(names).values())}); a wide table has a "
            "column of tasks and one per worker, named after her; leave out --wide (wide = true)"
        )
    task = cell("task" if "task" in names else names[0])
    texts = ", ".join(
        f"{text_of_number(cell(name), kind if is_number(name, kind) else 'VARCHAR')} AS {cell(name)}"
        for name, kind in columns
    )
    long = (
        f"SELECT substr(name, 6) AS {cell('worker')}, task AS {cell('task')}, "
        f"value AS {cell('label')} FROM (UNPIVOT (SELECT {task} AS task, * EXCLUDE ({task}) FROM "
        f"(SELECT {texts} FROM raw)) ON COLUMNS(* EXCLUDE (task)) INTO NAME name VALUE value) "
        f"WHERE {text_of_cell('value')} IS NOT NULL"
    )
    connection.execute(f"CREATE TABLE long AS {long}")
    connection.execute("DROP TABLE raw")
    connection.execute("ALTER TABLE long RENAME TO raw")
    return LABEL_COLUMNS


def _load(columns: Columns, rows: str) -> str:
    """Return SQL that loads a file: numbers as they are, other cells as text, nothing trimmed."""
    cells = ", ".join(
        f"{quote(name) if is_number(name, kind) else text_of_number(quote(name), kind)} AS {cell(name)}"
        for name, kind in columns
    )
    return f"CREATE TABLE raw AS SELECT {cells} FROM {rows}"


def is_number(name: str, kind: str) -> bool:
    """Return whether a column's cells are kept as numbers; 0 and -0 are two names, and so are text."""
    return kind in WHOLE or (kind in BROKEN and name not in LABEL_COLUMNS)


def numbers_of(columns: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the columns, given with their types, whose doubles `t` can have beside their text.

    >>> numbers_of([("x", "DOUBLE"), ("name", "VARCHAR"), ("y", "BIGINT"), ("number y", "BIGINT")])
    ('x', 'number y')
    """
    listed = tuple(columns)
    taken = {quote(name).lower() for name, _ in listed}
    return tuple(
        name
        for name, kind in listed
        if kind in (*WHOLE, *BROKEN) and number(name).lower() not in taken
    )


def _vocabulary(name: str) -> str:
    """Return the name of the table of a column's distinct cells."""
    return quote(f"vocabulary {name}")


def _renaming(path: Path, names: tuple[str, ...], needed: tuple[str, ...]) -> str:
    """Return what to do for the columns that a table needs."""
    known = guess_roles(names)
    if "worker" not in needed or not set(LABEL_COLUMNS).issuperset(needed):
        meant = [f"{known.get(one)!r} to {one}" for one in needed if one not in names]
        sure = set(needed).issubset({*known, *names})
        return f"rename {' and '.join(meant)}" if sure else "rename or add it"
    if path.parent.name.startswith("crowdassay-") and not path.name.startswith("standard input"):
        return "rename or add it"  # a data frame has no file
    some = "task" in names or (len(names) > 3 and "label" not in names and "worker" not in names)
    if some and "label" in needed and not set(needed) <= set(known):  # else of sets, never wide
        wide = "; if each other column is a worker, --wide (wide = true) reads it so"
    else:
        wide = ""
    parts = ",".join(f"{role}={known.get(role, '...')}" for role in needed if role not in names)
    bare = format_of(path) is CSV and not known and not set(needed) & set(names)
    above = "write them above the first row if that is no header" if bare else "rename or add it"
    return f"{above}, or say which is which: --map {shlex.quote(parts)}, or columns under [input]{wide}"


def _of_sheet(found: Loaded) -> str:
    """Return which of several sheets was read, and how another is, as the end of a clause."""
    if OF_SHEET not in found.read_as:
        return ""
    return f", {found.read_as}: name another in --sheet or sheet under [input]"


def _check_header(path: Path, found: Loaded, needed: tuple[str, ...]) -> None:
    names = tuple(name for name, _ in found.columns)
    if not names:
        raise TableError(
            f"{path.name} is empty; it needs a header and rows below it: export it again"
        )
    missing = [name for name in needed if name not in names]
    if missing:
        above = f", {found.read_as}: a header must not begin with #, as comments do"
        raise TableError(
            f"{path.name} must have the columns {', '.join(needed)}; missing: {', '.join(missing)} "
            f"(it has {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
            f"{above if LEFT_OUT in found.read_as else _of_sheet(found)}); "
            f"{_renaming(path, names, needed)}"
        )
    refuse_same_columns(path.name, names)
    if "" in names:
        raise TableError(f"{path.name}: column {names.index('') + 1} has no name; give it one")


def first_fault(error: Exception) -> str:
    """Return DuckDB's report, or Arrow's, shortened to line, columns expected and columns found."""
    text = str(error)
    if re.search("not utf-8 encoded|Invalid unicode|invalid UTF-8", text):
        torn = re.search(r"CSV Error on Line: (\d+)", text)
        where = f"line {torn[1]} is" if torn else "is"
        return (
            f"{where} not UTF-8 text; say what it is: --encoding cp1252, latin-1, ..., or the key "
            "encoding under [input]"
        )
    if "state machine" in text:
        return "its lines end in several ways; save it with one kind of line end"
    if "Parallel CSV Reader" in text:  # it read parts of the file at once, and they do not meet
        return (
            'a cell that begins with " has no closing ", or runs over very many lines; '
            "crowdassay check names the line"
        )
    if "unterminated quote" in text:
        torn = re.search(r"CSV Error on Line: (\d+)", text)
        where = f"the cell of line {torn[1]}" if torn else "a cell"
        return f'{where} that begins with " has no closing "; mend that line'
    torn = re.search(r"CSV Error on Line: (\d+)", text)
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if torn and counts:
        return f"line {torn[1]} must have {counts[1]} columns, it has {counts[2]}; mend that line"
    where = f"line {torn[1]} cannot be read" if torn else "not a readable table"
    reason = text.splitlines()[0].removeprefix("Invalid Input Error: ").rstrip(". ")
    return f"{where} ({reason}); export it again, in the format that its name ends in"


def guess_roles(names: Iterable[str]) -> dict[str, str]:
    """Return worker, task and label with the column of each, where exactly one column can be meant.

    A column of a role's own name is that role's. Capitals, spaces, ``_``, ``-`` and a last "id" or
    "name" count for nothing; where two columns fit one role, it is the one that ends in "id", or none.

    >>> guess_roles(("user", "rater", "task", "Answer"))
    {'task': 'task', 'label': 'Answer'}
    >>> guess_roles(("worker", "task", "labels"))  # lists of labels, as of several that hold at once
    {'worker': 'worker', 'task': 'task', 'label': 'labels'}
    """
    columns = tuple(names)
    found = {}
    for role, known in ROLES.items():
        fit = [role] if role in columns else [one for one in columns if _core(one) in known.split()]
        if len(fit) > 1:
            fit = [one for one in fit if one.lower().endswith("id")]
        if len(fit) == 1:
            found[role] = fit[0]
    return found


def _core(name: str) -> str:
    """Return a column's name in small letters without separators and what says that it is a name."""
    bare = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    return bare.removesuffix("id").removesuffix("name")

"""The one table of file formats: how DuckDB loads the columns and rows of each.

>>> sorted(FORMATS)[:4]
['.csv', '.csv.gz', '.json', '.json.gz']

Every row of `FORMATS` is a function of a file and of the user's options. It returns the columns and
the SQL of the rows, in the order of the file.
"""

from __future__ import annotations

import shutil
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import duckdb

from flows.files import encoding_by_mark, write_whole
from flows.tables.dialect import (
    AS_FOUND,
    DECIMAL,
    THOUSANDS,
    Dialect,
    Reading,
    sniff,
    unzipped,
    utf8_copy,
)
from flows.tables.refusals import (
    OF_FILE_ALONE,
    TableError,
    literal,
    quote,
    refuse_damaged,
    refuse_same_columns,
    text_of_cell,
    text_of_file,
    text_of_json,
    text_of_number,
)

__all__ = [
    "FORMATS", "OF_SHEET", "STANDARD_INPUT", "SUFFIXES", "Loaded", "apart", "connected", "format_of",
    "is_plain", "keep_standard_input", "load_file", "refuse_unheeded", "refuse_unmapped", "write_renamed",
    "write_truths",
]  # fmt: skip

STANDARD_INPUT = Path("-")
STARTS = {  # how files begin that are no text of a table
    b"PAR1": ".parquet",
    b"PK\x03\x04": ".xlsx",
    b"\x1f\x8b": ".csv.gz",
    b"{": ".jsonl",
    b"[": ".json",
}
OF_SHEET = "from its sheet"  # as `Loaded.read_as` says which of several was read
Columns: TypeAlias = list[tuple[str, str]]  # a file's columns, each with DuckDB's type


class Loaded(NamedTuple):
    """A file as DuckDB can select from it: its columns, the SQL of its rows, what is not plain in words."""

    columns: Columns
    rows: str
    read_as: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """One format: `load` is given a connection, a file, what the user says, and a folder for copies.

    `heeds` are the fields of `Reading` that say how such a file is written.
    """

    load: Callable[[duckdb.DuckDBPyConnection, Path, Reading, Path], Loaded]
    is_plain: Callable[[Path, Reading], bool]
    heeds: tuple[str, ...] = ()


def connected() -> duckdb.DuckDBPyConnection:
    """Return a connection to a database in memory, to which a moment is the same text on every machine.

    What memory does not hold goes to a folder of its owner alone, which is removed with the connection: by
    itself DuckDB would leave it to everybody, in the working directory.
    """
    connection, folder = duckdb.connect(), mkdtemp(prefix="crowdassay-")
    weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    connection.execute(f"SET TimeZone = 'UTC'; SET temp_directory = {literal(folder)}")
    return connection


@contextmanager
def apart(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield another connection to a database of its own, in a tenth of the time that `connected` takes."""
    with connection.cursor() as other:
        other.execute("ATTACH ':memory:' AS apart; USE apart; SET TimeZone = 'UTC'")
        yield other
    connection.execute("DETACH apart")


def format_of(path: Path) -> Format:
    """Return the format that the end of a file's name means; other names are read as CSV."""
    return next((form for end, form in FORMATS.items() if path.name.lower().endswith(end)), CSV)


def load_file(
    connection: duckdb.DuckDBPyConnection, path: Path, reading: Reading, folder: Path
) -> Loaded:
    """Return a file as DuckDB can select from it, with its columns under the names that the user gave.

    A column that has such a name without being the one that the user means is left out.

    Raises
    ------
    TableError
        If the file has neither a column that the user names nor one with the name that it is to have, or if
        the user names a column of workers or labels in a wide table.
    """
    if reading.wide and any(role != "task" for role, _ in reading.columns):
        raise TableError(
            f"{path.name}: of a wide table --map (columns) may name no more than task, as its other columns "
            "are workers; leave the others out"
        )
    refuse_damaged(path)
    found = format_of(path).load(connection, path, reading, folder)
    names = [name for name, _ in found.columns]
    wanted = dict(reading.columns) | ({} if reading.truth is None else {"label": reading.truth})
    given = {column: role for role, column in wanted.items() if column in names}
    for role, column in wanted.items():
        is_truth = reading.truth is not None and role == "label"  # the crowd's label is none
        if column not in names and (is_truth or role not in names):
            said_in = "gold_column" if is_truth else "--map or columns under [input]"
            raise TableError(
                f"{path.name} must have the column {column!r} (it has {', '.join(names[:8])}"
                f"{', ...' if len(names) > 8 else ''}), which is to be {role}; mend the name in {said_in}"
            )
    if all(column == role for column, role in given.items()):
        return found
    left_out = {name for name in names if name not in given and name.lower() in given.values()}
    kept = [(name, kind) for name, kind in found.columns if name not in left_out]
    cells = ", ".join(f"{quote(name)} AS {quote(given.get(name, name))}" for name, _ in kept)
    said = ", ".join(f"{column} as {role}" for column, role in given.items())
    said += f", without its own {', '.join(sorted(left_out))}" if left_out else ""
    return Loaded(
        [(given.get(name, name), kind) for name, kind in kept],
        f"(SELECT {cells} FROM {found.rows})",
        ", ".join(filter(None, (found.read_as, f"with {said}"))),
    )


def write_renamed(path: Path, reading: Reading, output: Path) -> str:
    """Write the rows of a Parquet file under the names that the user gave; return how it was read, in words.

    Rows are streamed, and the output is written whole; it may be the file itself.
    """
    with connected() as connection:
        found = load_file(connection, path, reading, output.parent)
        rows = f"(SELECT * FROM {found.rows})"
        write_whole(
            output,
            lambda aside: connection.execute(
                f"COPY {rows} TO {literal(str(aside))} (FORMAT parquet)"
            ),
        )
    return found.read_as


def write_truths(path: Path, output: Path, *, name: str, column: str) -> None:
    """Write the truth of each task once, of a Parquet file with a row for each of its labels.

    Raises
    ------
    TableError
        If a task has two truths, or no task has one; `name` and `column` say where.
    """
    rows, where = f"read_parquet({text_of_file(path)}, {OF_FILE_ALONE})", f"{name}, column {column}"
    with connected() as connection:
        described = connection.execute(f"DESCRIBE SELECT label FROM {rows}").fetchall()
        # where most truths are blank, pandas writes numbers with a point
        label = text_of_cell(f"({text_of_number('label', described[0][1])})")
        truths = (
            f"(SELECT task, {label} AS label FROM {rows} WHERE {label} IS NOT NULL GROUP BY ALL)"
        )
        counts = f"SELECT task, min(label), max(label), count(*) AS n FROM {truths} GROUP BY task"
        twice = connection.execute(f"{counts} HAVING n > 1 ORDER BY task LIMIT 1").fetchall()
        if twice:
            task, one, other, _ = twice[0]
            raise TableError(
                f"{where}: a task must have one truth, and {str(task)!r} has {one!r} and {other!r}; mend "
                "its rows"
            )
        if not connection.execute(f"SELECT 1 FROM {truths} LIMIT 1").fetchall():
            raise TableError(f"{where}: no cell holds a truth; leave gold and gold_column out")
        ordered = f"(SELECT * FROM {truths} ORDER BY task)"
        write_whole(
            output,
            lambda aside: connection.execute(
                f"COPY {ordered} TO {literal(str(aside))} (FORMAT parquet)"
            ),
        )


def keep_standard_input(folder: Path, stream: BinaryIO) -> Path:
    """Write a stream to a file whose name ends as its first bytes say, and return the file.

    Examples
    --------
    >>> from io import BytesIO
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     keep_standard_input(Path(folder), BytesIO(b'{"worker": "ann"}')).name
    'standard input.jsonl'
    """
    start = stream.read(512)
    marked = encoding_by_mark(start)
    text = start if marked is None else start.decode(marked, "ignore").encode()
    suffix = next((end for mark, end in STARTS.items() if text.lstrip().startswith(mark)), "")
    path = folder / f"standard input{suffix}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return path


def refuse_unheeded(reading: Reading, files: Sequence[Path]) -> None:
    """Raise TableError if an option about how tables are written applies to none of the files."""
    for said, kind in (("sep", "CSV"), ("encoding", "CSV or JSON"), ("sheet", "a workbook")):
        if getattr(reading, said) is None or any(said in format_of(one).heeds for one in files):
            continue
        named = f"{files[0].name} is not" if len(files) == 1 else "no table here is"
        raise TableError(
            f"{said} (--{said}, or the key under [input]) must be for {kind}, and {named}; leave it out"
        )


def refuse_unmapped(reading: Reading, files: Sequence[str], said: Sequence[str]) -> None:
    """Raise TableError if none of a table's files has a column that the user names.

    `said` are the words of each on how it was read. A file may have the table's own names: not all.
    """
    for role, column in reading.columns:
        if role != column and not any(f"{column} as {role}" in words for words in said):
            where = files[0] if len(files) == 1 else f"{files[0]} or another file"
            raise TableError(
                f"{where} must have the column {column!r}, which is to be {role}; mend the name in --map or "
                "columns under [input], or leave it out"
            )


def is_plain(path: Path, reading: Reading) -> bool:
    """Return whether a file is Parquet or plain CSV, which are read where they lie."""
    try:
        return reading.keeps_columns and format_of(path).is_plain(path, reading)
    except (OSError, EOFError, zlib.error):  # the command that opens it reports it
        return True


def _delimited(
    connection: duckdb.DuckDBPyConnection, path: Path, reading: Reading, folder: Path
) -> Loaded:
    found = sniff(path, reading)
    file = path
    if found.encoding not in ("utf-8", "ascii"):
        file = utf8_copy(path, found.encoding, folder / "text.csv")
    typed = ", ".join(f"c{at}: 'VARCHAR'" for at in range(found.width))
    cells = ", ".join(
        f"{f'c{at}' if reading.names(name) else _number(found, at)} AS {quote(name)}"
        for at, name in found.columns
    )
    every = (
        f"read_csv({text_of_file(file)}, auto_detect=false, header=false, "
        f"store_rejects={str(reading.lenient).lower()}, "
        f"skip={found.skip}, delim={literal(found.sep)}, quote='\"', escape='\"', columns={{{typed}}})"
    )
    _refuse_nameless(connection, path, every, found.blank)
    rows = f"(SELECT {cells or 'c0'} FROM {every})"
    return Loaded([(name, "VARCHAR") for _, name in found.columns], rows, found.oddities())


def _refuse_nameless(
    connection: duckdb.DuckDBPyConnection, path: Path, rows: str, blank: Sequence[int]
) -> None:
    """Raise TableError for a cell under no name: only the beginning of the file was seen to have none."""
    if not blank:
        return
    cells = ", ".join(f"c{at}" for at in blank)
    found = connection.execute(  # one query, though thousands of columns have no name
        f"SELECT * FROM (SELECT row_number() OVER () AS row, {cells} FROM {rows}) "
        f"WHERE trim(concat({cells})) != '' LIMIT 1"
    ).fetchone()
    if found is not None:
        row, *texts = found
        at, text = next(
            (at, text) for at, text in zip(blank, texts, strict=True) if (text or "").strip()
        )
        raise TableError(
            f"{path.name}, row {row}: column {at + 1} has no name, and the cell {text!r} here; name the "
            "column, or mend the row"
        )


def _number(found: Dialect, at: int) -> str:
    """Return SQL of a cell, with a decimal point for a decimal comma where the file has those."""
    cell = f"c{at}"
    if not found.decimal:
        return cell
    point = f"replace(replace({cell}, '.', ''), ',', '.')"
    number = rf"{DECIMAL}|{THOUSANDS}\s*" if at in found.grouped else DECIMAL
    return f"CASE WHEN regexp_full_match({cell}, '{number}') THEN {point} ELSE {cell} END"


def _parquet(
    connection: duckdb.DuckDBPyConnection, path: Path, reading: Reading, folder: Path
) -> Loaded:
    from pyarrow.parquet import read_schema  # for this format only

    rows = f"read_parquet({text_of_file(path)}, {OF_FILE_ALONE})"
    found = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
    refuse_same_columns(path.name, read_schema(path).names)  # DuckDB gives the second another name
    return Loaded([(row[0], row[1]) for row in found], rows)


def _json(
    connection: duckdb.DuckDBPyConnection, path: Path, reading: Reading, folder: Path
) -> Loaded:
    """Load records, one a line or in an array; a value with parts is its JSON text."""
    with unzipped(path) as opened:
        marked = reading.encoding or encoding_by_mark(opened.read(4))
    file = path if marked is None else utf8_copy(path, marked, folder / "text.json")
    objects = f"read_json_objects({text_of_file(file)})"
    other = connection.execute(f"SELECT 1 FROM {objects} WHERE json_type(json) != 'OBJECT' LIMIT 1")
    if other.fetchall():
        raise TableError(
            f'{path.name} must hold records, as in {{"worker": "ann", ...}}, one a line or in one '
            "array; export it so"
        )
    keys = (
        "SELECT key FROM (SELECT unnest(keys) AS key, generate_subscripts(keys, 1) AS place, row FROM "
        f"(SELECT json_keys(json) AS keys, row_number() OVER () AS row FROM {objects})) "
        "GROUP BY key ORDER BY min(row * 100000 + place)"
    )
    names = [row[0] for row in connection.execute(keys).fetchall() if row[0]]
    refuse_same_columns(path.name, names)
    _refuse_columns(connection, path, objects, names)
    rows = f"({objects})"
    if names:
        rows = _json_rows(connection, text_of_file(file), names)
    return Loaded([(name, "VARCHAR") for name in names], rows)


def _json_rows(connection: duckdb.DuckDBPyConnection, file: str, names: Sequence[str]) -> str:
    """Return SQL of the records' values as texts, as `text_of_json` has them."""

    def read(kinds: Mapping[str, str]) -> str:
        typed = ", ".join(f"{quote(name)}: '{kinds[name]}'" for name in names)
        return f"read_json({file}, columns={{{typed}}}, {OF_FILE_ALONE})"

    pointed = ", ".join(f"bool_or(json_type({quote(name)}) = 'DOUBLE')" for name in names)
    of_records = connection.execute(f"SELECT {pointed} FROM {read(dict.fromkeys(names, 'JSON'))}")
    found = dict(zip(names, of_records.fetchall()[0], strict=True))
    if not any(found.values()):
        return read(dict.fromkeys(names, "VARCHAR"))
    cells = []
    for name in names:
        text = text_of_json(quote(name)) if found[name] else quote(name)
        cells.append(f"{text} AS {quote(name)}")
    kinds = {name: "JSON" if found[name] else "VARCHAR" for name in names}
    return f"(SELECT {', '.join(cells)} FROM {read(kinds)})"


def _refuse_columns(
    connection: duckdb.DuckDBPyConnection, path: Path, objects: str, names: Sequence[str]
) -> None:
    """Raise TableError if a worker or a task is an object, as where pandas writes a column a key."""
    for name in {"worker", "task"} & set(names):
        parts = f"SELECT 1 FROM {objects} WHERE json_type(json, '$.{name}') = 'OBJECT' LIMIT 1"
        if connection.execute(parts).fetchall():
            raise TableError(
                f'{path.name}: the key {name} must hold one value in each record, as in {{"{name}": "...", '
                '...}, and holds an object; export a record a row (pandas: orient="records")'
            )


def _workbook(
    connection: duckdb.DuckDBPyConnection, path: Path, reading: Reading, folder: Path
) -> Loaded:
    """Load a sheet: the one that is named, or the first with cells, hidden ones last."""
    import pyarrow as pa  # with the reader, for this format only

    names, sheet, every = _sheet_of(path, reading.sheet)
    filled = [at for at, row in enumerate(every) if any(_text(cell) for cell in row)]
    if not filled:
        raise TableError(
            f"{path.name}: its sheet {sheet!r} is empty; fill it, or name another of "
            f"{', '.join(map(repr, names))} in --sheet or sheet under [input]"
        )
    rows = [every[at] for at in filled]
    header = [_text(cell).strip() for cell in rows[0]]
    kept = [at for at, name in enumerate(header) if name or any(_text(row[at]) for row in rows[1:])]
    columns = {f"c{at}": pa.array([_text(row[at]) for row in rows[1:]], pa.string()) for at in kept}
    connection.register("sheet", pa.table(columns))
    cells = ", ".join(f"c{at} AS {quote(header[at])}" for at in kept)
    words = [f"{OF_SHEET} {sheet!r} of {len(names)}"] * (len(names) > 1)
    if (n_blank := filled[-1] + 1 - filled[0] - len(filled)) > 0:
        words.append(
            f"without {n_blank} blank row{'s' * (n_blank > 1)}, which no row number counts"
        )
    types = [(header[at], "VARCHAR") for at in kept]
    return Loaded(types, f"(SELECT {cells} FROM sheet)", " and ".join(words))


def _sheet_of(path: Path, asked: str | None) -> tuple[list[str], str, list[list[Any]]]:
    """Return the names of all sheets, the name of the one to read, and its rows."""
    try:
        # an extra, for this format only
        from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum
    except ImportError:
        raise TableError(
            f"{path.name} is a workbook, whose reader is not installed: pip install "
            "'crowdassay[excel]', or save the sheet as CSV"
        ) from None
    try:
        with CalamineWorkbook.from_path(str(path)) as book:
            names = list(book.sheet_names)
            if asked is not None and asked not in names:
                raise TableError(
                    f"{path.name} has no sheet {asked!r}; --sheet, or sheet under [input], must be one of "
                    f"{', '.join(map(repr, names))}, and holds for every workbook that is read"
                )
            seen = [one.visible == SheetVisibleEnum.Visible for one in book.sheets_metadata]
            in_turn = [names[at] for at in sorted(range(len(names)), key=lambda at: not seen[at])]
            for name in in_turn if asked is None else [asked]:
                rows = book.get_sheet_by_name(name).to_python()
                if rows:
                    break
    except CalamineError as error:
        raise TableError(
            f"{path.name} cannot be read as a workbook ({error}); save it again, or as CSV"
        ) from None
    return names, name, rows


def _text(cell: Any) -> str:
    """Return a cell of a workbook as text, a whole number without its point."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, date | datetime | time | timedelta):
        return str(cell)
    return "" if cell is None else str(cell)


def _is_plain_text(path: Path, reading: Reading) -> bool:
    if not path.is_file():
        return False
    found = sniff(path, reading)
    # a reader of the file in place detects its dialect again, without the user's options
    return found.is_plain and found == sniff(path, AS_FOUND)


def _is_plain_parquet(path: Path, reading: Reading) -> bool:
    """Return whether names of columns differ: readers of the file in place take the first of two."""
    import pyarrow as pa  # for this format only
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
    except pa.ArrowException:  # the command that opens it reports it
        return True
    return len({name.lower() for name in names}) == len(names)


CSV = Format(_delimited, _is_plain_text, ("sep", "encoding"))
JSON = Format(_json, lambda path, reading: False, ("encoding",))
WORKBOOK = Format(_workbook, lambda path, reading: False, ("sheet",))
FORMATS: Mapping[str, Format] = {  # by the end of a file's name; other names are read as CSV
    ".csv": CSV,
    ".csv.gz": CSV,
    ".tsv": CSV,
    ".tsv.gz": CSV,
    ".parquet": Format(_parquet, _is_plain_parquet),
    ".jsonl": JSON,
    ".jsonl.gz": JSON,
    ".ndjson": JSON,
    ".json": JSON,
    ".json.gz": JSON,
    ".xlsx": WORKBOOK,
    ".xls": WORKBOOK,
    ".ods": WORKBOOK,
}
SUFFIXES = tuple(FORMATS)

"""Plain tables whose columns are named worker, task and label, or mapped to them.

A column mapped to `question` says what each row answers.

They are in any format that tables are read in, JSON lines with records inside, or the rows that a database
returns for a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from flows.choices import LABEL_COLUMNS
from flows.importers.records import name_in, read_records
from flows.importers.responses import Response
from flows.importers.sheet import number_of_seconds, shown
from flows.tables import (
    AS_FOUND,
    DECIMALS,
    Reading,
    TableError,
    guess_roles,
    open_table,
    refuse_unheeded,
)

__all__ = ["read_jsonl", "read_query", "read_table"]

PLAIN = "a plain label table"


def read_table(
    path: Path, columns: Mapping[str, str], reading: Reading = AS_FOUND
) -> Iterator[Response]:
    """Yield the responses of a table, with seconds where a column has that name or mapping.

    Columns of the labels that are not mapped may have any of the names that `guess_roles` knows.
    """
    refuse_unheeded(reading, (path,))
    table = open_table(path, (), reading)
    guessed = guess_roles(table.names)
    named = {role: guessed.get(role, role) for role in LABEL_COLUMNS} | dict(columns)
    time = named.get("seconds", "seconds")
    missing = [name for name in named.values() if name not in table.names]
    if missing:
        raise TableError(
            f"{path.name} must have the columns {', '.join(named.values())} to be {PLAIN}; missing: "
            f"{', '.join(missing)} (it has {shown(table.names)}); check --format and --map"
        )
    asked = named.get("question")
    more = [*([time] if time in table.names else []), *([asked] if asked else [])]
    if DECIMALS in table.read_as:  # of seconds, and no comma in a name
        names = tuple(named[role] for role in LABEL_COLUMNS)
        table = open_table(path, (), replace(reading, apart=names))
    cells = table.cells(*(named[role] for role in LABEL_COLUMNS), *more)
    for row, (worker, task, label, *rest) in enumerate(cells, start=1):
        if label.startswith('{"choices":'):
            raise TableError(
                f"{path.name}, row {row}, column {named['label']}: must be a label, got JSON of several "
                "choices, as in Label Studio's CSV; export it as JSON, for --format label-studio"
            )
        where = f"{path.name}, row {row}, column {time}"
        seconds = number_of_seconds(rest[0], where) if time in table.names else None
        answers = {rest[-1].strip() if asked else named["label"]: label}
        yield Response(row, worker, task, answers, seconds, partly=asked is not None)


def read_query(path: Path, columns: Mapping[str, str], *, url_env: str) -> Iterator[Response]:
    """Yield the responses in the rows that a database returns for the query in a file."""
    from flows.tables import fetch  # SQLAlchemy, for a query only

    with TemporaryDirectory(prefix="crowdassay-") as folder:
        answer = Path(folder) / f"{path.name}.parquet"
        fetch(path, url_env, answer)
        yield from read_table(answer, columns)


def read_jsonl(path: Path, columns: Mapping[str, str]) -> Iterator[Response]:
    """Yield the responses of JSON lines, one flat record each."""
    named = {role: role for role in LABEL_COLUMNS} | dict(columns)
    time = named.get("seconds", "seconds")
    for row, record in read_records(path, tuple(named.values()), PLAIN):
        worker, task, text = (
            name_in(record, key, path.name, row) for key in (named["worker"], named["task"], time)
        )
        seconds = number_of_seconds(text, f"{path.name}, record {row}, key {time}")
        asked = None
        if "question" in named:
            asked = name_in(record, named["question"], path.name, row).strip()
        answers = {named["label"] if asked is None else asked: record[named["label"]]}
        yield Response(row, worker, task, answers, seconds, partly=asked is not None)

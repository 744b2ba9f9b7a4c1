"""Rows that a database returns for a query in a file, written to a Parquet file in batches.

The database's address is a secret. It is the value of an environment variable whose name the settings
hold. It is never written, printed or part of a message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from flows.settings import SettingsError
from flows.tables.refusals import TableError, text_of_float

__all__ = ["fetch", "is_ordered"]

BATCH = 50_000  # rows in memory at a time
HOW: dict[str, Any] = {"stream_results": True, "no_parameters": True, "postgresql_readonly": True}
READS = re.compile(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*(?:select|with|values|table)\b", re.S | re.I)
QUERY_ONLY = "PRAGMA query_only = ON"  # SQLite commits what a statement that begins with WITH does
CELLS = (bool, int, float, Decimal, date, datetime, time)


def fetch(query: Path, url_env: str | None, output: Path) -> None:
    """Write the rows that a query returns to a Parquet file, every cell as text.

    Parameters
    ----------
    query
        File with one statement that reads, in the database's own SQL.
    url_env
        Name of the environment variable that holds the address, as SQLAlchemy takes it, such as
        ``postgresql+psycopg://user:password@host/database`` or ``sqlite:////data/crowd.db``.
    output
        The file to write.

    Raises
    ------
    SettingsError
        If the variable is not set, or does not hold the address of a database whose driver is installed.
    TableError
        If the file cannot be read, the database refuses, or a cell is of a type without a text form.

    Notes
    -----
    **Guarantees.** Nothing is changed in the database: SQLite and PostgreSQL refuse to write, and the
    statement's transaction is never committed. At most a batch of rows is in memory. No message holds the
    address.
    """
    sql = _statement(query)
    try:
        engine = create_engine(_address(url_env), poolclass=NullPool, hide_parameters=True)
    except (ArgumentError, ImportError, SQLAlchemyError, ValueError):
        raise SettingsError(
            f"input.url_env: {url_env} must hold an address such as "
            "postgresql+psycopg://user:password@host/database, whose driver is installed "
            "(crowdassay[postgres] brings psycopg)"
        ) from None
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql(QUERY_ONLY)
            reading = connection.execution_options(**HOW)
            with closing(reading.exec_driver_sql(sql)) as rows:
                _write(query, list(rows.keys()), rows.partitions(BATCH), output)
    except SQLAlchemyError as error:
        raise TableError(f"{query.name}: {_report(error)}") from None


def is_ordered(query: Path) -> bool:
    """Return whether a query says in which order its rows come."""
    return re.search(r"\border\s+by\b", _statement(query), re.IGNORECASE) is not None


def _statement(query: Path) -> str:
    """Return the statement; raise TableError unless it reads."""
    try:
        sql = query.read_text(encoding="utf-8").strip().rstrip(";")
    except (OSError, UnicodeDecodeError):
        raise TableError(f"{query} must be a file of SQL; mend the path in the settings") from None
    if not READS.match(sql):
        raise TableError(f"{query.name} must hold one statement that begins with SELECT or WITH")
    return sql


def _address(url_env: str | None) -> str:
    address = os.environ.get(url_env or "")
    if not address:
        raise SettingsError(
            f"input.url_env: the environment variable {url_env} must hold the database's address, "
            "and is not set"
        )
    return address


def _write(query: Path, names: Sequence[str], batches: Any, output: Path) -> None:
    """Write batches of rows as text."""
    if len(set(names)) != len(names):
        raise TableError(f"{query.name}: column names must differ; rename one with AS")
    schema = pa.schema([(name, pa.string()) for name in names])
    row = 0
    with pq.ParquetWriter(output, schema) as writer:
        for batch in batches:
            columns = [
                [_cell(query, name, row + number, value) for number, value in enumerate(cells, 1)]
                for name, cells in zip(names, zip(*batch, strict=True), strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            row += len(batch)


def _cell(query: Path, name: str, row: int, value: Any) -> str | None:
    """Return a cell as text, as Parquet's is read: 7.0 is 7, true a small word; null and NaN are null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal) and value != value:
        return None
    if isinstance(value, float):
        return text_of_float(value)
    if isinstance(value, CELLS):
        return str(value)
    raise TableError(
        f"{query.name}, row {row}, column {name}: a {type(value).__name__} must be cast to text in "
        "the query"
    )


def _report(error: SQLAlchemyError) -> str:
    """Return the database's message in one line; drivers name host and user, never the password."""
    origin = getattr(error, "orig", None) or error
    line = next((line for line in str(origin).splitlines() if line.strip()), type(origin).__name__)
    return f"the database refuses: {line.strip()}"

"""Tables at an address, fetched by DuckDB's own extensions where they are installed.

    fetch_address(Path("s3://crowd/labels/*.parquet"), Path("labels.parquet"))

Nothing is installed from the network: an extension that is missing is named, with the command that
installs it. Keys are DuckDB's secrets, or for S3 the usual environment variables; no message holds them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb

from flows.settings import LAKES, SCHEMES, address_of
from flows.tables.file_formats import connected
from flows.tables.refusals import OF_FILE_ALONE, TableError, literal, quote, text_of_json

__all__ = ["fetch_address"]

TEXT = "all_varchar=true, header=true, quote='\"', escape='\"'"
RECORDS = "maximum_depth=1, sample_size=-1"  # values of JSON, of which DuckDB makes no dates and no numbers
READERS = {  # by the end of the address; cells are text, as of files
    ".parquet": f"read_parquet({{0}}, {OF_FILE_ALONE})",
    ".csv": f"read_csv({{0}}, {TEXT}, {OF_FILE_ALONE})",
    ".csv.gz": f"read_csv({{0}}, {TEXT}, {OF_FILE_ALONE})",
    ".tsv": f"read_csv({{0}}, {TEXT}, delim='\t', {OF_FILE_ALONE})",
    ".jsonl": f"read_json({{0}}, {RECORDS}, {OF_FILE_ALONE})",
    ".ndjson": f"read_json({{0}}, {RECORDS}, {OF_FILE_ALONE})",
    ".json": f"read_json({{0}}, {RECORDS}, {OF_FILE_ALONE})",
}
LAKE_READERS = {"delta": "delta_scan({0})", "iceberg": "iceberg_scan({0})"}
KEYS = {  # of S3, by the environment variable that other tools read
    "KEY_ID": "AWS_ACCESS_KEY_ID",
    "SECRET": "AWS_SECRET_ACCESS_KEY",
    "SESSION_TOKEN": "AWS_SESSION_TOKEN",
    "REGION": "AWS_REGION",
    "ENDPOINT": "AWS_ENDPOINT",
}


def fetch_address(path: Path, output: Path) -> None:
    """Write the table at an address to a Parquet file, with the types that it has there; JSON as text.

    Parameters
    ----------
    path
        An address such as ``s3://crowd/labels.parquet``, with ``*`` where DuckDB takes it, or of a whole
        table, ``delta+s3://crowd/labels``, ``iceberg+s3://crowd/labels``.
    output
        The file to write.

    Raises
    ------
    TableError
        If an extension is missing, the format is unknown, or the table cannot be read.

    Notes
    -----
    **Guarantees.** No extension is installed. No message holds a key, and none of DuckDB's messages is
    passed on, which may quote what a server answered.
    """
    address = address_of(path)
    lake, _, plain = (
        address.rpartition("+") if address.split("+")[0] in LAKES else ("", "", address)
    )
    reader = _reader(address, lake, plain)
    with connected() as connection:
        connection.execute("SET autoinstall_known_extensions = false")
        for extension in (LAKES.get(lake), SCHEMES[plain.partition(":")[0]]):
            if extension is not None:
                _load(connection, extension, address)
        try:
            _give_keys(connection, plain)
            rows = _cells(connection, reader.format(literal(plain)))
            connection.execute(f"COPY ({rows}) TO {literal(str(output))} (FORMAT parquet)")
        except duckdb.Error as error:
            raise TableError(f"{address} cannot be read: {_reason(error)}") from None


def _cells(connection: duckdb.DuckDBPyConnection, rows: str) -> str:
    """Return SQL of a table's cells; values of records are texts, as those of a file of them."""
    if RECORDS not in rows:
        return f"SELECT * FROM {rows}"
    found = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
    texts = [f"{text_of_json(quote(name))} AS {quote(name)}" for name, *_ in found]
    return f"SELECT {', '.join(texts)} FROM {rows}"


def _reader(address: str, lake: str, plain: str) -> str:
    """Return the function of DuckDB that reads an address; TableError for an unknown format."""
    if lake:
        return LAKE_READERS[lake]
    found = next((reader for end, reader in READERS.items() if plain.lower().endswith(end)), None)
    if found is None:
        raise TableError(
            f"{address} must end in {', '.join(READERS)}, or be named as a whole table, "
            f"delta+{plain} or iceberg+{plain}"
        )
    return found


def _load(connection: duckdb.DuckDBPyConnection, extension: str, address: str) -> None:
    """Load an extension that is installed; TableError says how to install one that is not."""
    try:
        connection.execute(f"LOAD {extension}")
    except duckdb.Error:
        raise TableError(
            f"{address} needs DuckDB's extension {extension}, which is not installed here and is not "
            f"fetched unasked: python -c \"import duckdb; duckdb.sql('INSTALL {extension}')\", or "
            "fetch the table and name the file"
        ) from None


def _give_keys(connection: duckdb.DuckDBPyConnection, plain: str) -> None:
    """Let this connection use the keys of the environment; DuckDB's own secrets need nothing."""
    given = {key: os.environ[name] for key, name in KEYS.items() if os.environ.get(name)}
    if plain.startswith("s3:") and {"KEY_ID", "SECRET"} <= set(given):
        values = ", ".join(f"{key} {literal(value)}" for key, value in given.items())
        connection.execute(f"CREATE SECRET (TYPE s3, {values})")


def _reason(error: duckdb.Error) -> str:
    """Return the kind of fault as a phrase."""
    status = re.search(r"\b(401|403|404)\b", str(error))
    if status is not None and status[1] != "404":
        return f"access is denied ({status[1]}); give DuckDB a secret for it"
    if status is not None or re.search(
        r"No files found|not found|No such|does not exist", str(error), re.IGNORECASE
    ):
        return "there is no such table; mend the address"
    return f"{type(error).__name__}; look whether DuckDB can read it, or fetch it and name the file"

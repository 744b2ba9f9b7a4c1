"""Addresses of tables that are not on this machine, where a path is asked for.

>>> address_of(Path("s3://crowd/labels.parquet"))
's3://crowd/labels.parquet'
>>> is_remote(Path("labels.csv")), is_remote(Path("delta+gs://crowd/labels"))
(False, True)

A path keeps one slash of the two that an address has; `address_of` gives it back.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["LAKES", "SCHEMES", "address_of", "check_address", "is_remote"]

SCHEMES = {  # DuckDB's extension that reads it; none is built in
    "s3": "httpfs",
    "gs": "httpfs",
    "gcs": "httpfs",
    "r2": "httpfs",
    "hf": "httpfs",
    "http": "httpfs",
    "https": "httpfs",
    "az": "azure",
    "abfss": "azure",
    "file": None,
}
LAKES = {"delta": "delta", "iceberg": "iceberg"}  # formats of whole folders, and their extensions
ADDRESS = re.compile(rf"(?:({'|'.join(LAKES)})\+)?({'|'.join(SCHEMES)}):/+(.*)", re.DOTALL)


def is_remote(path: Path) -> bool:
    """Return whether a path is an address."""
    return ADDRESS.fullmatch(str(path)) is not None


def address_of(path: Path) -> str:
    """Return the address that a path holds, with both its slashes; of a file: address all three."""
    found = ADDRESS.fullmatch(str(path))
    if found is None:
        raise ValueError(f"the path must be an address, got {path}")
    lake, scheme, rest = found.groups()
    slashes = ":///" if scheme == "file" else "://"
    return f"{lake}+{scheme}{slashes}{rest}" if lake else f"{scheme}{slashes}{rest}"


def check_address(path: Path) -> None:
    """Raise ValueError for an address that holds a password, a key or a signature.

    Settings are copied into every run's manifest. The message does not show the address.
    """
    if is_remote(path) and re.search(r"[?#]|^[^/]*@", address_of(path).partition("://")[2]):
        raise ValueError(
            "an address must hold no user, password, key or signature, because settings are copied into "
            "every run: leave out what stands before @ and after ?, and keep keys where DuckDB finds them "
            "(CREATE PERSISTENT SECRET, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        )

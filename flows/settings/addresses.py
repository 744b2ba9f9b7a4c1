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

__all__ = [
    "LAKES",
    "NO_HOME",
    "SCHEMES",
    "address_of",
    "check_address",
    "check_folder",
    "is_remote",
]

NO_HOME = "must be a path without ~, which stands for no folder here; write it out"

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


def check_folder(path: Path, what: str) -> None:
    """Raise ValueError for a path that is meant for another place, where a folder would be made all the same.

    Examples
    --------
    >>> check_folder(Path("~/state"), "state")
    Traceback (most recent call last):
    ValueError: state must be a path without ~, which stands for no folder here; write it out
    """
    if path.parts[:1] == ("~",):
        raise ValueError(f"{what} {NO_HOME}")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", str(path)):  # not shown: it may hold a password
        raise ValueError(
            f"{what} must be a folder that has a path on this machine, not an address; a ledger on a server "
            "is named by the environment variable CROWDASSAY_LEDGER"
        )

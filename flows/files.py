"""Write files whole or not at all, and tell files apart by their bytes."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["file_digest", "sync_folder", "write_whole"]


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file aside, sync it and rename it into place."""
    aside = path.with_name(f".{path.name}.tmp")
    write(aside)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Files: written whole or not at all, identified by their bytes, and opened as text, gzipped or not."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import numpy as np

__all__ = ["file_digest", "open_text", "sync_folder", "write_arrays", "write_whole"]


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary path beside `path`, sync the file and rename it into place.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "note.txt"
    ...     write_whole(path, lambda aside: aside.write_text("whole"))
    ...     path.read_text(), len(list(Path(folder).iterdir()))
    ('whole', 1)
    """
    aside = path.with_name(f".{path.name}.tmp")
    write(aside)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], *, compressed: bool = False, mode: int = 0o666
) -> None:
    """Write arrays with their names as one `.npz` file without pickles, whole or not at all."""
    import numpy as np  # a command that writes no array does not wait for it

    save = np.savez_compressed if compressed else np.savez

    def write(aside: Path) -> None:
        with open(aside, "wb", opener=partial(os.open, mode=mode)) as file:
            save(file, allow_pickle=False, **arrays)

    write_whole(path, write)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_text(path: Path) -> TextIO:
    """Open a file of UTF-8 text, plain or gzipped (``*.gz``), without its byte order mark."""
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk, so that a renamed file stays renamed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

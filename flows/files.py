"""Write files whole or not at all, and tell files apart by their bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["file_digest", "sync_folder", "write_arrays", "write_whole"]


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file aside, sync it and rename it into place."""
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
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

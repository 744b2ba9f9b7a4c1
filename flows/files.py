"""Files: written whole or not at all, identified by their bytes, and opened as text, gzipped or not."""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "KEY", "file_digest", "open_text", "state_key", "sync_folder", "write_arrays", "write_whole",
]  # fmt: skip


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


def file_digest(path: Path, key: bytes) -> str:
    """Return a keyed digest (BLAKE2b) of a file's bytes, in hexadecimal.

    A bare digest of a private file can be compared with those of all files that it could be.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, partial(hashlib.blake2b, key=key, digest_size=32)
        ).hexdigest()


KEY = "fingerprint.key"
KEY_BYTES = 32


def state_key(folder: Path) -> bytes:
    """Return the key of a state folder, which never leaves it; folder and key are made where missing.

    Raises
    ------
    LedgerError
        If the folder cannot be written, or its key is damaged.
    """
    path = folder / KEY
    try:
        if not path.is_file():
            _make_key(path)
        key = path.read_bytes()
    except OSError as error:
        raise _ledger_error(
            f"the state folder {folder} must be writable, got {error.strerror}; nothing was spent"
        ) from None
    if len(key) != KEY_BYTES:
        raise _ledger_error(f"{path} must hold {KEY_BYTES} bytes; restore it from a backup")
    return key


def _make_key(path: Path) -> None:
    """Write a key where there is none, durably, whole or not at all."""
    from privacy.ledger import new_file  # the ledger, where a campaign is new

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError), new_file(path) as draft:
        draft.write_bytes(secrets.token_bytes(KEY_BYTES))


def _ledger_error(message: str) -> Exception:
    from privacy import LedgerError  # the ledger, for a fault only

    return LedgerError(message)


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

"""Files: written whole or not at all, never over an input, identified by their bytes, opened as text."""

from __future__ import annotations

import codecs
import errno
import gzip
import hashlib
import mmap
import os
import secrets
import shutil
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, TextIO
from weakref import WeakSet

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "FULL", "KEY", "LEDGER", "OutputError", "OutputFile", "encoding_by_mark", "file_digest", "forget_pages",
    "map_texts", "name_advice", "open_text", "output_folder", "state_key", "sync_folder", "text_parts",
    "write_arrays", "write_whole",
]  # fmt: skip

MARKS = {  # the longer first: one of UTF-32 begins as one of UTF-16 does
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # the last where `ulimit -f` bounds a file
HEADER = 30 + 20  # bytes of an archive's entry before its array, besides its name and the padding
PADDING, ALIGNED = 0xD935, 64  # the field's public number; bytes
MAPPED = WeakSet[mmap.mmap]()  # files whose texts are still in use
TEXTS_AT_ONCE = 2**20  # texts that are Python objects at a time
NO_HARD_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}


class OutputError(ValueError):
    """The file that a user named for a result exists, is an input, or cannot be written."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that a user named for a result, checked before the work that fills it.

    Parameters
    ----------
    path
        The file. Its folder must exist. A device or a pipe is written to as it is.
    inputs
        Files and folders that are read for the result.
    force
        Whether another file at `path` may be overwritten.

    Raises
    ------
    OutputError
        If `path` is one of the inputs or in a folder of them, is a folder or ``-``, or exists without
        `force`.

    Notes
    -----
    **Guarantees.** (1) An input is never overwritten, by whatever name it is reached: a symbolic or a
    hard link, a path with ``..``, other letters' case where the file system ignores it. (2) Without
    `force` nothing is overwritten, also not a file that appears while the result is made. (3) However
    the process ends, `path` has its former content or the whole new one.

    Examples
    --------
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "note.txt"
    ...     OutputFile(path).write(lambda aside: aside.write_text("whole"))
    ...     OutputFile(path, inputs=(path,), force=True)
    Traceback (most recent call last):
    flows.files.OutputError: note.txt is an input of this command; name another output
    """

    path: Path
    inputs: tuple[Path, ...] = ()
    force: bool = False

    def __post_init__(self) -> None:
        try:
            self._check()
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, write: Callable[[Path], object]) -> None:
        """Call `write` on a temporary path beside the file, and put what it wrote in the file's place.

        Raises
        ------
        OutputError
            If a file has appeared there meanwhile, or it cannot be written.
        """
        OutputFile(self.path, self.inputs, self.force)  # as it is by now
        target = Path(os.path.realpath(self.path))  # a link stays one
        try:
            if self.is_stream():
                with suppress(BrokenPipeError):  # its reader has had enough
                    write(self.path)
                return
            with TemporaryDirectory(dir=target.parent, prefix=".crowdassay-") as folder:
                aside = Path(folder, target.name)
                write(aside)
                with aside.open("rb") as file:
                    os.fsync(file.fileno())
                self._place(aside, target)
            sync_folder(target.parent)
        except FileExistsError:
            raise self._exists() from None
        except OSError as error:
            raise self._unwritable(error) from None

    def _check(self) -> None:
        for given in self.inputs:
            self._refuse_input(given)
        if str(self.path) == "-":  # elsewhere this is a stream, and nobody means a file so called
            raise OutputError("the output must be a file, got -; name it, or /dev/stdout")
        if self.path.is_dir():
            raise OutputError(f"{self.path} is a folder; name a file for the output")
        if not self.path.parent.exists():
            raise OutputError(
                f"{self.path.parent} must be a folder, and is not there; make it first"
            )
        os.stat(os.path.join(self.path.parent, ""))  # is a folder
        if os.path.lexists(self.path) and not self.force and not self.is_stream():
            raise self._exists()

    def is_stream(self) -> bool:
        """Return whether the path is a device or a pipe, which holds nothing to lose."""
        return self.path.exists() and not self.path.is_file()

    def _place(self, aside: Path, target: Path) -> None:
        """Rename the file; without `force`, in a way that never replaces another."""
        if self.force:
            if target.exists():
                shutil.copymode(target, aside)
            aside.replace(target)
            return
        try:
            os.link(aside, target)
        except OSError as error:
            if error.errno not in NO_HARD_LINKS or target.exists():
                raise
            aside.replace(target)

    def _refuse_input(self, given: Path) -> None:
        if given.is_dir() and self.path.parent.is_dir() and given.samefile(self.path.parent):
            raise OutputError(
                f"{self.path} is in {given}, which this command reads; name another output"
            )
        if given.exists() and self.path.exists() and given.samefile(self.path):
            raise OutputError(f"{self.path.name} is an input of this command; name another output")

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(f"{self.path} cannot be written: {error.strerror or error}")

    def _exists(self) -> OutputError:
        return OutputError(f"{self.path} exists; --force overwrites it, or name another output")


def output_folder(path: Path) -> Path:
    """Return the folder that a user named for results; one that is not there is made.

    Raises
    ------
    OutputError
        If it cannot be made, such as where a file has its name, or nothing can be written to it.

    Examples
    --------
    >>> with TemporaryDirectory() as folder:
    ...     output_folder(Path(folder) / "new").is_dir()
    True
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):  # only a trial shows what a mount or an account allows
            pass
    except OSError as error:
        raise OutputError(f"{path} cannot be a folder for results: {error.strerror}") from None
    return path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary path beside `path`, sync the file and rename it into place.

    Raises
    ------
    OutputError
        If the disk is full; what was there is left, and nothing beside it.

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
    try:
        write(aside)
        with aside.open("rb") as file:
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in FULL:
            raise
        aside.unlink(missing_ok=True)
        raise OutputError(
            f"{path} cannot be written: {os.strerror(error.errno or 0)}; make room there, and run again"
        ) from None
    aside.replace(path)
    sync_folder(path.parent)


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], *, compressed: bool = False, mode: int = 0o666
) -> None:
    """Write arrays with their names as one `.npz` file without pickles, whole or not at all.

    One that is not compressed begins at a multiple of `ALIGNED` bytes, so that it can be mapped.
    """
    import zipfile  # a command that writes no array waits for neither

    import numpy as np

    how = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED

    def write(aside: Path) -> None:
        with (
            open(aside, "wb", opener=partial(os.open, mode=mode)) as file,
            # the lowest level: NumPy's own takes three times as long, for a tenth of the size
            zipfile.ZipFile(file, "w", how, compresslevel=1) as archive,
        ):
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy")
                entry.extra = _padding(file.tell() + HEADER + len(entry.filename.encode()))
                named = entry.filename if compressed else entry
                with archive.open(named, "w", force_zip64=True) as part:
                    np.lib.format.write_array(part, np.asanyarray(array), allow_pickle=False)

    write_whole(path, write)


def _padding(end: int) -> bytes:
    """Return the extra field of a zip header that moves its end to an aligned place."""
    size = -(end + 4) % ALIGNED
    return struct.pack("<HH", PADDING, size) + bytes(size)


def map_texts(path: Path) -> dict[str, np.ndarray]:
    """Map the texts among the arrays of a file of `write_arrays` without reading them.

    A page of the file comes into memory when it is read. The arrays are read-only. A compressed file gives
    none.

    Examples
    --------
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "arrays.npz"
    ...     write_arrays(path, {"name": np.array(["ann", "bob"]), "age": np.array([31, 45])})
    ...     map_texts(path)
    {'name': array(['ann', 'bob'], dtype='<U3')}
    """
    import zipfile  # a command that maps no array waits for neither

    import numpy as np

    found = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        MAPPED.add(whole)
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                continue
            file.seek(entry.header_offset + 26)  # the sizes of the name and of the extra fields
            file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if dtype.kind == "U" and len(shape) == 1 and shape[0] > 0:  # nothing cannot be mapped
                name = entry.filename.removesuffix(".npy")
                found[name] = np.frombuffer(whole, dtype, shape[0], offset=file.tell())
    return found


def forget_pages() -> None:
    """Give the pages of mapped texts back to the system, which reads them anew when they are looked at.

    Names of a hundred million labels are gigabytes, and count as this process's memory until it is scarce.
    """
    if hasattr(mmap, "MADV_DONTNEED"):  # not on every system
        for mapped in tuple(MAPPED):
            mapped.madvise(mmap.MADV_DONTNEED)


def text_parts(texts: np.ndarray) -> Iterator[list[str]]:
    """Yield texts in their order, a million at a time, and give pages of mapped ones back after each part.

    Python objects of all names of a hundred million labels would be gigabytes.

    Examples
    --------
    >>> import numpy as np
    >>> list(text_parts(np.array(["ann", "bob"])))
    [['ann', 'bob']]
    """
    for at in range(0, len(texts), TEXTS_AT_ONCE):
        yield list(map(str, texts[at : at + TEXTS_AT_ONCE].tolist()))
        forget_pages()


def file_digest(path: Path, key: bytes) -> str:
    """Return a keyed digest (BLAKE2b) of a file's bytes, in hexadecimal.

    A bare digest of a private file can be compared with those of all files that it could be.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, partial(hashlib.blake2b, key=key, digest_size=32)
        ).hexdigest()


KEY, LEDGER = "fingerprint.key", "ledger.sqlite"  # of a state folder
KEY_BYTES = 32


def state_key(folder: Path) -> bytes:
    """Return the key of a state folder, which never leaves it; folder and key are made where missing.

    Raises
    ------
    LedgerError
        If the folder cannot be written, its key is damaged, or it holds a ledger and lacks the key.
    """
    path = folder / KEY
    try:
        has_ledger = (folder / LEDGER).exists()  # looked at first: a ledger is made after its key
        if not path.is_file():
            if has_ledger:
                raise _ledger_error(
                    f"{folder} must hold the {KEY} that its {LEDGER} was made with, and lacks it; restore it "
                    "from a backup; nothing was spent"
                )
            _make_key(path)
        key = path.read_bytes()
    except OSError as error:
        if isinstance(error, PermissionError) and error.filename == str(path):
            raise _ledger_error(
                f"{path} must be readable by the user who runs this; give it back to "
                "that user (chown, chmod 600); nothing was spent"
            ) from None
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
    """Open a text file, plain or gzipped (``*.gz``), without its mark: UTF-8, or what the mark says."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        encoding = encoding_by_mark(file.read(4)) or "utf-8"
    return opener(path, "rt", encoding=encoding, newline="")


def encoding_by_mark(start: bytes) -> str | None:
    r"""Return the encoding that the byte order mark at the beginning of a file names, None without one.

    Examples
    --------
    >>> encoding_by_mark("\ufeffname".encode("utf-8")), encoding_by_mark(b"name")
    ('utf-8-sig', None)
    """
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), None)


def name_advice(rename: str) -> str:
    """Return what to do where a path is no UTF-8 text: rename it, unless this process reads all names so.

    Examples
    --------
    >>> name_advice("rename it")
    'rename it'
    """
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return rename
    return f"this process reads names as {encoding}: set PYTHONUTF8=1, or LC_ALL=C.UTF-8"


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk, so that a renamed file stays renamed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

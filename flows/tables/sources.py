"""Tables that the settings name: a file, a folder of files, a file pattern, or a query in a file `*.sql`.

Files that arrive day by day are one table, in the order of their names. Several files, a file that is
neither plain CSV nor Parquet, and the rows of a query are first written to one Parquet file in the run's
folder, so that all tables are read in the same way. A fault is reported with the file that it came from.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.choices import LABEL_COLUMNS
from flows.files import file_digest, write_whole
from flows.settings import InputSettings, address_of, is_remote, named_columns
from flows.tables.dialect import AS_FOUND, Reading
from flows.tables.file_formats import (
    SUFFIXES,
    is_plain,
    refuse_unheeded,
    refuse_unmapped,
    write_renamed,
    write_truths,
)
from flows.tables.refusals import TableError
from flows.tables.text_table import Part, open_table, refuse_missing, refusing, write_texts

__all__ = [
    "Source", "Sources", "fetch_rows", "find_files", "input_files", "input_paths", "is_fetched",
    "open_source", "open_sources", "opened_alone", "reading_of",
]  # fmt: skip

BATCH = 100_000  # rows in memory at a time
ROLES = ("labels", "tasks", "gold", "reference", "embeddings")


def input_paths(inputs: InputSettings) -> Iterator[tuple[str, Path]]:
    """Yield every path of the settings with its role: labels, gold, reference, tasks.

    Tasks come last, so that labels which arrive while a database is read are of tasks that it returns.
    """
    yield "labels", inputs.labels
    if inputs.gold is not None:
        yield "gold", inputs.gold
    if inputs.reference is not None:
        yield "reference", inputs.reference
    yield from (("tasks", path) for path in inputs.tasks)


def input_files(inputs: InputSettings) -> list[tuple[str, Path]]:
    """Return every file that is read, with its role."""
    files = [(role, file) for role, path in input_paths(inputs) for file in find_files(path)]
    return files + ([] if inputs.embeddings is None else [("embeddings", inputs.embeddings)])


def is_fetched(path: Path) -> bool:
    """Return whether a table's rows come from elsewhere: for a query in a file of SQL, or an address."""
    return is_remote(path) or path.suffix.lower() == ".sql"


def fetch_rows(path: Path, url_env: str | None, output: Path) -> None:
    """Write the rows of a query or of an address to a Parquet file."""
    from flows.tables.fetching import fetch, fetch_address  # their clients, for such a table only

    if is_remote(path):
        fetch_address(path, output)
    else:
        fetch(path, url_env, output)


def find_files(path: Path) -> tuple[Path, ...]:
    """Return the files that a path of the settings means, sorted by name; a missing file as it is.

    Parameters
    ----------
    path
        A file, a folder, or a pattern with ``*``, ``?`` or ``[...]`` as the shell has them, and ``**``.

    Raises
    ------
    TableError
        If a folder or a pattern has no table, or a folder holds another file beside its tables. Names
        that begin with a dot or an underscore are ignored: files that are still being copied have such
        names.

    Examples
    --------
    >>> find_files(Path("labels.csv"))
    (PosixPath('labels.csv'),)
    """
    if is_remote(path):
        return (path,)
    if path.is_dir():
        return _tables_in(path)
    folder = next((one for one in path.parents if one.is_dir()), Path())
    pattern = str(path.relative_to(folder))
    if path.exists() or not glob.has_magic(pattern):
        return (path,)
    # a folder that is there has its own name, which may look like a pattern
    names = glob.glob(str(Path(glob.escape(str(folder)), pattern)), recursive=True)
    found = sorted(map(Path, names))
    files = tuple(one for one in found if one.is_file() and not _ignored(one))
    if not files:
        raise TableError(f"{path} matches no file; mend the pattern")
    for one in files:
        _check_is_table(one)
    return files


def _tables_in(folder: Path) -> tuple[Path, ...]:
    """Return the tables of a folder; another file in it is probably a mistake and raises TableError."""
    files = tuple(one for one in sorted(folder.iterdir()) if not _ignored(one))
    if not files:
        raise TableError(f"{folder} holds no table; mend the path, or wait for one")
    for one in files:
        _check_is_table(one)
    return files


def _check_is_table(path: Path) -> None:
    if not (path.is_file() and path.name.lower().endswith(SUFFIXES)):
        raise TableError(
            f"{path} must be a table ({', '.join(SUFFIXES)}); move it away, or name a pattern such "
            f'as "{path.parent / "*.csv"}"'
        )


def _ignored(path: Path) -> bool:
    return path.name.startswith((".", "_"))


@dataclass(frozen=True, slots=True)
class Source:
    """One table to read, and the files that it was made of with their numbers of rows."""

    table: Path
    name: str
    parts: tuple[tuple[str, int], ...] = ()
    read_as: str = ""  # what of the files is not plain, in words
    torn: tuple[
        tuple[str, str], ...
    ] = ()  # lines kept aside of several files, each with where it is
    said: tuple[str, ...] = ()  # of each file that is not plain, how it was read, in words

    @contextmanager
    def naming_files(self) -> Iterator[None]:
        """Raise a TableError of the block again, with the file and row that the fault came from."""
        try:
            yield
        except TableError as error:
            raise TableError(self._placed(str(error))) from None

    def _placed(self, message: str) -> str:
        """Return a message about rows of the table as one about rows of its files."""
        found = re.match(rf"{re.escape(self.table.name)}, rows? (\d+(?:, \d+)*)", message)
        if not self.parts or found is None:
            # not where it is the end of another file's name
            alone = rf"(?<![\w.-]){re.escape(self.table.name)}"
            return re.sub(alone, lambda _: self.name, message)
        places = ", ".join(self.place(int(row)) for row in found[1].split(", "))
        return places + message[found.end() :]

    def place(self, row: int) -> str:
        """Return the file and row that a row comes from, of a table made of several files."""
        ends = np.cumsum([size for _, size in self.parts])
        which = int(np.searchsorted(ends, row))
        name, size = self.parts[which]
        return f"{name}, row {row - (int(ends[which]) - size)}"


def open_source(
    role: str,
    path: Path,
    *,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    folder: Path,
    url_env: str | None,
    files: Sequence[Path],
    reading: Reading = AS_FOUND,
    mapped: bool = False,
) -> Source:
    """Return one table to read: the file itself, or a table made in `folder` of several files or of a query.

    Parameters
    ----------
    role
        Role of the table, such as ``"labels"``; the file made is named after it.
    path
        As in the settings.
    columns
        Columns that are taken from several files; their other columns may differ.
    optional
        Columns that are taken as well if some of several files have them; blank in the others.
    folder
        Folder in which a table is made, whole or not at all.
    url_env
        Name of the environment variable with the address of the database that queries go to.
    files
        The files that `find_files` found for `path`.
    reading
        What the settings say of how the files are written.
    mapped
        Whether one of the files must have each column that `reading` names, as where no other table is read.

    Raises
    ------
    TableError
        If a file cannot be read or lacks a column, or the database refuses.
    """
    table, parts = folder / f"{role}.parquet", list[Part]()
    needed = tuple(columns or ("task",))
    if is_fetched(path):
        write_whole(table, lambda aside: fetch_rows(path, url_env, aside))
        fetched = Source(table, path.name)
        if reading.keeps_columns:
            return fetched
        with fetched.naming_files():
            said = [_write_plain(table, needed, table, reading, mapped=mapped)]
        return replace(fetched, read_as=_read_as([path.name], said), said=tuple(said))
    if len(files) == 1:
        (file,) = files
        if not file.is_file() or is_plain(file, reading):
            return Source(file, file.name)
        said = [_write_plain(file, needed, table, reading, mapped=mapped)]
        return Source(table, path.name, read_as=_read_as([file.name], said), said=tuple(said))
    write_whole(table, lambda aside: parts.extend(_join(files, columns, optional, aside, reading)))
    common = os.path.commonpath([one.parent for one in files])
    names = [Path(os.path.relpath(one, common)).as_posix() for one in files]
    sizes = tuple((name, part.n_rows) for name, part in zip(names, parts, strict=True))
    torn = tuple(
        (f"{name}, {where}", text)
        for name, part in zip(names, parts, strict=True)
        for where, text in part.torn
    )
    said = [part.read_as for part in parts]
    if mapped:
        refuse_unmapped(reading, names, said)
    return Source(table, path.name, sizes, _read_as(names, said), torn, tuple(said))


@contextmanager
def opened_alone(
    path: Path, needed: tuple[str, ...], folder: Path, reading: Reading = AS_FOUND
) -> Iterator[Source]:
    """Yield the one table that a command reads, made in `folder` unless it is a file read where it lies.

    Several files have the columns of the first. A fault names the file that it came from.
    """
    files = find_files(path)
    refuse_unheeded(reading, files)
    columns = needed
    if len(files) > 1:
        first = open_table(files[0], needed, reading)
        with first.connection:
            columns = first.names
    stem = path.name.partition(".")[0]
    source = open_source(
        "table" if glob.has_magic(stem) or not stem else stem,
        path, columns=columns, folder=folder, url_env=None, files=files, reading=reading, mapped=True,
    )  # fmt: skip
    with source.naming_files():
        yield source


def _read_as(names: Sequence[str], said: Sequence[str]) -> str:
    """Return which files are not plain and how they were read, as a clause; empty if all are."""
    odd = [(name, words) for name, words in zip(names, said, strict=True) if words]
    more = f" (and {len(odd) - 1:,} more files likewise)" if len(odd) > 1 else ""
    return f"{odd[0][0]} was read {odd[0][1]}{more}" if odd else ""


def _join(
    files: Sequence[Path],
    columns: Sequence[str],
    optional: Sequence[str],
    path: Path,
    reading: Reading,
) -> Iterator[Part]:
    """Write the rows of several files into one, every cell as its text; yield what each file had.

    Optional columns that no file has are left out.
    """
    every, held = (*columns, *optional), set[str]()
    with TemporaryDirectory(prefix=".parts-", dir=path.parent) as folder:
        aside = [Path(folder) / f"{at}.parquet" for at in range(len(files))]
        for part in write_texts(files, tuple(columns), every, aside, reading):
            held.update(part.names)
            yield part
        schema = pa.schema([(name, pa.string()) for name in every if name in held])
        with pq.ParquetWriter(path, schema) as writer:
            for one in aside:
                for batch in pq.ParquetFile(one).iter_batches(BATCH, columns=schema.names):
                    writer.write_batch(batch.cast(schema))
                one.unlink()


def _write_plain(
    file: Path, needed: tuple[str, ...], path: Path, reading: Reading, *, mapped: bool
) -> str:
    """Write one table under its own names, of Parquet in its types; return how it was read, in words."""
    if file.suffix.lower() == ".parquet" and not reading.wide:
        with refusing(file):
            said = write_renamed(file, reading, path)
    else:
        parts = list[Part]()
        one = (file,)
        write_whole(
            path, lambda aside: parts.extend(write_texts(one, needed, (), (aside,), reading))
        )
        said = parts[0].read_as
    if mapped:
        refuse_unmapped(reading, [file.name], [said])
    return said


class _Digested(NamedTuple):
    """A file as it was digested: its role, its name, where it is, how it looked before, and its digest."""

    role: str
    name: str
    file: Path
    look: tuple[int, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Sources:
    """A campaign's tables, ready to be read, and the files that were digested under `key`."""

    labels: Source
    tasks: tuple[Source, ...]
    gold: Source | None
    digested: tuple[_Digested, ...]
    reference: Source | None = None
    key: bytes = b""

    @property
    def described(self) -> tuple[dict[str, str], ...]:
        """The roles, names and digests that are recorded."""
        return tuple(
            {"role": one.role, "name": one.name, "digest": one.digest} for one in self.digested
        )

    @property
    def read_as(self) -> tuple[str, ...]:
        """A clause for each table that is not plain: which file, and how it was read."""
        every = (self.labels, *self.tasks, self.gold, self.reference)
        return tuple(one.read_as for one in every if one is not None and one.read_as)

    @contextmanager
    def naming_files(self) -> Iterator[None]:
        """Raise a TableError of the block again, with the file and row that the fault came from."""
        with ExitStack() as stack:
            for source in (self.labels, *self.tasks, *filter(None, (self.gold, self.reference))):
                stack.enter_context(source.naming_files())
            yield

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise TableError if a file changed from its digest up to the end of the block, whatever came of it.

        A table is read several times, and rows of two of its versions do not belong together.
        """
        try:
            yield
        except Exception:
            self._refuse_changed()
            raise
        self._refuse_changed()

    def _refuse_changed(self) -> None:
        for one in self.digested:
            try:
                # as long as it looks as before, it need not be read again
                if _look(one.file) == one.look or file_digest(one.file, self.key) == one.digest:
                    continue
            except FileNotFoundError:
                pass
            raise TableError(
                f"{one.name} changed while it was read; run again when it is whole"
            ) from None


def open_sources(
    inputs: InputSettings, folder: Path, *, key: bytes = b"", mapped: bool = True
) -> Sources:
    """Return a campaign's tables; those made of several files or of a query are written to `folder`.

    Files are digested, under `key`, before they are read; `Sources.unchanged` notices one that changed
    meanwhile, and so does the next run. Unless `mapped` is false, as where some of the campaign's tables are
    left out, one of the tables must have each column that ``columns`` names.

    Raises
    ------
    TableError
        If a table cannot be found or read, or if the order of the labels matters and their query has no
        ORDER BY.
    """
    if inputs.duplicates != "error" and is_fetched(inputs.labels):
        _check_ordered(inputs)
    seconds = [inputs.seconds] if inputs.seconds else []
    label, or_else = (["label"], []) if inputs.several is None else ([], ["label", "labels"])
    columns = {
        "labels": ["worker", "task", *label, *seconds],
        "gold": ["task", *label],
        "reference": ["task", "label"],
    }
    optional = {"labels": ["kind", *or_else], "gold": or_else, "reference": ["model"]}
    found: dict[str, list[Source]] = {role: [] for role in ROLES}
    digested = []
    read = [file for role, file in input_files(inputs) if role != "embeddings"]
    refuse_unheeded(reading_of(inputs), [file for file in read if not is_fetched(file)])
    for role, path in input_paths(inputs):
        files = find_files(path)
        digested += [] if is_fetched(path) else [_digest(role, file, key) for file in files]
        for one in [(file,) for file in files] if role == "tasks" else [files]:
            name = f"{role}-{len(found[role]) + 1}" if found[role] else role
            opened = open_source(
                name, path, columns=columns.get(role, ()),
                optional=optional.get(role, ()), folder=folder, url_env=inputs.url_env, files=one,
                reading=reading_of(inputs, role),
            )  # fmt: skip
            found[role].append(_truths(opened, inputs, folder) if role == "gold" else opened)
        if is_fetched(path):
            digested.append(_digest(role, opened.table, key)._replace(name=path.name))
    if inputs.embeddings is not None:
        digested.append(_digest("embeddings", inputs.embeddings, key))
    every = [one for role in ROLES for one in found[role]]
    if mapped:
        said = [words for one in every for words in one.said]
        refuse_unmapped(reading_of(inputs), [one.name for one in every], said)
    (labels,) = found["labels"]
    gold, reference = (next(iter(found[role]), None) for role in ("gold", "reference"))
    digested.sort(key=lambda one: ROLES.index(one.role))
    return Sources(labels, tuple(found["tasks"]), gold, tuple(digested), reference, key)


def _truths(source: Source, inputs: InputSettings, folder: Path) -> Source:
    """Return the gold table with one row for each task, where the settings name the column of its truths."""
    if inputs.gold_column is None:
        return source
    table, name = folder / "truths.parquet", source.name
    write_truths(source.table, table, name=name, column=inputs.gold_column)
    return replace(source, table=table, name=f"the truths of {name}", parts=(), torn=())


def reading_of(inputs: InputSettings, role: str = "labels") -> Reading:
    """Return the settings' dialect of the files of a role.

    Labels alone are wide, and have columns of workers; of task tables only the tasks have another name.
    """
    roles = {"labels": LABEL_COLUMNS, "tasks": ("task",)}.get(role, ("task", "label"))
    named = named_columns(inputs.columns).items()
    columns = tuple((one, column) for one, column in named if one in roles)
    wide, truth = inputs.wide and role == "labels", inputs.gold_column if role == "gold" else None
    return Reading(inputs.sep, inputs.encoding, inputs.sheet, wide, columns, truth)


def _digest(role: str, file: Path, key: bytes) -> _Digested:
    if not file.is_file():
        refuse_missing(file)
    look = _look(file)  # first, so that a change while it is digested is seen
    return _Digested(role, file.name, file, look, file_digest(file, key))


def _look(file: Path) -> tuple[int, ...]:
    """Return facts of a file that change if it is written to or replaced."""
    now = file.stat()
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _check_ordered(inputs: InputSettings) -> None:
    """Raise TableError for a query without ORDER BY where the order of its rows decides."""
    from flows.tables.fetching import is_ordered  # SQLAlchemy, for a query only

    if is_remote(inputs.labels):
        raise TableError(
            f'{address_of(inputs.labels)}: duplicates must be "error" for a table at an address, whose rows '
            "have no order; fetch it and name the file"
        )
    if not is_ordered(inputs.labels):
        raise TableError(
            f'{inputs.labels.name} must say ORDER BY where duplicates = "{inputs.duplicates}": '
            "which of a worker's labels of a task comes first is otherwise left to the database"
        )

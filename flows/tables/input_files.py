"""Which files the settings mean as a campaign's tables: a file, a folder, a pattern, or a query."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

from flows.settings.sections import InputSettings
from flows.tables.text_table import TableError

__all__ = ["find_files", "input_files", "input_paths", "is_query"]

SUFFIXES = (".csv", ".csv.gz", ".parquet")


def input_paths(inputs: InputSettings) -> Iterator[tuple[str, Path]]:
    """Every path of the settings with what it is for: labels, gold, tasks.

    Tasks come last: labels that come in while a database is asked are then of tasks it knows.
    """
    yield "labels", inputs.labels
    if inputs.gold is not None:
        yield "gold", inputs.gold
    yield from (("tasks", path) for path in inputs.tasks)


def input_files(inputs: InputSettings) -> list[tuple[str, Path]]:
    """Every file that is read, with what it is for."""
    return [(role, file) for role, path in input_paths(inputs) for file in find_files(path)]


def is_query(path: Path) -> bool:
    """Whether a source is a query, in a file of SQL."""
    return path.suffix == ".sql"


def find_files(path: Path) -> tuple[Path, ...]:
    """The files that a path of the settings means, sorted by name; one that is missing is itself.

    Parameters
    ----------
    path
        A file, a folder, or a pattern with ``*``, ``?`` or ``[...]`` as the shell has them, and ``**``.

    Raises
    ------
    TableError
        If a folder or a pattern has no table, or a folder something else beside its tables. Names
        that begin with a dot or an underscore are passed over: files on their way in have those.

    Examples
    --------
    >>> find_files(Path("labels.csv"))
    (PosixPath('labels.csv'),)
    """
    if path.is_dir():
        return _tables_in(path)
    if path.exists() or not glob.has_magic(str(path)):
        return (path,)
    found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    files = tuple(one for one in found if one.is_file() and not _passed_over(one))
    if not files:
        raise TableError(f"{path} matches no file; mend the pattern in the settings")
    for one in files:
        _check_is_table(one)
    return files


def _tables_in(folder: Path) -> tuple[Path, ...]:
    """The tables of a folder; something else in it is more likely a mistake than meant."""
    files = tuple(one for one in sorted(folder.iterdir()) if not _passed_over(one))
    if not files:
        raise TableError(f"{folder} holds no table; mend the path in the settings, or wait for one")
    for one in files:
        _check_is_table(one)
    return files


def _check_is_table(path: Path) -> None:
    if not (path.is_file() and path.name.endswith(SUFFIXES)):
        raise TableError(
            f"{path} must be a table ({', '.join(SUFFIXES)}); move it away, or name a pattern such "
            f'as "{path.parent.name}/*.csv"'
        )


def _passed_over(path: Path) -> bool:
    return path.name.startswith((".", "_"))

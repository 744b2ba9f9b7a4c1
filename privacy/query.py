"""Exact private statistics, with the sensitivity and the unit that make their release accountable.

A `Query` says what is asked of a data set: the exact value (private), what a neighbouring data
set may change (the `Unit`), and how far that can move the value (its l1 sensitivity). Neighbours
always replace one record; the number of records `n` is public.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral

import numpy as np
from jaxtyping import Int

__all__ = [
    "Part",
    "Query",
    "Unit",
    "UnitError",
    "assignment_digest",
    "check_arrays",
    "check_name",
    "check_size",
    "is_text",
    "partition_of",
    "task_names",
]

MOST_RECORDS = 2**53


class UnitError(ValueError):
    """The unit of privacy is not one that the statistic, or the budget, can be accounted in."""


class Unit(StrEnum):
    """What one neighbouring data set may change.

    Examples
    --------
    >>> Unit.ROW.covers(Unit.CONSENSUS_LABEL), Unit.CONSENSUS_LABEL.covers(Unit.ROW)
    (True, False)
    """

    CONSENSUS_LABEL = "consensus label"
    """One task's consensus label, all else fixed."""
    ROW = "row"
    """One task's features and consensus label."""
    TASK = "task"
    """All of one task's crowd labels."""

    def covers(self, other: "Unit") -> bool:
        """Whether a guarantee for these neighbours is one for the other's neighbours too.

        A changed consensus label is a changed row, so `ROW` covers `CONSENSUS_LABEL`. Nothing else
        covers anything but itself.
        """
        return self is other or (self is Unit.ROW and other is Unit.CONSENSUS_LABEL)


@dataclass(frozen=True, slots=True)
class Part:
    """One cell of a partition of a data set's tasks.

    Cells of one partition are disjoint, hence their releases compose in parallel. Equal partition
    names must mean equal assignments of tasks to cells: take them from `partition_of`.

    Examples
    --------
    >>> Part(partition_of("site", np.array([0, 1]), tasks=["t1", "t2"]), "north").name
    'north'
    """

    partition: str
    name: str

    def __post_init__(self) -> None:
        check_name("partition", self.partition)
        check_name("cell", self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """An exact private statistic, or private rows, of one data set.

    Parameters
    ----------
    dataset
        The ledger's name of the data set.
    name
        What is asked, for people; public.
    value
        The exact value, **private**: boolean, integer or floating arrays. It has no repr.
    unit
        What one neighbour may change.
    n
        Number of records the value is computed from, >= 1 and at most 2**53; public.
    l1
        By how much a neighbour can move `value` in l1 norm, > 0; infinite for rows.
    part
        The cell of a partition of the data set's tasks that the value is about; None for all tasks.

    Raises
    ------
    ValueError, TypeError
        If one of these conditions is broken; the message never tells the value.

    Notes
    -----
    **Guarantees.** The repr does not show the value; a query with an invalid field cannot be built.

    Examples
    --------
    >>> Query("toy", "class counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0).n
    4
    """

    dataset: str
    name: str
    value: Mapping[str, np.ndarray] | np.ndarray = field(repr=False)
    unit: Unit
    n: int
    l1: float
    part: Part | None = None

    def __post_init__(self) -> None:
        check_name("dataset", self.dataset)
        check_name("name", self.name)
        if not isinstance(self.unit, Unit):
            raise TypeError(f"unit must be a Unit, got {type(self.unit).__name__}")
        check_size(self.n)
        if not self.l1 > 0:
            raise ValueError(f"l1 must be > 0, got l1={self.l1}")
        arrays = {"value": self.value} if isinstance(self.value, np.ndarray) else self.value
        check_arrays(arrays)


def partition_of(
    name: str, cell: Int[np.ndarray, " tasks"], *, tasks: Sequence[str] | np.ndarray
) -> str:
    """Name a partition by a digest of its public assignment of tasks to cells.

    Parameters
    ----------
    name
        What the partition is, for people.
    cell
        Each task's cell code, **public** and fixed without looking at private data.
    tasks
        The tasks' names, in the order of `cell`; they bind the partition to the tasks, so that its
        cells are disjoint whenever they are named.

    Returns
    -------
    str
        ``name:digest``; another assignment has another name.

    Examples
    --------
    >>> split = partition_of("split", np.array([0, 0, 1]), tasks=["t1", "t2", "t3"])
    >>> split == partition_of("split", np.array([0, 0, 1]), tasks=["t1", "t2", "t4"])
    False
    """
    if not name or ":" in name:
        raise ValueError(f"name must be a word without ':', got {name!r}")
    return f"{name}:{assignment_digest(cell, task_names(tasks, cell.size))}"


def check_name(what: str, name: str) -> None:
    """Refuse what is no name, or one that a database would not give back as it is."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a text, got {type(name).__name__}")
    if not (name and is_text(name)):
        raise ValueError(f"{what} must be a text of characters that is not empty, got {name!r}")


def is_text(value: object) -> bool:
    """Whether every database gives it back as it is: characters, without NUL or half of one."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return value.isascii() or value == value.encode(errors="ignore").decode()


def check_size(n: int) -> None:
    """Refuse what is no public number of records, or so many that noisy counts could overflow."""
    if not (isinstance(n, Integral) and 1 <= n <= MOST_RECORDS):
        raise ValueError(f"n must be an integer from 1 to 2**53, got n={n}")


def check_arrays(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what is not a mapping of names to boolean, integer or floating arrays."""
    if not isinstance(arrays, Mapping) or not arrays:
        raise TypeError("value must be an array, or a mapping of names to arrays")
    for name, array in arrays.items():
        if not (isinstance(array, np.ndarray) and array.dtype.kind in "biuf"):
            raise TypeError(f"value of {name!r} must be a boolean, integer or floating array")


def task_names(tasks: Sequence[str] | np.ndarray, n: int) -> tuple[str, ...]:
    """Names that bind a partition to its tasks, checked to be different."""
    names = tuple(map(str, tasks))
    if len(names) != n or len(set(names)) != n:
        raise ValueError(f"tasks must be {n} different names, got {len(names)}")
    return names


def assignment_digest(cell: Int[np.ndarray, " tasks"], *names: tuple[str, ...]) -> str:
    """Digest of a public assignment: cell codes, and the names that give them a meaning."""
    digest = hashlib.blake2b(json.dumps(names).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(cell, dtype="<i8").tobytes())
    return digest.hexdigest()

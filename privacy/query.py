"""Exact private statistics, with the sensitivity and the unit that their release is accounted by.

A `Query` holds the exact value (private), the change between neighbouring data sets (the `Unit`), and a
bound on the value's move under that change (its l1 sensitivity). Neighbours always replace one record; the
number of records `n` is public.

>>> Query("toy", "class counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
Query(dataset='toy', name='class counts', unit=<Unit.CONSENSUS_LABEL: 'consensus label'>, n=4, \
l1=2.0, part=None, publication=None, places=1)
"""

import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Int

__all__ = [
    "MAX_CLASSES", "MAX_RECORDS", "ONE_TASK", "CountsError", "Part", "Publication", "Query", "Unit",
    "UnitError", "assignment_digest", "check_array", "check_arrays", "check_classes", "check_counts",
    "check_drawable", "check_groups", "check_name", "check_releases", "check_size", "check_unit", "even_rows",
    "group_sizes", "is_text", "is_whole", "numbers", "partition_of", "task_names",
]  # fmt: skip

AT_ONCE = 2**20  # names in one step of a digest
MAX_RECORDS = 2**53
LARGEST = sys.float_info.max
MAX_CLASSES = 10**6  # classes without a task take memory too
ONE_TASK = 2.0  # l1 sensitivity: a replaced label leaves one class's count and joins another's


class UnitError(ValueError):
    """The statistic, or the budget, cannot be accounted in this unit of privacy."""


class CountsError(ValueError):
    """A value is not a vector of class counts; the message never repeats the counts."""


class Unit(StrEnum):
    """The change that makes two data sets neighbours: what a price protects, and nothing more.

    Examples
    --------
    >>> Unit.ROW.covers(Unit.CONSENSUS_LABEL), Unit.CONSENSUS_LABEL.covers(Unit.ROW)
    (True, False)
    >>> print(Unit.ANSWER.protects)
    one worker's answer to one task
    """

    CONSENSUS_LABEL = "consensus label"
    """One task's consensus label, all else fixed."""
    ROW = "row"
    """One task's features and consensus label."""
    TASK = "task"
    """All of one task's crowd labels."""
    ANSWER = "answer"
    """One worker's answer to one task."""
    SUBJECT = "subject"
    """Features and consensus labels of all tasks of one subject that count."""

    @property
    def protects(self) -> str:
        """The difference between neighbours, for people."""
        return WORDS[self][0]

    @property
    def beyond(self) -> str:
        """A sentence on what this unit does not promise."""
        return WORDS[self][1]

    @property
    def needs_local_consensus(self) -> bool:
        """Whether neighbours differ in answers to one task, so that these may move no other task's label."""
        return self in (Unit.TASK, Unit.ANSWER)

    def require_local(self, local: bool) -> None:
        """Raise UnitError if this unit needs a local consensus, and the consensus is not `local`."""
        if self.needs_local_consensus and not local:
            raise UnitError(
                f"unit '{self}' needs a consensus that depends on each task's own labels alone, such as "
                "majority vote without worker filter; use unit 'consensus label', or aggregate locally"
            )

    def covers(self, other: "Unit") -> bool:
        """Return whether a guarantee for these neighbours also holds for the other's neighbours.

        A changed consensus label is a changed row, so `ROW` covers `CONSENSUS_LABEL`; a changed answer
        is a change of one task's answers, so `TASK` covers `ANSWER`; a task is one of its subject's,
        so `SUBJECT` covers `ROW` and `CONSENSUS_LABEL`. Every unit covers itself, and there is no other
        case.
        """
        return self is other or (self, other) in COVERED

    @property
    def protects_features(self) -> bool:
        """Whether neighbours differ in features, so that nothing that reads features may leave unpaid."""
        return self in (Unit.ROW, Unit.SUBJECT)


COVERED = {
    (Unit.ROW, Unit.CONSENSUS_LABEL),
    (Unit.TASK, Unit.ANSWER),
    (Unit.SUBJECT, Unit.ROW),
    (Unit.SUBJECT, Unit.CONSENSUS_LABEL),
}
LABELS_ALONE = (
    "The consensus is found from all answers together, so that one answer can move the labels of "
    "several tasks: a single answer, or a person with several answers or tasks, may be protected less."
)
WORDS = {
    Unit.CONSENSUS_LABEL: ("one task's consensus label", LABELS_ALONE),
    Unit.ROW: ("one task's features and consensus label", LABELS_ALONE),
    Unit.TASK: (
        "all answers to one task",
        "A person with answers or data in several tasks is protected in each of them, not in all together.",
    ),
    Unit.ANSWER: (
        "one worker's answer to one task",
        "A person who gave several answers is protected in each of them, not in all together.",
    ),
    Unit.SUBJECT: (
        "the features and consensus labels of all tasks of one subject",
        "Which tasks are one subject's is taken as known. The consensus is found from all answers "
        "together, so that one worker's answers can move the labels of many subjects' tasks: workers "
        "may be protected less.",
    ),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One cell of a partition of a data set's tasks.

    Cells of one partition are disjoint, hence their releases compose in parallel. Equal partition names
    must mean equal assignments of tasks to cells: take them from `partition_of`. For the unit `SUBJECT` all
    tasks of a subject must be in one cell. The ledger cannot check it; `subject_counts` makes parts only if
    it holds.

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


@dataclass(frozen=True, slots=True)
class Publication:
    """The edition under which a value is published once, even if the data change.

    Parameters
    ----------
    key
        Chosen without looking at private data, such as the month.
    terms
        Public facts that define the value, such as the classes' names: under one key a query with other
        terms is refused.
    facts
        Public facts about these data, such as the groups' sizes: they are stored with the value, and
        returned with it after the data have changed.

    Notes
    -----
    **Guarantees.** A second request under a key returns the published value, also on changed data. Another
    key is paid anew, also on unchanged data. A key never draws twice.
    **Privacy.** Without a key a value is drawn anew exactly if the data changed: two equal publications
    show that nothing changed, at no price. With keys, payments and draws depend on public things alone.

    Examples
    --------
    >>> Publication("2026-11")
    Publication(key='2026-11', terms='', facts='')
    """

    key: str
    terms: str = ""
    facts: str = ""

    def __post_init__(self) -> None:
        check_name("key", self.key)
        if not (is_text(self.terms) and is_text(self.facts)):
            raise TypeError(
                "terms and facts must be texts that every database gives back unchanged"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """An exact private statistic, or private rows, of one data set.

    Parameters
    ----------
    dataset
        The ledger's name of the data set.
    name
        The question, for people; public.
    value
        The exact value, **private**: boolean, integer or floating arrays. It has no repr.
    unit
        What one neighbour may change.
    n
        Number of records that the value is computed from, or of their places in counts; public, from 1 to
        2**53. Class counts add up to it.
    l1
        Bound on the move of `value` between neighbours, in l1 norm, > 0; infinite for rows.
    part
        The cell of a partition of the data set's tasks that the value is about; None for all tasks.
    publication
        The edition of its publication; None if the query is recognised by its value.
    places
        Number of places of one record in `n`; more than 1 if each record takes several places in counts.

    Raises
    ------
    ValueError, TypeError
        If one of these conditions is broken; the message never repeats the value.

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
    publication: Publication | None = None
    places: int = 1

    def __post_init__(self) -> None:
        check_name("dataset", self.dataset)
        check_name("name", self.name)
        check_unit(self.unit)
        check_size(self.n)
        if isinstance(self.l1, np.generic):
            object.__setattr__(self, "l1", self.l1.item())
        if isinstance(self.l1, bool) or not isinstance(self.l1, int | float):
            raise TypeError(f"l1 must be a number, got {type(self.l1).__name__}")
        if not self.l1 > 0:
            raise ValueError(f"l1 must be > 0, got l1={self.l1}")
        if isinstance(self.l1, int) and self.l1 > LARGEST:
            raise ValueError("l1 must be a double or infinite, got a larger integer")
        for what, kind in (("part", Part), ("publication", Publication)):
            given = getattr(self, what)
            if not (given is None or isinstance(given, kind)):
                raise TypeError(f"{what} must be a {kind.__name__}, got {type(given).__name__}")
        if not (is_whole(self.places) and self.places >= 1 and self.n % self.places == 0):
            raise ValueError(
                f"places must be an integer >= 1 that divides n, got places={self.places}, n={self.n}"
            )
        for what in ("n", "places"):  # NumPy's integers become Python's, for JSON
            object.__setattr__(self, what, int(getattr(self, what)))
        arrays = {"value": self.value} if isinstance(self.value, np.ndarray) else self.value
        check_arrays(arrays)

    @property
    def n_records(self) -> int:
        """Number of records that the value is computed from: `n` over `places`."""
        return self.n // self.places

    @property
    def full_name(self) -> str:
        """The name with the publication's key, as the ledger stores it."""
        key = None if self.publication is None else self.publication.key
        return self.name if key is None else f"{self.name}, publication {key}"


def partition_of(
    name: str, cell: Int[np.ndarray, " tasks"], *, tasks: Sequence[str] | np.ndarray
) -> str:
    """Name a partition by a digest of its public assignment of tasks to cells.

    Parameters
    ----------
    name
        The partition's name, for people.
    cell
        Each task's cell code, **public** and fixed without looking at private data.
    tasks
        The tasks' names, in the order of `cell`; they bind the partition to the tasks, so that its cells are
        disjoint in every call.

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
    check_name("name", name)
    if ":" in name:
        raise ValueError(f"name must be a word without ':', got {name!r}")
    check_array("cell", cell)
    limit = np.iinfo(np.int64).max
    if cell.ndim != 1 or cell.dtype.kind not in "iu" or (cell.size and int(cell.max()) > limit):
        raise ValueError(
            f"cell must be one integer of 64 bits for each task, got {cell.dtype} of shape {cell.shape}"
        )
    return f"{name}:{assignment_digest(cell, task_names(tasks, cell.size))}"


def check_name(what: str, name: str) -> None:
    """Raise unless a name is a text that every database gives back unchanged."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a text, got {type(name).__name__}")
    if not (name and is_text(name)):
        raise ValueError(f"{what} must be a text of characters that is not empty, got {name!r}")


def check_unit(unit: object) -> None:
    """Raise TypeError unless a unit is a `Unit`; its text is not one."""
    if not isinstance(unit, Unit):
        raise TypeError(f"unit must be a Unit, got {type(unit).__name__}")


def is_text(value: object) -> bool:
    """Return whether every database gives a text back unchanged: no NUL, no lone surrogate."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return value.isascii() or value == value.encode(errors="ignore").decode()


def is_whole(number: object) -> bool:
    """Return whether a number is an integer by its type; neither True, False nor 2.0 is one."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def even_rows(name: str, given: Any) -> np.ndarray:
    """Return an array, data frame, series or list as an array; raise ValueError for a ragged list.

    >>> even_rows("x", [[1, 2], [3]])
    Traceback (most recent call last):
        ...
    ValueError: x must be numbers, as many in each row, got rows of several lengths
    """
    try:
        return np.asarray(given, order="C")  # the same bytes for a frame, which is kept by columns
    except ValueError:
        raise ValueError(
            f"{name} must be numbers, as many in each row, got rows of several lengths"
        ) from None


def numbers(name: str, given: Any) -> np.ndarray:
    """Return `even_rows` of numbers; raise ValueError for others."""
    found = even_rows(name, given)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers, as many in each row, got dtype={found.dtype}")
    return found


def check_size(n: int) -> None:
    """Raise ValueError unless 1 <= n <= 2**53, so that noisy counts cannot overflow."""
    if not (is_whole(n) and 1 <= n <= MAX_RECORDS):
        shown = repr(n) if isinstance(n, str) else n  # a text of digits would look like a number
        raise ValueError(f"n must be an integer from 1 to 2**53, got n={shown}")


def check_classes(n_classes: int, what: str = "n_classes") -> None:
    """Raise CountsError unless a number of classes, or of similar entries, is possible."""
    if not (is_whole(n_classes) and 2 <= n_classes <= MAX_CLASSES):
        raise CountsError(
            f"{what} must be an integer from 2 to {MAX_CLASSES}, got {what}={n_classes}"
        )


def check_array(what: str, value: object) -> None:
    """Raise TypeError unless a value is a NumPy array; the message shows its type alone."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{what} must be a NumPy array, got {type(value).__name__}")


def check_arrays(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise TypeError unless names are mapped to boolean, integer or floating arrays."""
    if not isinstance(arrays, Mapping) or not arrays:
        raise TypeError("value must be an array, or a mapping of names to arrays")
    for name, array in arrays.items():
        if not (isinstance(array, np.ndarray) and array.dtype.kind in "biuf"):
            raise TypeError(f"value of {name!r} must be a boolean, integer or floating array")


def check_counts(query: Query) -> Int[np.ndarray, " classes"]:
    """Return the counts of a query for class counts; raise CountsError, which never repeats them."""
    counts = query.value
    if not (isinstance(counts, np.ndarray) and counts.ndim == 1 and counts.dtype.kind in "iu"):
        raise CountsError("counts must be a one-dimensional integer array")
    if not counts.size >= 2:
        raise CountsError(f"counts must be of 2 classes or more, got {counts.size}")
    if not (counts >= 0).all() or sum(counts.tolist()) != query.n:  # Python integers never overflow
        raise CountsError("counts must be >= 0 and add up to the query's public n")
    if not math.isfinite(query.l1):
        raise CountsError("counts must have a finite l1 sensitivity")
    return counts.astype(np.int64)


def check_drawable(query: Query) -> Int[np.ndarray, " classes"]:
    """Return counts that noise can be drawn for; raise CountsError for too many, before any payment."""
    counts = check_counts(query)
    check_classes(counts.size, "n_counts")
    return counts


def check_releases(
    releases: Int[np.ndarray, "draws classes"], n_classes: int
) -> Int[np.ndarray, "draws classes"]:
    """Return released counts as integers; raise unless each draw is a row with one count for each class."""
    check_array("releases", releases)
    fits = releases.ndim == 2 and releases.shape[1] == n_classes and releases.dtype.kind in "iu"
    if not fits:
        raise ValueError(
            f"releases must be integers, a row of {n_classes} classes for each draw, got {releases.dtype} "
            f"of shape {releases.shape}"
        )
    return releases.astype(np.int64)


def check_groups(group: Int[np.ndarray, " tasks"], names: Sequence[str]) -> None:
    """Raise ValueError unless groups are codes of different names."""
    if not names or len(set(names)) != len(names):
        raise ValueError(f"group_names must be different names, got {len(names)}")
    check_array("group", group)
    codes = group.ndim == 1 and group.dtype.kind in "iu"
    if not (codes and ((group >= 0) & (group < len(names))).all()):
        raise ValueError(f"group must be integer codes of the {len(names)} named groups")


def group_sizes(
    group: Int[np.ndarray, " tasks"], names: Sequence[str]
) -> Int[np.ndarray, " groups"]:
    """Return each group's number of tasks; raise ValueError unless each named group has one or more."""
    check_groups(group, names)
    n = np.bincount(group, minlength=len(names))
    if not (n >= 1).all():
        raise ValueError(f"every group must have a task, got none in {names[int(n.argmin())]!r}")
    return n


def task_names(tasks: Sequence[str] | np.ndarray, n: int) -> Sequence[str] | np.ndarray:
    """Return `n` different names that bind a partition to its tasks, or raise ValueError.

    An array of texts is returned as it is.
    """
    if isinstance(tasks, np.ndarray) and tasks.dtype.kind == "U" and tasks.ndim == 1:
        names: Sequence[str] | np.ndarray = tasks
        different = bool((tasks[:-1] < tasks[1:]).all()) or len(set(tasks.tolist())) == len(tasks)
    else:
        names = tuple(map(str, tasks.tolist() if isinstance(tasks, np.ndarray) else tasks))
        different = len(set(names)) == len(names)
    if len(names) != n or not different:
        several = set(np.asarray(names).tolist())
        raise ValueError(
            f"tasks must be {n} different names, got {len(names)}, of them {len(several)} different"
        )
    return names


def assignment_digest(cell: Int[np.ndarray, " tasks"], *names: Sequence[str] | np.ndarray) -> str:
    """Return a digest of a public assignment: cell codes and the cells' names, as a list of lists in JSON."""
    digest = hashlib.blake2b(b"[", digest_size=16)
    for number, some in enumerate(names):
        digest.update(b", [" if number else b"[")
        for at in range(0, len(some), AT_ONCE):
            texts = json.dumps(list(map(str, some[at : at + AT_ONCE])))[1:-1]
            digest.update((", " + texts if at else texts).encode())
        digest.update(b"]")
    digest.update(b"]")
    digest.update(np.ascontiguousarray(cell, dtype="<i8").tobytes())
    return digest.hexdigest()

"""The partition of the tasks that a campaign's counts belong to, as tasks join from day to day.

A partition composes in parallel while no task is ever in two of its cells. An assignment of tasks to groups
that only gains tasks keeps that property, so it keeps its partition: a release of a group that has changed
adds to that group's own releases alone. The state folder keeps every task that was ever assigned.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from flows.files import text_parts, write_arrays
from flows.tables import arrow_array, numpy_array
from privacy import Ledger

__all__ = ["UNREADABLE", "assignments_locked", "grow_partition", "task_digests"]

MAX_KEPT = 8  # partitions; forgetting one costs budget, not privacy
UNREADABLE = (EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile, zlib.error)
"""What a damaged record of assignments raises when it is read."""

Size = tuple[str, int]  # of a group: its name, and how many tasks it had


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """Digests of tasks in order, their groups, and a digest of the tasks of each group of a size."""

    task: Shaped[np.ndarray, " tasks"]
    group: Shaped[np.ndarray, " tasks"]
    sets: dict[Size, str]


def grow_partition(
    folder: Path,
    ledger: Ledger,
    dataset: str,
    *,
    task: Shaped[np.ndarray, " tasks"],
    group: Shaped[np.ndarray, " tasks"],
    exact: str,
    records: int = 1,
) -> str:
    """Return the name of the partition whose cells these groups are, after recording durably what joins it.

    Parameters
    ----------
    folder
        The state folder of the ledger.
    ledger
        The ledger of what was released so far.
    dataset
        The ledger's name of the data set.
    task, group
        Names of the tasks, all different, and of their groups; **public**.
    exact
        The name that `partition_of` or `class_counts` gives to exactly this assignment. A partition of
        another kind, which is the name's first word, is never joined.
    records
        Records that a query counts for each task, >= 1: its places, where several classes may hold.

    Returns
    -------
    str
        A partition that these tasks join, that of exactly this assignment if the ledger has one, or
        a new one.

    Notes
    -----
    **Guarantees.** No task is ever in two cells of a partition that this names. In one partition
    all groups of one name and size hold the same tasks. If the file of assignments is lost, cannot be
    read, or is older than a release, there is a new partition, whose costs add to the others'.
    **Privacy.** All of this is public. A neighbour's one task is in one cell of each partition, in
    all of its releases: hence parallel composition over cells, and addition within each. The
    ledger returns a stored value for the same counts of as many tasks: since those are the same
    tasks, that reveals nothing about tasks that left and tasks that came.
    """
    now = _assigned(task, group)
    with assignments_locked(folder):
        known = _read(folder / f"groups-{dataset}.npz")
        released = _released(ledger, dataset, records)
        for name in reversed([one for one in known if _kind(one) == _kind(exact)]):
            if released.get(name, set()) <= known[name].sets.keys() and _agree(known[name], now):
                return _join(folder, dataset, known, name, now)
        if exact in released:
            return exact
        name = _unused(exact, {*released, *known})
        known[name] = now
        _write(folder / f"groups-{dataset}.npz", known)
        return name


def _join(folder: Path, dataset: str, known: dict[str, Assigned], name: str, now: Assigned) -> str:
    """Record what is new in a partition, if anything is; it becomes the newest."""
    before = known.pop(name)
    new = ~np.isin(now.task, before.task)
    known[name] = before
    if new.any() or not now.sets.keys() <= before.sets.keys():
        task = np.concatenate([before.task, now.task[new]])
        order = np.argsort(task, kind="stable")
        group = np.concatenate([before.group, now.group[new]])
        known[name] = Assigned(task[order], group[order], before.sets | now.sets)
        _write(folder / f"groups-{dataset}.npz", known)
    return name


def _assigned(task: np.ndarray, group: np.ndarray) -> Assigned:
    """Return an assignment in the order of its tasks' digests."""
    digest = task_digests(task)
    order = np.argsort(digest, kind="stable")
    digest, group = digest[order], group[order]
    texts = arrow_array(group.astype(str, copy=False))
    coded = texts.dictionary_encode()  # by hashes: sorting texts is slow
    from quality.labels import sort_codes  # numba, which a run where nothing is new does without

    by_group, start = sort_codes(numpy_array(coded.indices), len(coded.dictionary))
    cells = np.split(digest[by_group], start[1:-1])
    sets = {
        (name, cell.size): _digest(cell.tobytes())
        for name, cell in zip(coded.dictionary.to_pylist(), cells, strict=True)
    }
    return Assigned(digest, group, dict(sorted(sets.items())))


def _agree(before: Assigned, now: Assigned) -> bool:
    """Return whether no task has moved, and groups of a name and size seen before hold the same tasks."""
    place = np.searchsorted(before.task, now.task).clip(max=before.task.size - 1)
    met = before.task[place] == now.task
    still = bool((before.group[place][met] == now.group[met]).all())
    return still and all(
        before.sets.get(size, digest) == digest for size, digest in now.sets.items()
    )


def _released(ledger: Ledger, dataset: str, records: int) -> dict[str, set[tuple[str, float]]]:
    """Return the groups that were released in each partition, with their sizes at so many records a task."""
    released: dict[str, set[tuple[str, float]]] = {}
    for part, n in ledger.paid_parts(dataset):
        released.setdefault(part.partition, set()).add((part.name, n / records))
    return released


def _kind(partition: str) -> str:
    """Return what a partition's cells are: the first word of its name."""
    return partition.partition(":")[0]


def _unused(exact: str, taken: set[str]) -> str:
    """Return a name that no partition has had, whether or not its assignment is lost."""
    kind, _, digest = exact.partition(":")
    name, count = f"{kind}:first-{digest}", 1
    while name in taken:
        count += 1
        name = f"{kind}:first-{digest}-{count}"
    return name


def task_digests(task: Shaped[np.ndarray, " tasks"]) -> Shaped[np.ndarray, " tasks"]:
    """Return a digest of each task's name: names stay out of the state folder."""
    digests = (_digest(name.encode()) for names in text_parts(task) for name in names)
    return np.fromiter(digests, dtype="S32", count=len(task))


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _read(path: Path) -> dict[str, Assigned]:
    """Return the partitions recorded, the newest last; empty if the file is lost or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            names = stored["names"].tolist()
            return {name: _stored(stored, number) for number, name in enumerate(names)}
    except UNREADABLE:
        return {}


def _stored(stored: Mapping[str, np.ndarray], number: int) -> Assigned:
    groups, sizes, digests = (
        stored[f"{what} {number}"].tolist() for what in ("set group", "set size", "set")
    )
    sets = dict(zip(zip(groups, sizes, strict=True), digests, strict=True))
    return Assigned(stored[f"task {number}"], stored[f"group {number}"], sets)


def _write(path: Path, known: dict[str, Assigned]) -> None:
    """Write the newest partitions, readable by the owner alone, whole or not at all."""
    newest = dict(list(known.items())[-MAX_KEPT:])
    arrays: dict[str, Any] = {"names": np.array(list(newest), dtype=np.str_)}
    for number, one in enumerate(newest.values()):
        groups, sizes = zip(*one.sets, strict=True)
        arrays |= {
            f"task {number}": one.task,
            f"group {number}": one.group,
            f"set group {number}": np.array(groups, dtype=np.str_),
            f"set size {number}": np.array(sizes, dtype=np.int64),
            f"set {number}": np.array(list(one.sets.values()), dtype=np.str_),
        }
    write_arrays(path, arrays, compressed=True, mode=0o600)


@contextmanager
def assignments_locked(folder: Path) -> Iterator[None]:
    """Hold a state folder's lock on assignments, at the latest until the process ends."""
    descriptor = os.open(folder / "groups.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""The state of a watcher in a file: held by one process at a time, and brought up to date in one call."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flows.tables import TableError
from flows.watching.label_lines import FileTail, LabelLines, LabelRows
from flows.watching.label_watcher import FALSE_ALARM, LabelWatcher

__all__ = ["WatchBusy", "held_state", "read_new", "reader_of", "watch_once"]


class WatchBusy(TableError):
    """Another process watches with the same state."""


@contextmanager
def held_state(path: Path | None, *, false_alarm: float | None = None) -> Iterator[LabelWatcher]:
    """Yield the watcher that a file keeps, or a new one, and let no other process have it meanwhile.

    A new one has the probability of a false alarm that is given, or else 0.05.

    Raises
    ------
    WatchBusy
        If another process has it.
    TableError
        If the file is no state, or cannot be one, or has another probability than is given.
    """
    if path is None:
        yield _watcher(None, false_alarm)
        return
    if path.is_symlink():  # a link and what it leads to are one state
        path = path.resolve()
    if path.is_dir():
        raise TableError(f"{path} is a folder; name a file for the state")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise TableError(f"{path.parent} is no folder; name a file in a folder") from None
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WatchBusy(
                f"{path} is in use by another `crowdassay watch`; end that one, or name another --state"
            ) from None
        yield _watcher(path, false_alarm)
    finally:
        os.close(lock)


def _watcher(path: Path | None, false_alarm: float | None) -> LabelWatcher:
    """Return the watcher that a file keeps, if it is there, or a new one."""
    if path is None or not path.exists():
        return LabelWatcher(false_alarm=FALSE_ALARM if false_alarm is None else false_alarm)
    watcher = LabelWatcher.load(path)
    if false_alarm is not None and not math.isclose(false_alarm, watcher.false_alarm, rel_tol=1e-6):
        raise TableError(
            f"{path} was begun with --false-alarm {watcher.false_alarm:g}, got {false_alarm:g}; leave the "
            "option out, or name another --state"
        )
    return watcher


def reader_of(
    watcher: LabelWatcher,
    labels: Path,
    seconds: str | None,
    columns: Mapping[str, str] | None = None,
) -> tuple[FileTail, LabelLines]:
    """Return the reader of a file from the place that the watcher has reached."""
    stands = watcher.read
    if stands and stands["name"] != labels.name:
        raise TableError(
            f"the state is of {stands['name']}, got {labels.name}; give another --state for it"
        )
    known = {key: stands[key] for key in ("offset", "head", "end") if key in stands}
    tail = FileTail(labels, **known)
    lines = LabelLines(
        labels.name,
        seconds=seconds,
        columns=columns,
        header=stands.get("header", ""),
        n_rows=stands.get("n_rows", 0),
    )
    return tail, lines


def read_new(
    watcher: LabelWatcher, tail: FileTail, lines: LabelLines, *, to_end: bool = False
) -> LabelRows | None:
    """Return the rows that the file has gained, None where it has not grown; the watcher keeps the place.

    A row without an end of line waits; `to_end` reads that too, where nothing stands behind it.
    """
    data = tail.read()
    if not data and not (to_end and lines.held):
        return None
    rows = lines.feed(data, last=not data)
    taken, watcher.n_waiting = tail.offset - lines.held, lines.held
    watcher.read = {
        "name": tail.path.name,
        "offset": taken,
        "head": tail.head_at(taken),
        "end": tail.end_at(taken),
        "header": lines.header,
        "n_rows": lines.n_rows,
    }
    return rows


def watch_once(
    labels: Path,
    state: Path,
    *,
    seconds: str | None = None,
    columns: Mapping[str, str] | None = None,
    on_alarm: Callable[[str], object] = lambda _: None,
) -> LabelWatcher:
    r"""Take in the labels that a file has gained since the last call with this state, and save it.

    Parameters
    ----------
    labels
        A CSV file that only grows, with the columns worker, task, label, and if known time and seconds.
    state
        The file that keeps what is known; made where it is missing.
    seconds
        The column with the seconds that each label took.
    columns
        The columns of worker, task and label where the file calls them otherwise.
    on_alarm
        Called with each alarm, as a sentence.

    Returns
    -------
    LabelWatcher
        What is known now.

    Raises
    ------
    TableError
        If the file or the state cannot be used; the state is as it was.

    Notes
    -----
    **Guarantees.** Calls after each of several pieces of a file leave what one call after all of
    them leaves.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     labels, state = Path(folder, "labels.csv"), Path(folder, "watch.npz")
    ...     _ = labels.write_text("worker,task,label\nann,1,yes\nbob,1,no\n")
    ...     watch_once(labels, state).counts
    '2 labels, 2 workers, 1 task'
    """
    with held_state(state) as watcher:
        tail, lines = reader_of(watcher, labels, seconds, columns)
        while (rows := read_new(watcher, tail, lines)) is not None:
            for alarm in watcher.take(rows):
                on_alarm(str(alarm))
        watcher.save(state)
        return watcher

"""The state of a crowd while its labels arrive: the consensus so far, and a card for each worker."""

from __future__ import annotations

import io
import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

from flows.files import write_arrays
from flows.tables import TableError
from flows.watching.label_lines import LabelRows
from learners import RunningConsensus, StreamMonitor, WorkerCards

__all__ = ["HEADER", "Alarm", "LabelWatcher"]

HEADER = ["worker", "labels", "judged", "agrees", "interval", "fatigue", "seconds", "alarm"]
SESSION_GAP = 1800.0  # seconds without a label, after which a worker's session is a new one
MOST_CLASSES = 100
FALSE_ALARM = 0.05
VERSION = 1
EXACT = 5  # decimals of results in JSON
DAMAGED = (  # what reading a state raises, whichever of its bytes is another
    BadZipFile, EOFError, KeyError, NotImplementedError, OverflowError, RuntimeError, TokenError, TypeError,
    ValueError, zlib.error,
)  # fmt: skip
KINDS = {
    "drift": "may have got worse",
    "proven": "has got worse",
}  # as `StreamMonitor.alarms` has them


@dataclass(frozen=True, slots=True)
class Alarm:
    """A worker got worse, as one of the two alarms has it.

    Parameters
    ----------
    worker
        Name of the worker.
    kind
        "drift" of CUSUM, "proven" of the alarm that is valid at any time.
    at
        Her judged label, counted from 1, at which it was raised.
    reliability
        Her live reliability after these labels.
    """

    worker: str
    kind: str
    at: int
    reliability: float

    def __str__(self) -> str:
        return (
            f"{self.worker} {KINDS[self.kind]}: at her judged label {self.at:,}, reliability now "
            f"{self.reliability:.2f}"
        )


class LabelWatcher:
    """Takes labels in as they come and keeps the consensus so far and each worker's card.

    A worker's repeated label of a task is passed over: the first one counts.

    Parameters
    ----------
    false_alarm
        Probability that the alarm valid at any time is ever wrong about any worker.

    Notes
    -----
    **Guarantees.** (1) The results do not depend on how the labels were cut into pieces. (2)
    Saved and loaded it goes on with the same results to the bit. (3) A saved state holds no pickle and can
    be read by this user alone.
    """

    def __init__(self, *, false_alarm: float = FALSE_ALARM) -> None:
        self._names: dict[str, dict[str, int]] = {"worker": {}, "task": {}, "label": {}}
        self._consensus = RunningConsensus(2)
        self._monitor = StreamMonitor(2, false_alarm=false_alarm)
        self._pairs: set[tuple[int, int]] = set()
        self._place: list[float] = []  # of each label in its worker's session
        self._seconds: list[float] = []
        self._last: list[float] = []  # of each worker: time of the last label,
        self._since: list[float] = []  # labels in her session before,
        self._given: list[int] = []  # and labels in all
        self.n_repeated = 0
        self.n_waiting = 0
        """Bytes read that wait for the end of their row; no labels yet."""
        self.read: dict[str, Any] = {}
        """Where reading stands, kept with the state."""

    @property
    def n_labels(self) -> int:
        """Number of labels taken in, without repeated ones."""
        return self._consensus.n_rows

    @property
    def false_alarm(self) -> float:
        """Probability that the alarm valid at any time is ever wrong about any worker."""
        return self._monitor.false_alarm

    @property
    def counts(self) -> str:
        """What was taken in, and what waits, in words."""
        sizes = (self.n_labels, len(self._names["worker"]), len(self._names["task"]))
        kinds = ("label", "worker", "task")
        words = [_counted(n, kind) for n, kind in zip(sizes, kinds, strict=True)]
        repeated = [f"{_counted(self.n_repeated, 'repeated label')} passed over"]
        waits = f"wait{'s' * (self.n_waiting == 1)} for the end of a row"
        waiting = [f"{_counted(self.n_waiting, 'byte')} {waits}"]
        more = repeated * bool(self.n_repeated) + waiting * bool(self.n_waiting)
        return ", ".join([*words, *more])

    def take(self, rows: LabelRows) -> list[Alarm]:
        """Take labels in and return the alarms that they raised.

        Raises
        ------
        TableError
            If there are more than 100 classes.
        """
        before = self._monitor.alarms()
        fresh = self._coded(rows)
        start = 0
        for end in [*fresh.new_class, len(fresh.worker)]:  # a new class widens tables from it on
            self._take(fresh, start, end)
            start = end
        return self._new_alarms(before)

    def rows(self) -> list[list[str]]:
        """Return a row of text for each worker under `HEADER`: alarms first, then by reliability."""
        cards = self.cards()
        low = np.nan_to_num(cards.reliability, nan=2.0)
        order = np.lexsort((low, cards.drift_at == 0, cards.proven_at == 0))
        names = list(self._names["worker"])
        return [self._row(names[w], w, cards) for w in order]

    def as_json(self) -> dict[str, Any]:
        """Return the state as values for JSON, workers in the order in which they came."""
        cards = self.cards()
        fields = ("reliability", "low", "high", "always_low", "always_high", "fatigue",
                  "fast_seconds", "slow_seconds", "slow_share", "drift_at", "proven_at")  # fmt: skip
        classes = list(self._names["label"])
        workers = [
            {"worker": name, "labels": self._given[w], "judged": int(cards.n_judged[w])}
            | {field: _plain(getattr(cards, field)[w]) for field in fields}
            | {
                "confusion": cards.confusion[w, : len(classes), : len(classes)]
                .round(EXACT)
                .tolist()
            }
            for name, w in self._names["worker"].items()
        ]
        sizes = {"labels": self.n_labels, "tasks": len(self._names["task"])}
        sizes |= {"repeated": self.n_repeated, "bytes_waiting": self.n_waiting}
        return {**sizes, "classes": classes, "workers": workers}

    def consensus(self) -> dict[str, list[Any]]:
        """Return the consensus so far: columns with an entry for each task, in the order of arrival."""
        post = self._consensus.posterior()
        classes = list(self._names["label"]) or [""]
        best = post[:, : len(classes)].argmax(axis=1)
        confidence = post[np.arange(len(post)), best]
        return {
            "task": list(self._names["task"]),
            "label": [classes[k] for k in best],
            "confidence": [round(float(one), EXACT) for one in confidence],
        }

    def cards(self) -> WorkerCards:
        """Return the cards of all workers by code, also of those whose labels met no consensus yet."""
        n_workers = len(self._names["worker"])
        if self._monitor.n_lanes < n_workers:
            last, unknown = np.array([n_workers - 1]), np.array([-1])
            self._monitor.partial_fit(last, label=np.array([0]), consensus=unknown)
        return self._monitor.cards()

    def save(self, path: Path) -> None:
        """Write the whole state as an ``.npz`` file without pickle, whole or not at all; a link stays one."""
        numbers = [self._place, self._seconds, self._last, self._since, self._given]
        arrays = {
            "version": np.array(VERSION),
            "names": _bytes(json.dumps([list(one) for one in self._names.values()])),
            "read": _bytes(json.dumps(self.read)),
            "consensus": np.frombuffer(self._consensus.snapshot(), np.uint8),
            "monitor": np.frombuffer(self._monitor.snapshot(), np.uint8),
            "pairs": np.array(sorted(self._pairs), np.int64).reshape(-1, 2),
            "n_repeated": np.array(self.n_repeated),
        } | {f"numbers{i}": np.array(one, float) for i, one in enumerate(numbers)}
        write_arrays(path.resolve(), arrays, compressed=True, mode=0o600)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the watcher that a file keeps.

        Raises
        ------
        TableError
            If the file is damaged or of another version.
        """
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                arrays = dict(file)
            if int(arrays["version"]) != VERSION:
                raise TableError(f"{path} is of another version; begin a new state")
            found = cls()
            lists = json.loads(arrays["names"].tobytes())
            for kind, names in zip(found._names, lists, strict=True):
                found._names[kind] = {name: i for i, name in enumerate(names)}
            found.read = json.loads(arrays["read"].tobytes())
            found._consensus = RunningConsensus.from_snapshot(arrays["consensus"].tobytes())
            found._monitor = StreamMonitor.from_snapshot(arrays["monitor"].tobytes())
            found._pairs = {(w, t) for w, t in arrays["pairs"].tolist()}
            found.n_repeated = int(arrays["n_repeated"])
            numbers = [arrays[f"numbers{i}"].tolist() for i in range(5)]
        except DAMAGED as error:
            if isinstance(error, TableError):
                raise
            raise TableError(
                f"{path} must be a state that `crowdassay watch` saved; name another --state"
            ) from None
        found._place, found._seconds, found._last, found._since, given = numbers
        found._given = [int(n) for n in given]
        return found

    def _coded(self, rows: LabelRows) -> _Coded:
        """Return codes of the labels that are new, and where classes appear for the first time."""
        fresh = _Coded([], [], [], [])
        workers, tasks, classes = self._names.values()
        for i, (worker, task, label) in enumerate(
            zip(rows.worker, rows.task, rows.label, strict=True)
        ):
            w = workers.setdefault(worker, len(workers))
            t = tasks.setdefault(task, len(tasks))
            if w == len(self._last):
                self._last.append(math.nan)
                self._since.append(math.nan)
                self._given.append(0)
            if (w, t) in self._pairs:
                self.n_repeated += 1
                continue
            self._pairs.add((w, t))
            if label not in classes:
                if len(classes) >= MOST_CLASSES:
                    raise TableError(
                        f"labels must be classes, {MOST_CLASSES} at most; {label!r} would be one more"
                    )
                fresh.new_class.append(len(fresh.worker))
                classes[label] = len(classes)
            fresh.worker.append(w)
            fresh.task.append(t)
            fresh.label.append(classes[label])
            self._place.append(self._session_place(w, rows.time[i]))
            self._seconds.append(rows.seconds[i])
            self._given[w] += 1
        return fresh

    def _session_place(self, w: int, time: float) -> float:
        """Return a label's place in its worker's session; NaN where times are not known."""
        if math.isnan(time):
            return math.nan
        goes_on = 0 <= time - self._last[w] <= SESSION_GAP
        self._since[w] = self._since[w] + 1 if goes_on else 0.0
        self._last[w] = time
        return self._since[w]

    def _take(self, fresh: _Coded, start: int, end: int) -> None:
        if start == end:
            return
        n_classes = max(fresh.label[start:end]) + 1
        if n_classes > self._monitor.n_classes:
            self._monitor = self._monitor.with_classes(n_classes)
            self._consensus = self._consensus.with_classes(n_classes)
        codes = (np.array(one[start:end]) for one in (fresh.worker, fresh.task, fresh.label))
        judged = self._consensus.partial_fit(*codes)
        self._monitor.partial_fit(
            judged.worker,
            label=judged.label,
            consensus=judged.consensus,
            position=np.array([self._place[row] for row in judged.row]),
            seconds=np.array([self._seconds[row] for row in judged.row]),
        )

    def _new_alarms(self, before: tuple[np.ndarray, ...]) -> list[Alarm]:
        found = []
        for kind, now, then in zip(KINDS, self._monitor.alarms(), before, strict=True):
            raised = now > 0
            raised[: len(then)] &= then == 0
            if raised.any():
                names, live = list(self._names["worker"]), self._monitor.cards().reliability
                found += [
                    Alarm(names[w], kind, int(now[w]), float(live[w]))
                    for w in np.flatnonzero(raised)
                ]
        return found

    def _row(self, name: str, w: int, cards: WorkerCards) -> list[str]:
        word = "worse" if cards.proven_at[w] else "worse?"
        at = cards.proven_at[w] or cards.drift_at[w]
        known = cards.n_judged[w] > 0
        slow = cards.slow_seconds[w]
        return [
            name,
            f"{self._given[w]}",
            f"{cards.n_judged[w]}",
            f"{cards.reliability[w]:.2f}" if known else "",
            f"{cards.low[w]:.2f}–{cards.high[w]:.2f}" if known else "",
            "" if np.isnan(cards.fatigue[w]) else f"{cards.fatigue[w]:+.2f}",
            "" if np.isnan(slow) else f"{cards.fast_seconds[w]:.2g}, {slow:.2g}",
            f"{word} at {at:,}" if at else "",
        ]


@dataclass(frozen=True, slots=True)
class _Coded:
    """Codes of new labels; `new_class` are the places at which a class appears first."""

    worker: list[int]
    task: list[int]
    label: list[int]
    new_class: list[int]


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def _plain(value: Any) -> float | int | None:
    """Return a number for JSON, which has no NaN."""
    if isinstance(value, np.integer):
        return int(value)
    return None if np.isnan(value) else round(float(value), EXACT)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"

"""A recorder keeps all labels, an aggregator the consensus so far and who agrees with it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from learners.genesis.core import Connection, Element, World, element_class
from learners.genesis.crowd.assignment import Task, refuse_weight
from learners.genesis.crowd.worker_classes import Answer

__all__ = ["AGGREGATOR", "RECORDER", "CrowdRecord", "LiveAgreement"]


class _Source(NamedTuple):
    """A worker or a task: its element's path, and its row."""

    path: str
    row: int


def _frozen(result: CrowdRecord | LiveAgreement) -> None:
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CrowdRecord:
    """The labels that a recorder received, in order of time, with the true classes.

    Parameters
    ----------
    worker, task
        Codes of each label: places in the arrays below.
    label, time, seconds
        The label, when it was given, and how long it took.
    truth, options
        True class and number of options of each task that has a label.
    task_path, task_row, worker_path, worker_row
        Element and row of each task and worker; workers in the order of their first label.
    worker_kind
        The class of each worker's element.
    """

    worker: np.ndarray
    task: np.ndarray
    label: np.ndarray
    time: np.ndarray
    seconds: np.ndarray
    truth: np.ndarray
    options: np.ndarray
    task_path: np.ndarray
    task_row: np.ndarray
    worker_path: np.ndarray
    worker_row: np.ndarray
    worker_kind: np.ndarray

    def __post_init__(self) -> None:
        _frozen(self)

    def __repr__(self) -> str:
        sizes = f"{len(self.truth)} tasks, {len(self.worker_path)} workers"
        return f"CrowdRecord({len(self.label)} labels, {sizes})"

    @property
    def accuracy(self) -> np.ndarray:
        """The share of each worker's labels that are right."""
        right = self.label == self.truth[self.task]
        n = np.bincount(self.worker, minlength=len(self.worker_path))
        return np.bincount(self.worker, weights=right, minlength=len(n)) / n


class Recorder:
    """Keeps every label that it is sent."""

    def __init__(self, world: World, element: Element) -> None:
        self.path = element.path
        self.rows: list[tuple[_Source, _Source, int, float, float]] = []
        self.tasks: dict[str, Task] = {}
        self.kinds: dict[str, str] = {}

    def start(self) -> None:
        """Wait for labels."""

    def receive(self, connection: Connection, source: int, message: Answer) -> None:
        """Keep a label."""
        refuse_weight(connection)
        sender = connection.source.element
        worker, task = _Source(sender.path, source), _Source(message.tasks.path, message.row)
        self.tasks[task.path] = message.tasks
        self.kinds[worker.path] = sender.cls.name
        self.rows.append((worker, task, message.label, message.time, message.seconds))

    def result(self) -> CrowdRecord:
        """Return the labels.

        Raises
        ------
        ValueError
            If there are none.
        """
        if not self.rows:
            raise ValueError(
                f"{self.path} must be sent labels, got none; `run` lets the workers answer"
            )
        rows = sorted(self.rows, key=lambda row: (row[3], row[0], row[1]))
        workers = list(dict.fromkeys(row[0] for row in rows))
        tasks = sorted({row[1] for row in rows})
        worker_code = {one: code for code, one in enumerate(workers)}
        task_code = {one: code for code, one in enumerate(tasks)}
        return CrowdRecord(
            worker=np.array([worker_code[row[0]] for row in rows]),
            task=np.array([task_code[row[1]] for row in rows]),
            label=np.array([row[2] for row in rows]),
            time=np.array([row[3] for row in rows]),
            seconds=np.array([row[4] for row in rows]),
            truth=np.array([self.tasks[one.path].truth[one.row] for one in tasks]),
            options=np.array([self.tasks[one.path].options[one.row] for one in tasks]),
            task_path=np.array([one.path for one in tasks]),
            task_row=np.array([one.row for one in tasks]),
            worker_path=np.array([one.path for one in workers]),
            worker_row=np.array([one.row for one in workers]),
            worker_kind=np.array([self.kinds[one.path] for one in workers]),
        )


RECORDER = element_class("recorder", receives=("label",))(Recorder)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LiveAgreement:
    """The consensus of an aggregator, and each worker's agreement with it.

    Parameters
    ----------
    label, truth
        The majority's label of each task that has one, the lowest code among equals, and the true one.
    n_compared, agreement
        Each worker's number of labels on tasks that had labels before, and the mean share of these
        labels' majority that she agreed with.
    worker_path, worker_row, worker_kind
        Element and row of each worker, and her class.
    """

    label: np.ndarray
    truth: np.ndarray
    n_compared: np.ndarray
    agreement: np.ndarray
    worker_path: np.ndarray
    worker_row: np.ndarray
    worker_kind: np.ndarray

    def __post_init__(self) -> None:
        _frozen(self)

    def __repr__(self) -> str:
        return f"LiveAgreement({len(self.label)} tasks, {len(self.agreement)} workers)"


class Aggregator:
    """Keeps the votes of every task, and how often each worker agreed with the majority so far."""

    def __init__(self, world: World, element: Element) -> None:
        self.votes: dict[_Source, list[int]] = {}
        self.truth: dict[_Source, int] = {}
        self.agreed: dict[_Source, list[float]] = {}
        self.kinds: dict[str, str] = {}

    def start(self) -> None:
        """Wait for labels."""

    def receive(self, connection: Connection, source: int, message: Answer) -> None:
        """Compare a label with the majority so far, and count it."""
        refuse_weight(connection)
        sender = connection.source.element
        worker, task = _Source(sender.path, source), _Source(message.tasks.path, message.row)
        self.kinds[worker.path] = sender.cls.name
        known = self.agreed.setdefault(worker, [0.0, 0.0])
        votes = self.votes.get(task)
        if votes is None:
            votes = self.votes[task] = [0] * int(message.tasks.options[message.row])
            self.truth[task] = int(message.tasks.truth[message.row])
        else:
            most = max(votes)
            known[0] += 1
            known[1] += (votes[message.label] == most) / votes.count(most)
        votes[message.label] += 1

    def result(self) -> LiveAgreement:
        """Return the consensus and the agreement."""
        tasks, workers = sorted(self.votes), sorted(self.agreed)
        pairs = np.array([self.agreed[one] for one in workers]).reshape(-1, 2)
        with np.errstate(invalid="ignore"):
            agreement = pairs[:, 1] / pairs[:, 0]
        return LiveAgreement(
            label=np.array([int(np.argmax(self.votes[one])) for one in tasks]),
            truth=np.array([self.truth[one] for one in tasks]),
            n_compared=pairs[:, 0].astype(np.int64),
            agreement=agreement,
            worker_path=np.array([one.path for one in workers]),
            worker_row=np.array([one.row for one in workers]),
            worker_kind=np.array([self.kinds[one.path] for one in workers]),
        )


AGGREGATOR = element_class("aggregator", receives=("label",))(Aggregator)

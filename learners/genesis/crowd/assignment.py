"""Tasks, and the desk that asks workers for their labels.

`connect /tasks to /worker -weight .5` asks every worker of the target for each task with
probability .5. A `desk` in between asks a fixed number of different workers for each task, drawn
from all its connections in proportion to `activity` and the weights. A desk takes every task, and a
recorder every label: there a weight other than 1 is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from learners.genesis.core import Connection, Element, World, element_class

__all__ = ["DESK", "TASK", "Items", "refuse_weight"]

MAX_SCORES = 4_000_000  # of workers for tasks, drawn at a time: 32 MB
MAX_OPTIONS = 1000


class Items(NamedTuple):
    """Tasks that are offered: the element, its rows, and the worker asked for each if that is fixed."""

    tasks: Task
    rows: np.ndarray
    workers: np.ndarray | None

    def part(self) -> tuple[int, ...]:
        """Return what a random key needs beside the tasks' path: the first row, unless it is 0."""
        return tuple(self.rows[:1].tolist()) if self.rows[:1].any() else ()


class Task:
    """Offers its tasks at time 0 to all that it is connected to.

    Parameters
    ----------
    world, element
        As for every behaviour.

    Raises
    ------
    ValueError
        If a truth is not one of the options, there are fewer than 2 or more than 1,000 of these, or one of
        these numbers is not whole.
    """

    def __init__(self, world: World, element: Element) -> None:
        self.world, self.element, self.path = world, element, element.path
        self.truth, self.options = (_whole(element, name) for name in ("truth", "options"))
        self.clarity = element.values["clarity"].copy()
        for row in np.flatnonzero(~np.isfinite(self.clarity)):
            raise ValueError(
                f"clarity of {self.path}[{row}] must be finite, got {self.clarity[row]}"
            )
        if not ((self.options >= 2) & (self.options <= MAX_OPTIONS)).all():
            raise ValueError(f"options of {self.path} must be in [2, {MAX_OPTIONS}]")
        if not ((self.truth >= 0) & (self.truth < self.options)).all():
            raise ValueError(
                f"truth of {self.path} must be one of its options 0 to {self.options.max() - 1}, got "
                f"{self.truth.min()} to {self.truth.max()}"
            )

    def start(self) -> None:
        """Offer the tasks."""
        for connection, to in self.world.receivers(self.element):
            rows = np.array(connection.source.rows)
            for part in np.split(rows, len(rows)) if connection.pairs else [rows]:
                here, items = connection.of_row(int(part[0])), Items(self, part, None)
                self.world.schedule(here.delay, to.receive, here, -1, items)

    def receive(self, connection: Connection, source: int, message: Any) -> None:
        """Take nothing."""


def _whole(element: Element, name: str) -> Int[np.ndarray, " rows"]:
    """Return a field as whole numbers, or raise ValueError."""
    values = element.values[name]
    broken = np.flatnonzero(~(np.isfinite(values) & (values == np.floor(values))))
    if broken.size:
        row = int(broken[0])
        raise ValueError(
            f"{name} of {element.path}[{row}] must be a whole number, got {values[row]}"
        )
    return np.asarray(values.astype(np.int64))


TASK = element_class(
    "task", fields={"truth": 0.0, "clarity": 1.0, "options": 2.0}, emits="item"
)(Task)  # fmt: skip


class Desk:
    """Asks `labels` different workers for each task.

    Raises
    ------
    ValueError
        If it has several rows, or `labels` is not a whole number.
    """

    def __init__(self, world: World, element: Element) -> None:
        if element.size > 1:
            raise ValueError(
                f"{element.path} must be one desk, got {element.size} rows; create one for each number of "
                "labels"
            )
        self.world, self.element = world, element
        self.n_labels = int(_whole(element, "labels")[0])

    def start(self) -> None:
        """Wait for tasks."""

    def receive(self, connection: Connection, source: int, message: Items) -> None:
        """Draw the workers of the tasks offered, and ask them.

        Raises
        ------
        ValueError
                If there are fewer workers than labels are asked for, or others than workers.
        """
        refuse_weight(connection)
        to = self.world.receivers(self.element)
        weights: dict[tuple[int, int], tuple[int, float]] = {}
        for place, (one, _) in enumerate(to):
            for row in one.target.rows:  # one worker, however many connections lead to her
                first, known = weights.get((id(one.target.element), row), (place, 0.0))
                weights[id(one.target.element), row] = first, known + one.weight
        workers = [(place, row) for (_, row), (place, _) in weights.items()]
        if not 1 <= self.n_labels <= len(workers):
            raise ValueError(
                f"labels of {self.element.path} must be in [1, {len(workers)}], the number of workers that "
                f"it is connected to, got {self.n_labels}"
            )
        active = [_activity(one, behaviour) for one, behaviour in to]
        activity = np.array([active[place][row] for place, row in workers])
        weight = np.array([known for _, known in weights.values()])
        rng = self.world.random(self.element, "workers", message.tasks.path, *message.part())
        chosen = _draw(len(message.rows), activity * weight, self.n_labels, rng)
        place_of = np.array([place for place, _ in workers])
        row_of = np.array([row for _, row in workers])
        for place, (one, behaviour) in enumerate(to):
            task, k = np.nonzero(place_of[chosen] == place)
            items = Items(message.tasks, message.rows[task], row_of[chosen[task, k]])
            if len(task):
                later = self.world.time + one.delay
                self.world.schedule(later, behaviour.receive, one, -1, items)


def refuse_weight(connection: Connection) -> None:
    """Raise ValueError for a weight other than 1 to an element that takes everything it is sent."""
    if connection.weight != 1:
        raise ValueError(
            f"weight of {connection.source} to {connection.target} must be 1, for a"
            f" {connection.target.element.cls.name} takes all that it is sent, got {connection.weight}"
        )


def _activity(connection: Connection, behaviour: Any) -> np.ndarray:
    """Return the activity of an element's rows, with what a persona shares."""
    element = connection.target.element
    found = getattr(behaviour, "activity", element.values.get("activity"))
    if found is None:
        raise ValueError(
            f"a desk must be connected to workers, got {element.path} ({element.cls.name})"
        )
    return np.asarray(found)


def _draw(
    n_tasks: int, activity: np.ndarray, n_labels: int, rng: np.random.Generator
) -> np.ndarray:
    """Return different workers for each task: [tasks, labels], in proportion to their activity."""
    if not (activity >= 0).all() or np.count_nonzero(activity) < n_labels:
        raise ValueError(f"activity must be >= 0, and above 0 for {n_labels} workers or more")
    with np.errstate(divide="ignore"):
        log_activity = np.log(activity)
    parts = []
    chunk = max(MAX_SCORES // len(activity), 1)
    for first in range(0, n_tasks, chunk):
        size = min(chunk, n_tasks - first)
        score = log_activity + rng.gumbel(size=(size, len(activity)))
        # copied: a view would keep the whole table of scores' places alive
        parts.append(np.argpartition(-score, n_labels - 1, axis=1)[:, :n_labels].copy())
    return np.concatenate(parts)


DESK = element_class("desk", fields={"labels": 3.0}, emits="item", receives=("item",))(Desk)

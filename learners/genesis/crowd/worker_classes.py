"""Workers: evidence that races to a bound, fatigue, lapses, and answers copied from others.

A row of a `worker` element is one worker. She takes the tasks that she is asked one after the
other, with pauses of mean `gap`; her decision is that of :mod:`learners.genesis.crowd.decisions`
with drift x clarity for the true option. Fatigue is a conductance that each decision opens by
`fatigue`, that closes with time constant `recovery`, and that shunts the drift. `connect /a to /b
-weight p -delay d` sends a's answers to b d seconds later, and b gives each of them as her own with
probability p, if she was asked for that task or takes tasks unasked.

Variants are personas; a `persona` element linked to workers shares with them the parameters that it sets.
"""

from __future__ import annotations

from collections import deque
from math import exp
from typing import NamedTuple

import numpy as np

from learners.genesis.core import Connection, Element, World, element_class, key_of, variant
from learners.genesis.crowd.assignment import MAX_OPTIONS, Items, Task
from learners.genesis.crowd.decisions import decide_once

__all__ = ["PARAMETERS", "PERSONA", "WORKER", "Answer"]

PARAMETERS = {
    "drift": 1.6, "bound": 1.0, "noise": 0.5, "leak": 0.2, "inhibition": 0.2, "base": 0.5,
    "relative": 0.0, "bias": 0.0, "favourite": -1.0, "t0": 0.3, "deadline": 60.0, "lapse": 0.0,
    "rt": 0.0, "fatigue": 0.0, "recovery": 600.0, "gap": 5.0, "activity": 1.0, "unasked": 0.0,
    "slip": 0.0, "copy_time": 0.3,
}  # fmt: skip
UNIT = 2.0**-64
TINY = np.finfo(float).tiny
LARGEST = 1e100  # so that sums and products of some of them are finite too
RANGES = (
    (("bound", "recovery", "deadline"), "> 0", TINY, np.inf),
    (("noise",), "> 0 and finite", TINY, LARGEST),
    (("gap", "t0", "rt", "fatigue", "copy_time", "leak", "inhibition", "activity"),
     ">= 0 and finite", 0.0, LARGEST),
    (("drift", "base", "bias"), "finite", -LARGEST, LARGEST),
    (("favourite",), "-1 or an option", -1.0, MAX_OPTIONS),
    (("lapse", "slip"), "in [0, 1]", 0.0, 1.0),
)  # fmt: skip


class Answer(NamedTuple):
    """A label that a worker has given: when, and how long it took her."""

    tasks: Task
    row: int
    label: int
    time: float
    seconds: float


class Worker:
    """Answers the tasks that she is asked, and those that she copies.

    Parameters
    ----------
    world, element
        As for every behaviour.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(self, world: World, element: Element) -> None:
        self.world, self.element, self.path = world, element, element.path
        self.p = {name: element.values[name].copy() for name in PARAMETERS}
        for link in world.links_to(element):
            for name in PARAMETERS:
                shared = link.source.element.values[name][link.source.start : link.source.stop]
                rows = self.p[name][link.target.start : link.target.stop]
                np.copyto(rows, shared, where=~np.isnan(shared))
        _check(self.p, self.path)
        self.activity = self.p["activity"]
        n = element.size
        self.asked: list[dict[tuple[str, int], Task]] = [{} for _ in range(n)]
        self.queue: list[deque[tuple[Task, int]]] = [deque() for _ in range(n)]
        self.done: list[set[tuple[str, int]]] = [set() for _ in range(n)]
        self.is_busy = [False] * n
        self.tired = [0.0] * n
        self.rested_at = [0.0] * n

    def start(self) -> None:
        """Wait to be asked."""

    def receive(self, connection: Connection, source: int, message: Items | Answer) -> None:
        """Take tasks to answer, or what another worker has answered."""
        is_chance = isinstance(message, Answer) or message.workers is None
        if is_chance and not 0 <= connection.weight <= 1:
            raise ValueError(
                f"weight of {connection.source} to {connection.target} must be a probability, in [0, 1],"
                f" got {connection.weight}"
            )
        if isinstance(message, Answer):
            self._hear(connection, source, message)
        elif message.workers is not None:
            order = np.argsort(message.workers, kind="stable")
            workers, starts = np.unique(message.workers[order], return_index=True)
            for w, rows in zip(workers, np.split(message.rows[order], starts[1:]), strict=True):
                self._ask(int(w), message.tasks, rows)
        else:
            for w in connection.target.rows:
                rng = self.world.random(
                    self.element, "asked", message.tasks.path, w, *message.part()
                )
                rows = message.rows[rng.random(len(message.rows)) < connection.weight]
                self._ask(w, message.tasks, rows)

    def _ask(self, w: int, tasks: Task, rows: np.ndarray) -> None:
        """Put tasks into a worker's queue, in an order of her own."""
        if not len(rows):
            return
        if self.p["relative"][w] and (tasks.options[rows] != 2).any():
            raise ValueError(
                f"relative of {self.path} must be 0 where tasks have other than 2 options"
            )
        rng = self.world.random(self.element, "order", tasks.path, w)
        for row in rng.permutation(rows).tolist():
            self.asked[w][tasks.path, row] = tasks
            self.queue[w].append((tasks, row))
        if not self.is_busy[w]:
            self._pause(w)

    def _uniform(self, *purpose: object) -> float:
        """Return a number in [0, 1) that depends on the purpose alone."""
        return key_of(self.world.entropy, self.path, *purpose) * UNIT

    def _pause(self, w: int) -> None:
        """Let her take her next task after an exponential pause; she needs as many as she answers."""
        self.is_busy[w] = True
        u = self._uniform("pause", w, len(self.queue[w]), len(self.done[w]))
        pause = -float(self.p["gap"][w]) * float(np.log1p(-u))
        self.world.schedule(self.world.time + pause, self._take, w)

    def _take(self, w: int) -> None:
        """Decide on the next task of her queue that she has not answered."""
        queue, done = self.queue[w], self.done[w]
        while queue:
            tasks, row = queue.popleft()
            if (tasks.path, row) not in done:
                break
        else:
            self.is_busy[w] = False
            return
        done.add((tasks.path, row))
        label, seconds = self._decide(w, tasks, row)
        self.world.schedule(
            self.world.time + seconds, self._give, w, tasks, row, label, seconds, True
        )

    def _decide(self, w: int, tasks: Task, row: int) -> tuple[int, float]:
        """Return a label and its seconds."""
        p, options = self.p, int(tasks.options[row])
        self.tired[w] *= exp(-(self.world.time - self.rested_at[w]) / float(p["recovery"][w]))
        self.rested_at[w] = self.world.time
        drift = float(p["drift"][w]) * float(tasks.clarity[row]) / (1.0 + self.tired[w])
        label, seconds = decide_once(
            key_of(self.world.entropy, self.path, w, tasks.path, row), options, int(tasks.truth[row]),
            drift, int(p["favourite"][w]), float(p["bias"][w]), float(p["base"][w]),
            float(p["bound"][w]), float(p["noise"][w]), float(p["leak"][w]),
            float(p["inhibition"][w]), bool(p["relative"][w]), float(p["deadline"][w]),
        )  # fmt: skip
        self.tired[w] += float(p["fatigue"][w])
        if p["lapse"][w] and self._uniform("lapse", w, tasks.path, row) < p["lapse"][w]:
            label = int(self._uniform("guess", w, tasks.path, row) * options)
        fixed = float(p["rt"][w])
        return label, fixed if fixed else seconds + float(p["t0"][w])

    def _give(
        self, w: int, tasks: Task, row: int, label: int, seconds: float, goes_on: bool
    ) -> None:
        """Give a label to all who listen."""
        answer = Answer(tasks, row, label, self.world.time, seconds)
        self.world.send(self.element, w, answer)
        if goes_on:
            self._pause(w)

    def _hear(self, connection: Connection, source: int, answer: Answer) -> None:
        """Give another's answer as one's own, with the probability that is the connection's weight."""
        task = (answer.tasks.path, answer.row)
        sender = connection.source.element
        for w in connection.target.rows:  # she who answered has done the task
            if task in self.done[w] or not (self.p["unasked"][w] or task in self.asked[w]):
                continue
            purpose = (w, *task, sender.path, source)
            if self._uniform("copy", *purpose) >= connection.weight:
                continue
            self.done[w].add(task)
            label, options = answer.label, int(answer.tasks.options[answer.row])
            if self.p["slip"][w] and self._uniform("slip", *purpose) < self.p["slip"][w]:
                label = (label + 1 + int(self._uniform("to", *purpose) * (options - 1))) % options
            seconds = float(self.p["copy_time"][w])
            later = self.world.time + seconds
            self.world.schedule(
                later, self._give, w, answer.tasks, answer.row, label, seconds, False
            )


def _check(p: dict[str, np.ndarray], path: str) -> None:
    """Raise ValueError for a parameter out of its range."""
    for names, sentence, least, most in RANGES:
        for name in names:
            wrong = ~((p[name] >= least) & (p[name] <= most))
            if name == "favourite":
                wrong |= p[name] != np.floor(p[name])
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise ValueError(f"{name} of {path}[{row}] must be {sentence}, got {p[name][row]}")


WORKER = element_class(
    "worker",
    fields=PARAMETERS,
    inputs=("PARAMETERS",),
    emits="label",
    receives=("item", "label"),
)(Worker)
variant("honest", WORKER)
variant("hasty", WORKER, bound=0.25)
variant("spammer", WORKER, drift=0.0, bound=0.25)
variant("biased", WORKER, bias=1.2, favourite=0.0)
variant("fatigued", WORKER, fatigue=0.05)
variant("copier", WORKER, drift=0.3, bound=0.5)
variant("sybil", WORKER, unasked=1.0)
variant("bot", WORKER, drift=0.0, rt=0.5)
PERSONA = element_class(
    "persona",
    fields=dict.fromkeys(PARAMETERS, float("nan")),
    outputs={"PARAMETERS": tuple(PARAMETERS)},
)(None)

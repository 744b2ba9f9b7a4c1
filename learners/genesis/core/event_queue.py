"""The half of a simulation that acts on events: a heap of scheduled actions, and the behaviours that act.

Behaviours begin in the order of their paths, and events of the same time happen in the order in
which they were scheduled, so that the order in which elements were made has no influence. Random
numbers are a function of the simulation's entropy, an element's path and their purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any

import numpy as np

from learners.genesis.core.element_classes import Behaviour
from learners.genesis.core.elements import Element, Tree
from learners.genesis.core.wiring import Connection, Link, Wiring

__all__ = ["World", "key_of"]

Receiver = tuple[Connection, Behaviour]


def key_of(entropy: int, *words: object) -> int:
    """Return a number of 64 bits that depends on every word alone.

    >>> key_of(1, "/pool", 3) == key_of(1, "/pool", 3) != key_of(2, "/pool", 3)
    True
    """
    text = "\0".join(map(str, (entropy, *words)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class World:
    """The world as a behaviour sees it: time, its element's connections, random numbers, and the schedule.

    Parameters
    ----------
    tree, wiring
        What is simulated.
    entropy
        Seed of all random numbers.
    """

    def __init__(self, tree: Tree, wiring: Wiring, entropy: int) -> None:
        self.entropy = entropy
        self.time = 0.0
        self.n_events = 0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        acting = [e for e in tree.root.subtree() if e.cls.behaviour is not None]
        acting.sort(key=lambda element: element.path)
        self._links = sorted(wiring.links, key=lambda one: (str(one.source), str(one.target)))
        self._connections = sorted(
            wiring.connections,
            key=lambda one: (str(one.source), str(one.target), one.delay, one.weight, one.pairs),
        )
        self._behaviours: dict[int, Behaviour] = {}
        for element in acting:
            if element.cls.behaviour is not None:
                self._behaviours[id(element)] = element.cls.behaviour(self, element)
        self._elements = acting
        self._receivers: dict[int, list[Receiver]] = {}
        for one in self._connections:
            to = self._behaviours.get(id(one.target.element))
            if to is not None:
                self._receivers.setdefault(id(one.source.element), []).append((one, to))

    def start(self) -> None:
        """Let every behaviour schedule its first events."""
        for element in self._elements:
            self._behaviours[id(element)].start()

    def behaviour(self, element: Element) -> Any:
        """Return the behaviour of an element."""
        return self._behaviours[id(element)]

    def receivers(self, element: Element) -> list[Receiver]:
        """Return the connections from an element, each with the behaviour that it leads to."""
        return self._receivers.get(id(element), [])

    def links_to(self, element: Element) -> list[Link]:
        """Return the links to an element."""
        return [one for one in self._links if one.target.element is element]

    def random(self, element: Element, *purpose: object) -> np.random.Generator:
        """Return the random numbers of an element and a purpose; the same for every call."""
        return np.random.default_rng(key_of(self.entropy, element.path, *purpose))

    def schedule(self, time: float, act: Callable[..., None], *arguments: Any) -> None:
        """Schedule `act(*arguments)` for a time, or for now if that is past."""
        self.n_events += 1
        heappush(self._queue, (max(time, self.time), self.n_events, act, arguments))

    def send(self, element: Element, row: int, message: Any) -> None:
        """Send a message along every connection from a row, each with its delay."""
        for connection, to in self._receivers.get(id(element), ()):
            if not connection.source.start <= row < connection.source.stop:
                continue
            here = connection.of_row(row)
            if here.delay:
                self.schedule(self.time + here.delay, to.receive, here, row, message)
            else:
                to.receive(here, row, message)

    def advance(self, until: float) -> None:
        """Carry out all that is due up to a time."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.time, _, act, arguments = heappop(queue)
            act(*arguments)
        if until != float("inf"):
            self.time = max(self.time, until)

    @property
    def n_waiting(self) -> int:
        """The number of events that are yet to happen."""
        return len(self._queue)

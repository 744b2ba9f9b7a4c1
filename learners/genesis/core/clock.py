"""The clocked half of a simulation: every step reads the values of time t and then writes those of t + dt.

A step delivers the events that are due and then goes through the phases of the classes. Within a
phase every class computes its new values before any of them is written; a later phase sees them.
Gates are an earlier phase than the membrane they open, which makes the scheme staggered, and so of
second order for one compartment.
"""

from __future__ import annotations

from itertools import groupby
from math import ceil

import numpy as np

from learners.genesis.core.blocks import Block, Spikes, compile_blocks
from learners.genesis.core.elements import Element, Tree
from learners.genesis.core.wiring import Wiring
from quality.parallel import kernel

__all__ = ["Clock", "SpikeTrain"]


class SpikeTrain:
    """The times of an element's events, row by row."""

    __slots__ = ("rows", "times")

    def __init__(self) -> None:
        self.times: list[float] = []
        self.rows: list[int] = []


class Clock:
    """Steps of all clocked elements.

    Parameters
    ----------
    tree, wiring
        What is simulated; call :meth:`compile` after either has changed.
    """

    def __init__(self, tree: Tree, wiring: Wiring) -> None:
        self.tree, self.wiring = tree, wiring
        self.dt = 0.01
        self.every: dict[str, int] = {}  # steps between two of a class, where not 1
        self.n_steps = 0
        self.blocks: list[Block] = []
        self.trains: dict[int, SpikeTrain] = {}
        self._phases: list[list[tuple[Block, int]]] = []
        self._rings: list[Spikes] = []

    @property
    def time(self) -> float:
        """The time that the steps have reached."""
        return self.n_steps * self.dt

    def set_time(self, time: float) -> None:
        """Go to the first step at a time or after it; raise ValueError where steps cannot be counted."""
        steps = time / self.dt
        if not steps < float("inf"):
            raise ValueError(f"times must be a finite number of steps of {self.dt:g}, got {time:g}")
        self.n_steps = ceil(steps)

    def compile(self) -> None:
        """Gather the elements into blocks; events under way are lost."""
        self.blocks = compile_blocks(self.tree, self.wiring, self.dt)
        self._rings = [spikes for block in self.blocks for spikes in block.spikes]
        timed = [(block, self.every.get(block.cls.base, 1)) for block in self.blocks]
        phases = groupby(timed, key=lambda one: one[0].cls.phase)
        self._phases = [list(group) for _, group in phases]

    def reset(self) -> None:
        """Return to time 0: each class to its initial values, later phases first."""
        self.n_steps = 0
        self.trains = {}
        for spikes in self._rings:
            spikes.ring[:] = 0.0
        for block in reversed(self.blocks):
            block.arrived.fill(0.0)
            if block.cls.reset is not None:
                for name, value in block.cls.reset(block, self.dt).items():
                    block.values[name][:] = value

    def step(self) -> None:
        """Go from t to t + dt."""
        for spikes in self._rings:
            due = spikes.ring[self.n_steps % len(spikes.ring)]
            spikes.target.arrived += due
            due.fill(0.0)
        for phase in self._phases:
            new = [
                (block, block.cls.process(block, self.dt * every))
                for block, every in phase
                if block.cls.process is not None and self.n_steps % every == 0
            ]
            for block, values in new:
                block.arrived.fill(0.0)  # until then they wait for a class that steps less often
                for name, value in values.items():
                    block.values[name][:] = value
                if "fired" in values:
                    self._send(block)
        self.n_steps += 1

    def _send(self, block: Block) -> None:
        """Put the events of the rows that fired into the rings, and note their times."""
        fired = np.flatnonzero(block.values["fired"])
        if not len(fired):
            return
        for spikes in block.spikes:
            _put(
                fired,
                self.n_steps + 1,
                spikes.start,
                spikes.row,
                spikes.steps,
                spikes.weight,
                spikes.ring,
            )
        after = self.time + self.dt
        for row in fired:
            element, inside = _owner(block, int(row))
            train = self.trains.setdefault(id(element), SpikeTrain())
            train.times.append(after)
            train.rows.append(inside)


def _owner(block: Block, row: int) -> tuple[Element, int]:
    """Return the element that a row belongs to, and its row there."""
    starts = list(block.first.values())
    place = int(np.searchsorted(starts, row, side="right")) - 1
    return block.elements[place], row - starts[place]


@kernel
def _put(
    fired: np.ndarray,
    now: int,
    start: np.ndarray,
    row: np.ndarray,
    steps: np.ndarray,
    weight: np.ndarray,
    ring: np.ndarray,
) -> None:
    """Add the weights of events to the steps in which they arrive."""
    for source in fired:
        for one in range(start[source], start[source + 1]):
            ring[(now + steps[one]) % ring.shape[0], row[one]] += weight[one]

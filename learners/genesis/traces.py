"""What is recorded of a simulation: fields at steps, and the times of events.

>>> import numpy as np
>>> Trace(np.array([0.0, 0.1]), np.array([1.0, 2.0])).value.max().item()
2.0
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from learners.genesis.core import Selection

__all__ = ["Graph", "SpikeTimes", "Trace"]


class Trace(NamedTuple):
    """What a graph has recorded: `value` has an entry, or a row, per time."""

    time: np.ndarray
    value: np.ndarray


class SpikeTimes(NamedTuple):
    """The events of an element: when, and from which of its rows."""

    time: np.ndarray
    row: np.ndarray


class Graph:
    """What is recorded of a field, every so many steps."""

    def __init__(self, selection: Selection, field: str, every: int) -> None:
        self.selection, self.field, self.every = selection, field, every
        self.times: list[float] = []
        self.values: list[np.ndarray] = []

    def sample(self, n_steps: int, time: float) -> None:
        """Record the field if it is time to."""
        if n_steps % self.every == 0:
            rows = self.selection.element.values[self.field][
                self.selection.start : self.selection.stop
            ]
            self.times.append(time)
            self.values.append(rows.copy())

    def clear(self) -> None:
        """Forget what was recorded."""
        self.times.clear()
        self.values.clear()

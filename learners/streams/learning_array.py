"""The learning array: one program of cells and nets, run over many lanes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from zipfile import BadZipFile

import numpy as np

from learners.streams.bitstream import configuration_of, write_bitstream
from learners.streams.cell_loops import run_events
from learners.streams.cells import ConfigError
from learners.streams.placement import Placement, place_and_route
from learners.streams.program import Program, compile_program

__all__ = ["FPLA", "arrays_of"]

FIRST_LANES = 16
MOST_LANES = 2**32  # more fit no memory
STATE = ("bitstream", "state", "events")


class FPLA:
    """A field-programmable learning array: cells that learn online, wired by nets, a copy for every lane.

    A *net* holds one number per event; cells that drive the same net add up, those of polarity "n" with the
    sign reversed. A *lane* is one copy of all states: of a worker, of a task. Make one by `from_config`.

    Parameters
    ----------
    config
        Keys: ``cells``, a list of mappings with ``op`` (a key of `CELLS`), ``in`` (its input nets), ``out``
        (the net it drives), ``name``, ``polarity`` ("p" or "n"), ``delay`` (read the inputs of the lane's
        last event), ``block`` (where it must be placed) and the parameters of its kind; ``io`` with
        ``inputs`` and ``outputs``; ``geometry`` (rows and columns of blocks; by default "auto", which
        grows until everything fits) and ``lines`` (of each block, 8 by default).

    Raises
    ------
    ConfigError
        If the configuration is not one; the sentence names the cell and the key.
    RoutingError
        If a geometry is given and cells, lines or inputs and outputs do not fit.

    Notes
    -----
    An input that is not finite is no event for the cells that read it: they do not learn from it.
    Parameters are rounded to single precision, which is what a bitstream holds.

    **Guarantees.** (1) `from_bitstream` undoes `bitstream`. (2) Lanes do not touch each other: the
    result for a lane is that of its own events alone. (3) A state is of fixed size for ever. (4) `restore`
    undoes `snapshot`, which is an ``.npz`` without pickle. (5) With ``learn=False`` no cell learns.

    References
    ----------
    Bridges, Figueroa, Hsu and Diorio, Field-Programmable Learning Arrays, NIPS 2002; its next step, blocks of
    learning primitives, as a program.

    Examples
    --------
    >>> array = FPLA.from_config({
    ...     "cells": [{"op": "cond", "in": ["agree", "has"], "out": "p", "gamma": 0.02}],
    ...     "io": {"inputs": ["agree", "has"], "outputs": ["p"]},
    ... })
    >>> array.step(0, agree=1.0, has=1.0), array.step(0, agree=0.0, has=1.0)
    ({'p': 1.0}, {'p': 0.5})
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._program = compile_program(config)
        self._placement = place_and_route(
            self._program, config.get("geometry", "auto"), config.get("lines", 8)
        )
        self._state = np.empty((0, len(self._program.start)))
        self._events = np.empty(0, np.int64)
        self._n_lanes = 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> FPLA:
        """Return a new array without lanes."""
        return cls(config)

    @classmethod
    def from_bitstream(cls, data: bytes) -> FPLA:
        """Return a new array of the configuration in a bitstream; ConfigError if it is damaged."""
        return cls(configuration_of(data))

    @classmethod
    def from_snapshot(cls, data: bytes) -> FPLA:
        """Return an array as it was when `snapshot` was called; ConfigError if it is damaged."""
        array = cls.from_bitstream(arrays_of(data, STATE)["bitstream"].tobytes())
        return array.restore(data)

    @property
    def program(self) -> Program:
        """The compiled program."""
        return self._program

    @property
    def placement(self) -> Placement:
        """Where each cell and net lies."""
        return self._placement

    @property
    def n_lanes(self) -> int:
        """One more than the largest lane that had an event."""
        return self._n_lanes

    @property
    def events(self) -> np.ndarray:
        """Number of events of each lane."""
        return self._events[: self._n_lanes].copy()

    @property
    def config_hash(self) -> str:
        """Sixteen hexadecimal digits that name the configuration, for reports."""
        return sha256(self.bitstream()).hexdigest()[:16]

    def bitstream(self) -> bytes:
        """Return the configuration as bytes: header, switches row by row, parameters, checksum."""
        return write_bitstream(self._program, self._placement)

    def partial_fit(
        self,
        lanes: np.ndarray,
        values: Mapping[str, np.ndarray] | np.ndarray,
        *,
        learn: bool = True,
    ) -> None:
        """Run events in their order, each in its lane of `lanes`.

        Parameters
        ----------
        lanes
            Whole numbers of shape (events,), at least 0.
        values
            Each input's values of shape (events,), or an array of shape (events, inputs).
        learn
            False computes without adaptation.

        Raises
        ------
        ValueError
            If shapes do not fit, an input is missing or unknown, a lane is below 0, or memory does not hold
            as many lanes as the largest number needs.
        """
        lanes = np.asarray(lanes)
        if lanes.ndim != 1 or (lanes.size and lanes.dtype.kind not in "iu"):
            raise ValueError("lanes must be a vector of whole numbers, one for each event")
        table = self._table(values, len(lanes))
        if not len(lanes):
            return
        if lanes.min() < 0:
            at = int(np.argmax(lanes < 0))
            raise ValueError(f"lanes must be >= 0, got {lanes[at]} at event {at}")
        self._grow(int(lanes.max()) + 1)
        lanes = lanes.astype(np.int64, copy=False)
        one = self._program
        nets = np.array([one.nets.index(net) for net in one.inputs], np.int64)
        run_events(
            one.rows, one.params, nets, one.kept, len(one.nets), self._state, lanes, table, learn
        )
        self._events[: self._n_lanes] += np.bincount(lanes, minlength=self._n_lanes)

    def step(self, lane: int, *, learn: bool = True, **inputs: float) -> dict[str, float]:
        """Run one event of one lane and return its outputs then."""
        columns = {name: np.array([value], float) for name, value in inputs.items()}
        self.partial_fit(np.array([lane]), columns, learn=learn)
        at = self._program.kept[:, 1]
        return dict(zip(self._program.outputs, self._state[lane, at].tolist(), strict=True))

    def read(self, net: str, lanes: np.ndarray | None = None) -> np.ndarray:
        """Return the value of an output at the last event of each lane; NaN before the first.

        Raises
        ------
        ValueError
            If `net` is no output, or a lane has not been seen.
        """
        if net not in self._program.outputs:
            raise ValueError(
                f"net must be an output ({', '.join(self._program.outputs)}), got {net!r}"
            )
        at = self._program.kept[self._program.outputs.index(net), 1]
        return np.asarray(self._state[self._seen(lanes), at])

    def cell_state(self, name: str, lanes: np.ndarray | None = None) -> np.ndarray:
        """Return the state of a cell, of shape (lanes, size of its state)."""
        names = [one.name for one in self._program.cells]
        if name not in names:
            raise ValueError(f"name must be a cell ({', '.join(names)}), got {name!r}")
        i = names.index(name)
        at, size = self._program.place[i], len(self._program.cells[i].start())
        return self._state[self._seen(lanes), at : at + size].copy()

    def state_frame(self) -> dict[str, np.ndarray]:
        """Return columns with an entry per lane: lane, events, and each output; pandas.DataFrame takes it.

        An output that is itself named "lane" or "events" is the column "output lane" or "output events".
        """
        found = {"lane": np.arange(self._n_lanes), "events": self.events}
        for net in self._program.outputs:
            found[f"output {net}" if net in ("lane", "events") else net] = self.read(net)
        return found

    def snapshot(self) -> bytes:
        """Return configuration and state of all lanes as an ``.npz`` file in memory, without pickle."""
        file = io.BytesIO()
        np.savez(
            file,
            allow_pickle=False,
            bitstream=np.frombuffer(self.bitstream(), np.uint8),
            state=self._state[: self._n_lanes],
            events=self._events[: self._n_lanes],
        )
        return file.getvalue()

    def restore(self, data: bytes) -> FPLA:
        """Take the lanes of a snapshot in place of the present ones, and return the array.

        Raises
        ------
        ConfigError
            If the snapshot is damaged or of another configuration.
        """
        arrays = arrays_of(data, STATE)
        state, events = arrays["state"], arrays["events"]
        if arrays["bitstream"].tobytes() != self.bitstream() or state.shape != (
            len(events),
            len(self._program.start),
        ):
            raise ConfigError("the snapshot must be of this array's configuration, got another's")
        self._state, self._events = state.astype(float), events.astype(np.int64)
        self._n_lanes = len(events)
        return self

    def reset(self, lanes: np.ndarray | None = None) -> None:
        """Put lanes, or all, back to before their first event."""
        seen = self._seen(lanes)
        self._state[seen] = self._program.start
        self._events[seen] = 0

    def merge(self, other: FPLA) -> FPLA:
        """Take over the lanes of another array of this configuration, and return the array.

        Raises
        ------
        ConfigError
            If the configurations differ.
        ValueError
            If a lane had events in both.
        """
        if other.bitstream() != self.bitstream():
            raise ConfigError("arrays that are merged must have the same configuration")
        n = min(self._n_lanes, other._n_lanes)
        both = np.flatnonzero((self._events[:n] > 0) & (other._events[:n] > 0))
        if both.size:
            raise ValueError(f"lanes that are merged must be disjoint, got lane {both[0]} in both")
        self._grow(other._n_lanes)
        taken = np.flatnonzero(other.events)
        self._state[taken], self._events[taken] = other._state[taken], other._events[taken]
        return self

    def adopt(self, other: FPLA, replaced: Mapping[str, np.ndarray]) -> None:
        """Take over the lanes of an array whose cells have the same names and states, but for some.

        Parameters
        ----------
        other
            The other array.
        replaced
            For each cell whose state has another form, its state here, of shape (lanes, size).
        """
        self._grow(other.n_lanes)
        n = other.n_lanes
        for one, at in zip(self._program.cells, self._program.place, strict=True):
            found = replaced.get(one.name)
            state = other.cell_state(one.name) if found is None else found
            self._state[:n, at : at + state.shape[1]] = state
        self._events[:n] = other.events

    def _table(self, values: Mapping[str, np.ndarray] | np.ndarray, n_events: int) -> np.ndarray:
        inputs = self._program.inputs
        if isinstance(values, Mapping):
            if set(values) != set(inputs):
                wrong = sorted(set(values) ^ set(inputs))
                raise ValueError(
                    f"values must name the inputs {list(inputs)}; missing or unknown: {wrong}"
                )
            table = np.empty((n_events, len(inputs)))
            for i, name in enumerate(inputs):
                column = np.asarray(values[name], float)
                if column.shape != (n_events,):
                    raise ValueError(
                        f"{name} must have a value for each of {n_events} events, got shape {column.shape}"
                    )
                table[:, i] = column
            return table
        table = np.ascontiguousarray(values, dtype=float)
        if table.shape != (n_events, len(inputs)):
            raise ValueError(
                f"values must have shape ({n_events}, {len(inputs)}), got {table.shape}"
            )
        return table

    def _grow(self, n_lanes: int) -> None:
        """Make room for lanes by doubling, so that each is moved a few times at most."""
        room = len(self._state)
        if n_lanes > room:
            more = max(n_lanes, 2 * room, FIRST_LANES) - room
            try:
                if n_lanes > MOST_LANES:
                    raise MemoryError
                fresh = np.tile(self._program.start, (more, 1))
                state = np.concatenate([self._state, fresh])
                events = np.concatenate([self._events, np.zeros(more, np.int64)])
            except MemoryError:
                raise ValueError(
                    f"lanes must be numbered without gaps: lane {n_lanes - 1} asks for the memory of "
                    f"{n_lanes} lanes, which is not there"
                ) from None
            self._state, self._events = state, events
        self._n_lanes = max(self._n_lanes, n_lanes)

    def _seen(self, lanes: np.ndarray | None) -> np.ndarray:
        if lanes is None:
            return np.arange(self._n_lanes)
        lanes = np.asarray(lanes)
        if lanes.size and lanes.dtype.kind not in "iu":
            raise ValueError(f"lanes must be whole numbers, got {lanes.dtype}")
        lanes = lanes.astype(np.int64, casting="unsafe")
        if lanes.size and not (lanes.min() >= 0 and lanes.max() < self._n_lanes):
            raise ValueError(f"lanes must be within 0 and {self._n_lanes - 1}, got {lanes}")
        return lanes


def arrays_of(data: bytes, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return the arrays of a snapshot by their names; ConfigError if it cannot be read."""
    try:
        file = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ConfigError("the snapshot must be an .npz file, got an .npy file of one array")
        with file:
            return {name: file[name] for name in names}
    except ConfigError:
        raise
    # a damaged header may also ask for an archive that is encrypted or of another kind
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile) as error:
        raise ConfigError(f"the snapshot cannot be read: {type(error).__name__}") from None

"""A configuration of the learning array, checked and compiled: cells in the order of computation.

>>> program = compile_program({"cells": [{"op": "cap", "in": ["x"], "out": "mean"}],
...                            "io": {"inputs": ["x"], "outputs": ["mean"]}})
>>> program.inputs, program.outputs, program.cells[0].name
(('x',), ('mean',), 'cap0')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from learners.streams.cells import CELLS, OPS, ConfigError

__all__ = ["PlacedCell", "Program", "compile_program"]

KEYS = {"op", "in", "out", "name", "polarity", "delay", "block"}
TOP_KEYS = {"geometry", "lines", "cells", "io"}


@dataclass(frozen=True, slots=True)
class PlacedCell:
    """One cell of a configuration, checked; parameters are as precise as the bitstream keeps them.

    Parameters
    ----------
    name
        Unique name; by default the kind and the place in the list.
    op
        Kind, a key of `CELLS`.
    inputs
        Names of its input nets.
    out
        Name of the net it drives, or None.
    sign
        +1 for polarity "p", which adds to the net, -1 for "n".
    delay
        Whether it reads what its inputs were at the lane's last event.
    block
        The block that it must be placed in, such as "p0", or None.
    params
        Values in the order of the kind's parameters.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    out: str | None
    sign: int
    delay: bool
    block: str | None
    params: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of bumps or classes; 1 for other kinds."""
        names = tuple(CELLS[self.op].parameters)
        return int(self.params[names.index("K")]) if "K" in names else 1

    def parameter(self, name: str) -> float:
        """Return the value of a parameter."""
        return self.params[tuple(CELLS[self.op].parameters).index(name)]

    def start(self) -> list[float]:
        """Return the state of a lane before its first event."""
        k = self.size
        if self.op == "bump":
            at = self.parameter("start")
            spread = self.parameter("width")
            points = [at + spread * (2 * i - k + 1) for i in range(k)]
            widths, shares = [spread] * k, [1 / k] * k
            return [0.0, *points, *widths, *shares, *[0.0] * int(self.parameter("warm"))]
        return {
            "cap": [0.0, 0.0],
            "fg": [self.parameter("start") if self.op == "fg" else 0.0],
            "cond": [0.0, self.parameter("start") if self.op == "cond" else 0.0],
            "regr": [0.0, 0.0],
            "cusum": [0.0] * 4,
            "table": [0.0] * k + [1 / k] * k * k,
            "evidence": [0.0] * 7,
        }.get(self.op, [])


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled configuration.

    Parameters
    ----------
    cells
        The cells in the order of the configuration.
    inputs, outputs
        Names of the nets that events set, and that are kept for reading.
    nets
        Names of all nets.
    rows, params
        What the loops read: a row for each cell in the order of computation.
    kept
        For each output its net and its place in the state.
    start
        State of a lane before its first event.
    place
        Where each cell's state begins, in the order of the configuration.
    """

    cells: tuple[PlacedCell, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nets: tuple[str, ...]
    rows: np.ndarray
    params: np.ndarray
    kept: np.ndarray
    start: np.ndarray
    place: tuple[int, ...]


def compile_program(config: Mapping[str, Any]) -> Program:
    """Check a configuration and return its program.

    Raises
    ------
    ConfigError
        If a key, a kind, a net or a parameter is unknown or out of range, a net that is read is driven by
        nothing, or nets form a cycle without a cell that has ``delay``.
    """
    _refuse_unknown(config, TOP_KEYS, "the configuration")
    given = config.get("cells")
    if not isinstance(given, Sequence) or not given:
        raise ConfigError("a configuration must have a list of at least one cell, under cells")
    cells = tuple(_cell(one, i) for i, one in enumerate(given))
    names = [one.name for one in cells]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"names of cells must be unique, got {twice!r} twice")
    io = config.get("io", {})
    _refuse_unknown(io, {"inputs", "outputs"}, "io")
    inputs, outputs = (_nets(io.get(key, ()), f"{key} of io") for key in ("inputs", "outputs"))
    driven = {*inputs, *(one.out for one in cells if one.out is not None)}
    _refuse_undriven(cells, outputs, driven)
    nets = tuple(dict.fromkeys([*inputs, *(one.out for one in cells if one.out is not None)]))
    return _program(cells, inputs, outputs, nets, _order(cells))


def _refuse_unknown(given: Any, known: set[str], where: str) -> None:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where} must be a mapping of keys to values, got {given!r}")
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigError(f"{where} has no key {unknown[0]!r}; its keys are {sorted(known)}")


def _nets(given: Any, where: str) -> tuple[Any, ...]:
    """Return a list of nets as a tuple; a net is a name or a whole number."""
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    if not (is_list and all(isinstance(one, str | int) for one in given)):
        raise ConfigError(f"{where} must be a list of names of nets, got {given!r}")
    return tuple(given)


def _cell(given: Any, index: int) -> PlacedCell:
    if not isinstance(given, Mapping):
        raise ConfigError(f"cell {index} must be a mapping of keys to values, got {given!r}")
    op = given.get("op")
    if not isinstance(op, str) or op not in CELLS:
        raise ConfigError(f"cell {index} must have an op out of {list(CELLS)}, got {op!r}")
    kind = CELLS[op]
    name = str(given.get("name", f"{op}{index}"))
    _refuse_unknown(given, KEYS | set(kind.parameters), f"cell {name!r}")
    inputs = _nets(given.get("in", ()), f"in of cell {name!r}")
    if len(inputs) != kind.n_inputs:
        raise ConfigError(f"cell {name!r} takes {kind.n_inputs} inputs, got {list(inputs)}")
    polarity = given.get("polarity", "p")
    if polarity not in ("p", "n"):
        raise ConfigError(f'polarity of cell {name!r} must be "p" or "n", got {polarity!r}')
    delay = bool(given.get("delay", False))
    if delay and not kind.stateful:
        raise ConfigError(f"cell {name!r} keeps no state, so that it cannot have a delay")
    params = []
    for key, known in kind.parameters.items():
        value = given.get(key, known.default)
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, int | float) or value not in known:
            raise ConfigError(f"{key} of cell {name!r} must be {known}, got {value!r}")
        with np.errstate(over="ignore", under="ignore"):
            rounded = float(np.float32(value))
        if rounded not in known:  # a bitstream's value must be valid when read back
            raise ConfigError(
                f"{key} of cell {name!r} must be {known} in single precision too, got {value!r}"
            )
        params.append(rounded)
    out, block = given.get("out"), given.get("block")
    if out is not None:
        _nets([out], f"out of cell {name!r}")
    if not isinstance(block, str | None):
        raise ConfigError(f"block of cell {name!r} must be a name such as 'p0', got {block!r}")
    sign = 1 if polarity == "p" else -1
    return PlacedCell(name, op, inputs, out, sign, delay, block, tuple(params))


def _refuse_undriven(cells: Sequence[PlacedCell], outputs: Sequence[str], driven: set[str]) -> None:
    for one in cells:
        for net in one.inputs:
            if net not in driven:
                raise ConfigError(
                    f"input {net!r} of cell {one.name!r} is driven by nothing; name it under io.inputs or "
                    "let a cell drive it"
                )
    for net in outputs:
        if net not in driven:
            raise ConfigError(f"output {net!r} is driven by nothing")


def _order(cells: Sequence[PlacedCell]) -> list[int]:
    """Return the places of the cells in an order in which each comes after all that drive its inputs."""
    drivers: dict[str, list[int]] = {}
    for i, one in enumerate(cells):
        if one.out is not None:
            drivers.setdefault(one.out, []).append(i)
    needs = {
        i: [] if one.delay else [d for net in one.inputs for d in drivers.get(net, [])]
        for i, one in enumerate(cells)
    }
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = " <- ".join(cells[i].name for i in error.args[1])
        raise ConfigError(
            f"cells form a cycle: {circle}; give one that keeps state delay=True"
        ) from None


def _program(
    cells: tuple[PlacedCell, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    nets: tuple[str, ...],
    order: Sequence[int],
) -> Program:
    number = {net: i for i, net in enumerate(nets)}
    start: list[float] = []
    place, before = [], []
    for one in cells:
        place.append(len(start))
        start += one.start()
        before.append(len(start) if one.delay else -1)
        start += [np.nan, np.nan] if one.delay else []
    kept = [(number[net], len(start) + i) for i, net in enumerate(outputs)]
    start += [np.nan] * len(outputs)
    width = max(1, *(len(one.params) for one in cells))
    rows, params = [], np.zeros((len(cells), width))
    for at, i in enumerate(order):
        one = cells[i]
        left, right = [*(number[net] for net in one.inputs), -1, -1][:2]
        out = -1 if one.out is None else number[one.out]
        op = OPS.index(one.op)
        rows.append((op, left, right, out, one.sign, place[i], before[i], one.size))
        params[at, : len(one.params)] = one.params
    return Program(
        cells,
        inputs,
        outputs,
        nets,
        np.array(rows, np.int64),
        params,
        np.array(kept, np.int64).reshape(-1, 2),
        np.array(start, float),
        tuple(place),
    )

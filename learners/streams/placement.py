"""Place and route: which block each cell lies in, which line of it each net has, which switches are on.

A block has polarity "p" or "n", eight uncommitted lines, four inputs or outputs and the primitives `SLOTS`.
Any terminal of a primitive can be switched to any line, and any line of a block to any line of another.

The layout plays no part in what a program computes: it is the form in which a configuration is written down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np

from learners.streams.cells import CELLS, ConfigError
from learners.streams.program import PlacedCell, Program

__all__ = ["N_IO", "SLOT_KINDS", "Block", "Placement", "RoutingError", "place_and_route"]

SLOTS = {
    "synapse": 2, "pair": 1, "mirror": 1, "diode": 1, "bias": 1, "transistor": 3, "capacitor": 2,
}  # fmt: skip
SLOT_KINDS = tuple(kind for kind, n in SLOTS.items() for _ in range(n))
TERMINALS = 3  # terminals of a slot: two inputs and the output
N_IO = 4
INPUT, OUTPUT = 1, 2  # modes: bare connection, buffered voltage; 0 where it is unused
LARGEST = 32  # blocks along a side
MOST_LINES = 64


class RoutingError(ConfigError):
    """A configuration does not fit the geometry that it asks for."""


@dataclass(slots=True)
class Block:
    """One block while it is filled: cells by slot, nets by line, nets by input or output with their mode."""

    name: str
    slots: list[int | None] = field(default_factory=lambda: [None] * len(SLOT_KINDS))
    lines: list[str] = field(default_factory=list)
    io: list[tuple[str, int]] = field(default_factory=list)

    def free_slot(self, kind: str) -> int | None:
        """Return a free slot of a kind, or None."""
        places = (i for i, held in enumerate(self.slots) if held is None and SLOT_KINDS[i] == kind)
        return next(places, None)

    def add_lines(self, nets: list[str], n_lines: int) -> bool:
        """Give nets a line each, where they all fit."""
        new = [net for net in dict.fromkeys(nets) if net not in self.lines]
        if len(self.lines) + len(new) > n_lines:
            return False
        self.lines += new
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Blocks and switches of a placed program.

    Parameters
    ----------
    geometry
        Rows and columns of blocks.
    auto
        Whether the geometry was chosen here.
    lines
        Lines of each block.
    blocks
        The blocks, row by row; polarities alternate.
    switches
        For each block, of shape (blocks, terminals, lines): terminal on line.
    io
        Of shape (blocks, `N_IO`, lines) for the lines and (blocks, `N_IO`) for the modes.
    between
        For each pair of blocks, of shape (pairs, lines, lines).
    """

    geometry: tuple[int, int]
    auto: bool
    lines: int
    blocks: tuple[Block, ...]
    switches: np.ndarray
    io: tuple[np.ndarray, np.ndarray]
    between: np.ndarray


def place_and_route(program: Program, geometry: Any, lines: Any) -> Placement:
    """Place cells first-fit by polarity, give nets the first free lines, and set the switches.

    Raises
    ------
    ConfigError
        If `geometry` is neither "auto" nor two whole numbers within 1 and 32, or lines not within 3 and 64.
    RoutingError
        If it is given and something does not fit; the sentence names the block.
    """
    if not (isinstance(lines, Integral) and 3 <= int(lines) <= MOST_LINES):
        raise ConfigError(f"lines must be a whole number within 3 and {MOST_LINES}, got {lines!r}")
    lines = int(lines)
    if not (isinstance(geometry, str) and geometry == "auto"):
        return _switched(program, _filled(program, _sides(geometry), lines), lines, auto=False)
    sides = (2, 2)
    while True:
        try:
            filled = _filled(program, sides, lines)
        except RoutingError:
            if sides[0] >= LARGEST:
                raise
            sides = (sides[1], sides[0] + 1) if sides[0] == sides[1] else (sides[1], sides[1])
        else:
            return _switched(program, filled, lines, auto=True)


def _sides(geometry: Any) -> tuple[int, int]:
    try:
        rows, columns = geometry
    except (TypeError, ValueError):
        rows = columns = 0
    if not all(
        isinstance(side, Integral) and 1 <= int(side) <= LARGEST for side in (rows, columns)
    ):
        raise ConfigError(
            f'geometry must be "auto" or two whole numbers within 1 and {LARGEST}, got {geometry!r}'
        )
    return int(rows), int(columns)


def _filled(
    program: Program, sides: tuple[int, int], lines: int
) -> tuple[tuple[int, int], list[Block]]:
    blocks = [Block(f"{'pn'[i % 2]}{i // 2}") for i in range(sides[0] * sides[1])]
    for i, one in enumerate(program.cells):
        _place(i, one, blocks, lines)
    for nets, mode in ((program.inputs, INPUT), (program.outputs, OUTPUT)):
        for net in nets:
            _connect(net, mode, blocks, lines)
    return sides, blocks


def _place(index: int, one: PlacedCell, blocks: list[Block], lines: int) -> None:
    polarity = "p" if one.sign > 0 else "n"
    if one.block is not None and one.block not in {block.name for block in blocks}:
        raise RoutingError(
            f"cell {one.name!r} must lie in {one.block!r}, which the geometry has not"
        )
    kind = CELLS[one.op].slot
    nets = [*one.inputs, *([one.out] if one.out is not None else [])]
    why = f"no block of polarity {polarity}"
    for block in blocks:
        if block.name[0] != polarity or one.block not in (None, block.name):
            continue
        slot = block.free_slot(kind)
        if slot is None:
            why = f"block {block.name} is out of cells of kind {kind}"
        elif not block.add_lines(nets, lines):
            why = f"block {block.name} is out of lines"
        else:
            block.slots[slot] = index
            return
    raise RoutingError(f"cell {one.name!r} cannot be placed: {why}; take a larger geometry or auto")


def _connect(net: str, mode: int, blocks: list[Block], lines: int) -> None:
    """Give a net an input or output, in a block that it lies in where one is free."""
    holding = [block for block in blocks if net in block.lines]
    for block in (*holding, *blocks):
        if len(block.io) < N_IO and block.add_lines([net], lines):
            block.io.append((net, mode))
            return
    last = (holding or blocks)[-1]
    raise RoutingError(
        f"net {net!r} cannot leave the array: block {last.name} is out of inputs and outputs; take a "
        "larger geometry or auto"
    )


def _switched(
    program: Program, filled: tuple[tuple[int, int], list[Block]], lines: int, *, auto: bool
) -> Placement:
    sides, blocks = filled
    switches = np.zeros((len(blocks), TERMINALS * len(SLOT_KINDS), lines), bool)
    io_lines = np.zeros((len(blocks), N_IO, lines), bool)
    io_modes = np.zeros((len(blocks), N_IO), np.uint8)
    for b, block in enumerate(blocks):
        for slot, index in enumerate(block.slots):
            if index is None:
                continue
            one = program.cells[index]
            ends = [*enumerate(one.inputs), *([(2, one.out)] if one.out is not None else [])]
            for terminal, net in ends:
                switches[b, TERMINALS * slot + terminal, block.lines.index(net)] = True
        for k, (net, mode) in enumerate(block.io):
            io_lines[b, k, block.lines.index(net)] = True
            io_modes[b, k] = mode
    pairs = list(combinations(range(len(blocks)), 2))
    between = np.zeros((len(pairs), lines, lines), bool)
    for k, (a, b) in enumerate(pairs):
        for net in set(blocks[a].lines) & set(blocks[b].lines):
            between[k, blocks[a].lines.index(net), blocks[b].lines.index(net)] = True
    return Placement(sides, auto, lines, tuple(blocks), switches, (io_lines, io_modes), between)

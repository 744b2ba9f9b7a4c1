"""The bitstream of a placed program: a string of bytes that holds a whole configuration, and its inverse.

It holds a header, the names, the occupied slots, the switches row by row with the first bit highest, the
parameters in single precision, and a checksum (CRC-32) of all that. The wiring is read from the switches
alone.
"""

from __future__ import annotations

import json
import struct
from itertools import combinations
from typing import Any
from zlib import crc32

import numpy as np

from learners.streams.cells import CELLS, OPS, ConfigError
from learners.streams.placement import (
    INPUT,
    N_IO,
    OUTPUT,
    SLOT_KINDS,
    TERMINALS,
    Placement,
)
from learners.streams.program import Program

__all__ = ["configuration_of", "write_bitstream"]

MAGIC = b"FPLA\x01"
HEADER = struct.Struct(">5sBBBBHI")  # magic, rows, columns, lines, auto, cells, bytes of names


def write_bitstream(program: Program, placement: Placement) -> bytes:
    """Return the bytes of a placed program; the same program gives the same bytes."""
    names = {
        "cells": [[one.name, one.block, one.delay] for one in program.cells],
        "inputs": program.inputs,
        "nets": [block.lines for block in placement.blocks],
        "outputs": program.outputs,
    }
    text = json.dumps(names, separators=(",", ":"), ensure_ascii=False).encode()
    rows, columns = placement.geometry
    header = HEADER.pack(
        MAGIC, rows, columns, placement.lines, placement.auto, len(program.cells), len(text)
    )
    slots = b"".join(
        struct.pack(">HB", 0 if i is None else i + 1, 0 if i is None else OPS.index(program.cells[i].op))
        for block in placement.blocks
        for i in block.slots
    )  # fmt: skip
    io_lines, io_modes = placement.io
    bits = [placement.switches, io_lines, placement.between]
    switches = np.packbits(np.concatenate([one.ravel() for one in bits])).tobytes()
    params = np.array([p for one in program.cells for p in one.params], ">f4").tobytes()
    body = header + text + slots + switches + io_modes.tobytes() + params
    return body + struct.pack(">I", crc32(body))


def configuration_of(data: bytes) -> dict[str, Any]:
    """Return the configuration that a bitstream holds.

    Raises
    ------
    ConfigError
        If it is no bitstream, its checksum is wrong, or switches join lines that they must not join.
    """
    if len(data) < HEADER.size + 4 or data[:5] != MAGIC:
        raise ConfigError("a bitstream must begin with FPLA and its version, got other bytes")
    if crc32(data[:-4]) != struct.unpack(">I", data[-4:])[0]:
        raise ConfigError("the bitstream's checksum (CRC-32) is wrong: it is damaged")
    _, rows, columns, lines, auto, n_cells, n_text = HEADER.unpack(data[: HEADER.size])
    try:
        return _read(data[HEADER.size : -4], (rows, columns), lines, bool(auto), n_cells, n_text)
    except (ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"the bitstream cannot be read: {error}") from None


def _read(
    body: bytes, sides: tuple[int, int], lines: int, auto: bool, n_cells: int, n_text: int
) -> dict[str, Any]:
    names = json.loads(body[:n_text])
    n_blocks, at = sides[0] * sides[1], n_text
    slots = list(struct.iter_unpack(">HB", body[at : at + 3 * n_blocks * len(SLOT_KINDS)]))
    at += 3 * len(slots)
    shapes = [
        (n_blocks, TERMINALS * len(SLOT_KINDS), lines),
        (n_blocks, N_IO, lines),
        (n_blocks * (n_blocks - 1) // 2, lines, lines),
    ]
    sizes = [int(np.prod(shape)) for shape in shapes]
    n_bytes = (sum(sizes) + 7) // 8
    bits = np.unpackbits(np.frombuffer(body[at : at + n_bytes], np.uint8), count=sum(sizes))
    at += n_bytes
    parts = np.split(bits.astype(bool), np.cumsum(sizes)[:-1])
    switches, io_lines, between = (
        part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
    )
    modes = np.frombuffer(body[at : at + n_blocks * N_IO], np.uint8).reshape(n_blocks, N_IO)
    params = np.frombuffer(body[at + n_blocks * N_IO :], ">f4")
    net_of = _nets(names["nets"], between, lines)
    cells = _cells(slots, switches, net_of, names["cells"], params, n_cells)
    for mode, key in ((INPUT, "inputs"), (OUTPUT, "outputs")):
        found = {
            net_of[b][int(np.argmax(io_lines[b, k]))]
            for b, k in zip(*np.nonzero(modes == mode), strict=True)
        }
        if found != set(names[key]):
            raise ConfigError(f"the bitstream's {key} and their switches say different nets")
    io = {"inputs": names["inputs"], "outputs": names["outputs"]}
    geometry = "auto" if auto else list(sides)
    return {"geometry": geometry, "lines": lines, "cells": cells, "io": io}


def _nets(named: list[list[str]], between: np.ndarray, lines: int) -> list[list[str | None]]:
    """Return the name of each line's net: lines that switches join are one net and must have one name."""
    net_of: list[list[str | None]] = [[*block, *[None] * (lines - len(block))] for block in named]
    joined = set()
    for k, (a, b) in enumerate(combinations(range(len(named)), 2)):
        for i, j in zip(*np.nonzero(between[k]), strict=True):
            if net_of[a][i] is None or net_of[a][i] != net_of[b][j]:
                raise ConfigError(f"the bitstream joins line {i} of block {a} with another net")
            joined.add((a, b, net_of[a][i]))
    for a, b in combinations(range(len(named)), 2):
        for net in set(named[a]) & set(named[b]):
            if (a, b, net) not in joined:
                raise ConfigError(f"the bitstream leaves net {net!r} open between two blocks")
    return net_of


def _cells(
    slots: list[tuple[int, int]],
    switches: np.ndarray,
    net_of: list[list[str | None]],
    names: list[list[Any]],
    params: np.ndarray,
    n_cells: int,
) -> list[dict[str, Any]]:
    placed = {
        number - 1: (*divmod(place, len(SLOT_KINDS)), OPS[op])
        for place, (number, op) in enumerate(slots)
        if number
    }
    if sorted(placed) != list(range(n_cells)) or len(names) != n_cells:
        raise ConfigError("the bitstream's cells and its slots are not the same in number")
    found, at = [], 0
    for i, (name, pinned, delay) in enumerate(names):
        block, slot, op = placed[i]
        kind = CELLS[op]
        ends = [
            net_of[block][int(np.argmax(row))] if row.any() else None
            for row in switches[block, TERMINALS * slot : TERMINALS * (slot + 1)]
        ]
        values = params[at : at + len(kind.parameters)]
        at += len(kind.parameters)
        one = {"op": op, "name": name, "in": ends[: kind.n_inputs], "out": ends[2]}
        one |= {"polarity": "pn"[block % 2], "delay": delay, "block": pinned}
        found.append(one | dict(zip(kind.parameters, values.tolist(), strict=True)))
    return found

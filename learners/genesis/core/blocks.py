"""Elements compiled to arrays: one block per class, whose fields the elements then view.

Rows stand in the order of the elements' paths, and the messages of a row in the order of their
sources, so that nothing depends on the order in which elements were made or linked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from learners.genesis.core.element_classes import ElementClass
from learners.genesis.core.elements import Element, Tree
from learners.genesis.core.wiring import Connection, Link, Wiring

__all__ = ["Block", "Messages", "Spikes", "compile_blocks"]

MAX_RING = 100_000_000  # numbers that wait between two classes: 800 MB


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one name from one class; those of row r are ``start[r]:start[r + 1]``.

    Parameters
    ----------
    start
        One entry per row of the receiver, and the end.
    row
        The sender's row, of each message.
    fields
        The sender's arrays, one per field of the message; index them by `row`.
    """

    start: np.ndarray
    row: np.ndarray
    fields: tuple[np.ndarray, ...]


@dataclass(slots=True)
class Spikes:
    """Connections between clocked rows: those of source row r are ``start[r]:start[r + 1]``.

    `ring` holds the weights that are to arrive, by step (modulo its length) and target row.
    """

    start: np.ndarray
    row: np.ndarray
    steps: np.ndarray
    weight: np.ndarray
    target: Block
    ring: np.ndarray


@dataclass(slots=True, eq=False)
class Block:
    """All elements of a base class as arrays, a row each.

    Parameters
    ----------
    cls
        The base class.
    elements, first
        The elements by path, and the first row of each.
    values
        Arrays by field; elements hold views of them.
    messages
        What arrives, by the message's name: one entry per sending class.
    arrived
        The sum of the weights of the events that arrived at each row since the block's last step.
    spikes
        Where this block's events go.
    """

    cls: ElementClass
    elements: list[Element]
    first: dict[int, int]
    values: dict[str, np.ndarray]
    messages: dict[str, tuple[Messages, ...]] = field(default_factory=dict)
    arrived: np.ndarray = field(default_factory=lambda: np.zeros(0))
    spikes: list[Spikes] = field(default_factory=list)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    def __len__(self) -> int:
        return len(self.arrived)

    def check_positive(self, *names: str) -> None:
        """Raise ValueError unless fields are above 0 in every row."""
        for name in names:
            for element in self.elements:
                wrong = np.flatnonzero(~(element.values[name] > 0))
                if wrong.size:
                    row = int(wrong[0])
                    value = element.values[name][row]
                    raise ValueError(f"{name} of {element.path}[{row}] must be > 0, got {value}")


def compile_blocks(tree: Tree, wiring: Wiring, dt: float) -> list[Block]:
    """Return the blocks of all clocked classes, by phase and name, and let the elements view them.

    Parameters
    ----------
    tree, wiring
        The elements, their links and their connections.
    dt
        The length of the clock's step, in which delays are counted, whatever a class's own step is.
    """
    by_class: dict[str, list[Element]] = {}
    for element in tree.root.subtree():
        if element.cls.process is not None or element.cls.reset is not None:
            by_class.setdefault(element.cls.base, []).append(element)
    blocks = {name: _block(elements) for name, elements in by_class.items()}
    for block in blocks.values():
        _add_messages(block, wiring.links, blocks)
        _add_spikes(block, wiring.connections, blocks, dt)
    return sorted(blocks.values(), key=lambda block: (block.cls.phase, block.cls.name))


def _block(elements: list[Element]) -> Block:
    """Join the elements' arrays, sorted by path."""
    elements = sorted(elements, key=lambda element: element.path)
    ends = np.cumsum([element.size for element in elements])
    first = {id(e): int(end) - e.size for e, end in zip(elements, ends, strict=True)}
    cls = elements[0].cls
    values = {}
    for name in elements[0].values:
        joined = np.concatenate([element.values[name] for element in elements])
        values[name] = joined
        for element in elements:
            start = first[id(element)]
            element.values[name] = joined[start : start + element.size]
    return Block(cls, elements, first, values, arrived=np.zeros(int(ends[-1])))


def _add_messages(block: Block, links: Sequence[Link], blocks: dict[str, Block]) -> None:
    """Add the messages that the block's rows receive, by sending class."""
    for name in block.cls.inputs:
        from_class: dict[tuple[str, tuple[str, ...]], list[np.ndarray]] = {}
        for link in links:
            for is_reply, names in ((False, link.messages), (True, link.replies)):
                sender, taker = (
                    (link.target, link.source) if is_reply else (link.source, link.target)
                )
                if name not in names or id(taker.element) not in block.first:
                    continue
                kind = sender.element.cls
                fields = (kind.replies if is_reply else kind.outputs)[name]
                other = blocks[kind.base]
                rows = np.broadcast_arrays(
                    np.array(taker.rows) + block.first[id(taker.element)],
                    np.array(sender.rows) + other.first[id(sender.element)],
                )
                from_class.setdefault((kind.base, fields), []).append(np.stack(rows))
        block.messages[name] = tuple(
            _messages(np.concatenate(pairs, axis=1), len(block), blocks[base], fields)
            for (base, fields), pairs in sorted(from_class.items())
        )


def _messages(pairs: np.ndarray, n_rows: int, sender: Block, fields: tuple[str, ...]) -> Messages:
    order = np.lexsort((pairs[1], pairs[0]))
    start = np.searchsorted(pairs[0][order], np.arange(n_rows + 1))
    return Messages(start, pairs[1][order], tuple(sender.values[name] for name in fields))


def _add_spikes(
    block: Block,
    connections: Sequence[Connection],
    blocks: dict[str, Block],
    dt: float,
) -> None:
    """Add the connections that carry the block's events."""
    by_target: dict[str, list[np.ndarray]] = {}
    for one in connections:
        base = one.target.element.cls.base
        if id(one.source.element) not in block.first or base not in blocks:
            continue
        source = np.array(one.source.rows) + block.first[id(one.source.element)]
        target = np.array(one.target.rows) + blocks[base].first[id(one.target.element)]
        if not one.pairs:
            source, target = np.repeat(source, len(target)), np.tile(target, len(source))
        steps = round(one.delay / dt)
        columns = (source, target, np.full(len(source), steps), np.full(len(source), one.weight))
        by_target.setdefault(base, []).append(np.stack(columns).astype(float))
    for base, parts in sorted(by_target.items()):
        source, target, steps, weight = np.concatenate(parts, axis=1)
        order = np.lexsort((weight, steps, target, source))
        start = np.searchsorted(source[order], np.arange(len(block) + 1))
        if not (steps.max() + 1) * len(blocks[base]) <= MAX_RING:
            raise ValueError(
                f"a delay must be at most {MAX_RING // len(blocks[base]) - 1} steps of {dt:g} to"
                f" {len(blocks[base])} rows of {base}, got {int(steps.max())} steps"
            )
        ring = np.zeros((int(steps.max()) + 1, len(blocks[base])))
        block.spikes.append(
            Spikes(
                start,
                target[order].astype(np.int64),
                steps[order].astype(np.int64),
                weight[order],
                blocks[base],
                ring,
            )
        )

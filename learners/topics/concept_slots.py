"""The slots of a concept graph: nodes by level, the nodes that may follow each, and every path.

A path begins at the root and goes down to a slot of the next level (or of any lower one) until it
leaves; a slot that no document's path visits is a concept not yet found.

>>> slots = Slots.of((1, 2, 2))
>>> slots.n_nodes, slots.depth.tolist(), slots.n_atoms.tolist()
(5, [0, 1, 1, 2, 2], [3, 3, 3, 0, 0])
>>> [row[:n].tolist() for row, n in zip(*all_paths(slots)[:2])]
[[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 2, 3], [0, 2, 4]]
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

__all__ = ["MAX_PATHS", "PathTable", "Slots", "all_paths"]

MAX_PATHS = 100_000  # the block move and the likelihood visit each


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Nodes 0, 1, ... level by level; node 0 is the root.

    Parameters
    ----------
    sizes
        Slots of each level; one for the root.
    depth
        Level of each node.
    first_child
        The first node that may follow each: the first of the next level.
    n_atoms
        How many ways lead on from each node, leaving among them as the last; 0 at the lowest level,
        where every path leaves.
    """

    sizes: tuple[int, ...]
    depth: Int[np.ndarray, " nodes"]
    first_child: Int[np.ndarray, " nodes"]
    n_atoms: Int[np.ndarray, " nodes"]

    @classmethod
    def of(cls, sizes: tuple[int, ...], *, lower: bool = False) -> "Slots":
        """Lay out levels of these sizes; with `lower` a path may skip levels.

        Raises
        ------
        ValueError
            If there are more than 100,000 slots, each of which at least one path leads to.
        """
        if sum(sizes) > MAX_PATHS:
            raise ValueError(
                f"level_sizes must have at most {MAX_PATHS:,} slots in all, got {sum(sizes):,}"
            )
        start = np.concatenate([[0], np.cumsum(sizes)])
        depth = np.repeat(np.arange(len(sizes)), sizes)
        first_child = start[depth + 1]
        end = start[-1] if lower else start[np.minimum(depth + 2, len(sizes))]
        n_atoms = np.where(depth < len(sizes) - 1, end - first_child + 1, 0)
        found = cls(sizes, depth, first_child, n_atoms)
        for one in (depth, first_child, n_atoms):
            one.flags.writeable = False
        return found

    @property
    def n_nodes(self) -> int:
        """All slots."""
        return int(sum(self.sizes))

    def children(self, node: int) -> range:
        """Return the nodes that may follow a node."""
        first = int(self.first_child[node])
        return range(first, first + max(int(self.n_atoms[node]) - 1, 0))

    def level(self, depth: int) -> range:
        """Return the nodes of a level."""
        first = sum(self.sizes[:depth])
        return range(first, first + self.sizes[depth])


class PathTable(NamedTuple):
    """Every path: its nodes from the root (then -1), their number, and how many the path before shares.

    Paths of one length are consecutive, and among them those with the same beginning.
    """

    nodes: Int[np.ndarray, "paths levels"]
    length: Int[np.ndarray, " paths"]
    shared: Int[np.ndarray, " paths"]


def n_paths(slots: Slots) -> int:
    """Count the paths without listing them."""
    ways = [0] * (slots.n_nodes + 1)  # from each node or one behind it
    for node in reversed(range(slots.n_nodes)):
        below = slots.children(node)
        ways[node] = ways[node + 1] + 1 + ways[below.start] - ways[below.stop]
    return ways[0] - ways[1]


def all_paths(slots: Slots) -> PathTable:
    """List every path; raise ValueError where there are more than 100,000."""
    n = n_paths(slots)
    if n > MAX_PATHS:
        sizes = ", ".join(map(str, slots.sizes[:10])) + (", ..." if len(slots.sizes) > 10 else "")
        many = f"{n:,}" if n < 10**15 else "more than 10^15"
        raise ValueError(
            f"level_sizes must have at most {MAX_PATHS:,} paths, got ({sizes}) with {many}; use fewer"
            " slots or levels"
        )
    found = sorted(_below(slots, (0,)), key=lambda path: (len(path), path))
    nodes = np.full((len(found), len(slots.sizes)), -1, dtype=np.int32)
    shared = np.zeros(len(found), dtype=np.int64)
    before: tuple[int, ...] = ()
    for row, path in enumerate(found):
        nodes[row, : len(path)] = path
        if len(path) == len(before):
            differs = [one != other for one, other in zip(path, before, strict=True)]
            shared[row] = differs.index(True)
        before = path
    length = np.array([len(path) for path in found], dtype=np.int64)
    for one in (nodes, length, shared):
        one.flags.writeable = False
    return PathTable(nodes, length, shared)


def _below(slots: Slots, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield a path and all that go on from it."""
    left = [path]
    while left:
        path = left.pop()
        yield path
        left += [(*path, child) for child in slots.children(path[-1])]

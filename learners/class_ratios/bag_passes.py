"""Passes over bags of points that are given as blocks of rows: in this process, or wherever they lie.

What an estimator learns from bags too large for memory is a function of each block, put together in
the order of the blocks. Who runs that function on which block is not its business.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

__all__ = ["BagPasses", "Block", "Blocks", "BlocksHere"]

Block: TypeAlias = Float[np.ndarray, "_ features"]
Blocks: TypeAlias = Iterable[Block]
Found = TypeVar("Found")


@runtime_checkable
class BagPasses(Protocol):
    """Bags that can be gone over as often as need be. What `work` is must be importable by name."""

    def sizes(self) -> Int[np.ndarray, " bags"]:
        """Return the number of rows of each bag."""

    def take(self, places: Sequence[Int[np.ndarray, " _"]]) -> list[Block]:
        """Return some rows of each bag, by their ascending places in it."""

    def each(
        self, work: Callable[[Block, Any], Found], parameters: Any
    ) -> Iterator[Sequence[Found]]:
        """Return what ``work(block, parameters)`` gives of each bag's blocks, in their order."""


class BlocksHere:
    """:class:`BagPasses` over blocks that this process iterates, one after the other.

    Parameters
    ----------
    bags
        Each yields its blocks anew each time it is iterated.

    Raises
    ------
    ValueError
        If a bag can be iterated once only.

    Notes
    -----
    **Guarantees.** One block at a time is asked for, and none is kept.

    Examples
    --------
    >>> bags = BlocksHere([[np.ones((2, 1)), np.zeros((3, 1))], [np.ones((4, 1))]])
    >>> bags.sizes()
    array([5, 4])
    >>> list(bags.each(lambda block, times: times * float(block.sum()), 10))
    [[20.0, 0.0], [40.0]]
    """

    def __init__(self, bags: Sequence[Blocks]) -> None:
        for position, blocks in enumerate(bags):
            if iter(blocks) is blocks:
                raise ValueError(f"bag {position} must yield its blocks anew each time, not once")
        self._bags = bags

    def __repr__(self) -> str:
        return f"BlocksHere({len(self._bags)} bags)"

    def sizes(self) -> Int[np.ndarray, " bags"]:
        """Return the number of rows of each bag."""
        return np.array([sum(len(block) for block in blocks) for blocks in self._bags], dtype=int)

    def take(self, places: Sequence[Int[np.ndarray, " _"]]) -> list[Block]:
        """Return some rows of each bag, by their ascending places in it."""
        return [_taken(blocks, wanted) for blocks, wanted in zip(self._bags, places, strict=True)]

    def each(
        self, work: Callable[[Block, Any], Found], parameters: Any
    ) -> Iterator[Sequence[Found]]:
        """Return what ``work(block, parameters)`` gives of each bag's blocks, in their order."""
        for blocks in self._bags:
            yield [work(np.asarray(block, dtype=np.float64), parameters) for block in blocks]


def _taken(blocks: Blocks, wanted: Int[np.ndarray, " _"]) -> Block:
    """The rows at some places of one bag, gathered in one pass."""
    first, rows = 0, []
    for block in blocks:
        here = wanted[(wanted >= first) & (wanted < first + len(block))]
        rows.append(np.asarray(block, dtype=np.float64)[here - first])
        first += len(block)
    return np.concatenate(rows) if rows else np.zeros((0, 1))

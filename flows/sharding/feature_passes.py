"""Passes over bags of a feature folder: blocks are loaded and worked on by threads, or by Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int

from flows.sharding.engine import Spread
from flows.sharding.features import FeatureFolder
from learners.class_ratios.bag_passes import Block
from learners.class_ratios.kernel_matching import MOST_LANDMARKS

__all__ = ["FeaturePasses", "block_rows"]

BLOCK_CELLS = 4_000_000  # of a block's rows, and of what is made of them along every landmark
Found = TypeVar("Found")


class FeaturePasses:
    """:class:`~learners.class_ratios.bag_passes.BagPasses` over rows of a feature folder.

    Parameters
    ----------
    features
        Where the rows lie.
    bags
        First row of each bag, and the row after its last.
    spread
        Runs a function on each of several pieces of work.

    Notes
    -----
    **Guarantees.** Blocks are the same whatever runs them, and however much memory there is. This
    process loads the rows it is asked to `take`, and no others; whoever works on a block loads it.
    """

    def __init__(
        self, features: FeatureFolder, bags: Sequence[tuple[int, int]], spread: Spread
    ) -> None:
        self._features, self._bags, self._spread = features, bags, spread
        step = block_rows(features)
        self._blocks = [
            [(at, min(at + step, last)) for at in range(first, last, step)] for first, last in bags
        ]

    def __repr__(self) -> str:
        return f"FeaturePasses({len(self._bags)} bags, {sum(map(len, self._blocks))} blocks)"

    def sizes(self) -> Int[np.ndarray, " bags"]:
        """Return the number of rows of each bag."""
        return np.array([last - first for first, last in self._bags], dtype=np.int64)

    def take(self, places: Sequence[Int[np.ndarray, " _"]]) -> list[Block]:
        """Return some rows of each bag, by their ascending places in it."""
        bags = zip(self._bags, places, strict=True)
        return [self._features.take(first + wanted) for (first, _), wanted in bags]

    def each(
        self, work: Callable[[Block, Any], Found], parameters: Any
    ) -> Iterator[Sequence[Found]]:
        """Return what ``work(block, parameters)`` gives of each bag's blocks, in their order."""
        pieces = [block for blocks in self._blocks for block in blocks]
        found = iter(self._spread(_load_and_work, pieces, (self._features, work, parameters)))
        for blocks in self._blocks:
            yield list(islice(found, len(blocks)))


def block_rows(features: FeatureFolder) -> int:
    """Rows of a block: the same in every run on these features, or sums would differ by rounding."""
    return max(1, BLOCK_CELLS // (features.n_features + MOST_LANDMARKS))


def _load_and_work(
    block: tuple[int, int], parameters: tuple[FeatureFolder, Callable[[Block, Any], Found], Any]
) -> Found:
    """One block from its file, and what it comes to."""
    features, work, rest = parameters
    return work(features.rows(*block), rest)

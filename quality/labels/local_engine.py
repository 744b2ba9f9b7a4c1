"""Shards worked on in this process, by threads."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from os import cpu_count
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool

from quality.labels.shards import LabelShard, Sums, tree_total
from quality.parallel import check_threads

__all__ = ["LocalEngine"]

Found = TypeVar("Found")
Loader = Callable[[], LabelShard]


class LocalEngine:
    """An :class:`~quality.labels.shards.Engine` of threads in this process.

    Parameters
    ----------
    shards
        Shards, or functions that load them: what is to be larger than memory is loaded anew for
        every pass, one shard per thread at a time.
    threads
        At most so many; all cores if None.

    Raises
    ------
    ValueError
        If there are no shards, or no threads.

    Notes
    -----
    **Guarantees.** The same bytes on any number of threads. Between passes nothing is kept of a
    shard that was given as a function.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels.shards import cut_labels
    >>> labels = encode(["ann", "bob", "ann"], ["t2", "t1", "t1"], ["yes", "no", "no"])
    >>> engine = LocalEngine(cut_labels(labels, [0, 1, 2]))
    >>> engine.map(lambda shard, least: shard.n_labels >= least, 2)
    [True, False]
    """

    def __init__(
        self, shards: Sequence[LabelShard | Loader], *, threads: int | None = None
    ) -> None:
        if not shards:
            raise ValueError("shards must be one or more, got none")
        check_threads(threads)
        self._shards = tuple(shards)
        self._threads = min(threads or cpu_count() or 1, len(shards))

    def __repr__(self) -> str:
        return f"LocalEngine({len(self._shards)} shards, {self._threads} threads)"

    def map(self, work: Callable[[LabelShard, Any], Found], parameters: Any) -> list[Found]:
        """Return ``work(shard, parameters)`` of every shard, in the order of the shards."""
        return list(self._each(work, parameters))

    def add_up(self, work: Callable[[LabelShard, Any], Sums], parameters: Any) -> Sums:
        """Return the :func:`~quality.labels.shards.tree_total` of what `map` would return."""
        return tree_total(self._each(work, parameters))

    def keep_workers(self, keep: Bool[np.ndarray, " workers"]) -> "LocalEngine":
        """Return an engine on the same shards without the labels of the other workers."""
        kept = [
            shard.keep_workers(keep)
            if isinstance(shard, LabelShard)
            else partial(_load, shard, keep)
            for shard in self._shards
        ]
        return LocalEngine(kept, threads=self._threads)

    def _each(self, work: Callable[[LabelShard, Any], Found], parameters: Any) -> Iterator[Found]:
        """What the shards give, in order; no more of them are on the way than there are threads."""
        begun: deque[Future[Found]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            for shard in self._shards:
                begun.append(pool.submit(_work, work, shard, parameters))
                if len(begun) > self._threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()


def _work(
    work: Callable[[LabelShard, Any], Found], shard: LabelShard | Loader, parameters: Any
) -> Found:
    return work(shard if isinstance(shard, LabelShard) else shard(), parameters)


def _load(load: Loader, keep: Bool[np.ndarray, " workers"]) -> LabelShard:
    return load().keep_workers(keep)

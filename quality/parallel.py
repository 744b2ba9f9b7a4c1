"""Rows cut into chunks that threads share out: the cuts, and so the result, do not see the threads.

A kernel that adds floating-point numbers up gives other bytes when they are added in another order.
So the number of chunks depends on the data alone, each chunk adds up on its own, and the caller
adds the chunks' sums in their order.

How far a long computation has come, told to whoever wants to know.

>>> from quality import dawid_skene, encode
>>> labels = encode(["ann", "bob"] * 2, [1, 1, 2, 2], ["yes", "yes", "no", "no"])
>>> result = dawid_skene(labels, max_iter=2, tol=0.0, progress=print)
Dawid–Skene 1 2
Dawid–Skene 2 2
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import cpu_count
from typing import Any, TypeAlias, TypeVar, no_type_check

import numpy as np
from jaxtyping import Int64
from numba import njit

__all__ = ["Progress", "check_threads", "chunk_starts", "counter", "kernel", "shared_out"]

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called as ``progress(what, done, total)``: the name of the work, and steps made out of how many.

It is called in the caller's thread, after every iteration, or after some where one takes less time
than to tell of it. `done` grows; work that settles
early stops short of `total`. What it returns is passed over, and what it raises ends the work: so
a cancel button is made. It changes nothing about the result.
"""


def counter(
    progress: Progress | None, what: str, total: int, *, before: int = 0
) -> Callable[[int], object]:
    """Progress of one work, which takes the steps made after `before`; silent without progress."""
    if progress is None:
        return lambda _: None
    return lambda done: progress(what, before + done, total)


Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function | None = None, *, forceinline: bool = False) -> Any:
    """Compile a loop with numba when it is first called; keep it on disk, let other threads run.

    The shape checks of the tests must not wrap what numba compiles.
    """
    if function is None:
        return lambda inner: kernel(inner, forceinline=forceinline)
    return njit(cache=True, nogil=True, forceinline=forceinline)(no_type_check(function))


LEAST_ROWS = 2**15  # below that a chunk is not worth handing over
MOST_CHUNKS = 8

Result = TypeVar("Result")


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that is none."""
    if not (threads is None or threads >= 1):
        raise ValueError(f"threads must be >= 1 or None, got threads={threads}")


def chunk_starts(
    start: Int64[np.ndarray, " bounds"], least_rows: int = LEAST_ROWS
) -> Int64[np.ndarray, " cuts"]:
    """First unit of each chunk, and the end: about equally many rows in each, eight at most.

    Rows of unit ``u`` are ``start[u]:start[u + 1]``. A chunk has at least about `least_rows`: what
    pays for sums of its own.
    """
    n_rows = int(start[-1])
    n_chunks = int(np.clip(n_rows // max(least_rows, LEAST_ROWS), 1, MOST_CHUNKS))
    inner = np.searchsorted(start, np.arange(1, n_chunks) * n_rows // n_chunks)
    return np.concatenate([[0], inner, [len(start) - 1]]).astype(np.int64)


@contextmanager
def shared_out(
    threads: int | None, n_chunks: int
) -> Iterator[Callable[[Callable[[int], Result]], list[Result]]]:
    """A function that runs work on every chunk number, and returns what it gave in their order."""
    n_threads = min(threads or cpu_count() or 1, n_chunks)
    if n_threads <= 1:
        yield lambda work: [work(chunk) for chunk in range(n_chunks)]
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield lambda work: list(pool.map(work, range(n_chunks)))

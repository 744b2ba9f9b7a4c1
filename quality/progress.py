"""How far a long computation has come, told to whoever wants to know.

>>> from quality import dawid_skene, encode
>>> labels = encode(["ann", "bob"] * 2, [1, 1, 2, 2], ["yes", "yes", "no", "no"])
>>> result = dawid_skene(labels, max_iter=2, tol=0.0, progress=print)
Dawid–Skene 1 2
Dawid–Skene 2 2
"""

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Progress", "counter"]

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

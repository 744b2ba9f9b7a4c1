"""What leaves the ledger: values that were paid for."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from privacy.mechanisms.kinds import Event

__all__ = ["Release"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Release(Generic[T]):
    """A value that was paid for and may be shown.

    Parameters
    ----------
    value
        As stored: parsed from JSON.
    entry
        Its number in the ledger.
    event
        What was done.
    fresh
        False where the value is one stored before. **Not for the public**: it tells whether the
        private data changed since.
    """

    value: T
    entry: int
    event: Event
    fresh: bool

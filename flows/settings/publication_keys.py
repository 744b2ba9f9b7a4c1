"""Publication keys: a text that names one publication, or a pattern that holds the date of the run.

>>> key_at("%Y-%m", datetime(2026, 11, 22))
'2026-11'
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

__all__ = ["GRANULARITIES", "Granularity", "check_key", "granularity_of", "key_at"]


class Granularity(NamedTuple):
    """How often a pattern's key changes: its name, the pattern, and its most keys in a calendar year."""

    name: str
    pattern: str
    a_year: int


GRANULARITIES = (  # the finest first, as its pattern may hold a coarser one's
    Granularity("day", "%Y-%m-%d", 366),
    Granularity("week", "%G-W%V", 54),
    Granularity("month", "%Y-%m", 12),
    Granularity("year", "%Y", 1),
)


def granularity_of(key: str) -> Granularity | None:
    """Return how often a key changes; None if it does not.

    Examples
    --------
    >>> granularity_of("web-%Y-%m").name, granularity_of("2026-11")
    ('month', None)
    """
    return next((one for one in GRANULARITIES if one.pattern in key), None)


def key_at(key: str, time: datetime) -> str:
    """Return the key of a publication that is made at a time (UTC)."""
    found = granularity_of(key)
    return key if found is None else key.replace(found.pattern, time.strftime(found.pattern))


def check_key(key: str) -> str:
    """Return a key that can be used, or raise ValueError.

    Examples
    --------
    >>> check_key("%m")
    Traceback (most recent call last):
    ValueError: publication must hold one date as %Y-%m-%d, %G-W%V, %Y-%m, %Y, or no %
    """
    found = granularity_of(key)
    if "%" in (key if found is None else key.replace(found.pattern, "", 1)):
        dates = ", ".join(one.pattern for one in GRANULARITIES)
        raise ValueError(f"publication must hold one date as {dates}, or no %")
    if not re.fullmatch(r"[A-Za-z0-9%._-]{1,60}", key):
        raise ValueError(
            "publication must be 1 to 60 letters, digits, dots, dashes and underscores"
        )
    return key

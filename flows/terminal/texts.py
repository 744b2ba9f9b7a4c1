r"""Texts of strangers on a terminal, made safe.

Ids, labels and column names come from outside. One may hold codes that move a terminal's cursor, change
its title or turn the direction of the line.

>>> print(printable("ann\x1b[2J\u202eevil"))
ann\x1b[2J\u202eevil
"""

from __future__ import annotations

import unicodedata

__all__ = ["printable"]

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories of Unicode: controls, formats, line ends
JOINERS = {"\u200c", "\u200d"}  # part of the spelling of some languages


def printable(text: str, *, keep: str = "") -> str:
    r"""Return the text with control characters of a terminal written out; letters of `keep` stay.

    Examples
    --------
    >>> printable("ß 中 \u200dx") == "ß 中 \u200dx"
    True
    >>> printable("two\nlines"), printable("two\nlines", keep="\n")
    ('two\\nlines', 'two\nlines')
    """
    if text.isprintable():
        return text
    return "".join(one if _is_safe(one) or one in keep else _escaped(one) for one in text)


def _is_safe(letter: str) -> bool:
    return letter in JOINERS or unicodedata.category(letter) not in UNSAFE


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")

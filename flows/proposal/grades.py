"""Class names that are obviously grades, in their order: 1 to 5, low to high, never to always.

>>> grades_of(["3", "10", "1", "2"])
('1', '2', '3', '10')
>>> grades_of(["High", "low", "medium"])
('low', 'medium', 'High')
>>> grades_of(["cat", "dog", "horse"]) is None
True

By names alone: a proposal does not depend on anybody's labels, and a run tests whether they show the order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["grades_of", "is_scale"]

LEAST = 3  # classes: two have an order always, and nothing depends on it
# words of one place are other words for the same grade
SCALES = tuple(
    tuple(frozenset(place.split("/")) for place in scale.split(" < "))
    for scale in (
        "none/no < very low < low/minor < medium/mid/moderate < high/major < very high/critical < extreme",
        "none/absent < mild/slight < moderate < severe/strong < extreme",
        "never < rarely/seldom < sometimes/occasionally < often/frequently < always",
        "very bad/terrible/awful < bad/poor < fair/average/ok/okay < good < very good/great < excellent",
        "strongly disagree < disagree < somewhat disagree < neutral/undecided/neither < somewhat agree"
        " < agree < strongly agree",
        "very negative < negative < somewhat negative < neutral < somewhat positive < positive"
        " < very positive",
        "very small/tiny/xs < small/s < medium/m < large/l < very large/huge/xl",
        "very unlikely < unlikely < possible/maybe < likely < very likely",
        "not relevant/irrelevant < marginally relevant/partially relevant < relevant"
        " < highly relevant < perfectly relevant",
    )
)


def grades_of(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names in their order if they are whole numbers or words of one scale, else None."""
    if len(names) < LEAST:
        return None
    if all(re.fullmatch(r"-?\d{1,4}", name) for name in names):
        numbers = sorted(map(int, names))
        return tuple(sorted(names, key=int)) if len(set(numbers)) == len(numbers) else None
    plain = {name: re.sub(r"[\s_-]+", " ", name).strip().lower() for name in names}
    for scale in SCALES:
        place = {
            name: at
            for name, word in plain.items()
            for at, words in enumerate(scale)
            if word in words
        }
        if len(place) == len(names) == len(set(place.values())):
            return tuple(sorted(names, key=place.__getitem__))
    return None


def is_scale(grades: Sequence[str]) -> bool:
    """Whether grades leave no doubt that they are some: words, or all numbers from 1 on.

    >>> is_scale(["low", "medium", "high"]), is_scale(["1", "2", "3"]), is_scale(["0", "1", "2"])
    (True, True, False)
    """
    numbers = [name for name in grades if re.fullmatch(r"-?\d+", name)]
    return not numbers or list(map(int, grades)) == list(range(1, len(grades) + 1))

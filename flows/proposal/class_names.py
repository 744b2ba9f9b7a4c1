"""What the names of classes say by themselves: several classes in one, and grades in their order.

>>> classes_of_cells(["cat", "cat|dog", "dog", "none"])
('|', 'none', ('cat', 'dog'))
>>> grades_of(["High", "low", "medium"])
('low', 'medium', 'High')

By names alone: a proposal does not depend on who gave which label. A run tests whether labels show the order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from flows.tables import text_of_value

__all__ = ["NOTHING", "classes_of_cells", "grades_of", "is_scale"]

BAR, OTHERS = "|", (";", ",", " + ")
NOTHING = ("none", "nothing", "no label", "none of these", "-")

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


def classes_of_cells(cells: Sequence[str]) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return the separator of classes, the word for no class, and the classes of distinct cells.

    Cells hold several classes as ``cat|dog``, or as lists of JSON. Signs other than a bar also occur in
    names of single classes, so they count only where every part is a cell of its own elsewhere.

    Parameters
    ----------
    cells
        The cells of the labels' column, each once.

    Returns
    -------
    tuple
        The first two are None where every cell is taken for one class; then the classes are the cells.

    Examples
    --------
    >>> classes_of_cells(["and/or", "both"])
    (None, None, ('and/or', 'both'))
    """
    lists = _lists(cells)
    if lists is not None:
        return BAR, None, tuple(sorted({name.strip() for mine in lists for name in mine}))
    for sign in (BAR, *OTHERS):
        sets = [[part.strip() for part in cell.split(sign)] for cell in cells]
        named = {part for mine in sets for part in mine if part}
        joined = [mine for mine in sets if len(mine) > 1]
        alone = {mine[0] for mine in sets if len(mine) == 1}
        if joined and (sign == BAR or all(set(mine) <= alone for mine in joined)):
            words = [part for part in sorted(alone & named) if part.lower() in NOTHING]
            among = {part for mine in joined for part in mine}
            nothing = words[0] if words and words[0] not in among else None
            return sign, nothing, tuple(sorted(named - {nothing}))
    return None, None, tuple(cells)


def _lists(cells: Sequence[str]) -> list[list[str]] | None:
    """Return cells that are lists of JSON, each value by its name; None if one is not."""
    if not cells or not all(cell.startswith("[") and cell.endswith("]") for cell in cells):
        return None
    try:
        found = [json.loads(cell) for cell in cells]
    except (ValueError, RecursionError):
        return None
    return [[text_of_value(one) or "" for one in mine] for mine in found]  # a run refuses blanks


def grades_of(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names in their order if they are whole numbers or words of one scale, else None.

    >>> grades_of(["3", "10", "1", "2"])
    ('1', '2', '3', '10')
    >>> grades_of(["cat", "dog", "horse"]) is None
    True
    """
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
    """Return whether classes are certainly grades: words of a scale, or all numbers from 1 on.

    >>> is_scale(["low", "medium", "high"]), is_scale(["1", "2", "3"]), is_scale(["0", "1", "2"])
    (True, True, False)
    """
    numbers = [name for name in grades if re.fullmatch(r"-?\d+", name)]
    return not numbers or list(map(int, grades)) == list(range(1, len(grades) + 1))

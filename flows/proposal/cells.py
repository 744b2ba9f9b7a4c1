"""Cells that plainly hold several classes at once: ``cat|dog``, or lists as JSON has them.

>>> classes_of_cells(["cat", "cat|dog", "dog", "none"])
('|', 'none', ('cat', 'dog'))
>>> classes_of_cells(["and/or", "both"])
(None, None, ('and/or', 'both'))

By what cells are, not by who gave them. Other signs than a bar stand in names of single classes as well, so
that they are proposed only where every part stands alone somewhere else, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

__all__ = ["classes_of_cells"]

BAR, OTHERS = "|", (";", ",", " + ")
NOTHING = ("none", "nothing", "no label", "none of these", "-")


def classes_of_cells(cells: Sequence[str]) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return what stands between classes, the word for none of them, and the classes of cells that differ.

    Parameters
    ----------
    cells
        The cells of the labels' column, each once.

    Returns
    -------
    tuple
        The first two are None where every cell is taken for one class; then the classes are the cells.
    """
    lists = _lists(cells)
    if lists is not None:
        return BAR, None, tuple(sorted({str(name).strip() for mine in lists for name in mine}))
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


def _lists(cells: Sequence[str]) -> list[list[object]] | None:
    """Return cells that are lists of JSON; None if one is not."""
    if not cells or not all(cell.startswith("[") and cell.endswith("]") for cell in cells):
        return None
    try:
        return [json.loads(cell) for cell in cells]
    except ValueError:
        return None

"""Which cells plainly hold several classes."""

from __future__ import annotations

import pytest

from flows.proposal.cells import classes_of_cells


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["cat", "cat|dog", "dog", "none"], ("|", "none", ("cat", "dog"))),
        (["cat | dog", "eel"], ("|", None, ("cat", "dog", "eel"))),
        (["None", "cat|dog"], ("|", "None", ("cat", "dog"))),
        (["none|cat", "none"], ("|", None, ("cat", "none"))),  # a class that comes with others
        (["cat;dog", "dog", "cat"], (";", None, ("cat", "dog"))),
        (["cat, dog", "dog", "cat"], (",", None, ("cat", "dog"))),
        (["Smith, J.", "Jones"], (None, None, ("Smith, J.", "Jones"))),  # no part stands alone
        (["a", "b"], (None, None, ("a", "b"))),
        (['["cat", "dog"]', "[]", '["eel"]'], ("|", None, ("cat", "dog", "eel"))),
        (["[x]", "[y]"], (None, None, ("[x]", "[y]"))),
        ([], (None, None, ())),
    ],
)
def test_cells_of_several_classes_are_known(
    cells: list[str], found: tuple[str | None, str | None, tuple[str, ...]]
) -> None:
    assert classes_of_cells(cells) == found

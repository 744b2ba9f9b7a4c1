"""Places of names among sorted ones: those that NumPy finds, name by name."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.labels import places_among

QUICK = settings(max_examples=150, deadline=None, derandomize=True)
# few letters, so that many begin alike; a NUL inside, and names shorter than the column is wide
NAMES = st.lists(st.text(alphabet="a\0é𝄞", max_size=4), max_size=40)


@QUICK
@given(NAMES, NAMES, st.booleans(), st.booleans())
def test_places_are_those_of_a_binary_search(
    names: list[str], known: list[str], are_sorted: bool, are_turned: bool
) -> None:
    sought, sorted_names = np.array(names, dtype=np.str_), np.sort(np.array(known, dtype=np.str_))
    if are_sorted:
        sought.sort()
    if are_turned:
        sought = sought[::-1]
    found = places_among(sought, sorted_names)
    assert found.tolist() == np.searchsorted(sorted_names, sought).tolist()


def test_other_columns_are_searched_too() -> None:
    for names in (np.array([3, 1]), np.array(["b", "a"], dtype=">U1"), np.array([b"b", b"a"])):
        assert places_among(names, np.sort(names)).tolist() == [1, 0]

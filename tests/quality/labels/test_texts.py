"""Texts as bytes and offsets: sorted as Python sorts them, and back to NumPy's text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.labels.texts import (
    Texts,
    decimals,
    joined,
    places_among,
    sorted_texts,
    taken,
    text_array,
)

QUICK = settings(max_examples=80, deadline=None, derandomize=True)
# long ones that begin alike, and a NUL at the end: equal words, other sizes
WORDS = st.text(alphabet="a\0é𝄞z", max_size=20).map(lambda text: "alike" * 3 + text)
MIXED = st.one_of(WORDS, st.text(max_size=9))
# few letters, so that many begin alike; a NUL inside, and names shorter than the column is wide
NAMES = st.lists(st.text(alphabet="a\0é𝄞", max_size=4), max_size=40)


def texts_of(names: list[bytes]) -> Texts:
    start = np.cumsum([0, *map(len, names)])
    return Texts(np.frombuffer(b"".join(names), dtype=np.uint8), start)


def bytes_of(texts: Texts) -> list[bytes]:
    bounds = zip(texts.start[:-1], texts.start[1:], strict=True)
    return [texts.letters[low:high].tobytes() for low, high in bounds]


@QUICK
@given(st.one_of(st.lists(WORDS, unique=True, max_size=60), st.lists(MIXED, unique=True)))
def test_texts_are_sorted_as_python_sorts_their_characters(names: list[str]) -> None:
    given = [name.encode() for name in names]
    order, found = sorted_texts(texts_of(given))
    assert bytes_of(found) == [name.encode() for name in sorted(names)]
    assert [given[at] for at in order] == bytes_of(found)


def test_many_texts_of_which_runs_begin_alike_are_sorted_as_python_sorts_them() -> None:
    """A third agree in their first fourteen bytes, a run that is not sorted by insertion."""
    rng = np.random.default_rng(0)
    size = rng.permutation(20_000)
    names = [f"task-{value:09d}" if value % 3 else f"same-same-same-{value}" for value in size]
    given = [name.encode() for name in names]
    order, found = sorted_texts(texts_of(given))
    assert bytes_of(found) == sorted(given)
    assert [given[at] for at in order] == sorted(given)


@QUICK
@given(st.lists(st.text(alphabet="aé𝄞 z", max_size=5)))
def test_texts_come_back_as_numpys(names: list[str]) -> None:
    found = text_array(texts_of([name.encode() for name in names]))
    assert found.dtype == np.array(names, dtype=np.str_).dtype
    assert found.tolist() == names


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        text_array(texts_of([b"ann", b"\xff"]))


@QUICK
@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_decimals_are_those_of_python(values: list[int]) -> None:
    found = decimals(np.array(values, dtype=np.int64))
    assert bytes_of(found) == [str(value).encode() for value in values]


def test_texts_are_taken_and_joined() -> None:
    texts = texts_of([b"a", b"", b"longer than eight", b"8 bytes!"])
    chosen = taken(texts, np.array([2, 0, 3, 2]))
    assert bytes_of(chosen) == [b"longer than eight", b"a", b"8 bytes!", b"longer than eight"]
    assert bytes_of(joined([chosen, texts])) == bytes_of(chosen) + bytes_of(texts)


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

"""Texts as bytes and offsets: sorted as Python sorts them, and back to NumPy's text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.labels.texts import Texts, decimals, joined, sorted_texts, taken, text_array

QUICK = settings(max_examples=80, deadline=None, derandomize=True)
# long ones that begin alike, and a NUL at the end: equal words, other sizes
WORDS = st.text(alphabet="a\0é𝄞z", max_size=20).map(lambda text: "alike" * 3 + text)
MIXED = st.one_of(WORDS, st.text(max_size=9))


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

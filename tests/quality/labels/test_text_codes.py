"""Codes of texts: those of a sort, exactly, on any number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.labels import text_codes
from quality.labels.text_codes import code_texts
from quality.labels.texts import Texts
from tests.quality.labels.test_texts import bytes_of, texts_of

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
NAMES = st.lists(
    st.one_of(st.text(alphabet="aé𝄞\0", max_size=3), st.text(max_size=20)), max_size=20
)


def check(pieces: list[list[bytes]]) -> None:
    code, found = code_texts(map(texts_of, pieces), sum(map(len, pieces)))
    column = [name for piece in pieces for name in piece]
    assert bytes_of(found) == sorted(set(column))
    assert [bytes_of(found)[at] for at in code] == column
    assert code.dtype == np.int32


@QUICK
@given(st.lists(NAMES, max_size=4))
def test_equal_codes_mean_equal_bytes(pieces: list[list[str]]) -> None:
    check([[name.encode() for name in piece] for piece in pieces])


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_same_result_on_any_number_of_cores_and_however_cut(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,003 names: hash tables and books grow many times."""
    rng = np.random.default_rng(0)
    names = [f"{value:x}-{'long' * (value % 5)}".encode() for value in range(100_003)]
    column = [names[at] for at in rng.integers(len(names), size=150_000)]
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    once = code_texts([texts_of(column)], 150_000)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    pieces = column[:7], [], column[7:90_000], column[90_000:]
    cut = code_texts(map(texts_of, pieces), 150_000)
    assert once[0].tobytes() == cut[0].tobytes()
    assert once[1].letters.tobytes() == cut[1].letters.tobytes()
    assert bytes_of(once[1]) == sorted(set(column))


def test_a_hash_that_tells_nothing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All texts in one part and one slot: only their bytes tell them apart."""
    rng = np.random.default_rng(0)
    column = [f"t{value}".encode() for value in rng.integers(300, size=900)]

    def colliding(
        letters: np.ndarray, start: np.ndarray, _: np.ndarray, *to: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        n_rows, n_letters = len(start) - 1, len(letters)
        for array, same in zip(to, (letters, np.diff(start), 0, 0), strict=True):
            array[: n_letters if same is letters else n_rows] = same
        ends = np.arange(text_codes.PARTS + 1) > 0
        return ends * n_rows, ends * n_letters

    monkeypatch.setattr(text_codes, "bring_together", colliding)
    check([column[:400], column[400:]])


def test_arguments_are_not_changed() -> None:
    letters, start = np.frombuffer(b"abab", dtype=np.uint8).copy(), np.array([0, 2, 4])
    code, found = code_texts([Texts(letters, start)], len(start) - 1)
    assert letters.flags.writeable
    assert (letters.tobytes(), start.tolist()) == (b"abab", [0, 2, 4])
    assert (code.tolist(), bytes_of(found)) == ([0, 0], [b"ab"])

"""Chunks: where they are cut, and that threads do not show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.parallel import MAX_CHUNKS, MIN_ROWS, chunk_starts, shared_out


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3 * MIN_ROWS), min_size=1, max_size=40))
def test_chunks_hold_every_unit_once_and_few_are_many_rows(sizes: list[int]) -> None:
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cut = chunk_starts(start)
    assert (cut[0], cut[-1]) == (0, len(sizes))
    assert (np.diff(cut) >= 0).all()
    n_chunks = len(cut) - 1
    assert 1 <= n_chunks <= MAX_CHUNKS
    assert n_chunks == 1 or n_chunks * MIN_ROWS <= start[-1]
    # nobody has more than her part and one unit
    assert np.diff(start[cut]).max() <= start[-1] / n_chunks + max(sizes) + 1


def test_chunks_that_sums_of_their_own_would_not_pay_for_are_not_cut() -> None:
    start = np.arange(0, 10 * MIN_ROWS + 1, 10)
    assert len(chunk_starts(start)) == 9
    assert chunk_starts(start, 20 * MIN_ROWS).tolist() == [0, len(start) - 1]


@pytest.mark.parametrize("threads", [None, 1, 2, 7])
def test_results_come_in_the_order_of_the_chunks(threads: int | None) -> None:
    with shared_out(threads, 5) as shared:
        assert shared(lambda chunk: chunk**2) == [0, 1, 4, 9, 16]
        assert shared(lambda chunk: chunk) == [0, 1, 2, 3, 4]

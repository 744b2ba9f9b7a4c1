from itertools import product

import numpy as np
import pytest

from learners.topics.concept_slots import Slots, all_paths, n_paths


@pytest.mark.parametrize("lower", [False, True])
def test_all_paths_are_those_that_go_down(lower):
    slots = Slots.of((1, 2, 3), lower=lower)
    found = [tuple(row[:n].tolist()) for row, n in zip(*all_paths(slots)[:2], strict=True)]
    skipping = [(0, z) for z in range(3, 6)] if lower else []
    wanted = [(0,), (0, 1), (0, 2), *skipping, *((0, x, y) for x, y in product((1, 2), (3, 4, 5)))]
    assert sorted(found) == sorted(wanted)
    assert n_paths(slots) == len(wanted)


@pytest.mark.parametrize("lower", [False, True])
def test_neighbouring_paths_share_as_many_nodes_as_is_said(lower):
    table = all_paths(Slots.of((1, 3, 2, 2), lower=lower))
    for row in range(1, len(table.length)):
        shared = table.shared[row]
        assert np.array_equal(table.nodes[row, :shared], table.nodes[row - 1, :shared])
        assert shared == 0 or table.length[row] == table.length[row - 1]
    assert (table.shared > 0).any()


def test_too_many_paths_are_refused_before_they_are_listed():
    with pytest.raises(ValueError, match=r"at most 100,000 paths, got .* with 1,010,101"):
        all_paths(Slots.of((1, 100, 100, 100)))


@pytest.mark.parametrize(("sizes", "message"), [
    ((1, 10**30), r"at most 100,000 slots in all, got 1,000,"),
    ((1, 50_000, 49_999), r"at most 100,000 paths, got \(1, 50000, 49999\) with 2,500,000,001"),
    ((1, *[40] * 2000), r"got \(1, 40, 40, 40, 40, 40, 40, 40, 40, 40, ...\) with more than 10\^15"),
])  # fmt: skip
def test_slots_beyond_all_measure_are_refused_at_once(sizes, message):
    """The first filled the memory, the second was counted for hours, the third broke Python's text."""
    with pytest.raises(ValueError, match=message):
        all_paths(Slots.of(sizes))


def test_levels_may_be_more_than_python_nests():
    table = all_paths(Slots.of((1,) * 1500))
    assert table.length.tolist() == list(range(1, 1501))

"""Passes over blocks in this process: every row once, in order, one block at a time."""

import numpy as np
import pytest

from learners.class_ratios.bags import BagPasses, BlocksHere

BAGS = [np.arange(20.0).reshape(10, 2), 100 + np.arange(6.0).reshape(3, 2)]


def cut(bag, length):
    return [bag[first : first + length] for first in range(0, len(bag), length)]


def total(block, weight):
    return weight * float(block.sum())


@pytest.mark.parametrize("length", [1, 4, 10])
def test_rows_are_the_bags_however_they_are_cut(length):
    passes = BlocksHere([cut(bag, length) for bag in BAGS])
    assert isinstance(passes, BagPasses)
    assert passes.sizes().tolist() == [10, 3]
    places = [np.array([0, 3, 9]), np.array([], dtype=int)]
    for found, bag, wanted in zip(passes.take(places), BAGS, places, strict=True):
        assert found.tolist() == bag[wanted].tolist()
    by_bag = list(passes.each(total, 2.0))
    assert [sum(parts) for parts in by_bag] == [2 * bag.sum() for bag in BAGS]
    assert [len(parts) for parts in by_bag] == [-(-len(bag) // length) for bag in BAGS]


def test_one_block_at_a_time_is_asked_for():
    asked, done = [], []

    class Told:
        def __iter__(self):
            for number in range(4):
                assert len(done) == len(asked)
                asked.append(number)
                yield np.full((2, 1), float(number))

    def work(block, _):
        done.append(float(block[0, 0]))

    list(BlocksHere([Told()]).each(work, None))
    assert done == [0.0, 1.0, 2.0, 3.0]


def test_a_bag_that_can_be_read_once_only_is_refused():
    with pytest.raises(ValueError, match="bag 1 must yield its blocks anew each time"):
        BlocksHere([[BAGS[0]], iter([BAGS[1]])])


def test_an_empty_bag_has_no_rows():
    passes = BlocksHere([[]])
    assert passes.sizes().tolist() == [0]
    assert passes.take([np.array([], dtype=int)])[0].shape == (0, 1)

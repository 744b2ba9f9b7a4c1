"""Eight numbers at a time: the same as one by one."""

import numpy as np

from quality.aggregation.passes import in_lines, whole_lanes
from quality.aggregation.passes.lanes import lanes_at, lanes_sum, power_of_two, put_lanes
from quality.parallel import kernel


@kernel
def one_by_one(numbers, powers):
    """Double eight numbers from the second on; write powers of two."""
    for at in range(len(powers)):
        powers[at] = power_of_two(powers[at])
    second = np.uint64(1)
    total = lanes_sum(lanes_at(numbers, second))
    put_lanes(numbers, np.uint64(0), lanes_at(numbers, second))
    return total


def test_lanes_may_begin_anywhere_and_powers_of_two_are_exact() -> None:
    numbers, powers = np.arange(9.0), np.array([-1022.0, -1.0, 0.0, 52.0, 1023.0])
    assert one_by_one(numbers, powers) == 36.0
    assert numbers.tolist() == [*range(1, 9), 8]
    assert powers.tolist() == [2.0**-1022, 0.5, 1.0, 2.0**52, 2.0**1023]


def test_whole_lanes_are_the_least_that_hold_so_many() -> None:
    assert [whole_lanes(n) for n in (1, 8, 9, 100)] == [8, 8, 16, 104]


def test_numbers_in_lines_are_zeros_and_begin_where_a_line_does() -> None:
    for shape in ((8,), (3, 24), (2, 3, 8)):
        found = in_lines(*shape)
        assert found.shape == shape
        assert not found.any()
        assert found.flags.c_contiguous
        assert found.ctypes.data % 64 == 0

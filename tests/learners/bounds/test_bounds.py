import math

import pytest

from learners.bounds.transfer import private_training_bounds


@pytest.mark.parametrize("n", [10, 300, 20_000])
@pytest.mark.parametrize("scaled", [0.0, 0.3, 1.0, 4.0])
def test_the_first_is_never_above_the_others(n, scaled):
    for errors in {0, 1, n // 10, n // 2, n - 1, n}:
        bounds = private_training_bounds(errors, n, epsilon=scaled / math.sqrt(n), level=0.95)
        assert bounds[0].value <= min(bound.value for bound in bounds[1:]) + 1e-12
        assert {bound.level for bound in bounds} == {0.95}


def test_each_says_what_it_assumes():
    bounds = private_training_bounds(3, 100, epsilon=2.0, level=0.9)
    assert [bound.name for bound in bounds] == ["private transfer", "max-information", "CDP"]
    assert [bound.applies for bound in bounds] == [True, True, False]
    assert all("100" in bound.assumption for bound in bounds)

import math

import pytest
from scipy.stats import binom

from learners.bounds.bound import Bound, least
from learners.bounds.clopper_pearson import clopper_pearson_bound
from learners.bounds.published import cdp_bound


def test_least_pays_for_the_choice_among_those_that_apply():
    far = clopper_pearson_bound(5, 20, level=0.98)
    near = clopper_pearson_bound(5, 2000, level=0.97)
    not_met = cdp_bound(0, 100, epsilon=5.0, level=0.9)
    best = least([far, not_met, near])
    assert best.value == near.value
    assert best.level == pytest.approx(0.95)
    assert least([not_met, far]) == far


def test_least_covers_at_its_level_whichever_is_chosen():
    """Exact: two independent holdouts of the same error rate, 12 and 17 records."""
    rate, miss = 0.3, 0.0
    for first in range(13):
        for second in range(18):
            bounds = [
                clopper_pearson_bound(first, 12, level=0.9),
                clopper_pearson_bound(second, 17, level=0.9),
            ]
            best = least(bounds)
            if best.value < rate:
                miss += binom.pmf(first, 12, rate) * binom.pmf(second, 17, rate)
    assert miss <= 1 - best.level


def test_least_of_none_that_applies_is_refused():
    with pytest.raises(ValueError, match="one that applies"):
        least([cdp_bound(0, 100, epsilon=5.0, level=0.9)])
    with pytest.raises(ValueError, match="higher level"):
        least([clopper_pearson_bound(1, 9, level=0.4)] * 2)


@pytest.mark.parametrize(
    ("value", "level", "applies"),
    [(1.2, 0.9, True), (math.nan, 0.9, True), (0.5, 1.0, True), (0.5, 0.9, False)],
)
def test_a_bound_that_says_nothing_true_cannot_be_built(value, level, applies):
    with pytest.raises(ValueError, match="must be"):
        Bound("x", value=value, level=level, assumption="none", applies=applies)

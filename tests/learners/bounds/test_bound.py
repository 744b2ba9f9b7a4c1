import math
import subprocess
import sys

import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from learners.bounds.bound import Bound, least, root_above
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


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("root", [1e-9, 0.3, 1.0, 7.5])
def test_the_root_is_brents_or_just_above_and_there_the_sign_has_changed(
    root: float, sign: float
) -> None:
    def excess(x: float) -> float:
        return sign * (math.log1p(x) - math.log1p(root))

    found = root_above(excess, 0.0, 8.0, xtol=1e-12)
    assert found >= brentq(excess, 0.0, 8.0, xtol=1e-14) - 1e-13
    assert found - root <= 1.1e-12
    assert sign * excess(found) >= 0


def test_an_end_that_is_infinite_is_no_obstacle() -> None:
    def excess(x: float) -> float:
        return math.inf if x < 1.0 else 2.0 - x

    assert math.isclose(root_above(excess, 0.0, 4.0, xtol=1e-12), 2.0, rel_tol=1e-12)


def test_without_a_change_of_sign_the_lower_end_is_approached() -> None:
    assert root_above(lambda x: x + 1.0, 0.0, 1.0, xtol=1e-3) <= 1e-3


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_root_at_the_upper_end_is_found_whether_the_function_rises_or_falls(sign: float) -> None:
    assert root_above(lambda x: sign * (x - 1.0), 0.0, 1.0, xtol=1e-3) == 1.0


def test_neighbouring_doubles_end_the_search() -> None:
    assert root_above(lambda x: x - 1.5, 1.0, 2.0, xtol=0.0) == math.nextafter(1.5, 2.0)


def test_importing_learners_loads_no_scipy_optimize() -> None:
    code = "import sys, learners; print('scipy.optimize' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"

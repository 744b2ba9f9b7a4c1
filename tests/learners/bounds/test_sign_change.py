"""The root of a monotone function, on the upper side."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from scipy.optimize import brentq

from learners.bounds import root_above


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


def test_neighbouring_doubles_end_the_search() -> None:
    assert root_above(lambda x: x - 1.5, 1.0, 2.0, xtol=0.0) == math.nextafter(1.5, 2.0)


def test_importing_learners_loads_no_scipy_optimize() -> None:
    code = "import sys, learners; print('scipy.optimize' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"

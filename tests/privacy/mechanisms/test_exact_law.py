"""The public law of noise: its edges. What it holds is compared with enumeration beside each mechanism."""

import math
from functools import reduce
from itertools import accumulate, repeat

import numpy as np
import pytest

from privacy.mechanisms import DiscreteGaussian, ExactLaw, LatticeLaplace, exact_law
from privacy.mechanisms.exact_law import TAIL

COIN = np.array([-1, 0, 1]), np.array([0.25, 0.5, 0.25])


def law(n_classes=2):
    return ExactLaw(1.0, n_classes, *(one.copy() for one in COIN))


def test_the_level_of_an_interval_is_above_none_and_below_all():
    assert [law().half_width(level) for level in (1e-9, 0.5, 0.51, 1 - 1e-9)] == [0, 0, 1, 1]
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"level must be in \(0, 1 - 1e-9\], got level="):
            law().half_width(level)


def test_noise_on_other_classes_cannot_be_added():
    with pytest.raises(ValueError, match="laws must be of as many classes, got 2 and 3"):
        law(2).plus(law(3))


@pytest.mark.parametrize("n", [2, 5, 12])
def test_no_interval_is_narrower_for_the_tails_that_a_sum_leaves_out(n):
    """Beside the whole sum; what is left out is missing, and not moved to where it would count."""
    one = LatticeLaplace(1.0).law(4)
    whole = reduce(np.convolve, repeat(one.probability, n))
    exact, summed = (
        ExactLaw(one.scale, 4, np.arange(-(whole.size // 2), whole.size // 2 + 1), whole),
        reduce(ExactLaw.plus, repeat(one, n)),
    )
    cut = (whole.size - summed.support.size) // 2
    assert cut > 0
    assert summed.probability == pytest.approx(whole[cut:-cut], rel=1e-12, abs=n * TAIL)
    assert 0 <= whole[:cut].sum() <= n * TAIL
    for level in (0.5, 0.9, 0.999, 1 - 1e-6, 1 - 1e-9):
        assert exact.half_width(level) <= summed.half_width(level) <= exact.half_width(level) + 1
    for name in ("variance", "expected_l1", "kurtosis"):
        assert getattr(summed, name) == pytest.approx(getattr(exact, name), rel=1e-9)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LatticeLaplace(0.1).law(4), LatticeLaplace(0.1).law(4)),
        (LatticeLaplace(0.02).law(4), LatticeLaplace(5.0).law(4)),
        (DiscreteGaussian(0.1, 1e-6).law(4), DiscreteGaussian(0.5, 1e-6).law(4)),
        (LatticeLaplace(20.0).law(4), LatticeLaplace(20.0).law(4)),
    ],
)
def test_a_sum_by_transforms_is_that_of_all_products_in_its_tails_too(one, other, monkeypatch):
    """By relative errors, down to a hundredth of the mass that a sum may leave out."""
    whole = np.convolve(one.probability, other.probability)
    far = int(np.searchsorted(np.cumsum(whole), TAIL / 100))
    monkeypatch.setattr(exact_law, "MAX_PRODUCTS", 0)
    found = exact_law._convolved(one, other)
    assert found.shape == whole.shape
    inside = slice(far, whole.size - far)
    assert found[inside] == pytest.approx(whole[inside], rel=1e-2, abs=0)
    assert max(found[:far].sum(), found[whole.size - far :].sum()) <= TAIL / 50
    summed = one.plus(other)
    for level in (0.5, 0.99, 1 - 1e-9):
        assert summed.half_width(level) == ExactLaw(
            1.0, 4, np.arange(-(whole.size // 2), whole.size // 2 + 1), whole
        ).half_width(level)


def test_wide_laws_are_added_up_without_all_products(monkeypatch):
    """84,000 values each: seven thousand million products, were they all computed."""
    law = LatticeLaplace(0.001).law(3)
    monkeypatch.setattr(np, "convolve", None)
    both = law.plus(law)
    assert both.variance == pytest.approx(2 * law.variance, rel=1e-9)
    assert both.kurtosis == pytest.approx(law.kurtosis / 2, rel=1e-9)
    assert both.probability.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_thousand_laws_are_added_up_in_few_products():
    """Products of probabilities, counted; the support grows as the root of the number of laws."""
    one = LatticeLaplace(4.0).law(5)
    sums = list(accumulate(repeat(one, 1000), ExactLaw.plus))
    products = sum(law.support.size * one.support.size for law in sums)
    untrimmed = sum((n * (one.support.size - 1) + 1) * one.support.size for n in range(1, 1001))
    assert products < untrimmed / 20
    assert sums[-1].support.size < 20 * math.sqrt(sums[-1].variance)
    assert sums[-1].variance == pytest.approx(1000 * one.variance, rel=1e-9)
    assert 1 - 1e-12 < sums[-1].probability.sum() < 1 + 1e-12
    assert sums[-1].half_width(1 - 1e-9) < sums[-1].support[-1]


def test_a_law_is_read_only():
    for array in (law().support, law().probability):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_no_noise_has_no_kurtosis():
    assert ExactLaw(1.0, 2, np.array([0]), np.array([1.0])).kurtosis == 0.0

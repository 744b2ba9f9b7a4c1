"""The pooled scores of a year whose price was changed on the way."""

from types import SimpleNamespace

import pytest

from flows.stages.learning.year_model import _counts
from privacy import LatticeLaplace

PRICES = (0.05, 0.4, 0.4)


def test_the_noise_of_counts_at_several_prices_is_that_of_their_sum() -> None:
    """A share of the sum has the sum of their variances, over its size squared."""
    sizes = (200, 300, 500)
    found = _counts([SimpleNamespace(value=[right]) for right in (150, 200, 400)], sizes, PRICES)
    laws = [LatticeLaplace(price).law(2) for price in PRICES]
    assert found.share == 0.75
    assert found.noise == pytest.approx(sum(law.variance for law in laws) / 1_000**2, rel=1e-12)

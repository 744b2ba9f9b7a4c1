import math

import numpy as np
import pytest

from learners.bounds.clopper_pearson import binary_divergence, largest_rate


@pytest.mark.parametrize("observed", [0.0, 1e-6, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("divergence", [0.0, 1e-8, 0.01, 1.0, 50.0])
def test_the_inverse_is_the_largest_rate_within_the_divergence(observed, divergence):
    rate = largest_rate(observed, divergence)
    assert observed <= rate <= 1
    if rate < 1:
        assert binary_divergence(observed, rate + 1e-9) > divergence
        assert binary_divergence(observed, max(observed, rate - 1e-6)) <= divergence


def test_it_grows_with_both_arguments_and_keeps_to_pinsker(rng):
    for observed in rng.uniform(0, 1, 20):
        rates = [largest_rate(float(observed), d) for d in np.linspace(0, 2, 30)]
        assert rates == sorted(rates)
        assert all(r <= observed + math.sqrt(d / 2) + 1e-12 for r, d in
                   zip(rates, np.linspace(0, 2, 30), strict=True))  # fmt: skip
    by_observed = [largest_rate(float(q), 0.1) for q in np.linspace(0, 1, 50)]
    assert by_observed == sorted(by_observed)


def test_without_errors_it_is_in_closed_form():
    assert largest_rate(0.0, 0.3) == pytest.approx(1 - math.exp(-0.3))


@pytest.mark.parametrize(
    ("observed", "divergence"),
    [(-0.1, 0.1), (1.1, 0.1), (math.nan, 0.1), (0.1, -1.0), (0.1, math.nan)],
)
def test_arguments_out_of_range_are_refused(observed, divergence):
    with pytest.raises(ValueError, match="must be"):
        largest_rate(observed, divergence)

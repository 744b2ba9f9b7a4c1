"""How many gold tasks a price asks for, and how the price is divided."""

from __future__ import annotations

import pytest

from flows.settings import SettingsError
from flows.spending import propose_gold, split_price
from privacy import LatticeCorrection, LatticeLaplace
from quality import gold_for_width

ASKED = {"accuracy": 0.8, "n_tasks": 5_000, "n_classes": 4, "level": 0.9}


def test_no_other_division_of_the_price_leaves_a_shrunk_share_less_noise() -> None:
    """Which has the noise of the counts, and an eighth of the variance of the correction's."""
    counts, correction = split_price(1.0, n_tasks=5_000, n_gold=300)
    assert counts + correction == pytest.approx(1.0)

    def noise(first: float) -> float:
        return (2 / first / 5_000) ** 2 + (4 / (1 - first) / 300) ** 2 / 8

    assert all(noise(counts) <= noise(other / 100) for other in range(1, 100))


def test_without_a_price_the_sample_alone_counts() -> None:
    found = propose_gold(0.1, **ASKED)  # type: ignore[arg-type]
    assert found.n_gold == gold_for_width(0.1, **ASKED).n_gold  # type: ignore[arg-type]
    assert (found.proportions_epsilon, found.correction_epsilon, found.n_each) == (None, None, None)


def test_what_is_proposed_has_the_width_at_the_prices_proposed() -> None:
    found = propose_gold(0.1, price=1.0, **ASKED)  # type: ignore[arg-type]
    assert found.proportions_epsilon is not None
    assert found.correction_epsilon is not None
    again = gold_for_width(
        0.1,
        count_variance=LatticeLaplace(found.proportions_epsilon).law(4).variance,
        difference_variance=LatticeCorrection(found.correction_epsilon).law(4).variance,
        **ASKED,  # type: ignore[arg-type]
    )
    assert again.n_gold == found.n_gold
    assert again.width <= 0.1


def test_a_lower_price_asks_for_more_gold() -> None:
    few, many = (propose_gold(0.1, price=price, **ASKED).n_gold for price in (3.0, 0.5))  # type: ignore[arg-type]
    assert few is not None
    assert many is not None
    assert few < many


def test_a_width_below_the_noise_has_no_number() -> None:
    found = propose_gold(0.001, price=0.1, **ASKED)  # type: ignore[arg-type]
    assert found.n_gold is None
    assert found.width > 0.001


def test_numbers_out_of_range_are_mistakes_of_the_caller() -> None:
    with pytest.raises(SettingsError, match="width must be in"):
        propose_gold(2.0, **ASKED)  # type: ignore[arg-type]

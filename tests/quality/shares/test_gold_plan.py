"""How many gold tasks an interval needs."""

import pytest

from quality.shares import gold_for_width

ASKED = {"accuracy": 0.8, "n_tasks": 5_000, "n_classes": 4}


def test_with_one_gold_task_fewer_the_width_is_above_what_was_asked() -> None:
    plan = gold_for_width(0.06, **ASKED)
    assert plan.n_gold is not None
    assert plan.width <= 0.06
    variance = 0.1 * (1 / (plan.n_gold - 1) - 1 / 5_000)
    assert 2 * 1.959963984540054 * variance**0.5 > 0.06


def test_noise_asks_for_more_gold() -> None:
    free = gold_for_width(0.06, **ASKED)
    paid = gold_for_width(0.06, **ASKED, difference_variance=50.0, count_variance=200.0)
    assert free.n_gold is not None
    assert paid.n_gold is not None
    assert free.n_gold < paid.n_gold
    assert free.of_noise == 0.0
    assert paid.width**2 == pytest.approx(
        (2 * 1.959963984540054) ** 2 * (paid.of_sampling + paid.of_noise)
    )


def test_a_width_that_noise_alone_exceeds_has_no_number() -> None:
    plan = gold_for_width(0.001, **ASKED, count_variance=1e6)
    assert plan.n_gold is None
    assert plan.width > 0.001


def test_a_consensus_without_errors_needs_one_gold_task() -> None:
    assert gold_for_width(0.01, accuracy=1.0, n_tasks=100, n_classes=2).n_gold == 1


@pytest.mark.parametrize(
    "wrong", [{"accuracy": 0.0}, {"n_tasks": 1}, {"n_classes": 1}, {"level": 1.0}, {"width": 0.0}]
)
def test_numbers_out_of_range_are_refused(wrong: dict) -> None:
    known = {"width": 0.06, **ASKED, **wrong}
    with pytest.raises(ValueError, match="must be"):
        gold_for_width(known.pop("width"), **known)

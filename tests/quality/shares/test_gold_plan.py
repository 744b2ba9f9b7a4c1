"""How many gold tasks an interval needs."""

import numpy as np
import pytest

from quality.shares import gold_for_width
from quality.shares.intervals import share_intervals

ASKED = {"accuracy": 0.8, "n_tasks": 5_000, "n_classes": 4}


def test_with_one_gold_task_fewer_the_width_is_above_what_was_asked() -> None:
    plan = gold_for_width(0.06, **ASKED)
    assert plan.n_gold is not None
    assert plan.width <= 0.06
    n = plan.n_gold - 1
    variance = 2 * (0.2 * n + 3.2) / (n + 6.4) / 4 * (1 / n - 1 / 5_000)
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


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("accuracy", [0.8, 0.95, 0.99, 1.0])
def test_corrected_shares_have_the_width_that_was_planned(
    accuracy: float, n_classes: int, rng: np.random.Generator
) -> None:
    """The mean over 40 samples, whose standard error is below .003."""
    plan = gold_for_width(0.1, accuracy=accuracy, n_tasks=5_000, n_classes=n_classes)
    assert plan.n_gold is not None
    consensus = np.arange(5_000) % n_classes
    counts, widths = np.bincount(consensus)[np.newaxis], []
    for _ in range(40):
        wrong = rng.random(5_000) > accuracy
        truth = (consensus + wrong * rng.integers(1, n_classes, size=5_000)) % n_classes
        gold = rng.choice(5_000, size=plan.n_gold, replace=False)
        table = np.zeros((1, n_classes, n_classes), dtype=np.int64)
        np.add.at(table[0], (consensus[gold], truth[gold]), 1)
        low, high = share_intervals(counts, table, level=0.95)
        widths.append((high - low).mean())
    assert np.mean(widths) == pytest.approx(0.1, rel=0.15)


@pytest.mark.parametrize(
    "wrong",
    [
        {"accuracy": 0.0}, {"n_tasks": 1}, {"n_classes": 1}, {"level": 1.0}, {"width": 0.0},
        {"count_variance": float("nan")}, {"difference_variance": -1.0},
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(wrong: dict) -> None:
    known = {"width": 0.06, **ASKED, **wrong}
    with pytest.raises(ValueError, match="must be"):
        gold_for_width(known.pop("width"), **known)

"""Reliability: the definition of the calibration error, its interval, what chance leaves, and levels."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import reliability
from quality.confidence import calibration_error
from quality.confidence.gold_check import MAX_CELLS, natural_levels, nearest_level

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def judged() -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    pair = st.tuples(st.floats(0.0, 1.0), st.booleans())
    return st.lists(pair, min_size=1, max_size=40).map(
        lambda rows: (np.array([row[0] for row in rows]), np.array([row[1] for row in rows]))
    )


@QUICK
@given(judged())
def test_the_error_is_that_of_a_slow_count(rows: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, right = rows
    total = 0.0
    for number in range(15):
        inside = [min(int(one * 15), 14) == number for one in confidence]
        if any(inside):
            apart = confidence[inside].mean() - right[inside].mean()
            total += abs(apart) * sum(inside) / len(right)
    assert calibration_error(confidence, right) == pytest.approx(total, abs=1e-12)


@QUICK
@given(judged())
def test_bins_lose_nothing_and_the_error_is_at_least_the_distance_of_the_means(
    rows: tuple[np.ndarray, np.ndarray],
) -> None:
    confidence, right = rows
    found = reliability(confidence, right, rng=np.random.default_rng(0))
    assert found.bin_n.sum() == found.n == len(right)
    assert found.bin_right.sum() == right.sum()
    assert found.bin_confidence @ found.bin_n == pytest.approx(confidence.sum())
    assert found.error >= abs(found.confidence - found.right) - 1e-12
    assert 0 <= found.error_interval[0] <= found.error <= found.error_interval[1] <= 1
    assert found.brier == pytest.approx(np.mean((confidence - right) ** 2))


def test_the_floor_is_the_error_of_calibrated_confidence() -> None:
    """Statistical: the mean of 60 calibrated draws is within four standard errors of the floor."""
    rng = np.random.default_rng(1)
    confidence = rng.beta(6, 2, size=300)
    floor = reliability(confidence, rng.random(300) < confidence, rng=rng).floor
    errors = [calibration_error(confidence, rng.random(300) < confidence) for _ in range(60)]
    assert abs(np.mean(errors) - floor) < 4 * np.std(errors) / np.sqrt(60) + 0.001


def test_the_interval_covers_the_error_of_the_population() -> None:
    """Statistical: overconfident by .15, at 200 tasks; 90 % is promised, 80 of 100 are asked."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(100):
        confidence = rng.beta(6, 2, size=200)
        right = rng.random(200) < np.maximum(confidence - 0.15, 0)
        low, high = reliability(confidence, right, rng=rng).error_interval
        held += low <= 0.15 <= high
    assert held >= 80


@pytest.mark.long
@pytest.mark.parametrize(("n", "off"), [(20, 0.0), (100, 0.0), (20, 0.1)])
def test_the_interval_covers_the_error_of_few_tasks(n: int, off: float) -> None:
    """Statistical: calibrated, or right less often than sure labels claim; of 90 % promised, 85 are asked.

    By the bootstrap alone 39 to 73 of 100 intervals hold the error.
    """
    rng = np.random.default_rng([n, round(10 * off)])
    confidence = rng.beta(20, 0.5, size=100_000)
    chance = np.maximum(confidence - off, 0)
    error, held = calibration_error(confidence, chance), 0
    for _ in range(100):
        some = rng.integers(len(confidence), size=n)
        right = rng.random(n) < chance[some]
        low, high = reliability(confidence[some], right, rng=rng).error_interval
        held += low <= error <= high
    assert held >= 85


def test_the_same_seed_gives_the_same_numbers() -> None:
    confidence, right = np.linspace(0.3, 1, 50), np.arange(50) % 3 > 0
    first, again = (reliability(confidence, right, rng=np.random.default_rng(3)) for _ in range(2))
    assert (first.error_interval, first.floor) == (again.error_interval, again.floor)


def test_what_is_no_confidence_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="one task or more, got none"):
        reliability(np.zeros(0), np.zeros(0, dtype=bool), rng=rng)
    for bad in (1.2, -0.1, np.nan):
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
            reliability(np.array([bad]), np.array([True]), rng=rng)


@pytest.mark.refusal
@pytest.mark.parametrize("right", [np.ones(1, dtype=bool), np.ones((2, 1), dtype=bool)])
def test_what_is_right_is_one_truth_value_a_task(right: np.ndarray) -> None:
    with pytest.raises(ValueError, match="right must be 2 truth values, one per task"):
        reliability(np.array([0.5, 0.9]), right, rng=np.random.default_rng(0))


@QUICK
@given(
    st.lists(st.tuples(st.sampled_from([0.5, 0.7, 0.71, 0.9, 0.97]), st.booleans()), min_size=1),
    st.integers(1, 6),
)
def test_levels_do_not_raise_the_error_of_the_tasks_they_are_made_from(
    tasks: list[tuple[float, bool]], n_levels: int
) -> None:
    confidence, right = np.array(tasks).T
    levels = natural_levels(confidence, n_levels)
    rounded = nearest_level(confidence, levels)

    def error(said: np.ndarray) -> float:  # confidence by confidence: bins are another count
        return sum(abs((said - right)[said == value].sum()) for value in np.unique(said))

    assert len(levels) <= n_levels
    assert error(rounded) <= error(confidence) + 1e-9
    assert rounded.mean() == pytest.approx(confidence.mean())


@pytest.mark.parametrize("n_levels", [1, 2, 3, 4])
def test_levels_are_the_closest_of_all_divisions(n_levels: int) -> None:
    """Oracle: every division of nine values."""
    rng = np.random.default_rng(n_levels)
    for _ in range(20):
        values = np.sort(rng.beta(4, 1, size=9))
        divisions = (np.split(values, at) for at in combinations(range(1, 9), n_levels - 1))
        parts = min(divisions, key=lambda found: sum(((x - x.mean()) ** 2).sum() for x in found))
        assert np.allclose(natural_levels(values, n_levels), [part.mean() for part in parts])


def test_of_many_values_levels_lie_between_quantiles() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([0.4, 0.7, 0.95])
    values = rng.choice(centres, p=[0.2, 0.3, 0.5], size=20 * MAX_CELLS)
    found = natural_levels(values + rng.normal(0, 0.005, size=values.size), 3)
    assert np.allclose(found, centres, atol=0.003)
    assert np.array_equal(natural_levels(np.array([0.5, 0.9, 0.5]), 7), [0.5, 0.9])


@pytest.mark.refusal
def test_numbers_of_any_width_are_taken() -> None:
    right, wanted = np.array([True, False]), np.array([1.0, 0.5])
    found, same = (
        reliability(wanted.astype(kind), right, rng=np.random.default_rng(0))
        for kind in (np.longdouble, np.float64)
    )
    assert (found.error, found.brier) == (same.error, same.brier)

"""Response times: medians by their definition, quick workers found, slow ones left alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from quality import CrowdLabels, encode, power_law_assignment
from quality.reports.timing import response_times
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def timed_crowd(
    rng: np.random.Generator, n_workers: int, quick: int, factor: float
) -> tuple[CrowdLabels, np.ndarray]:
    """A power-law crowd whose first workers by name take so many times less than they would."""
    rows = power_law_assignment(n_tasks=1500, n_workers=n_workers, labels_per_task=5, rng=rng)
    labels = encode(rows.worker, rows.task, np.zeros(len(rows.task), dtype=int))
    pace = rng.normal(np.log(20), 0.4, size=labels.n_workers)
    pace[labels.workers < quick] -= np.log(factor)
    return labels, np.exp(rng.normal(pace[labels.worker], 0.7))


@QUICK
@given(crowds(), st.integers(0, 10**6))
def test_medians_are_numpys_and_few_labels_are_not_judged(labels: CrowdLabels, seed: int) -> None:
    """Oracle: NumPy's nanmedian, one worker at a time."""
    rng = np.random.default_rng(seed)
    seconds = rng.exponential(10, size=labels.n_labels)
    seconds[rng.random(labels.n_labels) < 0.3] = np.nan
    found = response_times(labels, seconds)
    for worker in range(labels.n_workers):
        mine = seconds[(labels.worker == worker) & ~np.isnan(seconds)]
        assert found.n_timed[worker] == len(mine)
        expected = np.median(mine) if len(mine) else np.nan
        assert found.median_seconds[worker] == pytest.approx(expected, nan_ok=True)
    assert not found.hasty[found.n_timed < 5].any()
    assert np.isnan(found.deviation[found.n_timed < 5]).all()


def test_the_quick_are_found_and_the_others_left_alone(rng: np.random.Generator) -> None:
    """Five crowds; eight of sixty take a thirtieth of the time, more than 4 deviations past the line.

    Each is missed with probability below 0.01, the others are hasty with probability 0.00135.
    """
    assert max(binom.sf(6, 40, 0.01), binom.sf(6, 260, 0.00135)) < 1e-6
    missed = blamed = 0
    for _ in range(5):
        labels, seconds = timed_crowd(rng, 60, 8, 30.0)
        hasty = response_times(labels, seconds).hasty
        missed += np.count_nonzero(~hasty[labels.workers < 8])
        blamed += np.count_nonzero(hasty[labels.workers >= 8])
    assert missed <= 6
    assert blamed <= 6


def test_of_log_normal_workers_hardly_any_is_called_hasty(rng: np.random.Generator) -> None:
    """2,000 workers, each hasty with probability 0.00135, or thrice that for scales estimated too
    small: 30 or more have probability < 1e-7."""
    assert binom.sf(29, 2000, 3 * 0.00135) < 1e-7
    n_hasty = 0
    for _ in range(20):
        labels, seconds = timed_crowd(rng, 100, 0, 1.0)
        n_hasty += np.count_nonzero(response_times(labels, seconds).hasty)
    assert n_hasty < 30


def test_another_unit_of_time_changes_nobodys_verdict(rng: np.random.Generator) -> None:
    labels, seconds = timed_crowd(rng, 60, 8, 6.0)
    seconds[::40] = 0.0
    one, other = response_times(labels, seconds), response_times(labels, seconds * 1000)
    assert one.hasty.any()
    assert np.array_equal(one.hasty, other.hasty)
    assert other.median_seconds == pytest.approx(1000 * one.median_seconds, nan_ok=True)
    assert other.crowd_seconds == pytest.approx(1000 * one.crowd_seconds)


def test_names_play_no_part(rng: np.random.Generator) -> None:
    labels, seconds = timed_crowd(rng, 60, 8, 6.0)
    name = rng.permutation(labels.n_workers)
    renamed = encode(name[labels.worker], labels.task, labels.label)
    order = np.lexsort((name[labels.worker], labels.task))
    one, other = response_times(labels, seconds), response_times(renamed, seconds[order])
    assert np.array_equal(one.hasty, other.hasty[name])


def test_half_the_crowds_time_is_quick_enough_however_alike_the_others_are() -> None:
    """All take 20 seconds but one, who takes 10, or just less."""
    labels = encode(np.repeat(np.arange(8), 6), np.tile(np.arange(6), 8), np.zeros(48, dtype=int))
    for least, expected in ((10.0, []), (9.9, [7])):
        seconds = np.where(labels.worker == 7, least, 20.0)
        assert np.flatnonzero(response_times(labels, seconds).hasty).tolist() == expected


def test_a_crowd_of_few_or_of_clocks_that_stand_still_is_not_judged() -> None:
    labels = encode(np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4), np.zeros(24, dtype=int))
    seconds = np.where(labels.worker == 0, 0.1, 20.0)
    for times in (seconds, 0 * seconds, np.full(24, np.nan)):
        found = response_times(labels, times)
        assert not found.hasty.any()
        assert np.isnan(found.crowd_seconds)


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        pytest.param(
            np.ones(3), r"seconds must have shape \(2,\), got \(3,\)", marks=pytest.mark.refusal
        ),
        (np.array([1.0, -1.0]), "seconds must be >= 0 and finite"),
        (np.array([1.0, np.inf]), "seconds must be >= 0 and finite"),
    ],
)
def test_times_that_do_not_fit_are_refused(seconds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        response_times(encode([1, 2], [1, 1], [0, 1]), seconds)


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_times_of_any_width_are_taken(kind: type) -> None:
    rng = np.random.default_rng(0)
    labels = encode(np.repeat(np.arange(7), 6), np.tile(np.arange(6), 7), np.zeros(42, dtype=int))
    seconds = (40_000 + 20_000 * rng.random(42)).astype(kind)  # two of them are beyond float16
    one, other = response_times(labels, seconds), response_times(labels, seconds.astype(np.float64))
    assert one.median_seconds.tobytes() == other.median_seconds.tobytes()
    assert one.deviation.tobytes() == other.deviation.tobytes()

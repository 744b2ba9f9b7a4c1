"""Workers who grade: wrong answers fall off with distance, and those who shift or see no order."""

import tracemalloc

import numpy as np
import pytest

from quality import SimulatedCrowd, regular_assignment, simulate_crowd
from quality.simulation.grades import another_grade


@pytest.fixture
def crowd(rng: np.random.Generator) -> SimulatedCrowd:
    """5 classes, 4,000 tasks, 30 workers, 5 of them shifted and 5 nominal."""
    rows = regular_assignment(n_tasks=4000, n_workers=30, labels_per_task=6, rng=rng)
    others = {"shifted": 5, "nominal": 5}
    truth = rng.integers(5, size=4000)
    return simulate_crowd(rows, truth, n_classes=5, adversaries=others, decay=0.3, rng=rng)


def misses(crowd: SimulatedCrowd, kind: str) -> np.ndarray:
    """How far each label of a kind is off."""
    hers = (crowd.kind == kind)[crowd.worker]
    return (crowd.label - crowd.truth[crowd.task])[hers]


def test_another_grade_is_never_the_same_and_as_frequent_as_its_weight(
    rng: np.random.Generator,
) -> None:
    drawn = another_grade(np.full(200_000, 1), 4, 0.5, rng)
    share = np.bincount(drawn, minlength=4) / len(drawn)
    # weights .5, -, .5, .25; false alarms below 1e-9 at six standard errors of at most .0012
    assert share == pytest.approx([0.4, 0.0, 0.4, 0.2], abs=0.007)


def test_a_decay_of_one_names_every_other_class_alike(rng: np.random.Generator) -> None:
    share = np.bincount(another_grade(np.full(90_000, 0), 4, 1.0, rng), minlength=4) / 90_000
    assert share == pytest.approx([0.0, 1 / 3, 1 / 3, 1 / 3], abs=0.01)


@pytest.mark.parametrize("decay", [5e-324, 1e-310])
def test_the_least_decay_names_neighbours_alone(rng: np.random.Generator, decay: float) -> None:
    """Draws among weights that have no digits would name the class itself, or one beyond the last."""
    grade = np.repeat([0, 1, 2], 1000)
    drawn = another_grade(grade, 3, decay, rng)
    assert (np.abs(drawn - grade) == 1).all()
    assert np.mean(drawn[1000:2000] == 0) == pytest.approx(0.5, abs=0.1)


def test_thousands_of_grades_take_no_table_of_labels_by_classes(rng: np.random.Generator) -> None:
    """Twenty thousand labels of ten thousand classes: a number for each would take 1,600 MB."""
    grade = rng.integers(10_000, size=20_000)
    tracemalloc.start()
    try:
        drawn = another_grade(grade, 10_000, 0.3, rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6
    # 7 in 10 wrong grades are neighbours
    assert np.mean(np.abs(drawn - grade) == 1) == pytest.approx(0.7, abs=0.03)


def test_honest_misses_fall_off_with_distance_and_nominal_ones_do_not(
    crowd: SimulatedCrowd,
) -> None:
    honest = np.bincount(np.abs(misses(crowd, "honest")), minlength=5)
    nominal = np.bincount(np.abs(misses(crowd, "nominal")), minlength=5)
    assert honest[1] > 2 * honest[2] > 4 * honest[3]
    # of five classes alike, pairs 1, 2, 3, 4 apart are as 4 : 3 : 2 : 1
    assert nominal[2] > 0.6 * nominal[1]


def test_shifted_workers_are_one_off_in_one_direction_each(crowd: SimulatedCrowd) -> None:
    assert np.abs(misses(crowd, "shifted")).max() == 1
    for worker in np.flatnonzero(crowd.kind == "shifted"):
        hers = crowd.worker == worker
        assert len(np.unique(np.sign(crowd.label - crowd.truth[crowd.task])[hers])) == 2  # or none


def test_shifted_workers_are_off_four_times_in_five_where_the_scale_goes_on(
    crowd: SimulatedCrowd,
) -> None:
    """About 2,400 labels of inner grades: Hoeffding, .08 off has probability below 1e-12."""
    inner = (crowd.truth[crowd.task] > 0) & (crowd.truth[crowd.task] < 4)
    off = (crowd.label != crowd.truth[crowd.task])[(crowd.kind == "shifted")[crowd.worker] & inner]
    assert np.mean(off) == pytest.approx(0.8, abs=0.08)


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.1, np.nan])
def test_a_decay_out_of_range_is_refused(rng: np.random.Generator, decay: float) -> None:
    rows = regular_assignment(n_tasks=9, n_workers=3, labels_per_task=1, rng=rng)
    with pytest.raises(ValueError, match=r"decay must be in \(0, 1\]"):
        simulate_crowd(rows, np.zeros(9, int), n_classes=3, adversaries={}, decay=decay, rng=rng)

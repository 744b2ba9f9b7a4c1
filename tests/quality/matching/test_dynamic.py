"""Repaired semi-matchings against fresh ones."""

import numpy as np
import pytest

from quality import (
    CrowdLabels,
    conflict_graph,
    encode,
    filter_workers,
    power_law_assignment,
    semi_matching,
    simulate_crowd,
)
from quality.matching.dynamic import DynamicMatching
from quality.reputation.penalties import hard_level


def random_crowd(rng: np.random.Generator) -> CrowdLabels:
    """Up to 15 workers, 24 tasks and 4 classes, of random density; labels are random."""
    n_workers, n_tasks = rng.integers(2, 16), rng.integers(1, 25)
    asked = rng.random((n_tasks, n_workers)) < rng.uniform(0.1, 0.9)
    asked[0, 0] = True
    task, worker = np.nonzero(asked)
    n_classes = int(rng.integers(2, 5))
    label = rng.integers(n_classes, size=len(task))
    return encode(worker, task, label, classes=range(n_classes))


def campaign(rng: np.random.Generator, n_tasks: int = 2000, n_workers: int = 100) -> CrowdLabels:
    """Power-law activity, a fifth of the workers random."""
    rows = power_law_assignment(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=5, rng=rng)
    truth = rng.integers(2, size=n_tasks)
    crowd = simulate_crowd(
        rows, truth, n_classes=2, adversaries={"random": n_workers // 5}, rng=rng
    )
    return encode(crowd.worker, crowd.task, crowd.label)


def test_cost_sorted_loads_and_levels_are_those_of_a_fresh_solution(
    rng: np.random.Generator,
) -> None:
    """Oracle: everything anew after each of more than 2,000 removals, to the last worker."""
    n_removals = 0
    while n_removals < 2000:
        labels = random_crowd(rng)
        matching, keep = DynamicMatching(labels), np.ones(labels.n_workers, dtype=bool)
        for worker in rng.permutation(labels.n_workers).tolist():
            matching.remove(worker)
            keep[worker] = False
            n_removals += 1
            kept = labels.keep_workers(keep)
            fresh = semi_matching(conflict_graph(kept))
            assert fresh.cost == matching.cost
            assert sorted(fresh.load) == sorted(matching.load)
            level = [matching.level(one) for one in np.flatnonzero(keep).tolist()]
            assert hard_level(kept)[keep].tolist() == level


def test_the_highest_worker_and_any_level_are_those_of_a_fresh_solution(
    rng: np.random.Generator,
) -> None:
    """Of equal levels the lowest rank comes first, then the lowest code."""
    n_ties = 0
    for _ in range(200):
        labels = random_crowd(rng)
        matching, keep = DynamicMatching(labels), np.ones(labels.n_workers, dtype=bool)
        for gone in rng.permutation(labels.n_workers)[:-1].tolist():
            matching.remove(gone)
            keep[gone] = False
            level = hard_level(labels.keep_workers(keep))
            rank = rng.integers(3, size=labels.n_workers).astype(np.float64)
            judged = keep & (rng.random(labels.n_workers) < 0.7)
            asked = int(rng.choice(np.flatnonzero(keep)))
            if judged.any():
                order = np.lexsort((rank[judged], -level[judged]))
                assert matching.highest(judged, rank) == np.flatnonzero(judged)[order[0]]
                n_ties += np.count_nonzero(level[judged] == level[judged].max()) > 1
            assert matching.level(asked) == level[asked]
    assert n_ties > 100


def test_nobody_to_judge_is_refused() -> None:
    matching = DynamicMatching(encode(["ann", "bob"], [1, 1], ["x", "y"]))
    matching.remove(0)
    with pytest.raises(ValueError, match="judged must be true for a worker who is left, got none"):
        matching.highest(np.array([True, False]), np.zeros(2))


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("judged", "rank"),
    [
        (np.ones(1, dtype=bool), np.zeros(2)),
        (np.ones(2, dtype=bool), np.zeros(1)),
        (np.ones(3, dtype=bool), np.zeros(3)),
        (np.ones(2), np.zeros(2)),
    ],
)
def test_all_workers_are_judged_and_ranked(judged: np.ndarray, rank: np.ndarray) -> None:
    """Loops would read beyond what is too short."""
    matching = DynamicMatching(encode(["ann", "bob"], [1, 1], ["x", "y"]))
    with pytest.raises(ValueError, match="judged and rank must be 2 truth values and numbers"):
        matching.highest(judged, rank)


def test_the_same_removals_leave_the_same_loads(rng: np.random.Generator) -> None:
    labels = campaign(rng, 300, 30)
    one, other = DynamicMatching(labels), DynamicMatching(labels)
    for worker in range(0, 30, 2):
        one.remove(worker)
        other.remove(worker)
        assert one.load.tobytes() == other.load.tobytes()


def test_a_large_crowd_stays_optimal(rng: np.random.Generator) -> None:
    """The half with the highest levels goes, one by one; long paths and whole levels move."""
    labels = campaign(rng)
    matching, keep = DynamicMatching(labels), np.ones(labels.n_workers, dtype=bool)
    for _ in range(50):
        worker = matching.highest(keep, np.zeros(len(keep)))
        matching.remove(worker)
        keep[worker] = False
    fresh = semi_matching(conflict_graph(labels.keep_workers(keep)))
    assert fresh.cost == matching.cost
    assert sorted(fresh.load) == sorted(matching.load)


def test_the_filter_led_by_levels_is_the_one_that_solves_anew(rng: np.random.Generator) -> None:
    """A function that is not `hard_level` itself is called anew on every table."""
    n_refused = 0
    for _ in range(60):
        labels = random_crowd(rng)
        rule = {"n_workers": int(rng.integers(1, 9)), "min_labels_per_task": int(rng.integers(3))}
        one = filter_workers(labels, penalty=hard_level, **rule)
        other = filter_workers(labels, penalty=lambda table: hard_level(table), **rule)
        for name in ("keep", "removed", "removed_penalty", "refused", "refused_penalty"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert (one.refused_reason, one.stopped) == (other.refused_reason, other.stopped)
        n_refused += len(one.refused)
    assert n_refused > 20


def test_who_has_changed_is_enough_to_find_the_highest(rng: np.random.Generator) -> None:
    """Many equals in several blocks of workers: it finds whom a look at everybody finds."""
    for _ in range(4):
        labels = campaign(rng, 1500, 700)
        told, anew = DynamicMatching(labels), DynamicMatching(labels)
        judged = np.ones(labels.n_workers, dtype=bool)
        rank, changed = rng.integers(3, size=labels.n_workers).astype(float), None
        for _ in range(150):
            worker = told.highest(judged, rank, changed)
            assert worker == anew.highest(judged, rank)
            judged[worker] = False
            if rng.random() < 0.7:
                told.remove(worker)
                anew.remove(worker)
            others = rng.integers(labels.n_workers, size=12).astype(np.int32)
            rank[others] = rng.integers(-1, 4, size=12)
            changed = np.append(others, np.int32(worker)).astype(np.int32)


def test_who_has_not_changed_is_not_looked_at() -> None:
    """A look costs what has changed: a rank that falls without a word is not seen."""
    worker = np.repeat(np.arange(600), 2)
    labels = encode(worker, worker + np.tile([0, 1], 600), np.tile(["x", "y"], 600))
    matching, judged, rank = DynamicMatching(labels), np.ones(600, dtype=bool), np.zeros(600)
    first, nobody = matching.highest(judged, rank), np.empty(0, dtype=np.int32)
    rank[500] = -1.0
    assert matching.highest(judged, rank, nobody) == first != 500
    assert matching.highest(judged, rank, np.array([500], dtype=np.int32)) == 500
    assert matching.highest(judged, rank) == 500


def test_the_filter_led_by_levels_is_right_in_a_crowd_of_several_blocks(
    rng: np.random.Generator,
) -> None:
    labels = campaign(rng, 900, 700)
    one = filter_workers(labels, penalty=hard_level, n_workers=60)
    other = filter_workers(labels, penalty=lambda table: hard_level(table), n_workers=60)
    assert one.removed.tolist() == other.removed.tolist()


def test_the_labels_are_not_changed(rng: np.random.Generator) -> None:
    labels = campaign(rng, 100, 20)
    before = (labels.worker.tobytes(), labels.label.tobytes())
    matching = DynamicMatching(labels)
    matching.load[:] = 99
    matching.remove(3)
    assert before == (labels.worker.tobytes(), labels.label.tobytes())
    assert matching.load.max() < 99


@pytest.mark.refusal
@pytest.mark.parametrize("worker", [-1, 2, 0, 1.0])
def test_a_worker_who_is_not_there_is_refused(worker: int) -> None:
    matching = DynamicMatching(encode(["ann", "bob"], [1, 1], ["x", "y"]))
    matching.remove(0)
    for call in (matching.remove, matching.level):
        with pytest.raises(ValueError, match=f"must be one of those left, got worker={worker}"):
            call(worker)

"""Workers who join a simulated crowd: each kind does what its name says, and nobody else changes."""

import numpy as np
import pytest

from quality import SimulatedCrowd, regular_assignment, simulate_crowd
from quality.simulation.cliques import CLIQUES

N_TASKS, N_HONEST = 600, 30
KINDS = tuple(CLIQUES)


def crowd_of(kind: str, count: int, n_classes: int = 3, seed: int = 3) -> SimulatedCrowd:
    """Thirty honest workers and those who join them."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(n_tasks=N_TASKS, n_workers=N_HONEST, labels_per_task=4, rng=rng)
    truth = rng.integers(n_classes, size=N_TASKS)
    return simulate_crowd(rows, truth, n_classes=n_classes, adversaries={kind: count}, rng=rng)


def table_of(crowd: SimulatedCrowd, kind: str) -> np.ndarray:
    """Label of each worker of a kind for each task, -1 where she gave none."""
    table = np.full((len(crowd.kind), len(crowd.truth)), -1)
    table[crowd.worker, crowd.task] = crowd.label
    return table[crowd.kind == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_they_come_in_addition_and_the_others_labels_stay(kind: str) -> None:
    with_them, without = crowd_of(kind, 6), crowd_of(kind, 0)
    own = with_them.worker < N_HONEST
    assert (with_them.kind[N_HONEST:] == kind).all()
    assert np.isnan(with_them.accuracy[N_HONEST:]).all()
    for name in ("worker", "task", "label"):
        assert np.array_equal(getattr(with_them, name)[own], getattr(without, name))
    assert (np.diff(with_them.task) >= 0).all()


def test_sybils_answer_half_of_the_tasks_alike_and_know_nothing() -> None:
    crowd = crowd_of("sybils", 5)
    table = table_of(crowd, "sybils")
    assert (table == table[0]).all()
    answered = table[0] >= 0
    assert answered.sum() == N_TASKS // 2
    # 300 fair draws of three: beyond 5 standard errors has probability 6e-7
    assert abs((table[0] == crowd.truth)[answered].mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / 300)


def test_a_ring_is_three_workers_and_rings_differ() -> None:
    table = table_of(crowd_of("rings", 7), "rings")
    assert (table[:3] == table[0]).all()
    assert (table[3:6] == table[3]).all()
    assert (table[0] != table[3]).any()
    assert ((table >= 0).sum(axis=1) == N_TASKS // 4).all()


def test_part_time_colluders_lie_alike_on_a_tenth_and_are_honest_elsewhere() -> None:
    crowd = crowd_of("part_time", 8)
    table = table_of(crowd, "part_time")
    alike_and_wrong = (table == table[0]).all(axis=0) & (table[0] != crowd.truth)
    assert alike_and_wrong.sum() == N_TASKS // 10
    assert (table[:, ~alike_and_wrong] == crowd.truth[~alike_and_wrong]).mean() > 0.65


def test_the_load_aware_lie_in_threes_and_pad_with_the_truth() -> None:
    crowd = crowd_of("load_aware", 6)
    table = table_of(crowd, "load_aware")
    lies = (table >= 0) & (table != crowd.truth)
    assert (table[:3] == table[0]).all()
    assert (lies.sum(axis=1) == N_TASKS // 10).all()
    assert ((table >= 0).sum(axis=1) == 4 * N_TASKS // 10).all()


@pytest.mark.parametrize(("kind", "accuracy"), [("models", 0.65), ("better_models", 0.75)])
def test_models_are_of_one_mind_and_as_accurate_as_it(kind: str, accuracy: float) -> None:
    """Two answers are both the mind's on 64 % of the tasks; bounds are over 6 standard errors."""
    crowd = crowd_of(kind, 5)
    table = table_of(crowd, kind)
    right = (table == crowd.truth).mean(axis=1)
    assert np.abs(right - accuracy).max() < 6 * np.sqrt(accuracy * (1 - accuracy) / N_TASKS)
    alike = np.mean([(table[i] == table[j]).mean() for i in range(5) for j in range(i)])
    on_their_own = accuracy**2 + (1 - accuracy) ** 2 / 2
    assert alike == pytest.approx(0.64 + 0.36 * on_their_own, abs=0.06)

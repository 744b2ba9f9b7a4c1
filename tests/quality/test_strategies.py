"""Simulated workers do what their kind says."""

from typing import Any

import numpy as np
import pytest

from quality import SimulatedCrowd, regular_assignment, simulate_crowd
from quality.strategies import STRATEGIES


@pytest.fixture
def crowd(rng: np.random.Generator) -> SimulatedCrowd:
    """40 workers, 3 of each kind of adversary, 3 classes, 4,000 tasks."""
    assignment = regular_assignment(n_tasks=4000, n_workers=40, labels_per_task=8, rng=rng)
    truth = rng.choice(3, p=[0.5, 0.3, 0.2], size=4000)
    adversaries = dict.fromkeys(STRATEGIES, 3)
    return simulate_crowd(assignment, truth, n_classes=3, adversaries=adversaries, rng=rng)


def labels_of(crowd: SimulatedCrowd, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tasks and labels of each worker of a kind."""
    workers = np.flatnonzero(crowd.kind == kind)
    return [(crowd.task[crowd.worker == w], crowd.label[crowd.worker == w]) for w in workers]


def test_there_are_as_many_of_each_kind_as_asked(crowd: SimulatedCrowd) -> None:
    kinds, counts = np.unique(crowd.kind, return_counts=True)
    found = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    assert found == {"honest": 28, "random": 3, "malicious": 3, "uniform": 3, "colluding": 3}
    assert np.array_equal(np.isnan(crowd.accuracy), crowd.kind != "honest")


def test_malicious_workers_are_always_wrong_in_every_way(crowd: SimulatedCrowd) -> None:
    for task, label in labels_of(crowd, "malicious"):
        assert (label != crowd.truth[task]).all()
        assert len(set(zip(crowd.truth[task].tolist(), label.tolist(), strict=True))) == 6


def test_uniform_workers_give_one_class_each(crowd: SimulatedCrowd) -> None:
    assert all(len(set(label.tolist())) == 1 for _, label in labels_of(crowd, "uniform"))


def test_colluding_workers_follow_one_script(crowd: SimulatedCrowd) -> None:
    script: dict[int, int] = {}
    for task, label in labels_of(crowd, "colluding"):
        for one, said in zip(task.tolist(), label.tolist(), strict=True):
            assert script.setdefault(one, said) == said
    assert set(script.values()) == {0, 1, 2}


def test_random_workers_give_every_class_equally_often(crowd: SimulatedCrowd) -> None:
    """2,400 labels: Hoeffding puts a share beyond 0.06 with probability below 2 * e^-17.2 = 7e-8."""
    label = np.concatenate([label for _, label in labels_of(crowd, "random")])
    assert len(label) == 2400
    assert np.bincount(label, minlength=3) / 2400 == pytest.approx(np.full(3, 1 / 3), abs=0.06)


def test_honest_workers_are_right_as_often_as_their_accuracy(crowd: SimulatedCrowd) -> None:
    """800 labels each: Hoeffding, 0.11 off has probability 2 * e^-19.3 = 8e-9, for 28 below 3e-7."""
    accuracy = crowd.accuracy[crowd.kind == "honest"]
    for (task, label), expected in zip(labels_of(crowd, "honest"), accuracy, strict=True):
        assert len(label) == 800
        assert np.mean(label == crowd.truth[task]) == pytest.approx(expected, abs=0.11)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_classes": 1}, "n_classes must be >= 2, got n_classes=1"),
        ({"adversaries": {"sleepy": 1}}, r"adversaries must be of .*got \['sleepy'\]"),
        ({"adversaries": {"random": 5}}, "adversaries must be at most all 4 workers"),
        ({"adversaries": {"random": -1}}, "adversaries must be at most all 4 workers"),
        ({"truth": np.array([0, 2])}, "truth must be 2 class codes below 2"),
        ({"truth": np.array([0])}, "truth must be 2 class codes below 2"),
    ],
)
def test_what_does_not_fit_is_refused(
    change: dict[str, Any], message: str, rng: np.random.Generator
) -> None:
    assignment = regular_assignment(n_tasks=2, n_workers=4, labels_per_task=2, rng=rng)
    arguments: dict[str, Any] = {
        "truth": np.array([0, 1]), "n_classes": 2, "adversaries": {}, "rng": rng,
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=message):
        simulate_crowd(assignment, **arguments)

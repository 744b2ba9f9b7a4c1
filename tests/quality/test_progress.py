"""Progress is told after every iteration and changes nothing."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from quality import (
    CrowdLabels,
    auto,
    dawid_skene,
    encode,
    glad,
    hierarchical_dawid_skene,
    kos,
    kos_plus,
    one_coin_dawid_skene,
    regular_assignment,
    simulate_crowd,
)


def seeded(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda labels, **asked: rule(labels, rng=np.random.default_rng(5), **asked)


ITERATIVE: dict[str, Callable[..., Any]] = {
    "Dawid–Skene": dawid_skene,
    "one-coin Dawid–Skene": one_coin_dawid_skene,
    "hierarchical Dawid–Skene": hierarchical_dawid_skene,
    "GLAD": glad,
    "KOS": seeded(kos),
    "KOS+": seeded(kos_plus),
}
every_rule = pytest.mark.parametrize("what", ITERATIVE)


def crowd_of(rng: np.random.Generator, n_classes: int) -> CrowdLabels:
    assignment = regular_assignment(n_tasks=120, n_workers=24, labels_per_task=7, rng=rng)
    truth = rng.integers(n_classes, size=120)
    crowd = simulate_crowd(
        assignment, truth, n_classes=n_classes, adversaries={"random": 3}, rng=rng
    )
    return encode(crowd.worker, crowd.task, crowd.label, classes=range(n_classes))


@every_rule
@pytest.mark.parametrize("n_classes", [2, 3])
def test_watching_changes_no_byte(rng: np.random.Generator, what: str, n_classes: int) -> None:
    labels = crowd_of(rng, n_classes)
    alone = ITERATIVE[what](labels, max_iter=13)
    watched = ITERATIVE[what](labels, max_iter=13, progress=lambda *_: None)
    for field in fields(alone):
        one, other = (np.asarray(getattr(found, field.name)) for found in (alone, watched))
        assert one.tobytes() == other.tobytes()


@every_rule
@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_every_iteration_is_told_and_no_step_twice(
    rng: np.random.Generator, what: str, tol: float
) -> None:
    """Two classes, where one iteration is one step; 13 are no multiple of any inner round."""
    told: list[tuple[str, int, int]] = []
    result = ITERATIVE[what](
        crowd_of(rng, 2), max_iter=13, tol=tol, progress=lambda *step: told.append(step)
    )
    assert told == [(what, done, 13) for done in range(1, result.n_iter + 1)]
    assert result.converged or result.n_iter == 13


@pytest.mark.parametrize("what", ["KOS", "KOS+"])
def test_the_steps_of_all_classes_are_one_work(rng: np.random.Generator, what: str) -> None:
    told: list[int] = []
    ITERATIVE[what](
        crowd_of(rng, 3), max_iter=4, tol=0.0, progress=lambda _, done, total: told.append(done)
    )
    assert told == list(range(1, 13))


def test_the_choice_among_candidates_tells_of_every_fit(rng: np.random.Generator) -> None:
    """Five candidates, on all labels and on two splits; watching changes nothing."""
    labels, told = crowd_of(rng, 2), list[tuple[str, int, int]]()
    alone = auto(labels, n_splits=2, rng=np.random.default_rng(5))
    watched = auto(
        labels,
        n_splits=2,
        progress=lambda *step: told.append(step),
        rng=np.random.default_rng(5),
    )
    assert told == [("auto", done, 15) for done in range(1, 16)]
    assert alone.posterior.tobytes() == watched.posterior.tobytes()
    assert repr(alone.scores) == repr(watched.scores)


@every_rule
def test_what_progress_raises_ends_the_work(rng: np.random.Generator, what: str) -> None:
    def cancel(_: str, done: int, __: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ITERATIVE[what](crowd_of(rng, 2), tol=0.0, progress=cancel)

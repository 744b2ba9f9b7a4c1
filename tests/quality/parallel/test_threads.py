"""Every rule that works on several threads gives the same bytes on any number of them."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from quality import (
    CrowdLabels,
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
from quality.parallel import chunk_starts

RULES: dict[str, Callable[..., Any]] = {
    "dawid_skene": dawid_skene,
    "one_coin_dawid_skene": one_coin_dawid_skene,
    "hierarchical_dawid_skene": hierarchical_dawid_skene,
    "glad": glad,
    "kos": lambda labels, **asked: kos(labels, rng=np.random.default_rng(5), **asked),
    "kos_plus": lambda labels, **asked: kos_plus(labels, rng=np.random.default_rng(5), **asked),
}


@pytest.fixture(scope="module")
def labels() -> CrowdLabels:
    """140,000 labels: cut into chunks for tasks and for workers alike."""
    rng = np.random.default_rng(0)
    assignment = regular_assignment(n_tasks=20_000, n_workers=100, labels_per_task=7, rng=rng)
    truth = rng.integers(3, size=20_000)
    crowd = simulate_crowd(assignment, truth, n_classes=3, adversaries={"random": 20}, rng=rng)
    table = encode(crowd.worker, crowd.task, crowd.label)
    assert min(len(chunk_starts(start)) for start in (table.task_start, table.worker_start)) > 4
    return table


@pytest.mark.parametrize("name", RULES)
def test_same_bytes_on_any_number_of_threads(labels: CrowdLabels, name: str) -> None:
    one, *others = (RULES[name](labels, max_iter=6, threads=n) for n in (1, 2, 3, None))
    for other in others:
        for field in fields(one):
            mine, its = (np.asarray(getattr(found, field.name)) for found in (one, other))
            assert mine.tobytes() == its.tobytes()


@pytest.mark.parametrize("name", RULES)
def test_no_threads_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="threads must be >= 1 or None, got threads=0"):
        RULES[name](encode(["a", "b"], [1, 1], ["x", "y"]), threads=0)

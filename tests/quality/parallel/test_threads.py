"""Chunks: where they are cut, and that rules give the same bytes on any number of threads."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from quality.parallel import MAX_CHUNKS, MIN_ROWS, chunk_starts, shared_out

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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3 * MIN_ROWS), min_size=1, max_size=40))
def test_chunks_hold_every_unit_once_and_few_are_many_rows(sizes: list[int]) -> None:
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cut = chunk_starts(start)
    assert (cut[0], cut[-1]) == (0, len(sizes))
    assert (np.diff(cut) >= 0).all()
    n_chunks = len(cut) - 1
    assert 1 <= n_chunks <= MAX_CHUNKS
    assert n_chunks == 1 or n_chunks * MIN_ROWS <= start[-1]
    # nobody has more than her part and one unit
    assert np.diff(start[cut]).max() <= start[-1] / n_chunks + max(sizes) + 1


def test_chunks_that_sums_of_their_own_would_not_pay_for_are_not_cut() -> None:
    start = np.arange(0, 10 * MIN_ROWS + 1, 10)
    assert len(chunk_starts(start)) == 9
    assert chunk_starts(start, 20 * MIN_ROWS).tolist() == [0, len(start) - 1]


@pytest.mark.parametrize("threads", [None, 1, 2, 7])
def test_results_come_in_the_order_of_the_chunks(threads: int | None) -> None:
    with shared_out(threads, 5) as shared:
        assert shared(lambda chunk: chunk**2) == [0, 1, 4, 9, 16]
        assert shared(lambda chunk: chunk) == [0, 1, 2, 3, 4]

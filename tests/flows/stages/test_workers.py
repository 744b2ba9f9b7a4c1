"""What judging tells of pairs of workers; the pairs themselves are those of `quality.collusion_pairs`."""

from __future__ import annotations

import numpy as np
import pytest

from flows.stages.workers import agreeing_pairs
from quality import CrowdLabels, encode

WORKERS, TASKS = 35, 60


def crowd(pairs: int) -> CrowdLabels:
    """Right on every task, but for the last workers: pairs, each wrong on a sixth of its own."""
    task, worker = np.repeat(np.arange(TASKS), WORKERS), np.tile(np.arange(WORKERS), TASKS)
    pair = (WORKERS - 1 - worker) // 2
    wrong = (pair < pairs) & (task % 6 == pair)
    return encode(worker, task, np.where(wrong, "n", "y"))


def test_a_pair_who_err_alike_is_named_with_its_counts() -> None:
    found = agreeing_pairs(crowd(1))
    assert found is not None
    assert (found["n_tested"], found["n_flagged"]) == (WORKERS * (WORKERS - 1) // 2, 1)
    (pair,) = found["shown"]
    assert (pair["workers"], pair["n_shared"], pair["n_same"]) == (["33", "34"], TASKS, 10)
    assert pair["expected"] < 3


def test_of_many_pairs_the_first_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.stages.workers.SHOWN_PAIRS", 2)
    found = agreeing_pairs(crowd(3))
    assert found is not None
    assert (found["n_flagged"], len(found["shown"])) == (3, 2)


def test_a_crowd_with_too_many_meetings_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    meetings = TASKS * WORKERS * (WORKERS - 1) // 2
    monkeypatch.setattr("flows.stages.workers.MAX_MEETINGS", meetings - 1)
    assert agreeing_pairs(crowd(1)) is None

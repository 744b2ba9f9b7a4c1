"""Simulated multi-label crowds."""

import numpy as np
import pytest

from quality import simulate_multilabels
from quality.multilabel import KINDS

SIZES = {"n_tasks": 200, "n_workers": 24, "answers_per_task": 4, "n_classes": 10}


def test_tasks_have_one_to_max_labels_classes() -> None:
    crowd = simulate_multilabels(**SIZES, max_labels=5, rng=np.random.default_rng(0))
    assert set(crowd.truth.sum(axis=1)) == {1, 2, 3, 4, 5}
    assert np.diff(crowd.table.task_start).tolist() == [4] * 200


def test_kinds_are_as_many_as_asked() -> None:
    others = {kind: 3 for kind in KINDS if kind != "honest"}
    crowd = simulate_multilabels(**SIZES, others=others, rng=np.random.default_rng(0))
    names, counts = np.unique(crowd.kind, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {**others, "honest": 9}


def test_kinds_answer_as_they_are_named() -> None:
    others = {"conservative": 6, "liberal": 6}
    crowd = simulate_multilabels(**SIZES, others=others, rng=np.random.default_rng(1))
    size = np.diff(crowd.table.label_start)
    mean = {
        kind: size[crowd.kind[crowd.table.worker] == kind].mean()
        for kind in KINDS
        if kind in crowd.kind
    }
    assert mean["conservative"] < mean["honest"] < mean["liberal"]


@pytest.mark.parametrize(
    "named",
    [
        {"max_labels": 11},
        {"others": {"rogue": 1}},
        {"others": {"spammer": 25}},
        pytest.param({"others": {"spammer": 1.5}}, marks=pytest.mark.refusal),
    ],
)
def test_mistakes_are_named(named: dict) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(named))} must be"):
        simulate_multilabels(**SIZES, **named, rng=np.random.default_rng(0))

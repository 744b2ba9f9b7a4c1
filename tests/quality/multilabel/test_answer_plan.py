"""Plans of further answers: the largest information first, over all classes of a task."""

from __future__ import annotations

import numpy as np
import pytest

from quality import encode_multilabels, multilabel_consensus, simulate_multilabels
from quality.multilabel import plan_answers
from quality.reports import posterior_entropy

CROWD = simulate_multilabels(
    n_tasks=60, n_workers=15, answers_per_task=3, n_classes=5, max_labels=2, others={"spammer": 3},
    rng=np.random.default_rng(4),
)  # fmt: skip
FOUND = multilabel_consensus(CROWD.table)


def gain_of(worker: int, task: int) -> float:
    """By the definition: entropy now less what is expected after her answer, class by class."""
    total = 0.0
    for code, chance in enumerate(FOUND.table()[task]):
        hit, false = FOUND.sensitivity[worker, code], FOUND.false_rate[worker, code]
        for says in (True, False):
            if_holds, if_not = (hit, false) if says else (1 - hit, 1 - false)
            said = chance * if_holds + (1 - chance) * if_not
            after = chance * if_holds / said
            total -= said * posterior_entropy(np.array([[after, 1 - after]]))[0]
        total += posterior_entropy(np.array([[chance, 1 - chance]]))[0]
    return float(total)


def test_gains_are_the_information_that_answers_are_expected_to_have() -> None:
    plan = plan_answers(CROWD.table, FOUND, budget=20, per_worker=4)
    pairs = zip(plan.worker.tolist(), plan.task.tolist(), strict=True)
    assert plan.gain == pytest.approx([gain_of(*pair) for pair in pairs], abs=1e-9)


def test_every_pair_planned_has_the_largest_gain_of_all_that_were_left() -> None:
    plan = plan_answers(CROWD.table, FOUND, budget=12, per_worker=2)
    known = set(zip(CROWD.table.worker.tolist(), CROWD.table.task.tolist(), strict=True))
    every = {
        (worker, task): gain_of(worker, task)
        for worker in range(15)
        for task in range(60)
        if (worker, task) not in known
    }
    asked: list[int] = []
    for worker, task in zip(plan.worker.tolist(), plan.task.tolist(), strict=True):
        left = {pair: gain for pair, gain in every.items() if asked.count(pair[0]) < 2}
        assert every[worker, task] == pytest.approx(max(left.values()), abs=1e-9)
        every = {pair: gain for pair, gain in every.items() if pair[1] != task}
        asked.append(worker)


def test_gains_never_rise_along_the_plan_and_add_up_to_those_by_class() -> None:
    plan = plan_answers(CROWD.table, FOUND, budget=50, per_worker=10)
    assert (np.diff(plan.gain) <= 0).all()
    assert plan.gain.sum() == pytest.approx(plan.by_class.sum())


def test_what_a_task_does_not_show_is_no_part_of_its_gain() -> None:
    workers, tasks = (
        ["ann", "bob", "ann", "bob", "cy"] * 3,
        [1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 6],
    )
    words = ["c", "", "c d", "d", "d", "c", "", "d", "d c", "c", "d", "", "d", "d", "d"]
    table = encode_multilabels(workers, tasks, map(str.split, words), shown={1: ["c"]})
    found = multilabel_consensus(table)
    assert found.table()[0, 1] > 0.1  # by what other tasks say
    plan = plan_answers(table, found, budget=1, per_worker=1, tasks=np.array([0]))
    assert plan.by_class.tolist() == [plan.gain[0], 0.0]
    assert plan.gain[0] > 0


def test_limits_hold() -> None:
    """No task twice, nobody asked too often or for what she has answered, none beyond those named."""
    tasks, workers = np.arange(10, 40), np.array([1, 3, 5])
    plan = plan_answers(CROWD.table, FOUND, budget=99, per_worker=4, tasks=tasks, workers=workers)
    assert len(set(plan.task.tolist())) == len(plan.task) == 12
    assert np.bincount(plan.worker, minlength=15).max() == 4
    assert set(plan.worker.tolist()) <= {1, 3, 5}
    assert set(plan.task.tolist()) <= set(tasks.tolist())
    known = set(zip(CROWD.table.worker.tolist(), CROWD.table.task.tolist(), strict=True))
    assert not known & set(zip(plan.worker.tolist(), plan.task.tolist(), strict=True))
    assert len(plan_answers(CROWD.table, FOUND, budget=0, per_worker=4).task) == 0


def test_codes_may_come_in_any_order_and_more_than_once() -> None:
    tasks, workers = np.array([30, 12, 12, 30, 7]), np.array([5, 3, 5, 1])
    given = {"budget": 9, "per_worker": 1}
    one = plan_answers(CROWD.table, FOUND, **given, tasks=tasks, workers=workers)
    other = plan_answers(
        CROWD.table, FOUND, **given, tasks=np.unique(tasks), workers=np.unique(workers)
    )
    assert len(set(one.task.tolist())) == len(one.task) == 3
    assert (one.task.tolist(), one.worker.tolist()) == (other.task.tolist(), other.worker.tolist())


@pytest.mark.refusal
@pytest.mark.parametrize("codes", [np.array([-1]), np.array([60]), np.array([0.0])])
@pytest.mark.parametrize("name", ["tasks", "workers"])
def test_codes_of_nobody_are_refused(name: str, codes: np.ndarray) -> None:
    with pytest.raises(ValueError, match=f"{name} must be codes in"):
        plan_answers(CROWD.table, FOUND, budget=1, per_worker=1, **{name: codes})


@pytest.mark.parametrize(
    ("given", "said"), [((-1, 1), "budget must be >= 0"), ((1, 0), "per_worker must be >= 1")]
)
def test_mistakes_are_named(given: tuple[int, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plan_answers(CROWD.table, FOUND, budget=given[0], per_worker=given[1])


def test_the_consensus_of_another_table_is_refused() -> None:
    other = encode_multilabels(["ann", "bob"], [1, 1], [["x"], ["x"]])
    with pytest.raises(ValueError, match="found must be the consensus of this table, of 60 tasks"):
        plan_answers(CROWD.table, multilabel_consensus(other), budget=1, per_worker=1)

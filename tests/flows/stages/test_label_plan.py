"""Which labels the run proposes to ask for: within the settings, of workers who are known, and affordable."""

from __future__ import annotations

import numpy as np
import pytest

from flows.settings import ReportSettings
from flows.stages import label_plan
from flows.stages.label_plan import FewAtHand, considered_tasks, plan_next
from quality import (
    Consensus,
    CrowdLabels,
    dawid_skene,
    encode,
    majority_vote,
    next_labels,
    one_coin_confusion,
    one_coin_dawid_skene,
    ordinal_crowd,
    plan_labels,
)

CHOSEN = ReportSettings(plan_labels=12, plan_per_worker=3)


@pytest.fixture
def labels(rng: np.random.Generator) -> CrowdLabels:
    """Sixty tasks with three of nine workers each, of whom one errs often; a tenth gave two labels."""
    task = np.repeat(np.arange(60), 3)
    worker = np.concatenate([rng.permutation(9)[:3] for _ in range(60)])
    right = rng.random(task.size) < np.where(worker == 0, 0.5, 0.85)
    truth = np.arange(60) % 2
    answer = np.where(right, truth[task], 1 - truth[task])
    new = [*worker, 9, 9], [*task, 0, 1], [*answer, 0, 1]
    return encode(*map(np.array, new))


def planned(labels: CrowdLabels, consensus: Consensus, chosen: ReportSettings = CHOSEN):  # type: ignore[no-untyped-def]
    posterior = consensus.posterior
    return plan_next(
        FewAtHand.of(labels), consensus, posterior, next_labels(labels, posterior).task, chosen
    )


def test_no_label_is_asked_for_twice_and_no_worker_too_often(labels: CrowdLabels) -> None:
    table, facts = planned(labels, dawid_skene(labels))
    pairs = list(zip(table["worker"].to_pylist(), table["task"].to_pylist(), strict=True))
    there = zip(labels.workers[labels.worker], labels.tasks[labels.task], strict=True)
    assert len(pairs) == facts["n"] == 12
    assert not set(pairs) & {(str(worker), str(task)) for worker, task in there}
    workers = table["worker"].to_pylist()
    assert max(workers.count(worker) for worker in workers) <= 3
    assert facts["workers_told_apart"]


def test_a_limit_for_each_worker_beyond_the_whole_plan_is_none(labels: CrowdLabels) -> None:
    found = [
        planned(labels, dawid_skene(labels), ReportSettings(plan_labels=12, plan_per_worker=most))
        for most in (12, 10**30)
    ]
    assert found[0][0].equals(found[1][0])


def test_a_search_finds_what_specialists_gain_from() -> None:
    """Each of 30 workers knows two of six classes; the least certain tasks may be anything."""
    rng = np.random.default_rng(0)
    shape = np.repeat(rng.choice([0.05, 0.15, 0.5], 4000)[:, None], 6, axis=1)
    believed = rng.gamma(shape) + 1e-9
    believed /= believed.sum(axis=1, keepdims=True)
    confusion = np.full((30, 6, 6), 1 / 6)
    for one in confusion:
        known = rng.choice(6, 2, replace=False)
        one[known] = 0.06 / 5
        one[known, known] = 0.94
    uncertain = np.argsort(believed.max(axis=1), kind="stable")
    codes = np.zeros(0, dtype=np.int64)

    def gain(tasks: np.ndarray) -> float:
        labels = CrowdLabels.from_codes(
            codes, codes, codes, workers=np.arange(30), tasks=tasks, classes=np.arange(6)
        )
        plan = plan_labels(labels, believed[tasks], confusion, budget=150, per_worker=5)
        return float(plan.gain.sum())

    found = considered_tasks(believed, uncertain, confusion, 300)
    assert np.array_equal(found, np.unique(found))
    assert found.size == 300
    exact = gain(np.arange(4000))
    assert gain(found) > 0.97 * exact > 1.03 * gain(np.sort(uncertain[:300]))


def test_a_search_is_made_where_it_is_asked_for(
    labels: CrowdLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_plan, "MAX_CONSIDERED", 20)
    asked = []
    monkeypatch.setattr(
        label_plan, "considered_tasks", lambda *given: asked.append(given) or np.arange(20)
    )
    for search in (False, True):
        chosen = ReportSettings(plan_labels=12, plan_per_worker=3, plan_search=search)
        planned(labels, dawid_skene(labels), chosen)
    assert len(asked) == 1
    assert asked[0][-1] == 20


def test_where_all_gain_from_the_same_tasks_the_least_certain_fill_the_plan() -> None:
    rng = np.random.default_rng(1)
    share = rng.uniform(0.5, 1.0, 500)
    believed = np.column_stack([share, 1 - share])
    confusion = one_coin_confusion(np.full(10, 0.8), 2)
    uncertain = np.argsort(share, kind="stable")
    found = considered_tasks(believed, uncertain, confusion, 200)
    assert np.array_equal(found, np.sort(uncertain[:200]))


def test_who_gave_few_labels_is_not_asked(labels: CrowdLabels) -> None:
    """Worker 9 gave two labels, both right: by the confusion matrix alone she could look best."""
    table, facts = planned(labels, dawid_skene(labels), ReportSettings(plan_labels=500))
    assert "9" not in table["worker"].to_pylist()
    assert facts["n_asked"] == 9


def test_the_plan_is_that_of_all_tasks_where_the_crowd_is_small(labels: CrowdLabels) -> None:
    consensus = dawid_skene(labels)
    table, facts = planned(labels, consensus)
    known = np.diff(labels.worker_start) >= 10
    whole = plan_labels(
        labels,
        consensus.posterior,
        consensus.confusion,
        budget=12,
        per_worker=np.where(known, 3, 0),
    )
    assert table["task"].to_pylist() == labels.tasks[whole.task].astype(str).tolist()
    assert table["worker"].to_pylist() == labels.workers[whole.worker].astype(str).tolist()
    assert facts["gain"] == pytest.approx(whole.gain.sum())


def test_a_large_crowds_plan_is_made_of_its_least_certain_tasks(
    labels: CrowdLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_plan, "MAX_CONSIDERED", 12)
    monkeypatch.setattr(label_plan, "MAX_ASKED", 4)
    consensus = dawid_skene(labels)
    table, facts = planned(labels, consensus)
    first = labels.tasks[next_labels(labels, consensus.posterior).task[:12]].astype(str)
    assert set(table["task"].to_pylist()) <= set(first)
    assert (facts["n_considered"], facts["n_asked"]) == (12, 4)
    assert "0" not in table["worker"].to_pylist()  # who errs often is not among the best four


def test_an_aggregator_that_tells_nobody_apart_has_a_plan_too(labels: CrowdLabels) -> None:
    _, facts = planned(labels, majority_vote(labels))
    assert facts["n"] > 0
    assert not facts["workers_told_apart"]
    _, facts = planned(labels, one_coin_dawid_skene(labels))
    assert facts["workers_told_apart"]


def test_a_crowd_that_grades_is_asked_by_how_each_worker_grades(labels: CrowdLabels) -> None:
    """The ordinal model has neither matrices nor a coin for each worker, and the plan took all as equal."""
    crowd = ordinal_crowd(labels)
    table, facts = planned(labels, crowd)
    assert facts["workers_told_apart"]
    right = crowd.right_share()
    asked = np.unique(np.searchsorted(labels.workers.astype(str), table["worker"].to_pylist()))
    assert right[asked].min() > right[0] == right[np.diff(labels.worker_start) >= 10].min()


def test_a_plan_is_complete_where_everybody_has_labelled_every_task(labels: CrowdLabels) -> None:
    """Then no label can be asked for, however uncertain the tasks are."""
    _, facts = planned(labels, dawid_skene(labels))
    assert not facts["complete"]
    rng = np.random.default_rng(0)
    every = encode(np.tile(range(3), 20), np.repeat(range(20), 3), rng.integers(2, size=60))
    table, facts = planned(every, dawid_skene(every))
    assert (table.num_rows, facts["complete"]) == (0, True)


def test_no_plan_is_made_where_none_is_asked_for(labels: CrowdLabels) -> None:
    table, facts = planned(labels, dawid_skene(labels), ReportSettings(plan_labels=0))
    assert (table.num_rows, facts["n"], facts["n_asked"]) == (0, 0, 0)


@pytest.mark.parametrize(("n_classes", "deep"), [(2, 3), (8, 3), (20, 2), (200, 1)])
def test_many_classes_are_planned_less_deep(n_classes: int, deep: int) -> None:
    """Of 500 workers; judging a task after two planned labels takes 500 * classes ** 4 products."""
    assert label_plan._per_task(500 * n_classes**2, n_classes) == deep

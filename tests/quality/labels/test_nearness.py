"""Tables whose workers and tasks are renumbered by a walk."""

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    EMStart,
    balanced_penalty,
    dawid_skene,
    encode,
    filter_workers,
    hierarchical_dawid_skene,
    kos,
    kos_plus,
    mace,
    majority_vote,
    one_coin_dawid_skene,
    worker_report,
)
from quality.labels import bring_near, nearness
from quality.labels.nearness import by_votes, walk_near
from tests.quality.labels.strategies import crowds


@pytest.fixture
def crowd(rng: np.random.Generator) -> CrowdLabels:
    """Workers of one to three labels each, in no order, and some tasks and workers without labels."""
    size = rng.integers(1, 4, size=150)
    worker = np.repeat(rng.permutation(160)[:150], size)
    task = rng.permutation(130)[np.arange(len(worker)) % 120]
    names = {"workers": np.arange(160), "tasks": np.arange(130), "classes": np.arange(3)}
    label = np.where(rng.random(len(task)) < 0.8, task % 3, rng.integers(3, size=len(task)))
    return CrowdLabels.from_codes(worker, task, label.astype(np.int16), **names)


@pytest.fixture
def always_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearness, "MANY_WORKERS", 0)
    monkeypatch.setattr(nearness, "FEW_LABELS", 10**9)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(labels=crowds())
def test_a_walk_keeps_every_label_and_all_names(labels: CrowdLabels) -> None:
    near = walk_near(labels)
    found = near.labels
    assert near.row is not None
    assert np.array_equal(found.workers[found.worker], labels.workers[labels.worker[near.row]])
    assert np.array_equal(found.tasks[found.task], labels.tasks[labels.task[near.row]])
    assert np.array_equal(found.label, labels.label[near.row])
    assert np.array_equal(np.sort(near.row), np.arange(labels.n_labels))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(labels=crowds())
def test_a_renumbered_table_is_sorted_like_any_other(labels: CrowdLabels) -> None:
    found = walk_near(labels).labels
    names = {"workers": np.arange(labels.n_workers), "tasks": np.arange(labels.n_tasks)}
    rows = found.worker[::-1], found.task[::-1], found.label[::-1]
    anew = CrowdLabels.from_codes(*rows, **names, classes=labels.classes)
    for name in ("worker", "task", "label", "task_start", "worker_order", "worker_start"):
        assert np.array_equal(getattr(found, name), getattr(anew, name)), name


@settings(max_examples=25, deadline=None, derandomize=True)
@given(labels=crowds())
def test_there_and_back_is_where_one_was(labels: CrowdLabels) -> None:
    near = walk_near(labels)
    task, worker = np.arange(labels.n_tasks) * 2, np.arange(labels.n_workers * 3).reshape(-1, 3)
    assert np.array_equal(near.by_task(near.task_given(task)), task)
    assert np.array_equal(near.by_worker(near.worker_given(worker)), worker)


@pytest.fixture
def always_by_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearness, "MANY_CELLS", 0)
    monkeypatch.setattr(nearness, "MANY_CLASSES", 0)


def test_tasks_stand_by_the_class_that_most_of_their_labels_give(
    crowd: CrowdLabels, always_by_votes: None
) -> None:
    near = by_votes(crowd)
    found = near.labels
    n_given = found.counts()
    most = n_given.argmax(axis=1)[np.diff(found.task_start) > 0]
    sizes = n_given.max(axis=1)[np.diff(found.task_start) > 0]
    sure = sizes > np.sort(n_given, axis=1)[np.diff(found.task_start) > 0, -2]
    assert (np.diff(most[sure]) >= 0).all()
    assert near.row is not None
    assert np.array_equal(found.worker, crowd.worker[near.row])
    assert np.array_equal(found.tasks[found.task], crowd.tasks[crowd.task[near.row]])
    assert np.array_equal(found.label, crowd.label[near.row])
    by_worker = [np.diff(table.worker_start) for table in (found, crowd)]
    assert np.array_equal(*by_worker)
    assert (np.diff(found.worker[found.worker_order]) >= 0).all()
    assert by_votes(crowd) is near  # renumbered once while it lives


@pytest.mark.parametrize("fit", [dawid_skene, hierarchical_dawid_skene])
def test_the_order_of_votes_changes_no_fit(
    fit: Any, crowd: CrowdLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = np.where(np.arange(crowd.n_tasks) % 7 == 0, 1, -1)
    plain = fit(crowd, gold=gold)
    monkeypatch.setattr(nearness, "MANY_CELLS", 0)
    monkeypatch.setattr(nearness, "MANY_CLASSES", 0)
    found = fit(crowd, gold=gold)
    assert found.n_iter == plain.n_iter
    assert found.posterior == pytest.approx(plain.posterior, abs=1e-9)
    assert found.confusion == pytest.approx(plain.confusion, abs=1e-9)


def test_a_walk_puts_those_together_who_meet() -> None:
    labels = encode(["a", "c", "b", "c", "a", "b"], [1, 2, 3, 4, 5, 6], list("xxxxxx"))
    found = walk_near(labels).labels
    assert found.tasks.tolist() == [1, 5, 2, 4, 3, 6]
    assert found.workers.tolist() == ["a", "c", "b"]


def test_small_tables_and_workers_of_many_labels_stay_as_they_are(crowd: CrowdLabels) -> None:
    near = bring_near(crowd)
    assert near.labels is crowd
    assert near.by_task(crowd.task_start) is crowd.task_start


@pytest.mark.usefixtures("always_near")
def test_a_table_is_renumbered_once_and_forgotten_with_it(crowd: CrowdLabels) -> None:
    other = crowd.keep_labels(crowd.label > 0)
    before = len(nearness._KNOWN)
    assert bring_near(other) is bring_near(other)
    assert len(nearness._KNOWN) == before + 1
    del other
    gc.collect()
    assert len(nearness._KNOWN) == before


@pytest.mark.parametrize(
    "rule", [dawid_skene, hierarchical_dawid_skene, mace, one_coin_dawid_skene, kos, kos_plus]
)
@pytest.mark.parametrize("with_groups", [False, True])
def test_aggregators_find_the_same_in_a_renumbered_table(
    crowd: CrowdLabels, rule: Any, with_groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = np.full(crowd.n_workers, -1)
    groups[[3, 8, 20]] = 0
    options: dict[str, Any] = {
        "groups": groups if with_groups else None,
        "max_iter": 10,
        "tol": 0.0,
    }
    if rule in (kos, kos_plus):
        plain = rule(crowd, rng=np.random.default_rng(1), **options)
    else:
        options["gold"] = np.where(np.arange(crowd.n_tasks) % 9 == 0, crowd.tasks % 3, -1)
        plain = rule(crowd, **options)
    monkeypatch.setattr(nearness, "MANY_WORKERS", 0)
    if rule in (kos, kos_plus):
        options["rng"] = np.random.default_rng(1)
    near = rule(crowd, **options)
    for name in plain.__dataclass_fields__:
        one, other = getattr(plain, name), getattr(near, name)
        assert np.allclose(one, other, rtol=1e-9, atol=1e-12), name


def test_loads_are_the_same_to_the_bit_in_a_renumbered_table(
    crowd: CrowdLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the optimum of the graph: its codes play no part."""
    filtered, posterior = filter_workers(crowd, n_workers=3), majority_vote(crowd).posterior
    plain = balanced_penalty(crowd), worker_report(crowd, filtered, posterior)
    monkeypatch.setattr(nearness, "MANY_WORKERS", 0)
    near = balanced_penalty(crowd), worker_report(crowd, filtered, posterior)
    assert np.array_equal(plain[0], near[0])
    for name in plain[1].__dataclass_fields__:
        one, other = (np.asarray(getattr(report, name)) for report in (plain[1], near[1]))
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), name


def test_a_start_is_found_by_name_in_a_renumbered_table(
    crowd: CrowdLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = dawid_skene(crowd, max_iter=5)
    start = EMStart(crowd.workers, crowd.classes, fit.prior, fit.confusion)
    plain = [
        rule(crowd, start=start, max_iter=5) for rule in (dawid_skene, hierarchical_dawid_skene)
    ]
    monkeypatch.setattr(nearness, "MANY_WORKERS", 0)
    near = [
        rule(crowd, start=start, max_iter=5) for rule in (dawid_skene, hierarchical_dawid_skene)
    ]
    for one, other in zip(plain, near, strict=True):
        assert np.allclose(one.confusion, other.confusion, rtol=1e-9)


@pytest.mark.usefixtures("always_near")
def test_gold_of_another_shape_is_refused_in_a_renumbered_table(crowd: CrowdLabels) -> None:
    with pytest.raises(ValueError, match="gold must be 130 class codes"):
        dawid_skene(crowd, gold=np.zeros(3, dtype=np.int16))
    with pytest.raises(ValueError, match="gold must be 130 class codes"):
        hierarchical_dawid_skene(crowd, gold=np.zeros(3, dtype=np.int16))

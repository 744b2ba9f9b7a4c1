"""The label plan: exact information, the greedy rule, its limits."""

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from quality import CrowdLabels, dawid_skene, encode, power_law_assignment, simulate_crowd
from quality.aggregation.dawid_skene_em import one_coin_confusion
from quality.reports import label_plan
from quality.reports.label_plan import LabelPlan, plan_labels
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def expected_entropy(prior: np.ndarray, confusions: list[np.ndarray]) -> float:
    """Of the truth after answers of these workers: every combination of answers, Bayes' rule."""
    total = 0.0
    for answers in product(range(len(prior)), repeat=len(confusions)):
        joint = prior * np.prod(
            [c[:, a] for c, a in zip(confusions, answers, strict=True)] or [np.ones(len(prior))],
            axis=0,
        )
        if joint.sum() > 0:
            total += joint.sum() * float(entropy(joint))
    return total


def random_model(labels: CrowdLabels, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A posterior and confusion matrices, some of both certain."""
    rng = np.random.default_rng(seed)
    k = labels.n_classes
    posterior = rng.dirichlet(np.full(k, 0.6), size=labels.n_tasks)
    posterior[rng.random(labels.n_tasks) < 0.2] = np.eye(k)[0]
    confusion = rng.dirichlet(np.full(k, 0.5), size=(labels.n_workers, k))
    confusion[rng.random(labels.n_workers) < 0.2] = np.eye(k)
    return posterior, confusion


def slow_plan(
    labels: CrowdLabels, posterior: np.ndarray, confusion: np.ndarray, budget: int,
    capacity: np.ndarray, per_task: int,
) -> list[tuple[int, int, float]]:  # fmt: skip
    """Every pair judged anew for every label."""
    done = set(zip(labels.task.tolist(), labels.worker.tolist(), strict=True))
    asked: dict[int, list[np.ndarray]] = {t: [] for t in range(labels.n_tasks)}
    left, plan = capacity.copy(), []
    for _ in range(budget):
        found = [
            (-round(expected_entropy(posterior[t], asked[t])
             - expected_entropy(posterior[t], [*asked[t], confusion[w]]), 9), t, w)
            for t in range(labels.n_tasks) for w in range(labels.n_workers)
            if (t, w) not in done and left[w] and len(asked[t]) < per_task
        ]  # fmt: skip
        if not found or min(found)[0] >= 0:
            break
        negative, t, w = min(found)
        done.add((t, w))
        asked[t].append(confusion[w])
        left[w] -= 1
        plan.append((t, w, -negative))
    return plan


@QUICK
@given(crowds(), st.integers(0, 10**6), st.integers(0, 6), st.integers(1, 3))
def test_every_pair_planned_has_the_largest_gain_of_all_that_were_left(
    labels: CrowdLabels, seed: int, budget: int, per_task: int
) -> None:
    """Oracle: enumeration of all answers, all pairs judged for every label."""
    posterior, confusion = random_model(labels, seed)
    capacity = np.random.default_rng(seed).integers(0, 3, size=labels.n_workers)
    plan = plan_labels(
        labels, posterior, confusion, budget=budget, per_worker=capacity, per_task=per_task
    )
    expected = slow_plan(labels, posterior, confusion, budget, capacity, per_task)
    found = list(zip(plan.task.tolist(), plan.worker.tolist(), strict=True))
    assert found == [(t, w) for t, w, _ in expected]
    assert plan.gain == pytest.approx([gain for _, _, gain in expected], abs=1e-8)


@QUICK
@given(crowds(), st.integers(0, 10**6))
def test_limits_hold_and_the_gains_add_up_to_the_fall_of_the_expected_entropy(
    labels: CrowdLabels, seed: int
) -> None:
    posterior, confusion = random_model(labels, seed)
    plan = plan_labels(labels, posterior, confusion, budget=9, per_worker=2)
    pairs = list(zip(plan.task.tolist(), plan.worker.tolist(), strict=True))
    before = set(zip(labels.task.tolist(), labels.worker.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs) <= 9
    assert not before & set(pairs)
    assert np.bincount(plan.worker, minlength=1).max() <= 2
    assert np.bincount(plan.task, minlength=1).max() <= 3
    assert (plan.gain > 0).all()
    assert (np.diff(plan.gain) <= 1e-12).all()
    after = sum(
        expected_entropy(posterior[t], [confusion[w] for task, w in pairs if task == t])
        for t in range(labels.n_tasks)
    )
    assert plan.gain.sum() == pytest.approx(plan.entropy - after, abs=1e-9)
    assert plan.entropy == pytest.approx(entropy(posterior, axis=1).sum(), abs=1e-9)


def test_a_second_label_of_a_task_is_worth_less_than_the_first() -> None:
    """Even truth, workers right 4 in 5: 0.6931 - 0.5004 nats, then 0.5004 - 0.3876, on paper."""
    labels = encode(["ann", "bob", "cy"], [1, 2, 2], ["x", "x", "y"])
    plan = plan_labels(
        labels, np.array([[0.5, 0.5], [1.0, 0.0]]), one_coin_confusion(np.full(3, 0.8), 2),
        budget=5, per_worker=5,
    )  # fmt: skip
    assert plan.task.tolist() == [0, 0]
    assert plan.worker.tolist() == [1, 2]
    h = entropy([0.8, 0.2])
    disagree = 2 * 0.8 * 0.2
    both = (1 - disagree) * entropy([0.64 / 0.68, 0.04 / 0.68]) + disagree * np.log(2)
    assert plan.gain == pytest.approx([np.log(2) - h, h - both], abs=1e-9)


def test_without_confusion_all_workers_are_as_good_as_the_crowd() -> None:
    labels = encode(["ann", "bob", "cy", "ann", "bob"], [1, 1, 1, 2, 2], list("xxyxy"))
    posterior = np.array([[0.8, 0.2], [0.5, 0.5]])
    right = np.mean([0.8, 0.8, 0.2, 0.5, 0.5])
    plain = plan_labels(labels, posterior, budget=3, per_worker=1)
    alike = plan_labels(
        labels, posterior, one_coin_confusion(np.full(3, right), 2), budget=3, per_worker=1
    )
    assert plain.gain.tolist() == alike.gain.tolist()
    assert (plain.task.tolist(), plain.worker.tolist()) == ([1], [2])


def test_planned_labels_beat_random_ones(rng: np.random.Generator) -> None:
    """200 tasks with two labels each; 100 more, planned or anywhere, by the same 40 workers."""
    rows = power_law_assignment(n_tasks=200, n_workers=40, labels_per_task=2, exponent=0.2, rng=rng)
    crowd = simulate_crowd(
        rows,
        rng.integers(2, size=200),
        n_classes=2,
        adversaries={},
        reliability=(7.0, 3.0),
        rng=rng,
    )
    labels = encode(crowd.worker, crowd.task, crowd.label)
    confusion = one_coin_confusion(crowd.accuracy[labels.workers], 2)
    posterior = dawid_skene(labels).posterior
    plan = plan_labels(labels, posterior, confusion, budget=100, per_worker=10)
    task, worker = rng.integers(200, size=100), rng.integers(labels.n_workers, size=100)
    anywhere = sum(
        entropy(posterior[t]) - expected_entropy(posterior[t], [confusion[w]])
        for t, w in zip(task, worker, strict=True)
    )
    assert len(plan.task) == 100
    assert plan.gain.sum() > 2 * anywhere


def test_the_same_call_gives_the_same_bytes_and_changes_nothing(rng: np.random.Generator) -> None:
    labels = encode(rng.permutation(30), np.arange(30) % 7, rng.integers(3, size=30))
    posterior, confusion = random_model(labels, 0)
    capacity = np.full(30, 1)
    one, other = (
        plan_labels(labels, posterior, confusion, budget=12, per_worker=capacity) for _ in range(2)
    )
    for name in ("task", "worker", "gain"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert not getattr(one, name).flags.writeable
    assert (capacity == 1).all()


def test_many_classes_take_a_part_of_the_table_of_workers_by_answers_at_a_time(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third label of a task, of 50 workers and 60 classes: their answers take 86 MB, thrice."""
    labels = encode(
        np.arange(50) % 50, np.arange(50) % 3, rng.integers(60, size=50), classes=range(60)
    )
    posterior = rng.dirichlet(np.ones(60), size=3)
    confusion = one_coin_confusion(rng.uniform(0.4, 0.9, size=50), 60)
    limits = {"budget": 8, "per_worker": 9, "per_task": 3}
    tracemalloc.start()
    try:
        whole = plan_labels(labels, posterior, confusion, **limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.bincount(whole.task).max() == 3
    assert peak < 60e6
    monkeypatch.setattr(label_plan, "CELLS", 1)
    alone = plan_labels(labels, posterior, confusion, **limits)
    assert (alone.task.tolist(), alone.worker.tolist()) == (
        whole.task.tolist(),
        whole.worker.tolist(),
    )


def test_an_empty_plan_is_readable() -> None:
    labels = encode(["ann"], [1], ["x"])
    plan: LabelPlan = plan_labels(labels, np.array([[1.0]]), budget=3, per_worker=1)
    assert repr(plan) == (
        "LabelPlan(0 labels of 0 tasks by 0 workers, expected to lower the entropy by "
        "0.000 of 0.000 nats)"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": -1}, "budget must be >= 0, got budget=-1"),
        ({"per_task": 0}, "per_task must be >= 1, got per_task=0"),
        ({"per_worker": -1}, "per_worker must be >= 0"),
        ({"per_worker": np.array([1, -1])}, "per_worker must be >= 0"),
        ({"per_worker": 2**70}, "per_worker must be >= 0 and whole, of 64 bits at most"),
        pytest.param(
            {"per_worker": np.array([1.7, 0.5])}, "per_worker must be >= 0 and whole",
            marks=pytest.mark.refusal,
        ),
        pytest.param(
            {"per_worker": np.array([np.inf, 1.0])}, "per_worker must be >= 0 and whole",
            marks=pytest.mark.refusal,
        ),
        pytest.param(
            {"per_worker": np.array([1])}, "per_worker must be one number or 2",
            marks=pytest.mark.refusal,
        ),
        ({"confusion": np.full((2, 2, 2), 0.4)}, "rows of probabilities"),
        pytest.param(
            {"confusion": np.full((1, 2, 2), 0.5)}, r"confusion must have shape \(2, 2, 2\)",
            marks=pytest.mark.refusal,
        ),
        ({"posterior": np.array([[np.nan, 0.5]])}, "rows of probabilities"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "posterior": np.array([[0.5, 0.5]]), "confusion": np.full((2, 2, 2), 0.5),
        "budget": 1, "per_worker": 1,
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=message):
        plan_labels(encode([1, 2], [1, 1], [0, 1]), **arguments)


def test_reliabilities_out_of_range_are_refused() -> None:
    for reliability, n_classes, message in (
        ([1.2], 2, "reliability must be in"), ([np.nan], 2, "reliability must be in"),
        ([0.5], 1, "n_classes must be >= 2, got n_classes=1"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            one_coin_confusion(np.array(reliability), n_classes)


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float32, np.longdouble])
def test_equals_are_equal_whatever_the_width(kind: type) -> None:
    rng, n_tasks = np.random.default_rng(0), 12
    labels = encode(np.arange(n_tasks) % 5, np.arange(n_tasks), np.arange(n_tasks) % 3)
    rows = rng.dirichlet(np.ones(3), size=2)[np.arange(n_tasks) % 2]
    posterior = np.stack([rng.permutation(row) for row in rows]).astype(kind)
    confusion = one_coin_confusion(np.array([0.8, 0.8, 0.7, 0.7, 0.6]), 3).astype(kind)
    one, other = (
        plan_labels(
            labels, posterior.astype(width), confusion.astype(width), budget=8, per_worker=4
        )
        for width in (kind, np.float64)
    )
    for name in ("task", "worker", "gain"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()

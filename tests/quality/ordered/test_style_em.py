"""The ordinal model: its guarantees, a slow oracle, and what it is for."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize

from benchmarks.quality.ordered import spammers, thresholds
from quality import (
    CrowdLabels,
    LabelError,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    least_loss,
    ordinal_crowd,
    regular_assignment,
)
from quality.ordered.style_em import _decay
from quality.ordered.style_pass import style_pass, style_table
from quality.parallel import chunk_starts
from tests.quality.aggregation.textbook_em import bayes
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def confusions(labels: CrowdLabels, **knobs: float) -> np.ndarray:
    found = ordinal_crowd(labels, **knobs)
    every = found.confusion_of(np.arange(labels.n_workers))
    right = np.einsum("wkk,k->w", every, found.prior)
    assert found.right_share() == pytest.approx(right, abs=1e-12)
    return every


@QUICK
@given(crowds())
def test_the_posterior_is_bayes_rule_applied_to_the_prior_and_the_confusions(
    labels: CrowdLabels,
) -> None:
    found = ordinal_crowd(labels, max_iter=4)
    expected = bayes(labels, found.prior, confusions(labels, max_iter=4))[0]
    assert found.posterior == pytest.approx(expected, abs=1e-9)


def test_a_task_with_gold_is_certain(rng: np.random.Generator) -> None:
    labels, truth = thresholds(rng)
    gold = np.where(np.arange(500) < 60, truth, -1)
    found = ordinal_crowd(labels, gold=gold)
    assert np.array_equal(found.posterior[:60], np.eye(5)[truth[:60]])
    assert np.array_equal(found.label[:60], truth[:60])


def test_gold_helps_the_other_tasks(rng: np.random.Generator) -> None:
    """A crowd of which most workers lean upwards: without gold it is taken at its word."""
    labels, truth = thresholds(rng)
    raised = (labels.label + (labels.worker < 30)).clip(0, 4)
    leaning = encode(labels.worker, labels.task, raised, classes=range(5))
    gold = np.where(np.arange(500) < 200, truth, -1)
    rest = slice(200, None)
    blind, told = ordinal_crowd(leaning), ordinal_crowd(leaning, gold=gold)
    error = [np.abs(found.label[rest] - truth[rest]).mean() for found in (blind, told)]
    assert error[1] < error[0]


@QUICK
@given(crowds())
def test_turning_the_order_round_turns_the_leniency_and_nothing_else(labels: CrowdLabels) -> None:
    turned = encode(
        labels.workers[labels.worker], labels.tasks[labels.task], labels.classes[labels.label],
        classes=labels.classes[::-1].tolist(),
    )  # fmt: skip
    one, other = ordinal_crowd(labels, max_iter=5), ordinal_crowd(turned, max_iter=5)
    assert other.posterior[:, ::-1] == pytest.approx(one.posterior, abs=1e-9)
    assert other.leniency == pytest.approx(-one.leniency, abs=1e-9)
    assert other.sharpness == pytest.approx(one.sharpness, abs=1e-9)
    assert other.extremity == pytest.approx(one.extremity, abs=1e-9)
    assert other.shape[::-1, ::-1] == pytest.approx(one.shape, abs=1e-9)


def test_a_worker_without_labels_is_the_average_worker(rng: np.random.Generator) -> None:
    labels = thresholds(rng)[0].keep_workers(np.arange(40) < 39)
    found = ordinal_crowd(labels)
    assert (found.sharpness[-1], found.leniency[-1], found.extremity[-1]) == (1, 0, 0)
    assert found.confusion_of(np.array([39]))[0] == pytest.approx(found.shape)


def test_the_result_is_the_same_bytes_on_any_number_of_threads(rng: np.random.Generator) -> None:
    crowd = regular_assignment(n_tasks=12_000, n_workers=300, labels_per_task=9, rng=rng)
    labels = encode(crowd.worker, crowd.task, rng.integers(5, size=len(crowd.task)))
    one, two, again = (ordinal_crowd(labels, max_iter=3, threads=n) for n in (1, 2, 2))
    assert len(chunk_starts(labels.worker_start, 24_000)) > 2
    assert one.posterior.tobytes() == two.posterior.tobytes() == again.posterior.tobytes()
    assert one.leniency.tobytes() == two.leniency.tobytes()


def test_a_group_votes_once_and_its_members_share_a_style(rng: np.random.Generator) -> None:
    labels, _ = thresholds(rng)
    groups = np.where(np.arange(40) < 6, 0, -1)
    found = ordinal_crowd(labels, groups=groups)
    merged = ordinal_crowd(labels.merge_workers(groups))
    assert found.posterior.tobytes() == merged.posterior.tobytes()
    assert len(set(found.leniency[:6].tolist())) == 1


def test_newton_finds_the_mode_of_a_style(rng: np.random.Generator) -> None:
    """Oracle: SciPy's minimiser on the log-posterior written out, for workers of known truth."""
    labels, truth = thresholds(rng)
    posterior, x = np.eye(5)[truth], np.linspace(-1, 1, 5)
    shape = np.exp(-np.abs(np.subtract.outer(np.arange(5), np.arange(5))))
    log_shape = np.log(shape / shape.sum(axis=1, keepdims=True))
    variance, style = np.array([0.3, 0.2, 0.1]), np.tile([1.0, 0.0, 0.0], (40, 1))
    belief, sums, unsure = np.zeros((500, 5)), np.zeros((3, 5, 5)), np.zeros(3)
    rows = labels.worker_order, labels.worker_start, labels.task, labels.label
    style_pass(
        0, 40, *rows, posterior, log_shape, x, variance, 30, style, belief, sums, unsure
    )  # fmt: skip
    for worker in range(3):
        own = labels.worker == worker
        answers = truth[labels.task[own]], labels.label[own]

        def cost(guess: np.ndarray, answers: tuple[np.ndarray, np.ndarray] = answers) -> float:
            logits = guess[0] * log_shape + guess[1] * x + guess[2] * x**2
            log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            off = guess - np.array([1.0, 0.0, 0.0])
            return float(-log_p[answers].sum() + (off**2 / variance).sum() / 2)

        mode = minimize(cost, np.array([1.0, 0.0, 0.0]), tol=1e-12).x
        assert style[worker] == pytest.approx(mode, abs=1e-4)


def test_a_workers_table_has_rows_that_add_up_to_one() -> None:
    log_shape = np.log(np.full((4, 4), 0.25))
    log_table, table = np.empty((4, 4)), np.empty((4, 4))
    style_table(np.array([2.0, 300.0, -50.0]), log_shape, np.linspace(-1, 1, 4), log_table, table)
    assert table.sum(axis=1) == pytest.approx(np.ones(4))
    assert np.exp(log_table) == pytest.approx(table)


def test_the_prior_of_the_shape_misses_by_as_much_as_the_crowd() -> None:
    total = np.array([[60.0, 10, 5], [10, 50, 12], [1, 20, 30]])
    distance = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    decay = _decay(total)
    assert decay.sum(axis=1) == pytest.approx(np.ones(3))
    assert (total.sum(axis=1) @ (decay * distance).sum(axis=1)) == pytest.approx(
        (total * distance).sum(), rel=1e-6
    )


@pytest.mark.parametrize("crowd", [thresholds, spammers])
def test_absolute_error_is_below_dawid_skenes_on_crowds_of_another_kind(crowd) -> None:  # type: ignore[no-untyped-def]
    """Mean of four crowds of 500 tasks; the margins are ten standard errors and more."""
    ours, theirs, hierarchical = [], [], []
    for seed in range(4):
        labels, truth = crowd(np.random.default_rng(seed))
        for fit, errors in (
            (ordinal_crowd, ours), (dawid_skene, theirs), (hierarchical_dawid_skene, hierarchical),
        ):  # fmt: skip
            label = least_loss(fit(labels).posterior, "absolute").label
            errors.append(np.abs(label - truth).mean())
    assert np.mean(ours) < 0.95 * np.mean(hierarchical)
    assert np.mean(ours) < 0.95 * np.mean(theirs)


def test_a_leaning_worker_is_known(rng: np.random.Generator) -> None:
    labels, _ = thresholds(rng)
    raised = np.where(labels.worker < 5, (labels.label + 1).clip(0, 4), labels.label)
    found = ordinal_crowd(encode(labels.worker, labels.task, raised, classes=range(5)))
    assert found.leniency[:5].min() > np.median(found.leniency)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"anchor": 0.0}, "anchor must be > 0 and finite, got anchor=0.0"),
        ({"max_iter": 0}, "max_iter must be >= 1, got max_iter=0"),
        ({"tol": -1.0}, "tol must be >= 0, got tol=-1.0"),
        ({"gold": np.array([3, 0])}, "gold must be class codes from -1 to 1"),
        ({"gold": np.array([0])}, "gold must be 2 class codes, one per task"),
        ({"loss": "cubed"}, "loss must be one of zero_one, absolute, squared, got loss='cubed'"),
    ],
)
@pytest.mark.refusal
def test_a_parameter_out_of_its_range_is_refused(knobs: dict[str, object], message: str) -> None:
    labels = encode(["ann", "bob"], [1, 2], ["a", "b"])
    with pytest.raises(ValueError, match=message):
        ordinal_crowd(labels, **knobs)  # type: ignore[arg-type]


def test_memory_is_seven_tables_of_tasks_by_classes_at_most() -> None:
    rng = np.random.default_rng(0)
    n_tasks, n_classes = 20_000, 20
    task = np.repeat(np.arange(n_tasks), 3)
    truth = rng.integers(n_classes, size=n_tasks)
    label = np.clip(truth[task] + rng.integers(-1, 2, size=len(task)), 0, n_classes - 1)
    labels = encode((np.arange(len(task)) % 100).tolist(), task, label)
    for more in ({}, {"gold": np.where(np.arange(n_tasks) < 50, truth, -1)}):
        tracemalloc.start()
        ordinal_crowd(labels, loss="absolute", max_iter=2, **more)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 7 * 8 * n_tasks * n_classes


def test_one_class_is_certain() -> None:
    assert ordinal_crowd(encode(["ann"], [1], ["x"])).posterior.tolist() == [[1.0]]


def test_so_many_classes_that_they_are_no_scale_are_refused() -> None:
    labels = encode(["ann"], [1], [7], classes=range(201))
    with pytest.raises(LabelError, match="ordered classes must be at most 200, got 201"):
        ordinal_crowd(labels)


@pytest.mark.parametrize("n_classes", [1, 2])
def test_one_class_and_two_are_aggregated(n_classes: int) -> None:
    labels = encode(
        ["ann", "bob", "cy"], [1, 1, 1], [0, 0, n_classes - 1], classes=range(n_classes)
    )
    assert ordinal_crowd(labels).label.tolist() == [0]

"""Calibrated confidence: better where gold shows it, never by a task's own truth, and the edges."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize
from scipy.special import expit

from quality import (
    CrowdLabels,
    calibrate,
    calibrate_support,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    majority_vote,
    next_labels,
    regular_assignment,
    simulate_crowd,
    task_support,
)
from quality.confidence import calibration_error
from quality.confidence.calibration import FIXED, PRIOR, design, most_likely
from quality.confidence.gold_check import nearest_level
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
Crowd = tuple[CrowdLabels, np.ndarray]


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    """A thousand tasks, a quarter of them hard for everybody: every model is overconfident."""
    rng = np.random.default_rng(5)
    assignment = regular_assignment(n_tasks=1000, n_workers=40, labels_per_task=5, rng=rng)
    truth = rng.integers(3, size=1000)
    made = simulate_crowd(assignment, truth, n_classes=3, adversaries={}, rng=rng)
    trap = (truth + 1) % 3
    fooled = (rng.random(1000) < 0.25)[made.task] & (rng.random(len(made.task)) < 0.6)
    labels = encode(made.worker, made.task, np.where(fooled, trap[made.task], made.label))
    return labels, truth


def some_gold(truth: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    gold = np.full(len(truth), -1)
    known = np.random.default_rng(seed).permutation(len(truth))[:n]
    gold[known] = truth[known]
    return gold


def test_a_hundred_gold_tasks_mend_an_overconfident_model(crowd: Crowd) -> None:
    labels, truth = crowd
    for fit in (dawid_skene, hierarchical_dawid_skene):
        posterior = fit(labels).posterior
        gold = some_gold(truth, 100)
        found = calibrate(labels, posterior, gold=gold)
        others = gold < 0
        right = found.label[others] == truth[others]
        before = calibration_error(found.model[others], right)
        after = calibration_error(found.confidence[others], right)
        assert after < before / 2
        assert found.evidence == "gold"
        assert found.n_gold == 100
        assert found.before is not None
        assert found.after is not None
        assert found.after.brier < found.before.brier


def test_without_gold_confidence_is_nearer_to_the_truth_than_the_model(crowd: Crowd) -> None:
    labels, truth = crowd
    found = calibrate(labels, dawid_skene(labels).posterior)
    right = found.label == truth
    assert calibration_error(found.confidence, right) < 0.7 * calibration_error(found.model, right)
    assert (found.evidence, found.n_gold, found.before) == ("labels", 0, None)


def test_the_confidence_of_a_gold_task_does_not_depend_on_its_own_truth(crowd: Crowd) -> None:
    labels, truth = crowd
    support = task_support(labels, dawid_skene(labels).posterior)
    gold = some_gold(truth, 80)
    found = calibrate_support(support, gold)
    for task in np.flatnonzero(gold >= 0)[:6]:
        other = gold.copy()
        other[task] = (gold[task] + 1) % 3
        assert calibrate_support(support, other).confidence[task] == found.confidence[task]


def test_the_label_is_the_posterior_s_and_the_posterior_stays(crowd: Crowd) -> None:
    labels, truth = crowd
    consensus = dawid_skene(labels)
    before = consensus.posterior.copy()
    found = calibrate(labels, consensus.posterior, gold=some_gold(truth, 100))
    assert (found.label == consensus.label).all()
    assert (consensus.posterior == before).all()


@QUICK
@given(crowds())
def test_believed_is_a_posterior_with_the_confidence_in_its_label(labels: CrowdLabels) -> None:
    posterior = majority_vote(labels).posterior
    found = calibrate(labels, posterior)
    believed = found.believed(posterior)
    rows = np.arange(labels.n_tasks)
    assert np.allclose(believed.sum(axis=1), 1)
    if labels.n_classes > 1:
        assert np.allclose(believed[rows, found.label], found.confidence)
    else:
        assert (found.confidence == found.model).all()
    others = np.ones(posterior.shape, dtype=bool)
    others[rows, found.label] = False
    for task in rows:
        was, now = posterior[task, others[task]], believed[task, others[task]]
        if was.sum() > 0:
            assert np.allclose(now * was.sum(), was * now.sum())


def test_a_task_without_labels_keeps_the_model_s_confidence() -> None:
    labels = encode(["ann", "bob", "ann"], [1, 1, 2], list("xyx"))
    kept = labels.keep_workers(labels.workers == "bob")
    found = calibrate(kept, np.array([[0.4, 0.6], [0.7, 0.3]]))
    assert found.confidence[1] == 0.7
    assert found.confidence[0] != 0.6


def test_fewer_than_twenty_gold_tasks_are_not_fitted_to(crowd: Crowd) -> None:
    labels, truth = crowd
    posterior = dawid_skene(labels).posterior
    alone = calibrate(labels, posterior)
    found = calibrate(labels, posterior, gold=some_gold(truth, 19))
    assert found.evidence == "labels"
    assert (found.confidence == alone.confidence).all()


def test_a_group_s_votes_count_once(crowd: Crowd) -> None:
    labels, _ = crowd
    copies = encode(
        np.concatenate([labels.worker, labels.worker[labels.worker == 0] + 100]),
        np.concatenate([labels.task, labels.task[labels.worker == 0]]),
        np.concatenate([labels.label, labels.label[labels.worker == 0]]),
    )
    posterior = dawid_skene(labels).posterior
    groups = np.where(np.isin(copies.workers, [0, 100]), 0, -1)
    one = calibrate(labels, posterior)
    merged = calibrate(copies, posterior, groups=groups)
    assert np.allclose(one.confidence, merged.confidence)
    assert not np.allclose(one.confidence, calibrate(copies, posterior).confidence)


def test_the_regression_is_that_of_scipy(crowd: Crowd) -> None:
    """Oracle: BFGS on the written-out log-posterior."""
    labels, truth = crowd
    support = task_support(labels, dawid_skene(labels).posterior)
    rows = np.random.default_rng(0).permutation(1000)[:120]
    columns, right = design(support)[rows], (support.label == truth)[rows].astype(float)
    spread = np.array([*PRIOR.spread, FIXED])

    def loss(at: np.ndarray) -> float:
        p = 1 / (1 + np.exp(-columns @ at))
        fit = -(right * np.log(p) + (1 - right) * np.log(1 - p)).sum()
        return float(fit + 0.5 * (((at - PRIOR.mean) / spread) ** 2).sum())

    ours = most_likely(columns, right, PRIOR.mean, spread)
    theirs = minimize(loss, PRIOR.mean, method="Nelder-Mead", options={"maxiter": 20_000}).x
    assert loss(ours) <= loss(theirs) + 1e-6
    assert np.allclose(ours[:3], theirs[:3], atol=0.02)


def test_constants_of_classes_are_those_of_a_column_each(crowd: Crowd) -> None:
    """Oracle: the regression with a column of zeros and ones for each class."""
    labels, truth = crowd
    support = task_support(labels, dawid_skene(labels).posterior)
    rows = np.random.default_rng(0).permutation(1000)[:120]
    columns, right = design(support)[rows], (support.label == truth)[rows].astype(float)
    spread, code = np.array([*PRIOR.spread, FIXED]), support.label[rows].astype(np.int64)
    found = most_likely(columns, right, PRIOR.mean, spread, code=code, class_spread=0.7)
    dense = most_likely(
        np.hstack([columns, np.eye(3)[code]]), right, np.append(PRIOR.mean, np.zeros(3)),
        np.append(spread, np.full(3, 0.7)),
    )  # fmt: skip
    assert found == pytest.approx(dense, abs=1e-9)
    assert np.ptp(found[4:]) > 0.05  # classes do differ


def test_thousands_of_classes_take_no_column_each() -> None:
    """Three thousand gold tasks, each of a class of its own: a table of both takes 72 MB."""
    rng = np.random.default_rng(0)
    columns, right = rng.normal(size=(3_000, 4)), rng.integers(2, size=3_000).astype(float)
    tracemalloc.start()
    try:
        most_likely(columns, right, np.zeros(4), np.ones(4), code=np.arange(3_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e6


def test_steps_are_damped_where_newton_would_run_away() -> None:
    columns = np.column_stack([np.ones(60), np.repeat([-8.0, 8.0], 30)])
    right = np.repeat([1.0, 0.0], 30)
    found = most_likely(columns, right, np.array([5.0, 5.0]), np.array([1.0, 1.0]))
    assert np.isfinite(found).all()
    assert found[1] < 0


def test_a_prior_that_is_sure_stays(crowd: Crowd) -> None:
    labels, truth = crowd
    support = task_support(labels, dawid_skene(labels).posterior)
    fixed = replace(PRIOR, spread=(1e-4, 1e-4, 1e-4), class_spread=1e-4)
    found = calibrate_support(support, some_gold(truth, 100), prior=fixed, in_levels=False)
    alone, own, *regressions = found.weights
    assert alone + sum(regressions) > 0.99 > own
    by_labels = calibrate_support(support, prior=fixed).confidence
    regression = expit(design(support) @ PRIOR.mean)
    assert (found.confidence > np.minimum(by_labels, regression) - 0.01).all()
    assert (found.confidence < np.maximum(by_labels, regression) + 0.01).all()


@pytest.mark.parametrize(("n_gold", "n_levels"), [(50, 4), (100, 5), (600, 8)])
def test_confidence_has_as_many_levels_as_the_cube_root_of_the_gold_tasks(
    crowd: Crowd, n_gold: int, n_levels: int
) -> None:
    labels, truth = crowd
    support, gold = task_support(labels, dawid_skene(labels).posterior), some_gold(truth, n_gold)
    found, each = (calibrate_support(support, gold, in_levels=asked) for asked in (True, False))
    others = gold < 0
    assert np.array_equal(np.unique(found.confidence[others]), found.levels)
    assert len(found.levels) == n_levels
    assert each.levels.size == 0
    assert len(np.unique(each.confidence[others])) > 10 * n_levels
    assert np.array_equal(
        nearest_level(each.confidence[others], found.levels), found.confidence[others]
    )
    assert calibrate_support(support).levels.size == 0


def test_confidence_puts_more_wrong_tasks_first_than_the_model(crowd: Crowd) -> None:
    labels, truth = crowd
    posterior = dawid_skene(labels).posterior
    found = calibrate(labels, posterior)
    wrong = found.label != truth
    by_model = next_labels(labels, posterior).task[:100]
    ranked = next_labels(labels, posterior, confidence=found.confidence).task[:100]
    assert wrong[ranked].sum() >= wrong[by_model].sum()


@pytest.mark.refusal
def test_gold_that_is_not_one_class_code_a_task_is_refused(crowd: Crowd) -> None:
    labels, truth = crowd
    posterior = majority_vote(labels).posterior
    for gold in (np.array([0, 1]), np.where(truth > 0, np.nan, 0.0)):
        with pytest.raises(ValueError, match="gold must be 1000 class codes, one per task"):
            calibrate(labels, posterior, gold=gold)
    for code in (-3, 9):
        with pytest.raises(ValueError, match="gold must be class codes from -1 to"):
            calibrate(labels, posterior, gold=np.full(1000, code))


def test_the_same_bytes_on_every_run(crowd: Crowd) -> None:
    labels, truth = crowd
    posterior = dawid_skene(labels).posterior
    one, two = (calibrate(labels, posterior, gold=some_gold(truth, 90)) for _ in range(2))
    assert one.confidence.tobytes() == two.confidence.tobytes()
    assert one.after is not None
    assert two.after is not None
    assert one.after.error_interval == two.after.error_interval


@QUICK
@given(labels=crowds())
def test_the_confidence_in_any_label_is_that_of_the_likeliest_or_what_is_believed(
    labels: CrowdLabels,
) -> None:
    posterior = majority_vote(labels).posterior
    found = calibrate(labels, posterior)
    believed, tasks = found.believed(posterior), np.arange(labels.n_tasks)
    assert found.in_label(posterior, found.label).tobytes() == found.confidence.tobytes()
    other = (found.label + 1) % labels.n_classes
    assert np.array_equal(found.in_label(posterior, other), believed[tasks, other])


@pytest.mark.parametrize(
    "wrong", [{"spread": (0.0, 1.0, 1.0)}, {"class_spread": -1.0}, {"odds": float("nan")}]
)
def test_a_prior_that_is_none_cannot_be_made(wrong: dict) -> None:
    with pytest.raises(ValueError, match="means must be finite and spreads > 0"):
        replace(PRIOR, **wrong)


def test_twenty_gold_tasks_tell_that_a_crowd_of_sybils_errs() -> None:
    """Over 20 draws of gold, the error is less than by labels alone, which believe the crowd too much."""
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=900)
    assignment = regular_assignment(n_tasks=900, n_workers=30, labels_per_task=5, rng=rng)
    found = simulate_crowd(assignment, truth, n_classes=2, adversaries={"sybils": 8}, rng=rng)
    labels = encode(found.worker, found.task, found.label)
    support = task_support(labels, dawid_skene(labels).posterior)
    right = support.label == truth
    without = calibration_error(calibrate_support(support).confidence, right)
    errors = []
    for _ in range(20):
        given = rng.permutation(900)[:20]
        gold = np.full(900, -1)
        gold[given] = truth[given]
        errors.append(calibration_error(calibrate_support(support, gold).confidence, right))
    assert np.mean(errors) < 0.8 * without

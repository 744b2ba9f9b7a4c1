"""Dawid–Skene and its one-coin form against the textbook's EM, their guarantees, and accuracies."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality.crowd_sets import read_set
from quality import (
    CrowdLabels,
    dawid_skene,
    encode,
    majority_vote,
    regular_assignment,
    simulate_crowd,
)
from quality.aggregation.dawid_skene_em import OneCoin, one_coin_dawid_skene
from quality.aggregation.em import fit_em, passes_over
from quality.aggregation.passes.em_pass import NEAR
from tests.quality.aggregation.textbook_em import bayes, smoothed, textbook_em
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def crowd_of(rng: np.random.Generator) -> CrowdLabels:
    """Three classes, 30 workers of whom 4 are malicious, 200 tasks, 5 labels each."""
    assignment = regular_assignment(n_tasks=200, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.choice(3, p=[0.5, 0.3, 0.2], size=200)
    crowd = simulate_crowd(
        assignment, truth, n_classes=3, adversaries={"malicious": 4, "random": 3}, rng=rng
    )
    return encode(crowd.worker, crowd.task, crowd.label)


@QUICK
@given(crowds())
def test_it_is_the_textbooks_em(labels: CrowdLabels) -> None:
    result = dawid_skene(labels, max_iter=7, tol=0.0, smoothing=0.1)
    expected = textbook_em(labels, result.n_iter, smoothed(0.1))
    assert result.posterior == pytest.approx(expected.posterior, abs=1e-9)
    assert result.prior == pytest.approx(expected.prior, abs=1e-9)
    assert result.confusion == pytest.approx(expected.confusion, abs=1e-9)
    assert result.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 9])
def test_products_agree_with_logarithms(n_classes: int, rng: np.random.Generator) -> None:
    """Few classes are compiled unrolled and many are not: both are the textbook's EM."""
    assignment = regular_assignment(n_tasks=1000, n_workers=50, labels_per_task=8, rng=rng)
    truth = rng.integers(n_classes, size=1000)
    crowd = simulate_crowd(assignment, truth, n_classes=n_classes, adversaries={}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    result = dawid_skene(labels, max_iter=20, tol=0.0)
    expected = textbook_em(labels, 20, smoothed(0.01))
    assert result.posterior == pytest.approx(expected.posterior, abs=1e-9)
    assert result.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("n_classes", [3, 8])
def test_a_table_larger_than_a_cache_is_the_textbooks(
    n_classes: int, rng: np.random.Generator
) -> None:
    """15,000 workers of three labels each: their rows are asked for before they are needed."""
    assignment = regular_assignment(n_tasks=9_000, n_workers=15_000, labels_per_task=5, rng=rng)
    truth = rng.integers(n_classes, size=9_000)
    crowd = simulate_crowd(assignment, truth, n_classes=n_classes, adversaries={}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    assert labels.n_workers * n_classes**2 > NEAR
    result = dawid_skene(labels, max_iter=5, tol=0.0)
    expected = textbook_em(labels, 5, smoothed(0.01))
    assert result.posterior == pytest.approx(expected.posterior, abs=1e-9)


def test_a_task_may_have_any_number_of_labels(rng: np.random.Generator) -> None:
    """3,000 workers on each task, one half of them against the other: products that underflow."""
    worker, task = np.tile(np.arange(3000), 6), np.repeat(np.arange(6), 3000)
    truth = task % 3
    label = np.where(rng.random(18000) < 0.9, truth, rng.integers(3, size=18000))
    first_half = worker < 1500
    label[(task == 0) & first_half] = 1  # all evidence for a class comes before all against it
    label[(task == 1) & first_half] = 2
    labels = encode(worker, task, label)
    for smoothing in (0.01, 1e-60):
        result = dawid_skene(labels, max_iter=5, tol=0.0, smoothing=smoothing)
        expected = textbook_em(labels, 5, smoothed(smoothing))
        assert result.posterior == pytest.approx(expected.posterior, abs=1e-9)
        assert result.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)


def test_evidence_lost_in_products_is_kept(rng: np.random.Generator) -> None:
    """Balanced long tasks: 400 labels for one class, then 400 for the other, none certain."""
    reliability = rng.uniform(0.6, 0.999, size=400)
    confusion = np.array([[[p, 1 - p], [1 - p, p]] for p in np.repeat(reliability, 2)])
    worker = np.concatenate([np.arange(0, 800, 2), np.arange(1, 800, 2)])
    order = np.argsort(worker % 2, kind="stable")
    labels = encode(np.arange(800), np.zeros(800, dtype=int), np.repeat([0, 1], 400))
    table = np.ascontiguousarray(confusion[worker[order]].transpose(0, 2, 1))
    with passes_over(labels, None, 1) as passes:
        fit = fit_em(passes, lambda _: table, *passes.vote(), max_iter=1, tol=0.0)
        posterior = passes.posterior(fit.prior, fit.table)
    assert posterior[0] == pytest.approx([0.5, 0.5], abs=1e-9)


@QUICK
@given(crowds(), st.integers(0, 2**32 - 1))
def test_gold_is_clamped_as_in_the_textbook(labels: CrowdLabels, seed: int) -> None:
    gold = np.random.default_rng(seed).integers(-1, 3, size=labels.n_tasks)
    result = dawid_skene(labels, max_iter=4, tol=0.0, smoothing=0.1, gold=gold)
    expected = textbook_em(labels, result.n_iter, smoothed(0.1), gold)
    known = gold >= 0
    assert np.array_equal(result.posterior[known], np.eye(3)[gold[known]])
    assert result.posterior == pytest.approx(expected.posterior, abs=1e-9)
    assert result.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-7)


def test_gold_teaches_who_is_to_be_believed(rng: np.random.Generator) -> None:
    """12 of 20 workers are malicious: the classes change places, but not with gold for a third."""
    assignment = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=7, rng=rng)
    truth = rng.integers(2, size=300)
    crowd = simulate_crowd(
        assignment, truth, n_classes=2, adversaries={"malicious": 12}, reliability=(60.0, 3.0),
        rng=rng,
    )  # fmt: skip
    labels = encode(crowd.worker, crowd.task, crowd.label)
    gold = np.where(np.arange(300) < 100, truth, -1)
    assert np.mean(dawid_skene(labels).label[100:] == truth[100:]) < 0.1
    assert np.mean(dawid_skene(labels, gold=gold).label[100:] == truth[100:]) > 0.9


@pytest.mark.refusal
def test_gold_that_is_not_one_code_per_task_is_refused() -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    for gold in (np.array([0, 1]), np.array([0.0]), np.array([2]), np.array([-2])):
        with pytest.raises(ValueError, match="gold must be"):
            dawid_skene(labels, gold=gold)


def test_posterior_is_bayes_rule_on_prior_and_confusion(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)
    result = dawid_skene(labels)
    assert result.posterior == pytest.approx(
        bayes(labels, result.prior, result.confusion)[0], abs=1e-9
    )
    assert result.confusion.sum(axis=2) == pytest.approx(np.ones((30, 3)))
    assert result.prior.sum() == pytest.approx(1)


def test_smoothed_log_likelihood_never_falls(rng: np.random.Generator) -> None:
    labels, smoothing = crowd_of(rng), 0.3

    def objective(n_iter: int) -> float:
        result = dawid_skene(labels, max_iter=n_iter, tol=0.0, smoothing=smoothing)
        return result.log_likelihood + smoothing * float(np.log(result.confusion).sum())

    values = [objective(n_iter) for n_iter in range(1, 40)]
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()
    assert values[-1] > values[0] + 1


def test_tasks_without_labels_get_the_prior_and_change_nothing(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)
    newcomer = encode(
        np.append(labels.workers[labels.worker], 99),
        np.append(labels.tasks[labels.task], 999),
        np.append(labels.label, 0),
    ).keep_workers(np.arange(31) < 30)
    plain, result = dawid_skene(labels), dawid_skene(newcomer)
    assert np.array_equal(plain.posterior, result.posterior[:-1])
    assert result.posterior[-1] == pytest.approx(result.prior)
    assert result.confusion[-1] == pytest.approx(np.full((3, 3), 1 / 3))
    assert plain.log_likelihood == result.log_likelihood


def test_a_symmetric_conflict_is_a_tie_and_says_so() -> None:
    result = dawid_skene(encode(["a", "b"], [1, 1], ["x", "y"]))
    assert result.tied.tolist() == [True]
    assert result.label.tolist() == [0]


def test_a_class_nobody_gives_gets_no_belief() -> None:
    labels = encode(["a", "b"] * 2, [1, 1, 2, 2], list("xxyy"), classes=["x", "never", "y"])
    result = dawid_skene(labels)
    assert result.prior[1] == 0
    assert np.isfinite(result.posterior).all()
    assert labels.classes[result.label].tolist() == ["x", "y"]


def test_same_bytes_on_every_run_and_any_number_of_threads(rng: np.random.Generator) -> None:
    """140,000 labels are cut into several chunks."""
    n_tasks = 20_000
    assignment = regular_assignment(n_tasks=n_tasks, n_workers=100, labels_per_task=7, rng=rng)
    truth = rng.integers(3, size=n_tasks)
    crowd = simulate_crowd(assignment, truth, n_classes=3, adversaries={}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    one, *others = (
        dawid_skene(labels, max_iter=5, tol=0.0, threads=threads) for threads in (1, 1, 2, 3, None)
    )
    for other in others:
        for name in ("posterior", "label", "tied", "prior", "confusion"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert one.log_likelihood == other.log_likelihood
    expected = textbook_em(labels, 5, smoothed(0.01))
    assert one.posterior == pytest.approx(expected.posterior, abs=1e-9)


def test_names_of_workers_and_classes_play_no_part(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)
    workers, classes = rng.permutation(30), np.array([2, 0, 1])
    renamed = encode(workers[labels.worker], labels.task, classes[labels.label])
    one, other = dawid_skene(labels, tol=0.0), dawid_skene(renamed, tol=0.0)
    assert one.posterior == pytest.approx(other.posterior[:, classes], abs=1e-7)
    moved = other.confusion[workers][:, classes][:, :, classes]
    assert one.confusion == pytest.approx(moved, abs=1e-6)


def test_malicious_labels_are_turned_round(rng: np.random.Generator) -> None:
    """Two classes, 12 workers who are nearly always right, 8 who never are: EM uses them all."""
    assignment = regular_assignment(n_tasks=400, n_workers=20, labels_per_task=7, rng=rng)
    truth = rng.integers(2, size=400)
    crowd = simulate_crowd(
        assignment, truth, n_classes=2, adversaries={"malicious": 8}, reliability=(60.0, 3.0),
        rng=rng,
    )  # fmt: skip
    labels = encode(crowd.worker, crowd.task, crowd.label)
    wrong = [
        np.mean(result.label != truth) for result in (majority_vote(labels), dawid_skene(labels))
    ]
    assert wrong[1] < wrong[0] / 5


@pytest.mark.parametrize(("name", "published"), [("rte", 92.75), ("web", 82.17)])
def test_accuracy_is_the_data_readmes(shared_data: Path, name: str, published: float) -> None:
    """Golden: the table of the shared data's README.md (100 iterations, smoothing 0.01)."""
    labels, gold = read_set(shared_data / name)
    known = gold >= 0
    for result in (dawid_skene(labels, tol=0.0), dawid_skene(labels)):
        right = 100 * np.mean(result.label[known] == gold[known])
        assert right == pytest.approx(published, abs=0.1)


def one_coin(smoothing: float) -> Callable[[np.ndarray], np.ndarray]:
    """The M-step by its definition: worker by worker, row by row."""

    def m_step(counts: np.ndarray) -> np.ndarray:
        n_classes = counts.shape[1]
        table = np.empty_like(counts)
        for own, out in zip(counts, table, strict=True):
            right = (np.trace(own) + smoothing) / (own.sum() + n_classes * smoothing)
            out[:] = (1 - right) / (n_classes - 1)
            np.fill_diagonal(out, right)
        return table

    return m_step


def confusion_of(result: OneCoin) -> np.ndarray:
    n_classes = len(result.prior)
    right = result.reliability[:, None, None]
    return np.where(np.eye(n_classes, dtype=bool), right, (1 - right) / (n_classes - 1))


def one_coin_crowd_of(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray, np.ndarray]:
    """40 workers of known accuracy, four malicious; the table, the truth and the accuracies."""
    assignment = regular_assignment(n_tasks=600, n_workers=40, labels_per_task=6, rng=rng)
    truth = rng.integers(4, size=600)
    crowd = simulate_crowd(assignment, truth, n_classes=4, adversaries={"malicious": 4}, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label), truth, crowd.accuracy


@QUICK
@given(crowds(), st.integers(0, 2**32 - 1))
def test_it_is_the_textbooks_em_with_gold_and_without(labels: CrowdLabels, seed: int) -> None:
    gold = np.random.default_rng(seed).integers(-1, 3, size=labels.n_tasks)
    for known in (None, gold):
        result = one_coin_dawid_skene(labels, max_iter=6, tol=0.0, smoothing=0.1, gold=known)
        expected = textbook_em(labels, result.n_iter, one_coin(0.1), known)
        assert result.posterior == pytest.approx(expected.posterior, abs=1e-9)
        assert confusion_of(result) == pytest.approx(expected.confusion, abs=1e-9)
        assert result.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-7)


def test_posterior_is_bayes_rule_and_gold_is_certain(rng: np.random.Generator) -> None:
    labels, truth, _ = one_coin_crowd_of(rng)
    gold = np.where(np.arange(600) < 50, truth, -1)
    result = one_coin_dawid_skene(labels, gold=gold)
    expected = bayes(labels, result.prior, confusion_of(result), gold)[0]
    assert result.posterior == pytest.approx(expected, abs=1e-9)
    assert np.array_equal(result.posterior[:50], np.eye(4)[truth[:50]])


def test_one_coin_smoothed_log_likelihood_never_falls(rng: np.random.Generator) -> None:
    labels, smoothing = one_coin_crowd_of(rng)[0], 0.3

    def objective(n_iter: int) -> float:
        result = one_coin_dawid_skene(labels, max_iter=n_iter, tol=0.0, smoothing=smoothing)
        row = confusion_of(result)[:, 0]  # being right, and each way of being wrong
        return result.log_likelihood + smoothing * float(np.log(row).sum())

    values = [objective(n_iter) for n_iter in range(1, 25)]
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()
    assert values[-1] > values[0] + 1


def test_reliabilities_are_found(rng: np.random.Generator) -> None:
    """90 labels each: the standard error of a share is at most 0.053, five of them for 36 workers."""
    labels, _, accuracy = one_coin_crowd_of(rng)
    result = one_coin_dawid_skene(labels)
    honest = np.isfinite(accuracy)
    assert np.abs(result.reliability - accuracy)[honest].max() < 5 * 0.053
    assert (result.reliability[~honest] < 0.1).all()


def test_one_coin_malicious_labels_are_turned_round(rng: np.random.Generator) -> None:
    labels, truth, _ = one_coin_crowd_of(rng)
    wrong = [
        np.mean(result.label != truth)
        for result in (majority_vote(labels), one_coin_dawid_skene(labels))
    ]
    assert wrong[1] < wrong[0]


def test_a_worker_without_labels_guesses(rng: np.random.Generator) -> None:
    labels = one_coin_crowd_of(rng)[0].keep_workers(np.arange(40) < 39)
    assert one_coin_dawid_skene(labels).reliability[-1] == pytest.approx(1 / 4)


def test_few_labels_a_worker_suit_one_coin(shared_data: Path) -> None:
    """music: 10 classes, 44 workers; a matrix each is more than the labels can tell."""
    labels, gold = read_set(shared_data / "music")
    known = gold >= 0
    right = [
        100 * np.mean(result.label[known] == gold[known])
        for result in (majority_vote(labels), one_coin_dawid_skene(labels))
    ]
    assert right[1] > right[0] + 8


@pytest.mark.parametrize("rule", [dawid_skene, one_coin_dawid_skene])
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_smoothing_out_of_range_is_refused(rule: Callable[..., Any], value: float) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match="smoothing must be .*got smoothing="):
        rule(labels, smoothing=value)

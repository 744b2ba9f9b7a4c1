"""One-coin Dawid–Skene against the textbook's EM, and its guarantees."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels, encode, majority_vote, regular_assignment, simulate_crowd
from quality.aggregation.dawid_skene_em import OneCoin, one_coin_dawid_skene
from tests.quality.aggregation.textbook_em import bayes, textbook_em
from tests.quality.real_data import read_crowd
from tests.quality.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


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


def crowd_of(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray, np.ndarray]:
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
    labels, truth, _ = crowd_of(rng)
    gold = np.where(np.arange(600) < 50, truth, -1)
    result = one_coin_dawid_skene(labels, gold=gold)
    expected = bayes(labels, result.prior, confusion_of(result), gold)[0]
    assert result.posterior == pytest.approx(expected, abs=1e-9)
    assert np.array_equal(result.posterior[:50], np.eye(4)[truth[:50]])


def test_smoothed_log_likelihood_never_falls(rng: np.random.Generator) -> None:
    labels, smoothing = crowd_of(rng)[0], 0.3

    def objective(n_iter: int) -> float:
        result = one_coin_dawid_skene(labels, max_iter=n_iter, tol=0.0, smoothing=smoothing)
        row = confusion_of(result)[:, 0]  # being right, and each way of being wrong
        return result.log_likelihood + smoothing * float(np.log(row).sum())

    values = [objective(n_iter) for n_iter in range(1, 25)]
    assert (np.diff(values) >= -1e-9 * abs(values[0])).all()
    assert values[-1] > values[0] + 1


def test_reliabilities_are_found(rng: np.random.Generator) -> None:
    """90 labels each: the standard error of a share is at most 0.053, five of them for 36 workers."""
    labels, _, accuracy = crowd_of(rng)
    result = one_coin_dawid_skene(labels)
    honest = np.isfinite(accuracy)
    assert np.abs(result.reliability - accuracy)[honest].max() < 5 * 0.053
    assert (result.reliability[~honest] < 0.1).all()


def test_malicious_labels_are_turned_round(rng: np.random.Generator) -> None:
    labels, truth, _ = crowd_of(rng)
    wrong = [
        np.mean(result.label != truth)
        for result in (majority_vote(labels), one_coin_dawid_skene(labels))
    ]
    assert wrong[1] < wrong[0]


def test_a_worker_without_labels_guesses(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)[0].keep_workers(np.arange(40) < 39)
    assert one_coin_dawid_skene(labels).reliability[-1] == pytest.approx(1 / 4)


def test_not_converging_is_a_result() -> None:
    labels = encode(["a", "b", "c"] * 2, [1, 1, 1, 2, 2, 2], list("xxyyyx"))
    result = one_coin_dawid_skene(labels, max_iter=1)
    assert (result.converged, result.n_iter) == (False, 1)
    assert "not converged after 1 iterations" in repr(result)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("max_iter", 0), ("tol", np.nan), ("smoothing", 0.0), ("threads", 0)],
)
def test_parameters_out_of_range_are_refused(parameter: str, value: float) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=f"{parameter} must be .*got {parameter}="):
        one_coin_dawid_skene(labels, **{parameter: value})


def test_few_labels_a_worker_suit_one_coin(shared_data: Path) -> None:
    """music: 10 classes, 44 workers; a matrix each is more than the labels can tell."""
    labels, gold = read_crowd(shared_data / "music")
    known = gold >= 0
    right = [
        100 * np.mean(result.label[known] == gold[known])
        for result in (majority_vote(labels), one_coin_dawid_skene(labels))
    ]
    assert right[1] > right[0] + 8

"""Hierarchical Dawid–Skene: its guarantees, and that what is rare does not run away."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize_scalar
from scipy.special import digamma as scipy_digamma
from scipy.special import gammaln

from benchmarks.quality.crowd_sets import read_set
from quality import (
    CrowdLabels,
    dawid_skene,
    encode,
    regular_assignment,
    simulate_crowd,
)
from quality.aggregation.hierarchical_em import (
    _fit_strength,
    digamma,
    hierarchical_dawid_skene,
    pseudo_table,
)
from tests.quality.aggregation.textbook_em import bayes, textbook_em
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def crowd_of(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray]:
    """Three classes, 60 workers, 300 tasks, 5 labels each; the table and the truth."""
    assignment = regular_assignment(n_tasks=300, n_workers=60, labels_per_task=5, rng=rng)
    truth = rng.choice(3, p=[0.5, 0.3, 0.2], size=300)
    crowd = simulate_crowd(assignment, truth, n_classes=3, adversaries={"random": 6}, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label), truth


@QUICK
@given(crowds())
def test_a_fixed_prior_gives_the_textbooks_em(labels: CrowdLabels) -> None:
    """The prior is fitted before the first iteration and after the fifth."""
    result = hierarchical_dawid_skene(labels, max_iter=5, tol=0.0)
    pseudo = result.strength * result.crowd_confusion
    expected = textbook_em(
        labels, 5, lambda c: (c + pseudo) / (c + pseudo).sum(axis=2, keepdims=True)
    )
    assert result.posterior == pytest.approx(expected.posterior, abs=1e-9)
    assert result.confusion == pytest.approx(expected.confusion, abs=1e-9)


def test_posterior_is_bayes_rule_and_gold_is_certain(rng: np.random.Generator) -> None:
    labels, truth = crowd_of(rng)
    gold = np.where(np.arange(300) < 40, truth, -1)
    result = hierarchical_dawid_skene(labels, gold=gold)
    expected = bayes(labels, result.prior, result.confusion, gold)[0]
    assert result.posterior == pytest.approx(expected, abs=1e-9)
    assert np.array_equal(result.posterior[:40], np.eye(3)[truth[:40]])
    assert result.confusion.sum(axis=2) == pytest.approx(np.ones((60, 3)))
    assert result.crowd_confusion.sum(axis=1) == pytest.approx(np.ones(3))


def test_a_worker_without_labels_has_the_crowds_confusion(rng: np.random.Generator) -> None:
    labels = crowd_of(rng)[0].keep_workers(np.arange(60) < 59)
    result = hierarchical_dawid_skene(labels)
    assert result.confusion[-1] == pytest.approx(result.crowd_confusion, abs=1e-12)


@pytest.mark.parametrize("most", [0.001, 0.5, 50.0])
def test_strength_does_not_exceed_its_cap(most: float, rng: np.random.Generator) -> None:
    assert hierarchical_dawid_skene(crowd_of(rng)[0], most_strength=most).strength <= most


@pytest.mark.parametrize("true_strength", [0.5, 5.0, 40.0])
def test_fitted_strength_is_the_likelihoods_maximum(
    true_strength: float, rng: np.random.Generator
) -> None:
    """Oracle: SciPy's scalar search on the Dirichlet-multinomial log-likelihood, counts known."""
    row = np.array([[0.7, 0.1, 0.2], [0.2, 0.8, 0.3], [0.1, 0.1, 0.5]])  # [answer, truth]
    counts = np.zeros((200, 3, 3))
    for own in counts:
        for truth in range(3):
            share = rng.dirichlet(true_strength * row[:, truth])
            own[:, truth] = rng.multinomial(rng.integers(0, 30), share)

    def loss(log_strength: float) -> float:
        pseudo = np.exp(log_strength) * row
        rows = gammaln(pseudo.sum(axis=0)) - gammaln(counts.sum(axis=1) + pseudo.sum(axis=0))
        cells = gammaln(counts + pseudo) - gammaln(pseudo)
        return -float(rows.sum() + cells.sum())

    expected = np.exp(minimize_scalar(loss, bounds=(-5, 8), method="bounded").x)
    assert _fit_strength(counts, row, 1e6) == pytest.approx(expected, rel=1e-3)
    assert _fit_strength(counts, row, 0.2) == pytest.approx(0.2)


def test_same_bytes_on_any_number_of_threads(rng: np.random.Generator) -> None:
    """140,000 labels are cut into several chunks."""
    assignment = regular_assignment(n_tasks=20_000, n_workers=100, labels_per_task=7, rng=rng)
    crowd = simulate_crowd(
        assignment, rng.integers(2, size=20_000), n_classes=2, adversaries={}, rng=rng
    )
    labels = encode(crowd.worker, crowd.task, crowd.label)
    one, other = (hierarchical_dawid_skene(labels, max_iter=7, threads=n) for n in (1, 2))
    assert one.n_iter == 7
    for name in ("posterior", "confusion", "crowd_confusion"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


def test_a_rare_class_is_not_taken_over(rng: np.random.Generator) -> None:
    """The third class is given once in 200 labels, at random, and is never true."""
    truth = rng.choice(2, p=[0.4, 0.6], size=4000)
    task = np.repeat(np.arange(4000), 5)
    worker = np.argsort(rng.random((4000, 30)), axis=1)[:, :5].ravel()
    accuracy = np.where(np.arange(4000) % 4 == 0, 0.55, 0.9)  # a quarter of the tasks is hard
    right = rng.random(20_000) < accuracy[task]
    label = np.where(rng.random(20_000) < 0.005, 2, np.where(right, truth[task], 1 - truth[task]))
    labels = encode(worker, task, label)
    plain, result = dawid_skene(labels), hierarchical_dawid_skene(labels)
    assert plain.prior[2] > 0.01
    assert result.prior[2] < 0.005
    assert np.mean(result.label == truth) > np.mean(plain.label == truth)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("anchor", 0.0), ("anchor", np.inf), ("most_strength", 0.0), ("most_strength", np.nan)],
)
def test_parameters_out_of_range_are_refused(parameter: str, value: float) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=f"{parameter} must be .*got {parameter}="):
        hierarchical_dawid_skene(labels, **{parameter: value})


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "least_gain"),
    [("bluebird", -0.5), ("dog", -0.5), ("fact_eval", 2.0), ("labelme", -0.5), ("mill", -0.5),
     ("music", -0.5), ("rte", -0.5), ("sentence_polarity", -0.5), ("task2", -0.5), ("temp", -0.5),
     ("trec2011_task2", -0.5), ("web", -0.5)],
)  # fmt: skip
def test_it_is_no_worse_than_dawid_skene_and_far_better_where_a_class_runs_away(
    shared_data: Path, name: str, least_gain: float
) -> None:
    """In points of accuracy; fact_eval is where plain Dawid–Skene loses to the majority vote."""
    labels, gold = read_set(shared_data / name)
    known = gold >= 0
    plain, result = (
        100 * np.mean(estimate(labels).label[known] == gold[known])
        for estimate in (dawid_skene, hierarchical_dawid_skene)
    )
    assert result - plain > least_gain


def test_digamma_is_scipys() -> None:
    """From the smallest pseudo-counts to many labels, on both sides of where the series begins."""
    x = np.concatenate([np.geomspace(1e-15, 1e7, 4001), np.linspace(7.9, 8.1, 201)])
    found = np.array([digamma(one) for one in x])
    np.testing.assert_allclose(found, scipy_digamma(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "shape", [(50, 1, 1), (50, 2, 2), (50, 3, 3), (9, 8, 8), (4, 12, 12), (5, 3, 4)]
)
def test_shares_are_numpys_but_for_their_last_bits(
    shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    counts, pseudo = rng.gamma(0.5, size=shape), rng.random(shape[1:])
    expected = counts + pseudo
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pseudo_table(counts, pseudo), expected, rtol=1e-15)

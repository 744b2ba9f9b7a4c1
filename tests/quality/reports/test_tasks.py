"""The task report: numbers by their definition, and the order of the hardest.

The ranking of tasks: entropy, then few labels, then code.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import entropy

from quality import CrowdLabels, dawid_skene, encode, majority_vote, next_labels
from quality.many_classes import one_coin_of_named
from quality.reports.tasks import posterior_entropy, task_report
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


@QUICK
@given(crowds())
def test_numbers_are_those_of_a_slow_count(labels: CrowdLabels) -> None:
    """Oracle: one task at a time, SciPy's entropy, Python's sort."""
    posterior = dawid_skene(labels).posterior
    report = task_report(labels, posterior)
    for task in range(labels.n_tasks):
        said = labels.label[labels.task == task].tolist()
        counts = [said.count(k) for k in range(labels.n_classes)]
        second, first = sorted(posterior[task])[-2:]
        assert report.counts[task].tolist() == counts
        assert report.n_labels[task] == len(said)
        assert report.conflict[task] == (len(set(said)) > 1)
        assert report.margin[task] == pytest.approx(first - second, abs=1e-11)
        assert report.entropy[task] == pytest.approx(entropy(posterior[task]), abs=1e-9)
        assert posterior[task, report.label[task]] == pytest.approx(first, abs=1e-11)
        overruled = counts[report.label[task]] < max(counts) and not report.tied[task]
        assert report.overruled[task] == overruled


@QUICK
@given(crowds())
def test_each_task_is_once_among_the_hardest_by_margin_entropy_labels_and_code(
    labels: CrowdLabels,
) -> None:
    report = task_report(labels, majority_vote(labels).posterior)
    key = [
        (round(report.margin[t], 12), -round(report.entropy[t], 12), report.n_labels[t], t)
        for t in range(labels.n_tasks)
    ]
    assert report.hardest.tolist() == [t for *_, t in sorted(key)]


@QUICK
@given(crowds())
def test_a_task_is_tied_exactly_where_its_margin_is_0(labels: CrowdLabels) -> None:
    report = task_report(labels, dawid_skene(labels).posterior)
    assert np.array_equal(report.tied, report.margin == 0)


def test_print_shows_the_hardest_tasks_by_name() -> None:
    """A tie, a task whose consensus few workers gave, one where all agree."""
    labels = encode(
        ["ann", "bob", "ann", "bob", "cy", "ann"], list("ttuuuv"), list("xyxxyz"),
    )  # fmt: skip
    posterior = np.array([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    report = task_report(labels, posterior)
    assert repr(report) == "TaskReport(3 tasks, 2 in conflict, 1 tied, 1 overruled)"
    assert str(report).splitlines() == [
        "TaskReport(3 tasks, 2 in conflict, 1 tied, 1 overruled)",
        "hardest  labels    consensus  margin  entropy",
        "t        1 x, 1 y  x          0.000   0.693    tied",
        "u        2 x, 1 y  y          0.800   0.325    overruled",
        "v        1 z       z          1.000   0.000",
    ]


def test_a_table_with_one_class_has_no_doubt() -> None:
    labels = encode(["ann"], [1], ["x"])
    report = task_report(labels, np.array([[1.0]]))
    assert (report.margin.tolist(), report.tied.tolist()) == ([1.0], [False])


def test_the_result_is_read_only() -> None:
    report = task_report(encode(["ann"], [1], ["x"]), np.array([[1.0]]))
    assert not report.margin.flags.writeable
    assert not report.hardest.flags.writeable


def test_a_posterior_that_does_not_fit_is_refused() -> None:
    labels = encode([1, 2], [1, 1], [0, 1])
    with pytest.raises(ValueError, match=r"posterior must have shape \(1, 2\), got \(2, 2\)"):
        task_report(labels, np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match="rows of probabilities"):
        task_report(labels, np.array([[0.7, 0.7]]))


@QUICK
@given(crowds())
def test_every_task_once_by_entropy_then_fewest_labels_then_code(labels: CrowdLabels) -> None:
    """Oracle: SciPy's entropy and Python's sort."""
    posterior = dawid_skene(labels).posterior
    nats = entropy(posterior, axis=1)
    n_labels = np.diff(labels.task_start)
    ranked = next_labels(labels, posterior)
    expected = sorted(
        range(labels.n_tasks), key=lambda t: (-round(nats[t], 12) + 0.0, n_labels[t], t)
    )
    assert nats[expected] == pytest.approx(nats[ranked.task], abs=1e-9)
    assert sorted(ranked.task.tolist()) == list(range(labels.n_tasks))
    assert ranked.entropy == pytest.approx(nats[ranked.task], abs=1e-9)
    assert ranked.n_labels.tolist() == n_labels[ranked.task].tolist()


@QUICK
@given(crowds())
def test_tasks_rank_alike_by_named_classes_and_by_the_table_that_they_stand_for(
    labels: CrowdLabels,
) -> None:
    named = one_coin_of_named(labels).posterior
    table = named[np.arange(labels.n_tasks)]
    for confidence in (None, table.max(axis=1) ** 2):
        ranked, expected = (
            next_labels(labels, one, confidence=confidence) for one in (named, table)
        )
        assert ranked.entropy == pytest.approx(expected.entropy, abs=1e-9)
        if confidence is not None:
            assert ranked.task.tolist() == expected.task.tolist()


def test_equals_come_by_number_of_labels_then_by_code() -> None:
    labels = encode([1, 2, 1, 1, 2, 1], [0, 0, 1, 2, 2, 3], [0, 0, 0, 0, 1, 0])
    ranked = next_labels(labels, majority_vote(labels).posterior)
    assert ranked.task.tolist() == [2, 1, 3, 0]
    assert ranked.entropy[0] == pytest.approx(np.log(2))
    assert ranked.entropy[1:].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "posterior",
    [np.full((2, 2), 0.5), pytest.param(np.full(2, 0.5), marks=pytest.mark.refusal)],
)
def test_a_posterior_of_another_shape_is_refused(posterior: np.ndarray) -> None:
    labels = encode([1, 2], [1, 1], [0, 1])
    with pytest.raises(ValueError, match=r"posterior must have shape \(1, 2\), got \(2,"):
        next_labels(labels, posterior)


def test_a_posterior_that_is_no_distribution_is_refused() -> None:
    labels = encode([1, 2], [1, 1], [0, 1])
    for bad in ([[0.7, 0.7]], [[-0.5, 1.5]], [[np.nan, 0.5]]):
        with pytest.raises(ValueError, match="rows of probabilities"):
            next_labels(labels, np.array(bad))


@pytest.mark.refusal
@pytest.mark.parametrize("bad", [[0.5], [0.5, 1.2, 0.1], [0.5, np.nan, 0.1]])
def test_what_is_no_confidence_does_not_rank(bad: list[float]) -> None:
    labels = encode(["ann", "bob", "ann"], [1, 2, 3], list("xyx"))
    with pytest.raises(ValueError, match=r"confidence must be 3 numbers in \[0, 1\]"):
        next_labels(labels, majority_vote(labels).posterior, confidence=np.array(bad))


def test_the_product_of_confidence_and_the_model_ranks() -> None:
    labels = encode(["ann", "bob", "ann", "ann", "bob"], [1, 1, 2, 3, 3], list("xxxxy"))
    posterior = np.array([[0.6, 0.4], [1.0, 0.0], [0.9, 0.1]])
    confidence = np.array([0.9, 0.7, 0.7])
    ranked = next_labels(labels, posterior, confidence=confidence)
    assert ranked.task.tolist() == [0, 2, 1]  # .54, .63 and .7


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_numbers_of_any_width_are_taken(kind: type) -> None:
    labels = encode(["ann", "bob"], [1, 1], ["x", "y"])
    report = task_report(labels, np.array([[0.25, 0.75]], dtype=kind))
    assert (report.label.tolist(), report.margin.tolist()) == ([1], [0.5])


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_entropies_have_all_their_digits_whatever_the_width(kind: type) -> None:
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), size=50).astype(kind)
    exact = posterior_entropy(posterior.astype(np.float64))
    np.testing.assert_allclose(posterior_entropy(posterior), exact, atol=1e-14)

"""The ranking of tasks: entropy, then few labels, then code."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import entropy

from quality import CrowdLabels, dawid_skene, encode, majority_vote, next_labels
from tests.quality.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


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

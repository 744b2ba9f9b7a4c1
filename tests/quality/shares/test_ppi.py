"""PPI++ as published: equal to `ppi-python`, and what lambda means for classes."""

import numpy as np
import pytest

from quality.shares import (
    gold_alone,
    prediction_powered,
    prediction_powered_infinite,
    rogan_gladen,
)

COUNTS = np.array([14, 17, 9])
TABLE = np.array([[4, 1, 0], [1, 3, 1], [0, 0, 2]])


def test_the_infinite_form_is_that_of_ppi_python() -> None:
    """`ppi_mean_pointestimate` and `ppi_mean_ci` of ppi-python 0.2.3, class by class on these tables."""
    found = prediction_powered_infinite(COUNTS, TABLE, level=0.95)
    np.testing.assert_allclose(PEER[0], found.share, rtol=0, atol=1e-9)
    np.testing.assert_allclose(PEER[1], found.low, rtol=0, atol=1e-9)
    np.testing.assert_allclose(PEER[2], found.high, rtol=0, atol=1e-9)


PEER = (
    [0.371031746032, 0.337027564649, 0.290770609319],
    [0.139639437765, 0.092506007771, 0.096688361101],
    [0.602424054299, 0.581549121528, 0.484852857537],
)


def _by_tasks(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimate and its variance from one row a task, for given lambdas."""
    said = np.repeat(np.arange(3), TABLE.sum(axis=1))
    true = np.concatenate([np.repeat(np.arange(3), row) for row in TABLE])
    residual = np.eye(3)[true] - weight * np.eye(3)[said]
    share = weight * COUNTS / COUNTS.sum() + residual.mean(axis=0)
    n, total = len(said), COUNTS.sum()
    return share, (1 - n / total) * residual.var(axis=0, ddof=1) / n


def test_the_finite_form_is_what_its_formula_says_task_by_task() -> None:
    found = prediction_powered(COUNTS, TABLE)
    share, variance = _by_tasks(found.weight)
    np.testing.assert_allclose(share, found.share, atol=1e-12)
    np.testing.assert_allclose((found.high - found.low) / 2 / 1.959963984540054, np.sqrt(variance))


def test_no_other_lambda_in_the_unit_interval_has_less_estimated_variance() -> None:
    best = _by_tasks(prediction_powered(COUNTS, TABLE).weight)[1]
    for other in np.linspace(0, 1, 21):
        assert (best <= _by_tasks(np.full(3, other))[1] + 1e-12).all()


def test_the_estimate_is_the_mean_of_two_strata_by_their_sizes() -> None:
    n, own = TABLE.sum(), TABLE.sum(axis=1)
    inside = np.diag(TABLE) / own
    outside = (TABLE.sum(axis=0) - np.diag(TABLE)) / (n - own)
    size = COUNTS / COUNTS.sum()
    expected = size * inside + (1 - size) * outside
    np.testing.assert_allclose(expected, prediction_powered(COUNTS, TABLE).share)


def test_lambda_is_zero_where_the_consensus_points_the_wrong_way() -> None:
    found = prediction_powered(np.array([20, 20]), np.array([[1, 7], [6, 2]]))
    np.testing.assert_array_equal([0, 0], found.weight)
    np.testing.assert_allclose(gold_alone(np.array([[1, 7], [6, 2]])), found.share)


@pytest.mark.refusal
@pytest.mark.parametrize(
    "table", [np.array([3, 4]), np.ones((2, 3), dtype=int), np.array([[5, -1], [0, 2]])]
)
def test_gold_alone_is_of_a_table_of_consensus_and_truth(table: np.ndarray) -> None:
    with pytest.raises(ValueError, match="table must be of consensus and true class"):
        gold_alone(table)


def test_a_sample_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="2 gold tasks or more, got 1"):
        prediction_powered(np.array([3, 3]), np.array([[1, 0], [0, 0]]))


def test_gold_for_all_tasks_leaves_no_endless_population() -> None:
    with pytest.raises(ValueError, match="a task without gold"):
        prediction_powered_infinite(np.array([2, 2]), np.array([[2, 0], [0, 2]]))


def test_rogan_and_gladen_invert_the_errors_where_they_can() -> None:
    """P(f|y) of .9 and .8 with many gold tasks: (.6 - .2) / (.9 - .2)."""
    table = np.array([[9_000, 2_000], [1_000, 8_000]])
    found = rogan_gladen(np.array([60_000, 40_000]), table)
    assert found[0] == pytest.approx(4 / 7, abs=1e-3)


@pytest.mark.parametrize(("right", "low", "high"), [(0.5, 0.0, 1e-4), (0.3, 1e-3, 4e-3)])
def test_rogan_and_gladen_settle_where_errors_are_not_too_many(
    right: float, low: float, high: float
) -> None:
    """Ten classes; the shares that the errors turn into the counts are all above 0."""
    errors = np.full((10, 10), (1 - right) / 9)
    np.fill_diagonal(errors, right)
    table = np.round(errors * 1000).astype(int)
    truth = np.random.default_rng(0).dirichlet(np.ones(10))
    counts = np.round(errors @ truth * 100_000).astype(int) + 1_000
    smooth = (table + 0.5) / (table + 0.5).sum(axis=0)
    wanted = np.linalg.solve(smooth, counts / counts.sum())
    assert (wanted > 0).all()
    assert low <= np.abs(rogan_gladen(counts, table) - wanted).max() <= high


def test_rogan_and_gladen_stop_on_the_way_where_classes_are_hardly_separated() -> None:
    """P(f|y) of .55 both ways, half a task added: the likeliest share is .702."""
    found = rogan_gladen(np.array([520, 480]), np.array([[55, 45], [45, 55]]))
    assert found[0] == pytest.approx(0.67, abs=0.005)


def test_rogan_and_gladen_stay_within_the_simplex() -> None:
    found = rogan_gladen(np.array([99, 1]), np.array([[8, 5], [0, 1]]))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)

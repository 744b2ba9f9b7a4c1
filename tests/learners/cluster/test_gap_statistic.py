import numpy as np
import pytest

from learners.cluster.gap_statistic import cluster_number


def mixture(rng, n, k, weights=None):
    corners = 6.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    return corners[rng.choice(k, size=n, p=weights)] + rng.normal(size=(n, 2))


@pytest.mark.long
@pytest.mark.parametrize("method", ["gap", "slope", "prediction_strength"])
@pytest.mark.parametrize("k", [1, 3])
def test_the_number_of_well_separated_clusters_is_found(method, k):
    rng = np.random.default_rng(3)
    found = cluster_number(mixture(rng, 300, k), k_max=5, method=method, rng=rng)
    assert found.n_clusters == k
    assert [one.n_clusters for one in found.table] == [1, 2, 3, 4, 5]
    assert all(one.risk >= two.risk for one, two in zip(found.table, found.table[1:], strict=False))


def test_dissimilarities_alone_are_enough():
    rng = np.random.default_rng(0)
    for k in (1, 3):
        x = mixture(rng, 150, k)
        matrix = ((x[:, None] - x[None]) ** 2).sum(axis=2)
        found = cluster_number(matrix, metric="precomputed", k_max=5, rng=rng)
        assert found.n_clusters == k


def test_prediction_strength_is_measured_where_it_is_asked_for(rng):
    x = mixture(rng, 60, 3)
    asked = cluster_number(x, k_max=3, method="prediction_strength", rng=rng)
    assert all(0 <= one.strength <= 1 for one in asked.table)
    other = cluster_number(x, k_max=3, rng=rng)
    assert np.isnan([one.strength for one in other.table]).all()


@pytest.mark.parametrize("n", range(4, 8))
def test_single_points_are_no_strong_clusters(n, rng):
    """Clusters of a point each had no pair that another half could part: two or three were always found."""
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=(n, 2))
        found = cluster_number(x, method="prediction_strength", rng=rng)
        assert found.n_clusters == 1
        assert max(one.strength for one in found.table[1:]) <= 0.5


@pytest.mark.parametrize("method", ["gap", "slope", "prediction_strength"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_there_are_no_more_clusters_than_points_that_differ(method, k, rng):
    x = np.array([[1.0, 1.0], [2.0, 5.0], [4.0, 3.0]])[np.arange(24) % k]
    assert cluster_number(x, k_max=6, method=method, rng=rng).n_clusters == k


@pytest.mark.refusal
def test_what_does_not_fit_is_refused(rng):
    x = np.zeros((10, 1))
    with pytest.raises(ValueError, match="k_max must be >= 2"):
        cluster_number(x, k_max=1, rng=rng)
    with pytest.raises(ValueError, match="4 points or more"):
        cluster_number(x[:3], rng=rng)
    with pytest.raises(ValueError, match="method must be one of"):
        cluster_number(x, method="elbow", rng=rng)
    with pytest.raises(ValueError, match="metric must be 'sqeuclidean'"):
        cluster_number(x, metric="cosine", rng=rng)
    with pytest.raises(ValueError, match="dissimilarities must be >= 0"):
        cluster_number(np.eye(10) - 1, metric="precomputed", rng=rng)
    x[3, 0] = np.nan
    with pytest.raises(ValueError, match="x must be finite, got nan at row 3, column 0"):
        cluster_number(x, rng=rng)


@pytest.mark.refusal
def test_lists_of_rows_are_rows():
    x = [[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]]
    one, other = (
        cluster_number(rows, k_max=3, rng=np.random.default_rng(0)) for rows in (x, np.array(x))
    )
    assert one == other

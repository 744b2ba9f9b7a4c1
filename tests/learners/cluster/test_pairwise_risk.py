import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners.cluster.pairwise_risk import PairwiseRiskClustering
from learners.cluster.risk import clustering_risk


@pytest.fixture
def two(rng):
    return np.vstack([rng.normal(size=(100, 2)), 7 + rng.normal(size=(100, 2))])


@pytest.mark.refusal  # some of the checks pass sparse rows or parameters of any type
@parametrize_with_checks([
    PairwiseRiskClustering(3, n_init=2),
    PairwiseRiskClustering(3, objective="pairwise", n_init=2),
])  # fmt: skip
def test_the_estimator_keeps_scikit_learns_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("objective", ["normalized", "pairwise"])
def test_predict_on_the_rows_of_the_fit_gives_its_labels(two, objective):
    found = PairwiseRiskClustering(4, objective=objective, random_state=0).fit(two)
    assert found.predict(two).tolist() == found.labels_.tolist()


def test_the_interval_is_of_a_partition_learned_without_the_rows_that_measure_it():
    """One cell split in eight: measured where it was learned, the risk is too low."""
    rng = np.random.default_rng(0)
    low = []
    for seed in range(40):
        x = rng.normal(size=(80, 2))
        knobs = {"n_clusters": 12, "random_state": seed, "n_init": 2}
        honest = PairwiseRiskClustering(**knobs).fit(x)
        flattered = PairwiseRiskClustering(**knobs, holdout=0.0).fit(x)
        low.append(flattered.risk_ < honest.risk_)
    assert np.mean(low) > 0.9


def test_a_precomputed_matrix_gives_what_rows_give(two):
    matrix = ((two[:, None] - two[None]) ** 2).sum(axis=2)
    rows = PairwiseRiskClustering(2, random_state=0).fit(two)
    given = PairwiseRiskClustering(2, metric="precomputed", random_state=0).fit(matrix)
    assert given.labels_.tolist() == rows.labels_.tolist()
    assert given.risk_ == pytest.approx(rows.risk_)
    assert given.predict(matrix[:5]).tolist() == rows.labels_[:5].tolist()


@pytest.mark.parametrize(
    ("method", "table"),
    [("gap", "selection_table_"), ("slope", "selection_table_"),
     ("penalized", "penalized_risk_"), ("penalized_paper", "penalized_risk_")],
)  # fmt: skip
def test_the_evidence_for_a_number_is_kept(two, method, table):
    found = PairwiseRiskClustering("auto", k_selection=method, k_max=3, random_state=0).fit(two)
    assert [one.n_clusters for one in getattr(found, table)] == [1, 2, 3]
    assert found.n_clusters_ == (1 if method == "penalized_paper" else 2) or method == "penalized"


def test_more_rows_than_compete_keep_an_honest_risk():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30_000, 2)) + 9 * rng.integers(2, size=(30_000, 1))
    found = PairwiseRiskClustering(2, random_state=0).fit(x)
    truth = clustering_risk(x, found.labels_, objective="normalized").value
    assert found.risk_interval_[0] < truth < found.risk_interval_[1]


def test_a_function_with_many_rows_samples_pairs(monkeypatch):
    monkeypatch.setattr("learners.cluster.local_moves.MAX_COMPLETE", 200)
    monkeypatch.setattr("learners.cluster.pairwise_risk.MAX_COMPLETE", 200)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 2)) + 9 * rng.integers(2, size=(900, 1))

    def city(a, b):
        return np.abs(a[:, None] - b[None]).sum(axis=2)

    found = PairwiseRiskClustering(2, metric=city, random_state=0, max_pairs=4000).fit(x)
    assert sorted(np.bincount(found.labels_)) == sorted(np.bincount((x[:, 0] > 4.5).astype(int)))
    truth = clustering_risk(x, found.labels_, metric=city, objective="normalized")
    assert found.risk_ == pytest.approx(truth.value, rel=0.1)


def test_too_few_rows_left_out_have_no_risk():
    found = PairwiseRiskClustering(2, random_state=0).fit(np.array([[0.0], [1.0], [9.0]]))
    assert np.isnan([found.risk_, *found.risk_interval_]).all()
    assert np.isnan(PairwiseRiskClustering(6).fit(np.arange(10.0)[:, None]).risk_)


def test_three_rows_left_out_have_a_risk():
    found = PairwiseRiskClustering(2, random_state=0).fit(np.arange(6.0)[:, None])
    assert found.risk_interval_[0] <= found.risk_ <= found.risk_interval_[1]


def test_scikit_learn_is_told_that_a_matrix_is_of_pairs_of_rows():
    for metric, pairwise in (("precomputed", True), ("sqeuclidean", False)):
        tags = get_tags(PairwiseRiskClustering(2, metric=metric))
        assert tags.input_tags.pairwise == pairwise


def test_a_later_fit_shows_nothing_of_an_earlier_choice(two):
    found = PairwiseRiskClustering("auto", k_max=3, random_state=0).fit(two)
    assert found.selection_table_
    found.set_params(n_clusters=2).fit(two)
    assert not hasattr(found, "selection_table_")
    found.set_params(n_clusters="auto", k_selection="penalized", dissimilarity_bound=200.0).fit(two)
    assert found.penalized_risk_
    found.set_params(k_selection="gap").fit(two)
    assert not hasattr(found, "penalized_risk_")


def test_an_empty_cell_is_given_to_no_row():
    """Two places have three cells: the third is empty, and would cost nothing."""
    x = np.repeat([[0.0], [5.0]], 3, axis=0)
    found = PairwiseRiskClustering(3, objective="pairwise", holdout=0.0, random_state=0).fit(x)
    assert found.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.predict([[4.0], [1.0]]).tolist() == [1, 0]


def test_rounding_within_a_part_of_a_matrix_is_no_asymmetry(rng):
    """All that is left out are copies, whose dissimilarities are rounding errors."""
    matrix = np.ones((12, 12)) - np.eye(12)
    close = np.ix_(range(10), range(10))
    matrix[close] = np.triu(np.full((10, 10), 1e-12), 1)
    for seed in range(5):
        found = PairwiseRiskClustering(2, metric="precomputed", holdout=0.3, random_state=seed)
        assert len(found.fit(matrix).labels_) == 12


def test_a_small_matrix_must_be_symmetric_as_a_large_one(rng):
    matrix = 1e-9 * rng.random((6, 6))
    np.fill_diagonal(matrix, 0)
    with pytest.raises(ValueError, match="dissimilarities must be symmetric"):
        PairwiseRiskClustering(2, metric="precomputed").fit(matrix)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            lambda a, b: np.maximum(a[:, None, 0] - b[None, :, 0], 0),
            "metric must be symmetric, got",
        ),
        (
            lambda a, b: np.exp(-np.abs(a[:, None, 0] - b[None, :, 0])),
            "metric must be 0 between a row",
        ),
    ],
)
def test_a_function_that_is_no_dissimilarity_is_refused(two, metric, message):
    """One that asks who is above whom, and a likeness, which would join what is farthest apart."""
    with pytest.raises(ValueError, match=message):
        PairwiseRiskClustering(2, metric=metric, random_state=0).fit(two)
    with pytest.raises(ValueError, match=message):
        clustering_risk(two, np.arange(200) % 2, metric=metric)


def test_a_function_may_round_as_single_precision_does(two):
    def root(a, b):
        a, b = a.astype(np.float32), b.astype(np.float32)
        square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        return np.sqrt(np.maximum(square, 0))

    found = PairwiseRiskClustering(2, metric=root, random_state=0).fit(two)
    assert sorted(np.bincount(found.labels_)) == [100, 100]


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"n_clusters": 300}, "n_clusters must be"),
        ({"n_clusters": 0}, "n_clusters must be"),
        (
            {"n_clusters": 2.5},
            "n_clusters must be 'auto' or from 1 to the number of rows, 200, got 2.5",
        ),
        ({"n_clusters": "many"}, "n_clusters must be"),
        ({"n_init": 0}, "n_init must be"),
        ({"holdout": 1.0}, "holdout must be"),
        ({"objective": "mean"}, "objective must be"),
        ({"metric": "cosine"}, "metric must be"),
        ({"k_selection": "elbow"}, "method must be"),
        ({"metric": "precomputed"}, "square matrix"),
    ],
)
def test_what_does_not_fit_is_refused(two, knobs, message):
    with pytest.raises(ValueError, match=message):
        clone(PairwiseRiskClustering(**knobs)).fit(two)

import numpy as np
import pytest

from learners.cluster import PairwiseRiskClustering, cluster_number, penalized_risks
from learners.cluster.dissimilarities import between
from learners.cluster.risk import clustering_risk


def pairs_of(matrix, labels):
    return [
        (i, j) for i in range(len(labels)) for j in range(i) if labels[i] == labels[j]
    ]  # fmt: skip


@pytest.fixture
def cells(rng):
    labels = rng.integers(3, size=60)
    return rng.normal(size=(60, 4)) + labels[:, None], labels


def test_the_complete_pairwise_estimate_is_the_mean_over_all_pairs(cells):
    x, labels = cells
    matrix = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    wanted = sum(matrix[i, j] for i, j in pairs_of(matrix, labels)) / (60 * 59 / 2)
    found = clustering_risk(x, labels)
    assert found.value == pytest.approx(wanted, rel=1e-12)
    matrix = (matrix + matrix.T) / 2
    given = clustering_risk(matrix, labels, metric="precomputed")
    assert given.value == pytest.approx(wanted, rel=1e-12)
    assert given.standard_error == pytest.approx(found.standard_error, rel=1e-9)


def test_the_normalized_risk_is_the_variance_within_cells(cells):
    x, labels = cells
    inside = [x[labels == k].var(axis=0, ddof=1).sum() * np.mean(labels == k) for k in range(3)]
    found = clustering_risk(x, labels, objective="normalized")
    assert found.value == pytest.approx(sum(inside), rel=1e-12)


@pytest.mark.parametrize("objective", ["pairwise", "normalized"])
@pytest.mark.parametrize("max_pairs", [None, 2000])
def test_the_interval_covers_at_its_level_for_a_partition_fixed_before(objective, max_pairs):
    """Of 400 crowds of 200 points; [.92, .98] is left with probability 1e-2 at .95, so the band is wider."""
    rng = np.random.default_rng(0)
    big = rng.normal(size=(200_000, 2))
    truth = clustering_risk(big, (big[:, 0] > 0.5).astype(int), objective=objective).value
    hits = []
    for _ in range(400):
        x = rng.normal(size=(200, 2))
        found = clustering_risk(
            x, (x[:, 0] > 0.5).astype(int), objective=objective, max_pairs=max_pairs, rng=rng
        )
        hits.append(found.low <= truth <= found.high)
    assert 0.90 <= np.mean(hits) <= 0.985  # binomial: outside with probability below 1e-5


def test_the_sampled_estimate_is_unbiased_for_the_complete_one(cells):
    """Mean of 300 samples; six standard errors of the mean."""
    x, labels = cells
    whole = clustering_risk(x, labels).value
    rng = np.random.default_rng(1)
    drawn = [clustering_risk(x, labels, max_pairs=100, rng=rng).value for _ in range(300)]
    assert abs(np.mean(drawn) - whole) < 6 * np.std(drawn) / np.sqrt(300)


def test_a_function_of_rows_and_the_matrix_agree_sampled_or_not(cells):
    x, labels = cells
    matrix = np.abs(x[:, None] - x[None]).sum(axis=2)

    def manhattan(a, b):
        return np.abs(a[:, None] - b[None]).sum(axis=2)

    whole = clustering_risk(x, labels, metric=manhattan)
    assert whole == clustering_risk(matrix, labels, metric="precomputed")
    one, other = (
        clustering_risk(rows, labels, metric=metric, max_pairs=50, rng=np.random.default_rng(0))
        for rows, metric in ((x, manhattan), (matrix, "precomputed"))
    )
    assert one == other


@pytest.mark.parametrize("max_pairs", [None, 50])
def test_codes_that_leave_out_many_are_those_of_the_cells(cells, max_pairs):
    x, labels = cells
    far = np.array([0, 10**12, 10**15])[labels]
    one, other = (
        clustering_risk(x, codes, max_pairs=max_pairs, rng=np.random.default_rng(0))
        for codes in (labels, far)
    )
    assert one == other


def test_a_cell_of_one_point_adds_nothing():
    x = np.array([[0.0], [1.0], [50.0]])
    assert clustering_risk(x, np.array([0, 0, 1])).value == pytest.approx(1 / 3)
    sampled = clustering_risk(x, np.array([0, 0, 1]), max_pairs=4000, rng=np.random.default_rng(0))
    assert sampled.value == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(3, int)}, "labels must be 4 codes"),
        ({"labels": np.array([0, 0, 1, -1])}, "labels must be 4 codes"),
        ({"metric": "cosine"}, "metric must be"),
        ({"objective": "mean"}, "objective must be"),
        ({"level": 1.0}, "level must be in"),
        ({"max_pairs": 100}, "rng must be given"),
        ({"max_pairs": 3, "rng": np.random.default_rng(0)}, "max_pairs must be >= 4"),
        ({"x": np.zeros((2, 1)), "labels": np.zeros(2, int)}, "3 points or more"),
        ({"metric": "precomputed"}, "square matrix"),
        ({"x": np.array([[0.0], [np.nan], [1.0], [2.0]])}, "x must be finite, got nan at row 1"),
        ({"x": np.zeros(4)}, "x must be a matrix"),
        ({"metric": "precomputed", "x": -np.ones((4, 4))}, "must be >= 0"),
        ({"metric": "precomputed", "x": np.arange(16.0).reshape(4, 4)}, "symmetric"),
        ({"metric": "precomputed", "x": np.ones((4, 4))}, "from itself must be 0"),
        ({"metric": lambda a, b: np.zeros(2)}, "one dissimilarity for each pair"),
        (
            {"metric": lambda a, b: -np.ones((len(a), len(b)))},
            "finite dissimilarities >= 0, got -1 between row 0 and row 0",
        ),
        ({"metric": lambda a, b: np.full((len(a), len(b)), np.nan)}, "got nan between row 0"),
        ({"metric": "precomputed", "x": np.full((4, 4), np.inf)}, "x must be finite, got inf"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"x": np.arange(8.0).reshape(4, 2), "labels": np.array([0, 0, 1, 1])} | change
    with pytest.raises(ValueError, match=message):
        clustering_risk(given.pop("x"), given.pop("labels"), **given)


def test_distances_are_never_negative(rng):
    x = rng.normal(size=(40, 3)) * 1e-9 + 1e3
    assert between(x, x, "sqeuclidean").min() >= 0


@pytest.mark.parametrize("scale", [1e-170, 1e170, 1e308])
def test_rows_whose_squares_no_double_holds_are_refused(scale):
    """They had risk 0, or a warning of NumPy's and NaN."""
    x = np.array([[-1.0], [0.5], [1.0], [0.2]]) * scale
    for act in (
        lambda: clustering_risk(x, np.array([0, 0, 1, 1])),
        lambda: cluster_number(x, rng=np.random.default_rng(0)),
        lambda: penalized_risks(x, rng=np.random.default_rng(0)),
        lambda: PairwiseRiskClustering(2).fit(x),
    ):
        with pytest.raises(ValueError, match="x must have features of ranges between 1e-140 and"):
            act()


@pytest.mark.parametrize("max_pairs", [None, 100])
@pytest.mark.parametrize("power", [-400, 400])
def test_the_interval_has_the_unit_of_the_dissimilarity_at_any_scale(rng, power, max_pairs):
    """The squares of these dissimilarities are 0 or infinite: the interval had no width, or no end."""
    x = rng.normal(size=(50, 2))
    labels, scale = (x[:, 0] > 0).astype(int), 2.0**power
    found, scaled = (
        clustering_risk(one, labels, max_pairs=max_pairs, rng=np.random.default_rng(1))
        for one in (x, x * scale)
    )
    for name in ("value", "standard_error", "low", "high"):
        assert getattr(scaled, name) == pytest.approx(getattr(found, name) * scale**2, rel=1e-9)
        assert getattr(scaled, name) > 0

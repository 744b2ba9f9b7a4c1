import itertools
import math

import numpy as np
import pytest

from learners.cluster.penalties import penalized_risks, penalty, rademacher_complexity


def test_the_penalty_is_equation_14_with_its_units():
    """Twice the dissimilarity, twice the penalty; cells count K times, partitions once."""
    log, n = math.log(3), 500
    known = {"n": n, "n_clusters": 3}
    cells = penalty(0.2, bound=1.0, over="cells", **known)
    assert cells == pytest.approx(3 * 3 * 0.2 + 27 * 3 * log / n + 2 * math.sqrt(log / n))
    whole = penalty(0.2, bound=1.0, over="partitions", **known)
    assert whole == pytest.approx(3 * 0.2 + 27 * log / n + 2 * math.sqrt(log / n))
    assert penalty(0.4, bound=2.0, over="cells", **known) == pytest.approx(2 * cells)


@pytest.mark.parametrize("over", ["cells", "partitions"])
def test_the_complexity_is_the_mean_largest_correlation_with_signs(over):
    """Against the mean over all signs of five pairs; eight standard errors of 2000 draws of signs."""
    rng = np.random.default_rng(0)
    d = rng.random(5)
    left, right = rng.integers(2, size=(3, 5)), rng.integers(2, size=(3, 5))
    largest = []
    for signs in itertools.product([-1, 1], repeat=5):
        sums = []
        for a, b in zip(left, right, strict=True):
            kernels = [(a == k) & (b == k) for k in range(2)]
            kernels = kernels if over == "cells" else [kernels[0] | kernels[1]]
            sums += [abs(sum(s * v * m for s, v, m in zip(signs, d, one, strict=True))) / 5
                     for one in kernels]  # fmt: skip
        largest.append(max(sums))
    found = [
        rademacher_complexity(d, list(left), list(right), over=over, rng=rng) for _ in range(100)
    ]
    assert np.mean(found) == pytest.approx(np.mean(largest), abs=8 * np.std(largest) / 2000**0.5)


def test_a_tightened_penalty_is_less_than_the_papers():
    x = np.random.default_rng(0).normal(size=(400, 2))
    ours, papers = (
        penalized_risks(x, k_max=3, over=over, rng=np.random.default_rng(1))
        for over in ("partitions", "cells")
    )
    assert all(one.penalty <= two.penalty for one, two in zip(ours, papers, strict=True))
    assert ours[0].penalty == pytest.approx(3 * ours[0].complexity)
    assert ours[0].risk > ours[1].risk > ours[2].risk


@pytest.mark.parametrize("over", ["cells", "partitions"])
def test_the_complexity_never_falls_with_the_number_of_clusters(over):
    x = np.random.default_rng(0).normal(size=(400, 2))
    found = penalized_risks(x, k_max=6, over=over, rng=np.random.default_rng(1))
    assert (np.diff([one.complexity for one in found]) >= 0).all()


def test_the_tightened_penalty_picks_four_of_four_clusters_at_ten_thousand_points():
    rng = np.random.default_rng(0)
    centres = 5 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    x = centres[rng.integers(4, size=10_000)] + rng.normal(size=(10_000, 2))
    found = penalized_risks(x, k_max=6, rng=rng)
    assert min(found, key=lambda one: one.risk + one.penalty).n_clusters == 4


def test_a_bound_that_is_exceeded_is_refused(rng):
    with pytest.raises(ValueError, match="raise the bound"):
        penalized_risks(rng.normal(size=(20, 2)), k_max=2, bound=0.001, rng=rng)
    reached = 1.0 - np.eye(20)
    (only,) = penalized_risks(reached, metric="precomputed", k_max=1, bound=1.0, rng=rng)
    assert (only.n_clusters, only.risk) == (1, 1.0)
    with pytest.raises(ValueError, match="k_max must be >= 1"):
        penalized_risks(reached, metric="precomputed", k_max=0, bound=1.0, rng=rng)
    with pytest.raises(ValueError, match="4 points or more"):
        penalized_risks(np.zeros((3, 1)), rng=rng)
    with pytest.raises(ValueError, match="k_max must be >= 1, got k_max=0"):
        penalized_risks(np.zeros((8, 1)), k_max=0, rng=rng)
    with pytest.raises(ValueError, match="x must be finite, got inf at row 1, column 0"):
        penalized_risks(np.array([[0.0], [np.inf], [1.0], [2.0]]), rng=rng)


@pytest.mark.refusal
def test_what_the_supremum_runs_over_is_one_of_two(rng):
    with pytest.raises(ValueError, match="over must be 'partitions' or 'cells', got 'cell'"):
        penalized_risks(np.zeros((8, 1)), over="cell", rng=rng)
    with pytest.raises(ValueError, match="over must be"):
        penalty(0.1, n=8, n_clusters=2, bound=1.0, over="cell")
    with pytest.raises(ValueError, match="over must be"):
        rademacher_complexity(np.ones(1), [], [], over="cell", rng=rng)


@pytest.mark.refusal
def test_an_unknown_metric_is_refused_and_lists_of_rows_are_rows():
    x = [[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]]
    with pytest.raises(ValueError, match="metric must be 'sqeuclidean'"):
        penalized_risks(np.array(x), metric="cosine", rng=np.random.default_rng(0))
    one, other = (
        penalized_risks(rows, k_max=2, rng=np.random.default_rng(0)) for rows in (x, np.array(x))
    )
    assert one == other


def test_a_penalty_does_not_depend_on_where_the_rows_are():
    """A hundred million from 0, squared distances by products would lose their digits."""
    x = np.random.default_rng(0).normal(size=(120, 2)).round(6)
    one, other = (
        penalized_risks(x + shift, k_max=3, rng=np.random.default_rng(1)) for shift in (0.0, 1e8)
    )
    for a, b in zip(one, other, strict=True):
        assert b.complexity == pytest.approx(a.complexity, rel=1e-5)
        assert b.penalty == pytest.approx(a.penalty, rel=1e-5)

"""Shares corrected by gold: their guarantees, and what their intervals cover."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import dirichlet_multinomial

from quality.shares import corrected_shares, prediction_powered
from quality.shares.intervals import proportion_limits, share_intervals


def drawn(rng: np.random.Generator, n_groups: int = 4, n_classes: int = 3) -> tuple:
    """Groups of 200 tasks with 30 gold tasks each: counts, gold table, true shares."""
    errors = np.full((n_classes, n_classes), 0.1 / (n_classes - 1))
    np.fill_diagonal(errors, 0.9)
    errors[0] = (
        np.eye(n_classes)[0] * 0.5 + np.eye(n_classes)[1] * 0.5
    )  # half are taken for the next
    counts, table, truth = [], [], []
    for _ in range(n_groups):
        true = rng.choice(n_classes, 200, p=rng.dirichlet(np.full(n_classes, 3.0)))
        said = np.array([rng.choice(n_classes, p=errors[y]) for y in true])
        whole = np.bincount(said * n_classes + true, minlength=n_classes**2)
        table.append(rng.multivariate_hypergeometric(whole, 30).reshape(n_classes, n_classes))
        counts.append(np.bincount(said, minlength=n_classes))
        truth.append(np.bincount(true, minlength=n_classes) / 200)
    return np.array(counts), np.array(table), np.array(truth)


def multinomial_coefficient(seen: np.ndarray) -> float:
    return float(gammaln(seen.sum() + 1) - gammaln(seen + 1).sum())


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_261_122)


def test_shares_lie_on_the_simplex_and_within_their_intervals(rng: np.random.Generator) -> None:
    counts, table, _ = drawn(rng)
    found = corrected_shares(counts, table)
    np.testing.assert_allclose(found.share.sum(axis=1), 1)
    assert (found.share >= 0).all()
    assert ((found.low <= found.share) & (found.share <= found.high)).all()
    assert ((found.low >= 0) & (found.high <= 1)).all()


def test_intervals_are_of_each_groups_own_gold(rng: np.random.Generator) -> None:
    counts, table, _ = drawn(rng)
    low, high = share_intervals(counts, table, level=0.95)
    for group in range(len(counts)):
        own = share_intervals(counts[group][None], table[group][None], level=0.95)
        np.testing.assert_array_equal(own[0][0], low[group])
        np.testing.assert_array_equal(own[1][0], high[group])


def test_a_group_whose_tasks_all_have_gold_gets_its_exact_shares() -> None:
    whole = np.array([[5, 2], [1, 8]])
    found = corrected_shares(whole.sum(axis=1)[None], whole[None])
    for end in (found.share, found.low, found.high):
        np.testing.assert_allclose([[6 / 16, 10 / 16]], end)
    np.testing.assert_allclose(found.covariance, 0, atol=1e-15)


def test_a_group_without_gold_gets_shares_from_the_others_and_no_interval() -> None:
    counts = np.array([[60, 40], [60, 40], [50, 50]])
    table = np.array([[[30, 10], [0, 20]], [[28, 12], [1, 19]], [[0, 0], [0, 0]]])
    found = corrected_shares(counts, table)
    assert found.share[2, 1] > 0.57  # the consensus misses the second class elsewhere
    np.testing.assert_array_equal([0, 0], found.low[2])
    np.testing.assert_array_equal([1, 1], found.high[2])


def test_the_order_of_groups_and_of_classes_plays_no_part(rng: np.random.Generator) -> None:
    counts, table, _ = drawn(rng)
    group, classes = rng.permutation(4), rng.permutation(3)
    moved = corrected_shares(counts[group][:, classes], table[group][:, classes][:, :, classes])
    found = corrected_shares(counts, table)
    np.testing.assert_allclose(found.share[group][:, classes], moved.share, atol=1e-9)
    np.testing.assert_allclose(found.low[group][:, classes], moved.low)
    np.testing.assert_allclose(
        found.covariance[group][:, classes][:, :, classes], moved.covariance, atol=1e-12
    )


def test_shared_errors_help_groups_with_few_gold_tasks(rng: np.random.Generator) -> None:
    """L1 of 10 campaigns of 12 groups, against PPI++ and the groups one by one."""
    errors = np.zeros(3)
    for _ in range(10):
        counts, table, truth = drawn(rng, n_groups=12)
        alone = np.array(
            [prediction_powered(*one).share for one in zip(counts, table, strict=True)]
        )
        single = np.concatenate(
            [corrected_shares(c[None], t[None]).share for c, t in zip(counts, table, strict=True)]
        )
        together = corrected_shares(counts, table).share
        errors += [np.abs(one - truth).sum() for one in (alone, single, together)]
    assert errors[2] < errors[1] < errors[0]


def test_groups_whose_errors_differ_are_not_drawn_together() -> None:
    """Two groups, the second with its classes swapped by the crowd; 400 gold tasks each."""
    table = np.array([[[180, 20], [20, 180]], [[20, 180], [180, 20]]])
    counts = np.array([[1_500, 500], [1_500, 500]])
    found = corrected_shares(counts, table)
    np.testing.assert_allclose([[0.7, 0.3], [0.3, 0.7]], found.share, atol=0.02)


def test_intervals_cover() -> None:
    """A class of a hundredth among three, 100 gold of 2,000; 4,000 draws, seeded: none below 93 %."""
    rng = np.random.default_rng(5)
    whole = np.array([[1_100, 150, 10], [120, 580, 5], [12, 18, 5]])
    table = rng.multivariate_hypergeometric(whole.ravel(), 100, size=4_000).reshape(-1, 3, 3)
    counts = np.broadcast_to(whole.sum(axis=1), (4_000, 3))
    low, high = share_intervals(counts, table, level=0.95)
    truth = whole.sum(axis=0) / 2_000
    covered = ((low <= truth) & (truth <= high)).mean(axis=0)
    assert (covered > 0.93).all()


@pytest.mark.parametrize("n_gold", [3, 10, 25, 36, 39])
def test_intervals_of_small_groups_cover_whatever_part_has_gold(n_gold: int) -> None:
    """Of 40 tasks; 4,000 draws, seeded. Where one task had no gold, 91 % were covered."""
    rng = np.random.default_rng(5)
    whole = np.array([[15, 4], [5, 16]])
    table = rng.multivariate_hypergeometric(whole.ravel(), n_gold, size=4_000).reshape(-1, 2, 2)
    counts = np.broadcast_to(whole.sum(axis=1), (4_000, 2))
    low, high = share_intervals(counts, table, level=0.95)
    truth, known = whole.sum(axis=0) / 40, table.sum(axis=1)
    assert ((low <= truth + 1e-9) & (truth <= high + 1e-9)).mean(axis=0).min() > 0.95
    assert (low >= known / 40 - 1e-9).all()
    assert (high <= (known + 40 - n_gold) / 40 + 1e-9).all()


def limits(hits: int, sampled: int, size: int, level: float) -> tuple[float, float]:
    known = (np.array([number]) for number in (hits, sampled, size))
    low, high = proportion_limits(*known, level=level)
    return float(low[0]), float(high[0])


def test_the_interval_of_a_proportion_is_jeffreys() -> None:
    """Jeffreys' interval of 3 of 10 at .95: (.093, .606), Brown, Cai and DasGupta's formula."""
    assert limits(3, 10, 10**9, 0.95) == pytest.approx((0.0927, 0.6058), abs=1e-3)


def test_where_nothing_was_sampled_nothing_is_known() -> None:
    assert limits(0, 0, 9, 0.95) == (0.0, 1.0)


def test_without_a_miss_the_upper_end_is_one() -> None:
    assert limits(4, 4, 99, 0.9)[1] == 1.0
    assert limits(0, 4, 99, 0.9)[0] == 0.0


def test_gold_tasks_that_are_not_counted_are_refused() -> None:
    with pytest.raises(ValueError, match="no consensus class may have more"):
        corrected_shares(np.array([[1, 5]]), np.array([[[2, 0], [0, 1]]]))
    with pytest.raises(ValueError, match="a gold task or more"):
        corrected_shares(np.array([[1, 5]]), np.zeros((1, 2, 2), dtype=np.int64))
    with pytest.raises(ValueError, match="level must be in"):
        corrected_shares(np.array([[1, 5]]), np.array([[[1, 0], [0, 1]]]), level=1.0)


@pytest.mark.refusal
def test_tables_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="consensus and true class"):
        corrected_shares(np.array([[1, 5]]), np.zeros((1, 3, 3), dtype=np.int64))
    with pytest.raises(ValueError, match="2 classes or more"):
        corrected_shares(np.array([[1]]), np.zeros((1, 1, 1), dtype=np.int64))


def test_a_result_is_read_only_and_shows_no_table(rng: np.random.Generator) -> None:
    found = corrected_shares(*drawn(rng)[:2])
    assert repr(found) == "CorrectedShares(4 groups, 3 classes, 120 gold tasks)"
    with pytest.raises(ValueError, match="read-only"):
        found.share[0, 0] = 1


def test_of_many_classes_one_table_at_a_time_is_held() -> None:
    """Three hundred classes: a table takes 720 kB, and those of all thirteen strengths 9 MB."""
    rng = np.random.default_rng(0)
    counts, table = np.full((1, 300), 20), np.zeros((1, 300, 300), dtype=np.int64)
    consensus = rng.integers(300, size=200)
    np.add.at(table[0], (consensus, (consensus + (rng.random(200) < 0.2)) % 300), 1)
    table = np.minimum(table, 4)
    tracemalloc.start()
    try:
        found = corrected_shares(counts, table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.share.sum() == pytest.approx(1.0)
    assert peak < 8.5e6


def test_point_and_covariance_are_means_over_all_priors_by_their_evidence() -> None:
    """Oracle: one group, the thirteen Dirichlet priors one after the other, cell by cell."""
    counts, table = np.array([60, 30, 10]), np.array([[9, 1, 0], [2, 5, 1], [0, 0, 0]])
    n, k = table.sum(), 3
    wrong = (n - np.trace(table) + 0.5) / (n + 1)
    parts = []
    for strength in 0.5 * 2.0 ** np.arange(13):
        prior = strength * np.where(np.eye(k) > 0, 1 - wrong, wrong / (k - 1))
        log_p, mean, spread = 0.0, table.sum(axis=0) / 100, np.zeros((k, k))
        for row, seen, size in zip(prior, table, counts, strict=True):
            log_p += dirichlet_multinomial.logpmf(seen, row, seen.sum())
            log_p -= multinomial_coefficient(seen)
            rest = dirichlet_multinomial(row + seen, size - seen.sum())
            mean, spread = mean + rest.mean() / 100, spread + rest.cov() / 100**2
        parts.append((log_p, mean, spread))
    weight = np.exp([log_p for log_p, _, _ in parts])
    weight /= weight.sum()
    means = np.array([mean for _, mean, _ in parts])
    share = weight @ means
    apart = means - share
    covariance = np.einsum("p,pkl->kl", weight, np.array([one for _, _, one in parts]))
    covariance += np.einsum("p,pk,pl->kl", weight, apart, apart)
    found = corrected_shares(counts[None], table[None])
    assert found.share[0] == pytest.approx(share, abs=1e-9)
    assert found.covariance[0] == pytest.approx(covariance, abs=1e-9)

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from learners.private.histogram import MAX_BINS, bin_counts, check_bins, density_of
from learners.private.paying_estimators import PrivateHistogram
from privacy.accounting import exact
from privacy.audit import audit_mechanism
from privacy.ledger import BudgetError
from privacy.ledger.ledger import Ledger
from privacy.mechanisms import LatticeLaplace
from privacy.query import Query, Unit


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("toy", unit=Unit.ROW, epsilon=3.0, delta=0.0, n=500)
    return ledger


@pytest.fixture
def rows(rng):
    return rng.beta(4, 8, size=(500, 1))


def estimator(ledger, **knobs):
    return PrivateHistogram(ledger, "toy", **({"epsilon": 2.0, "n_bins": 10} | knobs))


def spent(ledger):
    return ledger.statement("toy").spent.epsilon


def test_a_draw_has_a_million_bins_at_most(ledger, rows):
    check_bins(MAX_BINS, 0.0, 1.0)
    with pytest.raises(ValueError, match=f"at most {MAX_BINS}, got n_bins={MAX_BINS + 1}"):
        check_bins(MAX_BINS + 1, 0.0, 1.0)
    with pytest.raises(ValueError, match=f"at most {MAX_BINS}"):
        estimator(ledger, n_bins=MAX_BINS + 1).fit(rows)
    assert spent(ledger) == 0


def test_the_density_is_not_negative_and_integrates_to_one(ledger, rows):
    fitted = estimator(ledger, low=-1.0, high=3.0).fit(rows)
    assert (fitted.density_ >= 0).all()
    assert fitted.density_ @ np.diff(fitted.bin_edges_) == pytest.approx(1.0)
    assert fitted.bin_edges_[[0, -1]].tolist() == [-1.0, 3.0]


def test_a_fit_is_paid_once_and_gives_the_stored_density_again(ledger, rows):
    first, again = estimator(ledger).fit(rows), estimator(ledger).fit(rows)
    assert spent(ledger) == exact(2.0)
    assert again.entry_ == first.entry_
    assert (again.density_ == first.density_).all()


def test_a_fitted_histogram_has_one_feature_and_scores_no_others(ledger, rows):
    named = pd.DataFrame(rows, columns=["age"])
    fitted = estimator(ledger).fit(named)
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (1, ["age"])
    with pytest.raises(ValueError, match="feature names"):
        fitted.score_samples(named.rename(columns={"age": "height"}))
    with pytest.raises(ValueError, match="expecting 1 feature"):
        estimator(ledger).fit(rows).score_samples(np.zeros((2, 2)))


def test_other_bounds_are_another_release(ledger, rows):
    """Even where the counts agree: both put every row into the first of two bins."""
    knobs = {"n_bins": 2, "epsilon": 1.0}
    first = estimator(ledger, low=0.0, high=4.0, **knobs).fit(rows)
    other = estimator(ledger, low=0.0, high=5.0, **knobs).fit(rows)
    assert first.entry_ != other.entry_
    assert spent(ledger) == exact(2.0)


def test_no_fit_without_a_ledger(rows):
    with pytest.raises(ValueError, match="ledger must be given"):
        estimator(None).fit(rows)


def test_a_fit_beyond_the_budget_is_refused(ledger, rows):
    with pytest.raises(BudgetError):
        estimator(ledger, epsilon=3.1).fit(rows)
    assert spent(ledger) == 0


def test_bounds_and_bins_do_not_depend_on_the_data(ledger, rows):
    edges = [estimator(ledger, epsilon=1.0).fit(x).bin_edges_ for x in (rows, 100 * rows)]
    assert (edges[0] == edges[1]).all()


def test_the_estimator_is_the_mechanism(ledger, rows):
    fitted = estimator(ledger).fit(rows)
    counts = np.histogram(rows, bins=10, range=(0.0, 1.0))[0]
    query = Query("toy", "rows in 10 bins from 0.0 to 1.0", counts, Unit.ROW, n=500, l1=2.0)
    release = ledger.release(LatticeLaplace(2.0), query)
    assert not release.fresh
    assert sum(release.value) == 500
    assert density_of(np.array(release.value), 0.1) == pytest.approx(fitted.density_)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n_bins=st.integers(2, 30),
    low=st.floats(-5, 5),
    wide=st.floats(1, 9),
)
def test_counts_are_numpys_and_outside_values_join_the_end_bins(seed, n_bins, low, wide):
    value = np.random.default_rng(seed).normal(size=40) * 5
    high = low + wide
    counts = bin_counts(value, n_bins, low, high)
    expected = np.histogram(np.clip(value, low, high), bins=n_bins, range=(low, high))[0]
    assert counts.sum() == 40
    assert np.abs(counts - expected).sum() <= 2  # a value on an edge, to the last bit


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n_bins=st.integers(2, 12))
def test_one_replaced_row_moves_the_counts_by_two_at_most(seed, n_bins):
    rng = np.random.default_rng(seed)
    value = rng.normal(size=20)
    other = value.copy()
    other[0] = 100 * rng.normal()
    moved = bin_counts(value, n_bins, -1.0, 1.0) - bin_counts(other, n_bins, -1.0, 1.0)
    assert np.abs(moved).sum() <= 2


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1e308, 1.1e308), (0.0, 1e-300)])
def test_values_far_outside_join_the_end_bins_without_a_warning(low, high):
    """A warning would tell that a private value is far outside."""
    counts = bin_counts(np.array([-1.7e308, low, high, 1.7e308]), 4, low, high)
    assert counts.tolist() == [2, 0, 0, 2]


def test_values_of_short_floats_are_counted_as_their_doubles(rng):
    value = rng.random(200).astype(np.float16)
    found, expected = (bin_counts(one, 70_000, 0.0, 1.0) for one in (value, value.astype(float)))
    assert (found == expected).all()


def test_scores_are_log_densities_and_nothing_lies_outside(ledger, rows):
    fitted = estimator(ledger).fit(rows)
    inside = fitted.score_samples([[0.35], [0.05]])
    assert np.exp(inside) == pytest.approx(fitted.density_[[3, 0]])
    assert np.isneginf(fitted.score_samples([[1.5], [-0.1]])).all()
    assert fitted.score([[0.35], [0.35]]) == pytest.approx(2 * inside[0])
    between = estimator(ledger, epsilon=0.5, low=0.1, high=0.5).fit(rows)  # full end bins
    found = between.score_samples([[0.1], [0.5]])
    assert np.exp(found) == pytest.approx(between.density_[[0, -1]])
    assert np.isfinite(found).all()


def test_a_histogram_that_is_not_fitted_says_so(ledger, rng):
    with pytest.raises(NotFittedError):
        estimator(ledger).score_samples([[0.5]])
    with pytest.raises(NotFittedError):
        estimator(ledger).sample(3, rng=rng)


def test_a_refused_fit_and_other_parameters_leave_the_fitted_density(ledger, rows, rng):
    fitted = estimator(ledger).fit(rows)
    before = fitted.score_samples(rows)
    with pytest.raises(BudgetError):
        fitted.set_params(epsilon=3.0, low=0.4, n_bins=3).fit(rows)
    assert (fitted.score_samples(rows) == before).all()
    assert fitted.sample(20, rng=rng).shape == (20, 1)


def test_samples_follow_the_density(ledger, rows, rng):
    """Frequencies of 20000 draws; each is six deviations off with probability below 1e-7."""
    fitted = estimator(ledger).fit(rows)
    drawn = fitted.sample(20_000, rng=rng)
    share = fitted.density_ * 0.1
    seen = np.histogram(drawn, bins=fitted.bin_edges_)[0] / 20_000
    assert (np.abs(seen - share) <= 6 * np.sqrt(share * (1 - share) / 20_000) + 1e-12).all()


def test_clones_share_the_ledger_and_pickles_leave_it(ledger, rows):
    fitted = estimator(ledger).fit(rows)
    assert clone(fitted).ledger is ledger
    loaded = pickle.loads(pickle.dumps(fitted))
    assert loaded.score(rows) == fitted.score(rows)
    with pytest.raises(ValueError, match="ledger must be given"):
        loaded.fit(rows)


@pytest.mark.parametrize(
    "knobs",
    [
        {"n_bins": 1},
        pytest.param({"n_bins": 2.5}, marks=pytest.mark.refusal),
        {"low": 1.0},
        {"high": float("nan")},
        {"high": float("inf")},
        {"low": -1e308, "high": 1e308},  # whose distance is not finite
        {"high": 5e-324},
        {"high": 1e-308},  # whose bins' densities are not finite
        {"low": 1.0, "high": 1.0 + 2.0**-51},  # less than a number for each bin
        pytest.param({"high": 10**400}, marks=pytest.mark.refusal),
        {"n_bins": 10**400},
    ],
)
def test_bins_that_make_no_sense_are_refused_unpaid(ledger, rows, knobs):
    with pytest.raises(ValueError, match="must be"):
        estimator(ledger, **knobs).fit(rows)
    assert spent(ledger) == 0


@pytest.mark.parametrize(
    ("low", "high", "n_bins"), [(-8e307, 8e307, 2), (0.0, 1e-300, 20), (1e16, 1e16 + 40, 20)]
)
def test_the_widest_and_narrowest_bins_have_a_density(ledger, rng, low, high, n_bins):
    """The width of the bins, times the number of rows, may be no double."""
    fitted = estimator(ledger, low=low, high=high, n_bins=n_bins)
    fitted.fit(np.full((100, 1), low))
    width = np.diff(fitted.bin_edges_)
    assert (width > 0).all()
    assert (fitted.density_ * width).sum() == pytest.approx(1.0)
    assert ((low <= (drawn := fitted.sample(9, rng=rng))) & (drawn <= high)).all()


@pytest.mark.refusal
def test_bounds_may_be_fractions_and_short_floats(ledger, rows):
    for kind in (Fraction, np.float32):
        fitted = estimator(ledger, low=kind(0), high=kind(1), n_bins=5).fit(rows)
        assert (fitted.density_ * 0.2).sum() == pytest.approx(1.0, rel=1e-14)
        assert np.isfinite(fitted.score_samples([[2.0]])).sum() == 0


def test_two_columns_are_refused(ledger):
    with pytest.raises(ValueError, match="one column"):
        estimator(ledger).fit(np.zeros((5, 2)))


def test_the_audit_does_not_refute_the_counts():
    """Real draws: a row that leaves one of four bins for another; by chance once in a thousand runs."""
    assert not audit_mechanism(LatticeLaplace(1.0), (3, 3, 2, 0), draws=500).refutes(0.0)


def test_the_counts_are_drawn_at_the_price_that_is_booked(ledger, rows):
    """The entry's own event holds scale and sensitivity: one row leaves a bin and joins another."""
    estimator(ledger, epsilon=0.5).fit(rows)
    (entry,) = ledger.statement("toy").entries
    assert (entry.event.scale, entry.event.l1, entry.cost.epsilon) == (4.0, 2.0, exact(0.5))
    assert entry.arithmetic == "exact"

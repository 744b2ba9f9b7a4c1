import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)

from learners.private.paying_estimators import PrivateLogisticRegression, check_search
from privacy.accounting import exact
from privacy.ledger import BudgetError
from privacy.ledger.ledger import Ledger
from privacy.query import Unit

GRID = {"regularization": [0.01, 0.1]}
THREE = KFold(3)  # by a number scikit-learn would deal by labels


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("toy", unit=Unit.ROW, epsilon=7.0, delta=0.0, n=60)
    return ledger


@pytest.fixture
def rows(rng):
    y = rng.integers(2, size=60)
    return rng.normal(size=(60, 2)) / 4 + np.where(y, 0.5, -0.5)[:, None], y


def search(ledger, *, epsilon=1.0, grid=GRID, cv=THREE, **knobs):
    estimator = PrivateLogisticRegression(ledger, "toy", epsilon=epsilon, classes=(0, 1))
    return GridSearchCV(estimator, grid, cv=cv, **({"error_score": "raise"} | knobs))


def spent(ledger):
    return ledger.statement("toy").spent.epsilon


def test_every_fit_of_a_search_is_booked_and_paid(ledger, rows):
    """Two candidates, three splits, and the best again on all rows: seven payments of one."""
    found = search(ledger).fit(*rows)
    statement = ledger.statement("toy")
    assert statement.spent.epsilon == exact(7.0)
    assert len(statement.entries) == 7
    assert found.best_estimator_.ledger is ledger
    assert found.best_estimator_.entry_ == max(one.entry for one in statement.entries)


def test_a_search_on_the_same_rows_is_paid_once(ledger, rows):
    first, again = search(ledger).fit(*rows), search(ledger).fit(*rows)
    assert spent(ledger) == exact(7.0)
    assert (first.best_estimator_.coef_ == again.best_estimator_.coef_).all()
    assert first.cv_results_["mean_test_score"].tolist() == (
        again.cv_results_["mean_test_score"].tolist()
    )


def test_a_budget_error_leaves_the_search_and_nothing_more_is_spent(ledger, rows):
    with pytest.raises(BudgetError):
        search(ledger, epsilon=2.0).fit(*rows)
    assert spent(ledger) == exact(6.0)
    assert len(ledger.statement("toy").entries) == 3


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_the_default_warns_of_refused_fits_and_the_last_fit_refuses(ledger, rows):
    """What scikit-learn does with `error_score=nan`; the refusals spend nothing."""
    careless = search(ledger, epsilon=2.0, error_score=np.nan)
    with pytest.warns(FitFailedWarning, match="BudgetError"), pytest.raises(BudgetError):
        careless.fit(*rows)
    assert spent(ledger) == exact(6.0)


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_without_a_last_fit_the_default_only_warns(ledger, rows):
    """The hole that `check_search` closes: candidates that were not fitted have scores of NaN."""
    careless = search(ledger, epsilon=2.0, error_score=np.nan, refit=False)
    with pytest.warns(FitFailedWarning, match="BudgetError"):
        found = careless.fit(*rows)
    assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert spent(ledger) == exact(6.0)


def test_the_check_refuses_a_search_that_turns_refusals_into_scores(ledger, rows):
    with pytest.raises(ValueError, match='error_score must be "raise"'):
        check_search(search(ledger, error_score=np.nan), *rows)


def test_the_check_refuses_splits_that_it_would_use_up(ledger, rows):
    splits = KFold(3).split(rows[0])
    with pytest.raises(ValueError, match="cv must be a splitter or a list of splits"):
        check_search(search(ledger, cv=splits), *rows)
    assert len(list(splits)) == 3


@pytest.mark.parametrize("cv", [None, 3, StratifiedKFold(3), RepeatedStratifiedKFold(n_splits=2)])
def test_the_check_refuses_splits_that_are_dealt_by_labels(ledger, rows, cv):
    with pytest.raises(ValueError, match="cv must deal rows without a look at their labels"):
        check_search(search(ledger, cv=cv), *rows)
    assert spent(ledger) == 0


def test_one_label_moves_one_row_of_a_split_only_where_labels_do_not_deal(rows):
    """Why: rows of a fit that one replaced label changes, at most, of all labels and splits."""
    x, y = rows

    def changed(cv):
        n = 0
        for place in range(len(y)):
            other = y.copy()
            other[place] = 1 - y[place]
            for (one, _), (two, _) in zip(cv.split(x, y), cv.split(x, other), strict=True):
                gone = set(zip(one, y[one], strict=True)) - set(zip(two, other[two], strict=True))
                n = max(n, len(gone))
        return n

    assert changed(KFold(3)) == 1
    assert changed(StratifiedKFold(3)) > 1


def test_a_search_that_the_budget_does_not_cover_is_refused_unpaid(ledger, rows):
    with pytest.raises(BudgetError):
        check_search(search(ledger, epsilon=1.01), *rows)
    assert spent(ledger) == 0


@pytest.mark.parametrize(("refit", "fits"), [(True, 7), (False, 6)])
def test_a_search_that_passes_meets_no_budget_error(ledger, rows, refit, fits):
    whole = search(ledger, refit=refit)
    assert check_search(whole, *rows) == fits
    assert spent(ledger) == 0
    whole.fit(*rows)
    assert spent(ledger) == exact(float(fits))


def test_what_was_paid_before_costs_nothing_in_the_check(ledger, rows):
    search(ledger, refit=False).fit(*rows)
    assert spent(ledger) == exact(6.0)
    assert check_search(search(ledger), *rows) == 7
    with pytest.raises(BudgetError):
        check_search(search(ledger, cv=KFold(2)), *rows)


def test_the_dearest_candidate_may_be_the_last_fit(ledger, rows):
    """Three splits of .5 and 1.5, six in all, leave one: too little for the dear one again."""
    prices = search(ledger, grid={"epsilon": [0.5, 1.5]})
    with pytest.raises(BudgetError):
        check_search(prices, *rows)
    assert check_search(search(ledger, grid={"epsilon": [0.5, 1.25]}), *rows) == 7


@pytest.mark.refusal
def test_a_search_over_another_estimator_is_refused(rows):
    with pytest.raises(TypeError, match="PrivateLogisticRegression"):
        check_search(GridSearchCV(LogisticRegression(), {"C": [1.0]}), *rows)


def test_a_search_without_a_ledger_is_refused(rows):
    with pytest.raises(ValueError, match="ledger must be given"):
        check_search(search(None), *rows)


@pytest.mark.refusal
def test_a_search_whose_candidates_are_not_known_beforehand_is_refused(ledger, rows):
    estimator = PrivateLogisticRegression(ledger, "toy", classes=(0, 1))
    drawn = RandomizedSearchCV(estimator, GRID, n_iter=2, error_score="raise")
    for given, name in ((drawn, "RandomizedSearchCV"), (estimator, "PrivateLogisticRegression")):
        with pytest.raises(TypeError, match=f"search must be a GridSearchCV, .* got {name}"):
            check_search(given, *rows)
    assert spent(ledger) == 0

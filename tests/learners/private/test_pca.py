import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners import PrivatePCA
from privacy.accounting import exact
from privacy.ledger import BudgetError
from privacy.ledger.ledger import Ledger
from privacy.query import Unit


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("toy", unit=Unit.ROW, epsilon=10.0, delta=1e-4, n=300)
    return ledger


def rows(n=300):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 4)) * [1, 0.5, 0.1, 0.1] / 3 + [5.0, 0, 0, 0]


def estimator(ledger, **knobs):
    given = {"dataset": "toy", "center": (5.0, 0, 0, 0), "epsilon": 2.0}
    return PrivatePCA(ledger, **(given | knobs))


def spent(ledger):
    return ledger.statement("toy").spent


class LaterLedger(Ledger):
    """A ledger made before its file is, with the same name in every process."""

    def __init__(self):
        """Wait for the tests to run: their parameters are collected before."""

    def open(self, path):
        super().__init__(path, key=bytes(32))
        self.open_budget("toy", unit=Unit.ROW, epsilon=1e12, delta=0.0, n=100)

    def __repr__(self):
        return "a rich ledger"


RICH = LaterLedger()


@pytest.fixture(autouse=True, scope="module")
def _rich_ledger(tmp_path_factory):
    RICH.open(tmp_path_factory.mktemp("rich") / "ledger.sqlite")


@pytest.mark.refusal  # some of the checks pass sparse rows and parameters of any type
@parametrize_with_checks([PrivatePCA(RICH, "toy", epsilon=1e6, norm_bound=20.0)])
def test_the_estimator_keeps_scikit_learns_conventions(estimator, check):
    check(estimator)


def test_no_fit_without_a_ledger():
    with pytest.raises(ValueError, match="ledger must be given"):
        estimator(None).fit(rows())


@pytest.mark.parametrize(
    ("knobs", "kind"),
    [
        ({"n_components": 2}, "principal subspace"),
        ({"n_components": 3}, "deflated directions"),
        ({"n_components": 2, "mechanism": "deflation"}, "deflated directions"),
        ({"n_components": 2, "delta": 1e-5}, "noisy second moments"),
        ({"delta": 1e-5, "mechanism": "gaussian"}, "noisy second moments"),
        ({"mechanism": "exponential"}, "principal subspace"),
    ],
)
def test_the_price_is_epsilon_and_delta_once_and_the_event_names_the_mechanism(ledger, knobs, kind):
    fitted = estimator(ledger, **knobs).fit(rows())
    assert spent(ledger).epsilon == exact(2.0)
    assert spent(ledger).delta == exact(knobs.get("delta", 0.0))
    assert fitted.request(rows())[0].event(fitted.request(rows())[1]).name == kind
    again = estimator(ledger, **knobs).fit(rows())
    assert np.array_equal(again.components_, fitted.components_)
    assert again.entry_ == fitted.entry_
    assert spent(ledger).epsilon == exact(2.0)
    k = knobs.get("n_components", 1)
    np.testing.assert_allclose(fitted.components_ @ fitted.components_.T, np.eye(k), atol=1e-12)
    assert (fitted.explained_variance_ is None) == (not knobs.get("delta"))
    with pytest.raises(BudgetError):
        estimator(ledger, epsilon=9.0).fit(rows())


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["epsilon", "delta", "norm_bound"])
def test_a_number_may_be_numpys(ledger, name):
    given = {"epsilon": 0.5, "delta": 2.0**-20, "norm_bound": 2.0}
    one = estimator(ledger, **given).fit(rows())
    other = estimator(ledger, **{**given, name: np.float32(given[name])}).fit(rows())
    assert other.entry_ == one.entry_


def test_much_budget_finds_the_principal_components_and_their_variance(tmp_path):
    rich = Ledger(tmp_path / "rich.sqlite", key=bytes(32))
    rich.open_budget("toy", unit=Unit.ROW, epsilon=1e4, delta=1e-4, n=300)
    x = rows() - [5.0, 0, 0, 0]
    fitted = estimator(rich, n_components=2, epsilon=99.0, delta=9e-5, norm_bound=3.0).fit(rows())
    value, vector = np.linalg.eigh(x.T @ x / 300)
    assert np.linalg.norm(fitted.components_ @ vector[:, -2:]) ** 2 > 1.8
    np.testing.assert_allclose(fitted.explained_variance_, value[:1:-1], atol=0.03)


def test_a_projected_row_is_at_most_as_long_as_the_row_and_comes_back_in_the_plane(ledger):
    x = rows()
    fitted = estimator(ledger, n_components=2).fit(x)
    projected = fitted.transform(x)
    length = np.linalg.norm(x - fitted.mean_, axis=1)
    assert (np.linalg.norm(projected, axis=1) <= length + 1e-12).all()
    np.testing.assert_allclose(
        fitted.transform(fitted.inverse_transform(projected)), projected, atol=1e-12
    )
    assert fitted.get_feature_names_out().tolist() == ["privatepca0", "privatepca1"]


def test_rows_in_another_unit_have_the_same_components_law(ledger):
    """What the mechanism sees is the same, and so is the mechanism."""
    x = rows()
    one = estimator(ledger).request(x)
    other = estimator(ledger, norm_bound=8.0, center=(40.0, 0, 0, 0)).request(8 * x)
    assert one[0] == other[0]
    np.testing.assert_allclose(
        one[1].value["moments"], other[1].value["moments"], rtol=1e-12, atol=1e-12
    )


def test_a_pickle_projects_and_cannot_fit(ledger):
    fitted = estimator(ledger).fit(rows())
    back = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(back.transform(rows()), fitted.transform(rows()))
    with pytest.raises(ValueError, match="ledger must be given"):
        back.fit(rows())
    assert clone(fitted).ledger is ledger


def test_a_refused_fit_leaves_the_fitted_components(ledger):
    fitted = estimator(ledger, norm_bound=1e200).fit(rows())
    before = fitted.transform(rows())
    fitted.set_params(center=None, epsilon=9.0)
    with pytest.raises(BudgetError):
        fitted.fit(rows()[:, :3])
    fitted.request(rows()[:, :3])
    assert (fitted.transform(rows()) == before).all()


@pytest.mark.refusal
def test_what_comes_back_must_have_a_column_for_each_component(ledger):
    fitted = estimator(ledger, n_components=2).fit(rows())
    assert fitted.inverse_transform([[1, 2]]).shape == (1, 4)
    for odd, words in (
        (np.ones((3, 3)), r"a column for each of 2 components, got shape=\(3, 3\)"),
        (np.ones(2), "Expected 2D array"),
        (np.full((1, 2), np.nan), "contains NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            fitted.inverse_transform(odd)


def test_a_difference_to_the_center_that_is_no_double_is_clipped_and_not_dropped(ledger):
    """All rows lie along one axis: with next to no noise it is found."""
    far = np.zeros((300, 4))
    far[:, 1] = 1.5e308
    ledger.open_budget("rich", unit=Unit.ROW, epsilon=1e6, delta=0.0, n=300)
    center = (0.0, -1.5e308, 0.0, 0.0)
    fitted = PrivatePCA(ledger, "rich", epsilon=1e5, center=center).fit(far)
    assert abs(fitted.components_[0, 1]) > 0.99
    with pytest.raises(ValueError, match="small enough for finite projections"):
        fitted.transform(far)


REFUSED = [
    ({"mechanism": "gibbs"}, "mechanism must be one of"),
    ({"mechanism": "gaussian"}, 'delta must be > 0 for "gaussian"'),
    ({"mechanism": "deflation", "delta": 1e-6}, 'delta must be > 0 for "gaussian"'),
    ({"delta": -1e-6}, "got delta=-1e-06"),
    ({"n_components": 4}, "n_components=4 with n_features=4"),
    ({"n_components": 0}, "n_components must be a whole number >= 1"),
    ({"center": (1.0,)}, "center must be 4 finite numbers"),
    ({"center": ("a", "b", "c", "d")}, "center must be 4 finite numbers"),
    ({"norm_bound": 10**400}, "norm_bound must be a number that fits a double"),
    ({"delta": 0.01}, "delta must be below 1/n"),
    ({"delta": 1e-5, "norm_bound": 1e200}, "norm_bound must have a finite square"),
]


def test_clones_keep_the_kind_of_table_that_they_return(ledger):
    fitted = clone(estimator(ledger).set_output(transform="pandas")).fit(rows())
    assert fitted.transform(rows()).columns.tolist() == ["privatepca0"]


@pytest.mark.refusal
@pytest.mark.parametrize(("knobs", "words"), REFUSED, ids=str)
def test_what_cannot_be_paid_for_is_refused_unpaid(ledger, knobs, words):
    with pytest.raises(ValueError, match=words):
        estimator(ledger, **knobs).fit(rows())
    assert spent(ledger).epsilon == 0
    with pytest.raises(TypeError, match="must be a whole number"):
        estimator(ledger, n_components="two").fit(rows())

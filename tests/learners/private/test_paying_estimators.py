import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners.private.objective_perturbation import ObjectivePerturbation, training_query
from learners.private.paying_estimators import PrivateHistogram, PrivateLogisticRegression
from learners.private.pca import PrivatePCA
from privacy.accounting import exact
from privacy.ledger import BudgetError
from privacy.ledger.ledger import Ledger
from privacy.query import Unit


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", key=bytes(32))
    ledger.open_budget("toy", unit=Unit.ROW, epsilon=10.0, delta=0.0, n=100)
    return ledger


@pytest.fixture
def rows(rng):
    y = rng.integers(2, size=100)
    return rng.normal(size=(100, 2)) / 4 + np.where(y, 0.5, -0.5)[:, None], np.array(["no", "yes"])[
        y
    ]


def estimator(ledger, **knobs):
    return PrivateLogisticRegression(
        **({"ledger": ledger, "dataset": "toy", "epsilon": 4.0, "classes": ("no", "yes")} | knobs)
    )


def spent(ledger):
    return ledger.statement("toy").spent.epsilon


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


NOT_KEPT = {
    "check_all_zero_sample_weights_error": "a refusal would tell what the private weights are",
    "check_sample_weight_equivalence_on_dense_data": "no row may count more than one",
}


@pytest.mark.refusal  # some of the checks pass sparse rows, no labels, parameters of any type
@parametrize_with_checks(
    [PrivateLogisticRegression(RICH, "toy", epsilon=1e6, norm_bound=20.0, infer_classes=True)],
    expected_failed_checks=lambda _: NOT_KEPT,
)
def test_the_estimator_keeps_scikit_learns_conventions(estimator, check):
    """At an epsilon that drowns the noise; several checks ask for an accuracy or for equal fits."""
    check(estimator)


def test_no_fit_without_a_ledger(rows):
    with pytest.raises(ValueError, match="ledger must be given"):
        estimator(None).fit(*rows)


def test_no_fit_without_class_names_unless_they_are_to_be_inferred(ledger, rows):
    with pytest.raises(ValueError, match="classes must be given"):
        estimator(ledger, classes=None).fit(*rows)
    assert spent(ledger) == 0
    fitted = estimator(ledger, classes=None, infer_classes=True).fit(*rows)
    assert fitted.classes_.tolist() == ["no", "yes"]


def test_a_label_that_was_not_declared_is_refused_unpaid_and_unnamed(ledger, rows):
    x, y = rows
    with pytest.raises(ValueError, match="declared classes") as refusal:
        estimator(ledger, classes=("no", "maybe")).fit(x, y)
    assert "yes" not in str(refusal.value)
    assert spent(ledger) == 0


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["model", "histogram", "components"])
def test_rows_that_are_not_finite_are_refused_unpaid_and_no_number_is_told(ledger, rows, odd, kind):
    """That `fit` refuses is known to whoever sees it; the sentence is the same for any such rows."""
    terms, said = (ledger, "toy"), set()
    made = {
        "model": lambda: estimator(ledger),
        "histogram": lambda: PrivateHistogram(*terms, epsilon=1.0),
        "components": lambda: PrivatePCA(*terms, epsilon=1.0),
    }[kind]()
    for row in (3, 41):
        x = rows[0][:, :1].copy() if kind == "histogram" else rows[0].copy()
        x[row, -1] = odd
        with pytest.raises(ValueError, match="contains") as refusal:
            made.fit(x, rows[1])
        said.add(str(refusal.value))
    assert len(said) == 1
    assert ledger.statement("toy").n_entries == 0


def test_a_declared_class_without_rows_has_its_place(ledger, rows):
    fitted = estimator(ledger, classes=("absent", "no", "yes")).fit(*rows)
    assert fitted.classes_.tolist() == ["absent", "no", "yes"]
    assert fitted.predict_proba(rows[0]).shape == (100, 3)


def test_a_fit_is_paid_once_and_gives_the_stored_model_again(ledger, rows):
    first, again = estimator(ledger).fit(*rows), estimator(ledger).fit(*rows)
    assert spent(ledger) == exact(4.0)
    assert again.entry_ == first.entry_
    assert (again.coef_ == first.coef_).all()
    other = estimator(ledger, regularization=0.01).fit(*rows)
    assert spent(ledger) == exact(8.0)
    assert (other.coef_ != first.coef_).any()


def test_a_refused_fit_leaves_the_fitted_model(ledger, rows):
    x, y = rows
    fitted = estimator(ledger).fit(x, y)
    before = fitted.predict_proba(x)
    fitted.set_params(epsilon=9.0, classes=("absent", "no", "yes"))
    with pytest.raises(BudgetError):
        fitted.fit(x[:, :1], y)
    fitted.request(x[:, :1], y)
    assert (fitted.predict_proba(x) == before).all()
    assert set(fitted.predict(x)) <= {"no", "yes"}


def test_a_fit_beyond_the_budget_is_refused(ledger, rows):
    with pytest.raises(BudgetError):
        estimator(ledger, epsilon=10.1).fit(*rows)
    assert spent(ledger) == 0


def test_the_estimator_is_the_mechanism(ledger, rows):
    x, y = rows
    fitted = estimator(ledger, norm_bound=2.0).fit(x, y)
    mechanism = ObjectivePerturbation(
        epsilon=4.0, regularization=0.001, norm_bound=2.0, n_classes=2
    )
    query = training_query(x, (y == "yes").astype(np.intp), dataset="toy")
    release = ledger.release(mechanism, query)
    assert not release.fresh
    assert release.value["coef"][0] == [*fitted.coef_[0], *fitted.intercept_]
    assert (fitted.predict(x) == np.array(["no", "yes"])[fitted.model_.predict(x)]).all()


def test_clones_share_the_ledger(ledger):
    assert clone(estimator(ledger)).ledger is ledger
    pipeline = make_pipeline(FunctionTransformer(), estimator(ledger))
    assert clone(pipeline).steps[-1][1].ledger is ledger


def test_clones_keep_the_requests_for_metadata(ledger):
    """Or else a search would not hand on the weights of rows."""
    with config_context(enable_metadata_routing=True):
        weighted = estimator(ledger).set_fit_request(sample_weight=True)
        for one in (weighted, clone(weighted)):
            assert one.get_metadata_routing().fit.requests == {"sample_weight": True}


def test_a_pickle_predicts_but_cannot_fit(ledger, rows):
    fitted = estimator(ledger).fit(*rows)
    text = pickle.dumps(fitted)
    loaded = pickle.loads(text)
    assert b"ledger.sqlite" not in text
    assert (loaded.predict(rows[0]) == fitted.predict(rows[0])).all()
    with pytest.raises(ValueError, match="ledger must be given"):
        loaded.fit(*rows)


def test_prediction_needs_a_fit(ledger, rows):
    with pytest.raises(NotFittedError):
        estimator(ledger).predict(rows[0])


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["epsilon", "delta", "regularization", "norm_bound"])
def test_a_number_given_as_text_is_named_and_unpaid(ledger, rows, name):
    with pytest.raises(TypeError, match=f"{name} must be a number, got {name}='1'"):
        estimator(ledger, **{name: "1"}).fit(*rows)
    assert spent(ledger) == 0


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["epsilon", "delta", "regularization", "norm_bound"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_number_may_be_numpys(ledger, rows, name, kind):
    given = {"epsilon": 0.5, "delta": 0.0, "regularization": 0.25, "norm_bound": 2.0}
    one = estimator(ledger, **given).fit(*rows)
    other = estimator(ledger, **{**given, name: kind(given[name])}).fit(*rows)
    assert other.entry_ == one.entry_


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["epsilon", "delta", "regularization", "norm_bound"])
def test_a_number_that_no_double_holds_is_named_and_unpaid(ledger, rows, name):
    """As a whole number it is below infinity, and failed the training that was paid."""
    for one in (estimator(ledger), PrivatePCA(ledger, "toy")):
        if name in one.get_params():
            with pytest.raises(ValueError, match=f"{name} must be a number that fits a double"):
                one.set_params(**{name: 10**400}).fit(*rows)
    assert ledger.statement("toy").n_entries == 0


@pytest.mark.refusal
def test_a_number_may_be_a_fraction(ledger, rows):
    half = estimator(ledger, epsilon=0.5, norm_bound=2.0).fit(*rows)
    other = estimator(ledger, epsilon=Fraction(1, 2), norm_bound=Fraction(2)).fit(*rows)
    assert other.entry_ == half.entry_


@pytest.mark.refusal
@pytest.mark.parametrize("kind", ["model", "histogram", "components"])
def test_what_is_refused_is_not_quoted(ledger, rows, kind):
    """Scikit-learn's and numpy's sentences quote cells, rows and weights, which are private."""
    x, y = rows
    fit = {
        "model": lambda x: estimator(ledger).fit(x, y),
        "histogram": lambda x: PrivateHistogram(ledger, "toy", epsilon=1.0).fit(x),
        "components": lambda x: PrivatePCA(ledger, "toy", epsilon=1.0).fit(x),
    }[kind]
    texts = x.astype(object)
    texts[3] = "secret"
    for odd, words in (
        (texts, "must hold numbers"),
        (np.full(100, 0.123), "must be a matrix"),
        (x + 0.123j, "must be real"),
    ):
        with pytest.raises(ValueError, match=words) as refusal:
            fit(odd)
        assert "secret" not in str(refusal.value)
        assert "0.123" not in str(refusal.value)
        assert refusal.value.__cause__ is refusal.value.__context__ is None
    with pytest.raises(ValueError, match="sample_weight must be one number per row") as refusal:
        estimator(ledger).fit(x, y, sample_weight=["secret"] * 100)
    assert "secret" not in str(refusal.value)
    assert ledger.statement("toy").n_entries == 0


NAMED = [
    (("no", "yes"), np.array([0, 1])),
    ((0, 1), np.array(["0", "1"])),
    ((b"no", b"yes"), np.array(["no", "yes"])),
    ((None, "yes"), np.array(["no", "yes"])),
    (("no", "yes"), np.array([1, "yes"], dtype=object)),
    (("no", "yes"), np.array(["no", 1], dtype=object)),
    (("no", "yes"), np.array([None, "yes"], dtype=object)),
]


@pytest.mark.refusal
@pytest.mark.parametrize(("classes", "names"), NAMED, ids=str)
def test_classes_and_labels_of_other_types_are_refused_unpaid(ledger, rows, classes, names):
    y = names[(rows[1] == "yes").astype(int)]
    with pytest.raises(ValueError, match="declared classes only, and names of one type"):
        estimator(ledger, classes=classes).fit(rows[0], y)
    assert spent(ledger) == 0


@pytest.mark.refusal
@pytest.mark.parametrize("classes", [{"no", "yes"}, "no", 2], ids=["set", "text", "number"])
def test_classes_must_be_a_list(ledger, rows, classes):
    with pytest.raises(ValueError, match="classes must be a list of names, got"):
        estimator(ledger, classes=classes).fit(*rows)


@pytest.mark.refusal
@pytest.mark.parametrize("kinds", [(bool, int), (int, bool), (float, int), (int, float)], ids=str)
def test_numbers_and_truth_values_are_the_classes_that_they_equal(ledger, rows, kinds):
    y = (rows[1] == "yes").astype(kinds[1])
    fitted = estimator(ledger, classes=tuple(map(kinds[0], (0, 1)))).fit(rows[0], y)
    assert fitted.score(rows[0], y.astype(fitted.classes_.dtype)) > 0.5


@pytest.mark.refusal
def test_a_number_of_bins_may_be_numpys(ledger):
    value = np.linspace(0, 1, 100)[:, None]
    fitted = PrivateHistogram(ledger, "toy", epsilon=1.0, n_bins=np.int64(10)).fit(value)
    assert fitted.density_.shape == (10,)


@pytest.mark.refusal
def test_bounds_that_are_equal_are_one_request(ledger):
    value = np.linspace(0, 1, 100)[:, None]
    bounds = [(0, 1), (0.0, 1.0), (np.int64(0), np.float32(1))]
    fits = [
        PrivateHistogram(ledger, "toy", epsilon=1.0, low=low, high=high).fit(value)
        for low, high in bounds
    ]
    assert {one.entry_ for one in fits} == {fits[0].entry_}
    assert spent(ledger) == 1


@pytest.mark.refusal
def test_weights_must_be_one_per_row(ledger, rows):
    with pytest.raises(ValueError, match="sample_weight must be one number per row"):
        estimator(ledger).fit(*rows, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="sample_weight must be one number per row"):
        estimator(ledger).fit(*rows, sample_weight=[10**400, *[1.0] * 99])

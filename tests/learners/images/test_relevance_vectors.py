import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners.images.relevance_vectors import RelevanceVectorClassifier, relevance_vectors

NOT_KEPT = {
    "check_decision_proba_consistency": "probabilities count the posterior's width, decisions do not"
}


@pytest.mark.refusal  # some of the checks pass sparse rows or parameters of any type
@parametrize_with_checks(
    [RelevanceVectorClassifier(), RelevanceVectorClassifier("rbf")],
    expected_failed_checks=lambda one: NOT_KEPT if one.kernel == "rbf" else {},
)
def test_the_estimator_keeps_scikit_learns_conventions(estimator, check):
    check(estimator)


@pytest.fixture
def rows(rng):
    x = rng.normal(size=(120, 2))
    return x, np.where(rng.random(120) < expit(3 * x[:, 0]), "yes", "no")


def test_weights_are_at_the_posterior_mode_and_precisions_at_the_evidence(rows):
    """The mode against a general optimiser; each precision against its closed form from all others."""
    x, y = rows
    basis, sign = np.column_stack([np.ones(120), x, x**2]), np.where(y == "yes", 1.0, -1.0)
    found = relevance_vectors(basis, sign)
    assert found.converged
    used = basis[:, found.active]
    mode = minimize(
        lambda w: np.logaddexp(0, -sign * (used @ w)).sum() + found.precision @ w**2 / 2,
        np.zeros(len(found.active)),
    ).x
    assert found.weight == pytest.approx(mode, abs=1e-3)
    gamma = 1 - found.precision * np.diag(found.covariance)
    assert found.precision == pytest.approx(
        gamma / found.weight**2, rel=0.05
    )  # MacKay's fixed point


def test_few_rows_are_kept_and_the_curve_is_learned():
    x = np.linspace(-3, 3, 200)[:, None]
    y = np.abs(x[:, 0]) > 1
    model = RelevanceVectorClassifier("rbf").fit(x, y)
    assert model.converged_
    assert len(model.relevance_) <= 10
    assert model.score(x, y) > 0.97
    assert x[model.relevance_].tolist() == model.relevance_vectors_.tolist()


def test_scaling_the_kernel_changes_no_prediction(rows):
    x, y = rows
    one = RelevanceVectorClassifier(lambda a, b: a @ b).fit(x, y)
    other = RelevanceVectorClassifier(lambda a, b: 50 * (a @ b)).fit(x, y)
    assert other.predict_proba(x) == pytest.approx(one.predict_proba(x), abs=1e-6)


def test_the_decision_is_that_of_the_weights_it_shows(rows):
    x, y = rows
    model = RelevanceVectorClassifier().fit(x, y)
    shown = x @ (model.dual_coef_ @ model.relevance_vectors_) + model.intercept_
    assert model.decision_function(x) == pytest.approx(shown)
    assert (model.predict_proba(x)[:, 1] > 0.5).tolist() == (model.predict(x) == "yes").tolist()


def test_a_row_of_zeros_is_no_first_basis_point(rows):
    """Its column of a linear kernel is 0, and so would be what it is divided by."""
    x, y = rows
    model = RelevanceVectorClassifier().fit(np.vstack([np.zeros((1, 2)), x]), np.append("no", y))
    assert 0 not in model.relevance_
    assert model.score(x, y) > 0.75


def test_landmarks_are_drawn_by_the_seed(rows):
    x, y = rows
    one, other = (
        RelevanceVectorClassifier("rbf", n_landmarks=20, random_state=1).fit(x, y) for _ in range(2)
    )
    assert one.relevance_.tolist() == other.relevance_.tolist()
    assert one.score(x, y) > 0.75


@pytest.mark.refusal
def test_what_does_not_fit_is_refused(rows):
    x, y = rows
    for n in (121, 0, 2.5, 1e200):
        with pytest.raises(ValueError, match="n_landmarks must be a whole number from 1"):
            RelevanceVectorClassifier(n_landmarks=n).fit(x, y)
    for gamma in (-1.0, 0.0, np.nan, np.inf, "scale"):
        with pytest.raises(ValueError, match="gamma must be > 0 or None"):
            RelevanceVectorClassifier("rbf", gamma=gamma).fit(x, y)
    for n in (0, -1, 2.5, "many"):
        with pytest.raises(ValueError, match="max_iter must be >= 1 and whole, got max_iter="):
            RelevanceVectorClassifier("rbf", max_iter=n).fit(x, y)
    with pytest.raises(ValueError, match="more than 2000 rows need n_landmarks"):
        RelevanceVectorClassifier().fit(np.zeros((2001, 1)), np.arange(2001) % 2)
    with pytest.raises(ValueError, match="got kernel='precomputed'"):
        RelevanceVectorClassifier("precomputed").fit(x @ x.T, y)
    for model in (
        RelevanceVectorClassifier(lambda a, b: np.nan),
        RelevanceVectorClassifier(lambda a, b: 1e200),
    ):
        with pytest.raises(ValueError, match="the kernel must be finite"):
            model.fit(x, y)
    with pytest.raises(ValueError, match="two classes"):
        RelevanceVectorClassifier().fit(x, np.arange(120) % 3)

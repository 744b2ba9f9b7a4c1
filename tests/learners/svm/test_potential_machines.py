import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.cluster import kmeans_plusplus
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners import PotentialSVC, PotentialSVR


@pytest.mark.refusal  # some of the checks pass sparse rows, no labels, parameters of any type
@parametrize_with_checks([PotentialSVC(), PotentialSVR(), PotentialSVC(kernel="precomputed")])
def test_the_estimators_keep_scikit_learns_conventions(estimator, check):
    check(estimator)


def two_classes(seed=0, n=80):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, np.where(x[:, 0] + x[:, 1] ** 2 + rng.normal(size=n) / 4 > 0.5, "yes", "no")


def test_without_c_the_coefficients_are_those_of_the_lasso():
    """Hochreiter and Obermayer's dual is the lasso on standardized columns, alpha = epsilon."""
    rng = np.random.default_rng(0)
    K = rng.normal(size=(80, 40))
    y = np.where(K[:, 0] + rng.normal(size=80) / 3 > -0.2, 1.0, -1.0)
    unit = (K - K.mean(axis=0)) / K.std(axis=0)
    oracle = Lasso(alpha=0.05, tol=1e-14, max_iter=10**6).fit(unit, y)
    found = PotentialSVC(kernel="precomputed", tol=1e-9).fit(K, y)
    np.testing.assert_allclose(found.dual_coef_[0], oracle.coef_, atol=1e-6)
    np.testing.assert_allclose(found.decision_function(K), oracle.predict(unit), atol=1e-6)
    value = 1e3 * y + rng.normal(size=80)
    oracle = Lasso(alpha=0.05 * value.std(), tol=1e-14, max_iter=10**6).fit(unit, value)
    regression = PotentialSVR(kernel="precomputed", tol=1e-9).fit(K, value)
    np.testing.assert_allclose(regression.dual_coef_[0], oracle.coef_, atol=1e-4)
    np.testing.assert_allclose(regression.predict(K), oracle.predict(unit), atol=1e-4)


def test_ridge_is_kernel_ridge_regression_on_centred_labels():
    x, label = two_classes()
    y = np.where(label == "yes", 1.0, -1.0)
    oracle = KernelRidge(kernel="rbf", gamma=0.5, alpha=0.5).fit(x, y - y.mean())
    found = PotentialSVC("rbf", {"gamma": 0.5}, formulation="ridge", rho=1.5).fit(x, label)
    np.testing.assert_allclose(found.dual_coef_[0], oracle.dual_coef_, atol=1e-8)
    np.testing.assert_allclose(
        found.decision_function(x[:9]), oracle.predict(x[:9]) + y.mean(), atol=1e-8
    )


def test_the_rho_svm_is_the_machine_with_squared_hinge_loss():
    """A hard margin on P + (rho - 1) diag P; cost 1 / (rho - 1) where the diagonal is one."""
    x, label = two_classes(n=40)
    y, rho = np.where(label == "yes", 1.0, -1.0), 1.5
    P = np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(axis=2))
    machine = SVC(kernel="precomputed", C=1e10, tol=1e-10).fit(P + (rho - 1) * np.eye(40), y)
    beta = np.zeros(40)
    beta[machine.support_] = machine.dual_coef_[0]
    score = P @ beta + machine.intercept_[0]

    def loss(v):  # squared hinge, cost 1 / (2 (rho - 1)) for each row
        slack = np.maximum(0, 1 - y * (P @ v[:-1] + v[-1]))
        value = v[:-1] @ P @ v[:-1] / 2 + np.square(slack).sum() / (2 * (rho - 1))
        pull = -y * slack / (rho - 1)
        return value, np.append(P @ (v[:-1] + pull), pull.sum())

    found = minimize(loss, np.zeros(41), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(P @ found[:-1] + found[-1], score, atol=1e-4)


@pytest.mark.parametrize("formulation", ["sparse", "box"])
def test_rows_ten_times_as_far_leave_the_coulomb_kernels_predictions_unchanged(formulation):
    x, label = two_classes()
    new = np.random.default_rng(1).normal(size=(50, 3))
    knobs = {"kernel": "coulomb", "kernel_params": {"exponent": 2.0}, "formulation": formulation}
    near = PotentialSVC(**knobs, C=0.2, tol=1e-9).fit(x, label)
    far = PotentialSVC(**knobs, C=0.2, tol=1e-9).fit(10 * x, label)
    np.testing.assert_allclose(
        far.decision_function(10 * new), near.decision_function(new), atol=1e-6
    )


@pytest.mark.parametrize("kernel", ["plummer", "coulomb", "rbf", "poly"])
def test_every_kernel_learns_and_uses_few_columns(kernel):
    x, label = two_classes(n=200)
    machine = PotentialSVC(kernel, n_landmarks=80, random_state=0).fit(x, label)
    assert machine.score(*two_classes(1)) > 0.8
    assert 0 < machine.support_.size < 60
    assert machine.landmarks_.shape == (80, 3)
    assert machine.kkt_violation_ <= 2e-4
    again = clone(machine).fit(x, label)
    assert np.array_equal(again.dual_coef_, machine.dual_coef_)


def test_a_function_and_a_matrix_of_proximities_are_the_kernel_that_they_compute():
    x, label = two_classes()
    named = PotentialSVC("rbf", {"gamma": 0.5}).fit(x, label)
    function = PotentialSVC(lambda a, b: np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(axis=2)))
    matrix = np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(axis=2))
    for other, rows in ((function.fit(x, label), x), (
        PotentialSVC("precomputed").fit(matrix, label), matrix)):  # fmt: skip
        np.testing.assert_allclose(
            other.decision_function(rows), named.decision_function(x), atol=1e-8
        )


def test_a_matrix_that_is_neither_square_nor_positive_is_cross_validated_by_rows(rng):
    y = np.arange(120) % 2
    K = rng.normal(size=(120, 30))
    K[:, 4] -= 3 * y  # a negative proximity tells
    machine = PotentialSVC("precomputed", epsilon=0.2)
    assert cross_val_score(machine, K, y, cv=3).mean() > 0.8
    assert machine.fit(K, y).support_.tolist() == [4]


def test_classes_share_their_columns_and_each_is_told_from_the_others():
    x, _ = two_classes(n=150)
    label = np.digitize(x[:, 0], [-0.5, 0.5])
    machine = PotentialSVC().fit(x, label)
    assert machine.decision_function(x).shape == (150, 3)
    assert machine.score(x, label) > 0.8
    one = PotentialSVC().fit(x, label == 2)
    np.testing.assert_allclose(one.dual_coef_[0], machine.dual_coef_[2], atol=1e-6)


def test_a_classs_weight_is_its_rows_number():
    _, label = two_classes(n=60)
    matrix = np.random.default_rng(0).normal(size=(60, 8)) + (label == "yes")[:, None]
    twice = np.concatenate([np.arange(60), np.flatnonzero(label == "yes")])
    weighted = PotentialSVC("precomputed", class_weight={"yes": 2.0, "no": 1.0}, tol=1e-9)
    repeated = PotentialSVC("precomputed", tol=1e-9).fit(matrix[twice], label[twice])
    np.testing.assert_allclose(
        weighted.fit(matrix, label).dual_coef_, repeated.dual_coef_, atol=1e-6
    )


def test_the_box_bounds_every_columns_coefficient():
    x, label = two_classes()
    assert np.abs(PotentialSVC(formulation="box", C=0.01).fit(x, label).dual_coef_).max() == 0.01


def test_y_in_another_unit_gives_the_predictions_in_that_unit(rng):
    x = rng.normal(size=(60, 2))
    y = x[:, 0] ** 2
    found, scaled = (PotentialSVR(epsilon=0.01, C=1.0).fit(x, s * y).predict(x) for s in (1, 1e4))
    np.testing.assert_allclose(scaled, 1e4 * found, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e170, 1e300])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_of_y_whose_squares_are_no_doubles_give_the_predictions_in_that_unit(
    rng, unit, fit_intercept
):
    x = rng.normal(size=(40, 2))
    machine = PotentialSVR(fit_intercept=fit_intercept)
    value = x[:, 0] + 2.0
    expected = machine.fit(x, value).predict(x)
    assert expected.std() > 0.1
    found = machine.fit(x, unit * value).predict(x) / unit
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "words"), [("plummer", "softening must be"), ("coulomb", "must not be NaN")]
)
def test_rows_whose_squares_are_no_doubles_are_refused_without_a_warning(rng, kernel, words):
    x = rng.normal(size=(20, 2))
    with pytest.raises(ValueError, match=words):
        PotentialSVC(kernel).fit(1e200 * x, x[:, 0] > 0)


def test_constant_columns_are_dropped_and_named(rng):
    K = rng.normal(size=(50, 3))
    K[:, 1] = 0.1
    machine = PotentialSVC("precomputed", epsilon=0.01).fit(K, K[:, 0] > 0)
    assert machine.dropped_columns_.tolist() == [1]
    assert machine.dual_coef_[0, 1] == 0


def test_a_missing_proximity_is_named_and_refused(rng):
    K = rng.normal(size=(50, 4))
    y = K[:, 0] > 0
    machine = PotentialSVC("precomputed", epsilon=0.01).fit(K, y)
    K[7, 0] = np.nan
    for call in (lambda: machine.predict(K), lambda: clone(machine).fit(K, y)):
        with pytest.raises(ValueError, match="got nan in row 7, column 0: impute"):
            call()


def test_a_missing_proximity_is_named_by_its_row_in_later_blocks_too(rng):
    K = rng.normal(size=(5000, 4))
    y = K[:, 0] > 0
    machine = PotentialSVC("precomputed", epsilon=0.01).fit(K, y)
    K[4500, machine.support_[-1]] = np.inf
    column = machine.support_[-1]
    for call in (lambda: machine.predict(K), lambda: clone(machine).fit(K, y)):
        with pytest.raises(ValueError, match=f"got inf in row 4500, column {column}: impute"):
            call()


def test_what_a_kernel_computes_must_be_finite_and_fit():
    x, label = two_classes()
    for kernel, sentence in (
        (lambda a, b: np.full((len(a), len(b)), np.nan), "got nan in row 0, column 0: scale"),
        (lambda a, b: np.ones(3), r"shape=\(80, 80\), got shape=\(3,\)"),
    ):
        with pytest.raises(ValueError, match=sentence):
            PotentialSVC(kernel).fit(x, label)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="got inf in row 0, column 0"):
        PotentialSVC("linear").fit(1e200 * x, label)


def test_the_softening_is_the_landmarks_deviation_wherever_a_feature_begins():
    x, label = two_classes()
    machine = PotentialSVC().fit(x, label)
    deviation = np.sqrt(np.square(x - x.mean(axis=0)).sum(axis=1).mean())
    assert machine.kernel_params_["softening"] == pytest.approx(deviation)
    moved = x + np.array([0.0, 1e4, 0.0])
    np.testing.assert_allclose(
        PotentialSVC().fit(moved, label).decision_function(moved),
        machine.decision_function(x),
        atol=1e-4,
    )


def test_above_epsilon_max_no_column_is_used_and_predictions_are_constant():
    x, label = two_classes()
    largest = PotentialSVC().fit(x, label).epsilon_max_
    machine = PotentialSVC(epsilon=1.001 * largest).fit(x, label)
    assert machine.support_.size == 0
    assert len(set(machine.decision_function(x))) == 1
    assert PotentialSVC(epsilon=0.99 * largest).fit(x, label).support_.size > 0


def test_a_later_fit_on_a_matrix_shows_no_landmarks_of_an_earlier_one():
    x, y = two_classes()
    found = PotentialSVC(random_state=0).fit(x, y)
    assert len(found.landmarks_)
    found.set_params(kernel="precomputed").fit(x @ x.T, y)
    assert not hasattr(found, "landmarks_")
    assert not hasattr(found, "kernel_params_")


@pytest.mark.parametrize("fitted", ["plummer", "coulomb", "rbf", "precomputed"])
@pytest.mark.parametrize("later", ["plummer", "coulomb", "rbf", "precomputed", np.dot])
def test_another_kernel_set_after_a_fit_waits_for_the_next_one(fitted, later):
    x, label = two_classes()
    rows = x @ x.T if fitted == "precomputed" else x
    machine = PotentialSVC(fitted, random_state=0).fit(rows, label)
    before = machine.decision_function(rows)
    machine.set_params(kernel=later, kernel_params={"gamma": 9.0})
    assert machine.decision_function(rows).tobytes() == before.tobytes()


def test_landmarks_are_drawn_as_they_are_asked_for():
    x, label = two_classes()
    machine = PotentialSVC(n_landmarks=9, random_state=0)
    chosen = np.sort(np.random.RandomState(0).choice(len(x), size=9, replace=False))
    assert machine.fit(x, label).landmarks_.tolist() == x[chosen].tolist()
    spread = np.sort(kmeans_plusplus(x, 9, random_state=0)[1])
    machine.set_params(landmark_selection="kmeans++")
    assert machine.fit(x, label).landmarks_.tolist() == x[spread].tolist()


@pytest.mark.parametrize("selection", ["random", "kmeans++"])
@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_a_generator_of_either_kind_draws_the_landmarks(selection, kind):
    x, label = two_classes()

    def drawn(random_state):
        machine = PotentialSVC(
            n_landmarks=9, landmark_selection=selection, random_state=random_state
        )
        return machine.fit(x, label).landmarks_.tolist()

    once = kind(0)
    first, later = drawn(once), drawn(once)
    assert first == drawn(kind(0))
    assert first != later


def test_too_few_iterations_are_no_convergence():
    x, label = two_classes()
    assert not PotentialSVC(max_iter=1, epsilon=0.001).fit(x, label).converged_
    assert PotentialSVC(epsilon=0.001).fit(x, label).converged_


REFUSED = [
    ({"formulation": "other"}, "formulation must be one of"),
    ({"landmark_selection": "other"}, "landmark_selection must be one of"),
    ({"epsilon": -0.1}, "epsilon must be >= 0"),
    ({"epsilon": "small"}, "epsilon must be a number"),
    ({"tol": -0.1}, "tol must be >= 0 and finite, got tol=-0.1"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1"),
    ({"kernel_params": 5}, "kernel_params must be a dict"),
    ({"kernel_params": {"softening": 1e200}}, "softening must have a square"),
    ({"kernel_params": {"softening": 1e-200}}, "softening must have a square"),
    ({"C": 0.0}, "C > 0"),
    ({"C": 10**400}, "C must be a number that a double holds"),
    ({"rho": 0.5}, "rho >= 1"),
    ({"n_landmarks": 0}, "n_landmarks must be a number >= 1"),
    ({"formulation": "ridge", "n_landmarks": 5}, "needs every row as a landmark"),
    ({"formulation": "ridge", "class_weight": "balanced"}, "class_weight is for"),
    ({"class_weight": {"yes": -1.0, "no": 1.0}}, "class_weight must be >= 0"),
    ({"class_weight": {"yes": 0.0, "no": 0.0}}, "above 0 for a class"),
    ({"kernel": "coulomb", "kernel_params": {"radius": 3.0}}, "must not hold radius"),
]


@pytest.mark.refusal
@pytest.mark.parametrize(("knobs", "words"), REFUSED, ids=str)
def test_a_parameter_out_of_range_is_refused(knobs, words):
    with pytest.raises(ValueError, match=words):
        PotentialSVC(**knobs).fit(*two_classes())


def test_what_cannot_be_learned_from_is_refused(rng):
    x, label = two_classes()
    with pytest.raises(ValueError, match="got one class: yes"):
        PotentialSVC().fit(x, np.full(80, "yes"))
    K = rng.normal(size=(30, 4))
    machine = PotentialSVC("precomputed", epsilon=0.01).fit(K, K[:, 0] > 0)
    with pytest.raises(ValueError, match="expecting 4 features"):
        machine.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="needs a square matrix"):
        PotentialSVC("precomputed", formulation="ridge").fit(rng.normal(size=(80, 4)), label)
    with pytest.raises(ValueError, match="rho must be larger"):
        PotentialSVC("precomputed", formulation="ridge").fit(np.zeros((80, 80)), label)


@pytest.mark.parametrize(
    ("kernel", "params", "said"),
    [
        ("gaussian", None, "one of 'additive_chi2', .*'coulomb'.*, got kernel='gaussian'"),
        (["rbf"], None, r"must be a function or one of .*, got kernel=\['rbf'\]"),
        ("plummer", {"gamma": 1.0}, "must fit kernel='plummer', got gamma, softening: .*'gamma'"),
        ("rbf", {"gamma": "wide"}, "must fit kernel='rbf', got gamma"),
    ],
)
@pytest.mark.refusal
def test_a_kernel_or_keyword_that_is_not_known_is_told_in_one_sentence(kernel, params, said):
    x, label = two_classes(n=40)
    with pytest.raises(ValueError, match=said):
        PotentialSVC(kernel, kernel_params=params).fit(x, label)


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_proximities_of_low_rank_are_not_solved_as_if_they_were_regular(kernel):
    x, label = two_classes(n=40)
    with pytest.raises(ValueError, match="rho must be larger: the proximities are singular"):
        PotentialSVC(kernel, formulation="ridge").fit(x, label)
    assert PotentialSVC(kernel, formulation="ridge", rho=1.5).fit(x, label).kkt_violation_ < 1e-9

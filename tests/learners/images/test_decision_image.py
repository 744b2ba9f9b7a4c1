import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners.images.decision_image import (
    CLASSIFIERS,
    DecisionImage,
    compare_decision_images,
)

EACH = pytest.mark.parametrize("classifier", [*CLASSIFIERS, RidgeClassifier()], ids=str)


@pytest.mark.refusal  # some of the checks pass sparse rows or parameters of any type
@parametrize_with_checks([DecisionImage(C=1.0), DecisionImage("centroid")])
def test_the_estimator_keeps_scikit_learns_conventions(estimator, check):
    check(estimator)


@pytest.fixture
def rows(rng):
    y = np.repeat(["no", "yes"], 40)
    x = rng.normal(size=(80, 6)) + np.outer(y == "yes", [1.5, 0, 0, 1, 0, 0])
    x[:, 4] = 7.0  # never varies
    return x, y


@EACH
def test_the_decision_is_along_the_image_and_the_normal_is_of_the_rows(rows, classifier):
    x, y = rows
    image = DecisionImage(classifier).fit(x, y)
    straight = (x - image.mean_) @ image.decision_image_ + image.intercept_
    assert image.decision_function(x) == pytest.approx(straight, abs=1e-10)
    scores = (x - image.mean_) @ image.components_.T
    assert image.dual_coef_ @ scores == pytest.approx(image.normal_, abs=1e-4)
    assert np.abs(image.decision_image_[4]) < 1e-9
    assert image.score(x, y) > 0.75


def test_a_regressor_decides_between_the_classes_halfway(rng):
    """Trained on 0 and 1, and cut at 0, it would put nearly all rows into the second class."""
    rows = rng.normal(size=(400, 5))
    label = rows[:, 0] > 0
    for regressor in (Ridge(), LinearRegression()):
        assert DecisionImage(regressor).fit(rows, label).score(rows, label) > 0.95


@EACH
def test_portraits_are_convex_combinations_of_rows(rows, classifier):
    x, y = rows
    image = DecisionImage(classifier).fit(x, y)
    for portrait, sign in ((image.portrait_positive_, 1), (image.portrait_negative_, -1)):
        weight = np.maximum(sign * image.dual_coef_, 0)
        assert portrait == pytest.approx(weight @ x / weight.sum())
        assert ((x.min(axis=0) - 1e-9 <= portrait) & (portrait <= x.max(axis=0) + 1e-9)).all()


def test_portraits_of_centroids_are_the_class_means(rows):
    x, y = rows
    image = DecisionImage("centroid").fit(x, y)
    assert image.portrait_positive_ == pytest.approx(x[y == "yes"].mean(axis=0))
    assert image.portrait_negative_ == pytest.approx(x[y == "no"].mean(axis=0))
    assert image.decision_image_ == pytest.approx(x[40:].mean(axis=0) - x[:40].mean(axis=0))


def test_the_pattern_is_the_covariance_with_the_decision(rows):
    x, y = rows
    image = DecisionImage("logistic").fit(x, y)
    decision = image.decision_function(x)
    centred = x - x.mean(axis=0)
    wanted = centred.T @ (decision - decision.mean()) / len(x) / decision.var()
    assert image.pattern_ == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-120, 1e77, 1e140])
@EACH
def test_the_pattern_of_rows_of_any_scale_is_that_of_unit_scale(rows, classifier, scale):
    """Of centroids, whose image has the rows' unit, it was 0 or an overflow."""
    x, y = rows
    one, other = (DecisionImage(classifier).fit(x * unit, y) for unit in (1.0, scale))
    unit = 1 / scale if classifier == "centroid" else scale
    assert other.pattern_ / unit == pytest.approx(one.pattern_, rel=1e-6, abs=1e-9)


def test_a_discriminant_of_a_class_of_one_row_has_the_covariance_of_the_other(rows):
    x, _ = rows
    image = DecisionImage("lda").fit(x, np.arange(80) == 3)
    assert image.decision_function(x[3:4])[0] > image.decision_function(x[4:]).mean()


def test_a_discriminant_of_classes_of_equal_rows_is_refused():
    """Its image was 0, although the classes lie apart."""
    x, y = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0), np.repeat([0, 1], 10)
    with pytest.raises(ValueError, match="rows of a class must differ for classifier 'lda'"):
        DecisionImage("lda").fit(x, y)
    x[0, 0] = 0.1
    assert DecisionImage("lda").fit(x, y).score(x, y) == 1
    found = compare_decision_images(
        x, y, y, classifier="lda", n_boot=20, rng=np.random.default_rng(0)
    )
    assert np.isfinite(found.low).all()


def test_a_morph_starts_where_both_classes_meet_and_moves_along_the_image(rows):
    x, y = rows
    image = DecisionImage("svm").fit(x, y)
    steps = image.decision_function(image.morph(np.array([-2.0, 0.0, 3.0])))
    length = np.linalg.norm(image.decision_image_)
    assert steps == pytest.approx([-2 * length, 0, 3 * length], abs=1e-9)


def test_a_threshold_ratio_is_that_of_the_cosines(rows):
    x, y = rows
    svm, centroid = (DecisionImage(one).fit(x, y) for one in ("svm", "centroid"))
    template = svm.decision_image_
    assert svm.predicted_threshold_ratio(svm, template) == pytest.approx(1)
    assert svm.predicted_threshold_ratio(centroid, template) > 1
    across = np.eye(6)[4]  # the feature that never varies
    with pytest.raises(ValueError, match="template must have a part along the other decision"):
        svm.predicted_threshold_ratio(centroid, across)


@pytest.mark.parametrize(("wanted", "kept"), [(2, 2), (1.0, 1), (0.99, 5), (None, 5)])
def test_components_are_as_many_as_asked_for(rows, wanted, kept):
    assert len(DecisionImage("lda", n_components=wanted).fit(*rows).components_) == kept


def test_more_features_than_rows_give_the_same_decision_as_their_span(rng):
    x = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 50))
    image = DecisionImage("centroid").fit(x, np.arange(20) % 2)
    assert len(image.components_) == 3


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-8, 1e-11])
@pytest.mark.parametrize("classifier", ["lda", LinearDiscriminantAnalysis()], ids=["lda", "own"])
def test_a_feature_of_far_smaller_scale_is_kept(scale, classifier, rng):
    y = np.arange(200) % 2
    x = rng.normal(size=(200, 3))
    x[:, 1] = scale * (y + x[:, 1] / 9)
    image = DecisionImage(classifier).fit(x, y)
    assert image.score(x, y) == 1
    assert image.decision_image_[1] * scale > 10


@pytest.mark.parametrize("value", [0.1, 1e12 + 0.1, -7.3e5])
@pytest.mark.parametrize("classifier", ["svm", "lda", "centroid"])
def test_a_constant_feature_has_no_weight_whatever_its_mean_is_rounded_to(classifier, value, rng):
    x, y = rng.normal(size=(90, 3)), np.arange(90) % 2
    x[:, 1] = value
    image = DecisionImage(classifier).fit(x, y)
    assert image.decision_image_[1] == 0
    assert len(image.components_) == 2
    with pytest.raises(ValueError, match="no feature varies"):
        DecisionImage(classifier).fit(x[:, [1]], y)


def test_relevance_vectors_of_many_rows_take_some_of_them_as_basis(rng):
    x = rng.normal(size=(2100, 3))
    image = DecisionImage("rvm").fit(x, x[:, 0] > 0)
    assert image.score(x, x[:, 0] > 0) > 0.97
    np.testing.assert_allclose(image.dual_coef_ @ (x - x.mean(axis=0)), image.decision_image_)


@pytest.mark.refusal
def test_what_does_not_fit_is_refused(rows):
    x, y = rows
    with pytest.raises(ValueError, match="classifier must be one of"):
        DecisionImage("forest").fit(x, y)
    with pytest.raises(ValueError, match="n_components must be"):
        DecisionImage(n_components=1.5).fit(x, y)
    with pytest.raises(ValueError, match="two classes"):
        DecisionImage().fit(x, np.arange(80) % 3)
    with pytest.raises(ValueError, match="n_components must be a number or None, got 'a'"):
        DecisionImage(n_components="a").fit(x, y)
    for wrong in ("abc", -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="C must be > 0 and finite, or 'cv', got C="):
            DecisionImage(C=wrong).fit(x, y)
    with pytest.raises(ValueError, match="classifier must have coef_ and intercept_"):
        DecisionImage(KNeighborsClassifier()).fit(x, y)
    with pytest.raises(ValueError, match="features must have finite variances"):
        DecisionImage().fit(1e200 * x, y)
    with pytest.raises(
        ValueError, match="features must have finite variances > 0, got numbers too small"
    ):
        DecisionImage().fit(1e-160 * x, y)
    with pytest.raises(ValueError, match="no feature varies"):
        DecisionImage().fit(np.ones((80, 2)), y)
    image = DecisionImage("centroid").fit(x, y)
    image._portraits[1] = np.nan
    with pytest.raises(ValueError, match="class 'no' has no portrait"):
        _ = image.portrait_negative_
    image.decision_image_ = np.zeros(6)
    with pytest.raises(ValueError, match="no direction to move along"):
        image.morph(np.array([1.0]))


def test_a_crowd_that_misses_a_feature_is_seen_to():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    crowd, gold = x[:, 0] > 0, x[:, 0] + x[:, 1] > 0
    found = compare_decision_images(x, crowd, gold, n_boot=30, rng=rng)
    assert found.cosine < 0.85 < found.ceiling
    assert found.high[1] < 0
    assert found.low[3] < 0 < found.high[3]


@pytest.mark.parametrize("classifier", ["centroid", "logistic"])
def test_a_crowd_that_errs_at_random_goes_by_the_same_features(classifier):
    """Errors change the length of an image; three of 6 intervals miss 0 by chance in one of 400 draws."""
    outside = np.zeros(2)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 2))
        gold = x[:, 0] + 0.3 * rng.normal(size=200) > 0
        crowd = gold ^ (rng.random(200) < 0.2)
        found = compare_decision_images(x, crowd, gold, classifier=classifier, n_boot=10, rng=rng)
        outside += (found.low > 0) | (found.high < 0)
    assert (outside <= 2).all()


def test_labels_that_agree_are_as_alike_as_the_ceiling(rng):
    x = rng.normal(size=(200, 4))
    gold = x[:, 0] > 0
    groups = np.repeat(np.arange(40), 5)
    found = compare_decision_images(x, gold, gold, groups=groups, n_boot=10, rng=rng)
    assert found.cosine == pytest.approx(1)
    assert 0.8 < found.ceiling <= 1
    with pytest.raises(ValueError, match="n_boot must be >= 2"):
        compare_decision_images(x, gold, gold, n_boot=1, rng=rng)


def test_halves_that_show_nothing_alike_have_a_ceiling_of_0():
    """Of labels at random the mean cosine of two halves is below 0: the root was no number."""
    x = np.random.default_rng(5).normal(size=(60, 3))
    crowd, gold = np.arange(60) % 20 == 3, x[:, 0] > 0
    found = compare_decision_images(
        x, crowd, gold, classifier="centroid", n_boot=10, rng=np.random.default_rng(5)
    )
    assert found.ceiling == 0


def test_a_sample_in_which_no_feature_varies_is_left_out():
    x = np.zeros((30, 1))
    x[:2] = 1
    crowd, gold = np.arange(30) % 3 == 0, np.arange(30) % 2 == 0
    found = compare_decision_images(
        x, crowd, gold, classifier="centroid", n_boot=20, rng=np.random.default_rng(0)
    )
    assert np.isfinite([found.low, found.high]).all()


@pytest.mark.refusal
def test_lists_are_compared_and_groups_that_cannot_be_drawn_are_refused(rng):
    x = rng.normal(size=(60, 2))
    gold = x[:, 0] > 0
    terms = {"classifier": "centroid", "n_boot": 2}
    found = compare_decision_images(x.tolist(), gold, gold, **terms, rng=np.random.default_rng(0))
    same = compare_decision_images(x, gold, gold, **terms, rng=np.random.default_rng(0))
    assert (found.low == same.low).all()
    with pytest.raises(ValueError, match="groups must be two or more, got 1"):
        compare_decision_images(x, gold, gold, groups=["a"] * 60, **terms, rng=rng)
    with pytest.raises(
        ValueError, match=r"groups must be one for each of 60 tasks, got shape=\(59,\)"
    ):
        compare_decision_images(x, gold, gold, groups=np.arange(59), **terms, rng=rng)
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\), got level=95"):
        compare_decision_images(x, gold, gold, level=95, **terms, rng=rng)
    with pytest.raises(ValueError, match="n_boot must be >= 2 and whole, got n_boot=2.5"):
        compare_decision_images(x, gold, gold, n_boot=2.5, rng=rng)


def test_a_crowd_of_other_classes_than_gold_is_refused(rng):
    """By their order "no" was the first class of one and the second of the other: the cosine was -1."""
    x = rng.normal(size=(60, 2))
    gold = np.where(x[:, 0] > 0, "fine", "no")
    with pytest.raises(ValueError, match="crowd and gold must have the same two classes, got"):
        compare_decision_images(x, np.where(gold == "no", "no", "ok"), gold, rng=rng)

"""Decision images: the direction in feature space along which a linear classifier decides.

>>> x = np.array([[0.0, 1.0, 5.0], [0.2, 1.1, 5.0], [1.0, 0.0, 5.0], [1.1, 0.2, 5.0]])
>>> image = DecisionImage("centroid").fit(x, ["no", "no", "yes", "yes"])
>>> image.decision_image_.round(2)
array([ 0.95, -0.95,  0.  ])
"""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit, stdtrit
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_regressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from learners.images.relevance_vectors import MAX_ROWS, RelevanceVectorClassifier

__all__ = ["DecisionImage", "ImageComparison", "compare_decision_images"]

CANDIDATES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of C, for scores whose first has unit variance
FOLDS = 5
FEW = 500  # basis points of "rvm" where there are more rows than it takes
SMALL = 1e-5  # deviation beside the largest, of a feature that squares would lose
LEAST_SQUARES = 1e-250  # sum, of features whose variances can be divided by
CLASSIFIERS = ("svm", "logistic", "rvm", "lda", "centroid")


class DecisionImage(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier on principal components, and the images that show what it decides by.

    Parameters
    ----------
    classifier
        "svm" (the default), "logistic", "rvm", "lda", "centroid", or an estimator with `coef_` and
        `intercept_`.
    n_components
        Principal components: a number, a share of the variance in (0, 1), or all.
    C
        C of "svm" and "logistic", for scores divided by the first component's standard deviation; "cv"
        chooses it by five folds. Crowd labels are noisy: a hard margin fits their errors.
    random_state
        Seed of the folds, and of the rows that "rvm" draws.

    Attributes
    ----------
    classes_
        The two classes; the second is positive.
    decision_image_
        W, of one weight a feature: the decision is W'(x - mean) + intercept.
    pattern_
        Cov(x) W / (W' Cov(x) W): what features do when the decision moves by one. Show this one to people.
    portrait_positive_, portrait_negative_
        Weighted means of the rows that pull the decision to either class.
    normal_, intercept_, components_, mean_
        Weights of the components, the constant, the components, and the mean row.
    dual_coef_
        Weight of each row, of which the normal is the sum.
    C_
        The C in use; NaN where there is none.

    Notes
    -----
    **A decision image is a filter, not a map of the features used**: it also weighs features that only
    cancel noise. The pattern shows what goes with the decision (Haufe and others); name features with
    `error_image_test`, which has a level.

    **Guarantees.** `decision_function` is W'(x - mean) + intercept; portraits are convex combinations of
    rows, and with "centroid" the class means; a feature that never varies has weight 0.

    **Limits.** Principal components go by the features' units: standardize features of different units. A
    component is dropped if its deviation is below 1e-7 of the first's, or 1e-12 where a feature's own is
    below 1e-5 of the largest.

    **Cost.** O(n p min(n, p)) for the components; of more than 2000 rows "rvm" draws 500 as its basis. For
    more classes than two use scikit-learn's `OneVsRestClassifier`; for sparse text its `TruncatedSVD` before.

    Raises
    ------
    ValueError
        At fit, if there are not two classes, nothing varies, or a parameter is not one of those above; at
        a portrait, if no row has a weight of its sign.

    References
    ----------
    .. [1] Wichmann, Graf, Simoncelli, Bülthoff, Schölkopf, "Machine learning applied to perception:
       decision-images for gender classification", NIPS 2004.
    .. [2] Haufe and others, "On the interpretation of weight vectors of linear models in multivariate
       neuroimaging", NeuroImage 87 (2014).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 100)
    >>> noise = rng.normal(size=200)
    >>> x = np.column_stack([y + noise, noise])  # the second says nothing about y
    >>> image = DecisionImage("lda").fit(x, y)
    >>> bool(abs(image.decision_image_[1]) > 1), bool(abs(image.pattern_[1]) < 0.2)
    (True, True)
    """

    classes_: Any
    decision_image_: Float[np.ndarray, " features"]
    pattern_: Float[np.ndarray, " features"]
    normal_: Float[np.ndarray, " components"]
    intercept_: float
    components_: Float[np.ndarray, "components features"]
    mean_: Float[np.ndarray, " features"]
    dual_coef_: Float[np.ndarray, " rows"]
    C_: float

    def __init__(
        self,
        classifier: Any = "svm",
        *,
        n_components: int | float | None = None,
        C: Any = "cv",
        random_state: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.n_components = n_components
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DecisionImage":
        """Learn the decision image of two classes."""
        x, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            raise ValueError(
                "Only binary classification is supported. y must have two classes, got"
                f" {len(self.classes_)} class{'es' * (len(self.classes_) != 1)}"
            )
        positive = y == self.classes_[1]
        with np.errstate(over="ignore", invalid="ignore"):  # refused as variances
            centred = x - x[0]  # or else a constant would differ from its mean, which is rounded
            offset = centred.mean(axis=0)
            centred -= offset
        self.mean_ = x[0] + offset
        self.components_, deviation = _components(centred, self.n_components)
        scale = 1.0 if self.classifier == "centroid" else deviation[0]
        scores = centred @ self.components_.T / scale
        normal, self.intercept_, dual = self._trained(scores, positive)
        self.normal_, self.dual_coef_ = normal / scale, dual / scale**2
        self.decision_image_ = self.normal_ @ self.components_
        moved = self.normal_ * deviation  # the decision's deviation along each component
        size = np.abs(moved).max()  # taken out first: its square may be no double
        share = moved / (size or 1.0)
        spread = float(share @ share) * size
        self.pattern_ = (share * deviation) @ self.components_ / (spread or 1.0)
        weight = np.maximum(np.stack([self.dual_coef_, -self.dual_coef_]), 0)
        total = weight.sum(axis=1, keepdims=True)
        self._portraits = weight @ x / np.where(total > 0, total, np.nan)
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Return W'(x - mean) + intercept, which is positive for the second class."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((x - self.mean_) @ self.decision_image_ + self.intercept_)

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        decision = self.decision_function(X)
        return self.classes_[(decision > 0).astype(int)]

    @property
    def portrait_positive_(self) -> Float[np.ndarray, " features"]:
        """Weighted mean of the rows that pull to the second class."""
        return self._portrait(0)

    @property
    def portrait_negative_(self) -> Float[np.ndarray, " features"]:
        """Weighted mean of the rows that pull to the first class."""
        return self._portrait(1)

    def morph(
        self,
        amount: Float[np.ndarray, " steps"],
        start: Float[np.ndarray, " features"] | None = None,
    ) -> Float[np.ndarray, "steps features"]:
        """Return rows along W, at distances from a start: by default the undecided point nearest the mean."""
        check_is_fitted(self)
        length = float(np.linalg.norm(self.decision_image_))
        if not length > 0:
            raise ValueError("the decision image is 0: there is no direction to move along")
        unit = self.decision_image_ / length
        neutral = self.mean_ - self.intercept_ / length * unit if start is None else start
        return np.asarray(neutral + np.atleast_1d(amount)[:, None] * unit)

    def predicted_threshold_ratio(
        self, other: "DecisionImage", template: Float[np.ndarray, " features"]
    ) -> float:
        """Return a linear observer's threshold along another decision image, over that along this one.

        That threshold is in proportion to 1 / cos(W, template) whatever the classifier: it measures how
        much of W the observer sees, not how much the classifier is like the observer.

        Raises
        ------
        ValueError
            If the template is at a right angle to the other image, along which it has no threshold.
        """
        mine, theirs = (cosine(one.decision_image_, template) for one in (self, other))
        if theirs == 0:
            raise ValueError(
                "template must have a part along the other decision image, got one at a right angle to it"
            )
        return mine / theirs

    def _portrait(self, side: int) -> Float[np.ndarray, " features"]:
        check_is_fitted(self)
        found = self._portraits[side]
        if np.isnan(found).any():
            raise ValueError(
                f"class '{self.classes_[1 - side]}' has no portrait: no row has a weight of its sign"
            )
        return np.asarray(found)

    def _trained(
        self, scores: Float[np.ndarray, "rows components"], positive: Any
    ) -> tuple[Float[np.ndarray, " components"], float, Float[np.ndarray, " rows"]]:
        """Return the normal, the intercept and the row weights of the classifier on the scores."""
        kind, self.C_ = self.classifier, float("nan")
        if kind == "centroid":
            dual = np.where(positive, 1 / positive.sum(), -1 / (~positive).sum())
            normal = dual @ scores
            middle = (scores[positive].mean(axis=0) + scores[~positive].mean(axis=0)) / 2
            return normal, float(-normal @ middle), dual
        if kind in ("svm", "logistic"):
            model = SVC(kernel="linear") if kind == "svm" else LogisticRegression(max_iter=1000)
            model = self._regularized(model, scores, positive)
        elif kind == "rvm":
            few = FEW if len(scores) > MAX_ROWS else None
            model = RelevanceVectorClassifier(n_landmarks=few, random_state=self.random_state or 0)
            model.fit(scores, positive)
        elif kind == "lda":
            model = _discriminant(scores, positive)
        elif isinstance(kind, str):
            raise ValueError(
                f"classifier must be one of {', '.join(CLASSIFIERS)} or an estimator, got {kind!r}"
            )
        else:
            target = np.where(positive, 1.0, -1.0) if is_regressor(kind) else positive
            model = clone(kind).fit(scores, target)
            if not (hasattr(model, "coef_") and hasattr(model, "intercept_")):
                raise ValueError(
                    "classifier must have coef_ and intercept_ once it is fitted, as linear ones have,"
                    f" got {kind!r}"
                )
        dual = np.zeros(len(scores))
        if kind == "rvm":
            dual[model.relevance_] = model.dual_coef_
            return dual @ scores, model.intercept_, dual
        normal, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        if kind == "svm":
            dual[model.support_] = model.dual_coef_[0]
        elif kind == "logistic":
            dual = self.C_ * (positive - expit(scores @ normal + intercept))
        else:
            dual = np.linalg.lstsq(scores.T, normal, rcond=None)[0]
        return normal, intercept, dual

    def _regularized(
        self, model: Any, scores: Float[np.ndarray, "rows components"], positive: Any
    ) -> Any:
        """Fit with the given C, or with the best of five folds, ties to the smaller."""
        if not (self.C == "cv" or (isinstance(self.C, Real) and 0 < float(self.C) < np.inf)):
            raise ValueError(f"C must be > 0 and finite, or 'cv', got C={self.C!r}")
        self.C_ = 1.0 if self.C == "cv" else float(self.C)
        fewest = int(min(positive.sum(), (~positive).sum()))
        if self.C == "cv" and fewest >= 2:
            folds = StratifiedKFold(
                min(FOLDS, fewest), shuffle=True, random_state=self.random_state or 0
            )
            search = GridSearchCV(model, {"C": list(CANDIDATES)}, cv=folds, refit=False)
            self.C_ = float(search.fit(scores, positive).best_params_["C"])
        return model.set_params(C=self.C_).fit(scores, positive)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _discriminant(scores: Float[np.ndarray, "rows components"], positive: Any) -> Any:
    """Fit a linear discriminant with shrinkage; the rows of some class must differ."""
    if not _differ_within(scores, positive):
        raise ValueError(
            "rows of a class must differ for classifier 'lda', got equal rows in each class: take 'centroid'"
        )
    unit = scores.std(axis=0)  # the solver depends on it, the shrinkage does not
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    with warnings.catch_warnings():  # of a class of one row: the covariance is then the other's
        warnings.filterwarnings("ignore", "Only one sample available")
        model.fit(scores / unit, positive).coef_ /= unit
    return model


def _differ_within(rows: Float[np.ndarray, "rows columns"], positive: Any) -> bool:
    """Return whether the rows of either class differ among themselves."""
    return any((rows[one] != rows[one][:1]).any() for one in (positive, ~positive))


def _components(
    centred: Float[np.ndarray, "rows features"], wanted: int | float | None
) -> tuple[Float[np.ndarray, "components features"], Float[np.ndarray, " components"]]:
    """Return the principal components that vary, in order, and their standard deviations."""
    n, p = centred.shape
    if not (wanted is None or isinstance(wanted, Real)):
        raise ValueError(f"n_components must be a number or None, got {wanted!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.square(centred).sum(axis=0)
    varies = (centred != 0).any(axis=0)
    if not varies.any():
        raise ValueError("no feature varies: there is nothing to decide by")
    if not LEAST_SQUARES < square.sum() < np.inf:
        much = "small" if square.sum() <= LEAST_SQUARES else "large"
        raise ValueError(
            f"features must have finite variances > 0, got numbers too {much}: scale them"
        )
    small = square[varies].min() < SMALL**2 * square.max()
    if n > p and not small:
        value, vector = np.linalg.eigh(centred.T @ centred)
        deviation, components = np.sqrt(np.maximum(value[::-1], 0) / n), vector.T[::-1]
    else:
        _, singular, components = np.linalg.svd(centred, full_matrices=False)
        deviation = singular / np.sqrt(n)
    components = np.where(varies, components, 0.0)
    kept = int((deviation > (1e-12 if small else 1e-7) * deviation[0]).sum())
    if wanted is not None and 0 < wanted < 1:
        share = np.cumsum(deviation**2) / np.square(deviation).sum()
        kept = min(kept, 1 + int(np.searchsorted(share, wanted)))
    elif wanted is not None:
        if not (wanted >= 1 and wanted < np.inf and wanted == int(wanted)):
            raise ValueError(
                f"n_components must be a whole number >= 1 or a share in (0, 1), got {wanted}"
            )
        kept = min(kept, int(wanted))
    return components[:kept], deviation[:kept]


def cosine(one: Float[np.ndarray, " features"], other: Float[np.ndarray, " features"]) -> float:
    """Return the cosine of the angle between two images; 0 if either is 0."""
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length > 0 else 0.0


def _difference(
    crowd: DecisionImage, gold: DecisionImage, x: Float[np.ndarray, "rows features"]
) -> Float[np.ndarray, " features"]:
    """Return the crowd's pattern minus gold's, each of a decision that moves by its deviation in the rows."""
    moved = [one.pattern_ * one.decision_function(x).std() for one in (crowd, gold)]
    return np.asarray(moved[0] - moved[1])


@dataclass(frozen=True, slots=True, eq=False)
class ImageComparison:
    """Result of :func:`compare_decision_images`.

    Parameters
    ----------
    crowd, gold
        Decision images trained on the crowd's labels, and on gold.
    cosine
        Between the two images.
    ceiling
        Geometric mean of the cosines between images of two halves, of crowd and of gold labels: what
        sampling alone would leave, from half as many rows.
    low, high
        Interval of the crowd's pattern minus gold's, feature by feature, each of a decision that moves by
        its standard deviation: noisy labels alone would lengthen or shorten a pattern.
    """

    crowd: DecisionImage
    gold: DecisionImage
    cosine: float
    ceiling: float
    low: Float[np.ndarray, " features"]
    high: Float[np.ndarray, " features"]


def compare_decision_images(
    x: Float[np.ndarray, "tasks features"],
    crowd: Any,
    gold: Any,
    *,
    groups: Any = None,
    classifier: Any = "svm",
    level: float = 0.95,
    n_boot: int = 50,
    rng: np.random.Generator,
) -> ImageComparison:
    """Compare the decision image of the crowd's labels with that of gold.

    Parameters
    ----------
    x
        Features of the tasks.
    crowd, gold
        Two classes, the crowd's and the true one, of each task.
    groups
        Groups that the bootstrap draws whole, such as the worker of each row; two or more of them. By
        default each row is one.
    classifier
        As for `DecisionImage`; its C is chosen once.
    level, n_boot
        Confidence of the intervals, each of one feature alone, in (0, 1); and number of bootstrap samples
        whose deviation they take, at least 2.
    rng
        Draws halves and samples.

    Notes
    -----
    The intervals are for what the same classifier would show of other tasks, or groups: its regularization's
    bias is not in them. They take estimates as normal, so that they are approximate.

    Raises
    ------
    ValueError
        As `DecisionImage` does, or if crowd and gold have other classes, n_boot is below 2, level not in
        (0, 1), or there are not a group for each task, and two groups.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3))
    >>> crowd, gold = x[:, 0] > 0, x[:, 0] + x[:, 1] > 0
    >>> found = compare_decision_images(x, crowd, gold, n_boot=20, rng=rng)
    >>> found.cosine < found.ceiling, bool(found.high[1] < 0)
    (True, True)
    """
    if not (isinstance(n_boot, Integral) and n_boot >= 2):
        raise ValueError(f"n_boot must be >= 2 and whole, got n_boot={n_boot!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")
    labels = [np.asarray(one) for one in (crowd, gold)]
    images = [DecisionImage(classifier).fit(x, one) for one in labels]
    classes = [one.classes_.tolist() for one in images]
    if classes[0] != classes[1]:  # the second class of each is positive
        raise ValueError(
            f"crowd and gold must have the same two classes, got {classes[0]} and {classes[1]}"
        )
    fixed = [DecisionImage(classifier, C=1.0 if np.isnan(one.C_) else one.C_) for one in images]
    x = np.asarray(x, dtype=np.float64)
    names = np.arange(len(x)) if groups is None else np.asarray(groups)
    if not names.shape == (len(x),):
        raise ValueError(f"groups must be one for each of {len(x)} tasks, got shape={names.shape}")
    codes = np.unique(names, return_inverse=True)[1]
    n_groups = int(codes.max()) + 1
    if not n_groups >= 2:
        raise ValueError(
            f"groups must be two or more, got {n_groups}: no other sample can be drawn"
        )

    def trained(side: int, rows: Any) -> DecisionImage | None:
        some, label = x[rows], labels[side][rows]
        if len(np.unique(label)) < 2 or not (some != some[0]).any():
            return None
        if classifier == "lda" and not _differ_within(some, label == label[0]):
            return None
        image: DecisionImage = clone(fixed[side]).fit(some, label)
        return image

    agreement: list[list[float]] = [[], []]
    differences = []
    for _ in range(n_boot):
        half = rng.permutation(n_groups)[codes] < n_groups // 2
        drawn = np.repeat(
            np.arange(len(x)), rng.multinomial(n_groups, [1 / n_groups] * n_groups)[codes]
        )
        both = [one for side in (0, 1) if (one := trained(side, drawn)) is not None]
        if len(both) == 2:
            differences.append(_difference(both[0], both[1], x[drawn]))
        for side in (0, 1):
            one, other = trained(side, half), trained(side, ~half)
            if one is not None and other is not None:
                agreement[side].append(cosine(one.decision_image_, other.decision_image_))
    n_drawn, centre = len(differences), _difference(images[0], images[1], x)
    reach = np.full(x.shape[1], np.nan)
    if n_drawn >= 2:
        reach = stdtrit(n_drawn - 1, (1 + level) / 2) * np.std(differences, axis=0, ddof=1)
    means = [max(float(np.mean(one)), 0.0) if one else float("nan") for one in agreement]
    return ImageComparison(
        images[0], images[1],
        cosine(images[0].decision_image_, images[1].decision_image_),
        float(np.sqrt(means[0] * means[1])), centre - reach, centre + reach,
    )  # fmt: skip

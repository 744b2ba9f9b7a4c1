"""Class ratios as scikit-learn estimators, over `learn_ratios` and `learn_streamed_ratios`.

>>> line = np.linspace(-1, 1, 50)[:, None]
>>> bags = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
>>> estimator = ClassRatioEstimator().fit(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
>>> estimator.predict(np.vstack([line[:35], 5 + line[:15]])).ratio.round(1)
array([0.7, 0.3])
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from learners.class_ratios.bags import BagPasses, Blocks
from learners.class_ratios.kernels import Bags
from learners.class_ratios.model import ClassRatio, RatioModel, learn_ratios
from learners.class_ratios.streamed import StreamedRatioModel, learn_streamed_ratios
from learners.class_ratios.trials import RatioMethod, Trial

__all__ = ["ClassRatioEstimator", "StreamedRatioEstimator"]


def _names_in(names: tuple[str, ...] | None) -> NDArray[np.object_]:
    """Return the columns' names; raise AttributeError, as scikit-learn's estimators do, if they had none."""
    if names is None:
        raise AttributeError(
            "feature_names_in_ is there after a fit on data frames with names only"
        )
    return np.array(names, dtype=object)


class StreamedRatioEstimator(BaseEstimator):  # type: ignore[misc]
    """`learn_streamed_ratios` with the parameters, and the cloning, of scikit-learn.

    Parameters
    ----------
    level, classes
        As for `learn_streamed_ratios`.

    Attributes
    ----------
    model_
        The learned model.

    Notes
    -----
    **Guarantees.** The ratios are those of `learn_streamed_ratios` and `StreamedRatioModel`, to the byte.
    **Privacy.** As for `learn_ratios`.

    Examples
    --------
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [[line[: 50 - k], 5 + line[:k]] for k in (10, 25, 40)]
    >>> estimator = StreamedRatioEstimator()
    >>> estimator = estimator.fit(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> estimator.predict([line[:35], 5 + line[:15]]).ratio.round(1)
    array([0.7, 0.3])
    """

    model_: StreamedRatioModel

    def __init__(self, *, level: float = 0.9, classes: Sequence[str] | None = None) -> None:
        self.level = level
        self.classes = classes

    def fit(
        self,
        bags: Sequence[Blocks] | BagPasses,
        proportions: Float[np.ndarray, "bags classes"],
        *,
        noise: Float[np.ndarray, "bags classes classes"] | None = None,
    ) -> "StreamedRatioEstimator":
        """Learn what each class looks like; parameters and errors are those of `learn_streamed_ratios`."""
        parameters = self.get_params(deep=False)
        self.model_ = learn_streamed_ratios(bags, proportions, noise=noise, **parameters)
        return self

    def predict(self, bag: Blocks) -> ClassRatio:
        """Return the class ratio of one unlabelled bag, by `StreamedRatioModel.ratio`."""
        check_is_fitted(self)
        return self.model_.ratio(bag)

    def predict_all(self, bags: Sequence[Blocks] | BagPasses) -> list[ClassRatio]:
        """Return the class ratio of each of several unlabelled bags, by `StreamedRatioModel.ratios`."""
        check_is_fitted(self)
        return self.model_.ratios(bags)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the features, where the bags were data frames with names."""
        return _names_in(self.model_.feature_names)

    @property
    def n_features_in_(self) -> int:
        """Features of a point."""
        return len(self.model_.features.scale)

    @property
    def trial_(self) -> Trial:
        """Errors of kernel mean matching on bags left out of the sample."""
        return self.model_.trial


class ClassRatioEstimator(BaseEstimator):  # type: ignore[misc]
    """`learn_ratios` with the parameters, and the cloning, of scikit-learn.

    Parameters
    ----------
    level, bandwidth, methods, classes
        As for `learn_ratios`.

    Attributes
    ----------
    model_
        The learned model.

    Notes
    -----
    **Guarantees.** The ratios are those of `learn_ratios` and `RatioModel.ratio`, to the byte.
    **Privacy.** As for `learn_ratios`.

    Examples
    --------
    >>> ClassRatioEstimator(level=0.95).get_params()["level"]
    0.95
    """

    model_: RatioModel

    def __init__(
        self,
        *,
        level: float = 0.9,
        bandwidth: float | None = None,
        methods: Sequence[RatioMethod] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.level = level
        self.bandwidth = bandwidth
        self.methods = methods
        self.classes = classes

    def fit(
        self,
        bags: Bags,
        proportions: Float[np.ndarray, "bags classes"],
        *,
        noise: Float[np.ndarray, "bags classes classes"] | None = None,
    ) -> "ClassRatioEstimator":
        """Learn what each class looks like; parameters and errors are those of `learn_ratios`."""
        parameters = self.get_params(deep=False)
        self.model_ = learn_ratios(bags, proportions, noise=noise, **parameters)
        return self

    def predict(self, bag: Float[np.ndarray, "points features"]) -> ClassRatio:
        """Return the class ratio of one unlabelled bag, by `RatioModel.ratio`."""
        check_is_fitted(self)
        return self.model_.ratio(bag)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the features, where the bags were data frames with names."""
        return _names_in(self.model_.feature_names)

    @property
    def n_features_in_(self) -> int:
        """Features of a point."""
        return len(self.model_.scale)

    @property
    def method_(self) -> RatioMethod:
        """The method in use."""
        return self.model_.method

    @property
    def trials_(self) -> tuple[Trial, ...]:
        """Errors of each method on the bags left out; empty for a given bandwidth."""
        return self.model_.trials

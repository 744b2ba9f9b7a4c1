"""What a crowd decides by: decision images, the features of its errors, and psychometric functions.

`DecisionImage` learns a linear classifier of two classes and shows its image, pattern and portraits;
`compare_decision_images` puts the crowd's beside gold's; `error_image_test` names features that go with
errors, at a level; `PsychometricFunction` separates a worker's skill from carelessness,
`psychometric_posterior` those of many at once;
`RelevanceVectorClassifier` is a sparse classifier with probabilities.

>>> import numpy as np
>>> from learners import DecisionImage
>>> x = np.array([[0.0, 1.0], [0.2, 1.1], [1.0, 0.0], [1.1, 0.2]])
>>> DecisionImage("centroid").fit(x, [0, 0, 1, 1]).decision_image_.round(2)
array([ 0.95, -0.95])

All but `error_image_test` need scikit-learn and load when first used.
"""

from typing import TYPE_CHECKING, Any

from learners.images.error_images import ErrorImage, error_image_test

if TYPE_CHECKING:
    from learners.images.decision_image import (
        DecisionImage,
        ImageComparison,
        compare_decision_images,
    )
    from learners.images.psychometric import (
        PsychometricFunction,
        PsychometricPosterior,
        psychometric_posterior,
    )
    from learners.images.relevance_vectors import RelevanceVectorClassifier

__all__ = [
    "DecisionImage", "ErrorImage", "ImageComparison", "PsychometricFunction",
    "PsychometricPosterior", "RelevanceVectorClassifier", "compare_decision_images",
    "error_image_test", "psychometric_posterior",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # not earlier: they load scikit-learn
    from learners.images import decision_image, psychometric, relevance_vectors

    files = (decision_image, psychometric, relevance_vectors)
    return getattr(next(one for one in files if name in one.__all__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

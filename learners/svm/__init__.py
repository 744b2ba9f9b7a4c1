"""The potential support vector machine: classifiers and regressions on proximities of any shape and sign.

`PotentialSVC` and `PotentialSVR` take rows, or a matrix of proximities that need not be square, symmetric or
positive. `epsilon_path` shows which columns of such a matrix each tolerance keeps. Choose a scikit-learn
`SVC` for a square kernel that is positive definite: its error is no larger.

>>> import numpy as np
>>> plummer_kernel(np.array([[0.0], [3.0]]), np.array([[0.0]]), exponent=2.0, softening=1.0)
array([[1. ],
       [0.1]])

The estimators load scikit-learn when first used.
"""

from typing import TYPE_CHECKING, Any

from learners.svm.potential_program import BoxLasso, EpsilonPath, box_lasso, epsilon_path
from learners.svm.proximities import coulomb_kernel, coulomb_radii, plummer_kernel

if TYPE_CHECKING:
    from learners.svm.potential_machines import PotentialSVC, PotentialSVR

__all__ = [
    "BoxLasso", "EpsilonPath", "PotentialSVC", "PotentialSVR", "box_lasso", "coulomb_kernel",
    "coulomb_radii", "epsilon_path", "plummer_kernel",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learners.svm import potential_machines  # not earlier: it loads scikit-learn

    return getattr(potential_machines, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

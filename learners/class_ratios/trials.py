"""Compare the methods for class ratios on labelled bags that are left out in turn.

A method is a `RatioMethod`; its `Trial` holds the errors on the bags left out; `preferred` takes a trial.

>>> from learners.class_ratios.kernel_matching import KernelMatching
>>> method = KernelMatching(bandwidth=1.0)
>>> sure = Trial(method, np.array([0.03, 0.06, 0.05]), 0.05)
>>> lucky = Trial(method, np.array([0.02, 0.07, 0.04]), 0.09)
>>> preferred([lucky, sure]).expected_error
0.05
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float

from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.matched_means import MatchedMeans
from learners.class_ratios.mean_matching import parts_left_out

__all__ = [
    "Match", "Matcher", "RatioMethod", "Trial", "check_methods", "expected_left_out", "preferred",
    "refitted_trial",
]  # fmt: skip

STANDARD_ERRORS = 2.0

Match: TypeAlias = tuple[MatchedMeans, Float[np.ndarray, "points bags"]]


@runtime_checkable
class Matcher(Protocol):
    """A method trained on labelled bags."""

    @property
    def bandwidth(self) -> float | None:
        """Bandwidth of the kernel; None without a kernel."""

    def match(self, point: Float[np.ndarray, "points features"]) -> Match:
        """Return the labelled bags' means, and the inner product of each point with each mean."""


@runtime_checkable
class RatioMethod(Protocol):
    """A method that learns class ratios from labelled bags."""

    @property
    def name(self) -> str:
        """Name in reports."""

    def trial(self, labelled: LabelledBags) -> "Trial":
        """Choose the open parameters, and return the errors on bags left out."""

    def fit(self, labelled: LabelledBags) -> Matcher:
        """Train on all bags."""


def check_methods(methods: Sequence[RatioMethod] | None) -> None:
    """Raise ValueError unless these are methods to choose among, one at least, or None.

    Examples
    --------
    >>> from learners.class_ratios.kernel_matching import KernelMatching
    >>> check_methods([KernelMatching])
    Traceback (most recent call last):
        ...
    ValueError: methods must be instances, got the class KernelMatching: write KernelMatching()
    """
    if methods is None:
        return
    if not isinstance(methods, Collection):
        raise ValueError(
            f"methods must be None or a list of methods, got {type(methods).__name__}: wrap it in a list"
        )
    if not len(methods) > 0:
        raise ValueError("methods must be None or name one method at least, got none")
    for method in methods:
        if isinstance(method, type):
            name = method.__name__
            raise ValueError(f"methods must be instances, got the class {name}: write {name}()")
        if not isinstance(method, RatioMethod):
            raise ValueError(
                f"methods must be methods such as KernelMatching(), got {type(method).__name__}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Errors of a method on bags left out.

    Parameters
    ----------
    method
        The method, with its parameters chosen.
    error
        L1 error of the proportions of every bag left out.
    expected_error
        Mean of that error by the delta method, from the covariance of the points. It ignores that
        classes may look different from bag to bag, but it is precise even for few bags.
    weight
        Weight of each bag left out, as `LabelledBags.evidence`; None: equal weights. The error on a bag
        whose shares are mostly noise is little evidence about the method.

    Examples
    --------
    >>> from learners.class_ratios.kernel_matching import KernelMatching
    >>> trial = Trial(KernelMatching(bandwidth=1.0), np.array([0.04, 0.06]), 0.07)
    >>> trial.method.name, trial.mean_error
    ('kernel mean matching', 0.05)
    """

    method: RatioMethod
    error: Float[np.ndarray, " left"]
    expected_error: float
    weight: Float[np.ndarray, " left"] | None = None

    @property
    def mean_error(self) -> float:
        """Weighted mean over the bags left out."""
        return float(np.average(self.error, weights=self.weight))


def refitted_trial(
    method: RatioMethod,
    labelled: LabelledBags,
    *,
    fit: Callable[[LabelledBags], Matcher] | None = None,
) -> Trial:
    """Return the errors of a method on bags left out, trained anew on the others each time.

    The method's parameters are chosen already; at least one part of the bags can be left out as in
    `parts_left_out`. `fit` trains on the remaining bags; None: `method.fit`. A quicker training is enough
    to compare methods.

    **Guarantees.** No point of a bag left out takes part in the training that predicts it.

    Examples
    --------
    >>> from learners.class_ratios.kernel_matching import KernelMatching
    >>> line = np.linspace(-1, 1, 50)[:, None]
    >>> bags = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
    >>> labelled = LabelledBags.of(bags, np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    >>> trial = refitted_trial(KernelMatching(bandwidth=1.0), labelled)
    >>> len(trial.error), trial.mean_error < 0.1
    (3, True)
    """
    error, expected, train = [], [], fit or method.fit
    parts = parts_left_out(labelled.mixture)
    for part in parts:
        matcher = train(labelled.only(np.setdiff1d(np.arange(len(labelled.mixture)), part)))
        for bag in part:
            means, product = matcher.match(labelled.points[bag])
            error.append(float(np.abs(means.ratio(product) - labelled.mixture[bag]).sum()))
            expected.append(means.expected_error(product))
    weight = labelled.evidence[np.concatenate(parts)]
    return Trial(method, np.array(error), float(np.mean(expected)), weight)


def expected_left_out(
    trial: Trial, noise: Float[np.ndarray, "bags classes classes"] | None
) -> float:
    """Return the expected error on bags left out, the noise of their own proportions included.

    Examples
    --------
    >>> from learners.class_ratios.kernel_matching import KernelMatching
    >>> expected_left_out(Trial(KernelMatching(bandwidth=1.0), np.array([0.04, 0.06]), 0.07), None)
    0.07
    """
    if noise is None:
        return trial.expected_error
    deviation = np.sqrt(np.diagonal(noise, axis1=1, axis2=2))
    return trial.expected_error + math.sqrt(2 / math.pi) * float(deviation.sum(axis=1).mean())


def preferred(trials: Sequence[Trial]) -> Trial:
    """Return the trial of the method to use, of at least one trial, all on the same bags.

    The errors on few bags do not separate good methods. So of all methods whose error is within two
    standard errors of the least [1]_, the one of least expected error is taken; of equally good ones the
    first. The standard error is that of the weighted mean difference, bag by bag, between a method's
    errors and those of the method that errs least.

    **Guarantees.** A method that errs more than another by the same amount on every bag is not taken.

    References
    ----------
    .. [1] Breiman, Friedman, Olshen, Stone, "Classification and regression trees", Wadsworth (1984),
       section 3.4.3: errors within a standard error count as equal.

    Examples
    --------
    >>> from learners.class_ratios.kernel_matching import KernelMatching
    >>> trial = Trial(KernelMatching(bandwidth=1.0), np.array([0.04, 0.06]), 0.07)
    >>> preferred([trial]) is trial
    True
    """
    best = min(trials, key=lambda trial: trial.mean_error)
    level = [one for one in trials if _as_good(one.error - best.error, best.weight)]
    return min(level, key=lambda trial: trial.expected_error)


def _as_good(excess: Float[np.ndarray, " left"], weight: Float[np.ndarray, " left"] | None) -> bool:
    """Return whether chance may explain an excess of errors, bag by bag."""
    share = np.full(len(excess), 1.0) if weight is None else weight
    share = share / share.sum()
    mean, n = float(share @ excess), len(excess)
    variance = float(np.square(share) @ np.square(excess - mean)) * n / max(n - 1, 1)
    return bool(mean <= STANDARD_ERRORS * math.sqrt(variance))

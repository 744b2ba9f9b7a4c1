"""The result of every aggregator (posterior, likeliest class, ties), and checks of what a caller asks for.

:func:`decide` turns a posterior into labels and ties, in the same way for every aggregator. :class:`Result`
is the base of the result classes: they get their repr and their read-only arrays from it. A result class
lists its own fields, so that it can be read without its base.

>>> label, tied = decide(np.array([[0.2, 0.8], [0.5, 0.5]]))
>>> label, tied
(array([1, 0], dtype=int16), array([False,  True]))

EM fits check iterations and tolerance, smoothing, and whether a table fits into memory:

>>> check_smoothing(0.0)
Traceback (most recent call last):
ValueError: smoothing must be >= 1e-100 and finite, got smoothing=0.0
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float64, Int16

from quality.labels import CrowdLabels, LabelError, NamedPosterior, fits_table, freeze_arrays
from quality.parallel import check_threads, kernel

__all__ = [
    "MAX_CELLS", "TIE", "Consensus", "Result", "check_cells", "check_distributions", "check_em",
    "check_posterior", "check_smoothing", "decide", "fills_matrices", "posterior_found",
]  # fmt: skip

MAX_CELLS = 2**27  # entries of the workers' confusion matrices: 1 GB; a fit holds four such tables
# entries, for each label and in all, up to which confusion matrices are worth a fit
NEARLY_EMPTY, CHEAP = 64, 2**17
PART = 4  # a table that may have a posterior may still have one with a fourth of its labels
MIN_ENTRY = 1e-100  # of the smoothing; keeps every entry of a table above the pass's TINY
TIE = 1e-12  # posteriors closer than this are equal: rounding must not choose a class


@runtime_checkable
class Consensus(Protocol):
    """The fields that the result of every aggregator has."""

    @property
    def posterior(self) -> Float64[np.ndarray, "tasks classes"]:
        """Belief in each class of each task; a row adds up to 1."""

    @property
    def label(self) -> Int16[np.ndarray, " tasks"]:
        """The class with the largest posterior; ties go to the lowest code."""

    @property
    def tied(self) -> Bool[np.ndarray, " tasks"]:
        """True where two or more classes have the largest posterior."""


# parts of a repr for the fields that a result has, in this order
REPR_PARTS: Mapping[str, Callable[[Any], str]] = {
    "scores": lambda result: f"{result.chosen} of {len(result.scores)} candidates",
    "label": lambda result: f"{len(result.label)} tasks",
    "tied": lambda result: f"{np.count_nonzero(result.tied)} tied",
    "strength": lambda result: f"strength {result.strength:.2f}",
    "converged": lambda result: (
        f"{'converged' if result.converged else 'not converged'} after {result.n_iter} iterations"
    ),
    "log_likelihood": lambda result: f"log-likelihood {result.log_likelihood:.1f}",
    "log_posterior": lambda result: f"log-posterior {result.log_posterior:.1f}",
}


class Result:
    """Base of the result dataclasses; it has methods and no fields.

    Its arrays are read-only, and its repr shows the fields that :data:`REPR_PARTS` lists.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        own = {field.name for field in fields(self)}  # type: ignore[arg-type]  # a dataclass
        known = {name for name in own if getattr(self, name) is not None}
        shown = ", ".join(text(self) for name, text in REPR_PARTS.items() if name in known)
        return f"{type(self).__name__}({shown})"


def decide(
    posterior: Float64[np.ndarray, "tasks classes"] | NamedPosterior,
) -> tuple[Int16[np.ndarray, " tasks"], Bool[np.ndarray, " tasks"]]:
    """Return the likeliest class of each task, ties going to the lowest code, and where they tie."""
    if isinstance(posterior, NamedPosterior):
        return posterior.decide()
    table = np.ascontiguousarray(posterior, dtype=np.float64).view()
    table.flags.writeable = False  # the kernel is compiled for one kind of array
    label = np.empty(len(table), dtype=np.int16)
    tied = np.zeros(len(table), dtype=np.bool_)
    _decide(table, label, tied)
    return label, tied


@kernel
def _decide(posterior, label, tied) -> None:
    """Write the first of the largest entries in each row, and whether there are others."""
    n_tasks, n_classes = posterior.shape
    for task in range(n_tasks):
        largest = posterior[task, 0]
        for code in range(1, n_classes):
            largest = max(largest, posterior[task, code])
        first = -1
        for code in range(n_classes):
            if posterior[task, code] >= largest - TIE:
                tied[task] = first >= 0
                first = code if first < 0 else first
        label[task] = first


def check_distributions(posterior: Float[np.ndarray, "tasks classes"]) -> None:
    """Raise ValueError unless there is one distribution over the classes per task.

    >>> check_distributions(np.array([[0.2, 0.8], [0.5, 0.5]]))
    """
    if not (posterior.ndim == 2 and posterior.shape[1] >= 1):
        raise ValueError(f"posterior must be of tasks and 1 class or more, got {posterior.shape}")
    if not _are_distributions(posterior):
        raise ValueError("posterior must hold rows of probabilities adding up to 1, got others")


def _are_distributions(posterior: np.ndarray) -> bool:
    return bool(np.all(posterior >= 0) and np.allclose(posterior.sum(axis=1), 1))


def posterior_found(
    fitted: object, n_tasks: int, n_classes: int, what: str
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the posterior that a caller's own aggregator returns; raise ValueError unless it is valid.

    `what` names the aggregator. Kernels do not check that tasks and classes exist.
    """
    posterior: Any = getattr(fitted, "posterior", None)
    shape = n_tasks, n_classes
    if not (isinstance(posterior, np.ndarray) and posterior.shape == shape):
        is_table = isinstance(posterior, np.ndarray)
        came = posterior.shape if is_table else f"a {type(fitted).__name__} without one"
        raise ValueError(f"{what} must return a posterior of shape {shape}, got {came}")
    if not _are_distributions(posterior):
        raise ValueError(f"{what} must return rows of probabilities adding up to 1, got others")
    table: np.ndarray = posterior.astype(np.float64, copy=False)
    return table


def check_cells(n_workers: int, n_answers: int, n_truths: int) -> None:
    """Raise LabelError unless memory holds confusion matrices of so many workers, answers and truths.

    >>> check_cells(2_000, 40, 40)
    """
    cells = n_workers * n_answers * n_truths
    if cells > MAX_CELLS:
        raise LabelError(
            f"confusion matrices must have at most {MAX_CELLS:,} cells in all, got {cells:,} of "
            f"{n_workers:,} workers, {n_answers:,} answers and {n_truths:,} truths; the aggregators of "
            "quality.many_classes need none",
            column="classes",
        )


def fills_matrices(n_workers: int, n_classes: int, n_labels: int) -> bool:
    """Return whether confusion matrices have few cells in all, or at most 64 for each label.

    >>> fills_matrices(100, 20, 1_000), fills_matrices(100, 998, 15_000)
    (True, False)
    """
    return n_workers * n_classes**2 <= max(CHEAP, NEARLY_EMPTY * n_labels)


def check_posterior(labels: CrowdLabels) -> None:
    """Raise LabelError if a posterior of all tasks would be huge and nearly empty.

    Tables that :func:`~quality.labels.check_table` accepts are accepted here with a fourth of their labels:
    the other labels may be held out, or of removed workers.

    >>> from quality import encode
    >>> check_posterior(encode(["ann", "bob"], [1, 1], ["no", "yes"]))
    """
    n_tasks, n_classes, n_labels = labels.n_tasks, labels.n_classes, labels.n_labels
    if not fits_table(n_tasks, n_classes, PART * n_labels):
        raise LabelError(
            f"tasks times classes must be at most {MAX_CELLS:,}, or some hundreds for each label, got "
            f"{n_tasks:,} tasks and {n_classes:,} classes with {n_labels:,} labels; the aggregators of "
            "quality.many_classes need no table of them",
            column="classes",
        )


def check_em(max_iter: int, tol: float, threads: int | None) -> None:
    """Raise ValueError unless max_iter >= 1, tol >= 0 and threads >= 1 or None."""
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got max_iter={max_iter}")
    if not tol >= 0:
        raise ValueError(f"tol must be >= 0, got tol={tol}")
    check_threads(threads)


def check_smoothing(smoothing: float) -> None:
    """Raise ValueError unless a table smoothed by this has only entries that the pass can multiply."""
    if not MIN_ENTRY <= smoothing < np.inf:
        raise ValueError(f"smoothing must be >= {MIN_ENTRY} and finite, got smoothing={smoothing}")

"""What every aggregator returns: a posterior over the classes, the likeliest class, and ties.

:func:`decide` turns a posterior into labels and ties, for every aggregator alike; :class:`Result`
is the base of the result classes. A result class lists its own fields, so that it can be read
without its base, and has its repr and its read-only arrays from here.

>>> label, tied = decide(np.array([[0.2, 0.8], [0.5, 0.5]]))
>>> label, tied
(array([1, 0], dtype=int16), array([False,  True]))
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int16

from quality.labels import NamedPosterior, freeze_arrays
from quality.parallel import kernel

__all__ = ["TIE", "Consensus", "Result", "decide"]

TIE = 1e-12  # posteriors closer than this are equal: rounding must not choose a class


@runtime_checkable
class Consensus(Protocol):
    """The fields that the result of every aggregator has."""

    @property
    def posterior(self) -> Float64[np.ndarray, "tasks classes"]:
        """Belief in each class of each task; a row adds up to 1."""

    @property
    def label(self) -> Int16[np.ndarray, " tasks"]:
        """The class with the largest posterior; the lowest code among equals."""

    @property
    def tied(self) -> Bool[np.ndarray, " tasks"]:
        """True where two or more classes have the largest posterior."""


# what a repr shows of the fields that a result has, in this order
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

    Its arrays are read-only, and its repr names those of its fields that :data:`REPR_PARTS` lists.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        own = {field.name for field in fields(self)}  # type: ignore[arg-type]  # a dataclass
        shown = ", ".join(text(self) for name, text in REPR_PARTS.items() if name in own)
        return f"{type(self).__name__}({shown})"


def decide(
    posterior: Float64[np.ndarray, "tasks classes"] | NamedPosterior,
) -> tuple[Int16[np.ndarray, " tasks"], Bool[np.ndarray, " tasks"]]:
    """Return the likeliest class of each task, the lowest code among equals, and where they tie."""
    if isinstance(posterior, NamedPosterior):
        return posterior.decide()
    table = np.ascontiguousarray(posterior).view()
    table.flags.writeable = False  # the kernel is compiled for one kind of array
    label = np.empty(len(table), dtype=np.int16)
    tied = np.zeros(len(table), dtype=np.bool_)
    _decide(table, label, tied)
    return label, tied


@kernel
def _decide(posterior, label, tied) -> None:
    """Write the first of the largest in each row, and whether there are others."""
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

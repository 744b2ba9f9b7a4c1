"""Where EM may start instead of the majority vote: at what an earlier fit believed, by name."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Shaped

from quality.labels.codes import freeze_arrays, lookup

__all__ = ["EMStart", "start_between"]

LEAST_BELIEF = 1e-150  # what a product of two still has digits for


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EMStart:
    """What a fit of an earlier table believed of workers and classes, for EM to go on from.

    Parameters
    ----------
    workers, classes
        Names, each once.
    prior
        P(truth); zero where nothing is known of a class.
    confusion
        P(answer | truth) of each worker, as ``confusion[worker, truth, answer]``; zero where
        nothing is known.

    Raises
    ------
    ValueError
        If a name stands twice, a shape does not fit the names, or a number is negative, not finite
        or above zero and below 1e-150.

    Notes
    -----
    EM finds a stationary point, and a table of labels may have many: from here it may find another
    than from the majority vote. Where workers have given many labels, or each has one reliability
    alone, both starts commonly end in the same one, and this one sooner; with few labels for each
    confusion matrix they often do not (``python -m benchmarks.quality.warm_start``).

    **Guarantees.** Workers and classes are matched by name, whatever their codes. Who or what is
    new to it starts as under the majority vote, and what has gone is forgotten. A fit that had
    settled, and starts from itself on the same labels, has settled again after two iterations.

    Examples
    --------
    >>> from quality import dawid_skene, encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> fit = dawid_skene(labels)
    >>> start = EMStart(labels.workers, labels.classes, fit.prior, fit.confusion)
    >>> fit.n_iter, dawid_skene(labels, start=start).n_iter
    (7, 2)
    """

    workers: Shaped[np.ndarray, " workers"]
    classes: Shaped[np.ndarray, " classes"]
    prior: Float64[np.ndarray, " classes"]
    confusion: Float64[np.ndarray, "workers classes classes"]

    def __post_init__(self) -> None:
        shape = (len(self.workers), len(self.classes), len(self.classes))
        if not (self.prior.shape == shape[1:2] and self.confusion.shape == shape):
            raise ValueError(
                f"prior and confusion must have shapes {shape[1:2]} and {shape}, got "
                f"{self.prior.shape} and {self.confusion.shape}"
            )
        for name, names in (("workers", self.workers), ("classes", self.classes)):
            if not len(set(names.tolist())) == len(names):
                raise ValueError(f"{name} must all differ")
        for name, believed in (("prior", self.prior), ("confusion", self.confusion)):
            sound = (believed == 0) | ((believed >= LEAST_BELIEF) & (believed < np.inf))
            if not sound.all():
                raise ValueError(f"{name} must be finite, and zero or at least {LEAST_BELIEF}")
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"EMStart({len(self.workers)} workers, {len(self.classes)} classes)"

    def matched(
        self, workers: Shaped[np.ndarray, " found"], classes: Shaped[np.ndarray, " kinds"]
    ) -> "EMStart":
        """Return what is known of these workers and classes, in their order; zero of others."""
        worker, kind = lookup(workers, self.workers), lookup(classes, self.classes)
        here, there = worker >= 0, kind >= 0
        prior, confusion = np.zeros(len(kind)), np.zeros((len(worker), len(kind), len(kind)))
        prior[there] = self.prior[kind[there]]
        old = np.ix_(worker[here], kind[there], kind[there])
        confusion[np.ix_(here, there, there)] = self.confusion[old]
        return EMStart(workers, classes, prior, confusion)


def start_between(
    known: EMStart,
    prior: Float64[np.ndarray, " classes"],
    table: Float64[np.ndarray, "workers answers truths"],
) -> tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, "workers answers truths"]]:
    """Put what is known, in the same order, in the place of a prior and a table."""
    # a class that nobody names now has none of the prior, and keeps none
    mixed = np.where((prior > 0) & (known.prior > 0), known.prior, prior)
    believed = known.confusion.transpose(0, 2, 1)
    cells = np.where(believed > 0, believed, table)
    return mixed / mixed.sum(), cells / cells.sum(axis=1, keepdims=True)

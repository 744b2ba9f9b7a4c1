"""Votes over the classes that each task was given, and the result of every aggregator of this room.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], ["no", "yes", "yes"])
>>> labels.classes[majority_of_named(labels).label]
array(['yes'], dtype='<U3')
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int16

from quality.aggregation import (
    MAX_CELLS,
    Result,
    check_weight,
    scaled_weight,
    weights_of_voters,
)
from quality.labels import CrowdLabels, NamedClasses, NamedPosterior, fits_table, name_classes
from quality.matching import conflict_graph, conflict_tasks, semi_matching

__all__ = [
    "NamedConsensus", "as_consensus", "majority_of_named", "needs_names", "penalty_of_named",
    "weighted_of_named",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedConsensus(Result):
    """Result of every aggregator of :mod:`quality.many_classes`.

    Parameters
    ----------
    posterior
        P(truth | labels), as in the aggregator for few classes.
    label, tied
        As in :class:`~quality.Consensus`.
    reliability
        P(label = truth) of each worker; None if the aggregator has no such number.
    skill
        The aggregator's other number for each worker: an ability, a competence; None if there is none.
    log_likelihood
        The objective that the iterations raise, in nats; None if there is none.
    n_iter, converged
        Iterations made, and whether they had settled by then.
    """

    posterior: NamedPosterior
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    reliability: Float64[np.ndarray, " workers"] | None = None
    skill: Float64[np.ndarray, " workers"] | None = None
    log_likelihood: float | None = None
    n_iter: int = 1
    converged: bool = True


def as_consensus(
    posterior: NamedPosterior,
    *,
    reliability: Float64[np.ndarray, " workers"] | None = None,
    skill: Float64[np.ndarray, " workers"] | None = None,
    log_likelihood: float | None = None,
    n_iter: int = 1,
    converged: bool = True,
) -> NamedConsensus:
    """Return the result for a posterior."""
    label, tied = posterior.decide()
    return NamedConsensus(
        posterior, label, tied, reliability, skill, log_likelihood, n_iter, converged
    )


def needs_names(labels: CrowdLabels) -> bool:
    """Return whether there are too many classes for confusion matrices, or for a table of all tasks.

    The limit is 134,217,728 cells for the matrices of all workers. The table of tasks by classes has the
    same limit, or a hundred cells for each label, whichever is larger.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob"], [1, 1], ["no", "yes"], classes=["no", "yes"])
    >>> needs_names(labels)
    False
    """
    if labels.n_workers * labels.n_classes**2 > MAX_CELLS:
        return True
    return not fits_table(labels.n_tasks, labels.n_classes, labels.n_labels)


def majority_of_named(
    labels: CrowdLabels, *, groups: Int[np.ndarray, " workers"] | None = None
) -> NamedConsensus:
    """Give every task the class that most of its workers gave it: :func:`~quality.majority_vote`.

    Parameters
    ----------
    labels, groups
        As for that function, errors included.

    Notes
    -----
    **Guarantees.** The posterior is that of :func:`~quality.majority_vote`.

    **Cost.** O(labels log labels), for any number of classes.
    """
    labels = labels.merge_workers(groups)
    named = name_classes(labels)
    return as_consensus(_shares(named, named.votes))


def weighted_of_named(
    labels: CrowdLabels,
    weight: Float[np.ndarray, " workers"],
    *,
    groups: Int[np.ndarray, " workers"] | None = None,
) -> NamedConsensus:
    """Give every task the class with the most weight behind it: :func:`~quality.weighted_majority`.

    Parameters
    ----------
    labels, weight, groups
        As for that function, errors included.

    Notes
    -----
    **Guarantees.** The posterior is that of :func:`~quality.weighted_majority`.

    **Cost.** That of :func:`majority_of_named`.
    """
    check_weight(labels, weight)
    if groups is not None:
        # members of weight 0 have no say in a group's label
        labels = labels.keep_workers(weight > 0).merge_workers(groups)
        weight = weights_of_voters(weight, groups)
    named = name_classes(labels)
    support = np.bincount(named.entry, scaled_weight(weight)[labels.worker], len(named.code))
    return as_consensus(_shares(named, support.astype(np.float64)))  # integers if empty


def penalty_of_named(
    labels: CrowdLabels, *, groups: Int[np.ndarray, " workers"] | None = None
) -> NamedConsensus:
    """Give every task the class whose representative has the lowest load: :func:`~quality.penalty_vote`.

    Parameters
    ----------
    labels, groups
        As for that function, errors included.

    Notes
    -----
    **Guarantees.** The posterior is that of :func:`~quality.penalty_vote`.

    **Cost.** One optimal semi-matching.
    """
    labels = labels.merge_workers(groups)
    named = name_classes(labels)
    matching = semi_matching(conflict_graph(labels))
    load = np.zeros(len(named.code))  # a class that nobody contradicts needs no representative
    # entries have the order of tasks, then classes, as the label nodes have
    load[conflict_tasks(labels)[named.task]] = matching.load[matching.assigned]
    least = -named.largest(-load)
    return as_consensus(_shares(named, (load == least[named.task]).astype(np.float64)))


def _shares(named: NamedClasses, support: Float64[np.ndarray, " entries"]) -> NamedPosterior:
    """Return each class's share of a task's support; equal shares without support."""
    total, n_classes = named.sums(support), max(named.n_classes, 1)
    even = np.full(len(support), 1.0 / n_classes)
    p = np.divide(support, total[named.task], out=even, where=total[named.task] > 0)
    n_others = n_classes - np.diff(named.start)
    return NamedPosterior(named, p, np.where(total > 0, 0.0, n_others / n_classes))

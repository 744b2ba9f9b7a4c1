"""What one pass over shards says about the workers, how far they agree, and of groups of tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int, Int64

from quality.aggregation.majority import decide
from quality.labels.codes import freeze_arrays
from quality.labels.shards import Engine, LabelShard, Sums
from quality.reports.agreement import alpha_of, alpha_sums
from quality.reputation.penalties import mean_share, tally_shares, unit_shares

__all__ = [
    "CrowdSums", "Groups", "Posterior", "class_sums", "crowd_sums", "share_sums",
    "soft_penalty_by_shards",
]  # fmt: skip

Posterior = Callable[[LabelShard, Any], Float64[np.ndarray, "tasks classes"]]
Groups = Callable[[LabelShard], Int[np.ndarray, " tasks"]]


@dataclass(frozen=True, slots=True, eq=False)
class CrowdSums:
    """Result of :func:`crowd_sums`.

    Parameters
    ----------
    given
        How often each worker gave each class.
    agreed
        Her labels that equal the consensus.
    gold_n, gold_correct
        Her labels on tasks with gold, and the right ones among them.
    n_conflict
        Her labels on conflict tasks.
    soft_penalty
        As :func:`~quality.soft_penalty`.
    alpha, alpha_kept
        Krippendorff's alpha of all labels, and of those of the workers kept.
    """

    given: Int64[np.ndarray, "workers classes"]
    agreed: Int64[np.ndarray, " workers"]
    gold_n: Int64[np.ndarray, " workers"]
    gold_correct: Int64[np.ndarray, " workers"]
    n_conflict: Int64[np.ndarray, " workers"]
    soft_penalty: Float64[np.ndarray, " workers"]
    alpha: float
    alpha_kept: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def n_labels(self) -> Int64[np.ndarray, " workers"]:
        """Labels of each worker."""
        total: np.ndarray = self.given.sum(axis=1)
        return total

    @property
    def only_class(self) -> Int64[np.ndarray, " workers"]:
        """The class that all of a worker's labels name, if they are two or more; -1 otherwise."""
        constant = (self.n_labels > 1) & (np.count_nonzero(self.given, axis=1) == 1)
        return np.where(constant, self.given.argmax(axis=1), -1)

    @property
    def agreement(self) -> Float64[np.ndarray, " workers"]:
        """Share of each worker's labels that equal the consensus; NaN without labels."""
        share = np.full(len(self.agreed), np.nan)
        np.divide(self.agreed, self.n_labels, out=share, where=self.n_labels > 0)
        return share


def crowd_sums(
    engine: Engine, keep: Bool[np.ndarray, " workers"], posterior: Posterior, belief: Any
) -> CrowdSums:
    """Count what the labels say about each worker, beside a consensus of the workers kept.

    Parameters
    ----------
    engine
        Where the shards of all labels are worked on.
    keep
        True for each worker whose labels make the consensus.
    posterior, belief
        The consensus is the likeliest class of ``posterior(shard, belief)`` of the labels kept:
        :func:`~quality.aggregation.sharded_em.posterior_of_shard`, say, and a fit.

    Notes
    -----
    **Guarantees.** The counts and the soft penalty are, to the bit, those of the whole table; alpha
    differs by rounding. The same bytes on any engine.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels.local_engine import LocalEngine
    >>> from quality.aggregation.sharded_em import majority_of_shard
    >>> from quality.labels.shards import cut_labels
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
    >>> engine = LocalEngine(cut_labels(labels, [0, 1, 2]))
    >>> found = crowd_sums(engine, np.ones(3, dtype=bool), majority_of_shard, None)
    >>> found.soft_penalty, found.agreement, found.only_class
    (array([0.5, 1. , 0.5]), array([1., 0., 1.]), array([ 0, -1, -1]))
    """
    sums = engine.add_up(_about_workers, (keep, posterior, belief))
    given, agreed, gold_n, gold_correct, shares, *pairs = sums
    return CrowdSums(
        given, agreed, gold_n, gold_correct, shares[:, 2].copy(), mean_share(shares),
        alpha_of(*pairs[:2]), alpha_of(*pairs[2:]),
    )  # fmt: skip


def class_sums(
    engine: Engine, group: Groups, n_groups: int, posterior: Posterior, belief: Any
) -> Int64[np.ndarray, "groups classes"]:
    """Count the consensus classes of each group of tasks.

    Parameters
    ----------
    engine
        Where the shards of the labels that make the consensus are worked on.
    group
        Says the group codes of a shard's tasks; importable by name, like `posterior`.
    n_groups
        Number of groups; one without tasks has counts of 0.
    posterior, belief
        The consensus is the likeliest class of ``posterior(shard, belief)``.

    Notes
    -----
    **Guarantees.** The counts are those of the whole table's consensus: sums of integers, equal on
    any engine and for any cut into shards.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels.local_engine import LocalEngine
    >>> from quality.aggregation.sharded_em import majority_of_shard
    >>> from quality.labels.shards import cut_labels
    >>> labels = encode(["ann", "bob", "ann", "ann"], [1, 1, 2, 3], list("xxyx"))
    >>> engine = LocalEngine(cut_labels(labels, [0, 2, 3]))
    >>> def parity(shard):
    ...     return (shard.first_task + np.arange(shard.n_tasks)) % 2
    >>> class_sums(engine, parity, 2, majority_of_shard, None)
    array([[2, 0],
           [0, 1]])
    """
    (counts,) = engine.add_up(_about_groups, (n_groups, group, posterior, belief))
    return counts


def soft_penalty_by_shards(engine: Engine) -> Float64[np.ndarray, " workers"]:
    """Return :func:`~quality.soft_penalty`, to the bit, of a table in shards.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels.local_engine import LocalEngine
    >>> from quality.labels.shards import cut_labels
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
    >>> soft_penalty_by_shards(LocalEngine(cut_labels(labels, [0, 1, 2])))
    array([0.5, 1. , 0.5])
    """
    return mean_share(engine.add_up(share_sums, None)[0])


def share_sums(shard: LabelShard, keep: Bool[np.ndarray, " workers"] | None) -> Sums:
    """Return what a shard adds to the soft penalties' tally of the workers kept, or of all."""
    total = np.zeros((shard.n_workers, 3), dtype=np.int64)
    everybody = np.ones(shard.n_workers, dtype=np.bool_) if keep is None else keep
    tasks = np.arange(shard.n_tasks, dtype=np.int32)
    tally_shares(total, tasks, 1, shard, everybody, unit_shares(shard))
    return (total,)


def _about_workers(shard: LabelShard, parameters: tuple[np.ndarray, Posterior, Any]) -> Sums:
    """What a shard adds to the sums of :func:`crowd_sums`."""
    keep, posterior, belief = parameters
    kept = shard.keep_workers(keep)
    consensus, _ = decide(posterior(kept, belief))
    n_labels = np.diff(shard.task_start)
    truth = np.repeat(shard.gold, n_labels)
    cell = shard.worker.astype(np.int64) * shard.n_classes + shard.label
    given = np.bincount(cell, minlength=shard.n_workers * shard.n_classes)
    return (
        given.reshape(shard.n_workers, shard.n_classes),
        _count(shard, shard.label == np.repeat(consensus, n_labels)),
        _count(shard, truth >= 0),
        _count(shard, shard.label == truth),
        *share_sums(shard, None),
        *alpha_sums(shard.counts()),
        *alpha_sums(kept.counts()),
    )


def _about_groups(shard: LabelShard, parameters: tuple[int, Groups, Posterior, Any]) -> Sums:
    """What a shard adds to the counts of :func:`class_sums`."""
    n_groups, group, posterior, belief = parameters
    consensus, _ = decide(posterior(shard, belief))
    cell = group(shard).astype(np.int64) * shard.n_classes + consensus
    count = np.bincount(cell, minlength=n_groups * shard.n_classes)
    return (count.reshape(n_groups, shard.n_classes),)


def _count(shard: LabelShard, chosen: Bool[np.ndarray, " labels"]) -> Int64[np.ndarray, " workers"]:
    """How many of the rows chosen are each worker's."""
    return np.bincount(shard.worker[chosen], minlength=shard.n_workers)

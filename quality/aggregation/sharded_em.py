"""Dawid–Skene and its one-coin form over shards: the same kernel and the same iterations.

What travels is the table of probabilities to the shards, and expected counts back: as many numbers
as workers times classes squared, however many labels there are.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int, Int64

from quality.aggregation.dawid_skene_em import one_coin_table, smoothed_table
from quality.aggregation.em import (
    EMFit,
    EMStart,
    begin_em,
    believe_under,
    check_em,
    check_smoothing,
    climb,
    em_rows,
    go_on_from,
    pass_chunk,
    start_chunk,
)
from quality.aggregation.majority import decide
from quality.labels import Engine, LabelShard, Sums

__all__ = [
    "Groups",
    "Posterior",
    "ShardBelief",
    "class_sums",
    "dawid_skene_by_shards",
    "majority_of_shard",
    "one_coin_by_shards",
    "posterior_of_shard",
]

Posterior = Callable[[LabelShard, Any], Float64[np.ndarray, "tasks classes"]]
Groups = Callable[[LabelShard], Int[np.ndarray, " tasks"]]

Table = Float64[np.ndarray, "workers answers truths"]
ShardBelief = tuple[np.ndarray, np.ndarray, bool]  # prior, table, and whether gold counts


def dawid_skene_by_shards(
    engine: Engine,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    use_gold: bool = False,
    start: EMStart | None = None,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] = lambda _: None,
) -> EMFit:
    """Fit :func:`~quality.dawid_skene` to a table in shards.

    Parameters
    ----------
    engine
        Where the shards are worked on.
    max_iter, tol, smoothing
        As for :func:`~quality.dawid_skene`.
    use_gold
        Whether the gold of the shards counts.
    start
        What an earlier fit believed of this table's workers and classes, in the order of their
        codes (:meth:`~quality.EMStart.matched`).
    begun
        Where an earlier run of the same fit stood: it goes on from there.
    after
        Told of the fit after every iteration: what a checkpoint is made of.

    Returns
    -------
    EMFit
        :func:`posterior_of_shard` says what it believes of each task.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or `start` is of other workers or classes.

    Notes
    -----
    **Guarantees.** The same bytes on any engine, and from any iteration gone on from. The same
    bytes as :func:`~quality.dawid_skene` of the whole table where its chunks are the shards;
    elsewhere sums are added in another order, and differ by rounding.

    **Cost.** One pass over the shards per iteration. ``workers * classes**2`` numbers of 8 bytes go
    to each place of work per iteration, and as many come back from each shard.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels.shards import LocalEngine
    >>> from quality.labels.shards import cut_labels
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> fit = dawid_skene_by_shards(LocalEngine(cut_labels(labels, [0, 2, 4])))
    >>> fit.converged, fit.table[2].T.round(2)  # cy says "b" whatever the truth
    (True, array([[0., 1.],
           [0., 1.]]))
    """
    check_smoothing(smoothing)
    m_step = partial(smoothed_table, smoothing=smoothing)
    return _fit(engine, m_step, max_iter, tol, use_gold, start, begun, after)


def one_coin_by_shards(
    engine: Engine,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    use_gold: bool = False,
    start: EMStart | None = None,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] = lambda _: None,
) -> EMFit:
    """Fit :func:`~quality.one_coin_dawid_skene` to a table in shards.

    Parameters, result, guarantees and cost are those of :func:`dawid_skene_by_shards`.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels.shards import LocalEngine
    >>> from quality.labels.shards import cut_labels
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbba"))
    >>> one_coin_by_shards(LocalEngine(cut_labels(labels, [0, 2, 4]))).table[:, 0, 0].round(2)
    array([1.  , 1.  , 0.25])
    """
    check_smoothing(smoothing)
    m_step = partial(one_coin_table, smoothing=smoothing)
    return _fit(engine, m_step, max_iter, tol, use_gold, start, begun, after)


def posterior_of_shard(
    shard: LabelShard, belief: ShardBelief
) -> Float64[np.ndarray, "tasks classes"]:
    """Return P(truth | labels) of a shard's tasks under a fit, certain where gold counts."""
    prior, table, use_gold = belief
    return believe_under(em_rows(shard, _gold(shard, use_gold), whole=True), prior, table, 1)


def majority_of_shard(shard: LabelShard, _: object) -> Float64[np.ndarray, "tasks classes"]:
    """Return each class's share of the labels of a shard's tasks: :func:`~quality.majority_vote`."""
    counts = shard.counts()
    n_labels = counts.sum(axis=1, keepdims=True)
    even = np.full(counts.shape, 1.0 / shard.n_classes)
    share: np.ndarray = np.divide(counts, n_labels, out=even, where=n_labels > 0)
    return share


def _fit(
    engine: Engine,
    m_step: Callable[[Table], Table],
    max_iter: int,
    tol: float,
    use_gold: bool,
    start: EMStart | None,
    begun: EMFit | None,
    after: Callable[[EMFit], object],
) -> EMFit:
    """EM whose passes are an engine's."""
    check_em(max_iter, tol, None)

    def iterate(prior: np.ndarray, table: Table) -> Sums:
        return engine.add_up(_iterate, (prior, table, use_gold))

    if begun is None:
        counts, mass = engine.add_up(_start, use_gold)
        if start is not None:
            counts, mass = go_on_from(_check_start(start, counts), (counts, mass), m_step, iterate)
        begun = begin_em(counts, mass, m_step)
    return climb(
        begun,
        iterate,
        m_step,
        n_labels=round(float(begun.counts.sum())),  # each label counts once over the truths
        max_iter=max_iter,
        tol=tol,
        after=after,
    )


def _check_start(start: EMStart, counts: Table) -> EMStart:
    """Refuse a start that was not matched with the table."""
    if not start.confusion.shape == counts.shape:
        raise ValueError(
            f"start must be of {len(counts)} workers and {counts.shape[1]} classes, got "
            f"{len(start.workers)} and {len(start.classes)}"
        )
    return start


def _start(shard: LabelShard, use_gold: bool) -> Sums:
    """What a shard adds to the counts that EM starts from."""
    return start_chunk(em_rows(shard, _gold(shard, use_gold), whole=True), 0)


def _iterate(shard: LabelShard, parameters: ShardBelief) -> Sums:
    """What a shard adds to an iteration."""
    prior, table, use_gold = parameters
    rows = em_rows(shard, _gold(shard, use_gold), whole=True)
    flat = np.ascontiguousarray(table).reshape(-1)
    nothing = np.empty((0, shard.n_classes))
    counts, *others = pass_chunk(rows, 0, prior, flat, np.empty_like(flat), nothing)
    return counts.reshape(rows.shape), *others


def _gold(shard: LabelShard, use_gold: bool) -> Int[np.ndarray, " tasks"] | None:
    return shard.gold if use_gold else None


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
    >>> from quality.labels.shards import LocalEngine
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


def _about_groups(shard: LabelShard, parameters: tuple[int, Groups, Posterior, Any]) -> Sums:
    """What a shard adds to the counts of :func:`class_sums`."""
    n_groups, group, posterior, belief = parameters
    consensus, _ = decide(posterior(shard, belief))
    cell = group(shard).astype(np.int64) * shard.n_classes + consensus
    count = np.bincount(cell, minlength=n_groups * shard.n_classes)
    return (count.reshape(n_groups, shard.n_classes),)

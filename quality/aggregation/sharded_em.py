"""Dawid–Skene, one-coin, hierarchical and MACE, for tables in shards: the same loops and the same passes.

Each iteration sends the table of probabilities to the shards and receives expected counts: as many numbers
as workers times classes squared, for any number of labels.

>>> from quality import encode
>>> from quality.labels import LocalEngine, cut_labels
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> engine = LocalEngine(cut_labels(labels, [0, 1, 2]))
>>> fit = dawid_skene_by_shards(engine)
>>> engine.map(posterior_of_shard, (fit.prior, fit.table, False))[0].round(2)
array([[1., 0.]])
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64, Int, Int64

from quality.aggregation.consensus import check_em, check_smoothing, decide
from quality.aggregation.dawid_skene_em import first_coins, one_coin_step, smoothed_table
from quality.aggregation.em import (
    Begin,
    EMFit,
    EMStart,
    Stop,
    TablePasses,
    first_counts,
    fit_em,
    shard_passes,
    uniform,
)
from quality.aggregation.hierarchical_em import (
    ANCHOR,
    MAX_STRENGTH,
    check_shared_prior,
    fit_hierarchical,
)
from quality.aggregation.mace_em import know_or_guess, mace_coins
from quality.aggregation.majority import weight_shares
from quality.argument_types import check_arguments
from quality.labels import Engine, LabelShard, Sums

__all__ = [
    "Groups",
    "Posterior",
    "ShardBelief",
    "class_sums",
    "dawid_skene_by_shards",
    "hierarchical_by_shards",
    "mace_by_shards",
    "majority_of_shard",
    "one_coin_by_shards",
    "posterior_of_groups",
    "posterior_of_shard",
    "weighted_of_shard",
]

Posterior = Callable[[LabelShard, Any], Float64[np.ndarray, "tasks classes"]]
Groups = Callable[[LabelShard], Int[np.ndarray, " tasks"]]

Table = Float64[np.ndarray, "workers answers truths"]
ShardBelief = tuple[np.ndarray, np.ndarray, bool]  # prior, table, and whether gold counts


@check_arguments
def dawid_skene_by_shards(
    engine: Engine,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    use_gold: bool = False,
    start: EMStart | None = None,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] | None = None,
) -> EMFit:
    """Fit :func:`~quality.dawid_skene` to a table in shards.

    Parameters
    ----------
    engine
        Engine that works on the shards of the table.
    max_iter, tol, smoothing
        As for :func:`~quality.dawid_skene`.
    use_gold
        Whether the gold of the shards counts.
    start
        Initial parameters of this table's workers and classes, in the order of their codes
        (:meth:`~quality.EMStart.matched`); EM starts from the majority vote if None.
    begun
        The state after some iteration of an earlier run of the same fit, to continue from.
    after
        Called with the fit after every iteration, to keep it as a checkpoint.

    Returns
    -------
    EMFit
        :func:`posterior_of_shard` turns it into the posterior of each task.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or `start` is of other workers or classes.

    Notes
    -----
    **Guarantees.** The result is the same bytes on any engine, and from any iteration that it continues
    from. It is the same bytes as :func:`~quality.dawid_skene` of the whole table if its chunks are the
    shards; otherwise sums are added in another order, and differ by rounding.

    **Cost.** One pass over the shards per iteration. ``workers * classes**2`` numbers of 8 bytes go to each
    process or machine per iteration, and the same number returns from each shard.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels import LocalEngine, cut_labels
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


@check_arguments
def one_coin_by_shards(
    engine: Engine,
    *,
    max_iter: int = 100,
    tol: float = 1e-7,
    smoothing: float = 0.01,
    use_gold: bool = False,
    start: EMStart | None = None,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] | None = None,
) -> EMFit:
    """Fit :func:`~quality.one_coin_dawid_skene` to a table in shards.

    Parameters, result, guarantees and cost are those of :func:`dawid_skene_by_shards`.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels import LocalEngine, cut_labels
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbba"))
    >>> one_coin_by_shards(LocalEngine(cut_labels(labels, [0, 2, 4]))).table[:, 0, 0].round(2)
    array([1.  , 1.  , 0.25])
    """
    check_smoothing(smoothing)
    coins, m_step = one_coin_step(engine.map(_n_classes, None)[0], smoothing)
    return _fit(
        engine, m_step, max_iter, tol, use_gold, start, begun, after,
        coins=coins, begin=partial(first_coins, smoothing=smoothing),
    )  # fmt: skip


@check_arguments
def hierarchical_by_shards(
    engine: Engine,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    anchor: float = ANCHOR,
    most_strength: float = MAX_STRENGTH,
    use_gold: bool = False,
    start: EMStart | None = None,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] | None = None,
) -> EMFit:
    """Fit :func:`~quality.hierarchical_dawid_skene` to a table in shards.

    Parameters
    ----------
    engine, use_gold, start
        As for :func:`dawid_skene_by_shards`.
    max_iter, tol, anchor, most_strength
        As for :func:`~quality.hierarchical_dawid_skene`.
    begun
        The state after a stage of an earlier run of the same fit, to continue from.
    after
        Called with the fit after every stage of five iterations with one shared prior.

    Returns
    -------
    EMFit
        Its `shared` has the crowd's confusion and the strength.

    Raises
    ------
    ValueError
        As for :func:`dawid_skene_by_shards`.

    Notes
    -----
    Guarantees and cost are those of :func:`dawid_skene_by_shards`, for the states that `after` receives.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels import LocalEngine, cut_labels
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> fit = hierarchical_by_shards(LocalEngine(cut_labels(labels, [0, 2, 4])))
    >>> fit.shared.mean.T.round(2)  # the crowd's confusion
    array([[0.79, 0.21],
           [0.21, 0.79]])
    """
    check_em(max_iter, tol, None)
    check_shared_prior(anchor, most_strength)
    passes = _EnginePasses(engine, use_gold)
    return fit_hierarchical(
        passes, anchor, most_strength, max_iter=max_iter, tol=tol, start=start, begun=begun, after=after
    )  # fmt: skip


def mace_by_shards(
    engine: Engine,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    use_gold: bool = False,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] | None = None,
) -> EMFit:
    """Fit :func:`~quality.mace`, with its own priors, to a table in shards.

    Parameters, result, guarantees and cost are those of :func:`dawid_skene_by_shards`, except for `begun`:
    an M step continues from parameters of the step before, which a state does not contain. So an unfinished
    fit starts again from the beginning, and reaches the same end.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels import LocalEngine, cut_labels
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> labels = encode(workers, tasks, list("aabbbbaabbbb"))
    >>> mace_by_shards(LocalEngine(cut_labels(labels, [0, 2, 4]))).converged
    True
    """
    check_em(max_iter, tol, None)
    if begun is not None and (begun.converged or begun.n_iter >= max_iter):
        return begun
    passes = _EnginePasses(engine, use_gold, mace_coins(engine.map(_n_classes, None)[0]))
    counts, mass = passes.vote()
    m_step = know_or_guess(len(counts), len(mass))
    return fit_em(
        passes, m_step, counts, mass, max_iter=max_iter, tol=tol, prior_step=uniform, after=after
    )  # fmt: skip


def posterior_of_shard(
    shard: LabelShard, belief: ShardBelief
) -> Float64[np.ndarray, "tasks classes"]:
    """Return P(truth | labels) of a shard's tasks under a fit, certain where gold counts."""
    prior, table, use_gold = belief
    return _passes_with(shard, use_gold, table).posterior(prior, table)


def majority_of_shard(shard: LabelShard, _: object) -> Float64[np.ndarray, "tasks classes"]:
    """Return each class's share of the labels of a shard's tasks: :func:`~quality.majority_vote`."""
    counts = shard.counts()
    n_labels = counts.sum(axis=1, keepdims=True)
    even = np.full(counts.shape, 1.0 / shard.n_classes)
    share: np.ndarray = np.divide(counts, n_labels, out=even, where=n_labels > 0)
    return share


def weighted_of_shard(
    shard: LabelShard, weight: Float64[np.ndarray, " workers"]
) -> Float64[np.ndarray, "tasks classes"]:
    """Return each class's share of the weight on a shard's tasks: :func:`~quality.weighted_majority`."""
    cell = shard.task * shard.n_classes + shard.label
    return weight_shares(cell, shard.worker, weight, shard.n_tasks, shard.n_classes)


def posterior_of_groups(
    shard: LabelShard,
    weighed: tuple[Posterior, Any, Int[np.ndarray, " workers"]],
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the result of a posterior function and belief on a shard in which every group votes once."""
    posterior, belief, groups = weighed
    return posterior(shard.merge_workers(groups), belief)


@dataclass(frozen=True, slots=True, eq=False)
class _EnginePasses:
    """The passes of EM over the shards of an engine; workers may have coins."""

    engine: Engine
    use_gold: bool
    coins: int | None = None

    def vote(self) -> Sums:
        return self.engine.add_up(_vote, (self.use_gold, self.coins))

    def e_step(self, prior: np.ndarray, table: Table) -> Sums:
        return self.engine.add_up(_e_step, (prior, table, self.use_gold))


def _fit(
    engine: Engine,
    m_step: Callable[[Table], Table],
    max_iter: int,
    tol: float,
    use_gold: bool,
    start: EMStart | None,
    begun: EMFit | None,
    after: Callable[[EMFit], object] | None,
    *,
    coins: int | None = None,
    begin: Begin | None = None,
) -> EMFit:
    """Run EM over the shards of an engine, from its start or from the state of an earlier run.

    A model with coins has `begin`, which returns its first counts if there is a start.
    """
    check_em(max_iter, tol, None)
    if begun is not None and (begun.converged or begun.n_iter >= max_iter):
        return begun
    matrices, stop = _EnginePasses(engine, use_gold), Stop()
    passes = _EnginePasses(engine, use_gold, coins)
    if begun is not None:
        counts, mass = begun.counts, begun.mass
        stop = Stop(begun.log_likelihood, begun.n_iter, begun.converged)
    elif coins is None or begin is None or start is None:
        counts, mass = first_counts(passes, m_step, start)
    else:
        counts, mass = begin(matrices, start)
    return fit_em(passes, m_step, counts, mass, max_iter=max_iter, tol=tol, stop=stop, after=after)


def _passes(shard: LabelShard, use_gold: bool, coins: int | None = None) -> TablePasses:
    return shard_passes(shard, shard.gold if use_gold else None, coins=coins)


def _passes_with(shard: LabelShard, use_gold: bool, table: Table) -> TablePasses:
    """Return the passes that fit the shape of a table."""
    square = table.shape[1:] == (shard.n_classes, shard.n_classes)
    return _passes(shard, use_gold, None if square else table.shape[1] // 2)


def _n_classes(shard: LabelShard, _: object) -> int:
    return shard.n_classes


def _vote(shard: LabelShard, asked: tuple[bool, int | None]) -> Sums:
    """Return a shard's addition to the counts at the start of EM."""
    return _passes(shard, *asked).vote()


def _e_step(shard: LabelShard, belief: ShardBelief) -> Sums:
    """Return a shard's addition to an iteration's sums."""
    prior, table, use_gold = belief
    return _passes_with(shard, use_gold, table).e_step(prior, table)


def class_sums(
    engine: Engine, group: Groups, n_groups: int, posterior: Posterior, belief: Any
) -> Int64[np.ndarray, "groups classes"]:
    """Count the consensus classes of each group of tasks.

    Parameters
    ----------
    engine
        Engine that works on the shards of the labels behind the consensus.
    group
        Function that returns the group codes of a shard's tasks; importable by name, like `posterior`.
    n_groups
        Number of groups; one without tasks has counts of 0.
    posterior, belief
        The consensus is the likeliest class of ``posterior(shard, belief)``.

    Notes
    -----
    **Guarantees.** The counts are those of the whole table's consensus: sums of integers, equal on any
    engine and for any division into shards.

    Examples
    --------
    >>> from quality import encode
    >>> from quality.labels import LocalEngine, cut_labels
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
    """Return a shard's addition to the counts of :func:`class_sums`."""
    n_groups, group, posterior, belief = parameters
    consensus, _ = decide(posterior(shard, belief))
    cell = group(shard).astype(np.int64) * shard.n_classes + consensus
    count = np.bincount(cell, minlength=n_groups * shard.n_classes)
    return (count.reshape(n_groups, shard.n_classes),)

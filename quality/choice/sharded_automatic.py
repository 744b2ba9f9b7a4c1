"""The pool of aggregators for tables in shards: the same rule, for candidates whose sums add up over shards.

>>> from quality import LocalEngine, cut_labels, encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
>>> truth = rng.integers(2, size=200)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"malicious": 5}, rng=rng)
>>> labels = encode(crowd.worker, crowd.task, crowd.label)
>>> auto_by_shards(LocalEngine(cut_labels(labels, [0, 90, 200]))).chosen
'one_coin_dawid_skene'
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64

from quality.aggregation import (
    Consensus,
    EMFit,
    Posterior,
    answers_under,
    confusion_of,
    dawid_skene_by_shards,
    decide,
    hierarchical_by_shards,
    mace_by_shards,
    majority_of_shard,
    one_coin_by_shards,
    posterior_of_shard,
    weighted_of_shard,
)
from quality.choice.automatic import (
    ENOUGH,
    SOON,
    Auto,
    Score,
    check_choice,
    contends,
    scores_of,
    sobered,
    tried_among,
)
from quality.choice.held_out_labels import (
    Predictors,
    add_known,
    crowd_share,
    errors_of,
    fold_sizes,
    habits_of,
    held_folds,
    in_fold,
    knowing,
    likeliest,
    log_of_classes,
    log_right,
    most_shared,
    predictors_of,
    right_shares,
)
from quality.labels import Engine, LabelShard, Sums, of_voters
from quality.reputation import reputation_weight, soft_penalty_by_shards

__all__ = ["SHARDED", "AutoByShards", "ShardFit", "auto_by_shards", "auto_result", "fit_by_shards"]

SHARDED = (
    "majority_vote",
    "weighted_majority",
    "one_coin_dawid_skene",
    "mace",
    "hierarchical_dawid_skene",
    "dawid_skene",
)
FITS: Mapping[str, Callable[..., EMFit]] = MappingProxyType(
    {
        "one_coin_dawid_skene": one_coin_by_shards,
        "mace": mace_by_shards,
        "hierarchical_dawid_skene": hierarchical_by_shards,
        "dawid_skene": dawid_skene_by_shards,
    }
)


class ShardFit(NamedTuple):
    """A candidate's posterior of a shard, the belief behind it, and its fit; votes have no fit."""

    posterior: Posterior
    belief: Any
    fit: EMFit | None = None


@runtime_checkable
class Fitter(Protocol):
    """A function that fits the candidate of a name to an engine whose shards lack a fold, -1 if none.

    Folds have the numbers of :func:`~quality.choice.held_out_labels.held_folds`.

    A first look ends when the fit has roughly converged; a later call goes on from `begun`, its fit.
    """

    def __call__(
        self, engine: Engine, name: str, fold: int, /, *, at_first: bool, begun: EMFit | None
    ) -> ShardFit: ...


@dataclass(frozen=True, slots=True, eq=False)
class AutoByShards:
    """Result of :func:`auto_by_shards`.

    Parameters
    ----------
    chosen
        The name of the candidate with the largest weight.
    fits
        Fits to all labels of the candidates with a weight.
    scores
        One for each candidate.
    n_held_out
        As in :class:`~quality.Auto`.
    """

    chosen: str
    fits: Mapping[str, ShardFit]
    scores: tuple[Score, ...]
    n_held_out: int

    @property
    def pool(self) -> ShardFit:
        """The mean of the candidates' posteriors by weight, with the fit of the one chosen."""
        weight = {score.name: score.weight for score in self.scores}
        mixed = tuple((weight[name], fit.posterior, fit.belief) for name, fit in self.fits.items())
        return ShardFit(_posterior_of_pool, mixed, self.fits[self.chosen].fit)


def fit_by_shards(
    engine: Engine,
    name: str,
    *,
    at_first: bool = False,
    begun: EMFit | None = None,
    after: Callable[[EMFit], object] | None = None,
) -> ShardFit:
    """Fit a candidate to a table in shards.

    Parameters
    ----------
    engine
        It works on the shards of the table.
    name
        One of :data:`SHARDED`.
    at_first
        Whether a first look is enough, for candidates in passes.
    begun, after
        As for :func:`~quality.dawid_skene_by_shards`; votes make no use of them.
    """
    if name == "majority_vote":
        return ShardFit(majority_of_shard, None)
    if name == "weighted_majority":
        weight = reputation_weight(soft_penalty_by_shards(engine))
        return ShardFit(weighted_of_shard, weight)
    fit = FITS[name](engine, begun=begun, after=after, **(SOON if at_first else {}))
    return ShardFit(posterior_of_shard, (fit.prior, fit.table, False), fit)


def _fit_only(
    engine: Engine, name: str, fold: int, *, at_first: bool, begun: EMFit | None
) -> ShardFit:
    """Return a fit that nobody keeps for later calls."""
    return fit_by_shards(engine, name, at_first=at_first, begun=begun)


def auto_by_shards(
    engine: Engine, *, n_folds: int = 10, enough: int = ENOUGH, fit: Fitter = _fit_only
) -> AutoByShards:
    """Do what :func:`~quality.auto` does, on a table in shards, with the candidates of :data:`SHARDED`.

    Parameters
    ----------
    engine
        It works on the shards of the table; for groups that vote once, of the merged table.
    n_folds, enough
        As for :func:`~quality.auto`, errors included.
    fit
        Called in place of :func:`fit_by_shards`; it may keep fits and return them again.

    Notes
    -----
    **Guarantees.** Scores, weights and posterior are those of :func:`~quality.auto` on the whole table with
    these candidates, up to the rounding of sums in another order, and it leaves out the same where
    confusion matrices would be nearly empty. `auto` with its own candidates gives the same wherever message
    passing (KOS), whose messages do not add up over shards, has no weight.

    **Cost.** The candidates' fits, and three passes over the shards for each.

    Examples
    --------
    >>> from quality import LocalEngine, cut_labels, encode
    >>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
    >>> auto_by_shards(LocalEngine(cut_labels(labels, [0, 1, 2]))).n_held_out
    18
    """
    check_choice(FITS, n_folds, enough)
    (given,) = engine.add_up(_given_by_workers, None)
    names = tried_among(SHARDED, len(given), given.shape[1], int(given.sum()))

    def sizes_of(deal: int) -> np.ndarray:
        (sizes,) = engine.add_up(_fold_sizes, (n_folds, deal))
        return sizes

    held, n_held_out = held_folds(sizes_of, enough)
    large = len(held) == 1 and n_held_out >= enough
    asked = []
    for fold in held:
        rest = engine.changed(partial(_without_fold, fold=fold, n_folds=n_folds))
        found = {
            name: fit(rest, name, fold, at_first=large and name in FITS, begun=None)
            for name in names
        }
        (given,) = rest.add_up(_given_by_workers, None)
        kept = Kept(fold, habits_of(given), given.sum(axis=1), given.sum(axis=0))
        asked.append(
            (kept, [_predicting(engine, rest, found[name], kept, n_folds) for name in names])
        )
    scores = _scores_by_shards(engine, names, n_folds, asked, n_held_out)
    if large:
        for place, score in enumerate(scores):
            begun = found[score.name].fit
            if begun is not None and contends(score.behind, score.behind_error):
                more = replace(begun, converged=False)
                whole = fit(rest, score.name, held[0], at_first=False, begun=more)
                asked[0][1][place] = _predicting(engine, rest, whole, kept, n_folds)
        scores = _scores_by_shards(engine, names, n_folds, asked, n_held_out)
    weighing = {score.name: score.weight for score in scores if score.weight}
    fits = {name: fit(engine, name, -1, at_first=False, begun=None) for name in weighing}
    chosen = max(weighing, key=lambda name: weighing[name])
    return AutoByShards(chosen, MappingProxyType(fits), scores, n_held_out)


def auto_result(
    found: AutoByShards,
    engine: Engine,
    posterior: Float64[np.ndarray, "tasks classes"],
    result: Consensus,
    groups: Int[np.ndarray, " workers"] | None,
) -> Auto:
    """Return the result that :func:`~quality.auto` gives of a whole table.

    Parameters
    ----------
    found
        The pool.
    engine
        As for :func:`auto_by_shards`.
    posterior
        Of all tasks, by the pool.
    result
        That of the candidate chosen.
    groups
        The group code of each worker, where the table has been merged.
    """
    label, tied = decide(posterior)
    (counts,) = engine.add_up(_answers_of_workers, found.pool[:2])
    confusion = of_voters(confusion_of(counts), groups)
    scores, n_held_out = found.scores, found.n_held_out
    names = {score.name for score in scores}
    about = scores, n_held_out, tuple(name for name in SHARDED if name not in names)
    return Auto(posterior, label, tied, found.chosen, result, confusion, *about)


class Kept(NamedTuple):
    """What the labels without a fold say: habits, and numbers of labels of each worker and class."""

    fold: int
    habits: Float64[np.ndarray, "workers classes"]
    n_labels: Int64[np.ndarray, " workers"]
    n_given: Int64[np.ndarray, " classes"]


class Predicting(NamedTuple):
    """How a candidate predicts a shard's labels held out.

    Its posterior there is ``posterior(shard, belief)``. Each worker seems to know the truth of a share
    `knows` of her tasks, and this `share` of her labels to be right. Of what she seems to know a share
    `trust` holds. Of what is not known, a share `shared` is the crowd's common `errors`, and that share is
    at most `most`.
    """

    posterior: Posterior
    belief: Any
    errors: Float64[np.ndarray, "classes classes"]
    knows: Float64[np.ndarray, " workers"]
    share: Float64[np.ndarray, " workers"]
    most: float
    trust: float = 1.0
    shared: float = 0.0


Asked = list[tuple[Kept, list[Predicting]]]
"""For each fold held out, what is kept, and how each candidate predicts."""


def _predicting(
    engine: Engine, rest: Engine, found: ShardFit, kept: Kept, n_folds: int
) -> Predicting:
    """Return how a candidate that was fitted to the rest predicts labels that are held out."""
    right, chance, wrong = rest.add_up(_known, (*found[:2], kept.habits))
    of_all = crowd_share(right.sum(), kept.n_labels.sum(), len(kept.n_given))
    knows = knowing(right, chance, kept.n_labels)
    share = right_shares(right, kept.n_labels, of_all)
    errors, most = errors_of(wrong, kept.n_given), most_shared(knows, kept.n_labels)
    one = Predicting(*found[:2], errors, knows, share, most)
    (worth,) = engine.add_up(_worth, (n_folds, kept, one))
    trust, shared = likeliest(worth)
    return one._replace(trust=trust, shared=shared)


def _scores_by_shards(
    engine: Engine, names: tuple[str, ...], n_folds: int, asked: Asked, n_held_out: int
) -> tuple[Score, ...]:
    """Return the candidates' scores, from what each predicts in each fold held out."""
    zeros = np.zeros((len(names), len(names)))
    total, behind, squares = zeros[0], zeros, zeros
    ahead, ahead_squares = np.zeros((2, 2, len(names)))
    if asked:
        total, behind, squares, ahead, ahead_squares = engine.add_up(_predicted, (n_folds, asked))
    best = int(np.argmax(total))
    scores = scores_of(names, total, behind[best], squares[best], n_held_out)
    return sobered(scores, ahead, ahead_squares)


def _posterior_of_pool(
    shard: LabelShard, mixed: tuple[tuple[float, Posterior, Any], ...]
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the mean of several posteriors of a shard's tasks by weight."""
    posterior = np.zeros((shard.n_tasks, shard.n_classes))
    for weight, posterior_of, belief in mixed:
        posterior += weight * posterior_of(shard, belief)
    posterior /= posterior.sum(axis=1, keepdims=True)  # the weights add up to 1 but for rounding
    return posterior


def _task_of(shard: LabelShard) -> Int32[np.ndarray, " labels"]:
    """Return the place of each label's task, in the type that the kernels take."""
    task: np.ndarray = shard.task.astype(np.int32)
    task.setflags(write=False)
    return task


def _read_only(posterior: Float64[np.ndarray, "tasks classes"]) -> np.ndarray:
    view = posterior.view()
    view.flags.writeable = False  # the kernels are compiled for one kind of array
    return view


def _given_by_workers(shard: LabelShard, _: None) -> Sums:
    """Return how often each worker gives each class."""
    cell = shard.worker.astype(np.int64) * shard.n_classes + shard.label
    counts = np.bincount(cell, minlength=shard.n_workers * shard.n_classes)
    return (counts.reshape(shard.n_workers, shard.n_classes),)


def _fold_sizes(shard: LabelShard, asked: tuple[int, int]) -> Sums:
    """Return the number of a shard's labels that each fold of a deal has."""
    return (fold_sizes(shard.task_start, shard.first_task, *asked),)


def _held_out(shard: LabelShard, number: int, n_folds: int) -> Bool[np.ndarray, " labels"]:
    """Return which labels of a shard the fold of a number has."""
    return in_fold(shard.task_start, shard.first_task, n_folds, number)


def _without_fold(shard: LabelShard, fold: int, n_folds: int) -> LabelShard:
    return shard.keep_labels(~_held_out(shard, fold, n_folds))


def _known(shard: LabelShard, asked: tuple[Posterior, Any, np.ndarray]) -> Sums:
    """Return what a shard adds to the sums of :func:`add_known`."""
    posterior, belief, habits = asked
    believed = _read_only(posterior(shard, belief))
    everything = np.ones(shard.n_labels, dtype=np.bool_)
    labels = shard.worker, _task_of(shard), shard.label
    return add_known(*labels, everything, believed, habits)


def _worth(shard: LabelShard, asked: tuple[int, Kept, Predicting]) -> Sums:
    """Return the log-likelihood of a shard's held-out labels at each trust and share of common errors."""
    n_folds, kept, one = asked
    out = _held_out(shard, kept.fold, n_folds)
    return (_predictors(shard, shard.keep_labels(~out), out, kept, one).worth(),)


def _predictors(
    shard: LabelShard,
    rest: LabelShard,
    out: Bool[np.ndarray, " labels"],
    kept: Kept,
    one: Predicting,
) -> Predictors:
    """Return what a shard's held-out labels are predicted by, from the rest of it."""
    believed = _read_only(one.posterior(rest, one.belief))
    labels = shard.worker[out], _task_of(shard)[out], shard.label[out]
    return predictors_of(*labels, believed, kept.habits, one.errors, one.knows, one.most)


def _answers_of_workers(shard: LabelShard, asked: tuple[Posterior, Any]) -> Sums:
    """Return the expected counts of each worker's labels by class and truth."""
    posterior, belief = asked
    return (answers_under(shard, posterior(shard, belief)),)


def _predicted(shard: LabelShard, asked: tuple[int, Asked]) -> Sums:
    """Return sums of the held-out labels' log-likelihoods, of their differences, and of these squared.

    The last two sums are those that :func:`sobered` needs.
    """
    n_folds, by_fold = asked
    task = _task_of(shard)
    # sums over a task's held-out labels
    log_p, by_worker = np.zeros((2, len(by_fold[0][1]), shard.n_tasks))
    by_class = np.zeros(shard.n_tasks)
    for kept, candidates in by_fold:
        out = _held_out(shard, kept.fold, n_folds)
        rest = shard.keep_labels(~out)
        worker, label, asked_of = shard.worker[out], shard.label[out], task[out]
        by_class += np.bincount(asked_of, log_of_classes(kept.n_given)[label], shard.n_tasks)
        for place, one in enumerate(candidates):
            held = _predictors(shard, rest, out, kept, one)
            hers = log_right(held.right, one.share[worker], shard.n_classes)
            log_p[place] += np.bincount(asked_of, held.log_p(one.trust, one.shared), shard.n_tasks)
            by_worker[place] += np.bincount(asked_of, hers, shard.n_tasks)
    apart = (one - log_p for one in log_p)
    sums = [(one.sum(axis=1), (one**2).sum(axis=1)) for one in apart]
    behind, squares = map(np.array, zip(*sums, strict=True))
    ahead = by_worker - np.stack([by_class, by_worker[0]])[:, np.newaxis]
    return log_p.sum(axis=1), behind, squares, ahead.sum(axis=2), (ahead**2).sum(axis=2)

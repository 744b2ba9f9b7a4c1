"""The evidence for each consensus label: the model's odds, the votes, and how far errors are shared.

>>> from quality import encode, majority_vote
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxxyyx"))
>>> task_support(labels, majority_vote(labels).posterior)
Support(2 tasks, errors shared by 0.26, votes alike by 0.38)
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int16, Int64
from scipy.special import expit

from quality.aggregation import Posterior, decide
from quality.agreement import (
    WeighedSums,
    alpha_of,
    alpha_sums,
    reliability_of_votes,
    vote_weights,
    votes_like_others,
    weighed_reliability,
    weighed_sums,
)
from quality.argument_types import check_arguments
from quality.labels import (
    CrowdLabels,
    Engine,
    LabelShard,
    LocalEngine,
    NamedPosterior,
    Sums,
    cut_labels,
    freeze_arrays,
    voters,
)

__all__ = [
    "MAX_SHARED", "Support", "error_rates", "log_odds", "log_votes", "shared_errors",
    "shares_of_classes", "support_by_shards", "task_support",
]  # fmt: skip

LEAST = 1e-12  # probability of all classes but the chosen one: odds stay finite
PSEUDO_LABELS = 4.0  # of the crowd's mean, added to each worker's before her share of wrong ones
MAX_SHARED = 0.4  # about the most that was met; taken where it cannot be measured
NOT_ONE = 1e-6  # distance of a sum from 1 that is more than rounding
EVEN = 0.5  # votes added to both sides, and the least that a class is taken to have


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Support:
    """Result of :func:`task_support`; one entry per task code.

    Parameters
    ----------
    label
        The consensus: the likeliest class, the lowest code among equals.
    model
        The label's probability in the posterior.
    odds
        Logarithm of that probability's odds, in nats; at most 27.6.
    votes
        Logarithm of the votes for the label over the votes against, half a vote added to each.
    n_votes
        Votes that the task has: workers on their own, and groups; and those of a voice.
    n_classes
        Classes of the table.
    shared
        Mean correlation of two voters' errors on one task, given their own error rates, in [0, 0.4]; 0.4
        where no task has two votes, so that it cannot be measured.
    alike
        Krippendorff's alpha of the votes: 0 where they are alike as by chance; NaN where it is not
        defined: no task with two votes, or one class throughout.
    reliability
        Reliability of a task's votes, in [0, 1]: the share of their variance that lies between tasks. It is
        the larger of two: by `alike` and the number of votes, or with each worker's votes weighed by how
        alike they are on other tasks. NaN where `alike` is.
    guess
        Share of the label's class among the votes on tasks with two or more: how often the label would be
        right if votes were uninformative; that of half a vote if the class has none of them, and NaN where
        no task has two.
    """

    label: Int16[np.ndarray, " tasks"]
    model: Float64[np.ndarray, " tasks"]
    odds: Float64[np.ndarray, " tasks"]
    votes: Float64[np.ndarray, " tasks"]
    n_votes: Float64[np.ndarray, " tasks"]
    n_classes: int
    shared: float
    alike: float
    reliability: float
    guess: Float64[np.ndarray, " tasks"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"Support({len(self.label)} tasks, errors shared by {self.shared:.2f}, "
            f"votes alike by {self.alike:.2f})"
        )


class ShardSupport(NamedTuple):
    """The columns of the support of a shard's tasks, and the sums of `shared` and of `reliability`."""

    columns: tuple[np.ndarray, ...]
    n_classes: int
    common: np.ndarray
    weighed: WeighedSums


@check_arguments
def task_support(
    labels: CrowdLabels,
    posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior,
    *,
    groups: Int[np.ndarray, " workers"] | None = None,
    voice_votes: Float[np.ndarray, "tasks classes"] | None = None,
) -> Support:
    """Gather the evidence for each consensus label.

    Parameters
    ----------
    labels
        The votes: the labels from which the consensus was made, or those of some workers.
    posterior
        P(truth | labels) of each task, from any aggregator.
    groups
        As for :func:`~quality.dawid_skene`: a group has one vote a task, which its members share.
    voice_votes
        Votes of a voice that joined the consensus, >= 0, such as :attr:`~quality.JoinedVoice.votes`. They
        are counted with the workers' on each task that has one of these.

    Raises
    ------
    ValueError
        If `posterior` is not one distribution over the classes per task, `groups` not one code per worker, or
        `voice_votes` are not finite numbers >= 0 of the posterior's shape.
    """
    shape = (labels.n_tasks, labels.n_classes)
    if posterior.shape != shape:
        raise ValueError(f"posterior must have shape {shape}, got {posterior.shape}")
    engine = LocalEngine(cut_labels(labels, [0, labels.n_tasks]))
    if isinstance(posterior, NamedPosterior):
        return support_by_shards(engine, _of_whole, posterior, groups=groups)
    if not np.isfinite(posterior).all():
        row = int(np.flatnonzero(~np.isfinite(posterior).all(axis=1))[0])
        raise ValueError(f"posterior must be finite, got {posterior[row].tolist()} in row {row}")
    posterior = posterior.astype(np.float64, copy=False)
    off = np.flatnonzero(
        (posterior < 0).any(axis=1) | (np.abs(posterior.sum(axis=1) - 1) > NOT_ONE)
    )
    if off.size:
        raise ValueError(
            "posterior must hold probabilities that add up to 1 for each task, got "
            f"{posterior[off[0]].tolist()} in row {off[0]}"
        )
    found = support_by_shards(engine, _of_table, posterior, groups=groups)
    return found if voice_votes is None else _with_voice(found, voice_votes)


@check_arguments
def support_by_shards(
    engine: Engine,
    posterior: Posterior,
    belief: Any,
    *,
    keep: Bool[np.ndarray, " workers"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
) -> Support:
    """Gather the :func:`task_support` of a table in shards, in two passes.

    Parameters
    ----------
    engine
        It works on the shards of the labels that make the consensus.
    posterior, belief
        The posterior of a shard is ``posterior(shard, belief)``.
    keep
        True for each worker whose votes count; by default all do.
    groups
        As for :func:`task_support`.

    Notes
    -----
    **Guarantees.** The result is the support of the whole table; `shared`, `alike` and `reliability` up to
    the rounding of sums in another order.
    """
    asked = posterior, belief, keep, groups
    wrong, n_labels, by_class, apart, *likeness = engine.add_up(_errors, asked)
    rate, weights = error_rates(wrong, n_labels), vote_weights(*likeness)
    found = engine.map(_support, (*asked, rate, weights))
    columns = (part.columns for part in found)
    label, model, odds, votes, n_votes = map(np.concatenate, zip(*columns, strict=True))
    common, most = np.sum([part.common for part in found], axis=0)
    shared = shared_errors(common, most)
    alike, guess = alpha_of(by_class, apart), shares_of_classes(by_class)[label]
    of_votes = zip(*(part.weighed for part in found), strict=True)
    weighed = weighed_reliability(WeighedSums(*(np.sum(each, axis=0) for each in of_votes)))
    reliability = _reliability(alike, n_votes, weighed)
    return Support(
        label, model, odds, votes, n_votes, found[0].n_classes, shared, alike, reliability, guess
    )  # fmt: skip


def _with_voice(support: Support, voice_votes: Float[np.ndarray, "tasks classes"]) -> Support:
    """Return the support with a voice's votes beside the workers', on tasks that have one of these."""
    shape = (len(support.label), support.n_classes)
    if voice_votes.shape != shape:
        raise ValueError(f"voice_votes must have shape {shape}, got {voice_votes.shape}")
    total = voice_votes.sum(axis=1)
    off = np.flatnonzero((voice_votes < 0).any(axis=1) | ~np.isfinite(total))
    if off.size:
        raise ValueError(
            f"voice_votes must be finite and >= 0, got {voice_votes[off[0]].tolist()} in row {off[0]}"
        )
    voted, rows = support.n_votes > 0, np.arange(shape[0])
    own = (support.n_votes + 2 * EVEN) * expit(support.votes) - EVEN  # what `log_votes` had
    n_votes = support.n_votes + np.where(voted, total, 0.0)
    votes = own + np.where(voted, voice_votes[rows, support.label], 0.0)
    reliability = _reliability(support.alike, n_votes, support.reliability)
    return replace(
        support, votes=log_votes(votes, n_votes), n_votes=n_votes, reliability=reliability
    )


def _reliability(alike: float, n_votes: Float64[np.ndarray, " tasks"], weighed: float) -> float:
    """Return the reliability of a task's votes, as they are or weighed, whichever is more.

    In a crowd of equals the errors of the weights lower it, so that weighing counts only where it is more.
    """
    voted = n_votes > 0
    plain = reliability_of_votes(alike, float(n_votes[voted].mean()) if voted.any() else 1.0)
    return plain if np.isnan(weighed) else max(plain, weighed)


def shares_of_classes(by_class: Int64[np.ndarray, " classes"]) -> Float64[np.ndarray, " classes"]:
    """Return each class's share of the votes, at least that of half a vote; NaN if there are no votes."""
    total = by_class.sum()
    share: np.ndarray = np.maximum(by_class, EVEN) / (total if total else np.nan)
    return share


def error_rates(
    wrong: Float64[np.ndarray, " workers"], n_labels: Float64[np.ndarray, " workers"]
) -> Float64[np.ndarray, " workers"]:
    """Return each worker's share of wrong labels, shrunk a little to the crowd's."""
    mean = wrong.sum() / max(n_labels.sum(), 1.0)
    rate: np.ndarray = (wrong + PSEUDO_LABELS * mean) / (n_labels + PSEUDO_LABELS)
    return rate


def shared_errors(common: float, most: float) -> float:
    """Return how far errors are shared: their covariance over the largest that it could be."""
    return float(np.clip(common / most, 0.0, MAX_SHARED)) if most > 0 else MAX_SHARED


def log_odds(chance: Float64[np.ndarray, " tasks"]) -> Float64[np.ndarray, " tasks"]:
    """Return the log odds of chances, which stay finite."""
    odds: np.ndarray = np.log(np.maximum(chance, LEAST) / np.maximum(1.0 - chance, LEAST))
    return odds


def log_votes(
    votes: Float64[np.ndarray, " tasks"], n_votes: Float64[np.ndarray, " tasks"]
) -> Float64[np.ndarray, " tasks"]:
    """Return the logarithm of votes for over votes against, half a vote added to each."""
    odds: np.ndarray = np.log((votes + EVEN) / (np.maximum(n_votes - votes, 0.0) + EVEN))
    return odds


def _of_table(shard: LabelShard, posterior: np.ndarray) -> Float64[np.ndarray, "tasks classes"]:
    rows: np.ndarray = posterior[shard.first_task : shard.first_task + shard.n_tasks]
    return rows


def _of_whole(_: LabelShard, posterior: Any) -> Any:
    return posterior


def _kept(shard: LabelShard, keep: np.ndarray | None) -> LabelShard:
    return shard if keep is None else shard.keep_workers(keep)


def _merged(shard: LabelShard, groups: np.ndarray | None) -> LabelShard:
    return shard if groups is None else shard.merge_workers(groups)


def _errors(
    shard: LabelShard, asked: tuple[Posterior, Any, np.ndarray | None, np.ndarray | None]
) -> Sums:
    """Return each voter's expected wrong votes, her votes, and the sums that alpha is made of."""
    posterior, belief, keep, groups = asked
    believed, merged = posterior(shard, belief), _merged(_kept(shard, keep), groups)
    wrong = 1.0 - believed[merged.task, merged.label]
    n_labels = np.bincount(merged.worker, minlength=shard.n_workers)
    return (
        np.bincount(merged.worker, wrong, shard.n_workers),
        n_labels.astype(np.float64),
        *alpha_sums(merged.task_start, merged.label, merged.n_classes),
        *votes_like_others(*_codes(merged), shard.n_workers, shard.n_classes),
    )


def _codes(merged: LabelShard) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return tasks by their codes in the whole table, workers and labels."""
    return merged.task.astype(np.int64) + merged.first_task, merged.worker, merged.label


def _support(
    shard: LabelShard,
    asked: tuple[Posterior, Any, np.ndarray | None, np.ndarray | None, np.ndarray, np.ndarray],
) -> ShardSupport:
    """Return the support of a shard's tasks."""
    posterior, belief, keep, groups, rate, weights = asked
    believed = posterior(shard, belief)
    shard = _kept(shard, keep)
    merged = _merged(shard, groups)
    label, _ = decide(believed)
    model = believed[np.arange(shard.n_tasks), label]
    weight = _weights(shard, groups)
    n_votes = np.bincount(shard.task, weight, shard.n_tasks)
    votes = np.bincount(shard.task, weight * (shard.label == label[shard.task]), shard.n_tasks)
    return ShardSupport(
        (label, model, log_odds(model), log_votes(votes, n_votes), n_votes),
        shard.n_classes,
        _common_errors(merged, believed, rate),
        weighed_sums(*_codes(merged), weights, shard.n_classes),
    )


def _common_errors(
    merged: LabelShard, believed: np.ndarray, rate: np.ndarray
) -> Float64[np.ndarray, " 2"]:
    """Return the covariance of errors, summed over pairs of votes of a task, and the largest it could be."""
    # a single vote is no pair: rounding would be left of it
    paired = np.diff(merged.task_start) > 1
    task, error = merged.task, rate[merged.worker]
    residual = 1.0 - believed[task, merged.label] - error
    spread = np.sqrt(error * (1.0 - error))
    pairs = []
    for values in (residual, spread):
        total, squares = (np.bincount(task, one, merged.n_tasks) for one in (values, values**2))
        pairs.append(float((total**2 - squares)[paired].sum()))
    return np.array(pairs)


def _weights(shard: LabelShard, groups: np.ndarray | None) -> Float64[np.ndarray, " labels"]:
    """Return each label's part of a vote: members of one group share theirs evenly."""
    weight = np.ones(shard.n_labels)
    if groups is None:
        return weight
    rows = np.flatnonzero(groups[shard.worker] >= 0)
    vote = shard.task[rows] * shard.n_workers + voters(groups)[shard.worker[rows]]
    _, place, count = np.unique(vote, return_inverse=True, return_counts=True)
    weight[rows] = 1.0 / count[place]
    return weight

"""Groups of workers who do not answer on their own, with their evidence and effective number.

>>> from quality import encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
>>> truth = rng.integers(2, size=300)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
>>> dependent_groups(encode(crowd.worker, crowd.task, crowd.label))
DependentGroups(24 workers, worth 21.0: 1 group, of 4)

Four steps, each a sum over the labels of one task at a time, so that tables may lie in shards. Pairs
agree more often than their skills explain (:mod:`quality.dependence.pairs`); sets of such pairs, or of
workers who share few tasks each, stand out beyond chance (:mod:`quality.dependence.candidates`); the
members agree on answers that look wrong to the consensus in which each candidate group has one vote; and
the labels of others do not speak for the members one by one (:mod:`quality.dependence.outsiders`). Workers
who agree because they are good fail one of the last two steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Int32, Int64
from scipy.special import betaincinv, log_ndtr, ndtr

from quality.aggregation import fills_matrices, one_coin_by_shards, posterior_of_shard
from quality.argument_types import check_arguments
from quality.dependence.candidates import find_candidates, log_subsets
from quality.dependence.outsiders import better_apart
from quality.dependence.pairs import MIN_COMMON, GroupVotes, PairFit, fit_pairs, group_votes
from quality.labels import (
    CrowdLabels,
    Engine,
    LabelShard,
    LocalEngine,
    NamedPosterior,
    Sums,
    cut_labels,
    freeze_arrays,
)
from quality.many_classes import needs_names, one_coin_of_named

__all__ = ["DependentGroups", "dependent_groups", "dependent_groups_by_shards", "effective_number"]

MIN_GOLD = 50  # tasks of known truth, at least, on which the errors of a group are compared
LOOKS_WRONG = 2.0  # standard errors by which agreement on wrong-looking answers must exceed chance
LEAST_WRONG = 1.0  # agreements on wrong-looking answers beyond chance: with fewer no error is known
QUANTILE = 1.6448536269514722  # of the normal law: intervals of 90 %
SAME = 1e-9  # relative spread over tasks below which all tasks are alike: the rest is rounding


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DependentGroups:
    """Result of :func:`dependent_groups`; groups in the order of their first members.

    Parameters
    ----------
    group
        The group code of each worker, -1 for one who answers on her own: the `groups` of the
        aggregators.
    copied, copied_interval
        Of each group: the share of answers that two members have from one source, with its 90 % interval.
        A share of 0 is the agreement expected of workers on their own, 1 is full agreement. With at least
        50 gold tasks it is the mean correlation of two members' errors there, unless no two who err met on
        one. It is 0 with the interval [0, 1] if no task is evidence. If all tasks are alike, as for members
        who always agree, the interval depends on their number.
    effective, effective_interval
        Effective number of workers on their own in a group, m / (1 + (m - 1) copied), and its 90 % interval.
    p_value
        Bound, by the number of sets of workers of that size, on the chance that one of them would agree as
        much if all workers answered on their own.
    n_wrong, expected_wrong
        Agreements of two members on an answer that looks wrong, and the number expected of workers on
        their own, given how hard the tasks are for the others.
    pair
        Worker codes of the pairs inside groups who are judged: those who share eight tasks, and the others
        too where most pairs share few.
    n_common, n_agreed, expected
        Of each pair: common tasks, agreements, and the agreements expected.
    pair_p_value
        Of each pair: chance of as much agreement of two workers on their own.
    """

    group: Int64[np.ndarray, " workers"]
    copied: Float64[np.ndarray, " groups"]
    copied_interval: Float64[np.ndarray, "groups 2"]
    effective: Float64[np.ndarray, " groups"]
    effective_interval: Float64[np.ndarray, "groups 2"]
    p_value: Float64[np.ndarray, " groups"]
    n_wrong: Float64[np.ndarray, " groups"]
    expected_wrong: Float64[np.ndarray, " groups"]
    pair: Int32[np.ndarray, "pairs 2"]
    n_common: Int64[np.ndarray, " pairs"]
    n_agreed: Int64[np.ndarray, " pairs"]
    expected: Float64[np.ndarray, " pairs"]
    pair_p_value: Float64[np.ndarray, " pairs"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.sizes.tolist()))
        found = f"{len(self.sizes)} group{'s' * (len(self.sizes) != 1)}"
        worth = f"{len(self.group)} workers, worth {self.worth:.1f}"
        return f"DependentGroups({worth}: {found}{f', of {sizes}' if sizes else ''})"

    @property
    def sizes(self) -> Int64[np.ndarray, " groups"]:
        """Number of members of each group."""
        return np.bincount(self.group[self.group >= 0], minlength=len(self.copied))

    @property
    def worth(self) -> float:
        """Effective number of workers on their own in the whole crowd."""
        return float(len(self.group) - self.sizes.sum() + self.effective.sum())

    def members(self, code: int) -> Int64[np.ndarray, " members"]:
        """Return the worker codes of a group."""
        return np.flatnonzero(self.group == code)


@check_arguments
def dependent_groups(
    labels: CrowdLabels,
    *,
    gold: Int[np.ndarray, " tasks"] | None = None,
    models: Int[np.ndarray, " models"] | None = None,
) -> DependentGroups:
    """Find groups of workers who do not answer on their own, from the labels alone.

    Such groups are sybils, rings, workers who copy each other or one language model, and models of one
    kind. A group is judged as a whole: its members agree with each other more than their agreement with
    everybody else explains, and on answers that look wrong.

    Parameters
    ----------
    labels
        The crowd's labels.
    gold
        The class code of each task whose truth is known, -1 elsewhere. It shows which answers are wrong,
        and from 50 tasks on how far errors are correlated.
    models
        Codes of the workers who are language models. They are one group before any evidence, whatever part
        of the crowd they are, since labels alone never show that models err independently.

    Returns
    -------
    DependentGroups
        Its `group` is the `groups` of the aggregators.

    Raises
    ------
    ValueError
        If `models` are not codes of workers, or gold is not one code per task.

    Notes
    -----
    **Guarantees.** Names play no part: renaming workers, tasks or classes renames the result, up to
    exact ties, in crowds up to the sizes under Cost. A crowd in which fewer than two workers have eight
    labels has no groups. Nobody is removed. The same bytes on any number of threads.

    **Limits.** Labels alone cannot distinguish a clique of more than a third of the workers from the
    crowd: such a group is not reported. Experts who are right where the crowd is wrong look like a clique
    if neither the crowd's labels nor its better workers follow theirs. Workers who copy a good one may be
    left alone where errors of all go one way, as lenient and strict graders' do. Of half a dozen workers,
    two who copy are found half of the time (``python -m benchmarks.quality.dependence``). Members who share
    few tasks with each other are found if they are many, or seldom right
    (``python -m benchmarks.quality.scattered_cliques``).

    **Cost.** One step for each pair of labels on a task, and a hundred for each pair of workers, or thirty
    if these are many, where most share few tasks; if there are candidates, one fit of one-coin
    Dawid–Skene, and five short fits to at most 300,000 labels for the first of eight groups, two for each
    other, and as many again for those left each time that some are dropped. Beyond 200 million such pairs
    every n-th task is read, and beyond 2 million pairs of workers every n-th of those who share few tasks.
    Nothing is as large as workers squared.

    Examples
    --------
    >>> from quality import dawid_skene, encode, regular_assignment, simulate_crowd
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    >>> truth = rng.integers(2, size=300)
    >>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
    >>> labels = encode(crowd.worker, crowd.task, crowd.label)
    >>> groups = dependent_groups(labels)
    >>> labels.workers[groups.members(0)], groups.effective.round(1)
    (array([20, 21, 22, 23]), array([1.]))
    >>> for weighed in (None, groups.group):
    ...     print(round(float(np.mean(dawid_skene(labels, groups=weighed).label == truth)), 2))
    0.75
    0.9
    """
    whole = LocalEngine(cut_labels(labels, [0, labels.n_tasks], gold=gold))

    def by_names(groups: np.ndarray) -> NamedPosterior:
        return one_coin_of_named(labels, gold=gold, groups=groups).posterior

    many = by_names if needs_names(labels) else None
    return _dependent_groups(whole, models, gold is not None, many)


@check_arguments
def dependent_groups_by_shards(
    engine: Engine,
    *,
    models: Int[np.ndarray, " models"] | None = None,
    use_gold: bool = False,
) -> DependentGroups:
    """Find the groups of :func:`dependent_groups` in a table in shards.

    Parameters
    ----------
    engine
        It works on the shards of the table.
    models
        As for :func:`dependent_groups`.
    use_gold
        Whether the gold of the shards is used.

    Notes
    -----
    **Guarantees.** The groups of the whole table; its numbers up to the rounding of sums in another
    order.
    """
    return _dependent_groups(engine, models, use_gold, None)


def _dependent_groups(
    engine: Engine,
    models: Int[np.ndarray, " models"] | None,
    use_gold: bool,
    by_names: Callable[[np.ndarray], NamedPosterior] | None,
) -> DependentGroups:
    """Find the groups; with very many classes `by_names` returns the belief under a grouping."""
    (n_labels,) = engine.add_up(_n_labels, None)
    known = _model_codes(models, len(n_labels))
    if len(known) < 2 and np.count_nonzero(n_labels >= MIN_COMMON) < 2:  # nobody can share enough
        alone = np.full(len(n_labels), -1)
        return _result(
            PairFit.of_nobody(len(n_labels)), alone, np.zeros((0, len(Evidence._fields))), 1.0
        )
    fit, groups = find_candidates(fit_pairs(engine, known), known)
    if not (groups >= 0).any():
        return _result(fit, groups, np.zeros((0, len(Evidence._fields))), 1.0)
    evidence, ratio = _evidence(engine, fit, groups, use_gold, by_names)
    wrong = Evidence(*evidence.T)
    excess = wrong.wrong - ratio * wrong.chance
    spread = wrong.wrong2 - 2 * ratio * wrong.both + ratio**2 * wrong.chance2
    confirmed = excess > np.maximum(LOOKS_WRONG * np.sqrt(np.maximum(spread, 0.0)), LEAST_WRONG)
    of_models = groups[known[: len(known) > 1]]  # their common one, of two or more
    confirmed[of_models] = True
    size, others = int(n_labels.sum()), np.count_nonzero(confirmed) - len(of_models)
    if others and by_names is None and fills_matrices(*fit.shares.shape, size):
        fixed = np.isin(np.flatnonzero(confirmed), of_models)
        left = _only(groups, confirmed)
        confirmed[confirmed] = ~better_apart(engine, left, size, fixed, use_gold=use_gold)
    return _result(fit, _only(groups, confirmed), evidence[confirmed], ratio)


def _only(groups: np.ndarray, kept: np.ndarray) -> Int64[np.ndarray, " workers"]:
    """Return the group codes if only these groups are kept."""
    code = np.where(kept, np.cumsum(kept) - 1, -1)
    return np.asarray(np.append(code, -1)[groups])


@check_arguments
def effective_number(
    size: Int[np.ndarray, " groups"], copied: Float64[np.ndarray, " groups"]
) -> Float64[np.ndarray, " groups"]:
    """Return the effective number of workers in a group: size / (1 + (size - 1) copied).

    Examples
    --------
    >>> effective_number(np.array([5, 5, 5]), np.array([0.0, 0.5, 1.0])).round(2)
    array([5.  , 1.67, 1.  ])
    """
    worth: np.ndarray = size / (1.0 + (size - 1) * copied)
    return worth


def _n_labels(shard: LabelShard, _: object) -> Sums:
    """Return how many labels each worker has in a shard."""
    return (np.bincount(shard.worker, minlength=shard.n_workers),)


def _model_codes(models: Int[np.ndarray, " models"] | None, n_workers: int) -> np.ndarray:
    if models is None or not len(models):  # an empty list has floats
        return np.zeros(0, dtype=np.int64)
    known: np.ndarray = np.unique(models)
    if not (known.dtype.kind in "iu" and known[0] >= 0 and known[-1] < n_workers):
        raise ValueError(f"models must be worker codes from 0 to {n_workers - 1}")
    return known


class Evidence(NamedTuple):
    """Sums over tasks of each group's pairs of labels: what :func:`_sums` adds up."""

    excess: np.ndarray  # agreed - expected, or the pairs' error covariances
    left: np.ndarray  # pairs - expected, or the covariances of equal errors
    excess2: np.ndarray
    product: np.ndarray
    left2: np.ndarray
    wrong: np.ndarray  # agreed on an answer that looks wrong
    chance: np.ndarray  # its expectation, for even wrong answers and tasks of equal difficulty
    wrong2: np.ndarray
    both: np.ndarray
    chance2: np.ndarray


def _evidence(
    engine: Engine,
    fit: PairFit,
    groups: np.ndarray,
    use_gold: bool,
    by_names: Callable[[np.ndarray], NamedPosterior] | None,
) -> tuple[Float64[np.ndarray, "groups sums"], float]:
    """Return each group's sums, and the ratio of common errors to those by chance among the others."""
    belief: Any
    if by_names is None:
        merged = one_coin_by_shards(engine.merge_workers(groups), use_gold=use_gold)
        belief = merged.prior, merged.table, use_gold
    else:
        belief = by_names(groups)
    right, n_labels = engine.add_up(_right, (groups, belief))
    mean = right.sum() / max(n_labels.sum(), 1.0)
    wrong = 1.0 - (right + mean) / (n_labels + 1.0)
    gold_wrong, n_gold, gold_tasks = engine.add_up(_gold_errors, None)
    errors = gold_wrong / np.maximum(n_gold, 1.0)
    known = errors if use_gold and gold_tasks[0] >= MIN_GOLD else None
    parameters = groups, belief, wrong, fit.shares, fit.skill, known
    agreed, erred, looks_wrong, others = engine.add_up(_sums, parameters)
    copied = np.where(erred[:, [Evidence._fields.index("left")]] > 0, erred, agreed)
    ratio = max(float(others[0]) / max(float(others[1]), 1e-300), 1.0)
    return np.hstack([copied, looks_wrong]), ratio


def _posterior(shard: LabelShard, groups: np.ndarray, belief: Any) -> np.ndarray | NamedPosterior:
    """Return the belief in each task's classes, each group voting once."""
    if isinstance(belief, NamedPosterior):  # the belief of a whole table, which is one shard
        return belief
    return posterior_of_shard(shard.merge_workers(groups), belief)


def _right(shard: LabelShard, parameters: tuple[np.ndarray, Any]) -> Sums:
    """Return each worker's expected right labels and her labels, in this shard."""
    groups, belief = parameters
    posterior = _posterior(shard, groups, belief)
    right = np.bincount(shard.worker, posterior[shard.task, shard.label], shard.n_workers)
    return right, np.bincount(shard.worker, minlength=shard.n_workers).astype(np.float64)


def _gold_errors(shard: LabelShard, _: object) -> Sums:
    """Return each worker's wrong labels and labels on gold tasks, and how many such tasks have labels."""
    gold = shard.gold[shard.task]
    known = (gold >= 0).astype(np.float64)
    wrong = np.bincount(shard.worker, known * (shard.label != gold), shard.n_workers)
    n_tasks = np.count_nonzero((shard.gold >= 0) & (np.diff(shard.task_start) > 0))
    return wrong, np.bincount(shard.worker, known, shard.n_workers), np.array([n_tasks])


def _sums(
    shard: LabelShard,
    parameters: tuple[np.ndarray, Any, np.ndarray, Any, np.ndarray, np.ndarray | None],
) -> Sums:
    """Return the parts of each group's :class:`Evidence`, and the common errors of the others.

    The parts are sums of agreement, of errors on gold (0 without gold), and of common errors.
    """
    groups, belief, wrong, shares, skill, errors = parameters
    believed = _posterior(shard, groups, belief)
    n_groups = int(groups.max()) + 1
    agreed, erred, looks_wrong = np.zeros((3, n_groups, 5))
    others, *voters = group_votes(shard, groups, n_groups)
    for code, votes in enumerate(voters):
        agreed[code] = _moments(*_agreement(votes, shares, skill))
        if errors is not None:
            erred[code] = _moments(*_error_products(votes, shard.gold, errors))
        looks_wrong[code] = _moments(*_common_errors(votes, believed, wrong))
    return agreed, erred, looks_wrong, np.array(_moments(*_common_errors(others, believed, wrong)))


def _moments(one: np.ndarray, other: np.ndarray) -> tuple[float, ...]:
    """Return the sums over tasks of two numbers, of their squares and of their product."""
    return tuple(float(part.sum()) for part in (one, other, one**2, one * other, other**2))


def _agreement(votes: GroupVotes, shares: Any, skill: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each task's agreements of two members less those expected, and its pairs less those expected."""
    size = np.bincount(votes.place, minlength=len(votes.tasks))
    pairs = size * (size - 1) / 2.0
    of_task, _, count = votes.alike()
    agreed = np.bincount(of_task, count * (count - 1) / 2.0, len(votes.tasks))
    expected = votes.pairs_of_products(skill[votes.worker])
    members, place = np.unique(votes.worker, return_inverse=True)
    own = shares[members].tocsc()
    for low, high in pairwise(own.indptr[np.append(True, np.diff(own.indptr) > 0)].tolist()):
        share = np.zeros(len(members))
        share[own.indices[low:high]] = own.data[low:high]
        expected += votes.pairs_of_products(share[place])
    expected = np.clip(expected, 0.0, pairs)
    return agreed - expected, pairs - expected


def _error_products(
    votes: GroupVotes, gold: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums over each gold task's pairs of error covariances and of products of deviations."""
    truth, error = gold[votes.tasks][votes.place], errors[votes.worker]
    off, deviation = (votes.label != truth) - error, np.sqrt(error * (1.0 - error))
    one, other = (
        votes.pairs_of_products(np.where(truth >= 0, value, 0.0)) for value in (off, deviation)
    )
    return one, other


def _common_errors(
    votes: GroupVotes, believed: np.ndarray | NamedPosterior, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each task, the pairs who agree on a wrong-looking answer, and those expected by chance."""
    of_task, label, count = votes.alike()
    alike = count * (count - 1) / 2.0 * (1.0 - believed[votes.tasks[of_task], label])
    seen = np.bincount(of_task, alike, len(votes.tasks))
    return seen, votes.pairs_of_products(wrong[votes.worker]) / max(believed.shape[1] - 1, 1)


def _result(
    fit: PairFit, groups: np.ndarray, evidence: np.ndarray, ratio: float
) -> DependentGroups:
    """Put the result together from the groups and the sums over their pairs."""
    sums = Evidence(*evidence.T)
    size = np.bincount(groups[groups >= 0], minlength=len(evidence))
    left = np.maximum(sums.left, 1e-300)
    copied = sums.excess / left
    spread = sums.excess2 - 2 * copied * sums.product + copied**2 * sums.left2
    error = QUANTILE * np.sqrt(np.maximum(spread, 0.0)) / left
    one, inside = groups[fit.pair[:, 0]], fit.within(groups) & fit.judged
    alike = spread <= SAME * sums.left2  # all tasks are alike
    error[alike] = _unseen(fit, one[inside], inside, sums)[alike]
    error[sums.left == 0] = 1.0  # no evidence
    share, low, high = (
        np.clip(value, 0.0, 1.0) for value in (copied, copied - error, copied + error)
    )
    return DependentGroups(
        group=groups,
        copied=share,
        copied_interval=np.column_stack([low, high]),
        effective=effective_number(size, share),
        effective_interval=np.column_stack(
            [effective_number(size, high), effective_number(size, low)]
        ),
        p_value=_p_values(fit, one[inside], inside, size),
        n_wrong=sums.wrong,
        expected_wrong=ratio * sums.chance,
        pair=fit.pair[inside],
        n_common=fit.n_common[inside],
        n_agreed=fit.n_agreed[inside],
        expected=fit.n_common[inside] * fit.expected[inside],
        pair_p_value=np.exp(log_ndtr(-fit.z[inside])),
    )


def _unseen(
    fit: PairFit, code: np.ndarray, inside: np.ndarray, sums: Evidence
) -> Float64[np.ndarray, " groups"]:
    """Return the error of each group's share copied if all tasks are alike.

    It is Jeffreys' limit for an answer that none of so many tasks gave, over the agreement that chance
    leaves; 1 if no pair has enough common tasks.
    """
    apart = fit.n_common[inside] * (1.0 - fit.expected[inside])
    total, left = (np.bincount(code, x, len(sums.left)) for x in (fit.n_common[inside], apart))
    n_tasks = sums.left**2 / np.maximum(sums.left2, 1e-300)  # as many of equal weight
    limit = betaincinv(0.5, n_tasks + 0.5, ndtr(QUANTILE))
    return np.asarray(np.divide(limit * total, left, out=np.ones(len(total)), where=left > 0))


def _p_values(fit: PairFit, code: np.ndarray, inside: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return a bound on the chance of each group's evidence among all groups of its size."""
    total, n_pairs = (np.bincount(code, part, len(size)) for part in (fit.z[inside], None))
    log_p = np.where(n_pairs > 0, log_ndtr(-total / np.sqrt(np.maximum(n_pairs, 1))), 0.0)
    n_active = int(np.count_nonzero(np.diff(fit.shares.indptr)))
    # there may be more models without labels than workers with labels
    log_p += np.array([log_subsets(max(n_active, number), number) for number in size.tolist()])
    p_value: np.ndarray = np.exp(np.minimum(log_p, 0.0))
    return p_value

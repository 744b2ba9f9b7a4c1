"""Whether members of a group are believed better one by one, by the labels of everybody else.

Good workers agree more than their skills explain if the crowd about them knows little, or if its errors go
one way, such as those of lenient and of strict graders. Labels of people outside a group tell them from
workers who copy: they are predicted better if good workers count one by one, and worse if copies do. So
they do not if many err alike, as on hard tasks that have a tempting answer. But where the group looks wrong,
the better of the others give its answer more often than the rest if it is right, and less often if not.

>>> from quality import LocalEngine, cut_labels, encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
>>> truth = rng.integers(2, size=300)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
>>> engine = LocalEngine(cut_labels(encode(crowd.worker, crowd.task, crowd.label), [0, 300]))
>>> groups = np.repeat([0, -1, 1], [4, 16, 4])  # four good workers, and the sybils
>>> gains_one_by_one(engine, groups, len(crowd.label)).round(1) + 0.0
array([ 0., -5.])
>>> sided_with(engine, groups, len(crowd.label)).round(1)
array([ 0. , -2.6])
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from quality.aggregation import (
    EMFit,
    answers_under,
    confusion_of,
    hierarchical_by_shards,
    one_coin_by_shards,
    posterior_of_shard,
)
from quality.labels import Engine, LabelShard, Sums

__all__ = ["better_apart", "gains_one_by_one", "sided_with"]

CONSENSUS: tuple[Callable[..., EMFit], ...] = (one_coin_by_shards, hierarchical_by_shards)
MOST_GROUPS = 8  # that are judged, those with most members: each takes two fits
ENOUGH = 300_000  # labels: of a larger table every n-th task is read
BETTER = 2.0  # standard errors by which others' labels speak for members one by one: no group
SETTLED = 1e-4  # gain in nats a label at which these fits end


class _Fit(NamedTuple):
    """A consensus in which every group votes once, and P(answer | truth) of each worker under it."""

    groups: np.ndarray
    belief: tuple[np.ndarray, np.ndarray, bool]
    confusion: np.ndarray


def better_apart(
    engine: Engine,
    groups: Int[np.ndarray, " workers"],
    n_labels: int,
    fixed: Bool[np.ndarray, " groups"],
    *,
    use_gold: bool = False,
) -> Bool[np.ndarray, " groups"]:
    """Return for which groups others' labels speak for the members one by one, by two standard errors.

    They do by :func:`gains_one_by_one` or by :func:`sided_with`. Groups that are `fixed` stay groups. The
    others are judged again when one is dropped, since its members then count one by one for them.
    """
    apart = np.zeros(len(fixed), dtype=np.bool_)
    while not (apart | fixed).all():
        left = np.append(np.where(apart, -1, np.cumsum(~apart) - 1), -1)[groups]
        gains = gains_one_by_one(engine, left, n_labels, use_gold=use_gold)
        sides = sided_with(engine, left, n_labels, use_gold=use_gold)
        found = (np.maximum(gains, sides) > BETTER) & ~fixed[~apart]
        if not found.any():
            break
        apart[~apart] = found
    return apart


def gains_one_by_one(
    engine: Engine, groups: Int[np.ndarray, " workers"], n_labels: int, *, use_gold: bool = False
) -> Float64[np.ndarray, " groups"]:
    """Return by how many standard errors each group's members predict others' labels better one by one.

    Each label of others on the group's tasks is predicted by the labels beside it, with one skill for each
    worker and with a confusion matrix for each: the gain is the mean of both logarithms. Labels of one task
    are one observation. The gain is -inf for groups beyond the eight with most members, and 0 without others.
    Beyond 300,000 of `n_labels` every n-th task is read.
    """
    engine = _readable(engine, n_labels)
    gains, largest = _unjudged(groups)
    together = [_fit(engine, groups, consensus, use_gold) for consensus in CONSENSUS]
    for code in largest:
        apart = np.where(groups == code, -1, groups)
        alone = [_fit(engine, apart, consensus, use_gold) for consensus in CONSENSUS]
        ((gain, square),) = engine.add_up(_gain, (groups == code, together, alone))
        gains[code] = gain / np.sqrt(square) if square > 0 else 0.0
    return gains


def sided_with(
    engine: Engine, groups: Int[np.ndarray, " workers"], n_labels: int, *, use_gold: bool = False
) -> Float64[np.ndarray, " groups"]:
    """Return by how many standard errors better workers side with each group where it looks wrong.

    It does where two members or more agree on an answer that is not the consensus, in which every group
    votes once. Of the others there, the covariance of giving this answer and of the share of right labels on
    all other tasks is added up; labels of one task are one observation. Others who are right more often give
    a wrong answer less often: the sum is positive if it is the consensus that is wrong. It is -inf for groups
    beyond the eight with most members, and 0 without such tasks. Large tables are read as for gains.
    """
    engine = _readable(engine, n_labels)
    sides, largest = _unjudged(groups)
    fit = one_coin_by_shards(engine.merge_workers(groups), tol=SETTLED, use_gold=use_gold)
    belief = fit.prior, fit.table, use_gold
    for code in largest:
        right, of_worker = engine.add_up(_right_elsewhere, (groups, belief, code))
        mean = right.sum() / max(of_worker.sum(), 1.0)
        share = (right + mean) / (of_worker + 1.0)
        ((side, square),) = engine.add_up(_side, (groups, belief, code, share))
        sides[code] = side / np.sqrt(square) if square > 0 else 0.0
    return sides


def _readable(engine: Engine, n_labels: int) -> Engine:
    """Return an engine on the labels of every task, or of every n-th of a large table."""
    return engine.changed(partial(_thinned, every=-(-n_labels // ENOUGH)))


def _unjudged(groups: np.ndarray) -> tuple[Float64[np.ndarray, " groups"], list[int]]:
    """Return -inf for each group, and the groups that are judged."""
    size = np.bincount(groups[groups >= 0])
    return np.full(len(size), -np.inf), np.argsort(-size, kind="stable")[:MOST_GROUPS].tolist()


def _thinned(shard: LabelShard, every: int) -> LabelShard:
    """Return a shard with the labels of every n-th task."""
    return shard.keep_labels((shard.first_task + shard.task) % every == 0)


def _fit(
    engine: Engine, groups: np.ndarray, consensus: Callable[..., EMFit], use_gold: bool
) -> _Fit:
    fit = consensus(engine.merge_workers(groups), tol=SETTLED, use_gold=use_gold)
    belief = fit.prior, fit.table, use_gold
    (answers,) = engine.add_up(_answers, (groups, belief))
    return _Fit(groups, belief, confusion_of(answers))


def _answers(
    shard: LabelShard, asked: tuple[np.ndarray, tuple[np.ndarray, np.ndarray, bool]]
) -> Sums:
    """Return the expected number of each worker's labels of each class and truth."""
    groups, belief = asked
    return (answers_under(shard, posterior_of_shard(shard.merge_workers(groups), belief)),)


def _gain(
    shard: LabelShard, asked: tuple[Bool[np.ndarray, " workers"], list[_Fit], list[_Fit]]
) -> Sums:
    """Return the sum over the tasks of a group of others' gain in log-probability, and of its square."""
    member, together, alone = asked
    of_member = member[shard.worker]
    has_member = np.bincount(shard.task, of_member, shard.n_tasks) > 0
    rows = np.flatnonzero(has_member[shard.task] & ~of_member)
    gain = np.zeros(len(rows))
    for one, other in zip(alone, together, strict=True):
        gain += _log_chances(shard, rows, one) - _log_chances(shard, rows, other)
    of_task = np.bincount(shard.task[rows], gain / len(CONSENSUS), shard.n_tasks)
    return (np.array([of_task.sum(), (of_task**2).sum()]),)


def _log_chances(shard: LabelShard, rows: np.ndarray, fit: _Fit) -> np.ndarray:
    """Return the log-probability of some labels, given the other labels of their tasks."""
    posterior = posterior_of_shard(shard.merge_workers(fit.groups), fit.belief)[shard.task[rows]]
    likelihood = fit.confusion[shard.worker[rows], :, shard.label[rows]]
    return np.asarray(-np.log((posterior / likelihood).sum(axis=1)))


def _looks_wrong(
    shard: LabelShard, groups: np.ndarray, belief: tuple[np.ndarray, np.ndarray, bool], code: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the belief, and each task's answer of two members or more that is not the consensus, or -1."""
    believed = posterior_of_shard(shard.merge_workers(groups), belief)
    task, votes = np.arange(shard.n_tasks), np.zeros(believed.shape, dtype=np.int64)
    rows = groups[shard.worker] == code
    np.add.at(votes, (shard.task[rows], shard.label[rows]), 1)
    votes[task, believed.argmax(axis=1)] = 0
    answer = votes.argmax(axis=1)
    return believed, np.where(votes[task, answer] >= 2, answer, -1)


def _right_elsewhere(
    shard: LabelShard, asked: tuple[np.ndarray, tuple[np.ndarray, np.ndarray, bool], int]
) -> Sums:
    """Return each other worker's expected right labels, and her labels, where the group looks right."""
    groups, _, code = asked
    believed, answer = _looks_wrong(shard, *asked)
    rows = (groups[shard.worker] != code) & (answer[shard.task] < 0)
    worker, right = shard.worker[rows], believed[shard.task[rows], shard.label[rows]]
    n_labels = np.bincount(worker, minlength=shard.n_workers).astype(np.float64)
    return np.bincount(worker, right, shard.n_workers), n_labels


def _side(
    shard: LabelShard,
    asked: tuple[np.ndarray, tuple[np.ndarray, np.ndarray, bool], int, np.ndarray],
) -> Sums:
    """Return the sum over tasks of how far better workers give the group's answer, and of its square."""
    groups, belief, code, share = asked
    _, answer = _looks_wrong(shard, groups, belief, code)
    rows = (groups[shard.worker] != code) & (answer[shard.task] >= 0)
    task, better = shard.task[rows], share[shard.worker[rows]]
    total, n_labels = np.bincount(task, better, shard.n_tasks), np.bincount(task)
    better = better - total[task] / n_labels[task]
    of_task = np.bincount(task, better * (shard.label[rows] == answer[task]), shard.n_tasks)
    return (np.array([of_task.sum(), (of_task**2).sum()]),)

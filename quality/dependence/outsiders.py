"""Whether members of a group are believed better one by one, by the labels of everybody else.

Good workers agree more than their skills explain if the crowd about them knows little, or if its errors go
one way, such as those of lenient and of strict graders. Labels of people outside a group tell them from
workers who copy: they are predicted better if good workers count one by one, and worse if copies do.

>>> from quality import LocalEngine, cut_labels, encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
>>> truth = rng.integers(2, size=300)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
>>> engine = LocalEngine(cut_labels(encode(crowd.worker, crowd.task, crowd.label), [0, 300]))
>>> groups = np.repeat([0, -1, 1], [4, 16, 4])  # four good workers, and the sybils
>>> gains_one_by_one(engine, groups, len(crowd.label)).round(1) + 0.0
array([ 0., -5.])
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

__all__ = ["gains_one_by_one"]

CONSENSUS: tuple[Callable[..., EMFit], ...] = (one_coin_by_shards, hierarchical_by_shards)
MOST_GROUPS = 8  # that are judged, those with most members: each takes two fits
ENOUGH = 300_000  # labels: of a larger table every n-th task is read
SETTLED = 1e-4  # gain in nats a label at which these fits end


class _Fit(NamedTuple):
    """A consensus in which every group votes once, and P(answer | truth) of each worker under it."""

    groups: np.ndarray
    belief: tuple[np.ndarray, np.ndarray, bool]
    confusion: np.ndarray


def gains_one_by_one(
    engine: Engine, groups: Int[np.ndarray, " workers"], n_labels: int, *, use_gold: bool = False
) -> Float64[np.ndarray, " groups"]:
    """Return by how many standard errors each group's members predict others' labels better one by one.

    Each label of others on the group's tasks is predicted by the labels beside it, with one skill for each
    worker and with a confusion matrix for each: the gain is the mean of both logarithms. Labels of one task
    are one observation. The gain is -inf for groups beyond the eight with most members, and 0 without others.
    Beyond 300,000 of `n_labels` every n-th task is read.
    """
    engine = engine.changed(partial(_thinned, every=-(-n_labels // ENOUGH)))
    size = np.bincount(groups[groups >= 0])
    gains = np.full(len(size), -np.inf)
    together = [_fit(engine, groups, consensus, use_gold) for consensus in CONSENSUS]
    for code in np.argsort(-size, kind="stable")[:MOST_GROUPS]:
        apart = np.where(groups == code, -1, groups)
        alone = [_fit(engine, apart, consensus, use_gold) for consensus in CONSENSUS]
        ((gain, square),) = engine.add_up(_gain, (groups == code, together, alone))
        gains[code] = gain / np.sqrt(square) if square > 0 else 0.0
    return gains


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

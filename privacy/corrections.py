"""Gold's correction of consensus labels: the statistic and the mechanism behind corrected shares.

Class shares are corrected by a difference: over gold tasks, true class counts minus consensus class counts,
which add up to 0. The number of right labels is released with it, at no price of its own.

>>> (query,) = gold_corrections(
...     np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0, 0, 0]), dataset="toy", n_classes=2,
...     group_names=("all",), unit=Unit.CONSENSUS_LABEL, local=False, tasks=("t1", "t2", "t3"),
... )
>>> query.value["difference"], query.value["right"]
(array([-1,  1]), array([2, 1]))
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from privacy.accounting import covering_scale, keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import LatticeLaplace, LatticeLaplaceEvent, LatticeLaplaceLaw
from privacy.query import (
    MAX_RECORDS,
    CountsError,
    Part,
    Query,
    Unit,
    UnitError,
    assignment_digest,
    check_array,
    check_classes,
    check_groups,
    check_unit,
    is_whole,
    task_names,
)

__all__ = ["ONE_GOLD_TASK", "LatticeCorrection", "gold_corrections"]

ONE_GOLD_TASK = 4.0  # l1 sensitivity: a task's consensus label and its gold label are replaced


def gold_corrections(
    label: Int[np.ndarray, " tasks"],
    gold: Int[np.ndarray, " tasks"],
    group: Int[np.ndarray, " tasks"],
    *,
    dataset: str,
    n_classes: int,
    group_names: Sequence[str],
    unit: Unit,
    local: bool,
    tasks: Sequence[str] | np.ndarray,
    max_tasks: int = 1,
    apart: bool = True,
) -> tuple[Query, ...]:
    """Subtract consensus counts from true counts over the gold tasks, by group or for all groups together.

    Parameters
    ----------
    label, gold
        Consensus and true class codes, both private; gold is -1 where the truth is unknown. Which
        tasks have gold is **public**, and fixed without looking at labels.
    group, dataset, n_classes, group_names, tasks
        As for `class_counts`.
    unit
        What one neighbour may change; where a task's consensus label may change, so may its gold label.
    local
        Whether a task's consensus depends on that task's crowd labels alone, and not on gold.
    max_tasks
        For the unit `SUBJECT`: the largest number of one subject's tasks among these.
    apart
        True: a query for each group that has gold, as parts of a partition of the gold tasks. False: one
        query of all groups, the only choice for the unit `SUBJECT`.

    Returns
    -------
    tuple of Query
        `difference`: gold tasks of each true class minus those of each consensus class. `right`: gold
        tasks on which the consensus is right, and on which it is wrong.

    Raises
    ------
    UnitError
        If the unit is `TASK` or `ANSWER` and the consensus is not local; if the unit is `SUBJECT` and
        `apart` is True, or the unit is another and `max_tasks` is not 1.
    CountsError
        If labels are not codes of the declared classes; the message never repeats them.
    ValueError
        If groups are not codes of the named groups, or no task has gold.

    Notes
    -----
    **Guarantees.** A difference adds up to 0, and right and wrong to the number of gold tasks. No neighbour
    moves a value by more than the l1 sensitivity of 4 `max_tasks`, and the change of one task can attain 4.
    **Privacy.** Let one task go from (f, y) to (f', y'). Its term of the difference is e_y - e_f, which is
    0 if the label is right and of l1 norm 2 if not. Right and wrong together move by 2 if the label becomes
    right or wrong, else by 0. From right to wrong or back: 2 + 2 = 4. From wrong to wrong:
    ||(e_y' - e_f') - (e_y - e_f)||_1 <= 4, plus 0. From right to right: 0. So the sensitivity is 4
    whether the consensus label moves, the gold label, or both, and the count of right labels adds nothing.
    For the unit `ROW` features move as well, which the value does not contain. For `TASK` and `ANSWER` the
    consensus label of one task alone moves, because consensus is local. The moves of a subject's tasks add
    up.

    Examples
    --------
    >>> north, south = gold_corrections(
    ...     np.array([0, 0, 1]), np.array([1, -1, 1]), np.array([0, 0, 1]), dataset="toy", n_classes=2,
    ...     group_names=("north", "south"), unit=Unit.CONSENSUS_LABEL, local=False,
    ...     tasks=("t1", "t2", "t3"),
    ... )
    >>> north.value["difference"], north.n, north.l1, north.part.name
    (array([-1,  1]), 1, 4.0, 'north')
    """
    names = tuple(map(str, group_names))
    known = _check(label, gold, group, n_classes, names)
    check_unit(unit)
    unit.require_local(local)
    if unit is Unit.SUBJECT and apart:
        raise UnitError("unit 'subject' must have all groups together: a subject may be in several")
    if not (is_whole(max_tasks) and (max_tasks == 1 or (unit is Unit.SUBJECT and max_tasks >= 1))):
        raise UnitError(
            f"max_tasks must be an integer >= 1, and 1 but for subjects, got max_tasks={max_tasks}"
        )
    if not known.any():
        raise ValueError("there must be a gold task, got none")
    l1 = ONE_GOLD_TASK * max_tasks
    if not apart:
        return (_query(label[known], gold[known], n_classes, dataset, unit, l1, None),)
    gold_tasks = np.asarray(task_names(tasks, group.size), dtype=np.str_)[known]
    # part of the name: the same number of other gold tasks is drawn anew
    partition = f"gold:{assignment_digest(group[known], names, gold_tasks)}"
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(group[rows], kind="stable")]
    codes, first = np.unique(group[rows], return_index=True)
    return tuple(
        _query(label[one], gold[one], n_classes, dataset, unit, l1, Part(partition, names[code]))
        for code, one in zip(codes.tolist(), np.split(rows, first[1:]), strict=True)
    )


def _query(
    label: np.ndarray,
    gold: np.ndarray,
    k: int,
    dataset: str,
    unit: Unit,
    l1: float,
    part: Part | None,
) -> Query:
    difference = np.bincount(gold, minlength=k) - np.bincount(label, minlength=k)
    n_right = int(np.count_nonzero(label == gold))
    right = np.array([n_right, label.size - n_right])
    for array in (difference, right):
        array.setflags(write=False)
    value = {"difference": difference, "right": right}
    return Query(dataset, "corrections by gold", value, unit, int(label.size), l1, part)


def _check(
    label: np.ndarray, gold: np.ndarray, group: np.ndarray, n_classes: int, names: tuple[str, ...]
) -> np.ndarray:
    """Return which tasks have gold, or raise; no message repeats a label."""
    check_classes(n_classes)
    check_groups(group, names)
    for what, codes in (("label", label), ("gold", gold)):
        check_array(what, codes)
    if not (label.ndim == 1 and label.shape == gold.shape == group.shape):
        raise CountsError("label, gold and group must be of equal length")
    for codes, least in ((label, 0), (gold, -1)):
        if not (codes.dtype.kind in "iu" and ((codes >= least) & (codes < n_classes)).all()):
            raise CountsError(f"labels must be integer codes of the {n_classes} declared classes")
    return np.asarray(gold >= 0)


@dataclass(frozen=True, slots=True)
class LatticeCorrection:
    """Release a correction by gold with lattice Laplace noise of scale l1 / epsilon.

    The released value is two lists of integers: the noisy difference, which adds up to 0, and the noisy
    numbers of right and wrong labels, which add up to the number of gold tasks.

    Parameters
    ----------
    epsilon
        Price of one release, > 0 and finite.

    Notes
    -----
    **Guarantees.** The realised epsilon, l1 over the scale drawn with, is at most the claim in exact
    arithmetic; the event depends on public things only. Released sums are exact.
    **Privacy.** Unit: the query's. Event: `LatticeLaplaceEvent`. Both vectors have the same sums for all
    neighbours, so noise that keeps these sums can turn one value into any neighbour's. Moving the vectors
    by v and w changes the probability of an output by a factor of at most exp((||v||_1 + ||w||_1) / scale)
    <= exp(l1 / scale).

    Examples
    --------
    >>> LatticeCorrection(0.5).law(5).scale
    8.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        keep_declared(self)
        LatticeLaplace(self.epsilon)  # refuses invalid prices

    def event(self, query: Query) -> LatticeLaplaceEvent:
        """Describe a release; raise CountsError if the query is no correction by gold."""
        difference, _ = _vectors(query)
        scale = covering_scale(query.l1, self.epsilon)
        # for one moved task a longer vector has a smaller loss, and the second vector has two entries
        return LatticeLaplaceEvent(
            scale, query.l1, 2 if query.l1 == 2 else int(difference.size), self.epsilon
        )

    def law(self, n_classes: int, *, l1: float = ONE_GOLD_TASK) -> LatticeLaplaceLaw:
        """Return the public law of the noise on the difference, for intervals and planning."""
        return LatticeLaplace(self.epsilon).law(n_classes, l1=l1)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw both vectors; only the ledger calls this."""
        difference, right = _vectors(query)
        shifted = difference + query.n  # counts >= 0 of a public sum, on the same lattice
        sizes = query.n * difference.size, query.n
        counts = [
            replace(query, value=one, n=n, places=1)
            for one, n in zip((shifted, right), sizes, strict=True)
        ]
        noisy, noisy_right = LatticeLaplace(self.epsilon).draw_all(counts, noise)
        return [[entry - query.n for entry in noisy], noisy_right]


def _vectors(query: Query) -> tuple[np.ndarray, np.ndarray]:
    """Return the two vectors of a correction; raise CountsError without repeating them."""
    value = query.value
    if isinstance(value, np.ndarray) or set(value) != {"difference", "right"}:
        raise CountsError("the value must be a difference, and numbers of right and wrong labels")
    difference, right = value["difference"], value["right"]
    if not (difference.ndim == 1 and difference.dtype.kind == right.dtype.kind == "i"):
        raise CountsError("a correction must be of vectors of integers")
    if not (difference.size >= 2 and right.shape == (2,)):
        raise CountsError(
            "a correction must be of 2 classes or more, and of right and wrong labels"
        )
    check_classes(difference.size)
    within = (difference >= -query.n) & (difference <= query.n)  # the least integer has no absolute
    if not (within.all() and sum(difference.tolist()) == 0):
        raise CountsError("a difference must add up to 0, and be at most the number of gold tasks")
    if not query.n * difference.size <= MAX_RECORDS:  # the counts drawn have that sum
        raise CountsError(
            f"gold tasks times classes must be at most 2**53, got {query.n} and {difference.size}"
        )
    if not ((right >= 0).all() and right.sum() == query.n):
        raise CountsError("right and wrong labels must add up to the number of gold tasks")
    if not math.isfinite(query.l1):
        raise CountsError("a correction must have a finite l1 sensitivity")
    return difference.astype(np.int64), right.astype(np.int64)

"""Units for people: all counted tasks of one subject are protected together.

At most `max_tasks` of a subject's tasks count (`bounded_tasks`), chosen without their labels. One subject
then moves class counts by at most 2 `max_tasks` in l1 norm, in one group or over several (`subject_counts`,
`JointLatticeLaplace`). A mechanism that is proved for one record protects a group of m records at m times
its price (`GroupPrivacy`, and `GroupInteraction` for a gate).

>>> subject = np.array([0, 0, 0, 1])
>>> bounded_tasks(subject, tasks=("t1", "t2", "t3", "t4"), max_tasks=2, key=b"7")
array([ True,  True, False,  True])
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Int

from privacy.accounting import (
    Cost,
    covering_scale,
    double_up,
    event_json,
    exact,
    keep_declared,
    price_text,
    six_digits_up,
)
from privacy.counts import check_codes
from privacy.mechanism import (
    ApproximateEvent,
    History,
    Interaction,
    Json,
    Mechanism,
    Noise,
    PureEvent,
    Question,
)
from privacy.mechanisms import LatticeLaplace, LatticeLaplaceEvent
from privacy.query import (
    ONE_TASK,
    CountsError,
    Part,
    Query,
    Unit,
    UnitError,
    assignment_digest,
    check_array,
    check_classes,
    is_whole,
    task_names,
)

__all__ = [
    "GroupInteraction",
    "GroupPrivacy",
    "JointLatticeLaplace",
    "bounded_tasks",
    "subject_counts",
]


MAX_KEY = 64  # longest key of BLAKE2b, in bytes
MAX_GROWTH = 700  # largest exponent whose exponential is a number


def bounded_tasks(
    subject: Int[np.ndarray, " tasks"],
    *,
    tasks: Sequence[str] | np.ndarray,
    max_tasks: int,
    key: bytes,
) -> Bool[np.ndarray, " tasks"]:
    """Keep at most `max_tasks` tasks of each subject, the first in an order that a key determines.

    Parameters
    ----------
    subject
        Each task's subject, as codes >= 0.
    tasks
        Names of the tasks, all different.
    max_tasks
        The bound, >= 1.
    key
        Key of the order, which sorts keyed digests of the names; at most 64 bytes.

    Raises
    ------
    ValueError
        If one of these conditions is broken; the message never repeats the key.

    Notes
    -----
    **Guarantees.** No subject keeps more than `max_tasks` tasks, and a subject with that many or fewer
    keeps all. The choice depends on names, subjects and key alone, and not on the order of the rows.

    Examples
    --------
    >>> subject, names = np.array([0, 0, 1]), ("t1", "t2", "t3")
    >>> int(bounded_tasks(subject, tasks=names, max_tasks=1, key=b"7").sum())
    2
    """
    _check_max_tasks(max_tasks)
    if not (isinstance(key, bytes) and len(key) <= MAX_KEY):  # the message never shows a key
        raise ValueError(f"key must be at most {MAX_KEY} bytes")
    check_array("subject", subject)
    if not (subject.ndim == 1 and subject.dtype.kind in "iu" and (subject >= 0).all()):
        raise ValueError("subject must be one integer code >= 0 for each task")
    names = task_names(tasks, subject.size)
    digests = [
        hashlib.blake2b(name.encode(errors="surrogatepass"), key=key, digest_size=16).digest()
        for name in names
    ]
    order = np.lexsort((np.array(digests, dtype="S16"), subject))
    ordered = subject[order]
    first = np.searchsorted(ordered, ordered)  # start of each subject's run of tasks
    kept = np.empty(subject.size, dtype=np.bool_)
    kept[order] = np.arange(subject.size) - first < max_tasks
    return kept


def subject_counts(
    label: Int[np.ndarray, " tasks"],
    group: Int[np.ndarray, " tasks"],
    subject: Int[np.ndarray, " tasks"],
    *,
    dataset: str,
    n_classes: int,
    group_names: Sequence[str],
    subject_names: Sequence[str] | np.ndarray,
    tasks: Sequence[str] | np.ndarray,
    max_tasks: int,
) -> tuple[Query, ...]:
    """Count the classes of each group of tasks, for the unit `SUBJECT`.

    Parameters
    ----------
    label, group, dataset, n_classes, group_names, tasks
        As for `class_counts`.
    subject
        Code of each task's subject, the same for all neighbours.
    subject_names
        One name per subject, all different; they bind a partition to the subjects.
    max_tasks
        Bound on the tasks of a subject in this table, an integer >= 1.

    Returns
    -------
    tuple of Query
        If every subject's tasks are in one group: one query per group, parts of one partition. Otherwise
        one query of all groups, whose value has a row per group.

    Raises
    ------
    UnitError
        If a subject has more than `max_tasks` tasks.
    CountsError, ValueError
        As `class_counts`.

    Notes
    -----
    **Guarantees.** Counts of a group add up to its number of tasks; groups are parts of a partition only
    if no subject is in two of them; another assignment of tasks to groups or to subjects is another
    partition.
    **Privacy.** Neighbours differ in the features and consensus labels of one subject's tasks, at most
    `max_tasks`. Each moves one count down and one up in its group, so that the counts of all groups
    together move by at most 2 `max_tasks` in l1 norm.

    Examples
    --------
    >>> group, subject = np.array([0, 0, 1]), np.array([0, 0, 1])
    >>> about = {
    ...     "dataset": "toy", "n_classes": 2, "group_names": ("north", "south"),
    ...     "subject_names": ("ann", "bob"), "tasks": ("t1", "t2", "t3"), "max_tasks": 2,
    ... }
    >>> north, south = subject_counts(np.array([0, 1, 1]), group, subject, **about)
    >>> north.value, north.l1, north.part.name
    (array([1, 1]), 4.0, 'north')
    >>> (both,) = subject_counts(np.array([0, 1, 1]), group, np.array([0, 1, 0]), **about)
    >>> both.value.tolist(), both.l1, both.part
    ([[1, 1], [0, 1]], 4.0, None)
    """
    names = tuple(map(str, group_names))
    _check_max_tasks(max_tasks)
    n = check_codes(label, group, n_classes, len(names), names)
    check_array("subject", subject)
    codes = subject.ndim == 1 and subject.dtype.kind in "iu" and subject.size == group.size
    if not (codes and ((subject >= 0) & (subject < len(subject_names))).all()):
        raise ValueError(
            f"subject must be one integer code of the {len(subject_names)} named subjects for each task"
        )
    people = list(map(str, subject_names))
    if not len(set(people)) == len(people):  # one person under two codes
        raise ValueError(
            f"subject_names must be {len(people)} different names; give a subject's tasks one code"
        )
    if not int(np.bincount(subject).max()) <= max_tasks:
        raise UnitError(
            f"a subject must have at most max_tasks={max_tasks} tasks: bound them first"
        )
    cell = group.astype(np.int64) * n_classes + label.astype(np.int64)
    counts = np.bincount(cell, minlength=len(names) * n_classes).reshape(-1, n_classes)
    counts.setflags(write=False)
    l1 = ONE_TASK * max_tasks
    member = subject.astype(np.int64) * len(names) + group.astype(np.int64)
    if np.unique(subject).size != np.unique(member).size:
        return (Query(dataset, "class counts", counts, Unit.SUBJECT, int(n.sum()), l1),)
    bound = [
        json.dumps([str(task), people[code]])
        for task, code in zip(task_names(tasks, group.size), subject.tolist(), strict=True)
    ]
    partition = f"group:{assignment_digest(group, names, tuple(bound))}"
    return tuple(
        Query(dataset, "class counts", row, Unit.SUBJECT, int(size), l1, Part(partition, name))
        for row, size, name in zip(counts, n, names, strict=True)
    )


@dataclass(frozen=True, slots=True)
class JointLatticeLaplace:
    """Release class counts of several groups together, each with lattice Laplace noise.

    The released value is a list of noisy counts for each group, which add up to the group's public
    size.

    Parameters
    ----------
    epsilon
        Price of all groups together, > 0 and finite.

    Notes
    -----
    **Guarantees.** Each group's noisy counts add up to its number of tasks; each has noise of scale
    l1 / epsilon.
    **Privacy.** Unit: the query's. Event: `LatticeLaplaceEvent`. Neighbours' counts have the same sums
    in every group. Moving the counts of group g by v_g changes the probability of its output by a factor
    of at most exp(||v_g||_1 / scale); noise is independent between groups, so that the product is at most
    exp(l1 / scale), where l1 bounds the sum of ||v_g||_1.

    Examples
    --------
    >>> counts = np.array([[3, 1], [2, 2]])
    >>> query = Query("toy", "class counts", counts, Unit.SUBJECT, n=8, l1=4.0)
    >>> JointLatticeLaplace(0.5).event(query).scale
    8.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        keep_declared(self)
        LatticeLaplace(self.epsilon)  # refuses invalid prices

    def event(self, query: Query) -> LatticeLaplaceEvent:
        """Describe a release; raise CountsError if the query has no class counts of groups."""
        counts = query.value
        if not (isinstance(counts, np.ndarray) and counts.ndim == 2 and counts.dtype.kind in "iu"):
            raise CountsError("counts must be an integer array of groups and classes")
        if not counts.shape[1] >= 2:
            raise CountsError(f"counts must be of 2 classes or more, got {counts.shape[1]}")
        check_classes(counts.shape[1])
        sizes = [sum(row) for row in counts.tolist()]  # Python integers never overflow
        if not ((counts >= 0).all() and min(sizes, default=0) >= 1 and sum(sizes) == query.n):
            raise CountsError("counts must be >= 0 and add up to the query's public n")
        if not math.isfinite(query.l1):
            raise CountsError("counts must have a finite l1 sensitivity")
        scale = covering_scale(query.l1, self.epsilon)
        return LatticeLaplaceEvent(scale, query.l1, int(counts.shape[1]), self.epsilon)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw noisy counts of every group; only the ledger calls this."""
        self.event(query)
        rows = [
            replace(query, value=row, n=int(row.sum()), places=1) for row in np.asarray(query.value)
        ]
        return LatticeLaplace(self.epsilon).draw_all(rows, noise)


@dataclass(frozen=True, slots=True)
class GroupPrivacy:
    """A mechanism that is proved for one record, priced for any `size` records together.

    Parameters
    ----------
    inner
        The mechanism; its event's guarantee is for neighbours that replace one record.
    size
        Number of records that one neighbour may replace, >= 1.
    claim
        Price of the group, at least `size` times the inner epsilon.

    Raises
    ------
    TypeError
        If the inner mechanism does not draw values.
    ValueError
        If the size is below 1; by `event`, if the claim is below the group's realised epsilon, or the size
        too large for a delta below 1.

    Notes
    -----
    **Guarantees.** The event costs at least `size` times the inner epsilon; values are the inner
    mechanism's.
    **Privacy.** Data sets that differ in `size` records are joined by a chain of that many replacements.
    Epsilons add up along it, and a delta grows by a factor of e^epsilon at each step, to at most delta size
    e^((size - 1) epsilon) [1]_. Unit: `SUBJECT`, if no subject has more than `size` records.

    References
    ----------
    .. [1] Vadhan, "The complexity of differential privacy", Lemma 2.2 (2017).

    Examples
    --------
    >>> three = GroupPrivacy(LatticeLaplace(0.1), 3, 0.3)
    >>> query = Query("toy", "class counts", np.array([3, 1]), Unit.SUBJECT, n=4, l1=2.0)
    >>> three.event(query).cost().epsilon
    Fraction(3, 10)
    """

    inner: Mechanism
    size: int
    claim: float | str

    def __post_init__(self) -> None:
        keep_declared(self)
        _check_size(self.size)
        _check_inner(self.inner, Mechanism, "draw values", "GroupInteraction")

    @property
    def epsilon(self) -> float:
        """Price of the group."""
        return double_up(exact(self.claim))

    def event(self, query: Query) -> PureEvent | ApproximateEvent:
        """Describe the release for a group of records."""
        return _group_event(self.inner, query, self.size, exact(self.claim))

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw the inner value; only the ledger calls this."""
        return self.inner.draw(query, noise)


@dataclass(frozen=True, slots=True)
class GroupInteraction:
    """An interaction that is proved for one record, priced for any `size` records together.

    Parameters, errors, guarantees and proof are those of `GroupPrivacy`, with the least claim.

    Examples
    --------
    >>> GroupInteraction(None, 0)
    Traceback (most recent call last):
    ValueError: size must be an integer >= 1, got size=0
    """

    inner: Interaction
    size: int

    def __post_init__(self) -> None:
        keep_declared(self)
        _check_size(self.size)
        _check_inner(self.inner, Interaction, "answer questions", "GroupPrivacy")

    def event(self, query: Query) -> PureEvent | ApproximateEvent:
        """Describe the whole interaction for a group of records."""
        return _group_event(self.inner, query, self.size, None)

    def check(self, query: Query, question: Question) -> None:
        """Check a question as the inner mechanism does."""
        self.inner.check(query, question)

    def start(self, query: Query, noise: Noise) -> Json:
        """Draw the inner state; only the ledger calls this."""
        return self.inner.start(query, noise)

    def answer(
        self, state: Json, question: Question, noise: Noise, history: History
    ) -> tuple[Json, Json]:
        """Answer as the inner mechanism; only the ledger calls this."""
        return self.inner.answer(state, question, noise, history)


def _check_max_tasks(max_tasks: int) -> None:
    if not (is_whole(max_tasks) and max_tasks >= 1):
        raise ValueError(f"max_tasks must be an integer >= 1, got max_tasks={max_tasks}")


def _check_size(size: int) -> None:
    if not (type(size) is int and size >= 1):
        raise ValueError(f"size must be an integer >= 1, got size={size}")


def _check_inner(inner: object, kind: type, does: str, other: str) -> None:
    """Raise TypeError for an inner mechanism of the other kind: the draw would fail after payment."""
    if isinstance(inner, type) or not isinstance(inner, kind):
        given = inner.__name__ if isinstance(inner, type) else type(inner).__name__
        raise TypeError(f"inner must be a mechanism that can {does}, got {given}; see {other}")


def _group_event(
    inner: Mechanism | Interaction, query: Query, size: int, claim: Fraction | None
) -> PureEvent | ApproximateEvent:
    """Return the event of a group of `size` records, at the claim or at the least price."""
    event = inner.event(query)
    one = event.cost()
    least = size * one.epsilon
    if claim is not None and not claim >= least:
        raise ValueError(
            f"claim must be at least size * epsilon = {price_text(least)}, got {price_text(claim, left=True)}"
        )
    epsilon, name = (
        str(least if claim is None else claim),
        f"{type(inner).__name__} of {size} records",
    )
    parameters = {"size": size, "event": json.loads(event_json(event))}
    if not one.delta:
        return PureEvent(name, epsilon, parameters, event.arithmetic)
    return ApproximateEvent(name, epsilon, _group_delta(one, size), parameters, event.arithmetic)


def _group_delta(one: Cost, size: int) -> float:
    """Return delta size e^((size - 1) epsilon), rounded up."""
    exponent = (size - 1) * one.epsilon
    if not exponent <= MAX_GROWTH:
        raise ValueError(
            f"size must be at most 1 + {MAX_GROWTH} / epsilon for a mechanism with a delta, "
            f"got size={size}, epsilon={price_text(one.epsilon)}"
        )
    growth = math.nextafter(math.exp(math.nextafter(float(exponent), math.inf)), math.inf)
    return six_digits_up(one.delta * size * Fraction(math.nextafter(growth, math.inf)))

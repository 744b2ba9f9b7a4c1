"""M-MSR: skills from the agreement of pairs of workers, without each worker's most extreme partners.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 4, np.repeat(range(4), 3), list("aabbbbaaabbb"))
>>> labels.classes[mmsr(labels).label]
array(['a', 'b', 'a', 'b'], dtype='<U1')

If workers err independently and evenly over the wrong classes, the agreement of two beyond chance is the
product of their skills: without noise the table of pairs has rank one. Colluding workers corrupt their own
entries. So each worker's skill is the mean of the skills that her partners imply for her, without the
largest and the smallest of these. Only pairs who share a task are used.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16
from scipy.sparse import csr_array

from quality.aggregation.consensus import Result, check_em, check_posterior, decide
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, LabelError, name_classes, of_voters
from quality.parallel import Progress, counter, kernel

__all__ = ["Mmsr", "fit_skills", "mmsr", "skill_log_odds"]

PACK = 2.0**26  # tasks in common and equal labels in common, packed into one number
MAX_PAIRS = 2**26  # pairs of workers who share a task: about 10 GB if all possible pairs do
LEAST = 0.05  # lower limit on a partner's skill in a division
EQUAL = 1e-9  # relative difference below which numbers are equal: rounding must not decide who is left out
MAX_TURNS = 100  # rounds of sign changes, which settle, or swing between two states, within dozens


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mmsr(Result):
    """Result of :func:`mmsr`.

    Parameters
    ----------
    posterior
        P(truth | labels) under the skills, with a uniform prior over classes.
    label, tied
        As in :class:`~quality.Consensus`.
    skill
        Skill of each worker: 1 always right, 0 guessing, below 0 an adversary; for a worker who shares no
        task with anybody, the median of the others' skills.
    n_iter, converged
        Iterations made, and whether no skill moved by more than `tol` in the last.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    skill: Float64[np.ndarray, " workers"]
    n_iter: int
    converged: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Pairs of workers who share tasks, each pair in both directions, sorted by the first worker."""

    start: Int[np.ndarray, " bounds"]
    worker: Int[np.ndarray, " pairs"]
    partner: Int[np.ndarray, " pairs"]
    n_common: Float64[np.ndarray, " pairs"]
    beyond: Float64[np.ndarray, " pairs"]  # agreement beyond chance; 1 if they always agree


@check_arguments
def mmsr(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    trim: float = 0.25,
    threads: int | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
) -> Mmsr:
    """Estimate every worker's skill from pairwise agreement; vote with the log odds of being right.

    Each of a worker's partners implies a skill for her: their agreement beyond chance over the partner's
    skill. The largest and smallest of these are left out. The mean of the others is weighted by precision:
    tasks in common times the square of the partner's skill. Skills are updated until they settle; their
    signs are those that fit most pairs.

    Parameters
    ----------
    labels
        The crowd's labels.
    max_iter, groups, progress
        As for :func:`~quality.dawid_skene`, errors included.
    tol
        Stop when no skill moves by more than this, at least 0.
    trim
        Share of a worker's partners to leave out at each end, in [0, 0.5).
    threads
        At least 1 or None; one thread does the work.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    LabelError
        If more than 67 million pairs of workers may share a task.

    Notes
    -----
    **Guarantees.** The posterior is Bayes' rule applied to the skills, moved into the interior of their
    range by one over the square root of the number of tasks with labels. A worker who shares no task with
    anybody has the median skill. Renaming workers, tasks or classes renames the result. The result is the
    same bytes on every run.

    **Limits.** As divisors, skills have an absolute value of at least 0.05. If the share of adversaries
    among a worker's partners exceeds `trim`, her skill is biased.

    **Cost.** Memory O(pairs of workers who share a task), at most the sum of squares of a task's
    labels, and two passes over them per iteration.

    References
    ----------
    .. [1] Ma, Olshevsky, "Adversarial crowdsourcing through robust rank-one matrix completion",
       NeurIPS 2020. It leaves out equally many partners of every worker and weighs the others
       alike, which suits workers with many tasks in common.

    Examples
    --------
    >>> from quality import encode
    >>> workers, tasks = ["ann", "bob", "cy"] * 4, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    >>> result = mmsr(encode(workers, tasks, list("aabbbbaabbba")))
    >>> bool(result.skill[0] > result.skill[2])
    True
    """
    check_em(max_iter, tol, threads)
    check_posterior(labels)
    labels = labels.merge_workers(groups)
    tell = counter(progress, "M-MSR", max_iter)
    skill, n_iter, converged = fit_skills(labels, max_iter=max_iter, tol=tol, trim=trim, tell=tell)
    posterior = _vote(labels, skill)
    label, tied = decide(posterior)
    return Mmsr(posterior, label, tied, of_voters(skill, groups), n_iter, converged)


def fit_skills(
    labels: CrowdLabels,
    *,
    max_iter: int,
    tol: float,
    trim: float,
    tell: Callable[[int], object],
) -> tuple[Float64[np.ndarray, " workers"], int, bool]:
    """Return each worker's skill, the iterations made, and whether the skills had settled."""
    if not 0 <= trim < 0.5:
        raise ValueError(f"trim must be in [0, 0.5), got trim={trim}")
    pairs = _pairs(labels)
    met = np.diff(pairs.start) > 0
    size, n_iter, converged = np.where(met, 0.5, 0.0), 0, False
    sign = _signs(pairs, size)  # before any mean, in which noise of both signs must cancel
    beyond = pairs.beyond * sign[pairs.worker] * sign[pairs.partner]
    while n_iter < max_iter and not converged:
        estimate = trimmed_means(pairs.start, pairs.partner, pairs.n_common, beyond, size, trim)
        moved, size = size, (size + estimate) / 2  # half a step: full steps would swing
        n_iter, converged = n_iter + 1, bool(np.abs(size - moved).max(initial=0.0) <= tol)
        tell(n_iter)
    skill = _signs(pairs, size) * size
    skill[~met] = np.median(skill[met]) if met.any() else 0.5
    return skill, n_iter, converged


def _pairs(labels: CrowdLabels) -> _Pairs:
    """Return the agreement beyond chance of every two workers who share a task."""
    one, n_workers, n_classes = np.ones(labels.n_labels), labels.n_workers, labels.n_classes
    n_labels = np.diff(labels.task_start)
    most = min(n_workers * (n_workers - 1), int((n_labels * (n_labels - 1)).sum())) // 2
    if most > MAX_PAIRS:
        raise LabelError(
            f"M-MSR compares at most {MAX_PAIRS:,} pairs of workers who share a task, got up to "
            f"{most:,} of {n_workers:,} workers: keep part of the workers, or take another aggregator",
            column="worker",
        )
    named = name_classes(labels)  # a column for each class of each task would be too many
    tasks = csr_array((one, (labels.worker, labels.task)), shape=(n_workers, labels.n_tasks))
    same = csr_array((one, (labels.worker, named.entry)), shape=(n_workers, len(named.code)))
    both = tasks @ tasks.T + (same @ same.T) * PACK
    both.sort_indices()
    worker = np.repeat(np.arange(n_workers, dtype=both.indices.dtype), np.diff(both.indptr))
    apart = worker != both.indices
    worker, partner = worker[apart], both.indices[apart]
    n_same, n_common = np.divmod(both.data[apart], PACK)
    start = np.searchsorted(worker, np.arange(n_workers + 1))
    beyond = (n_classes * n_same / n_common - 1) / max(n_classes - 1, 1)
    return _Pairs(start, worker, partner, n_common, beyond)


@kernel
def _equals(value: Float64[np.ndarray, " values"], place: int) -> tuple[float, float, int, int]:
    """Return the range of values equal to the one at this rank, their number, and the number below."""
    middle = np.partition(value, place)[place]
    lower, upper = middle - EQUAL * abs(middle), middle + EQUAL * abs(middle)
    n_equal = n_below = 0
    for one in value:
        n_below += one < lower
        n_equal += lower <= one <= upper
    return lower, upper, n_equal, n_below


@kernel
def trimmed_means(
    start: Int[np.ndarray, " bounds"],
    partner: Int[np.ndarray, " pairs"],
    n_common: Float64[np.ndarray, " pairs"],
    beyond: Float64[np.ndarray, " pairs"],
    size: Float64[np.ndarray, " workers"],
    trim: float,
) -> Float64[np.ndarray, " workers"]:
    """Return the mean of the skills that each worker's partners imply for her, without the extreme ones.

    A mean below 0 becomes 0. `beyond` is positive for two workers who agree as their signs say.

    The paper's rule: of the extremes only those beyond her present skill are left out. Of equal values at a
    bound the same part of each is left out, so that their order plays no part.
    """
    mean = np.zeros(len(size))
    room = np.empty(np.max(np.diff(start)) if len(size) else 0)
    for worker in range(len(size)):
        first, last, now = start[worker], start[worker + 1], size[worker]
        implied, n_below, n_above = room[: last - first], 0, 0
        for at in range(first, last):
            value = beyond[at] / max(size[partner[at]], LEAST)
            n_below += value < now * (1.0 - EQUAL)
            n_above += value > now * (1.0 + EQUAL)
            implied[at - first] = value
        n_out = int(trim * (last - first))
        n_low, n_high = min(n_out, n_below), min(n_out, n_above)
        least, low, low_part = -np.inf, -np.inf, 1.0
        if n_low > 0:
            least, low, n_equal, n_under = _equals(implied, n_low - 1)
            low_part = 1.0 - (n_low - n_under) / n_equal
        high, most, high_part = np.inf, np.inf, 1.0
        if n_high > 0:
            high, most, n_equal, n_under = _equals(implied, last - first - n_high)
            high_part = 1.0 - (n_high - (last - first - n_under - n_equal)) / n_equal
        total = sums = 0.0
        for at in range(first, last):
            value = implied[at - first]
            if value < least or value > most:
                continue
            weight = n_common[at] * max(size[partner[at]], LEAST) ** 2
            if value <= low:
                weight *= low_part
            if value >= high:
                weight *= high_part
            total += weight
            sums += weight * value
        mean[worker] = min(max(sums / total, 0.0), 1.0) if total > 0.0 else 0.0
    return mean


def _signs(pairs: _Pairs, size: Float64[np.ndarray, " workers"]) -> Float64[np.ndarray, " workers"]:
    """Return +1 or -1 for each worker, from the signs of her partners; most workers are better than chance.

    All signs change at once, so that two workers who contradict each other may keep changing together: such
    workers are left at +1.
    """
    sign, pull = np.ones(len(size)), pairs.n_common * pairs.beyond
    before = earlier = sign
    for _ in range(MAX_TURNS):
        each = pull * (sign * size)[pairs.partner]
        sums, whole = (np.bincount(pairs.worker, one, len(size)) for one in (each, np.abs(each)))
        earlier, before, sign = before, sign, np.where(sums < -EQUAL * whole, -1.0, 1.0)
        if np.array_equal(sign, before) or np.array_equal(sign, earlier):
            break
    signs: np.ndarray = np.maximum(sign, before)
    return signs


def _vote(
    labels: CrowdLabels, skill: Float64[np.ndarray, " workers"]
) -> Float64[np.ndarray, "tasks classes"]:
    """Return Bayes' rule for workers whose errors are spread evenly."""
    log_odds = skill_log_odds(labels, skill)
    cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
    log_belief = np.bincount(
        cell, log_odds[labels.worker], minlength=labels.n_tasks * labels.n_classes
    ).reshape(labels.n_tasks, labels.n_classes)
    belief = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
    posterior: np.ndarray = belief / belief.sum(axis=1, keepdims=True)
    return posterior


def skill_log_odds(
    labels: CrowdLabels, skill: Float64[np.ndarray, " workers"]
) -> Float64[np.ndarray, " workers"]:
    """Return the log odds of each worker's label over any other, with skills moved a little inwards."""
    n_classes = max(labels.n_classes, 2)
    n_labelled = int(np.count_nonzero(np.diff(labels.task_start)))
    margin = 1 / np.sqrt(max(n_labelled, 4))
    inside = np.clip(skill, -(1 - margin) / (n_classes - 1), 1 - margin)
    right = inside * (n_classes - 1) / n_classes + 1 / n_classes
    log_odds: np.ndarray = np.log(right * (n_classes - 1) / (1 - right))
    return log_odds

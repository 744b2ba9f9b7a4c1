"""How likely an honest worker is to get as much soft penalty with given tasks: exactly, if they are few.

A worker's labels are drawn anew and everybody else's stay: on each task an answer has a chance that
is linear in her reliability, and a penalty that the others' labels fix. Her penalty is the sum over
conflict tasks over their number. With up to `EXACT` labels its whole distribution is worked out: a
state is a sum and a number of tasks, its chance a polynomial in the reliability, of which only the
population's moments are needed (to about 1e-12). Where the states would be too many to keep, sums are
rounded up, so that no chance comes out too small. With more labels a sum of so many terms is taken
as normal.

Normal tails are nine times too small for a worker of one label, whose penalty takes two values:

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy", "dee"], [1, 1, 1, 1], list("xxxy"))
>>> tails = PenaltyTails.of(labels, np.full((4, 2), 0.5), np.array([0.8]))
>>> tails.p_values(np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0]))
array([1. , 1. , 1. , 0.5])
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import ndtr

from quality.labels import CrowdLabels

__all__ = ["EXACT", "PenaltyTails"]

EXACT = 24  # labels of a worker, up to which nothing is approximated
NEAR = 1e-9  # penalties closer than this are equal
CHUNK = 500  # workers whose distributions are worked out together
MOST = 2_000_000  # penalties kept of all workers, a polynomial each
WIDTHS = (NEAR, 1e-4, 1e-3, 1e-2, 0.1)  # of a sum's rounding, the first that is coarse enough


@dataclass(frozen=True, slots=True, eq=False)
class PenaltyTails:
    """The distribution of each worker's penalty if she were honest.

    Parameters
    ----------
    reliability
        The grid on which populations stand.
    n_labels
        Of each worker.
    moments
        Sums over a worker's tasks that make the mean and the variance of her penalty's two sums.
    key, tail
        Of workers with few labels, penalty by penalty: twice the worker's code plus the penalty,
        ascending, and the chance of as much or more, as coefficients of the powers of reliability.
    """

    reliability: Float64[np.ndarray, " grid"]
    n_labels: Int64[np.ndarray, " workers"]
    moments: Float64[np.ndarray, "workers moments"]
    key: Float64[np.ndarray, " values"]
    tail: Float64[np.ndarray, "values powers"]

    @classmethod
    def of(
        cls,
        labels: CrowdLabels,
        others: Float64[np.ndarray, "labels classes"],
        reliability: Float64[np.ndarray, " grid"],
    ) -> "PenaltyTails":
        """Work the distributions out; `others` is P(truth | the others' labels) at each label."""
        n_labels = np.diff(labels.worker_start)
        terms = _Terms.of(labels, others)
        few = np.flatnonzero((n_labels > 0) & (n_labels <= EXACT))
        most = CHUNK * min(max(MOST // max(len(few), 1), 50), 4096)
        parts = [
            _distributions(labels, terms, few[first : first + CHUNK], most)
            for first in range(0, len(few), CHUNK)
        ]
        key = np.concatenate([part[0] for part in parts] or [np.empty(0)])
        tail = np.concatenate([part[1] for part in parts] or [np.empty((0, EXACT + 1))])
        return cls(reliability, n_labels, _moments(labels, terms), key, tail)

    def p_values(
        self, penalty: Float64[np.ndarray, " workers"], probability: Float64[np.ndarray, " grid"]
    ) -> Float64[np.ndarray, " workers"]:
        """Return the chance of as much penalty or more, reliability being drawn from the population.

        It is 1 for a penalty of 0.
        """
        p_value = np.ones(len(penalty))
        few = np.flatnonzero((penalty > 0) & (self.n_labels <= EXACT))
        at = np.searchsorted(self.key, 2.0 * few + penalty[few] - NEAR)
        powers = self.reliability[:, np.newaxis] ** np.arange(EXACT + 1)
        p_value[few] = np.clip(self.tail[at] @ (probability @ powers), 0.0, 1.0)
        many = np.flatnonzero((penalty > 0) & (self.n_labels > EXACT))
        p_value[many] = self._normal(penalty[many], self.moments[many]) @ probability
        return p_value

    def _normal(
        self,
        penalty: Float64[np.ndarray, " chosen"],
        moments: Float64[np.ndarray, "chosen moments"],
    ) -> Float64[np.ndarray, "chosen grid"]:
        """P(as much penalty or more) at each reliability.

        A penalty S / N is t or more where S - t N is 0 or more: a sum over tasks, taken as normal.
        """
        flat, square = np.ones_like(self.reliability), self.reliability**2
        line = np.array([flat, self.reliability])
        curve = np.array([flat, self.reliability, square])
        s, n, ss_each = (moments[:, low : low + 2] @ line for low in (0, 2, 4))
        ss, sn, nn = (moments[:, low : low + 3] @ curve for low in (6, 9, 12))
        t = penalty[:, np.newaxis]
        variance = ss_each - 2 * t * s + t**2 * n - (ss - 2 * t * sn + t**2 * nn)
        tail: np.ndarray = ndtr((s - t * n) / np.sqrt(np.maximum(variance, 1e-12)))
        return tail


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """Of each label's task and each answer: its chance, ``flat + slope * reliability``, and its penalty.

    The penalty is 0 where the answer makes no conflict. Answers may be put together.
    """

    flat: Float64[np.ndarray, "rows answers"]
    slope: Float64[np.ndarray, "rows answers"]
    penalty: Float64[np.ndarray, "rows answers"]

    @classmethod
    def of(cls, labels: CrowdLabels, others: Float64[np.ndarray, "labels classes"]) -> "_Terms":
        same = labels.counts()[labels.task]
        same[np.arange(labels.n_labels), labels.label] -= 1
        n_others = same.sum(axis=1, keepdims=True)
        flat = (1 - others) / max(labels.n_classes - 1, 1)
        return cls(flat, others - flat, np.where(same < n_others, 1.0 / (same + 1), 0.0))

    def together(self, rows: Int64[np.ndarray, " chosen"]) -> "_Terms":
        """Return these rows, answers of the same penalty put together: there are few penalties."""
        order = np.argsort(self.penalty[rows], axis=1)
        flat, slope, penalty = (
            np.take_along_axis(part[rows], order, axis=1)
            for part in (self.flat, self.slope, self.penalty)
        )
        group = np.zeros(penalty.shape, dtype=np.int64)
        group[:, 1:] = np.cumsum(np.diff(penalty, axis=1) > 0, axis=1)
        shape = len(rows), int(group.max(initial=0)) + 1
        found = [np.zeros(shape) for _ in range(3)]
        place = np.arange(len(rows))[:, np.newaxis]
        np.add.at(found[0], (place, group), flat)
        np.add.at(found[1], (place, group), slope)
        found[2][place, group] = penalty
        return _Terms(*found)


def _distributions(
    labels: CrowdLabels, terms: _Terms, workers: Int64[np.ndarray, " chosen"], most: int
) -> tuple[Float64[np.ndarray, " values"], Float64[np.ndarray, "values powers"]]:
    """Return key and tail of some workers, task by task; states of equal sums are one."""
    n_labels = np.diff(labels.worker_start)[workers]
    place, total = np.arange(len(workers)), np.zeros(len(workers))
    n_conflict, chance = np.zeros(len(workers), int), np.zeros((len(workers), EXACT + 1))
    chance[:, 0] = 1.0
    for step in range(int(n_labels.max(initial=0))):
        asked = n_labels > step
        mine = np.cumsum(asked) - 1
        given = terms.together(labels.worker_order[labels.worker_start[workers[asked]] + step])
        moves = asked[place]
        kept = [part[~moves] for part in (place, total, n_conflict, chance)]
        before = [part[moves] for part in (place, total, n_conflict, chance)]
        flat, slope, penalty = (
            part[mine[before[0]]] for part in (given.flat, given.slope, given.penalty)
        )
        raised = np.roll(before[3], 1, axis=1)  # the highest power is 0 until the last task
        grown = before[3][:, np.newaxis] * flat[:, :, np.newaxis]
        grown += raised[:, np.newaxis] * slope[:, :, np.newaxis]
        place, total, n_conflict, chance = _merged(
            np.concatenate([kept[0], np.repeat(before[0], penalty.shape[1])]),
            np.concatenate([kept[1], (before[1][:, np.newaxis] + penalty).ravel()]),
            np.concatenate([kept[2], (before[2][:, np.newaxis] + (penalty > 0)).ravel()]),
            np.concatenate([kept[3], grown.reshape(-1, EXACT + 1)]),
            most,
        )
    penalty = total / np.maximum(n_conflict, 1)
    order = np.lexsort((penalty, place))
    place, penalty, chance = place[order], penalty[order], chance[order]
    for states in np.split(np.arange(len(place)), np.flatnonzero(np.diff(place)) + 1):
        chance[states] = np.cumsum(chance[states][::-1], axis=0)[::-1]
    return 2.0 * workers[place] + penalty, chance


def _merged(
    place: Int64[np.ndarray, " states"],
    total: Float64[np.ndarray, " states"],
    n_conflict: Int64[np.ndarray, " states"],
    chance: Float64[np.ndarray, "states powers"],
    most: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Add up the chances of states with the same sum and number of conflict tasks.

    If more than `most` would be left, sums are rounded up, which makes no chance smaller.
    """
    for width in WIDTHS:
        if width > NEAR:
            total = np.ceil(total / width - NEAR) * width
        order = np.lexsort((total, n_conflict, place))
        new = np.ones(len(place), dtype=np.bool_)
        new[1:] = np.diff(total[order]) > NEAR
        for part in (place, n_conflict):
            new[1:] |= np.diff(part[order]) != 0
        first = np.flatnonzero(new)
        if len(first) <= most:
            break
    chosen = order[first]
    sums = np.add.reduceat(chance[order], first) if len(first) else chance[:0]
    return place[chosen], total[chosen], n_conflict[chosen], sums


def _moments(labels: CrowdLabels, terms: _Terms) -> Float64[np.ndarray, "workers moments"]:
    """Sums over a worker's tasks that make mean and variance of her penalty's two sums.

    On a task she adds s to the sum of penalties and n to the number of conflict tasks. Means of s,
    n and s squared are linear in her reliability, two coefficients each; the products of the
    means s s, s n and n n are quadratic, three each.
    """
    conflict = terms.penalty > 0
    s0, s1 = ((part * terms.penalty).sum(axis=1) for part in (terms.flat, terms.slope))
    n0, n1 = ((part * conflict).sum(axis=1) for part in (terms.flat, terms.slope))
    q0, q1 = ((part * terms.penalty**2).sum(axis=1) for part in (terms.flat, terms.slope))
    sums = (
        s0, s1, n0, n1, q0, q1, s0 * s0, 2 * s0 * s1, s1 * s1,
        s0 * n0, s0 * n1 + s1 * n0, s1 * n1, n0 * n0, 2 * n0 * n1, n1 * n1,
    )  # fmt: skip
    return np.column_stack([np.bincount(labels.worker, term, labels.n_workers) for term in sums])

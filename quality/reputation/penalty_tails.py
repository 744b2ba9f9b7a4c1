"""Tail of the soft penalty of an honest worker with given tasks: exact for few labels.

A worker's labels are drawn anew, and everybody else's stay. On each task an answer has a chance that is
linear in her reliability, and a penalty that the others' labels fix. Her penalty is the sum over conflict
tasks, divided by their number. With up to `EXACT` labels its whole distribution is computed. A state is a
sum and a number of tasks. Its chance is a polynomial in the reliability, so that only the population's
moments are needed (to about 1e-12). If there are too many states to keep, sums are rounded up, so that no
tail is too small. Labels are taken in the order of the cost of their answers, so that the names of tasks
play no part in the rounding. With more labels the sum is taken as normal.

Normal tails are nine times too small for a worker of one label, whose penalty takes two values:

>>> from quality import encode
>>> from quality.reputation.other_answers import Asked, TaskAnswers, ask_others
>>> labels = encode(["ann", "bob", "cy", "dee"], [1, 1, 1, 1], list("xxxy"))
>>> others, _ = ask_others(labels, TaskAnswers.of(labels), np.zeros(4), np.full(2, 0.5))
>>> tails = PenaltyTails.of(others, Asked.everybody(labels), np.array([0.8]))
>>> tails.p_values(np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0]))
array([1. , 1. , 1. , 0.5])
"""

from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from jaxtyping import Float64, Int32, Int64
from scipy.special import ndtr

from quality.parallel import kernel, prefetch
from quality.reputation.other_answers import (
    Asked,
    GradedAnswers,
    OtherAnswers,
    answer_terms,
    put_by_cost,
)

__all__ = [
    "EXACT", "PenaltyTails", "chance_words", "exact_p_values", "honest_p_values", "moments_of_owners",
    "normal_p_values",
]  # fmt: skip

EXACT = 24  # labels of a worker, at most, for an exact distribution
NEAR = 1e-9  # penalties closer than this are equal
MOST = 2_000_000  # penalties kept of all workers, a polynomial each
# widths of the rounding of sums; the first that is coarse enough is taken
WIDTHS = np.array([NEAR, 1e-4, 1e-3, 1e-2, 0.1])
COARSEST = 11 * EXACT * (EXACT + 1)  # sums and numbers of tasks, at the coarsest width
APART = 64.0  # in a total, the unit of the number of tasks: more than any sum
N_MOMENTS = 15
FAR = 2**13  # workers whose moments a core's cache no longer holds: a megabyte
AHEAD = 10  # labels: about what the sums do while memory answers
BLOCK = 50_000  # workers with a normal tail at once
SMALLEST = 1e-300  # chance shown as a number: smaller doubles lose their digits, and end in 0


def chance_words(what: str, chance: float) -> str:
    """Return a chance to two digits after its name; one too small for a double is never shown as 0.

    >>> chance_words("p-value", 0.0532), chance_words("p-value", 0.0)
    ('p-value 0.053', 'p-value < 1e-300')
    """
    return f"{what} < {SMALLEST:g}" if chance < SMALLEST else f"{what} {chance:.2g}"


@dataclass(frozen=True, slots=True, eq=False)
class PenaltyTails:
    """The distribution of each worker's penalty if she were honest, for many populations.

    Parameters
    ----------
    reliability
        The grid of the populations.
    n_labels
        Labels of each worker.
    moments
        Sums over a worker's tasks that give the mean and the variance of her penalty's two sums.
    key, tail
        Of workers with few labels, for each possible penalty: twice the worker's place plus the penalty,
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
        others: OtherAnswers | GradedAnswers,
        asked: Asked,
        reliability: Float64[np.ndarray, " grid"],
    ) -> "PenaltyTails":
        """Compute the distributions of the workers asked."""
        n_labels = np.diff(asked.start)
        few = np.flatnonzero((n_labels > 0) & (n_labels <= EXACT))
        most = _most_states(len(few))
        work = _Work.of(others, asked, few, most)
        keys, tails = [np.empty(0)], [np.empty((0, EXACT + 1))]
        for one in few:
            begin, end = asked.start[one : one + 2]
            mine, cost, *arrays = work.arrays
            put_by_cost(asked.rows, begin, end, *others.table, *arrays[:3], mine, cost)
            n_states = _distribution(mine, end - begin, *others.table, most, WIDTHS, *arrays)
            total, chance = work.total[:n_states], work.chance[:n_states]
            chance[:, end - begin + 1 :] = 0.0
            penalty = (total % APART) / np.maximum(total // APART, 1)
            order = np.argsort(penalty, kind="stable")
            keys.append(2.0 * one + penalty[order])
            tails.append(np.cumsum(chance[order][::-1], axis=0)[::-1])
        moments = _moments_of(others, asked)
        return cls(reliability, n_labels, moments, np.concatenate(keys), np.concatenate(tails))

    def p_values(
        self, penalty: Float64[np.ndarray, " workers"], probability: Float64[np.ndarray, " grid"]
    ) -> Float64[np.ndarray, " workers"]:
        """Return the chance of as much penalty or more, for a reliability drawn from the population.

        It is 1 for a penalty of 0.
        """
        p_value = np.ones(len(penalty))
        few = np.flatnonzero((penalty > 0) & (self.n_labels <= EXACT))
        at = np.searchsorted(self.key, 2.0 * few + penalty[few] - NEAR)
        p_value[few] = np.clip(self.tail[at] @ _powers(self.reliability, probability), 0.0, 1.0)
        many = np.flatnonzero((penalty > 0) & (self.n_labels > EXACT))
        p_value[many] = _normal(penalty[many], self.moments[many], self.reliability) @ probability
        return p_value


def honest_p_values(
    others: OtherAnswers | GradedAnswers,
    asked: Asked,
    reliability: Float64[np.ndarray, " grid"],
    penalty: Float64[np.ndarray, " workers"],
    probability: Float64[np.ndarray, " grid"],
) -> Float64[np.ndarray, " workers"]:
    """Return the p-values of :meth:`PenaltyTails.p_values` for one population, and keep no distribution."""
    n_labels = np.diff(asked.start)
    p_value = np.ones(len(n_labels))
    few = np.flatnonzero((penalty > 0) & (n_labels <= EXACT))
    exact_p_values(others, asked, few, len(few), reliability, penalty, probability, p_value)
    many = np.flatnonzero((penalty > 0) & (n_labels > EXACT))
    moments = _moments_of(others, asked, many)
    p_value[many] = normal_p_values(penalty[many], moments, reliability, probability)
    return p_value


def exact_p_values(
    others: OtherAnswers | GradedAnswers,
    asked: Asked,
    few: Int64[np.ndarray, " few"],
    n_few: int,
    reliability: Float64[np.ndarray, " grid"],
    penalty: Float64[np.ndarray, " workers"],
    probability: Float64[np.ndarray, " grid"],
    p_value: Float64[np.ndarray, " workers"],
) -> None:
    """Write the p-values of workers with few labels; the whole crowd has `n_few` such workers."""
    most = _most_states(n_few)
    work = _Work.of(others, asked, few, most)
    powers = _powers(reliability, probability)
    _exact_p_values(
        few, asked.rows, asked.start, *others.table, most, WIDTHS, *work.arrays, penalty, powers, p_value
    )  # fmt: skip


def normal_p_values(
    penalty: Float64[np.ndarray, " many"],
    moments: Float64[np.ndarray, "many moments"],
    reliability: Float64[np.ndarray, " grid"],
    probability: Float64[np.ndarray, " grid"],
) -> Float64[np.ndarray, " many"]:
    """Return the p-values of workers with many labels."""
    p_value = np.ones(len(penalty))
    for first in range(0, len(penalty), BLOCK):
        some = slice(first, first + BLOCK)
        p_value[some] = _normal(penalty[some], moments[some], reliability) @ probability
    return p_value


def _powers(
    reliability: Float64[np.ndarray, " grid"], probability: Float64[np.ndarray, " grid"]
) -> Float64[np.ndarray, " powers"]:
    """Return the population's moments, up to the power `EXACT`."""
    powers: np.ndarray = probability @ (reliability[:, np.newaxis] ** np.arange(EXACT + 1))
    return powers


def _normal(
    penalty: Float64[np.ndarray, " chosen"],
    moments: Float64[np.ndarray, "chosen moments"],
    reliability: Float64[np.ndarray, " grid"],
) -> Float64[np.ndarray, "chosen grid"]:
    """Return P(as much penalty or more) at each reliability.

    A penalty S / N is t or more if S - t N is 0 or more, which is a sum over tasks, taken as normal.
    """
    deviation = np.empty((len(penalty), len(reliability)))
    _standardise(penalty, moments, reliability, deviation)
    tail: np.ndarray = ndtr(deviation, out=deviation)
    return tail


@kernel
def _standardise(penalty, moments, reliability, deviation) -> None:
    """Write the mean of S - t N, linear in the reliability, over its deviation, whose square is quadratic."""
    for worker in range(len(penalty)):
        t, m = penalty[worker], moments[worker]
        mean0, mean1 = m[0] - t * m[2], m[1] - t * m[3]
        flat = m[4] - 2 * t * m[0] + t**2 * m[2] - (m[6] - 2 * t * m[9] + t**2 * m[12])
        slope = m[5] - 2 * t * m[1] + t**2 * m[3] - (m[7] - 2 * t * m[10] + t**2 * m[13])
        curve = -(m[8] - 2 * t * m[11] + t**2 * m[14])
        for point in range(len(reliability)):
            r = reliability[point]
            variance = max(flat + (slope + curve * r) * r, 1e-12)
            deviation[worker, point] = (mean0 + mean1 * r) / np.sqrt(variance)


def _most_states(n_workers: int) -> int:
    """Return the most states that a worker's distribution may have."""
    return min(max(MOST // max(n_workers, 1), 50), 4096)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Memory for one worker's distribution: labels, the terms of a label, states, and the next states."""

    mine: np.ndarray
    cost: np.ndarray
    flat: np.ndarray
    slope: np.ndarray
    penalty: np.ndarray
    total: np.ndarray
    chance: np.ndarray
    next_total: np.ndarray
    next_chance: np.ndarray
    cursor: np.ndarray
    order: np.ndarray

    @classmethod
    def of(
        cls,
        others: OtherAnswers | GradedAnswers,
        asked: Asked,
        few: Int64[np.ndarray, " few"],
        most: int,
    ) -> "_Work":
        """Make room for the workers asked."""
        most_terms = others.most_terms
        terms = (np.empty(most_terms) for _ in range(3))
        n_penalties = others.most_penalties
        longest = int(np.diff(asked.start)[few].max(initial=0))
        most = int(min(float(n_penalties) ** longest, max(most, COARSEST)))
        size = most, most * n_penalties + 1  # one more for the end mark
        states = (part for n in size for part in (np.empty(n), np.empty((n, EXACT + 1))))
        places = (np.empty(n, dtype=np.int64) for n in (most_terms, size[1]))
        return cls(np.empty(EXACT, np.int64), np.empty(EXACT), *terms, *states, *places)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All arrays, in the order in which `_exact_p_values` takes them."""
        return (
            self.mine, self.cost, self.flat, self.slope, self.penalty, self.total, self.chance,
            self.next_total, self.next_chance, self.cursor, self.order,
        )  # fmt: skip


@kernel
def _exact_p_values(
    few, rows, first, task, start, count, place, row_start, others, n_classes, most, widths,
    mine, cost, flat, slope, term_penalty, total, chance, next_total, next_chance, cursor, order,
    penalty, powers, p_value,
) -> None:  # fmt: skip
    """Write the p-value of each worker with few labels; her last label makes states only to round them."""
    for worker in few:
        begin, end = first[worker], first[worker + 1]
        put_by_cost(
            rows, begin, end, task, start, count, place, row_start, others, n_classes, flat, slope,
            term_penalty, mine, cost,
        )  # fmt: skip
        last = end - begin - 1
        n_states = _distribution(
            mine, last, task, start, count, place, row_start, others, n_classes, most, widths,
            flat, slope, term_penalty, total, chance, next_total, next_chance, cursor, order,
        )  # fmt: skip
        n_terms = answer_terms(
            mine[last], task, start, count, place, row_start, others, n_classes, flat, slope,
            term_penalty,
        )  # fmt: skip
        n_terms = _together(n_terms, flat, slope, term_penalty)
        n_powers = last + 1
        if n_states * n_terms > most:  # sums may have to be rounded up
            n_states = _distribution(
                mine, last + 1, task, start, count, place, row_start, others, n_classes, most,
                widths, flat, slope, term_penalty, total, chance, next_total, next_chance, cursor,
                order,
            )  # fmt: skip
            n_terms, n_powers = 1, n_powers + 1
            flat[0], slope[0], term_penalty[0] = 1.0, 0.0, 0.0
        found = 0.0
        for state in range(n_states):
            even = more = 0.0  # chances of the state, and of the state and a right answer
            for power in range(n_powers):
                even += chance[state, power] * powers[power]
                more += chance[state, power] * powers[min(power + 1, len(powers) - 1)]
            for term in range(n_terms):
                end = total[state] + term_penalty[term] + APART * (term_penalty[term] > 0)
                n_conflict = int(end / APART)
                reached = (end - APART * n_conflict) / max(n_conflict, 1)
                if reached >= penalty[worker] - NEAR:
                    found += flat[term] * even + slope[term] * more
        p_value[worker] = min(max(found, 0.0), 1.0)


@kernel
def _distribution(
    rows, n_rows, task, start, count, place, row_start, others, n_classes, most, widths,
    flat, slope, penalty, total, chance, next_total, next_chance, cursor, order,
) -> int:  # fmt: skip
    """Write the states of one worker's penalty by her first labels, ascending; return their number.

    A state's total is the sum of penalties plus `APART` times the number of conflict tasks; its
    chance is a polynomial in the reliability. States of equal totals are merged. If more than `most`
    would be left, sums are rounded up.
    """
    n_states = int(np.int64(1))  # a literal would compile one more signature
    total[0], chance[0, 0] = 0.0, 1.0
    for at in range(n_rows):
        n_powers = at + 1
        n_terms = answer_terms(
            rows[at], task, start, count, place, row_start, others, n_classes, flat, slope, penalty
        )
        n_terms = _together(n_terms, flat, slope, penalty)
        for state in range(n_states):
            for term in range(n_terms):
                put = state * n_terms + term
                next_total[put] = total[state] + penalty[term] + APART * (penalty[term] > 0)
                product = next_chance[put]
                product[0] = 0.0
                for power in range(n_powers):
                    product[power] += chance[state, power] * flat[term]
                    product[power + 1] = chance[state, power] * slope[term]
        n_states = _merged(
            n_states, n_terms, n_powers + 1, most, widths, next_total, next_chance, cursor, order,
            total, chance,
        )  # fmt: skip
    return n_states


@kernel
def _together(n_terms, flat, slope, penalty) -> int:
    """Merge terms of the same penalty; return their number."""
    n_left = 0
    for term in range(n_terms):
        found = 0
        while found < n_left and penalty[found] != penalty[term]:
            found += 1
        if found == n_left:
            flat[found], slope[found], penalty[found] = flat[term], slope[term], penalty[term]
            n_left += 1
        else:
            flat[found] += flat[term]
            slope[found] += slope[term]
    return n_left


@kernel
def _merged(
    n_before, n_terms, n_powers, most, widths, total, chance, cursor, order, new_total, new_chance
) -> int:
    """Write states with the chances of equal totals added up, ascending; return their number."""
    n_states = n_before * n_terms
    for width in widths:
        if width > NEAR:
            for state in range(n_states):
                n_conflict = int(total[state] / APART)
                sums = ceil((total[state] - APART * n_conflict) / width - NEAR) * width
                total[state] = APART * n_conflict + sums
        _put_in_order(n_states, n_terms, total, cursor, order)
        n_left = 1
        for place in range(1, n_states):
            n_left += total[order[place]] - total[order[place - 1]] > NEAR
        if n_left <= most:
            break
    left = -1
    for place in range(n_states):
        state = order[place]
        if place == 0 or total[state] - total[order[place - 1]] > NEAR:
            left += 1
            new_total[left] = total[state]
            for power in range(n_powers):
                new_chance[left, power] = chance[state, power]
        else:
            for power in range(n_powers):
                new_chance[left, power] += chance[state, power]
    return left + 1


@kernel
def _put_in_order(n_states, n_terms, total, cursor, order) -> None:
    """Write the ascending order of totals, by merging the terms, each of whose totals ascend."""
    total[n_states] = inf  # a term at its end is never the least
    for term in range(n_terms):
        cursor[term] = term
    for place in range(n_states):
        least = 0
        for term in range(1, n_terms):
            if total[cursor[term]] < total[cursor[least]]:
                least = term
        order[place] = cursor[least]
        cursor[least] = min(cursor[least] + n_terms, n_states)


def _moments_of(
    others: OtherAnswers | GradedAnswers,
    asked: Asked,
    chosen: Int64[np.ndarray, " chosen"] | None = None,
) -> Float64[np.ndarray, "chosen moments"]:
    """Return sums over the tasks of the chosen workers, or of all workers, for the normal tails.

    On a task she adds s to the sum of penalties and n to the number of conflict tasks. Means of s,
    n and s squared are linear in her reliability, two coefficients each; the products of the
    means s s, s n and n n are quadratic, three each.
    """
    n_asked = len(asked.start) - 1
    chosen = np.arange(n_asked) if chosen is None else chosen
    place = np.full(n_asked, -1, dtype=np.int32)
    place[chosen] = np.arange(len(chosen))
    owner = np.full(len(others.right), -1, dtype=np.int32)
    owner[asked.rows] = np.repeat(place, np.diff(asked.start))
    return moments_of_owners(others, owner, len(chosen))


def moments_of_owners(
    others: OtherAnswers | GradedAnswers, owner: Int32[np.ndarray, " labels"], n_owners: int
) -> Float64[np.ndarray, "owners moments"]:
    """Return these sums, from the place of each label's owner; -1 is nobody."""
    moments = np.zeros((n_owners, N_MOMENTS))
    terms = (np.empty(others.most_terms) for _ in range(3))
    _add_moments(owner, *others.table, *terms, moments)
    return moments


@kernel
def _add_moments(
    owner, task, start, count, place, row_start, others, n_classes, flat, slope, penalty, moments
) -> None:
    """Add every label's terms to the moments of its owner; -1 is nobody."""
    is_far, n_rows = len(moments) > FAR, len(owner)
    for row in range(n_rows):
        if is_far and row + AHEAD < n_rows:
            soon = max(owner[row + AHEAD], 0) * N_MOMENTS
            prefetch(moments, soon)
            prefetch(moments, soon + N_MOMENTS - 1)
        if owner[row] < 0:
            continue
        n_terms = answer_terms(
            row, task, start, count, place, row_start, others, n_classes, flat, slope, penalty
        )
        s0 = s1 = n0 = n1 = q0 = q1 = 0.0
        for term in range(n_terms):
            share = penalty[term]
            s0 += flat[term] * share
            s1 += slope[term] * share
            q0 += flat[term] * share * share
            q1 += slope[term] * share * share
            if share > 0:
                n0 += flat[term]
                n1 += slope[term]
        found = moments[owner[row]]
        found[0] += s0
        found[1] += s1
        found[2] += n0
        found[3] += n1
        found[4] += q0
        found[5] += q1
        found[6] += s0 * s0
        found[7] += 2 * s0 * s1
        found[8] += s1 * s1
        found[9] += s0 * n0
        found[10] += s0 * n1 + s1 * n0
        found[11] += s1 * n1
        found[12] += n0 * n0
        found[13] += 2 * n0 * n1
        found[14] += n1 * n1

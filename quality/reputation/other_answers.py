"""The truth of a task by the other workers' labels, at each label.

Each answer that somebody gave has a place; all other classes of a task share one. So the tables grow with
the labels, whatever the number of classes.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], list("xxy"), classes=list("wxyz"))
>>> answers = TaskAnswers.of(labels)
>>> answers.answer, answers.count, answers.place
(array([1, 2], dtype=int16), array([2, 1], dtype=int32), array([0, 0, 1], dtype=int32))
"""

from dataclasses import dataclass
from math import exp, isqrt

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int32, Int64

from quality.labels import CrowdLabels, LabelShard, freeze_arrays
from quality.parallel import kernel, prefetch

__all__ = [
    "Asked",
    "GradedAnswers",
    "OtherAnswers",
    "TaskAnswers",
    "answer_terms",
    "ask_others",
    "ask_right",
    "put_by_cost",
    "spread_over",
]


NOWHERE = np.empty(0)  # in place of chances that are not needed
NEAR = 2**16  # workers whose weights are a megabyte, as much as a core's cache holds
USUAL = 0.8  # reliability by which a worker's labels are put in order
AHEAD = 24  # labels: about what the loop does while memory answers


@dataclass(frozen=True, slots=True, eq=False)
class TaskAnswers:
    """The different answers of each task.

    Parameters
    ----------
    start
        Answers of task ``t`` are ``start[t]:start[t + 1]``.
    answer, count
        The class of each, and how many gave it; ascending within a task.
    place
        Place of each label's class among its task's answers.
    row_start
        Where each label's entries begin; it has one for every answer of its task.
    """

    start: Int64[np.ndarray, " starts"]
    answer: Int16[np.ndarray, " answers"]
    count: Int32[np.ndarray, " answers"]
    place: Int32[np.ndarray, " labels"]
    row_start: Int64[np.ndarray, " labels+1"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def of(cls, labels: CrowdLabels | LabelShard) -> "TaskAnswers":
        """Find the answers of each task."""
        start = np.zeros(labels.n_tasks + 1, dtype=np.int64)
        answer, count = np.empty(labels.n_labels, np.int16), np.empty(labels.n_labels, np.int32)
        place = np.empty(labels.n_labels, dtype=np.int32)
        found = np.zeros(labels.n_classes, dtype=np.int32)
        longest = int(np.diff(labels.task_start).max(initial=0))
        given = np.empty(longest, dtype=np.int16)
        row_start = np.zeros(labels.n_labels + 1, dtype=np.int64)
        rows = labels.task_start, labels.label
        _find_answers(*rows, found, given, start, answer, count, place, row_start)
        n_answers = int(start[-1])
        return cls(start, answer[:n_answers].copy(), count[:n_answers].copy(), place, row_start)


@kernel
def _find_answers(task_start, label, found, given, start, answer, count, place, row_start) -> None:
    """Write each task's answers; `found` is 0 for every class before and after a task."""
    last, n_places = 0, 0
    for task in range(len(task_start) - 1):
        n_answers = 0
        for row in range(task_start[task], task_start[task + 1]):
            code = label[row]
            if found[code] == 0:
                at = n_answers  # inserted by class
                while at > 0 and given[at - 1] > code:
                    given[at] = given[at - 1]
                    at -= 1
                given[at] = code
                n_answers += 1
            found[code] += 1
        for at in range(n_answers):
            answer[last + at] = given[at]
            count[last + at] = found[given[at]]
            found[given[at]] = at
        for row in range(task_start[task], task_start[task + 1]):
            place[row] = found[label[row]]
            n_places += n_answers
            row_start[row + 1] = n_places
        for at in range(n_answers):
            found[given[at]] = 0
        last += n_answers
        start[task + 1] = last


@dataclass(frozen=True, slots=True, eq=False)
class OtherAnswers:
    """The chance that each answer is right, by the others' labels.

    Parameters
    ----------
    task
        The task of each label.
    answers
        The answers of each task.
    right
        Of each label: the chance that it is right, by the labels of the others.
    chance
        Of each label and each answer of its task; the classes that nobody gave have the rest to 1.
    n_classes
        How many classes there are.
    """

    task: Int32[np.ndarray, " labels"]
    answers: TaskAnswers
    right: Float64[np.ndarray, " labels"]
    chance: Float64[np.ndarray, " places"]
    n_classes: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def table(self) -> tuple[np.ndarray | int, ...]:
        """The arrays that `answer_terms` takes after the row, and the number of classes."""
        found = self.answers
        return (
            self.task, found.start, found.count, found.place, found.row_start, self.chance,
            self.n_classes,
        )  # fmt: skip

    @property
    def most_terms(self) -> int:
        """The most terms that `answer_terms` writes for a label."""
        return int(np.diff(self.answers.start).max(initial=0)) + 1

    @property
    def most_penalties(self) -> int:
        """The most different penalties of one label: each belongs to a number of labels of the task."""
        n_before = np.concatenate([[0], np.cumsum(self.answers.count)])
        largest = int(np.diff(n_before[self.answers.start]).max(initial=1))
        return min(self.most_terms, isqrt(2 * largest) + 3)


@dataclass(frozen=True, slots=True, eq=False)
class GradedAnswers:
    """The same for ordered classes: the possible answers at each label, with every class a term.

    Parameters
    ----------
    task
        The task of each label.
    right
        Of each label: the chance that it is right, by the labels of the others.
    terms
        Of each label and each class: flat, slope and penalty, as `answer_terms` writes them.
    n_classes
        How many classes there are.
    """

    task: Int32[np.ndarray, " labels"]
    right: Float64[np.ndarray, " labels"]
    terms: Float64[np.ndarray, " terms"]
    n_classes: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def table(self) -> tuple[np.ndarray | int, ...]:
        """The arrays that `answer_terms` takes after the row: no answers, and terms in place of chances."""
        start, count = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        row_start = 3 * self.n_classes * np.arange(len(self.right) + 1)
        for array in (start, count, row_start):
            array.setflags(write=False)
        return self.task, start, count, count, row_start, self.terms, self.n_classes

    @property
    def most_terms(self) -> int:
        """The most terms that `answer_terms` writes for a label."""
        return self.n_classes

    @property
    def most_penalties(self) -> int:
        """The most different penalties of one label: one for each class, by its distance from the others."""
        return self.n_classes


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Rows of some workers: those of place ``i`` are ``rows[start[i]:start[i + 1]]``."""

    rows: Int64[np.ndarray, " rows"]
    start: Int64[np.ndarray, " starts"]

    @classmethod
    def everybody(cls, labels: CrowdLabels) -> "Asked":
        """Return all labels of all workers; a worker's place is her code."""
        return cls(labels.worker_order, labels.worker_start)

    def sample(self, chosen: Int64[np.ndarray, " chosen"], most: int) -> "Asked":
        """Return some workers, with at most so many rows of each, evenly over her tasks."""
        size = np.diff(self.start)[chosen]
        taken = np.minimum(size, most)
        start = np.concatenate([[0], np.cumsum(taken)]).astype(np.int64)
        place = np.arange(start[-1]) - np.repeat(start[:-1], taken)
        step = place * np.repeat(size, taken) // np.maximum(np.repeat(taken, taken), 1)
        return Asked(self.rows[np.repeat(self.start[chosen], taken) + step], start)


def spread_over(
    n_labels: Int64[np.ndarray, " workers"], judged: Bool[np.ndarray, " workers"], most: int
) -> Int64[np.ndarray, " chosen"]:
    """Return the workers with labels; at most so many, with few labels and with many.

    A crowd that is cut down keeps judged workers alone, because the ratios are theirs.
    """
    workers = np.flatnonzero(n_labels > 0)
    if len(workers) <= most:
        return workers
    workers = np.flatnonzero(judged)
    by_size = workers[np.argsort(n_labels[workers], kind="stable")]
    n_chosen = min(most, len(workers))
    chosen: np.ndarray = np.sort(by_size[np.arange(n_chosen) * len(workers) // n_chosen])
    return chosen


def ask_others(
    labels: CrowdLabels | LabelShard,
    answers: TaskAnswers,
    log_odds: Float64[np.ndarray, " workers"],
    prior: Float64[np.ndarray, " classes"],
) -> tuple[OtherAnswers, Float64[np.ndarray, " classes"]]:
    """Return P(truth | the task's other labels) at each label, and the expected tasks of each class.

    A label weighs by the log odds of its worker: of being right over giving one particular wrong answer.
    """
    right, chance = np.empty(labels.n_labels), np.empty(int(answers.row_start[-1]))
    mass = ask_right(labels, answers, log_odds, prior, right, chance)
    task = labels.task.astype(np.int32, copy=False)
    return OtherAnswers(task, answers, right, chance, labels.n_classes), mass


def ask_right(
    labels: CrowdLabels | LabelShard,
    answers: TaskAnswers,
    log_odds: Float64[np.ndarray, " workers"],
    prior: Float64[np.ndarray, " classes"],
    right: Float64[np.ndarray, " labels"],
    chance: Float64[np.ndarray, " places"] = NOWHERE,
) -> Float64[np.ndarray, " classes"]:
    """Write the chance that each label is right, and to `chance`, unless empty, that of its task's answers.

    Return the expected tasks of each class.
    """
    mass = np.zeros(labels.n_classes)
    belief = np.empty(int(np.diff(answers.start).max(initial=0)) + 1)
    absent = _ask_others(
        labels.task_start, labels.worker, answers.start, answers.answer, answers.place,
        answers.row_start, np.column_stack([log_odds, np.exp(-log_odds)]), prior, np.log(prior),
        belief, np.empty_like(belief), right, chance, mass,
    )  # fmt: skip
    expected: np.ndarray = np.maximum(mass + absent * prior, 0.0)
    return expected


@kernel
def _ask_others(
    task_start, worker, start, answer, place, row_start, weight, prior, log_prior, belief, power, right,
    chance, mass,
) -> float:  # fmt: skip
    """Write chances, and add the expected tasks of each class to `mass`, less prior * the number returned.

    A worker's weights are her log odds, and the factor by which leaving her label out changes the power of
    its answer. At a task, the posterior of each class that nobody gave is its prior times one number. The
    sum of these numbers is returned; a class that somebody gave has its part subtracted from `mass`.
    """
    total_absent, is_far, n_rows = 0.0, len(weight) > NEAR, len(worker)
    for task in range(len(task_start) - 1):
        first, n_answers = start[task], start[task + 1] - start[task]
        if n_answers == 0:
            continue
        rest = 1.0
        for k in range(n_answers):
            belief[k] = log_prior[answer[first + k]]
            rest -= prior[answer[first + k]]
        is_all = n_answers == len(prior) or rest < 1e-12
        for row in range(task_start[task], task_start[task + 1]):
            if is_far and row + AHEAD < n_rows:
                prefetch(weight, 2 * worker[row + AHEAD])
            belief[place[row]] += weight[worker[row], 0]
        total = _powers_of(belief, n_answers, 0.0 if is_all else rest, power)
        for own in range(n_answers):
            others = power[n_answers]  # added up, not subtracted: small numbers keep their digits
            for k in range(n_answers):
                if k != own:
                    others += power[k]
            belief[own] = others  # its old values are not needed any more
        for row in range(task_start[task], task_start[task + 1]):
            own, at = place[row], row_start[row]
            mine = power[own] * weight[worker[row], 1]
            share = 1.0 / (belief[own] + mine)
            right[row] = mine * share
            if len(chance):
                for k in range(n_answers):
                    chance[at + k] = power[k] * share
                chance[at + own] = right[row]
        absent = 0.0 if is_all else power[n_answers] / (total * rest)
        total_absent += absent
        for k in range(n_answers):
            code = answer[first + k]
            mass[code] += power[k] / total - absent * prior[code]
    return total_absent


@kernel(forceinline=True)
def _powers_of(belief, n_answers, rest, power):
    """Write unnormalised chances, those of the classes that nobody gave last; return their sum."""
    highest = 0.0 if rest > 0 else belief[0]
    for k in range(n_answers):
        highest = max(highest, belief[k])
    total = 0.0
    for k in range(n_answers):
        power[k] = exp(belief[k] - highest) if belief[k] < highest else 1.0
        total += power[k]
    power[n_answers] = rest * exp(-highest) if rest > 0 else 0.0
    return total + power[n_answers]


@kernel(forceinline=True)
def answer_terms(
    row, task, start, count, place, row_start, chance, n_classes, flat, slope, penalty
) -> int:
    """Write a worker's possible answers at a label: chance ``flat + slope * reliability``, and penalty.

    The penalty is 0 if the answer makes no conflict. The last term, if any, stands for all classes that
    nobody gave. Return the number of terms. Without answers of tasks (`GradedAnswers`) terms are copied.
    """
    if len(start) == 0:
        for k in range(n_classes):
            at = row_start[row] + 3 * k
            flat[k], slope[k], penalty[k] = chance[at], chance[at + 1], chance[at + 2]
        return int(n_classes)
    first, n_answers = start[task[row]], start[task[row] + 1] - start[task[row]]
    wrong, n_others, rest = max(n_classes - 1, 1), -1, 1.0
    for k in range(n_answers):
        n_others += count[first + k]
    for k in range(n_answers):
        same = count[first + k] - (k == place[row])
        x = chance[row_start[row] + k]
        rest -= x
        flat[k] = (1 - x) / wrong
        slope[k] = x - flat[k]
        penalty[k] = 1.0 / (same + 1) if same < n_others else 0.0
    n_absent = n_classes - n_answers
    if n_absent == 0:
        return int(n_answers)
    rest = max(rest, 0.0)
    flat[n_answers] = (n_absent - rest) / wrong
    slope[n_answers] = rest - flat[n_answers]
    penalty[n_answers] = 1.0 if n_others > 0 else 0.0
    return int(n_answers + 1)


@kernel
def put_by_cost(
    rows, begin, end, task, start, count, place, row_start, others, n_classes, flat, slope, penalty,
    mine, cost,
) -> None:  # fmt: skip
    """Write one worker's labels in the order of the cost of an answer to each; equal labels cost the same."""
    for at in range(begin, end):
        n_terms = answer_terms(
            rows[at], task, start, count, place, row_start, others, n_classes, flat, slope, penalty
        )
        own = 0.0
        for term in range(n_terms):  # with squares: labels of one mean alone need not be equal
            own += (flat[term] + USUAL * slope[term]) * penalty[term] * (1.0 + penalty[term])
        put = at - begin
        while put > 0 and cost[put - 1] > own:
            cost[put], mine[put] = cost[put - 1], mine[put - 1]
            put -= 1
        cost[put], mine[put] = own, rows[at]

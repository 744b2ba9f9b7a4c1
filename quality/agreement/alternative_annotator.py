"""The alternative annotator test of whether a model's labels may replace people's.

Each person is left out in turn: does she or the model agree better with the others on a task? The model
wins against her if it does so at least as often, up to a margin that its lower price is worth.

>>> from quality import encode
>>> task = np.repeat(np.arange(40), 4)
>>> label = np.where(np.arange(160) % 4 == task % 4, 1 - task % 2, task % 2)  # each errs on every fourth task
>>> label[3::4] = task[3::4] % 2
>>> labels = encode(["ann", "bob", "cy", "model"] * 40, task, label)
>>> alt_test(labels, np.array([False, False, False, True]))
(AltTest(worker 3 wins against 3 of 3, advantage probability 1.00: passed),)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import stdtr

from quality.agreement.alpha import class_values
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, NamedClasses, freeze_arrays, name_classes

__all__ = ["AltTest", "alt_test"]

EQUAL = 1e-9  # relative to the span of the numbers: closer distances are equal


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AltTest:
    """Result of :func:`alt_test` for one model.

    Parameters
    ----------
    model
        Its worker code.
    person
        Worker codes of the people that it was compared with.
    n_tasks
        Number of tasks on which each of them was compared.
    advantage
        Share of those tasks on which the model agrees with the others at least as well as she does.
    p_value
        P value of the hypothesis that her advantage is `epsilon` or more.
    won
        True if that hypothesis is rejected, at the given false discovery rate.
    winning_rate
        Share of the people against whom it won; NaN without people.
    advantage_probability
        Mean of `advantage`, by which models are compared; NaN without people.
    """

    model: int
    person: Int64[np.ndarray, " people"]
    n_tasks: Int64[np.ndarray, " people"]
    advantage: Float64[np.ndarray, " people"]
    p_value: Float64[np.ndarray, " people"]
    won: Bool[np.ndarray, " people"]
    winning_rate: float
    advantage_probability: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def passed(self) -> bool:
        """Whether the model won against half of the people or more."""
        return self.winning_rate >= 0.5

    def __repr__(self) -> str:
        return (
            f"AltTest(worker {self.model} wins against {np.count_nonzero(self.won)} of {len(self.won)}, "
            f"advantage probability {self.advantage_probability:.2f}: "
            f"{'passed' if self.passed else 'not passed'})"
        )


@check_arguments
def alt_test(
    labels: CrowdLabels,
    is_model: Bool[np.ndarray, " workers"],
    *,
    epsilon: float = 0.1,
    values: Sequence[float | int] | np.ndarray | None = None,
    false_discovery_rate: float = 0.05,
    min_tasks: int = 30,
) -> tuple[AltTest, ...]:
    """Test each model against the people who labelled the same tasks.

    Parameters
    ----------
    labels
        Labels of people and models; people are compared on tasks with two people or more.
    is_model
        True for each worker that is a model.
    epsilon
        Loss of probability that the model's lower price is worth: 0.1 against crowd workers, 0.15 against
        trained ones, 0.2 against experts; in [0, 1).
    values
        A number for each class, if labels are scores: agreement with the others is then the negative root
        mean squared difference, otherwise the share of equal labels.
    false_discovery_rate
        Rate for Benjamini and Yekutieli's rule over the people, in (0, 1).
    min_tasks
        People with fewer tasks in common with the model are left out: the t test needs about 30.

    Returns
    -------
    tuple of AltTest
        One for each model, by worker code.

    Raises
    ------
    ValueError
        If `is_model` is not one truth value per worker, if nobody or everybody is a model, or if a number
        is out of its range.

    Notes
    -----
    **Guarantees.** Other models do not change a model's result. Shifting and scaling the numbers changes
    nothing.

    **Cost.** A search among the labels for every model; no table of tasks by classes is made.

    References
    ----------
    .. [1] Calderon, Reichart, Dror, "The Alternative Annotator Test for LLM-as-a-Judge", ACL (2025).

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy", "gpt"] * 30, np.repeat(np.arange(30), 4), list("xxyx" * 30))
    >>> found = alt_test(labels, labels.workers == "gpt")[0]
    >>> found.winning_rate, found.advantage_probability
    (1.0, 1.0)
    """
    if not (is_model.dtype == np.bool_ and is_model.shape == (labels.n_workers,)):
        raise ValueError(
            f"is_model must be {labels.n_workers} truth values, one per worker, got {is_model.dtype} "
            f"of shape {is_model.shape}"
        )
    if is_model.all() or not is_model.any():
        raise ValueError("is_model must name at least one model and leave at least one person")
    if not (0 <= epsilon < 1 and 0 < false_discovery_rate < 1 and min_tasks >= 2):
        raise ValueError(
            "epsilon must be in [0, 1), false_discovery_rate in (0, 1), min_tasks >= 2, got "
            f"{epsilon}, {false_discovery_rate}, {min_tasks}"
        )
    people = labels.keep_workers(~is_model)
    numbers = None if values is None else _centred(class_values(labels, "interval", values))
    named = name_classes(people)
    tests = []
    for model in np.flatnonzero(is_model):
        rows = labels.worker_order[labels.worker_start[model] : labels.worker_start[model + 1]]
        answer = np.full(labels.n_tasks, -1, dtype=np.int64)
        answer[labels.task[rows]] = labels.label[rows]
        person, lead = _leads(people, named, answer, numbers)
        tests.append(_tested(int(model), person, lead, epsilon, false_discovery_rate, min_tasks))
    return tuple(tests)


def _centred(numbers: Float64[np.ndarray, " classes"]) -> Float64[np.ndarray, " classes"]:
    """Return the numbers shifted and scaled to [-1, 1]: far from 0 their squares would lose digits."""
    low, high = numbers.min() / 2, numbers.max() / 2
    centred: np.ndarray = (numbers - (low + high)) / max(high - low, 1e-300)
    return centred


def _leads(
    people: CrowdLabels,
    named: NamedClasses,
    answer: Int64[np.ndarray, " tasks"],
    numbers: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return who is left out, and 1, -1 or 0 if the model, she or neither agrees better with the others."""
    n_people = np.diff(people.task_start)
    compared = ((n_people > 1) & (answer >= 0))[people.task]
    task, own, person = (
        column[compared].astype(np.int64) for column in (people.task, people.label, people.worker)
    )
    model = answer[task]
    if numbers is None:
        votes = np.append(named.votes, 0.0)  # the last entry: votes for a class that nobody gave
        its = votes[named.find(task, model)] - (model == own)
        return person, np.sign(its - (votes[named.entry[compared]] - 1))
    value = numbers[people.label]
    total = np.bincount(people.task, value, people.n_tasks)[task] - numbers[own]
    n = n_people[task] - 1
    # squared distances to the others, hers minus the model's, are a product
    beside = n * (numbers[own] + numbers[model]) - 2 * total
    beside[np.abs(beside) <= EQUAL * n] = 0.0
    return person, np.sign(numbers[own] - numbers[model]) * np.sign(beside)


def _tested(
    model: int,
    person: Int64[np.ndarray, " rows"],
    lead: Float64[np.ndarray, " rows"],
    epsilon: float,
    false_discovery_rate: float,
    min_tasks: int,
) -> AltTest:
    """Return the test of one model from the leader on each task: the person left out or the model."""
    n_all = np.bincount(person)
    who = np.flatnonzero(n_all >= min_tasks)
    n = n_all[who]
    # her lead is less frequent than the model's: the mean of her indicator minus the model's
    mean = -np.bincount(person, lead)[who] / n
    square = np.bincount(person, lead**2)[who] / n
    error = np.sqrt(np.maximum(square - mean**2, 0) / (n - 1))
    t = np.where(mean < epsilon, -math.inf, math.inf)
    np.divide(mean - epsilon, error, out=t, where=error > 0)
    p_value = stdtr(n - 1, t)
    advantage = np.bincount(person, lead >= 0)[who] / n
    won = _rejected(p_value, false_discovery_rate)
    rates = (float(won.mean()), float(advantage.mean())) if len(who) else (math.nan, math.nan)
    return AltTest(model, who, n, advantage, p_value, won, *rates)


def _rejected(
    p_value: Float64[np.ndarray, " people"], false_discovery_rate: float
) -> Bool[np.ndarray, " people"]:
    """Return the hypotheses that Benjamini and Yekutieli's rule rejects, for any dependence."""
    m, order = len(p_value), np.argsort(p_value, kind="stable")
    rank = np.arange(1, m + 1)
    below = np.flatnonzero(p_value[order] <= rank / m * false_discovery_rate / (1 / rank).sum())
    rejected = np.zeros(m, dtype=bool)
    rejected[order[: below[-1] + 1 if len(below) else 0]] = True
    return rejected

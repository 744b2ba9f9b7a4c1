"""Simulated crowds of known truth: the assignment of tasks, and the answers of each kind of worker.

An :class:`Assignment` of tasks to workers is drawn by :func:`power_law_assignment` or
:func:`regular_assignment`. Each kind of adversary is one function. Those of :data:`STRATEGIES` answer the
tasks of the assignment, all rows of a kind at once, so that its workers may collude. Those of
:data:`IMITATIONS` take an honest worker's tasks instead and answer as she did.
Workers who do not answer on their own join the crowd (:mod:`quality.simulation.cliques`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays, sort_codes
from quality.reputation import weakest_workers
from quality.simulation.cliques import CLIQUES, another_class
from quality.simulation.grades import GRADERS, another_grade

__all__ = [
    "IMITATIONS", "STRATEGIES", "Assignment", "Copies", "Imitation", "SimulatedCrowd", "Strategy",
    "power_law_assignment", "regular_assignment", "simulate_crowd",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assignment:
    """The tasks that each worker is asked; one row per label, by ascending task.

    Parameters
    ----------
    worker, task
        Codes; no pair occurs twice.
    n_workers, n_tasks
        Numbers of workers and of tasks.
    """

    worker: Int64[np.ndarray, " labels"]
    task: Int64[np.ndarray, " labels"]
    n_workers: int
    n_tasks: int

    def __post_init__(self) -> None:
        for codes, n in ((self.worker, self.n_workers), (self.task, self.n_tasks)):
            inside = not codes.size or (codes.min() >= 0 and codes.max() < n)
            if not (inside and codes.dtype.kind in "iu" and codes.shape == (self.task.size,)):
                raise ValueError("worker and task must be as many codes, below their numbers")
        if not (self.task[1:] >= self.task[:-1]).all():
            raise ValueError("task must ascend: an assignment has its rows by task")
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"Assignment({len(self.task)} labels, {self.n_tasks} tasks, {self.n_workers} workers)"
        )


@check_arguments
def power_law_assignment(
    *,
    n_tasks: int,
    n_workers: int,
    labels_per_task: int,
    exponent: float = 0.8,
    rng: np.random.Generator,
) -> Assignment:
    """Assign different workers to every task, the busiest workers far more often than the others.

    The worker of activity rank r is drawn in proportion to ``r ** -exponent``; ranks are dealt to
    the worker codes at random.

    Parameters
    ----------
    n_tasks, n_workers, labels_per_task
        Sizes, at least 1; `labels_per_task` is at most `n_workers`.
    exponent
        0 makes all workers alike; at least 0 and finite.
    rng
        Source of randomness.

    Raises
    ------
    ValueError
        If a size or `exponent` is out of its range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> power_law_assignment(n_tasks=100, n_workers=20, labels_per_task=3, rng=rng)
    Assignment(300 labels, 100 tasks, 20 workers)
    """
    _check_sizes(n_tasks, n_workers, labels_per_task)
    if not 0 <= exponent < np.inf:
        raise ValueError(f"exponent must be >= 0 and finite, got exponent={exponent}")
    order, rank = rng.permutation(n_workers), np.arange(1.0, n_workers + 1)
    share = np.cumsum((rank**-exponent)[order])
    log_weight = -min(exponent, 1e300) * np.log(rank)[order]  # a larger exponent overflows
    worker, max_rounds = np.empty((n_tasks, labels_per_task), dtype=np.int64), MAX_ROUNDS
    for place in range(labels_per_task):
        pending, n_rounds = np.arange(n_tasks), 0
        while len(pending) and n_rounds < max_rounds:  # a worker drawn before is replaced
            draw = np.searchsorted(share, rng.random(len(pending)) * share[-1], side="right")
            worker[pending, place] = np.minimum(draw, n_workers - 1)
            again = worker[pending, :place] == worker[pending, place, np.newaxis]
            pending, n_rounds = pending[again.any(axis=1)], n_rounds + 1
        for at in pending:  # few have nearly all the weight: the largest key has the same law
            key = log_weight + rng.gumbel(size=n_workers)
            key[worker[at, :place]] = -np.inf
            worker[at, place], max_rounds = np.argmax(key), 1
    task = np.repeat(np.arange(n_tasks), labels_per_task)
    return Assignment(worker.ravel(), task, n_workers, n_tasks)


@check_arguments
def regular_assignment(
    *, n_tasks: int, n_workers: int, labels_per_task: int, rng: np.random.Generator
) -> Assignment:
    """Assign different workers to every task, each worker equally often.

    Workers are dealt from shuffled decks, one deck after the other.

    Parameters
    ----------
    n_tasks, n_workers, labels_per_task, rng
        As for :func:`power_law_assignment`, errors included.

    Notes
    -----
    **Guarantees.** The numbers of tasks of two workers differ by at most one, and not at all where
    the workers divide the labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=8, n_workers=6, labels_per_task=3, rng=rng)
    >>> np.bincount(assignment.worker)
    array([4, 4, 4, 4, 4, 4])
    """
    _check_sizes(n_tasks, n_workers, labels_per_task)
    n_labels = n_tasks * labels_per_task
    dealt = np.empty(0, dtype=np.int64)
    decks = []
    for n_dealt in range(0, n_labels, n_workers):
        n_open = n_dealt % labels_per_task  # workers of the open task from the last deck
        in_hand = dealt[len(dealt) - n_open :]
        deck = rng.permutation(n_workers)
        clash = np.isin(deck, in_hand)
        dealt = np.concatenate([deck[~clash], deck[clash]])  # clashes go last, to another task
        decks.append(dealt)
    worker = np.concatenate(decks)[:n_labels]
    return Assignment(worker, np.repeat(np.arange(n_tasks), labels_per_task), n_workers, n_tasks)


def _check_sizes(n_tasks: int, n_workers: int, labels_per_task: int) -> None:
    if not n_tasks >= 1:
        raise ValueError(f"n_tasks must be >= 1, got n_tasks={n_tasks}")
    if not 1 <= labels_per_task <= n_workers:
        message = f"labels_per_task must be in [1, n_workers={n_workers}]"
        raise ValueError(f"{message}, got labels_per_task={labels_per_task}")


MAX_ROUNDS = 1_000  # of drawing one place of all tasks; ordinary crowds need far fewer
LAG = 5  # tasks by which a copying worker is behind her model
MISTAKES = 0.1  # share of the labels that a copying worker copies wrongly
SEARCH_STEPS = 200  # of the search for the workers on whom most tasks rest


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """The labels of the workers of one imitation.

    Parameters
    ----------
    model
        The worker whom each imitator imitates.
    imitator, row, label
        One entry per label: the place of the imitator, the row of her model, and the label.
    """

    model: Int64[np.ndarray, " imitators"]
    imitator: Int64[np.ndarray, " copies"]
    row: Int64[np.ndarray, " copies"]
    label: Int64[np.ndarray, " copies"]


Imitation: TypeAlias = Callable[[Assignment, np.ndarray, int, int, np.random.Generator], Copies]
"""A function from the honest workers' rows and labels, and the numbers of imitators and of classes."""


def _copying(
    seen: Assignment, label: np.ndarray, n_imitators: int, n_classes: int, rng: np.random.Generator
) -> Copies:
    """Repeat a worker's labels, some tasks behind her and with mistakes."""
    model = rng.choice(np.unique(seen.worker), size=n_imitators)
    imitator, row = _rows_of(model, seen)
    turn = np.lexsort((rng.random(len(row)), imitator))  # the model's tasks in random order
    imitator, row = imitator[turn], row[turn]
    left = np.searchsorted(imitator, imitator, side="right") - np.arange(len(imitator))
    imitator, row = imitator[left > LAG], row[left > LAG]
    mistaken = rng.random(len(row)) < MISTAKES
    copied = np.where(mistaken, another_class(label[row], n_classes, rng), label[row])
    return Copies(model, imitator, row, copied)


def _sophisticated(
    seen: Assignment, label: np.ndarray, n_imitators: int, n_classes: int, rng: np.random.Generator
) -> Copies:
    """Mirror the workers on whom most tasks rest: deny their labels on these tasks, repeat the others."""
    start = np.searchsorted(seen.task, np.arange(seen.n_tasks + 1))
    chosen = np.array(
        sorted(weakest_workers(seen.worker, start, n_imitators, max_steps=SEARCH_STEPS)), np.int64
    )
    others = np.setdiff1d(np.unique(seen.worker), chosen)
    spare = rng.permutation(others)[: n_imitators - len(chosen)]
    model = np.concatenate([chosen, spare])
    elsewhere = ~np.isin(seen.worker, model)
    rests = np.bincount(seen.task[elsewhere], minlength=seen.n_tasks) == 0
    imitator, row = _rows_of(model, seen)
    denied = rests[seen.task[row]]
    return Copies(model, imitator, row, (label[row] + denied) % n_classes)


def _rows_of(model: np.ndarray, seen: Assignment) -> tuple[np.ndarray, np.ndarray]:
    """Return each imitator with each row of her model."""
    order, start = sort_codes(seen.worker.copy(), seen.n_workers)  # read-only would compile anew
    size = np.diff(start)[model]
    imitator = np.repeat(np.arange(len(model)), size)
    inside = np.arange(len(imitator)) - np.repeat(np.cumsum(size) - size, size)
    return imitator, order[start[model][imitator] + inside]


IMITATIONS: Mapping[str, Imitation] = {"copying": _copying, "sophisticated": _sophisticated}

Strategy: TypeAlias = Callable[[Assignment, np.ndarray, int, np.random.Generator], np.ndarray]
"""A function from all rows of one kind of workers, the truth of every task, asked or not, and the
number of classes, to one class code per row."""


def _random(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw any class, whatever the task."""
    return rng.integers(n_classes, size=len(rows.task))


def _malicious(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw a wrong class."""
    return another_class(truth[rows.task], n_classes, rng)


def _uniform(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Always give one class, each worker her own."""
    favourite = rng.integers(n_classes, size=rows.n_workers)
    return np.asarray(favourite[rows.worker])


def _colluding(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Follow one script for all of them, drawn independently of the tasks."""
    script = rng.integers(n_classes, size=rows.n_tasks)
    return np.asarray(script[rows.task])


STRATEGIES: Mapping[str, Strategy] = {
    "random": _random, "malicious": _malicious, "uniform": _uniform, "colluding": _colluding,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimulatedCrowd:
    """Result of :func:`simulate_crowd`.

    Parameters
    ----------
    worker, task, label
        One row per label, in codes.
    truth
        The true class of each task.
    kind
        ``"honest"`` or the name of a strategy, for each worker.
    accuracy
        Each honest worker's probability to be right; NaN for the others.
    model
        The worker whom each imitator imitates; -1 for the others.
    """

    worker: Int64[np.ndarray, " labels"]
    task: Int64[np.ndarray, " labels"]
    label: Int64[np.ndarray, " labels"]
    truth: Int64[np.ndarray, " tasks"]
    kind: Shaped[np.ndarray, " workers"]
    accuracy: Float64[np.ndarray, " workers"]
    model: Int64[np.ndarray, " workers"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"SimulatedCrowd({len(self.label)} labels, {len(self.truth)} tasks, "
            f"{len(self.kind)} workers, {np.count_nonzero(self.kind != 'honest')} adversaries)"
        )


@check_arguments
def simulate_crowd(
    assignment: Assignment,
    truth: Int64[np.ndarray, " tasks"],
    *,
    n_classes: int,
    adversaries: Mapping[str, int],
    reliability: tuple[float, float] = (12.0, 3.0),
    decay: float = 1.0,
    rng: np.random.Generator,
) -> SimulatedCrowd:
    """Draw the labels of a crowd of honest workers and adversaries.

    Random workers name any class, malicious workers always a wrong one, uniform workers always the same;
    colluding workers follow one common script. Two kinds imitate honest workers, and take those workers'
    tasks instead of their own. Copying workers repeat a worker's labels, a tenth of them wrongly, and
    without the last five. Each sophisticated worker mirrors one of the workers on whom most tasks rest. She
    names another class on tasks that no honest worker but mirrored ones labelled, and repeats her model
    elsewhere. With ordered classes, shifted workers name the next class above or below the truth four times
    in five, each in her own direction; nominal workers are right three times in four, and else name any
    class.

    Other kinds join the crowd, with codes after those of the assignment, and choose their tasks
    themselves. Sybils copy one guesser on half of the tasks. Rings are threes of sybils, each on a
    quarter of the tasks. Part-time colluders answer every task as honest workers do, but lie alike
    on a tenth of them. Load-aware workers lie in threes on a tenth of the tasks, and are right on three
    tenths. Models answer every task, four in five by a common mind, which is right on .65 of them, or on
    .75 (better models).

    Parameters
    ----------
    assignment
        The tasks that each worker is asked.
    truth
        The true class code of each task.
    n_classes
        At least 2.
    adversaries
        Number of workers of each kind. These are drawn at random from the assignment: ``"random"``,
        ``"malicious"``, ``"uniform"``, ``"colluding"``, ``"copying"``, ``"sophisticated"``,
        ``"shifted"``, ``"nominal"``. These join the crowd: ``"sybils"``, ``"rings"``, ``"part_time"``,
        ``"load_aware"``, ``"models"``, ``"better_models"``.
    reliability
        Parameters of the Beta distribution of an honest worker's accuracy, in (0, 1e300].
    decay
        A wrong label of an honest worker is d places off in proportion to ``decay ** d``, in (0, 1]. By
        default it is any other class; use less than 1 if classes are grades.
    rng
        Source of randomness.

    Raises
    ------
    ValueError
        If the truth or `reliability` does not fit, a strategy is unknown, the adversaries outnumber the
        workers, or honest workers are too few to be imitated.

    Notes
    -----
    **Guarantees.** With two classes, honest workers who are always right, and no other adversaries,
    no rule can distinguish sophisticated workers from the mirrored ones. If the truth of all tasks that
    they deny were the other class, the crowd would be this one with names exchanged. A rule that
    ignores names errs on at least half of these tasks in one of the two crowds.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, theorem 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=90, n_workers=30, labels_per_task=5, rng=rng)
    >>> truth = rng.integers(2, size=90)
    >>> simulate_crowd(assignment, truth, n_classes=2, adversaries={"malicious": 3}, rng=rng)
    SimulatedCrowd(450 labels, 90 tasks, 30 workers, 3 adversaries)
    """
    _check_crowd(assignment, truth, n_classes, adversaries, decay, reliability)
    truth = truth.astype(np.int64)
    kind = np.full(assignment.n_workers, "honest", dtype="<U16")
    asked = {name: count for name, count in adversaries.items() if name not in CLIQUES}
    names = [name for name, count in asked.items() for _ in range(count)]
    kind[rng.permutation(assignment.n_workers)[: len(names)]] = names
    accuracy = np.where(kind == "honest", rng.beta(*reliability, size=len(kind)), np.nan)
    label = _honest(assignment, truth, n_classes, accuracy, decay, rng)
    for name, strategy in STRATEGIES.items():
        mine = kind[assignment.worker] == name
        rows = Assignment(
            assignment.worker[mine], assignment.task[mine], assignment.n_workers, assignment.n_tasks
        )
        label[mine] = strategy(rows, truth, n_classes, rng)
    for name in sorted(asked.keys() & GRADERS.keys()):
        mine = kind[assignment.worker] == name
        label[mine] = GRADERS[name](
            assignment.worker[mine], truth[assignment.task[mine]], n_classes, rng
        )
    worker, task, label, model = _imitate(assignment, label, kind, n_classes, rng)
    crowd = SimulatedCrowd(worker, task, label, truth, kind, accuracy, model)
    for name, count in adversaries.items():
        if name in CLIQUES and count:
            crowd = _join(crowd, name, count, n_classes, rng)
    return crowd


def _join(
    crowd: SimulatedCrowd, name: str, count: int, n_classes: int, rng: np.random.Generator
) -> SimulatedCrowd:
    """Return the crowd with workers of one more kind, who choose their tasks themselves."""
    answers = CLIQUES[name](crowd.truth, count, n_classes, rng)
    task = np.concatenate([crowd.task, answers.task])
    order = np.argsort(task, kind="stable")
    return SimulatedCrowd(
        worker=np.concatenate([crowd.worker, len(crowd.kind) + answers.worker])[order],
        task=task[order],
        label=np.concatenate([crowd.label, answers.label])[order],
        model=np.concatenate([crowd.model, np.full(count, -1)]),
        truth=crowd.truth,
        kind=np.concatenate([crowd.kind, np.full(count, name, dtype=crowd.kind.dtype)]),
        accuracy=np.concatenate([crowd.accuracy, np.full(count, np.nan)]),
    )


def _imitate(
    assignment: Assignment, label: np.ndarray, kind: np.ndarray, n_classes: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return rows by task, with the imitators' rows in place of those they were assigned, and models."""
    own = ~np.isin(kind, list(IMITATIONS))[assignment.worker]
    honest = kind[assignment.worker] == "honest"
    seen = Assignment(
        assignment.worker[honest], assignment.task[honest], assignment.n_workers, assignment.n_tasks
    )
    worker, task, given = [assignment.worker[own]], [assignment.task[own]], [label[own]]
    model = np.full(len(kind), -1)
    for name, imitation in IMITATIONS.items():
        who = np.flatnonzero(kind == name)
        if not len(who):
            continue
        copies = imitation(seen, label[honest], len(who), n_classes, rng)
        model[who] = copies.model
        worker.append(who[copies.imitator])
        task.append(seen.task[copies.row])
        given.append(copies.label)
    all_tasks = np.concatenate(task)
    order = np.argsort(all_tasks, kind="stable")
    return np.concatenate(worker)[order], all_tasks[order], np.concatenate(given)[order], model


def _honest(
    rows: Assignment, truth: np.ndarray, n_classes: int, accuracy: np.ndarray, decay: float,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Label each task correctly with the worker's probability, independently."""
    true_label = truth[rows.task]
    right = rng.random(len(true_label)) < accuracy[rows.worker]
    if decay < 1:
        return np.where(right, true_label, another_grade(true_label, n_classes, decay, rng))
    return np.where(right, true_label, another_class(true_label, n_classes, rng))


def _check_crowd(
    assignment: Assignment, truth: np.ndarray, n_classes: int, adversaries: Mapping[str, int],
    decay: float, reliability: tuple[float, float],
) -> None:  # fmt: skip
    if not n_classes >= 2:
        raise ValueError(f"n_classes must be >= 2, got n_classes={n_classes}")
    if not 0 < decay <= 1:
        raise ValueError(f"decay must be in (0, 1], got decay={decay}")
    # the sum of two larger numbers overflows
    if [isinstance(one, Real) and 0 < one <= 1e300 for one in reliability] != [True, True]:
        raise ValueError(f"reliability must be two numbers in (0, 1e300], got {reliability}")
    is_code = truth.dtype.kind in "iu" and truth.shape == (assignment.n_tasks,)
    if not (is_code and np.all((truth >= 0) & (truth < n_classes))):
        message = f"truth must be {assignment.n_tasks} class codes below {n_classes}"
        raise ValueError(f"{message}, got {truth.dtype} of shape {truth.shape} or codes outside")
    known = {*STRATEGIES, *GRADERS, *IMITATIONS, *CLIQUES}
    if unknown := sorted(set(adversaries) - known, key=str):
        raise ValueError(f"adversaries must be of {sorted(known)}, got {unknown}")
    whole = all(isinstance(n, int | np.integer) and n >= 0 for n in adversaries.values())
    n_asked = sum(n for name, n in adversaries.items() if name not in CLIQUES) if whole else 0
    if not (whole and n_asked <= assignment.n_workers):
        message = f"adversaries must be at most all {assignment.n_workers} workers"
        raise ValueError(f"{message}, in whole numbers, got {dict(adversaries)}")
    needed = max(min(adversaries.get("copying", 0), 1), adversaries.get("sophisticated", 0))
    # the honest workers who have tasks, even if all workers without tasks are honest
    if needed and not len(np.unique(assignment.worker)) - n_asked >= needed:
        message = f"adversaries must leave {needed} honest workers with tasks to be imitated"
        raise ValueError(f"{message}, got {dict(adversaries)} of {assignment.n_workers} workers")

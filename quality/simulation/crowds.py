"""Crowds whose truth is known: what honest workers and each kind of adversary answer.

One function per strategy, and one that puts a crowd together. A strategy is given all rows of its
workers at once, so that they may collude. Those who imitate others are in `imitations.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from quality.labels.codes import freeze_arrays
from quality.simulation.assignment import Assignment
from quality.simulation.imitations import IMITATIONS, another_class

__all__ = ["STRATEGIES", "SimulatedCrowd", "Strategy", "simulate_crowd"]


class Strategy(Protocol):
    """What the workers of one kind answer, all their rows at once."""

    def __call__(
        self,
        rows: Assignment,
        truth: Int64[np.ndarray, " tasks"],
        n_classes: int,
        rng: np.random.Generator,
    ) -> Int64[np.ndarray, " labels"]:
        """Give one class code per row; `truth` is that of every task, asked or not."""
        ...


def _random(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Any class, whatever the task."""
    return rng.integers(n_classes, size=len(rows.task))


def _malicious(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Always a wrong class."""
    return another_class(truth[rows.task], n_classes, rng)


def _uniform(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Always the same class, each worker her own."""
    favourite = rng.integers(n_classes, size=rows.n_workers)
    label: np.ndarray = favourite[rows.worker]
    return label


def _colluding(
    rows: Assignment, truth: np.ndarray, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """One script for all of them, drawn without a look at the tasks."""
    script = rng.integers(n_classes, size=rows.n_tasks)
    label: np.ndarray = script[rows.task]
    return label


STRATEGIES: Mapping[str, Strategy] = {
    "random": _random,
    "malicious": _malicious,
    "uniform": _uniform,
    "colluding": _colluding,
}


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


def simulate_crowd(
    assignment: Assignment,
    truth: Int64[np.ndarray, " tasks"],
    *,
    n_classes: int,
    adversaries: Mapping[str, int],
    reliability: tuple[float, float] = (12.0, 3.0),
    rng: np.random.Generator,
) -> SimulatedCrowd:
    """Let a crowd of honest workers and adversaries answer.

    Random workers name any class, malicious ones always a wrong one, uniform ones always the same;
    colluding ones follow one script for all of them. Two kinds imitate honest workers, and take
    those workers' tasks instead of their own. Copying ones repeat a worker's labels, one tenth of
    them wrongly and without the last five. Sophisticated ones each mirror a worker of their own:
    on tasks that no honest worker but the mirrored ones labelled they name another class, elsewhere
    they repeat her. They mirror the workers on whom most tasks rest.

    Parameters
    ----------
    assignment
        Who is asked what, by task.
    truth
        The true class code of each task.
    n_classes
        At least 2.
    adversaries
        How many workers follow each strategy; which ones is drawn. Names: ``"random"``,
        ``"malicious"``, ``"uniform"``, ``"colluding"``, ``"copying"``, ``"sophisticated"``.
    reliability
        Parameters of the Beta distribution of an honest worker's accuracy, above 0. When wrong
        she gives any other class.
    rng
        Source of randomness.

    Raises
    ------
    ValueError
        If the truth does not fit, a strategy is unknown, the adversaries outnumber the workers, or
        honest workers are too few to be imitated.

    Notes
    -----
    **Guarantees.** With two classes, honest workers who are always right and no other adversaries,
    sophisticated workers and those they mirror could change places without a trace: the crowd in
    which the truth of all tasks that they deny is the other one is this crowd with the names
    exchanged. Whatever rule ignores names errs on half of these tasks in one of the two.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, theorem 3.

    Examples
    --------
    >>> from quality import regular_assignment
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=90, n_workers=30, labels_per_task=5, rng=rng)
    >>> truth = rng.integers(2, size=90)
    >>> simulate_crowd(assignment, truth, n_classes=2, adversaries={"malicious": 3}, rng=rng)
    SimulatedCrowd(450 labels, 90 tasks, 30 workers, 3 adversaries)
    """
    _check_crowd(assignment, truth, n_classes, adversaries)
    kind = np.full(assignment.n_workers, "honest", dtype="<U16")
    names = [name for name, count in adversaries.items() for _ in range(count)]
    kind[rng.permutation(assignment.n_workers)[: len(names)]] = names
    accuracy = np.where(kind == "honest", rng.beta(*reliability, size=len(kind)), np.nan)
    label = _honest(assignment, truth, n_classes, accuracy, rng)
    for name, strategy in STRATEGIES.items():
        mine = kind[assignment.worker] == name
        rows = Assignment(
            assignment.worker[mine], assignment.task[mine], assignment.n_workers, assignment.n_tasks
        )
        label[mine] = strategy(rows, truth, n_classes, rng)
    worker, task, label, model = _imitate(assignment, label, kind, n_classes, rng)
    return SimulatedCrowd(worker, task, label, truth.copy(), kind, accuracy, model)


def _imitate(
    assignment: Assignment, label: np.ndarray, kind: np.ndarray, n_classes: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Rows by task, the imitators' put in place of those they were asked for, and their models."""
    own = ~np.isin(kind, list(IMITATIONS))[assignment.worker]
    honest = kind[assignment.worker] == "honest"
    seen = Assignment(
        assignment.worker[honest], assignment.task[honest], assignment.n_workers, assignment.n_tasks
    )
    worker, task, said = [assignment.worker[own]], [assignment.task[own]], [label[own]]
    model = np.full(len(kind), -1)
    for name, imitation in IMITATIONS.items():
        who = np.flatnonzero(kind == name)
        if not len(who):
            continue
        copies = imitation(seen, label[honest], len(who), n_classes, rng)
        model[who] = copies.model
        worker.append(who[copies.imitator])
        task.append(seen.task[copies.row])
        said.append(copies.label)
    all_tasks = np.concatenate(task)
    order = np.argsort(all_tasks, kind="stable")
    return np.concatenate(worker)[order], all_tasks[order], np.concatenate(said)[order], model


def _honest(
    rows: Assignment, truth: np.ndarray, n_classes: int, accuracy: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Right with the worker's probability, on every task independently."""
    true_label = truth[rows.task]
    right = rng.random(len(true_label)) < accuracy[rows.worker]
    return np.where(right, true_label, another_class(true_label, n_classes, rng))


def _check_crowd(
    assignment: Assignment, truth: np.ndarray, n_classes: int, adversaries: Mapping[str, int]
) -> None:
    if not n_classes >= 2:
        raise ValueError(f"n_classes must be >= 2, got n_classes={n_classes}")
    if not (truth.shape == (assignment.n_tasks,) and np.all((truth >= 0) & (truth < n_classes))):
        message = f"truth must be {assignment.n_tasks} class codes below {n_classes}"
        raise ValueError(f"{message}, got shape {truth.shape} or codes outside")
    known = {*STRATEGIES, *IMITATIONS}
    unknown = sorted(set(adversaries) - known)
    if unknown:
        raise ValueError(f"adversaries must be of {sorted(known)}, got {unknown}")
    if not (
        min(adversaries.values(), default=0) >= 0
        and sum(adversaries.values()) <= assignment.n_workers
    ):
        message = f"adversaries must be at most all {assignment.n_workers} workers"
        raise ValueError(f"{message}, got {dict(adversaries)}")
    # even if those who were asked nothing are all among the honest
    n_models = len(np.unique(assignment.worker)) - sum(adversaries.values())
    needed = max(min(adversaries.get("copying", 0), 1), adversaries.get("sophisticated", 0))
    if needed and not n_models >= needed:
        message = f"adversaries must leave {needed} honest workers with tasks to be imitated"
        raise ValueError(f"{message}, got {dict(adversaries)} of {assignment.n_workers} workers")

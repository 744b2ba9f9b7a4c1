"""Which worker to ask about which task next, if several classes may hold: an answer concerns all of them.

>>> from quality.multilabel import encode_multilabels, multilabel_consensus
>>> table = encode_multilabels(
...     ["ann", "bob", "cy", "ann", "bob"], [1, 1, 1, 2, 2],
...     [["cat"], ["cat"], ["cat"], ["cat"], ["dog"]],
... )
>>> plan = plan_answers(table, multilabel_consensus(table), budget=1, per_worker=1)
>>> table.workers[plan.worker].tolist(), table.tasks[plan.task].tolist()
(['cy'], [2])
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import entr

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays
from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.class_consensus import MultiLabelConsensus

__all__ = ["AnswerPlan", "plan_answers"]

LEAST_GAIN = 1e-12  # nats: less is rounding


@dataclass(frozen=True, slots=True, eq=False)
class AnswerPlan:
    """Result of :func:`plan_answers`: the pairs of task and worker to ask, the largest gain first.

    Parameters
    ----------
    task, worker
        Codes; no task occurs twice, and no worker is asked about a task that she has answered.
    gain
        Expected reduction of the uncertainty about the task's classes by each answer, in nats.
    by_class
        Part of the sum of all gains that concerns each class.
    """

    task: Int64[np.ndarray, " plan"]
    worker: Int64[np.ndarray, " plan"]
    gain: Float64[np.ndarray, " plan"]
    by_class: Float64[np.ndarray, " classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)


@check_arguments
def plan_answers(
    table: MultiLabels,
    found: MultiLabelConsensus,
    *,
    budget: int,
    per_worker: int,
    tasks: Int64[np.ndarray, " considered"] | None = None,
    workers: Int64[np.ndarray, " asked"] | None = None,
) -> AnswerPlan:
    """Choose further answers, at most one a task, by the expected information of each.

    The gain of asking a worker about a task is a sum over the classes: the information, about whether the
    class holds, in whether she gives the class. It depends on the class's probability, her sensitivity and
    her false rate. The pair of the largest gain is planned, again and again.

    Parameters
    ----------
    table, found
        The present answers, and their consensus.
    budget
        Maximum number of answers, >= 0.
    per_worker
        Maximum number of answers of each worker, >= 1.
    tasks, workers
        Codes to choose from, in any order; all if None.

    Raises
    ------
    ValueError
        If `budget` or `per_worker` is out of its range, `found` is of another table, or `tasks` or `workers`
        are no codes.

    Notes
    -----
    **Guarantees.** Every planned pair has the largest gain of all remaining pairs; ties are in the order of
    task and then worker codes. Gains never rise along the plan, and add up to those by class. Classes that
    a task does not show have no part in its gain.

    **Limits.** Classes count one by one: the information of an answer about one class through another is
    left out. A task that needs two further answers gets one.

    **Cost.** Tasks times workers times classes, and their pairs in memory.
    """
    if not budget >= 0:
        raise ValueError(f"budget must be >= 0, got budget={budget}")
    if not per_worker >= 1:
        raise ValueError(f"per_worker must be >= 1, got per_worker={per_worker}")
    known, shape = found.sensitivity.shape, (table.n_workers, table.n_classes)
    if not (known == shape and len(found.start) == table.n_tasks + 1):
        raise ValueError(
            f"found must be the consensus of this table, of {table.n_tasks} tasks, {shape[0]} workers and "
            f"{shape[1]} classes, got one of {len(found.start) - 1}, {known[0]} and {known[1]}"
        )
    asked = _codes("workers", workers, table.n_workers)
    about = _codes("tasks", tasks, table.n_tasks)
    chance = (found.table() * table.shows())[about]  # an answer is no evidence on classes not shown
    gain = np.zeros((len(about), len(asked)))
    for code in range(table.n_classes):
        gain += _gain(
            chance[:, code, None], found.sensitivity[asked, code], found.false_rate[asked, code]
        )
    gain[_answered(table, about, asked)] = 0.0
    at, whom = _best_pairs(gain, budget, per_worker)
    by_class = np.array(
        [
            _gain(
                chance[at, code], found.sensitivity[asked[whom], code],
                found.false_rate[asked[whom], code],
            ).sum()
            for code in range(table.n_classes)
        ]
    )  # fmt: skip
    return AnswerPlan(about[at], asked[whom], gain[at, whom], by_class)


def _codes(
    name: str, given: Int64[np.ndarray, " given"] | None, number: int
) -> Int64[np.ndarray, " codes"]:
    """Return the codes to choose from, ascending, each once; raise ValueError unless they are codes."""
    if given is None:
        return np.arange(number)
    if not (given.dtype.kind in "iu" and np.all((given >= 0) & (given < number))):
        raise ValueError(
            f"{name} must be codes in [0, {number - 1}], got {given.dtype} such as {given[:3]}"
        )
    return np.unique(given).astype(np.int64)


def _gain(chance: np.ndarray, hit: np.ndarray, false: np.ndarray) -> np.ndarray:
    """Return the information in nats, about whether a class holds, in whether a worker gives it."""
    given = chance * hit + (1 - chance) * false
    of_truth = chance * (entr(hit) + entr(1 - hit)) + (1 - chance) * (entr(false) + entr(1 - false))
    found: np.ndarray = np.maximum(entr(given) + entr(1 - given) - of_truth, 0.0)
    return found


def _answered(
    table: MultiLabels, about: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that have an answer already, as places among the tasks and the workers."""
    task, worker = (np.full(n, -1) for n in (table.n_tasks, table.n_workers))
    task[about], worker[asked] = np.arange(len(about)), np.arange(len(asked))
    rows, columns = task[table.task], worker[table.worker]
    both = (rows >= 0) & (columns >= 0)
    return rows[both], columns[both]


def _best_pairs(
    gain: Float64[np.ndarray, "considered asked"], budget: int, per_worker: int
) -> tuple[Int64[np.ndarray, " plan"], Int64[np.ndarray, " plan"]]:
    """Return the pairs of largest gain, each row once and each column at most `per_worker` times."""
    left = np.full(gain.shape[1], per_worker)
    free = np.ones(len(gain), dtype=np.bool_)
    rows: list[int] = []
    columns: list[int] = []
    for pair in np.argsort(-gain, axis=None, kind="stable").tolist():
        row, column = divmod(pair, gain.shape[1])
        if len(rows) == budget or gain[row, column] <= LEAST_GAIN:
            break
        if free[row] and left[column]:
            free[row], left[column] = False, left[column] - 1
            rows.append(row)
            columns.append(column)
    return np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)

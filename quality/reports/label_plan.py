"""A plan of the next labels under a budget: the tasks and workers with the largest expected information.

Use :func:`plan_labels`; :func:`quality.next_labels` ranks tasks without choosing workers.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from jaxtyping import Float, Float64, Int, Int32, Int64

from quality.aggregation import one_coin_confusion
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, freeze_arrays
from quality.reports.tasks import DECIMALS, check_posterior, posterior_entropy

__all__ = ["LabelPlan", "plan_labels"]

UNJUDGED = -1  # in place of a worker, while the gain of a task is not computed
CELLS = 2**20  # numbers at a time in the table of workers' possible answers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LabelPlan:
    """Result of :func:`plan_labels`: pairs of task and worker, the most informative label first.

    Parameters
    ----------
    task, worker
        Codes; no worker is asked for a task twice, nor for one that she has labelled.
    gain
        Expected reduction of the task's entropy by each label, in nats, after the labels planned before it.
    entropy
        Entropy of all tasks together now, in nats: the most that could be gained.
    """

    task: Int32[np.ndarray, " plan"]
    worker: Int32[np.ndarray, " plan"]
    gain: Float64[np.ndarray, " plan"]
    entropy: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"LabelPlan({len(self.task)} labels of {len(np.unique(self.task))} tasks by "
            f"{len(np.unique(self.worker))} workers, expected to lower the entropy by "
            f"{self.gain.sum():.3f} of {self.entropy:.3f} nats)"
        )


@check_arguments
def plan_labels(
    labels: CrowdLabels,
    posterior: Float[np.ndarray, "tasks classes"],
    confusion: Float[np.ndarray, "workers classes classes"] | None = None,
    *,
    budget: int,
    per_worker: int | Int[np.ndarray, " workers"],
    per_task: int = 3,
) -> LabelPlan:
    """Choose labels under a budget by their expected information about the truth.

    The gain of asking a worker about a task is the information of her answer about its truth: the entropy
    of the posterior minus its expected entropy after she has answered. The best pair is planned, again and
    again. The gain of a further label of a planned task is the mean over all combinations of the planned
    answers.

    Parameters
    ----------
    labels
        The labels collected so far.
    posterior
        P(truth | labels) of each task; rows add up to 1. A model's own is overconfident: plan with the
        posterior that :meth:`~quality.CalibratedConfidence.believed` returns.
    confusion
        P(answer | truth) of each worker, as :func:`~quality.dawid_skene` estimates it, or from one
        reliability per worker by :func:`one_coin_confusion`. By default everybody has the share of right
        labels that the posterior implies for the crowd.
    budget
        At most so many labels, at least 0.
    per_worker
        At most so many labels of each worker, or a number for each; 0 for a worker not to be asked.
    per_task
        At most so many new labels of each task, at least 1.

    Returns
    -------
    LabelPlan
        Fewer than `budget` labels where no further label has a gain.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or rows of probabilities do not add up to 1.

    Notes
    -----
    **Guarantees.** Every pair planned has the largest gain of all pairs left, equals in the order of task
    and worker codes. Gains never rise along the plan. Their sum is the expected reduction of the entropy by
    all planned labels, if the posterior and the confusion matrices are right and answers to a task are
    independent given its truth.

    **Limits.** Posterior and confusion matrices are estimates from the same labels: a worker with few of
    them may look better than she is. The greedy plan has at least a third of the best plan's gain.

    **Cost.** Evaluation is lazy: the gain of a task is computed when its last gain, at first its entropy, is
    the largest. Each takes O(workers * classes ^ (2 + labels planned for the task)) time, and memory for
    O(classes ^ (1 + labels planned for the task)) numbers, or for a million.

    References
    ----------
    .. [1] Lindley, "On a measure of the information provided by an experiment", Annals of
       Mathematical Statistics 27 (1956).
    .. [2] Fisher, Nemhauser, Wolsey, "An analysis of approximations for maximizing submodular set
       functions II", Mathematical Programming Study 8 (1978).

    Examples
    --------
    Two tasks are open; ann is the better judge but can take one only, and has labelled task 1.

    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy"], [1, 2, 3], list("xyx"))
    >>> posterior = np.array([[0.6, 0.4], [0.5, 0.5], [1.0, 0.0]])
    >>> confusion = one_coin_confusion(np.array([0.95, 0.7, 0.7]), 2)
    >>> plan = plan_labels(labels, posterior, confusion, budget=2, per_worker=1)
    >>> plan
    LabelPlan(2 labels of 2 tasks by 2 workers, expected to lower the entropy by 0.574 of 1.366 nats)
    >>> labels.workers[plan.worker], labels.tasks[plan.task], plan.gain.round(3)
    (array(['ann', 'bob'], dtype='<U3'), array([2, 1]), array([0.495, 0.079]))
    """
    check_posterior(labels, posterior)
    posterior = posterior.astype(np.float64, copy=False)  # equals are equal to 12 decimals
    confusion = _some_confusion(labels, posterior) if confusion is None else confusion
    capacity = _check_plan(labels, confusion, budget, per_worker, per_task)
    confusion = confusion.astype(np.float64, copy=False)
    entropy = posterior_entropy(posterior)
    plan = _greedy(labels, posterior, entropy, confusion, capacity, budget, per_task)
    return LabelPlan(
        task=np.array([task for task, _, _ in plan], dtype=np.int32),
        worker=np.array([worker for _, worker, _ in plan], dtype=np.int32),
        gain=np.array([gain for _, _, gain in plan], dtype=np.float64),
        entropy=float(entropy.sum()),
    )


def _some_confusion(
    labels: CrowdLabels, posterior: np.ndarray
) -> Float64[np.ndarray, "workers classes classes"]:
    """Return confusion matrices of equal workers, with the crowd's share of right labels by the posterior."""
    if labels.n_classes == 1:
        return np.ones((labels.n_workers, 1, 1))
    right = posterior[labels.task, labels.label].mean() if labels.n_labels else 1.0
    return one_coin_confusion(np.full(labels.n_workers, min(right, 1.0)), labels.n_classes)


def _greedy(
    labels: CrowdLabels, posterior: np.ndarray, entropy: np.ndarray, confusion: np.ndarray,
    capacity: np.ndarray, budget: int, per_task: int,
) -> list[tuple[int, int, float]]:  # fmt: skip
    """Return task, worker and gain of each planned pair: the best pair left, again and again."""
    row_entropy = posterior_entropy(confusion)
    bounds = entropy.round(DECIMALS).tolist()
    heap = [(-bound, task, UNJUDGED) for task, bound in enumerate(bounds) if bound > 0]
    heapify(heap)
    asked: dict[int, list[int]] = {}  # the workers planned for each task
    plan: list[tuple[int, int, float]] = []
    while heap and len(plan) < budget:
        negative_gain, task, worker = heappop(heap)
        if worker == UNJUDGED or not capacity[worker]:
            # gains only fall, so a task whose new gain is still the largest is the best of all
            joint = posterior[[task]]  # distribution of the truth and the planned answers
            for one in asked.get(task, ()):
                joint = _answered(joint, confusion[one])
            gain = _gains(joint, confusion, row_entropy)
            there = labels.worker[labels.task_start[task] : labels.task_start[task + 1]]
            gain[there], gain[asked.get(task, [])], gain[capacity == 0] = 0.0, 0.0, 0.0
            if gain.max(initial=0.0) > 0:
                heappush(heap, (-float(gain.max()), task, int(gain.argmax())))
            continue
        plan.append((task, worker, -negative_gain))
        capacity[worker] -= 1
        asked.setdefault(task, []).append(worker)
        if len(asked[task]) < per_task:
            heappush(heap, (negative_gain, task, UNJUDGED))
    return plan


def _gains(
    joint: Float64[np.ndarray, "answers classes"],
    confusion: Float[np.ndarray, "workers classes classes"],
    row_entropy: Float64[np.ndarray, "workers classes"],
) -> Float64[np.ndarray, " workers"]:
    """Return I(truth; worker's answer | planned answers): the answer's entropy less that given the truth."""
    gain = -(row_entropy * joint.sum(axis=0)).sum(axis=1)
    at_once = max(CELLS // max(joint.size, 1), 1)
    for first in range(0, len(gain), at_once):
        some = slice(first, first + at_once)
        answer = joint @ confusion[some]  # [workers, planned answers, the worker's answer]
        share = answer / joint.sum(axis=1)[:, np.newaxis]
        np.log(share, out=share, where=share > 0)  # 0 stays 0
        gain[some] -= np.einsum("wax,wax->w", answer, share)
    settled: np.ndarray = np.maximum(gain.round(DECIMALS), 0.0)
    return settled


def _answered(
    joint: Float64[np.ndarray, "answers classes"], confusion: Float[np.ndarray, "classes classes"]
) -> Float64[np.ndarray, "more_answers classes"]:
    """Return the joint distribution with one more answer; combinations of chance 0 are left out."""
    more = (joint[:, np.newaxis, :] * confusion.T[np.newaxis]).reshape(-1, joint.shape[1])
    possible: np.ndarray = more[more.sum(axis=1) > 0]
    return possible


def _check_plan(
    labels: CrowdLabels, confusion: np.ndarray, budget: int,
    per_worker: int | np.ndarray, per_task: int,
) -> Int64[np.ndarray, " workers"]:  # fmt: skip
    """Return the most labels to ask of each worker; raise ValueError if an argument does not fit."""
    shape = (labels.n_workers, labels.n_classes, labels.n_classes)
    if confusion.shape != shape:
        raise ValueError(f"confusion must have shape {shape}, got {confusion.shape}")
    if not (np.all(confusion >= 0) and np.allclose(confusion.sum(axis=2), 1)):
        raise ValueError("confusion must hold rows of probabilities adding up to 1, got others")
    if not budget >= 0:
        raise ValueError(f"budget must be >= 0, got budget={budget}")
    if not per_task >= 1:
        raise ValueError(f"per_task must be >= 1, got per_task={per_task}")
    if np.shape(per_worker) not in ((), (labels.n_workers,)):
        message = f"per_worker must be one number or {labels.n_workers}"
        raise ValueError(f"{message}, got shape {np.shape(per_worker)}")
    most, limit = np.asarray(per_worker), np.iinfo(np.int64).max
    if not (most.dtype.kind in "iu" and np.all((most >= 0) & (most <= limit))):
        came = "a negative number" if most.dtype.kind == "i" else f"others, as {most.dtype}"
        raise ValueError(f"per_worker must be >= 0 and whole, of 64 bits at most, got {came}")
    return np.full(labels.n_workers, per_worker, dtype=np.int64)

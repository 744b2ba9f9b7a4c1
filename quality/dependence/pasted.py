"""Workers who paste a language model's answers, found with reference labels of a model.

>>> from quality import encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
>>> truth = rng.integers(3, size=200)
>>> crowd = simulate_crowd(assignment, truth, n_classes=3, adversaries={}, rng=rng)
>>> reference = np.where(rng.random(200) < 0.7, truth, rng.integers(3, size=200))
>>> pasted = np.where(crowd.worker < 4, reference[crowd.task], crowd.label)
>>> pasted_answers(encode(crowd.worker, crowd.task, pasted), reference)
PastedAnswers(20 workers, 4 paste)

Pasters agree with each other, so that a penalty for disagreement finds the others. Here a label is
pasted with the worker's own probability, or else given with her own skill; the truth is estimated
at the same time, and a label that is likely pasted tells nothing about it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int

from quality.labels import CrowdLabels, freeze_arrays

__all__ = ["PastedAnswers", "pasted_answers"]

MAX_ITER, SETTLED = 200, 1e-4  # of EM: iterations, and the largest change of a share
BEGIN = 0.2  # share pasted that EM begins with
PRIOR_SKILL, PRIOR_SHARE = (3.0, 1.0), (1.0, 3.0)  # labels of each kind that a worker begins with
FLOOR = 1e-9  # of a class's share: one that nobody gives stays possible
QUANTILE = 1.6448536269514722  # of the normal law: intervals of 90 %


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PastedAnswers:
    """Result of :func:`pasted_answers`.

    Parameters
    ----------
    share, share_interval
        Share of each worker's labels that are pasted, and its 90 % interval; the interval is
        [0, 1] without labels on tasks of the reference.
    skill
        Of each worker: probability to be right where she answers on her own.
    flagged
        True where the whole interval lies above one half.
    posterior
        P(truth | labels), in which pasted labels do not count.
    """

    share: Float64[np.ndarray, " workers"]
    share_interval: Float64[np.ndarray, "workers 2"]
    skill: Float64[np.ndarray, " workers"]
    flagged: Bool[np.ndarray, " workers"]
    posterior: Float64[np.ndarray, "tasks classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"PastedAnswers({len(self.share)} workers, {np.count_nonzero(self.flagged)} paste)"


def pasted_answers(labels: CrowdLabels, reference: Int[np.ndarray, " tasks"]) -> PastedAnswers:
    """Estimate how many of their labels workers paste from a model of which reference labels are known.

    A worker's label is the reference with a probability of her own; else it is right with another,
    her skill, and wrong in every way equally often. Both, and the truth, are fitted by EM.

    Parameters
    ----------
    labels
        The crowd's labels.
    reference
        The class code that the model gives each task, -1 where it was not asked.

    Raises
    ------
    ValueError
        If `reference` is not one class code per task.

    Notes
    -----
    **Guarantees.** Agreement with the reference where it is right is no evidence: skill explains
    it. Names play no part. The result is the same bytes on every run.

    **Limits.** It says that labels are those of the model, not how they came about: a worker who
    thinks as the model does looks alike. A model whose errors other models share finds pasters of
    those as well; where more workers paste than answer, what they paste becomes the truth.

    **Cost.** One pass over the labels per iteration, at most 200; O(tasks * classes) memory.

    References
    ----------
    .. [1] Dempster, Laird, Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
       Journal of the Royal Statistical Society B 39 (1977).

    Examples
    --------
    Everybody is right but for dan, who follows the model where it errs.

    >>> from quality import encode
    >>> truth, model = np.arange(60) % 2, np.where(np.arange(60) % 3 == 0, 0, np.arange(60) % 2)
    >>> answers = np.column_stack([truth, truth, truth, model]).ravel()
    >>> labels = encode(["ann", "bob", "cy", "dan"] * 60, np.repeat(np.arange(60), 4), answers)
    >>> found = pasted_answers(labels, model)
    >>> labels.workers[found.share.argmax()]
    np.str_('dan')
    """
    _check_reference(labels, reference)
    n_workers, n_classes = labels.n_workers, labels.n_classes
    asked = reference[labels.task] >= 0
    same = reference[labels.task] == labels.label
    n_labels = np.bincount(labels.worker, minlength=n_workers)
    n_asked = np.bincount(labels.worker, asked, n_workers)
    share = np.where(n_asked > 0, BEGIN, 0.0)
    posterior = (labels.counts() + 1.0 / n_classes) / (
        np.diff(labels.task_start)[:, np.newaxis] + 1.0
    )
    skill = np.full(n_workers, PRIOR_SKILL[0] / sum(PRIOR_SKILL))
    for _ in range(MAX_ITER):
        pasted, right, _ = _responsibilities(labels, posterior, share, skill, asked, same)
        new = (np.bincount(labels.worker, pasted, n_workers) + PRIOR_SHARE[0]) / (
            n_asked + sum(PRIOR_SHARE)
        )
        new = np.where(n_asked > 0, new, 0.0)
        own = n_labels - np.bincount(labels.worker, pasted, n_workers)
        skill = (np.bincount(labels.worker, right, n_workers) + PRIOR_SKILL[0]) / (
            own + sum(PRIOR_SKILL)
        )
        moved, share = float(np.abs(new - share).max(initial=0.0)), new
        posterior = _truth(labels, posterior.mean(axis=0), share, skill, asked, same)
        if moved <= SETTLED:
            break
    slope = _responsibilities(labels, posterior, share, skill, asked, same)[2]
    information = np.bincount(labels.worker, slope**2, n_workers)
    error = QUANTILE / np.sqrt(np.maximum(information, 1e-12))
    interval = np.clip(np.column_stack([share - error, share + error]), 0.0, 1.0)
    return PastedAnswers(share, interval, skill, interval[:, 0] > 0.5, posterior)


def _check_reference(labels: CrowdLabels, reference: Int[np.ndarray, " tasks"]) -> None:
    if not (reference.dtype.kind in "iu" and reference.shape == (labels.n_tasks,)):
        raise ValueError(
            f"reference must be {labels.n_tasks} class codes, one per task and -1 where unknown, "
            f"got {reference.dtype} of shape {reference.shape}"
        )
    if not ((reference >= -1) & (reference < labels.n_classes)).all():
        raise ValueError(f"reference must be class codes from -1 to {labels.n_classes - 1}")


def _chances(
    labels: CrowdLabels, share: np.ndarray, skill: np.ndarray, asked: np.ndarray, same: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each label's chances: pasted from the model, given on her own if right and if wrong."""
    paste = share[labels.worker] * asked
    able = skill[labels.worker]
    right = (1.0 - paste) * able
    wrong = (1.0 - paste) * (1.0 - able) / max(labels.n_classes - 1, 1)
    return paste, paste * same, right, wrong


def _responsibilities(
    labels: CrowdLabels, posterior: np.ndarray, share: np.ndarray, skill: np.ndarray,
    asked: np.ndarray, same: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return P(pasted), P(own and right) of each label, and the slope of its log chance in the share."""
    paste, pasted, right, wrong = _chances(labels, share, skill, asked, same)
    belief = posterior[labels.task, labels.label]
    if_right, if_wrong = np.maximum(pasted + right, 1e-300), np.maximum(pasted + wrong, 1e-300)
    of_paste = belief * pasted / if_right + (1.0 - belief) * pasted / if_wrong
    chance = belief * if_right + (1.0 - belief) * if_wrong
    own = (belief * right + (1.0 - belief) * wrong) / np.maximum(1.0 - paste, 1e-9)
    slope = np.where(asked, (same - own) / np.maximum(chance, 1e-300), 0.0)
    return of_paste, belief * right / if_right, slope


def _truth(
    labels: CrowdLabels, prior: np.ndarray, share: np.ndarray, skill: np.ndarray,
    asked: np.ndarray, same: np.ndarray,
) -> Float64[np.ndarray, "tasks classes"]:  # fmt: skip
    """Return Bayes' rule: a label adds the logarithm of how much likelier it is if right."""
    _, pasted, right, wrong = _chances(labels, share, skill, asked, same)
    weight = np.log(np.maximum(pasted + right, FLOOR) / np.maximum(pasted + wrong, FLOOR))
    cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
    total = np.bincount(cell, weight, labels.n_tasks * labels.n_classes)
    log_belief = total.reshape(-1, labels.n_classes) + np.log(np.maximum(prior, FLOOR))
    belief = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
    posterior: np.ndarray = belief / belief.sum(axis=1, keepdims=True)
    return posterior

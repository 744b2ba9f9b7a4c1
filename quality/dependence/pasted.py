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

Pasters agree with each other, so that a penalty for disagreement finds the others. Here the model is
one more voter, as good as its labels show, so that agreeing with it where it is right is skill. Every
worker's other labels say what is pasted beyond that; those who paste no longer count for the truth,
and the whole is repeated.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from quality.labels import CrowdLabels, freeze_arrays

__all__ = ["PastedAnswers", "pasted_answers"]

ROUNDS = 5  # of the truth without those who paste, and of the share that each worker pastes
TRUTH_STEPS, WORKER_STEPS = 20, 40  # of EM in each round
BEGIN = 0.3  # share pasted that EM begins with
PRIOR_SKILL, PRIOR_SHARE = (4.0, 1.0), (1.0, 3.0)  # labels right and wrong; pasted and not
MODEL_SKILL = (7.0, 3.0)  # the model's labels right and wrong, before any evidence
EVIDENCE = 6.0  # of twice the log-likelihood ratio: a chance of 1 in 140 for one who never pastes
FLOOR = 1e-9  # of a class's share: one that nobody gives stays possible


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PastedAnswers:
    """Result of :func:`pasted_answers`.

    Parameters
    ----------
    share
        Share of each worker's labels that are pasted; 0 without labels on tasks of the reference.
    evidence
        Twice the logarithm of how much likelier her labels are if she pastes that share than if she
        never does.
    skill
        Of each worker: probability to be right where she answers on her own.
    flagged
        True where the evidence is at least 6 and the share above one half.
    posterior
        P(truth | labels, reference), in which labels of the flagged count as far as not pasted.
    """

    share: Float64[np.ndarray, " workers"]
    evidence: Float64[np.ndarray, " workers"]
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
    **Guarantees.** Agreement with the reference where it is right is no evidence: the model's and
    the worker's skill explain it. A worker's own label is not used to judge it. Names play no part.
    The result is the same bytes on every run.

    **Limits.** It says that labels are those of the model, not how they came about: a worker who
    thinks as the model does looks alike. The reference must be of the model that was pasted:
    another model's labels find pasters only as far as the two err together, which on public panels
    is little better than chance (``python -m benchmarks.quality.dependence``).

    **Cost.** Some 400 passes over the labels; O(tasks * classes) memory.

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
    model = _Model(labels, reference)
    share, skill = np.zeros(labels.n_workers), np.full(labels.n_workers, PRIOR_SKILL[0] / 5.0)
    posterior = model.vote()
    for _ in range(ROUNDS):
        posterior, others, skill = model.fit_truth(posterior, share, skill)
        never, log_never = model.fit_workers(others, np.zeros(labels.n_workers), skill)[1:]
        pasted, own, log_pasted = model.fit_workers(others, model.begin(), skill)
        evidence = 2.0 * (log_pasted - log_never)
        flagged = (evidence >= EVIDENCE) & (pasted > 0.5)
        share, skill = np.where(flagged, pasted, 0.0), np.where(flagged, own, never)
    return PastedAnswers(pasted, np.maximum(evidence, 0.0), own, flagged, posterior)


def _check_reference(labels: CrowdLabels, reference: Int[np.ndarray, " tasks"]) -> None:
    if not (reference.dtype.kind in "iu" and reference.shape == (labels.n_tasks,)):
        raise ValueError(
            f"reference must be {labels.n_tasks} class codes, one per task and -1 where unknown, "
            f"got {reference.dtype} of shape {reference.shape}"
        )
    if not ((reference >= -1) & (reference < labels.n_classes)).all():
        raise ValueError(f"reference must be class codes from -1 to {labels.n_classes - 1}")


class _Chances(NamedTuple):
    """Chances of each label: pasted; given on her own if it is right, and if it is wrong."""

    pasted: np.ndarray
    right: np.ndarray
    wrong: np.ndarray


class _Model:
    """The labels and the reference, and the steps of EM on them."""

    def __init__(self, labels: CrowdLabels, reference: np.ndarray) -> None:
        self.labels, self.known = labels, np.flatnonzero(reference >= 0)
        self.reference = reference[self.known]
        self.asked = (reference[labels.task] >= 0).astype(np.float64)
        self.same = reference[labels.task] == labels.label
        self.cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
        self.n_labels, self.n_asked = (
            self._by_worker(np.ones(labels.n_labels)),
            self._by_worker(self.asked),
        )
        self.n_wrong = max(labels.n_classes - 1, 1)

    def vote(self) -> Float64[np.ndarray, "tasks classes"]:
        """Return the shares of the labels, one label spread over all classes added."""
        counts = self.labels.counts() + 1.0 / self.labels.n_classes
        shares: np.ndarray = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def begin(self) -> Float64[np.ndarray, " workers"]:
        """Return the shares pasted that EM begins with: none without labels on the reference."""
        return np.where(self.n_asked > 0, BEGIN, 0.0)

    def fit_truth(
        self, posterior: np.ndarray, share: np.ndarray, skill: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the posterior, what the other labels say of each label's class, and the skills."""
        others = posterior.ravel()[self.cell]
        for _ in range(TRUTH_STEPS):
            chances = self._chances(share, skill)
            skill = self._skill(chances, posterior.ravel()[self.cell])[0]
            right = posterior[self.known, self.reference]
            good = (right.sum() + MODEL_SKILL[0]) / (len(right) + sum(MODEL_SKILL))
            posterior, others = self._truth(
                posterior.mean(axis=0), good, self._chances(share, skill)
            )
        return posterior, others, skill

    def fit_workers(
        self, others: np.ndarray, share: np.ndarray, skill: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each worker's share pasted, skill and log-likelihood; a share of 0 stays so."""
        most = np.maximum(self.n_asked + sum(PRIOR_SHARE) - 2.0, 1e-9)
        begun = share > 0
        for _ in range(WORKER_STEPS):
            chances = self._chances(share, skill)
            if_right, if_wrong = _both(chances)
            belief = others * if_right / (others * if_right + (1.0 - others) * if_wrong)
            skill, pasted = self._skill(chances, belief)
            share = np.where(begun, (pasted + PRIOR_SHARE[0] - 1.0) / most, 0.0)
        if_right, if_wrong = _both(self._chances(share, skill))
        return share, skill, self._by_worker(np.log(others * if_right + (1.0 - others) * if_wrong))

    def _chances(self, share: np.ndarray, skill: np.ndarray) -> _Chances:
        worker = self.labels.worker
        paste, able = share[worker] * self.asked, skill[worker]
        wrong = (1.0 - paste) * (1.0 - able) / self.n_wrong
        return _Chances(paste * self.same, (1.0 - paste) * able, wrong)

    def _skill(self, chances: _Chances, belief: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each worker's skill, and her expected pasted labels, by the belief in each label."""
        if_right, if_wrong = _both(chances)
        pasted = chances.pasted * (belief / if_right + (1.0 - belief) / if_wrong)
        n_pasted = self._by_worker(pasted)
        right = self._by_worker(belief * chances.right / if_right) + PRIOR_SKILL[0]
        return right / (self.n_labels - n_pasted + sum(PRIOR_SKILL)), n_pasted

    def _truth(
        self, prior: np.ndarray, good: float, chances: _Chances
    ) -> tuple[Float64[np.ndarray, "tasks classes"], Float64[np.ndarray, " labels"]]:
        """Return Bayes' rule, and the same of each label's class without that label."""
        if_right, if_wrong = _both(chances)
        weight = np.log(if_right / if_wrong)
        total = np.bincount(self.cell, weight, self.labels.n_tasks * self.labels.n_classes)
        log_belief = total.reshape(-1, self.labels.n_classes) + np.log(np.maximum(prior, FLOOR))
        log_belief[self.known, self.reference] += np.log(good * self.n_wrong / (1.0 - good))
        belief = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
        belief /= belief.sum(axis=1, keepdims=True)
        own = belief.ravel()[self.cell]
        others = own / np.maximum(own + (1.0 - own) * if_right / if_wrong, FLOOR)
        return belief, np.clip(others, FLOOR, 1.0 - FLOOR)

    def _by_worker(self, value: np.ndarray) -> Float64[np.ndarray, " workers"]:
        return np.bincount(self.labels.worker, value, self.labels.n_workers).astype(np.float64)


def _both(chances: _Chances) -> tuple[np.ndarray, np.ndarray]:
    """Return the chance of each label if it is right and if it is wrong."""
    return (
        np.maximum(chances.pasted + chances.right, FLOOR),
        np.maximum(chances.pasted + chances.wrong, FLOOR),
    )

"""Workers who paste a language model's answers, found with or without reference labels of a model.

>>> from quality import encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
>>> truth = rng.integers(3, size=200)
>>> crowd = simulate_crowd(assignment, truth, n_classes=3, adversaries={}, rng=rng)
>>> reference = np.where(rng.random(200) < 0.7, truth, rng.integers(3, size=200))
>>> pasted = np.where(crowd.worker < 4, reference[crowd.task], crowd.label)
>>> pasted_answers(encode(crowd.worker, crowd.task, pasted), reference)
PastedAnswers(20 workers, 4 paste)

Pasters agree with each other, so that a penalty for disagreement would flag the other workers. Here every
task has two unknown answers: its truth, and the answer of the source that pasters copy. Workers on their
own answer by confusion matrices of their own, shrunk to the crowd's; pasters repeat the source. Reference
labels are evidence about the source as far as the two turn out to agree: strong if they come from the
model that was pasted, weak if they come from another. Of four workers or fewer only one can paste, and
nobody has her answers in common. Such workers are compared by their likeness to the reference
(:func:`quality.dependence.tetrads.likeness`), and without a reference nothing is reported.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy.sparse import csr_array

from quality.argument_types import check_arguments
from quality.dependence.tetrads import likeness
from quality.labels import CrowdLabels, freeze_arrays

__all__ = ["PastedAnswers", "needed_evidence", "pasted_answers"]

PASTED = 0.9  # of a paster's labels, in the fit
RATE = 0.25  # of pasters, before any evidence
LOG_RATE = float(np.log(RATE / (1.0 - RATE)))
SUSPECTED = 0.3  # of the workers paste at the start of a fit
SHRINK = 10.0  # labels of the crowd in each row of a worker's confusion matrix
STEPS, LEAST_STEPS, MOVED = 60, 12, 1e-4  # of EM: most, least, and the change at which it ends
POWER_STEPS = 40  # of the power method
SHARE_STEPS, SHARE_PRIOR = 30, 0.5  # of EM for each worker's share; labels not pasted, added
EVIDENCE = 6.0  # least twice the log-likelihood ratio of pasting and answering on her own
FREE = 16.5  # added to it: times classes ** 2 / workers ** 1.5
FEW = 4  # workers: fewer than half of these are one at most
SOURCE = (6.0, 4.0)  # reference labels that are the source's, and that are not, before any evidence
FLOOR = 1e-9  # of a probability that is divided by
MAX_CELLS = 2**28  # pairs of classes of all labels and tasks: some five gigabytes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PastedAnswers:
    """Result of :func:`pasted_answers`.

    Parameters
    ----------
    share
        Share of each worker's labels that are pasted. With four workers or fewer it is the least share that
        explains her agreement with the reference.
    evidence
        Twice the log-likelihood ratio of pasting over answering on her own, each label predicted from the
        others; negative for a worker who answers on her own. With four workers or fewer it is the signed
        square, in standard errors, of her agreement with the reference less that expected from her
        colleagues; 0 without a reference.
    skill
        Probability that each worker is right where she answers on her own.
    flagged
        True where the evidence is at least :func:`needed_evidence` and the share above one half; with four
        workers or fewer, where the evidence is at least 6.
    posterior
        P(truth | labels, reference), in which labels of pasters count little.
    like_reference
        Share of the tasks on which the source gives the reference label; NaN without reference.
    """

    share: Float64[np.ndarray, " workers"]
    evidence: Float64[np.ndarray, " workers"]
    skill: Float64[np.ndarray, " workers"]
    flagged: Bool[np.ndarray, " workers"]
    posterior: Float64[np.ndarray, "tasks classes"]
    like_reference: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"PastedAnswers({len(self.share)} workers, {np.count_nonzero(self.flagged)} paste)"


@check_arguments
def pasted_answers(
    labels: CrowdLabels,
    reference: Int[np.ndarray, " tasks"] | None = None,
    *,
    alone: PastedAnswers | None = None,
) -> PastedAnswers:
    """Find the workers who paste the answers of one model.

    Parameters
    ----------
    labels
        The crowd's labels.
    reference
        The class code that a model gives each task, -1 where it was not asked; None if there is none.
    alone
        The result for the same labels without a reference, which saves most of the time.

    Raises
    ------
    ValueError
        If there are no labels, or `reference` is not one class code per task, or labels and tasks times
        classes² are more than 268 million.

    Notes
    -----
    **Guarantees.** Agreement with the reference where it is right is no evidence: the truth and the
    worker's skill explain it. A label is judged without itself. Names play no part. The result is the same
    bytes on every run. Of four workers or fewer nobody is flagged without a reference.

    **Limits.** The evidence is that labels have one source, not how they came about: workers who think
    alike look the same. Pasters must be fewer than half of the workers, and all paste one model. Without a
    reference, or with another model's, they are found by common answers alone, for which each needs some
    twenty labels on tasks where others paste too (``python -m benchmarks.quality.pasting``). A lone paster
    has no common answers: her labels have the likelihood of an honest worker's who errs as the model does.
    So she cannot be identified without a reference, however many her labels, nor by a reference that agrees
    with the pasted model no more than people do. Of five workers or more, where common answers are looked
    for, she can be missed unless the reference is the model that she pastes.

    **Cost.** Some 300 passes over labels * classes² cells; memory of some 18 bytes for each of them, and of
    tasks * classes² cells.

    References
    ----------
    .. [1] Dempster, Laird, Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
       Journal of the Royal Statistical Society B 39 (1977).

    Examples
    --------
    Twelve of forty paste a model that errs on three tasks of ten; nobody has the model's labels.

    >>> from quality import encode, regular_assignment
    >>> rng = np.random.default_rng(0)
    >>> who = regular_assignment(n_tasks=300, n_workers=40, labels_per_task=5, rng=rng)
    >>> truth = rng.integers(3, size=300)
    >>> model = np.where(rng.random(300) < 0.7, truth, rng.integers(3, size=300))
    >>> own = np.where(rng.random(1500) < 0.8, truth[who.task], rng.integers(3, size=1500))
    >>> answers = np.where(who.worker < 12, model[who.task], own)
    >>> found = pasted_answers(encode(who.worker, who.task, answers))
    >>> np.flatnonzero(found.flagged)
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11])
    """
    if reference is not None:
        _check_reference(labels, reference)
    if not labels.n_labels:
        raise ValueError("labels must be of one task or more, got none")
    cells = (labels.n_labels + labels.n_tasks) * labels.n_classes**2
    if cells > MAX_CELLS:
        raise ValueError(
            f"labels and tasks times classes² must be at most {MAX_CELLS:,}, got {labels.n_labels:,} labels "
            f"of {labels.n_tasks:,} tasks and {labels.n_classes:,} classes: keep part of the tasks"
        )
    crowd = _Crowd(labels)
    if labels.n_workers <= FEW:
        return _of_few(labels, crowd, reference)
    if alone is None:
        fits = [_fit(crowd, None, start) for start in _starts(crowd)]
        alone = _result(crowd, max(fits, key=lambda fit: fit.gain))
    if reference is None:
        return alone
    return _result(crowd, _fit(crowd, reference, 0.5 * (_chance(alone.evidence / 2.0) + SUSPECTED)))


def needed_evidence(n_workers: int, n_classes: int) -> float:
    """Return the least evidence by which a worker is flagged, among five workers or more.

    The pasted answer of every task is unknown, so that with few workers and many classes it fits the errors
    of a few of them: in simulated honest crowds of 6 workers and 5 classes up to an evidence of 34.

    Examples
    --------
    >>> [round(needed_evidence(n, 5), 1) for n in (6, 20, 60)]
    [34.1, 10.6, 6.9]
    """
    return float(EVIDENCE + FREE * n_classes**2 / n_workers**1.5)


def _check_reference(labels: CrowdLabels, reference: Int[np.ndarray, " tasks"]) -> None:
    if not (reference.dtype.kind in "iu" and reference.shape == (labels.n_tasks,)):
        raise ValueError(
            f"reference must be {labels.n_tasks} class codes, one per task and -1 where unknown, "
            f"got {reference.dtype} of shape {reference.shape}"
        )
    if not ((reference >= -1) & (reference < labels.n_classes)).all():
        raise ValueError(f"reference must be class codes from -1 to {labels.n_classes - 1}")


def _of_few(
    labels: CrowdLabels, crowd: "_Crowd", reference: Int[np.ndarray, " tasks"] | None
) -> PastedAnswers:
    """Judge few workers by likeness to the reference, and fit from the chances to paste that this gives."""
    table = np.full((labels.n_workers, labels.n_tasks), -1)
    table[crowd.worker, crowd.task] = crowd.label
    compared = np.full(labels.n_tasks, -1) if reference is None else reference
    evidence, share = likeness(table, compared, n_classes=labels.n_classes)
    found = _result(crowd, _fit(crowd, reference, _chance(evidence / 2.0)))
    return replace(found, share=share, evidence=evidence, flagged=evidence >= EVIDENCE)


def _chance(log_ratio: Float64[np.ndarray, " workers"]) -> Float64[np.ndarray, " workers"]:
    """Return the probability that each worker pastes, from the log-likelihood ratio; never 0 or 1."""
    pastes: np.ndarray = 1.0 / (1.0 + np.exp(-np.clip(log_ratio + LOG_RATE, -30.0, 30.0)))
    return pastes


class _Crowd:
    """The labels, and sums over them: by task, by worker, and by worker and class given."""

    def __init__(self, labels: CrowdLabels) -> None:
        self.worker, self.task = labels.worker.astype(np.int64), labels.task.astype(np.int64)
        self.label = labels.label.astype(np.int64)
        self.n_tasks, self.n_workers = labels.n_tasks, labels.n_workers
        self.n_classes = labels.n_classes
        self.cell = self.task * self.n_classes + self.label
        self.given = np.eye(self.n_classes)[self.label]
        self.kind, self.of_kind = np.unique(
            self.worker * self.n_classes + self.label, return_inverse=True
        )
        self.by_task = _adder(self.task, self.n_tasks)
        self.by_worker = _adder(self.worker, self.n_workers)
        self.by_kind = _adder(self.of_kind, len(self.kind))
        self.frequency = (self.given.sum(axis=0) + 1.0) / (len(self.label) + self.n_classes)

    def votes(self, weight: np.ndarray) -> Float64[np.ndarray, "tasks classes"]:
        """Return the shares of the classes in each task's labels, weighted by worker."""
        size = self.n_tasks * self.n_classes
        given: np.ndarray = np.bincount(self.cell, weight[self.worker], size)
        counts = given.reshape(self.n_tasks, -1) + 0.5 / self.n_classes
        shares: np.ndarray = counts / counts.sum(axis=1, keepdims=True)
        return shares


def _adder(code: np.ndarray, n_codes: int) -> csr_array:
    """Return the matrix that adds up the rows of each code."""
    rows = np.arange(len(code))
    return csr_array((np.ones(len(code)), (code, rows)), shape=(n_codes, len(code)))


def _starts(crowd: _Crowd) -> list[Float64[np.ndarray, " workers"]]:
    """Return four initial chances to paste: both ends of the first two eigenvectors of agreement.

    The excess of agreement over the average, by pairs of workers, is a matrix. A group with one source stands
    out in its first eigenvectors, which the power method finds without the matrix.
    """
    n_others = np.bincount(crowd.task, minlength=crowd.n_tasks)[crowd.task] - 1.0
    scale = np.sqrt(np.maximum(np.bincount(crowd.worker, n_others, crowd.n_workers), 1.0))
    size = crowd.n_tasks * crowd.n_classes
    n_same = np.bincount(crowd.cell, minlength=size)[crowd.cell] - 1.0
    mean = n_same.sum() / max(n_others.sum(), 1.0)

    def agreement(vector: np.ndarray) -> np.ndarray:
        own = (vector / scale)[crowd.worker]
        same = np.bincount(crowd.cell, own, size)[crowd.cell] - own
        common = np.bincount(crowd.task, own, crowd.n_tasks)[crowd.task] - own
        moved: np.ndarray = np.bincount(crowd.worker, same - mean * common, crowd.n_workers) / scale
        return moved + 0.3 * vector  # shifted: the largest eigenvalues, not those of largest size

    block = [scale]
    for _ in range(2):
        block.append(agreement(block[-1]))
    vectors = np.linalg.qr(np.stack(block, axis=1))[0]
    for _ in range(POWER_STEPS):
        moved = np.stack([agreement(vector) for vector in vectors.T], axis=1)
        vectors = np.linalg.qr(moved)[0]
    found = []
    for direction in (vectors / scale[:, np.newaxis]).T[:2]:
        for signed in (direction, -direction):
            last = np.quantile(signed, 1.0 - SUSPECTED)
            found.append(np.where(signed > last, 0.95, 0.05))
    return found


class _Fit(NamedTuple):
    """Result of EM: the joint belief in both answers of each task, and the chances of each label."""

    joint: np.ndarray  # [tasks, truth, source]
    right: np.ndarray  # P(the label is the truth), by the other labels
    copied: np.ndarray  # P(the source gives the label), by the other labels
    own: np.ndarray  # P(the label), if she answers on her own
    score: np.ndarray  # of each worker: log-likelihood ratio of pasting
    gain: float  # of log-likelihood, by the common answers of pasters
    like: float  # share of the reference labels that are the source's


def _fit(crowd: _Crowd, reference: np.ndarray | None, pastes: np.ndarray) -> _Fit:
    """Fit truth, source, confusion matrices and who pastes by mean-field EM, from chances to paste."""
    source = crowd.votes(pastes)
    if reference is not None:
        source = 0.5 * (source + _rows_of(reference, crowd.n_classes, source))
    joint = crowd.votes(1.0 - pastes)[:, :, np.newaxis] * source[:, np.newaxis, :]
    prior = _Prior(crowd, reference)
    copies = np.log(PASTED * crowd.given + (1.0 - PASTED) * crowd.frequency[crowd.label][:, None])
    for step in range(STEPS):
        log_prior = prior.update(joint)
        own, without = _own_chances(crowd, joint.sum(axis=2), 1.0 - pastes)
        doubt = pastes[crowd.worker][:, np.newaxis]
        alone, together = (1.0 - doubt) * np.log(own), doubt * copies
        log_joint = (
            log_prior
            + (crowd.by_task @ alone)[:, :, np.newaxis]
            + (crowd.by_task @ together)[:, np.newaxis, :]
        )
        top = log_joint.max(axis=(1, 2), keepdims=True)
        joint = np.exp(log_joint - top)
        joint /= joint.sum(axis=(1, 2), keepdims=True)
        right, copied, by_own, by_truth = _predicted(crowd, joint, alone, together, without)
        by_source, style = (
            PASTED * chance + (1.0 - PASTED) * crowd.frequency[crowd.label]
            for chance in (copied, by_truth)
        )
        against_own, against_style = (
            np.bincount(crowd.worker, np.log(by_source / other), crowd.n_workers)
            for other in (by_own, style)
        )
        moved = _chance(against_own)
        change = float(np.abs(moved - pastes).max(initial=0.0))
        if step > LEAST_STEPS and change < MOVED:
            break
        if step > 1:  # the two answers must take shape first
            pastes = 0.5 * (pastes + moved)
    score, gain = np.minimum(against_own, against_style), float(pastes @ against_style)
    return _Fit(joint, right, copied, by_own, score, gain, prior.like)


def _rows_of(reference: np.ndarray, n_classes: int, other: np.ndarray) -> np.ndarray:
    """Return the reference label of each task as a row of 0 and 1; `other`'s row where there is none."""
    known = (reference >= 0)[:, np.newaxis]
    return np.where(known, np.eye(n_classes)[np.maximum(reference, 0)], other)


class _Prior:
    """P(truth, source | reference): truth by the reference; the source is the reference or follows truth."""

    def __init__(self, crowd: _Crowd, reference: np.ndarray | None) -> None:
        n_classes = crowd.n_classes
        self.known = reference is not None
        code = np.full(crowd.n_tasks, -1) if reference is None else reference
        self.code = np.where(code < 0, n_classes, code)  # tasks not asked are a class of their own
        self.same = _rows_of(code, n_classes, np.zeros((crowd.n_tasks, n_classes)))
        self.like = SOURCE[0] / sum(SOURCE) if self.known else float("nan")
        self.believed = 0.5 * (np.eye(n_classes) + 1.0 / n_classes)
        self.rest = self.believed

    def update(self, joint: np.ndarray) -> Float64[np.ndarray, "tasks truths answers"]:
        """Return the logarithm of the prior that is likeliest under the joint belief in both answers."""
        truth, n_classes = joint.sum(axis=2), joint.shape[1]
        share = _adder(self.code, n_classes + 1) @ truth + 0.5
        log_truth = np.log(share / share.sum(axis=1, keepdims=True))[self.code]
        others = joint
        if self.known:
            asked = (self.code < n_classes)[:, np.newaxis, np.newaxis]
            same = self.like * self.same[:, np.newaxis, :]
            by_reference = joint * same / (same + (1.0 - self.like * asked) * self.rest)
            self.like = (by_reference.sum() + SOURCE[0]) / (asked.sum() + sum(SOURCE))
            others = joint - by_reference
        rest = others.sum(axis=0) + self.believed
        self.rest = rest / rest.sum(axis=1, keepdims=True)
        source = np.log(self.rest)[np.newaxis]
        if self.known:
            weight = self.like * asked
            source = np.log(weight * self.same[:, np.newaxis, :] + (1.0 - weight) * self.rest)
        both: np.ndarray = log_truth[:, :, np.newaxis] + source
        return both


def _own_chances(
    crowd: _Crowd, truth: np.ndarray, honest: np.ndarray
) -> tuple[Float64[np.ndarray, "labels classes"], Float64[np.ndarray, "labels classes"]]:
    """Return P(label | truth) at each label by its worker's confusion matrix, with the label and without it.

    Only cells of existing labels take memory.
    """
    given, n_classes = truth[crowd.task], crowd.n_classes
    confusion = (honest[crowd.worker][:, np.newaxis] * given).T @ crowd.given
    confusion += 0.5 * np.eye(n_classes) + 0.1
    confusion /= confusion.sum(axis=1, keepdims=True)
    of_class = SHRINK * confusion[:, crowd.label].T
    counts, totals = crowd.by_kind @ given, crowd.by_worker @ given
    counts, totals = counts[crowd.of_kind], totals[crowd.worker]
    without = (counts - given + of_class) / (totals - given + SHRINK)
    return (counts + of_class) / (totals + SHRINK), np.maximum(without, 1e-4)


def _predicted(
    crowd: _Crowd, joint: np.ndarray, alone: np.ndarray, together: np.ndarray, without: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return four chances of each label, by the labels that others gave the task.

    They are P(the label is right), P(the source gave it), P(the worker gives it on her own), and P(a
    source known only through the truth gave it).
    """
    left_alone = np.exp(alone.min(axis=1, keepdims=True) - alone)
    left_together = np.exp(together.min(axis=1, keepdims=True) - together)
    here = joint[crowd.task]
    truth = left_alone * np.einsum("iya,ia->iy", here, left_together)
    source = left_together * np.einsum("iya,iy->ia", here, left_alone)
    total, rows = truth.sum(axis=1), np.arange(len(crowd.label))
    saying = joint.sum(axis=0) + FLOOR
    saying /= saying.sum(axis=1, keepdims=True)
    return (
        truth[rows, crowd.label] / total,
        source[rows, crowd.label] / total,
        (truth * without).sum(axis=1) / total,
        (truth * saying[:, crowd.label].T).sum(axis=1) / total,
    )


def _result(crowd: _Crowd, fit: _Fit) -> PastedAnswers:
    """Return the result: each worker's share and skill, given both answers by the others' labels."""
    n_labels = np.bincount(crowd.worker, minlength=crowd.n_workers).astype(np.float64)
    share = np.full(crowd.n_workers, 0.5)
    for _ in range(SHARE_STEPS):
        pasted = share[crowd.worker] * fit.copied
        pasted /= np.maximum(pasted + (1.0 - share[crowd.worker]) * fit.own, FLOOR)
        share = np.bincount(crowd.worker, pasted, crowd.n_workers) / (n_labels + SHARE_PRIOR)
    alone = 1.0 - pasted
    right = np.bincount(crowd.worker, alone * fit.right, crowd.n_workers) + 4.0
    skill = right / (np.bincount(crowd.worker, alone, crowd.n_workers) + 5.0)
    evidence = 2.0 * fit.score
    flagged = (evidence >= needed_evidence(crowd.n_workers, crowd.n_classes)) & (share > 0.5)
    posterior = fit.joint.sum(axis=2)
    return PastedAnswers(share, evidence, skill, flagged, posterior, float(fit.like))

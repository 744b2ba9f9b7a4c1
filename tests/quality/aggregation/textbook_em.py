"""EM as the textbook has it, whole arrays and logarithms: the oracle of the fused pass."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from quality import CrowdLabels

__all__ = ["TextbookEM", "bayes", "smoothed", "textbook_em"]


@dataclass(frozen=True, eq=False)
class TextbookEM:
    """Where it stopped; `confusion` is [worker, truth, answer]."""

    posterior: np.ndarray
    prior: np.ndarray
    confusion: np.ndarray
    log_likelihood: float


def textbook_em(
    labels: CrowdLabels,
    n_iter: int,
    m_step: Callable[[np.ndarray], np.ndarray],
    gold: np.ndarray | None = None,
) -> TextbookEM:
    """EM from the soft majority vote; `m_step` makes the confusion of expected counts."""
    posterior = labels.counts() / np.maximum(labels.counts().sum(axis=1, keepdims=True), 1)
    known = np.full(labels.n_tasks, -1) if gold is None else gold
    posterior[known >= 0] = np.eye(labels.n_classes)[known[known >= 0]]
    for _ in range(n_iter):
        prior = posterior.mean(axis=0)
        counts = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
        for truth in range(labels.n_classes):
            np.add.at(counts, (labels.worker, truth, labels.label), posterior[labels.task, truth])
        confusion = m_step(counts)
        posterior, log_evidence = bayes(labels, prior, confusion, known)
    return TextbookEM(posterior, prior, confusion, float(log_evidence.sum()))


def smoothed(smoothing: float) -> Callable[[np.ndarray], np.ndarray]:
    """The M-step of plain Dawid–Skene."""

    def m_step(counts: np.ndarray) -> np.ndarray:
        table = counts + smoothing
        return table / table.sum(axis=2, keepdims=True)

    return m_step


def bayes(
    labels: CrowdLabels, prior: np.ndarray, confusion: np.ndarray, gold: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """P(truth | labels) and log P(labels, gold) of each task, added up in logarithms."""
    with np.errstate(divide="ignore"):
        log_joint = np.tile(np.log(prior), (labels.n_tasks, 1))
    np.add.at(log_joint, labels.task, np.log(confusion[labels.worker, :, labels.label]))
    if gold is not None:
        other = np.arange(len(prior)) != gold[:, None]
        log_joint[other & (gold >= 0)[:, None]] = -np.inf
    largest = log_joint.max(axis=1, keepdims=True)
    joint = np.exp(log_joint - largest)
    evidence = joint.sum(axis=1, keepdims=True)
    return joint / evidence, (np.log(evidence) + largest)[:, 0]

"""The pool of aggregators for very many classes: those that need no confusion matrix.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("aabbba"))
>>> found = auto_of_named(labels)
>>> found.label, found.left_out
(array([0, 1], dtype=int16), ('hierarchical_dawid_skene', 'dawid_skene', 'kos'))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation import Result
from quality.choice.automatic import CANDIDATES, ENOUGH, InPasses, Score, check_choice, hold_out
from quality.choice.held_out_labels import crowd_share, log_right, right_of, right_shares
from quality.labels import CrowdLabels, NamedPosterior, of_voters
from quality.many_classes import (
    NamedConsensus,
    mace_of_named,
    majority_of_named,
    one_coin_of_named,
    weighted_of_named,
)
from quality.parallel import Progress
from quality.reputation import reputation_weight, soft_penalty

__all__ = ["NamedAuto", "auto_of_named"]

NAMED_CANDIDATES: Mapping[str, Callable[[CrowdLabels], NamedConsensus]] = {
    "majority_vote": majority_of_named,
    "weighted_majority": lambda labels: weighted_of_named(
        labels, reputation_weight(soft_penalty(labels))
    ),
    "one_coin_dawid_skene": InPasses(one_coin_of_named),
    "mace": InPasses(mace_of_named),
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedAuto(Result):
    """Result of :func:`auto_of_named`.

    Parameters
    ----------
    posterior
        Mean of the candidates' posteriors, fitted to all labels, by weight.
    label, tied, chosen, result, scores, n_held_out
        As in :class:`~quality.Auto`.
    reliability
        P(label = truth) of each worker under `posterior`, shrunk to the crowd's by two labels.
    left_out
        The candidates of :func:`~quality.auto` that need tables of all classes.
    """

    posterior: NamedPosterior
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    chosen: str
    result: NamedConsensus
    reliability: Float64[np.ndarray, " workers"]
    scores: tuple[Score, ...]
    n_held_out: int
    left_out: tuple[str, ...]


def auto_of_named(
    labels: CrowdLabels,
    *,
    n_folds: int = 10,
    enough: int = ENOUGH,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
) -> NamedAuto:
    """Do what :func:`~quality.auto` does for very many classes, with the aggregators that can handle them.

    The candidates are majority vote, weighted majority, one-coin Dawid–Skene and MACE. A label held out
    is predicted by the crowd's share of right labels alone, and wrong labels are spread evenly: a class has
    too few labels for a confusion matrix.

    Parameters
    ----------
    labels, n_folds, enough, groups, progress
        As for :func:`~quality.auto`, errors included.

    Notes
    -----
    **Guarantees.** A candidate that is clearly behind weighs nothing. The same bytes on every run.

    **Cost.** One fit of each candidate per fold held out, and one more of each with a weight. No table of
    tasks by classes is needed.
    """
    check_choice(NAMED_CANDIDATES, n_folds, enough)
    labels = labels.merge_workers(groups)

    def predict(out: np.ndarray, fitted: NamedConsensus) -> tuple[np.ndarray, np.ndarray]:
        right = right_of(labels, fitted.posterior)
        return _log_chance(out, right, labels.n_classes), right

    scores, n_held_out, begins = hold_out(
        labels, NAMED_CANDIDATES, predict, n_folds, enough, progress
    )
    weight, fitted = {one.name: one.weight for one in scores if one.weight}, {}
    for name in weight:
        begins(name)
        fitted[name] = NAMED_CANDIDATES[name](labels)
    posterior = _mixture([(weight[name], one.posterior) for name, one in fitted.items()])
    best = max(weight, key=lambda name: weight[name])
    label, tied = posterior.decide()
    reliability = of_voters(_right(labels, posterior), groups)
    left_out = tuple(name for name in CANDIDATES if name not in NAMED_CANDIDATES)
    about = reliability, scores, n_held_out, left_out
    return NamedAuto(posterior, label, tied, best, fitted[best], *about)


def _log_chance(
    out: Bool[np.ndarray, " labels"], right: Float64[np.ndarray, " labels"], n_classes: int
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out."""
    share = crowd_share(right[~out].sum(), np.count_nonzero(~out), n_classes)
    return log_right(right[out], np.full(np.count_nonzero(out), share), n_classes)


def _mixture(parts: list[tuple[float, NamedPosterior]]) -> NamedPosterior:
    """Return the weighted mean; the classes not named share the rest by the mean of the parts' shares."""
    one, total = parts[0][1], sum(weight for weight, _ in parts)
    p = sum((weight * part.p for weight, part in parts), np.zeros(len(one.p))) / total
    rest = sum((weight * part.rest for weight, part in parts), np.zeros(len(one.rest))) / total
    base = np.full(one.shape[1], 1e-12 / one.shape[1])  # even where nothing is left for them
    for weight, part in parts:
        if part.base is not None:
            base += weight * part.rest.sum() * part.base
    return NamedPosterior(one.named, p, rest, base / base.sum())


def _right(labels: CrowdLabels, posterior: NamedPosterior) -> Float64[np.ndarray, " workers"]:
    """Return each worker's share of right labels, shrunk to the crowd's."""
    p = posterior.p[posterior.named.entry]
    n_labels = np.bincount(labels.worker, minlength=labels.n_workers)
    total = np.bincount(labels.worker, p, labels.n_workers)
    found = right_shares(total, n_labels, float(p.mean()) if len(p) else 1.0)
    return np.asarray(np.clip(found, 0.0, 1.0))

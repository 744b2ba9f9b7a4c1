"""Choice of an aggregator without gold: the one that best predicts labels held out from it.

>>> from quality import encode, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
>>> truth = rng.integers(2, size=200)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"malicious": 5}, rng=rng)
>>> auto(encode(crowd.worker, crowd.task, crowd.label), rng=rng).chosen
'dawid_skene'

:data:`CANDIDATES` are the aggregators it chooses among by default; any other function of a table
and a generator can be a candidate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16

from quality.aggregation.consensus import Consensus, Result
from quality.aggregation.dawid_skene_em import dawid_skene, one_coin_dawid_skene
from quality.aggregation.kos_messages import kos, kos_plus
from quality.aggregation.majority import majority_vote
from quality.labels import CrowdLabels
from quality.parallel import Progress, counter

__all__ = ["CANDIDATES", "Auto", "Candidate", "Score", "auto", "hold_out", "predict_held_out"]

MISREAD_SHARE = 0.5  # of the tasks given some class: most of them is too many
MISREAD_TASKS = 0.01  # of all tasks: classes of fewer tasks rule no candidate out
ERRORS = 2.0  # standard errors within which two scores count as equal

Candidate = Callable[[CrowdLabels, np.random.Generator], Consensus]

CANDIDATES: Mapping[str, Candidate] = {
    "dawid_skene": lambda labels, rng: dawid_skene(labels),
    "one_coin_dawid_skene": lambda labels, rng: one_coin_dawid_skene(labels),
    "kos": lambda labels, rng: kos(labels, rng=rng),
    "kos_plus": lambda labels, rng: kos_plus(labels, rng=rng),
    "majority_vote": lambda labels, rng: majority_vote(labels),
}


@dataclass(frozen=True, slots=True)
class Score:
    """How well one candidate predicts the labels held out from it.

    Parameters
    ----------
    name
        Of the candidate.
    log_likelihood
        Mean over the labels held out, in nats; NaN if none could be held out.
    behind, behind_error
        Its distance to the best log-likelihood, and the standard error of that distance.
    misread
        Of the candidate fitted to all labels: the largest share, over classes that it gives to more
        than 1 % of the tasks, of tasks whose workers never named the class.
    eligible
        False if `misread` is more than one half: the class no longer means what the workers meant.
    """

    name: str
    log_likelihood: float
    behind: float
    behind_error: float
    misread: float
    eligible: bool

    def __repr__(self) -> str:
        reason = "" if self.eligible else ", misread"
        return f"Score({self.name} {self.log_likelihood:.3f}{reason})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Auto(Result):
    """Result of :func:`auto`.

    Parameters
    ----------
    posterior, label, tied
        Those of the candidate chosen, fitted to all labels.
    chosen
        Its name.
    result
        Its result.
    scores
        One for each candidate, in the order given.
    n_held_out
        Labels that were predicted, over all splits.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    chosen: str
    result: Consensus
    scores: tuple[Score, ...]
    n_held_out: int


def auto(
    labels: CrowdLabels,
    *,
    candidates: Mapping[str, Candidate] = CANDIDATES,
    held_out: float = 0.1,
    n_splits: int = 3,
    smoothing: float = 10.0,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
    rng: np.random.Generator,
) -> Auto:
    """Fit the aggregator that best predicts held-out labels; no gold is used.

    Some labels are held out and every candidate is fitted to the rest. One M step, the same for all
    candidates, makes confusion matrices of its posterior, one E step makes a posterior of these, and
    P(label) = sum over truth of posterior * confusion. The candidate under which the held-out labels
    are likeliest is chosen; one that comes earlier in `candidates` and is behind by no more than two
    standard errors goes before it.

    Parameters
    ----------
    labels
        The crowd's labels.
    candidates
        Name -> function of labels and generator, the preferred ones first.
    held_out
        Share of the labels held out, in (0, 1); one label of each task always stays.
    n_splits
        Number of times that labels are held out, at least 1.
    smoothing
        Labels, spread as the whole crowd's are, added to each row of a confusion matrix; above 0.
    groups
        As for :func:`~quality.dawid_skene`, for all candidates: they have the merged table.
    progress
        Called after every fit: see :data:`quality.parallel.Progress`.
    rng
        Source of the splits, and of the candidates' randomness.

    Raises
    ------
    ValueError
        If there is no candidate or a parameter is out of its range.

    Notes
    -----
    **Guarantees.** The best eligible score is chosen, but for the standard errors above. A candidate
    that gives some class mostly to tasks whose workers never named it is not eligible, unless all
    are like that. Without tasks of two labels nothing is held out and the first one is chosen.
    The same generator gives the same result.

    **Limits.** Predicting labels is not knowing the truth: a rule that believes a crowd which errs
    together predicts it best. Hand over unfiltered labels: Dawid–Skene can use a malicious worker's
    inverted labels, and a filter would remove them. A filter is compared fairly as part of a
    candidate, ``lambda labels, rng: majority_vote(labels.keep_workers(...))``.

    **Cost.** Each candidate once per split, and once on all labels.

    Examples
    --------
    >>> from quality import encode, regular_assignment, simulate_crowd
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=200, n_workers=20, labels_per_task=5, rng=rng)
    >>> truth = rng.integers(2, size=200)
    >>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"random": 8}, rng=rng)
    >>> auto(encode(crowd.worker, crowd.task, crowd.label), rng=rng)
    Auto(one_coin_dawid_skene of 5 candidates, 200 tasks, 0 tied)
    """
    if not candidates:
        raise ValueError("candidates must be one or more aggregators, got none")
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must be in (0, 1), got held_out={held_out}")
    if not n_splits >= 1:
        raise ValueError(f"n_splits must be >= 1, got n_splits={n_splits}")
    if not 0 < smoothing < np.inf:
        raise ValueError(f"smoothing must be > 0 and finite, got smoothing={smoothing}")
    labels = labels.merge_workers(groups)
    tell, n_fits = counter(progress, "auto", (1 + n_splits) * len(candidates)), count(1)
    results: dict[str, Consensus] = {}
    for name, fit in candidates.items():
        results[name] = fit(labels, rng)
        tell(next(n_fits))
    log_p = np.zeros((len(candidates), labels.n_tasks))  # summed over a task's held-out labels
    n_held_out = 0
    for _ in range(n_splits):
        rest, out = hold_out(labels, held_out, rng)
        n_held_out += int(np.count_nonzero(out))
        for place, fit in enumerate(candidates.values()):
            found = predict_held_out(labels, out, rest, fit(rest, rng).posterior, smoothing)
            log_p[place] += np.bincount(labels.task[out], found, labels.n_tasks)
            tell(next(n_fits))
    misread = np.array([_misread(labels, result.label) for result in results.values()])
    scores = _scores(tuple(candidates), log_p, misread, n_held_out)
    chosen = _choose(scores)
    result = results[chosen]
    return Auto(result.posterior, result.label, result.tied, chosen, result, scores, n_held_out)


def hold_out(
    labels: CrowdLabels, share: float, rng: np.random.Generator
) -> tuple[CrowdLabels, Bool[np.ndarray, " labels"]]:
    """Return the table without a random share of its rows, never all of a task's, and which they are."""
    draw = rng.random(labels.n_labels)
    by_task = np.lexsort((draw, labels.task))
    largest = by_task[labels.task_start[1:][np.diff(labels.task_start) > 0] - 1]
    out = draw < share
    out[largest] = False
    return labels.keep_labels(~out), out


def predict_held_out(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    rest: CrowdLabels,
    posterior: Float64[np.ndarray, "tasks classes"],
    smoothing: float,
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each held-out label under one M step and one E step on the rest."""
    n_classes = labels.n_classes
    cell = rest.worker.astype(np.int64) * n_classes + rest.label
    counts = np.stack(
        [np.bincount(cell, share, labels.n_workers * n_classes) for share in posterior[rest.task].T]
    ).reshape(n_classes, labels.n_workers, n_classes)
    crowd = counts.sum(axis=1) + 1.0 / n_classes
    crowd /= crowd.sum(axis=1, keepdims=True)
    confusion = counts + smoothing * crowd[:, np.newaxis]  # [truth, worker, label]
    confusion /= confusion.sum(axis=2, keepdims=True)
    prior = posterior.mean(axis=0) + 1e-9  # a class nobody gives stays possible, and finite
    log_belief = np.column_stack(
        [
            np.log(prior[k])
            + np.bincount(rest.task, np.log(table[rest.worker, rest.label]), labels.n_tasks)
            for k, table in enumerate(confusion)
        ]
    )
    belief = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
    belief /= belief.sum(axis=1, keepdims=True)
    given = confusion[:, labels.worker[out], labels.label[out]]
    predicted: np.ndarray = np.log((belief[labels.task[out]].T * given).sum(axis=0))
    return predicted


def _misread(labels: CrowdLabels, label: Int16[np.ndarray, " tasks"]) -> float:
    """Return the largest share, over classes of some size, of a class's tasks that never named it."""
    labelled = np.diff(labels.task_start) > 0
    named = labels.counts()[np.arange(labels.n_tasks), label] > 0
    given = np.bincount(label[labelled], minlength=labels.n_classes)
    unnamed = np.bincount(label[labelled & ~named], minlength=labels.n_classes)
    large = given > MISREAD_TASKS * np.count_nonzero(labelled)
    return float((unnamed[large] / given[large]).max(initial=0.0))


def _scores(
    names: tuple[str, ...],
    log_p: Float64[np.ndarray, "candidates tasks"],
    misread: Float64[np.ndarray, " candidates"],
    n_held_out: int,
) -> tuple[Score, ...]:
    """Return means per held-out label; errors as if tasks were drawn independently."""
    eligible = misread <= MISREAD_SHARE
    if not eligible.any():
        eligible[:] = True
    total = log_p.sum(axis=1)
    best = int(np.argmax(np.where(eligible, total, -np.inf)))
    apart = log_p[best] - log_p
    error = np.sqrt(((apart - apart.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    scale = 1.0 / n_held_out if n_held_out else np.nan
    behind = apart.sum(axis=1)
    return tuple(
        Score(
            name=name,
            log_likelihood=float(total[place] * scale),
            behind=float(behind[place] * scale),
            behind_error=float(error[place] * scale),
            misread=float(misread[place]),
            eligible=bool(eligible[place]),
        )
        for place, name in enumerate(names)
    )


def _choose(scores: tuple[Score, ...]) -> str:
    """Name the first eligible candidate that is not clearly behind; the first if nothing was held out."""
    return next(s.name for s in scores if s.eligible and not s.behind > ERRORS * s.behind_error)

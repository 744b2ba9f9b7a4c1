"""One more voice: class probabilities of the tasks, joined with a consensus by measured reliability.

>>> from quality import encode, hierarchical_dawid_skene, regular_assignment, simulate_crowd
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=600, n_workers=30, labels_per_task=4, rng=rng)
>>> truth = rng.integers(2, size=600)
>>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"random": 12}, rng=rng)
>>> labels = encode(crowd.worker, crowd.task, crowd.label)
>>> voice = np.where(np.eye(2)[np.where(rng.random(600) < 0.85, truth, 1 - truth)] > 0, 0.85, 0.15)
>>> consensus = hierarchical_dawid_skene(labels)
>>> joined = join_voice(consensus, voice, hold_labels_out(labels, hierarchical_dawid_skene))
>>> [round(float(np.mean(label == truth)), 2) for label in (consensus.label, joined.label)]
[0.9, 0.94]

The joined belief is q^b (p / p̄)^a, where q is the consensus posterior, p the voice and p̄ its mean
over the tasks; a and b are those under which labels that were held out from q are likeliest. An
overconfident consensus has b < 1, so that the voice is weighed against the information in the labels
and not against the claims of the crowd's model.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int16, Int64

from quality.aggregation import Consensus, Result, decide, posterior_found
from quality.argument_types import check_arguments
from quality.choice import folds
from quality.labels import CrowdLabels, check_gold, freeze_arrays
from quality.parallel import kernel

__all__ = ["HeldOut", "JoinedVoice", "hold_labels_out", "join_voice"]

# exponents that are tried
VOICE_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
CROWD_WEIGHTS = (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0)
EVIDENCE = 3.0  # standard errors by which a voice must make held-out labels likelier to be heard
MIN_GAIN = 1e-9  # nats a label; less is rounding, whose standard errors mean nothing
MAX_JUDGED = 20_000  # tasks whose labels measure the weights
MAX_BELIEFS = 2**22  # of their classes, over all folds
MAX_WORTH = 100.0  # labels that a voice stands for, if the crowd's own predict next to nothing
FLOOR = 1e-12  # of a posterior, where its logarithm is taken


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldOut:
    """Result of :func:`hold_labels_out`.

    Parameters
    ----------
    labels
        The labels of the tasks that are judged.
    task
        Code of each of those tasks in the whole table.
    fold
        The fold in which each label is held out, -1 for a label that never is.
    log_belief
        Logarithm of the posterior without the labels of each fold.
    """

    labels: CrowdLabels
    task: Int64[np.ndarray, " judged"]
    fold: Int16[np.ndarray, " labels"]
    log_belief: Float64[np.ndarray, "folds judged classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        held = np.count_nonzero(self.fold >= 0)
        return f"HeldOut({held} labels of {len(self.task)} tasks, in {len(self.log_belief)} folds)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JoinedVoice(Result):
    """Result of :func:`join_voice`.

    Parameters
    ----------
    posterior
        Belief in each class by the crowd and the voice; the crowd's own if the voice is not heard.
    label, tied
        As in :class:`~quality.Consensus`.
    voice_weight, crowd_weight
        The exponents of the voice and of the crowd's posterior; 0 and 1 if it is not heard.
    gain
        Gain in the log-likelihood of a held-out label by the voice, in nats, mean over the labels.
    evidence
        The gain in standard errors, which take tasks as independent; 0 if the gain is 1e-9 or less, which
        is rounding.
    worth
        Labels of this crowd that the voice stands for on a task, at most 100: the gain of the voice alone
        in predicting a label held out, over the mean gain of one of the task's other labels.
    votes
        Its votes for each class of each task, by which confidence counts it beside the workers
        (:func:`~quality.calibrate`): `worth` times its probabilities, 0 if it is not heard.
    """

    posterior: Float64[np.ndarray, "tasks classes"]
    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]
    voice_weight: float
    crowd_weight: float
    gain: float
    evidence: float
    worth: float
    votes: Float64[np.ndarray, "tasks classes"]

    @property
    def heard(self) -> bool:
        """Whether the voice has a weight."""
        return self.voice_weight > 0

    def __repr__(self) -> str:
        worth = f"worth {self.worth:.1f} labels a task" if self.heard else "not heard"
        return f"JoinedVoice({len(self.label)} tasks, {worth})"


@check_arguments
def hold_labels_out(
    labels: CrowdLabels, fit: Callable[[CrowdLabels], Consensus], *, n_folds: int = 5
) -> HeldOut:
    """Fit an aggregator without each fold of the labels in turn.

    Parameters
    ----------
    labels
        The crowd's labels. Workers who do not answer on their own must be merged before
        (:meth:`CrowdLabels.merge_workers`): a copy left in would predict the one held out.
    fit
        The aggregator of the consensus that a voice is to join.
    n_folds
        From 2 to 32,767. A task's labels go round the folds. Where more tasks have several labels than are
        judged, one label of each that is judged is held out, all at once: there is one fold.

    Raises
    ------
    ValueError
        If `n_folds` is not from 2 to 32,767, or `fit` returns no distribution over the classes for each task.

    Notes
    -----
    **Cost.** One fit a fold. At most 20,000 tasks are judged, evenly spread; with hundreds of classes
    fewer, so that their beliefs are 4,194,304 numbers in all.

    Examples
    --------
    >>> from quality import encode, majority_vote
    >>> labels = encode(["ann", "bob", "ann"], [1, 1, 2], ["yes", "no", "no"])
    >>> hold_labels_out(labels, majority_vote, n_folds=2)
    HeldOut(2 labels of 1 tasks, in 2 folds)
    """
    fold, count = folds(labels, n_folds), np.diff(labels.task_start)
    several = np.flatnonzero(count > 1)
    most = min(MAX_JUDGED, max(MAX_BELIEFS // (n_folds * max(labels.n_classes, 1)), 1))
    judged = several[:: -(-len(several) // most) or 1]
    if len(judged) < len(several):  # their labels are evidence enough, at the cost of one fit
        n_folds, fold = 1, np.full(labels.n_labels, -1, dtype=np.int16)
        fold[labels.task_start[judged] + np.arange(len(judged)) % count[judged]] = 0
    log_belief = np.empty((n_folds, len(judged), labels.n_classes))
    for number in range(n_folds if len(judged) else 0):
        fitted = fit(labels.keep_labels(fold != number))
        posterior = posterior_found(fitted, labels.n_tasks, labels.n_classes, "fit")
        log_belief[number] = np.log(np.maximum(posterior[judged], FLOOR))
    rows = np.flatnonzero(np.isin(labels.task, judged))
    part = CrowdLabels.from_codes(
        labels.worker[rows], np.searchsorted(judged, labels.task[rows]), labels.label[rows],
        workers=labels.workers, tasks=labels.tasks[judged], classes=labels.classes,
    )  # fmt: skip
    return HeldOut(part, judged, fold[rows], log_belief)


@check_arguments
def join_voice(
    consensus: Consensus,
    probabilities: Float[np.ndarray, "tasks classes"],
    held_out: HeldOut,
    *,
    gold: Int[np.ndarray, " tasks"] | None = None,
) -> JoinedVoice:
    """Join a consensus with class probabilities that saw no label of the task, by measured weights.

    Parameters
    ----------
    consensus
        The consensus of the labels.
    probabilities
        Of each class of each task, > 0; a row adds up to 1. They must be cross-fitted: those of a task
        come from a model that saw neither its labels nor its consensus. Otherwise the crowd's mistakes on
        the task count twice.
    held_out
        :func:`hold_labels_out` of the same labels and aggregator.
    gold
        The class code of each task whose truth the consensus was given, -1 elsewhere; these tasks keep it.

    Raises
    ------
    ValueError
        If `probabilities` are not one positive row per task that adds up to 1, `held_out` is of other labels,
        or gold is not one code per task.

    Notes
    -----
    **Guarantees.** A voice is heard only where it makes held-out labels likelier by more than
    3 standard errors; otherwise posterior, labels and ties are the consensus's own, to the byte.
    A voice that is the same for every task is never heard. Nor is a voice that renames classes, as if its
    columns were in another order. Of the classes that it exchanges, more tasks change than stay, by 3
    standard errors. No gold is used to weigh a voice. The result is the same on every run.

    **Limits.** The labels held out are the crowd's: a voice that predicts the mistakes that workers share
    is trusted for it. A crowd that is right less often than chance is made worse by a voice, if it is heard.

    **Cost.** 77 passes over the judged labels for each fold, and 19 more if the voice is heard.

    Examples
    --------
    >>> from quality import encode, majority_vote
    >>> truth, wrong = np.arange(60) % 2, np.random.default_rng(0).random(180) < 0.2
    >>> labels = encode([1, 2, 3] * 60, np.repeat(range(60), 3), np.repeat(truth, 3) ^ wrong)
    >>> voice = np.where(np.eye(2)[truth] > 0, 0.7, 0.3)
    >>> held_out = hold_labels_out(labels, majority_vote)
    >>> join_voice(majority_vote(labels), voice, held_out)
    JoinedVoice(60 tasks, worth 2.8 labels a task)
    >>> join_voice(majority_vote(labels), np.full((60, 2), 0.5), held_out)
    JoinedVoice(60 tasks, not heard)
    """
    _check(probabilities, consensus, held_out)
    known = check_gold(gold, *consensus.posterior.shape) >= 0
    probabilities = probabilities.astype(np.float64, copy=False)
    log_voice = np.log(probabilities / probabilities.mean(axis=0))
    voice, crowd, gain, evidence = _weights(log_voice, held_out)
    log_crowd = np.log(np.maximum(consensus.posterior, FLOOR))
    posterior = _joined(log_crowd, log_voice, crowd, voice)
    if not evidence > EVIDENCE or _renames(consensus.posterior, posterior):
        own = consensus.posterior, consensus.label, consensus.tied
        return JoinedVoice(*own, 0.0, 1.0, gain, evidence, 0.0, np.zeros(log_voice.shape))
    posterior[known] = consensus.posterior[known]
    label, tied = decide(posterior)
    worth = _worth(log_voice[held_out.task], held_out)
    votes = worth * probabilities
    return JoinedVoice(posterior, label, tied, voice, crowd, gain, evidence, worth, votes)


def _renames(
    before: Float64[np.ndarray, "tasks classes"], after: Float64[np.ndarray, "tasks classes"]
) -> bool:
    """Return whether, in a permutation of some classes, clearly more tasks change class than keep it.

    Labels held out cannot show it: they are as likely if truth and P(label | truth) are renamed together.
    """
    from scipy.optimize import linear_sum_assignment  # heavy, and voices are few

    met = before.T @ after
    one, other = linear_sum_assignment(met, maximize=True)
    moved = one != other
    changed, kept = met[one, other][moved].sum(), np.diag(met)[moved].sum()
    return bool(changed - kept > EVIDENCE * np.sqrt(changed + kept))


def _check(probabilities: np.ndarray, consensus: Consensus, held_out: HeldOut) -> None:
    n_tasks, n_classes = consensus.posterior.shape
    last, seen = int(held_out.task.max(initial=-1)), held_out.labels.n_classes
    if not (last < n_tasks and seen == n_classes):
        raise ValueError(
            f"held_out must be of the labels of the consensus, {n_tasks} tasks and {n_classes} classes, got "
            f"task {last} and {seen} classes"
        )
    if probabilities.shape != consensus.posterior.shape:
        raise ValueError(
            f"probabilities must have the posterior's shape {consensus.posterior.shape}, got "
            f"{probabilities.shape}"
        )
    if not (probabilities > 0).all() or not np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError("probabilities must be > 0, and each row must add up to 1")


def _joined(
    log_crowd: np.ndarray, log_voice: np.ndarray, crowd: float, voice: float
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the product of both beliefs, each to the power of its weight, normalised."""
    log_belief = crowd * log_crowd + voice * log_voice
    belief: np.ndarray = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
    belief /= belief.sum(axis=1, keepdims=True)
    return belief


def _weights(
    log_voice: Float64[np.ndarray, "tasks classes"], held_out: HeldOut
) -> tuple[float, float, float, float]:
    """Return the weights of voice and crowd, the gain per label, and that gain in standard errors."""
    n_held = int(np.count_nonzero(held_out.fold >= 0))
    if not n_held:
        return 0.0, 1.0, 0.0, 0.0
    log_voice = log_voice[held_out.task]
    alone, crowd, voice = None, 1.0, 0.0
    for a in VOICE_WEIGHTS:
        for b in CROWD_WEIGHTS:
            log_p = _log_likelihood(log_voice, held_out, a, b)
            if alone is None or (a == 0 and log_p.sum() > alone.sum()):
                alone = best = log_p
            if log_p.sum() > best.sum():
                best, crowd, voice = log_p, b, a
    gained = best - alone
    error = float(np.sqrt((gained**2).sum()))
    total = float(gained.sum())
    return voice, crowd, total / n_held, total / error if total > MIN_GAIN * n_held else 0.0


def _log_likelihood(
    log_voice: np.ndarray, held_out: HeldOut, voice: float, crowd: float
) -> Float64[np.ndarray, " judged"]:
    """Return the log-probability of each task's labels held out, under these weights."""
    labels = held_out.labels
    found = np.zeros(labels.n_tasks)
    for number, log_crowd in enumerate(held_out.log_belief):
        out = held_out.fold == number
        belief = _joined(log_crowd, log_voice, crowd, voice)
        log_p = _predicted_by_crowd(labels, out, belief)
        found += np.bincount(labels.task[out], log_p, labels.n_tasks)
    return found


def _worth(log_voice: Float64[np.ndarray, "judged classes"], held_out: HeldOut) -> float:
    """Return how many of a task's other labels predict one held out as well as the voice alone does."""
    prior = np.log(np.exp(held_out.log_belief).mean(axis=1, keepdims=True))
    unknown = replace(held_out, log_belief=np.broadcast_to(prior, held_out.log_belief.shape))
    nothing = _log_likelihood(log_voice, unknown, 0.0, 1.0).sum()
    voice = max(_log_likelihood(log_voice, unknown, a, 1.0).sum() for a in VOICE_WEIGHTS)
    crowd = max(_log_likelihood(log_voice, held_out, 0.0, b).sum() for b in CROWD_WEIGHTS)
    labels, held = held_out.labels, held_out.fold >= 0
    cell = labels.task[held].astype(np.int64) * len(held_out.log_belief) + held_out.fold[held]
    together = np.bincount(cell)[cell]
    n_left = float(np.mean(np.diff(labels.task_start)[labels.task[held]] - together))
    return min(MAX_WORTH, float(n_left * (voice - nothing) / max(crowd - nothing, FLOOR)))


def _predicted_by_crowd(
    labels: CrowdLabels,
    out: Bool[np.ndarray, " labels"],
    belief: Float64[np.ndarray, "tasks classes"],
) -> Float64[np.ndarray, " held"]:
    """Return the log-probability of each label held out, by what the crowd's labels mean under a belief.

    It is the mean of two. The first is by the crowd's confusion matrix, from the labels not held out. The
    second is by the crowd's share of right labels alone, and wrong ones are spread evenly: a voice that
    renames the classes has a good matrix, and nothing right.
    """
    n_classes = labels.n_classes
    counts = np.full((n_classes, n_classes), 1.0 / n_classes)  # a label nobody gives stays possible
    _add_answers(labels.task, labels.label, out, np.ascontiguousarray(belief), counts)
    right = np.trace(counts) / counts.sum()
    meaning = np.full((n_classes, n_classes), (1.0 - right) / max(n_classes - 1, 1))
    np.fill_diagonal(meaning, right)
    meaning += counts / counts.sum(axis=0)
    predicted = np.zeros(np.count_nonzero(out))
    _predict(labels.task, labels.label, out, np.ascontiguousarray(belief), meaning / 2, predicted)
    return np.log(predicted, out=predicted)


@kernel
def _predict(task, label, out, posterior, by_label, predicted) -> None:
    """Add up the chance of each label held out over the truths."""
    place = 0
    for row in range(len(label)):
        if not out[row]:
            continue
        believed, chance = posterior[task[row]], by_label[label[row]]
        for truth in range(len(chance)):
            predicted[place] += believed[truth] * chance[truth]
        place += 1


@kernel
def _add_answers(task, label, out, posterior, by_label) -> None:
    """Add each label that is not held out to the counts of its class, by the probability of each truth."""
    for row in range(len(label)):
        if out[row]:
            continue
        given, believed = by_label[label[row]], posterior[task[row]]
        for truth in range(len(given)):
            given[truth] += believed[truth]

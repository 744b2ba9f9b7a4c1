"""What an honest crowd would get: each worker's penalty against her own null.

A penalty says little by itself: it depends on who labelled the same tasks, and on how many did. So
all labels are redrawn on the same assignment graph, again and again, and the penalty of each worker
is compared with what an honest worker *in her place* gets. Her co-workers answer as they were
estimated to, adversaries among them: these change what everybody's penalty is like.

*The model* is one-coin: a worker is right with a probability of her own, her accuracy, and when
wrong gives any other class alike. An honest crowd draws its accuracies from one Beta distribution,
not each worker her own estimate: an adversary must not make her own null. The distribution is
fitted to the workers who are not far below the middle of the crowd, whom adversaries hardly move.

*The fit.* EM's estimates are biased where labels are few, so the Beta distribution is not read off
them: it is the one whose simulated crowds, put through the same EM, look like the crowd at hand.
Every redraw then uses a distribution that is off by a simulated error of estimation.
"""

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int16
from numba import njit

from quality.codes import freeze_arrays
from quality.labels import CrowdLabels
from quality.reputation import soft_penalty

__all__ = ["HonestNull", "honest_null"]

EM_STEPS = 25
MATCH_STEPS = 4  # of the fit by simulation
N_PILOT = 30  # crowds simulated in each of these
N_ERRORS = 100  # errors of estimation simulated
ERROR_WIDTH = 2.0  # as many times wider: at 1, small crowds lost workers too often
PSEUDO_LABELS = 2.0  # of each worker at the crowd's accuracy, in EM
CUT = 1.5  # workers lower than so many spreads below the median are left out of the fit
LEAST_SD, MOST_SD = 0.01, 0.28  # of the Beta distribution; uniform accuracies have 0.289

Accuracies = tuple[float, float]  # mean and variance


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HonestNull:
    """Result of :func:`honest_null`.

    Parameters
    ----------
    penalty
        The soft penalty of each worker.
    mean, spread
        Mean and standard deviation of what an honest worker in her place gets, her own penalty
        counted in as one more.
    p_value
        How often an honest worker's penalty is as far above her mean, in her spreads; 1 for a
        worker without conflict tasks.
    accuracy_mean, accuracy_sd
        The fitted Beta distribution of honest accuracies.
    """

    penalty: Float64[np.ndarray, " workers"]
    mean: Float64[np.ndarray, " workers"]
    spread: Float64[np.ndarray, " workers"]
    p_value: Float64[np.ndarray, " workers"]
    accuracy_mean: float
    accuracy_sd: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"HonestNull({len(self.penalty)} workers, honest accuracy "
            f"{self.accuracy_mean:.2f} ± {self.accuracy_sd:.2f}, "
            f"smallest p-value {self.p_value.min(initial=1.0):.2g})"
        )


def honest_null(
    labels: CrowdLabels, *, n_redraws: int = 400, rng: np.random.Generator
) -> HonestNull:
    """Compare each worker's soft penalty with what an honest crowd gets on the same assignment.

    Parameters
    ----------
    labels
        The crowd's labels.
    n_redraws
        Honest crowds drawn, at least 2.
    rng
        Source of randomness.

    Returns
    -------
    HonestNull
        A p-value for each worker, and the null it comes from.

    Raises
    ------
    ValueError
        If `n_redraws` is out of its range.

    Notes
    -----
    **Guarantees.** P-values are in (0, 1]. A worker without conflict tasks has 1. The result is
    the same on every run with the same `rng`.

    **Limits.** P-values rest on the model: accuracies with a longer lower tail than any Beta
    distribution, or tasks of very unequal difficulty, look worse than their null. Adversaries in
    number widen the fit, so that fewer of them are found. The upper tail is pooled over workers
    after taking each worker's own mean and spread away.

    **Cost.** About ``n_redraws + 25 * 220`` passes over the labels.

    References
    ----------
    .. [1] Dawid, Skene, "Maximum likelihood estimation of observer error-rates using the EM
       algorithm", Applied Statistics 28 (1979): the model, here with one number per worker.
    .. [2] Gouriéroux, Monfort, Renault, "Indirect inference", Journal of Applied Econometrics 8
       (1993): fitting by matching simulations.

    Examples
    --------
    >>> from quality import encode
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=50)
    >>> wrong = rng.random((20, 50)) < 0.1
    >>> wrong[7] = True
    >>> worker, task = np.divmod(np.arange(1000), 50)
    >>> labels = encode(worker, task, (truth ^ wrong).ravel())
    >>> int(honest_null(labels, rng=rng).p_value.argmin())
    7
    """
    if not n_redraws >= 2:
        raise ValueError(f"n_redraws must be >= 2, got n_redraws={n_redraws}")
    penalty = soft_penalty(labels)
    known = penalty > 0
    p_value = np.ones(labels.n_workers)
    if not known.any():
        nothing = np.zeros(labels.n_workers)
        return HonestNull(penalty, nothing, nothing.copy(), p_value, 1.0, 0.0)
    estimate, prior = _one_coin(labels, labels.label)
    honest, likely = _fit(labels, prior, rng)
    drawn = np.empty((n_redraws, labels.n_workers))
    shape = (labels.n_workers, labels.n_classes)
    for redraw in range(n_redraws):
        truth = _truth(labels, prior, rng)
        mine = _answers(labels, truth, _accuracies(labels, likely[redraw % len(likely)], rng), rng)
        others = _answers(labels, truth, estimate, rng)
        drawn[redraw] = _penalties(labels.task_start, labels.worker, mine, others, *shape)
    # the crowd at hand is one more draw under the null: left out, it would be the only one whose
    # extremes do not widen its own yardstick
    every = np.vstack([drawn, penalty])
    mean, spread = every.mean(axis=0), every.std(axis=0)
    known &= spread > 0
    null = np.sort(((drawn - mean)[:, known] / spread[known]).ravel())
    height = (penalty - mean)[known] / spread[known]
    # the hair's breadth keeps equal penalties equal after rounding
    n_as_high = len(null) - np.searchsorted(null, height - 1e-9)
    p_value[known] = (1 + n_as_high) / (1 + len(null))
    return HonestNull(penalty, mean, spread, p_value, honest[0], float(np.sqrt(honest[1])))


def _fit(
    labels: CrowdLabels, prior: Float64[np.ndarray, " classes"], rng: np.random.Generator
) -> tuple[Accuracies, list[Accuracies]]:
    """The distribution of honest accuracies, and as likely ones: it, less errors of estimation."""
    wanted = _summary(labels, labels.label)
    honest = _possible(wanted[0], wanted[1] / 2, labels.n_classes)

    def simulated(n_crowds: int) -> Float64[np.ndarray, "crowds 2"]:
        crowds = (_redraw(labels, honest, prior, rng) for _ in range(n_crowds))
        return np.array([_summary(labels, label) for label in crowds])

    for step in range(MATCH_STEPS):
        gap = (wanted - simulated(N_PILOT).mean(axis=0)) / (1 + step // 2)
        honest = _possible(honest[0] + gap[0], honest[1] + gap[1], labels.n_classes)
    found = simulated(N_ERRORS)
    centre, variance = found.mean(axis=0)
    # an error of a variance is a factor: large ones are more uncertain
    factor = np.exp(ERROR_WIDTH * (np.log(found[:, 1]).mean() - np.log(found[:, 1])))
    likely = [
        _possible(honest[0] + error, honest[1] + variance * (f - 1), labels.n_classes)
        for error, f in zip(ERROR_WIDTH * (centre - found[:, 0]), factor, strict=True)
    ]
    return honest, likely


def _possible(mean: float, variance: float, n_classes: int) -> Accuracies:
    """The nearest mean and variance of a Beta distribution of workers better than chance."""
    mean = min(max(mean, 1 / n_classes), 0.995)
    return float(mean), float(min(max(variance, LEAST_SD**2), MOST_SD**2, 0.9 * mean * (1 - mean)))


def _summary(labels: CrowdLabels, label: Int16[np.ndarray, " labels"]) -> Float64[np.ndarray, " 2"]:
    """Median of EM's accuracies, and mean square distance from it, of workers not far below."""
    n_labels = np.diff(labels.worker_start)
    asked = n_labels > 0
    accuracy = _one_coin(labels, label)[0][asked]
    weight = n_labels[asked] / (n_labels[asked] + 10.0)  # few labels, little to be seen
    order = np.argsort(accuracy, kind="stable")
    total = np.cumsum(weight[order])
    centre = accuracy[order][np.searchsorted(total, total[-1] / 2)]
    square = (accuracy - centre) ** 2
    tiny = 1e-6  # a crowd of one, or all alike
    above = np.sum((weight * square)[accuracy > centre]) / (weight[accuracy > centre].sum() + tiny)
    near = accuracy >= centre - CUT * np.sqrt(above)
    return np.array([centre, np.average(square[near], weights=weight[near]) + tiny])


def _redraw(
    labels: CrowdLabels, accuracies: Accuracies, prior: np.ndarray, rng: np.random.Generator
) -> Int16[np.ndarray, " labels"]:
    """Labels of an honest crowd on the same assignment graph."""
    truth = _truth(labels, prior, rng)
    return _answers(labels, truth, _accuracies(labels, accuracies, rng), rng)


def _truth(labels: CrowdLabels, prior: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    above = rng.random(labels.n_tasks)[:, np.newaxis] > np.cumsum(prior)[:-1]
    truth: np.ndarray = above.sum(axis=1)
    return truth


def _accuracies(
    labels: CrowdLabels, accuracies: Accuracies, rng: np.random.Generator
) -> np.ndarray:
    mean, variance = accuracies
    size = mean * (1 - mean) / variance - 1
    return rng.beta(mean * size, (1 - mean) * size, size=labels.n_workers)


def _answers(
    labels: CrowdLabels, truth: np.ndarray, accuracy: np.ndarray, rng: np.random.Generator
) -> Int16[np.ndarray, " labels"]:
    """Right with the worker's accuracy, else any other class."""
    true_label = truth[labels.task]
    wrong = true_label + rng.integers(1, labels.n_classes, size=labels.n_labels)
    right = rng.random(labels.n_labels) < accuracy[labels.worker]
    label: np.ndarray = np.where(right, true_label, wrong % labels.n_classes).astype(np.int16)
    return label


def _one_coin(
    labels: CrowdLabels, label: Int16[np.ndarray, " labels"]
) -> tuple[Float64[np.ndarray, " workers"], Float64[np.ndarray, " classes"]]:
    """Each worker's accuracy and the prior, by EM from the shares of labels."""
    log_odds, log_prior = np.ones(labels.n_workers), np.zeros(labels.n_classes)
    n_labels, rows = np.diff(labels.worker_start), (labels.task_start, labels.worker, label)
    for step in range(EM_STEPS):
        right, share = _expect(*rows, log_odds, log_prior, step == 0)
        crowd = PSEUDO_LABELS * right.sum() / max(n_labels.sum(), 1)
        accuracy = np.clip((right + crowd) / (n_labels + PSEUDO_LABELS), 1e-6, 1 - 1e-6)
        log_odds = np.log(accuracy / (1 - accuracy) * (labels.n_classes - 1))
        log_prior = np.log((share + 1) / (share.sum() + labels.n_classes))
    return accuracy, np.exp(log_prior)


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _expect(task_start, worker, label, log_odds, log_prior, shares_only):
    """E-step: expected right labels of each worker, and expected tasks of each class."""
    n_classes = len(log_prior)
    right, share, belief = np.zeros(len(log_odds)), np.zeros(n_classes), np.empty(n_classes)
    for task in range(len(task_start) - 1):
        first, end = task_start[task], task_start[task + 1]
        if first == end:
            continue
        belief[:] = log_prior
        for row in range(first, end):
            belief[label[row]] += log_odds[worker[row]]
        if not shares_only:
            belief[:] = np.exp(belief - belief.max())
        belief /= belief.sum()
        share += belief
        for row in range(first, end):
            right[worker[row]] += belief[label[row]]
    return right, share


@no_type_check  # numba compiles it, so the shape checks of the tests must not wrap it
@njit(cache=True, nogil=True)
def _penalties(task_start, worker, mine, others, n_workers, n_classes):
    """The soft penalty of each worker for her labels `mine` among the `others`' of the rest."""
    total, n_conflict = np.zeros(n_workers), np.zeros(n_workers)
    count = np.zeros(n_classes)
    for task in range(len(task_start) - 1):
        first, end = task_start[task], task_start[task + 1]
        count[:] = 0.0
        for row in range(first, end):
            count[others[row]] += 1.0
        for row in range(first, end):
            count[others[row]] -= 1.0
            count[mine[row]] += 1.0
            if count[mine[row]] < end - first:
                total[worker[row]] += 1.0 / count[mine[row]]
                n_conflict[worker[row]] += 1.0
            count[mine[row]] -= 1.0
            count[others[row]] += 1.0
    return np.where(n_conflict > 0, total / np.maximum(n_conflict, 1.0), 0.0)

"""The probability that a consensus label is right, from labels alone or from gold.

>>> from quality import dawid_skene, encode
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxxyyx"))
>>> posterior = dawid_skene(labels).posterior
>>> posterior.max(axis=1).round(2), calibrate(labels, posterior).confidence.round(2)
(array([1., 1.]), array([0.93, 0.83]))

A logistic regression predicts whether a label is right from three numbers: the logarithm of the model's
odds, the votes, and how far errors are shared in this crowd. Without gold its coefficients are those of
many crowds whose truth is known (:data:`PRIOR`), and its weight is how far votes are more alike than by
chance (:func:`~quality.agreement.beyond_chance`). Gold updates the coefficients, and confidence is then
given in no more levels than so much gold can check.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, overload

import numpy as np
from jaxtyping import Float, Float64, Int, Int16
from scipy.special import expit

from quality.agreement import beyond_chance
from quality.argument_types import check_arguments
from quality.confidence.gold_check import (
    Reliability,
    natural_levels,
    nearest_level,
    reliability,
)
from quality.confidence.support import Support, task_support
from quality.labels import CrowdLabels, NamedPosterior, check_gold, freeze_arrays

__all__ = [
    "MIN_GOLD", "PRIOR", "CalibratedConfidence", "RightnessPrior", "calibrate", "calibrate_support",
    "design", "most_likely",
]  # fmt: skip

MIN_GOLD = 20  # gold tasks with labels, at least, for a fit to gold
N_FOLDS = 5
NEWTON_STEPS = 50
LEAST = 1e-9
FIXED = 1e-3  # standard deviation of a coefficient about which one crowd's gold has no evidence
MAX_SURE = 0.97  # of the model's own confidence in the mixture: one error must not rule it out
AT_ONCE = 2**20  # tasks in one pass of the loop
EVERY = slice(None)
CAUTION = 0.5  # power of the predictive likelihoods that weigh the candidates


@dataclass(frozen=True, slots=True)
class RightnessPrior:
    """Coefficients of the log-odds that a label is right, in crowds that know something.

    The spreads are how far such crowds differ in them.

    Parameters
    ----------
    intercept, odds, votes, shared
        Means: of the constant, of sign(odds) log(1 + |odds|), of `votes` and of `shared` of
        :class:`~quality.confidence.Support`.
    spread
        Standard deviations of the first three; that of `shared` is 0, since it is one number a crowd.
    class_spread
        Standard deviation of a constant for each class.
    """

    intercept: float
    odds: float
    votes: float
    shared: float
    spread: tuple[float, float, float] = (1.0, 0.5, 0.5)
    class_spread: float = 1.0

    def __post_init__(self) -> None:
        numbers = *self.mean, *self.spread, self.class_spread
        if not (np.isfinite(numbers).all() and min(*self.spread, self.class_spread) > 0):
            raise ValueError(f"means must be finite and spreads > 0 and finite, got {self}")

    @property
    def mean(self) -> Float64[np.ndarray, " 4"]:
        """The four means, in this order."""
        return np.array([self.intercept, self.odds, self.votes, self.shared])


# fitted to four aggregators on 21 public sets of equal weight: benchmarks/quality/calibration.py
PRIOR = RightnessPrior(intercept=0.97, odds=0.32, votes=0.95, shared=-3.51)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CalibratedConfidence:
    """Result of :func:`calibrate`; one entry per task code.

    Parameters
    ----------
    label
        The consensus: the likeliest class of the posterior, the lowest code among equals.
    confidence
        Probability that it is right.
    model
        The label's probability in the posterior: the model's own confidence.
    evidence
        "gold" if the fit used gold tasks, "labels" if there were fewer than 20.
    n_gold
        Gold tasks in the fit.
    weights
        Shares in the result of the confidence by labels alone, of the model's own, of the regression fitted
        to gold, and of that regression with a constant for each class.
    shared
        How far errors are shared in this crowd: see :class:`~quality.confidence.Support`.
    beyond_chance
        Weight of the regression in the confidence by labels alone, in [0, 1]; a guess has the rest. It is
        1 if the fit used gold.
    levels
        Values that the confidence of a task without gold can take, ascending; none if the fit used no gold,
        or no levels were asked for.
    before, after
        Reliability on the gold tasks of `model` and of `confidence`, with at least 20 of them.
    """

    label: Int16[np.ndarray, " tasks"]
    confidence: Float64[np.ndarray, " tasks"]
    model: Float64[np.ndarray, " tasks"]
    evidence: Literal["gold", "labels"]
    n_gold: int
    weights: tuple[float, float, float, float]
    shared: float
    beyond_chance: float
    levels: Float64[np.ndarray, " levels"]
    before: Reliability | None
    after: Reliability | None

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        by = f"{self.n_gold} gold tasks" if self.evidence == "gold" else "labels alone"
        mean, model = (
            values.mean() if len(values) else np.nan for values in (self.confidence, self.model)
        )
        return (
            f"CalibratedConfidence({len(self.label)} tasks, mean {mean:.3f}, the model's {model:.3f}, "
            f"by {by})"
        )

    @property
    def hardly_known(self) -> bool:
        """Whether a guess has more than half of the weight: votes are hardly more alike than by chance."""
        return self.beyond_chance < 0.5

    @overload
    def believed(
        self, posterior: Float[np.ndarray, "tasks classes"]
    ) -> Float64[np.ndarray, "tasks classes"]: ...

    @overload
    def believed(self, posterior: NamedPosterior) -> NamedPosterior: ...

    def believed(
        self, posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior
    ) -> Float64[np.ndarray, "tasks classes"] | NamedPosterior:
        """Return the posterior with `confidence` in the label; the other classes keep their ratios."""
        if isinstance(posterior, NamedPosterior):
            return posterior.believed(self.label, self.confidence)
        whole = np.array(posterior, dtype=np.float64)
        for first in range(0, len(whole), AT_ONCE):
            rows = slice(first, first + AT_ONCE)
            _believe(whole[rows], self.label[rows], self.confidence[rows])
        return whole

    def in_label(
        self,
        posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior,
        label: Int[np.ndarray, " tasks"],
    ) -> Float64[np.ndarray, " tasks"]:
        """Return the probability that these labels are right, which need not be the likeliest classes."""
        if np.array_equal(label, self.label):
            return self.confidence
        own = self.believed(posterior)[np.arange(len(label)), label]
        return np.where(label == self.label, self.confidence, own)


def _believe(
    posterior: Float64[np.ndarray, "tasks classes"],
    label: Int16[np.ndarray, " tasks"],
    confidence: Float64[np.ndarray, " tasks"],
) -> None:
    """Write the confidence to the label's class, in place; the other classes keep their ratios."""
    place = label[:, np.newaxis].astype(np.int64)
    np.put_along_axis(posterior, place, 0.0, axis=1)
    total = posterior.sum(axis=1, keepdims=True)
    none = np.flatnonzero(~(total[:, 0] > 0))
    posterior[none], total[none] = 1.0, max(posterior.shape[1] - 1, 1)  # equal ratios
    posterior[none, place[none, 0]] = 0.0
    posterior /= total
    posterior *= 1.0 - confidence[:, np.newaxis]
    np.put_along_axis(posterior, place, confidence[:, np.newaxis], axis=1)
    posterior /= posterior.sum(axis=1, keepdims=True)  # 1 but for rounding


@check_arguments
def calibrate(
    labels: CrowdLabels,
    posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior,
    *,
    gold: Int[np.ndarray, " tasks"] | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    voice_votes: Float[np.ndarray, "tasks classes"] | None = None,
    prior: RightnessPrior = PRIOR,
    in_levels: bool = True,
) -> CalibratedConfidence:
    """Find how far each consensus label can be believed; the posterior stays as it is.

    By labels alone the regression has the coefficients of `prior`. It is mixed with a guess, which is right
    as often as votes are for the label's class, and weighs more as votes agree less beyond chance. With at
    least 20 gold tasks four candidates are mixed: this confidence, the model's own, the regression fitted to
    gold, and that with a constant for each class. They weigh by how well each predicts gold tasks left out.
    The mixture is given in levels. Gold tasks are divided by their value of it into as many parts as the
    cube root of their number, and each task has the mean of the nearest part.

    Parameters
    ----------
    labels
        The labels from which the consensus was made.
    posterior
        P(truth | labels) of each task, from any aggregator that has not seen the gold.
    gold
        The class code of each task whose truth is known, -1 elsewhere.
    groups
        As for :func:`~quality.dawid_skene`: a group has one vote a task.
    voice_votes
        As for :func:`task_support`.
    prior
        Coefficients before gold.
    in_levels
        Whether confidence fitted to gold is given in levels; else it differs from task to task.

    Raises
    ------
    ValueError
        If gold is not one code per task, or for what :func:`task_support` refuses.

    Notes
    -----
    **Guarantees.** The confidence of a gold task does not depend on its own truth: it comes from the fit
    to other gold tasks. With a bin for each confidence, levels do not raise the calibration error of the
    tasks that they are made from, since errors within a level can only cancel; with bins of equal width
    they may. A task without labels, and every task of a table of one class, keeps the model's confidence.
    The label is the posterior's. The same bytes on every run. Without gold, a crowd whose votes are no more
    alike than by chance has the confidence of a guess: the share of votes for the class.

    **Limits.** Gold must be drawn from the tasks at random: gold that was chosen for being hard or easy
    biases every confidence. Without gold a crowd that knows something is taken for one like the public
    crowds of the prior. So workers whose errors are independent, which is rare, are believed too little,
    and guessers are taken to guess each class as often as it is true. Workers who know are found on tasks of
    even codes for those of odd codes, and conversely: where votes are hardly alike, other names of the
    tasks move the mean confidence by up to .1. Labels do not show that a whole crowd errs alike; nor do
    labels held out, which common errors predict as well as truth does. Gold cannot separate tasks of one
    confidence: this corrects probabilities, not the consensus. Tasks of one level have no order: rank them
    by the model, or by both (:func:`~quality.next_labels`).

    **Cost.** Two passes over the labels; with gold 72 regressions, each linear in the gold tasks.

    References
    ----------
    .. [1] Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
       likelihood methods", 1999.
    .. [2] Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017.
    .. [3] Kumar, Liang and Ma, "Verified uncertainty calibration", NeurIPS 2019.

    Examples
    --------
    >>> from quality import dawid_skene, encode, regular_assignment, simulate_crowd
    >>> rng = np.random.default_rng(0)
    >>> assignment = regular_assignment(n_tasks=900, n_workers=30, labels_per_task=5, rng=rng)
    >>> truth = rng.integers(2, size=900)
    >>> crowd = simulate_crowd(assignment, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
    >>> labels = encode(crowd.worker, crowd.task, crowd.label)
    >>> gold = np.where(np.arange(900) < 100, truth, -1)
    >>> found = calibrate(labels, dawid_skene(labels).posterior, gold=gold)
    >>> found.before
    Reliability(0.895 confident, 0.690 right on 100, calibration error 0.333, 0.056 if calibrated)
    >>> found
    CalibratedConfidence(900 tasks, mean 0.690, the model's 0.895, by 100 gold tasks)
    >>> round(float(np.mean(found.label == truth)), 3)
    0.721
    """
    support = task_support(labels, posterior, groups=groups, voice_votes=voice_votes)
    return calibrate_support(support, gold, prior=prior, in_levels=in_levels)


@check_arguments
def calibrate_support(
    support: Support,
    gold: Int[np.ndarray, " tasks"] | None = None,
    *,
    prior: RightnessPrior = PRIOR,
    in_levels: bool = True,
) -> CalibratedConfidence:
    """Do what :func:`calibrate` does, from the evidence for each label.

    For tables in shards the evidence comes from :func:`~quality.support_by_shards`.
    """
    n_tasks = len(support.label)
    truth = check_gold(gold, n_tasks, support.n_classes)
    judged = (support.n_votes > 0) & (support.n_classes > 1)
    known = np.flatnonzero(judged & (truth >= 0))
    weight = beyond_chance(support.reliability)
    confidence = support.model.copy()
    by_chance = np.zeros(n_tasks) if weight == 1.0 else (1.0 - weight) * support.guess
    for first in range(0, n_tasks, AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        alone = weight * expit(design(support, rows) @ prior.mean) + by_chance[rows]
        np.copyto(confidence[rows], alone, where=judged[rows])
    found = CalibratedConfidence(
        label=support.label,
        confidence=confidence,
        model=support.model,
        evidence="labels",
        n_gold=0,
        weights=(1.0, 0.0, 0.0, 0.0),
        shared=support.shared,
        beyond_chance=weight,
        levels=np.zeros(0),
        before=None,
        after=None,
    )
    if len(known) < MIN_GOLD:
        return found
    right = support.label[known] == truth[known]
    fitted, weights, levels = _fitted(
        found, design(support), known, right.astype(np.float64), prior, in_levels
    )
    confidence = np.where(judged, fitted, support.model)
    # one seed for every table: the intervals of a report must not change from run to run
    before, after = (
        reliability(values[known], right, rng=np.random.default_rng(0))
        for values in (support.model, confidence)
    )
    return replace(
        found, confidence=confidence, evidence="gold", n_gold=len(known), weights=weights,
        beyond_chance=1.0, levels=levels, before=before, after=after,
    )  # fmt: skip


def design(support: Support, rows: slice = EVERY) -> Float64[np.ndarray, "rows 4"]:
    """Return the columns of the regression, in the order of :attr:`RightnessPrior.mean`."""
    odds = np.sign(support.odds[rows]) * np.log1p(np.abs(support.odds[rows]))
    constant = np.ones(len(odds))
    return np.stack([constant, odds, support.votes[rows], support.shared * constant], axis=1)


class Rows(NamedTuple):
    """Rows of the regression, with each task's confidence by labels alone, the model's own, and its class."""

    alone: np.ndarray
    own: np.ndarray
    columns: np.ndarray
    label: np.ndarray

    def of(self, tasks: np.ndarray) -> "Rows":
        """Return some of the rows."""
        return Rows(*(values[tasks] for values in self))


def _fitted(
    found: CalibratedConfidence,
    columns: np.ndarray,
    known: np.ndarray,
    right: np.ndarray,
    prior: RightnessPrior,
    in_levels: bool,
) -> tuple[
    Float64[np.ndarray, " tasks"], tuple[float, float, float, float], Float64[np.ndarray, " levels"]
]:
    """Return the confidence of each task (a gold task's from other gold), candidates' weights, and levels."""
    own = np.minimum(found.model, MAX_SURE)
    rows = Rows(found.confidence, own, columns, found.label.astype(np.int64))
    gold = rows.of(known)
    confidence, weights = _mixture(gold, right, rows, prior)
    levels = _levels(confidence[known]) if in_levels else np.zeros(0)
    confidence = nearest_level(confidence, levels)
    for train, out in _parts(gold, prior):
        by_others, _ = _mixture(gold.of(train), right[train], gold, prior)
        of_others = _levels(by_others[train]) if in_levels else levels
        confidence[known[out]] = nearest_level(by_others[out], of_others)
    alone, model, plain, by_class = weights.tolist()
    return confidence, (alone, model, plain, by_class), levels


def _levels(confidence: Float64[np.ndarray, " gold"]) -> Float64[np.ndarray, " levels"]:
    """Return as many levels as the cube root of the number of gold tasks, as a histogram has bins."""
    return natural_levels(confidence, round(float(np.cbrt(len(confidence)))))


def _mixture(
    train: Rows, right: np.ndarray, asked: Rows, prior: RightnessPrior
) -> tuple[Float64[np.ndarray, " asked"], Float64[np.ndarray, " 4"]]:
    """Return the confidence of the rows asked, and the weights of the candidates in it.

    Weights are in proportion to a power of the likelihood of rows left out of a candidate's fit. That of the
    first is also multiplied by `MIN_GOLD` over the gold tasks: it counts less, the more gold there is.
    """
    left_out = np.empty((4, len(right)))
    for part, out in _parts(train, prior):
        left_out[:, out] = _candidates(train.of(part), right[part], train.of(out), prior)
    log_p = (right * np.log(left_out) + (1.0 - right) * np.log1p(-left_out)).sum(axis=1)
    weights = np.exp(CAUTION * (log_p - log_p.max()))
    weights[0] *= MIN_GOLD / len(right)
    weights /= weights.sum()
    return weights @ _candidates(train, right, asked, prior), weights


def _parts(rows: Rows, prior: RightnessPrior) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield row numbers to fit to and to leave out: every fold has rows of all confidences."""
    fold = np.empty(len(rows.label), dtype=np.int64)
    fold[np.argsort(rows.columns @ prior.mean, kind="stable")] = np.arange(len(fold)) % N_FOLDS
    for number in range(N_FOLDS):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _candidates(
    train: Rows, right: np.ndarray, asked: Rows, prior: RightnessPrior
) -> Float64[np.ndarray, "4 asked"]:
    """Return the confidence of the rows asked: by labels alone, the model's, and the two regressions'."""
    seen, code = np.unique(train.label, return_inverse=True)  # other classes have constant 0
    spread = np.array([*prior.spread, FIXED])
    plain = most_likely(train.columns, right, prior.mean, spread)
    by_class = most_likely(
        train.columns, right, prior.mean, spread, code=code, class_spread=prior.class_spread
    )
    constant = np.zeros(int(max(seen[-1], asked.label.max(initial=0))) + 1)
    constant[seen] = by_class[4:]
    each = asked.columns @ by_class[:4] + constant[asked.label]
    found = np.stack([asked.alone, asked.own, expit(asked.columns @ plain), expit(each)])
    finite: np.ndarray = np.clip(found, LEAST, 1.0 - LEAST)  # their logarithms must be finite
    return finite


def most_likely(
    columns: Float64[np.ndarray, "rows knobs"],
    right: Float64[np.ndarray, " rows"],
    mean: Float64[np.ndarray, " knobs"],
    spread: Float64[np.ndarray, " knobs"],
    *,
    code: Int[np.ndarray, " rows"] | None = None,
    class_spread: float = 1.0,
) -> Float64[np.ndarray, " coefficients"]:
    """Return the maximum-posterior coefficients under a Gaussian prior, by damped Newton steps.

    With the `code` of each row's class there is also a constant for each code, with prior mean 0, after the
    coefficients of the columns. A row has one class, so that a step is linear in the number of classes.
    """
    n_knobs, n_classes = len(mean), 0 if code is None else int(code.max(initial=-1)) + 1
    precision = np.concatenate([1.0 / spread**2, np.full(n_classes, class_spread**-2)])
    centre = np.concatenate([mean, np.zeros(n_classes)])

    def log_odds_at(at: np.ndarray) -> np.ndarray:
        log_odds: np.ndarray = columns @ at[:n_knobs]
        return log_odds if code is None else log_odds + at[n_knobs:][code]

    def loss(at: np.ndarray) -> float:
        log_odds = log_odds_at(at)
        fit = np.logaddexp(0.0, log_odds).sum() - right @ log_odds
        return float(fit + 0.5 * (precision * (at - centre) ** 2).sum())

    best = centre.copy()
    for _ in range(NEWTON_STEPS):
        p = expit(log_odds_at(best))
        step = _newton_step(columns, code, right - p, p * (1.0 - p), precision, best - centre)
        before = loss(best)
        while loss(best + step) > before and np.abs(step).max() > 1e-9:
            step /= 2
        best = best + step
        if np.abs(step).max() < 1e-9:
            break
    return best


def _newton_step(
    columns: Float64[np.ndarray, "rows knobs"],
    code: Int[np.ndarray, " rows"] | None,
    missed: Float64[np.ndarray, " rows"],
    curve: Float64[np.ndarray, " rows"],
    precision: Float64[np.ndarray, " coefficients"],
    off: Float64[np.ndarray, " coefficients"],
) -> Float64[np.ndarray, " coefficients"]:
    """Return Newton's step; the constants of classes are eliminated (Schur complement)."""
    n_knobs, n_classes = columns.shape[1], len(off) - columns.shape[1]
    gradient = columns.T @ missed - precision[:n_knobs] * off[:n_knobs]
    curvature = (columns * curve[:, np.newaxis]).T @ columns + np.diag(precision[:n_knobs])
    if code is None:
        alone: np.ndarray = np.linalg.solve(curvature, gradient)
        return alone
    own = np.bincount(code, curve, n_classes) + precision[n_knobs:]
    slope = np.bincount(code, missed, n_classes) - precision[n_knobs:] * off[n_knobs:]
    both = np.stack([np.bincount(code, curve * one, n_classes) for one in columns.T])
    first = np.linalg.solve(curvature - both / own @ both.T, gradient - both / own @ slope)
    return np.concatenate([first, (slope - first @ both) / own])

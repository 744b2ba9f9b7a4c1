"""The soft penalty that an honest worker would get with a given worker's tasks.

:func:`fit_honest` fits how reliable a crowd's honest workers are; :func:`honest_null` turns that
into p-values and :func:`honest_level` into a level for :func:`quality.filter_dishonest`.

**The null.** One worker's labels are drawn anew, and everybody else's stay as they are. The truth of a task
comes from the others' labels, her reliability from the honest population
(:mod:`quality.reputation.honest_population`), and wrong labels are spread evenly. Her penalty is then a
ratio of sums of independent terms, whose tail :mod:`quality.reputation.penalty_tails` computes.
Adversaries among the others are in the null as they are in the data, so that they do not make an honest
worker look bad.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from quality.labels import CrowdLabels, NearTable, bring_near, freeze_arrays
from quality.parallel import Progress, counter, kernel
from quality.reputation.graded_answers import fit_graded, graded_penalty
from quality.reputation.honest_population import (
    AT_ONCE,
    N_GRID,
    RELIABILITY,
    Candidates,
    HonestPopulation,
    evidence_work,
    fit_population,
    held_over_largest,
    looked_at,
    step_up_ratio,
    take_powers,
    write_evidence,
)
from quality.reputation.other_answers import (
    Asked,
    GradedAnswers,
    OtherAnswers,
    TaskAnswers,
    answer_terms,
    ask_others,
    ask_right,
    spread_over,
)
from quality.reputation.penalties import soft_penalty
from quality.reputation.penalty_tails import PenaltyTails, honest_p_values

__all__ = [
    "N_MORE_STEPS",
    "N_STEPS",
    "HonestFit",
    "HonestNull",
    "expected_reliability",
    "fit_honest",
    "honest_level",
    "honest_null",
    "level_of_drawn",
]

N_STEPS = 8  # from workers to truth and back
N_MORE_STEPS = 3  # likewise, from a fit to nearly the same labels


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HonestFit:
    """Result of :func:`fit_honest`.

    Parameters
    ----------
    population
        The honest population.
    near
        The labels, renumbered if that saves time.
    others
        P(truth | the others' labels) at each label of the renumbered table.
    reliability
        Expected reliability of each worker, the crowd's mean for a worker without labels; 0.75 for all if
        there are fewer than two classes.
    prior
        Share of each class.
    """

    population: HonestPopulation
    near: NearTable
    others: OtherAnswers | GradedAnswers
    reliability: Float64[np.ndarray, " workers"]
    prior: Float64[np.ndarray, " classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return f"HonestFit({self.population!r})"


def fit_honest(labels: CrowdLabels, *, before: HonestFit | None = None) -> HonestFit:
    """Fit the honest population to labels; also P(truth | the others' labels) at each label.

    Each turn computes the truth of a task from the others' labels, then the likelihood of each worker's
    reliability, the population, and each worker's expected reliability, which weighs her labels in the
    next turn. A worker's own labels never count for herself. From `before`, a fit to nearly the same
    labels, fewer turns are enough.

    Examples
    --------
    >>> from quality import encode
    >>> rng = np.random.default_rng(0)
    >>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    >>> wrong[:4] = True
    >>> worker, task = np.divmod(np.arange(1200), 60)
    >>> fit_honest(encode(worker, task, (truth ^ wrong).ravel()))
    HonestFit(HonestPopulation(reliability 0.80 ± 0.04, 20 % adversaries))
    """
    near, n_classes, whole = bring_near(labels), labels.n_classes, labels
    labels = near.labels
    answers, candidates = TaskAnswers.of(labels), Candidates.of(max(n_classes, 2))
    # in the order of the table's own codes, so that the same workers are looked at
    code = near.by_worker(np.arange(labels.n_workers))
    asked = code[np.diff(whole.worker_start) > 0]
    reliability = np.full(labels.n_workers, 0.75)
    prior = np.full(n_classes, 1 / max(n_classes, 1))
    if n_classes < 2:
        others, _ = ask_others(labels, answers, np.zeros(labels.n_workers), prior)
        population, _ = fit_population(np.empty((0, N_GRID)), asked[:0], candidates)
        return HonestFit(population, near, others, reliability, prior)
    if before is not None:
        # copies: read-only arrays would compile one more signature
        reliability, prior = near.worker_given(before.reliability).copy(), before.prior.copy()
    grid, right = _Grid.of(labels, asked), np.empty(labels.n_labels)
    work = evidence_work()
    seen = right.view()
    seen.flags.writeable = False  # with one kind of array, each kernel is compiled once
    for left in reversed(range(N_STEPS if before is None else N_MORE_STEPS)):
        log_odds = np.log(reliability * (n_classes - 1) / (1 - reliability))
        if left:
            mass = ask_right(labels, answers, log_odds, prior, right)
        else:
            others, mass = ask_others(labels, answers, log_odds, prior)
            seen = others.right
        prior = (mass + 1) / (mass.sum() + n_classes)
        rows = labels.worker_order, labels.worker_start, seen, n_classes
        write_evidence(grid.worker, *rows, RELIABILITY, grid.evidence, *work)
        population, crowd = fit_population(grid.evidence, grid.order, candidates)
        reliability[grid.worker] = (grid.evidence @ (crowd * RELIABILITY)) / (grid.evidence @ crowd)
        _write_expected(grid.rest, *rows, _moments(crowd), work[0], reliability)
    return HonestFit(population, near, others, near.by_worker(reliability), prior)


FEW = 8  # labels, at most, for a likelihood kept as a polynomial, shorter than a row of the grid


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The workers whose likelihood is written on the grid: all, if the population is fitted to all.

    In a larger crowd they are those of the fit, and those with more than `FEW` labels. Of the rest only
    the expected reliability is needed.
    """

    worker: Int64[np.ndarray, " chosen"]
    rest: Int64[np.ndarray, " rest"]
    order: Int64[np.ndarray, " order"]
    evidence: Float64[np.ndarray, "chosen grid"]

    @classmethod
    def of(cls, labels: CrowdLabels, asked: Int64[np.ndarray, " asked"]) -> "_Grid":
        """Choose the workers; `order` is that of the population's fit, by place among those chosen."""
        order, n_labels = looked_at(asked), np.diff(labels.worker_start)
        chosen = (n_labels > FEW) | (len(order) == len(asked))
        chosen[order] = True
        worker, place = np.flatnonzero(chosen), np.cumsum(chosen) - 1
        evidence = np.empty((len(worker), N_GRID))  # once: fresh memory costs time
        return cls(worker, np.flatnonzero(~chosen), place[order], evidence)


def _moments(crowd: Float64[np.ndarray, " grid"]) -> Float64[np.ndarray, "numbers powers"]:
    """Return the crowd's mean of r**j (1 - r)**(n - j), by n and j, for n up to `FEW` + 1."""
    n, j = np.indices((FEW + 2, FEW + 2))
    wrong = np.maximum(n - j, 0)[..., np.newaxis]
    right = j[..., np.newaxis]
    moments: np.ndarray = (RELIABILITY**right * (1 - RELIABILITY) ** wrong) @ crowd
    return moments


def expected_reliability(
    worker_order: Int64[np.ndarray, " labels"],
    worker_start: Int64[np.ndarray, " starts"],
    right: Float64[np.ndarray, " labels"],
    n_classes: int,
    crowd: Float64[np.ndarray, " grid"],
) -> Float64[np.ndarray, " workers"]:
    """Return the expected reliability of workers, from all of their labels and the crowd's distribution.

    It is the crowd's mean for a worker without labels.
    """
    n_labels = np.diff(worker_start)
    reliability = np.empty(len(n_labels))
    few, many = np.flatnonzero(n_labels <= FEW), np.flatnonzero(n_labels > FEW)
    evidence, work = np.empty((len(many), N_GRID)), evidence_work()
    rows = worker_order, worker_start, right, n_classes
    write_evidence(many, *rows, RELIABILITY, evidence, *work)
    reliability[many] = (evidence @ (crowd * RELIABILITY)) / (evidence @ crowd)
    _write_expected(few, *rows, _moments(crowd), work[0], reliability)
    return reliability


@kernel
def _write_expected(
    chosen, worker_order, worker_start, right, n_classes, moments, product, reliability
) -> None:
    """Write the expected reliability of workers with at most `FEW` labels.

    A label has the chance ``x r + y (1 - r)``; the product is kept as coefficients of
    ``r**j (1 - r)**(n - j)``, none of which is negative. `product` is working memory.
    """
    each_wrong = 1 / (n_classes - 1)
    for worker in chosen:
        begin, end = worker_start[worker], worker_start[worker + 1]
        product[0] = 1.0
        for at in range(begin, end):
            x = right[worker_order[at]]
            y, n = (1 - x) * each_wrong, at - begin
            product[n + 1] = product[n] * x
            for power in range(n, 0, -1):
                product[power] = product[power] * y + product[power - 1] * x
            product[0] *= y
        n = end - begin
        hers = total = 0.0
        for power in range(n + 1):
            hers += product[power] * moments[n + 1, power + 1]
            total += product[power] * moments[n, power]
        reliability[worker] = hers / total


MAX_DRAWN = 500  # workers of a simulated crowd
MAX_LABELS = 128  # of each of them
BATCH = 200  # crowds drawn at once


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HonestNull:
    """Result of :func:`honest_null`.

    Parameters
    ----------
    penalty
        The soft penalty of each worker.
    p_value
        Chance that an honest worker with her tasks gets as much or more; 1 for a worker without
        conflict tasks.
    judged
        True for each worker who is judged.
    fit
        The fit to the labels.
    """

    penalty: Float64[np.ndarray, " workers"]
    p_value: Float64[np.ndarray, " workers"]
    judged: Bool[np.ndarray, " workers"]
    fit: HonestFit

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"HonestNull({len(self.penalty)} workers, smallest p-value "
            f"{self.p_value.min(initial=1.0):.2g})"
        )

    @property
    def population(self) -> HonestPopulation:
        """The honest population fitted."""
        return self.fit.population


def honest_null(
    labels: CrowdLabels,
    judged: Bool[np.ndarray, " workers"],
    *,
    before: HonestFit | None = None,
    ordered: bool = False,
) -> HonestNull:
    """Judge soft penalties by those of an honest worker with the same tasks.

    Parameters
    ----------
    labels
        The crowd's labels.
    judged
        True for the workers whose p-values are needed; a worker without a penalty is not judged.
    before
        As for :func:`fit_honest`.
    ordered
        Judge :func:`~quality.reputation.graded_penalty` instead, by honest workers whose wrong grades
        fall off with distance; of three classes or more.

    Examples
    --------
    >>> from quality import encode
    >>> rng = np.random.default_rng(0)
    >>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    >>> wrong[7] = True
    >>> worker, task = np.divmod(np.arange(1200), 60)
    >>> labels = encode(worker, task, (truth ^ wrong).ravel())
    >>> null = honest_null(labels, np.full(20, True))
    >>> int(null.p_value.argmin())
    7
    """
    if ordered and labels.n_classes > 2:
        population, others, reliability, prior = fit_graded(labels)
        fit = HonestFit(population, NearTable(labels), others, reliability, prior)
        penalty = graded_penalty(labels)
    else:
        fit, penalty = fit_honest(labels, before=before), soft_penalty(labels)
    judged = judged & (penalty > 0)
    p_value = np.ones(labels.n_workers)
    if judged.any():
        near, probability = fit.near, fit.population.probability
        asked, of_near = Asked.everybody(near.labels), near.worker_given(penalty)
        found = honest_p_values(fit.others, asked, RELIABILITY, of_near, probability)
        p_value = near.by_worker(found)
    return HonestNull(penalty, p_value, judged, fit)


def honest_level(
    labels: CrowdLabels,
    null: HonestNull,
    *,
    false_removal_rate: float,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> float:
    """Return the level for Benjamini and Hochberg's rule at which an honest crowd is left alone.

    It is the `false_removal_rate` quantile of the least Benjamini–Hochberg ratio in crowds whose workers
    are drawn from the null. Their population is fitted anew each time, so that the level allows for the
    error of the fit. At most `MAX_DRAWN` workers are drawn, with at most `MAX_LABELS` labels each. With
    fewer of them the error of the fit is larger, and the level stricter.

    Parameters
    ----------
    labels
        The crowd's labels.
    null
        Result of :func:`honest_null` for these labels.
    false_removal_rate
        Chance to flag anybody in a crowd of honest workers, in (0, 1).
    rng
        Source of randomness.
    progress
        Called after each simulated crowd; see :data:`~quality.parallel.Progress`.

    Examples
    --------
    >>> from quality import encode
    >>> rng = np.random.default_rng(0)
    >>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    >>> worker, task = np.divmod(np.arange(1200), 60)
    >>> labels = encode(worker, task, (truth ^ wrong).ravel())
    >>> null = honest_null(labels, np.full(20, True))
    >>> level = honest_level(labels, null, false_removal_rate=0.1, rng=rng)
    >>> 0 < level < 0.2
    True
    """
    if not null.judged.any():
        return false_removal_rate
    others, drawn_from = null.fit.others, Asked.everybody(labels)
    workers = spread_over(np.diff(labels.worker_start), null.judged, MAX_DRAWN)
    asked, judged = drawn_from.sample(workers, MAX_LABELS), null.judged[workers]
    row = null.fit.near.by_row(np.arange(labels.n_labels))  # the row of each label in `others`
    asked = Asked(row[asked.rows], asked.start)
    rate = false_removal_rate
    return level_of_drawn(others, asked, judged, null.population, rate, rng, progress)


def level_of_drawn(
    others: OtherAnswers | GradedAnswers,
    asked: Asked,
    judged: Bool[np.ndarray, " asked"],
    population: HonestPopulation,
    false_removal_rate: float,
    rng: np.random.Generator,
    progress: Progress | None,
) -> float:
    """Return the level of :func:`honest_level` from the workers drawn; `judged` marks those judged."""
    tails = PenaltyTails.of(others, asked, RELIABILITY)
    n_drawn = max(200, int(np.ceil(10 / false_removal_rate))) - 1
    candidates, n_workers = Candidates.of(others.n_classes), len(judged)
    reached = np.cumsum(population.probability)
    shape, order = (n_workers, N_GRID), looked_at(np.arange(n_workers))
    size = np.diff(asked.start)
    each, most = (4, others.most_terms), min(BATCH, n_drawn)
    terms = [np.empty(shape) for shape in (each, each, each, (*each, N_GRID))]
    hers, product = np.empty(most), np.empty((most, N_GRID))
    counts = np.empty((most, N_GRID), dtype=np.int64), np.empty(most, dtype=np.int64)
    work = *terms, np.empty(4, dtype=np.int64), hers, product, product.view(np.int64), *counts
    ratio = np.empty(n_drawn)
    tell = counter(progress, "honest crowds", n_drawn)
    for first in range(0, n_drawn, BATCH):
        n_crowds = min(BATCH, n_drawn - first)
        evidence, drawn = np.empty((n_crowds, *shape)), np.zeros((n_crowds, n_workers))
        for worker in range(n_workers):
            # in each crowd one number for her reliability, then one for each label
            uniform = rng.random((n_crowds, 1 + size[worker]))
            _draw(
                worker, asked.rows, asked.start, *others.table, RELIABILITY, reached, uniform, *work,
                evidence, drawn,
            )  # fmt: skip
        for crowd in range(n_crowds):
            fitted, _ = fit_population(evidence[crowd], order, candidates)
            p_drawn = tails.p_values(drawn[crowd], fitted.probability)
            ratio[first + crowd] = step_up_ratio(np.sort(p_drawn[judged]), fitted).min()
            tell(first + crowd + 1)
    place = int(false_removal_rate * (n_drawn + 1) + 1e-9) - 1
    return float(np.partition(ratio, place)[place])


@kernel
def _draw(
    worker, rows, begin, task, start, count, place, row_start, others, n_classes, reliability, reached,
    uniform, flat, slope, given, chance, answers, hers, product, bits, held, conflicts, evidence, penalty,
) -> None:  # fmt: skip
    """Draw a worker's labels anew in each crowd, among the others' labels; write likelihoods and penalties.

    `uniform` decides, in each crowd, her reliability and her answers.
    `flat` to `conflicts` are working memory; `given` is the penalty of each answer, 0 without a conflict.
    Labels are taken four at a time, so that their chances stay in a core's nearest cache.
    """
    n_grid, most_terms = len(reliability), flat.shape[1]
    first, n_rows = begin[worker], begin[worker + 1] - begin[worker]
    for crowd in range(len(uniform)):
        left, point = uniform[crowd, 0], 0
        while point < n_grid - 1 and reached[point] < left:
            point += 1
        hers[crowd], penalty[crowd, worker], conflicts[crowd] = reliability[point], 0.0, 0
        for point in range(n_grid):
            product[crowd, point], held[crowd, point] = 1.0, 0
    for low in range(0, n_rows, 4):
        n_now = min(4, n_rows - low)
        for i in range(n_now):
            n_terms = answer_terms(
                rows[first + low + i], task, start, count, place, row_start, others, n_classes,
                flat[i], slope[i], given[i],
            )  # fmt: skip
            for answer in range(n_terms):
                y, x = flat[i, answer], slope[i, answer]
                for point in range(n_grid):
                    chance[i, answer, point] = y + x * reliability[point]
            for answer in range(n_terms, most_terms):
                flat[i, answer] = 2.0  # marks an answer that does not exist
        for i in range(n_now, 4):  # fill up with factors of 1
            answers[i], chance[i, 0] = 0, 1.0
        for crowd in range(len(uniform)):
            for i in range(n_now):
                answer = 0
                left = uniform[crowd, low + i + 1] - (flat[i, 0] + slope[i, 0] * hers[crowd])
                while left > 0 and answer < most_terms - 1 and flat[i, answer + 1] < 1.5:
                    answer += 1
                    left -= flat[i, answer] + slope[i, answer] * hers[crowd]
                penalty[crowd, worker] += given[i, answer]
                conflicts[crowd] += given[i, answer] > 0
                answers[i] = answer
            one, two = chance[0, answers[0]], chance[1, answers[1]]
            three, four = chance[2, answers[2]], chance[3, answers[3]]
            for point in range(n_grid):
                product[crowd, point] *= (one[point] * two[point]) * (three[point] * four[point])
            if low % AT_ONCE == AT_ONCE - 4:
                take_powers(bits[crowd], held[crowd])
    for crowd in range(len(uniform)):
        take_powers(bits[crowd], held[crowd])
        held_over_largest(product[crowd], bits[crowd], held[crowd], evidence[crowd, worker])
        penalty[crowd, worker] /= max(conflicts[crowd], 1)

"""The soft penalty that an honest worker would get with a given worker's tasks.

:func:`fit_honest` fits how reliable a crowd's honest workers are; :func:`honest_null` turns that
into p-values and a level for :func:`quality.filter_dishonest`.

**The population.** Every worker has one reliability. Honest ones draw theirs from a Beta
distribution; adversaries, at most half of the crowd, guess or are mostly wrong. Both parts are
fitted together, so adversaries in number do not widen what counts as honest: a single distribution
for all would. All is done on a grid of reliabilities, so that a fit is a few products of matrices
and can be repeated for hundreds of simulated crowds.

**The null.** One worker's labels are drawn anew and everybody else's stay as they are: the truth of
a task comes from the others' labels, her reliability from the honest population, and wrong labels
are spread evenly. Her penalty is then a ratio of sums of independent terms, whose tail
:mod:`quality.reputation.penalty_tails` works out. Adversaries among the others are in the null as
they are in the data, so that they do not make an honest worker look bad.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int16, Int32, Int64

from quality.labels import CrowdLabels, freeze_arrays
from quality.parallel import Progress, counter, kernel
from quality.reputation.penalties import soft_penalty
from quality.reputation.penalty_tails import PenaltyTails

__all__ = [
    "RELIABILITY",
    "Candidates",
    "HonestNull",
    "HonestPopulation",
    "fit_honest",
    "fit_population",
    "honest_null",
    "step_up_ratio",
]

N_GRID = 48
# even in the arc sine of the root: fine where workers are nearly always right or always wrong
RELIABILITY = np.sin((np.arange(N_GRID) + 0.5) * np.pi / (2 * N_GRID)) ** 2
RELIABILITY.setflags(write=False)
MEANS = np.linspace(0.1, 0.97, 18)  # of the honest, from chance (0) to always right (1)
SIZES = np.geomspace(4, 200, 8)  # a + b of the Beta distribution
SHARES = np.array([0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])  # of adversaries, if there are any
NO_ADVERSARIES = 0.5  # prior chance of that
FLOOR = 1e-30  # of a worker's likelihood: eight of them can be multiplied
N_STEPS = 8  # from workers to truth and back


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HonestPopulation:
    """Reliabilities of a crowd's honest workers, as :func:`fit_honest` finds them.

    Parameters
    ----------
    reliability
        Chances of a right answer: a grid over (0, 1).
    probability
        Share of the honest workers at each of them; adds up to 1.
    adversaries
        Estimated share of the crowd that is not honest, in [0, 0.5].
    """

    reliability: Float64[np.ndarray, " grid"]
    probability: Float64[np.ndarray, " grid"]
    adversaries: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"HonestPopulation(reliability {self.mean:.2f} ± {self.spread:.2f}, "
            f"{100 * self.adversaries:.0f} % adversaries)"
        )

    @property
    def mean(self) -> float:
        """Mean reliability of the honest."""
        return float(self.probability @ self.reliability)

    @property
    def spread(self) -> float:
        """Standard deviation of the honest reliabilities."""
        return float(np.sqrt(self.probability @ (self.reliability - self.mean) ** 2))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What a crowd may be made of: distributions of reliability, a row each."""

    honest: Float64[np.ndarray, "beta grid"]
    adversary: Float64[np.ndarray, "kinds grid"]

    @classmethod
    def of(cls, n_classes: int) -> "Candidates":
        """Beta distributions better than chance; guessing, mostly wrong, and half of each."""
        chance = max(1 / n_classes, 2 * RELIABILITY[0])  # the grid is no finer
        mean, size = (axis.ravel() for axis in np.meshgrid(chance + (1 - chance) * MEANS, SIZES))
        a, b = (mean * size)[:, None], ((1 - mean) * size)[:, None]
        # the grid's spacing adds a half to each exponent
        log_density = (a - 0.5) * np.log(RELIABILITY) + (b - 0.5) * np.log1p(-RELIABILITY)
        honest = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        guessing = np.zeros(N_GRID)
        above = int(np.searchsorted(RELIABILITY, chance))
        low, high = RELIABILITY[above - 1 : above + 1]
        guessing[above - 1 : above + 1] = np.array([high - chance, chance - low]) / (high - low)
        wrong = np.where(chance / 2 >= RELIABILITY, 1.0, 0.0)
        wrong /= wrong.sum()
        adversary = np.array([guessing, wrong, (guessing + wrong) / 2])
        return cls(honest / honest.sum(axis=1, keepdims=True), adversary)


def fit_population(
    evidence: Float64[np.ndarray, "workers grid"], candidates: Candidates
) -> tuple[HonestPopulation, Float64[np.ndarray, " grid"]]:
    """Fit the honest to each worker's likelihood on the grid; also the whole crowd's distribution.

    The mean over all candidates, weighted by how likely they make the labels: the uncertainty of
    the fit widens it.
    """
    n_kinds = len(candidates.adversary)
    # not BLAS, whose threads cost more than products as small as these
    honest = np.einsum("wg,bg->wb", evidence, candidates.honest)
    adversary = np.einsum("wg,kg->wk", evidence, candidates.adversary)
    shape = len(candidates.honest), 1 + n_kinds * len(SHARES)
    log_likelihood, product = np.zeros(shape), np.ones(shape)
    left = np.append(1.0, np.tile(1 - SHARES, n_kinds))
    added = np.full(shape[1], FLOOR)
    _log_likelihood(honest, adversary, SHARES, left, added, product, log_likelihood)
    log_likelihood[:, 0] += np.log(NO_ADVERSARIES)
    log_likelihood[:, 1:] += np.log((1 - NO_ADVERSARIES) / (n_kinds * len(SHARES)))
    weight = np.exp(log_likelihood - log_likelihood.max())
    weight /= weight.sum()
    probability = weight.sum(axis=1) @ candidates.honest
    share = weight[:, 1:].sum(axis=0).reshape(n_kinds, len(SHARES)) @ SHARES  # of each kind
    population = HonestPopulation(RELIABILITY, probability, float(share.sum()))
    return population, (1 - share.sum()) * probability + share @ candidates.adversary


def fit_honest(
    labels: CrowdLabels,
) -> tuple[HonestPopulation, Float64[np.ndarray, "labels classes"]]:
    """Fit the honest population to labels; also P(truth | the others' labels) at each label.

    Each turn computes the truth of a task from the others' labels, from that the likelihood of each
    worker's reliability, the population, and each worker's expected reliability, which weights her
    labels in the next turn. A worker's own labels never count for herself.

    Examples
    --------
    >>> from quality import encode
    >>> rng = np.random.default_rng(0)
    >>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    >>> wrong[:4] = True
    >>> worker, task = np.divmod(np.arange(1200), 60)
    >>> fit_honest(encode(worker, task, (truth ^ wrong).ravel()))[0]
    HonestPopulation(reliability 0.80 ± 0.04, 20 % adversaries)
    """
    n_classes = labels.n_classes
    candidates = Candidates.of(max(n_classes, 2))
    others = np.full((labels.n_labels, n_classes), 1 / n_classes)
    if n_classes < 2:
        return fit_population(np.empty((0, N_GRID)), candidates)[0], others
    asked = np.diff(labels.worker_start) > 0
    reliability, prior = np.full(labels.n_workers, 0.75), np.full(n_classes, 1 / n_classes)
    rows = (labels.task_start, labels.worker, labels.label)
    for _ in range(N_STEPS):
        log_odds = np.log(reliability * (n_classes - 1) / (1 - reliability))
        mass, room = np.zeros(n_classes), np.empty((2, n_classes))
        _ask_others(*rows, log_odds, np.log(prior), *room, others, mass)
        prior = (mass + 1) / (mass.sum() + n_classes)
        log_evidence = np.zeros((labels.n_workers, N_GRID))
        _log_evidence(*rows[1:], others, RELIABILITY, log_evidence)
        evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
        population, crowd = fit_population(evidence[asked], candidates)
        belief = evidence * crowd
        reliability = (belief @ RELIABILITY) / belief.sum(axis=1)
    return population, others


@kernel
def _log_likelihood(
    honest: Float64[np.ndarray, "workers beta"],
    adversary: Float64[np.ndarray, "workers kinds"],
    share: Float64[np.ndarray, " shares"],
    left: Float64[np.ndarray, " mixtures"],
    added: Float64[np.ndarray, " mixtures"],
    product: Float64[np.ndarray, "beta mixtures"],
    total: Float64[np.ndarray, "beta mixtures"],
) -> None:
    """Of the crowd under each mixture: the honest alone, then every kind at every share."""
    n_beta, n_mixtures = total.shape
    for worker in range(len(honest)):
        for mixture in range(1, n_mixtures):
            kind, place = (mixture - 1) // len(share), (mixture - 1) % len(share)
            added[mixture] = share[place] * adversary[worker, kind] + FLOOR
        for beta in range(n_beta):
            for mixture in range(n_mixtures):
                product[beta, mixture] *= honest[worker, beta] * left[mixture] + added[mixture]
        if worker % 8 == 7 or worker == len(honest) - 1:  # a logarithm for several workers at once
            for beta in range(n_beta):
                for mixture in range(n_mixtures):
                    total[beta, mixture] += np.log(product[beta, mixture])
                    product[beta, mixture] = 1.0


@kernel
def _ask_others(
    task_start: Int64[np.ndarray, " tasks+1"],
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    log_odds: Float64[np.ndarray, " workers"],
    log_prior: Float64[np.ndarray, " classes"],
    belief: Float64[np.ndarray, " classes"],
    chance: Float64[np.ndarray, " classes"],
    others: Float64[np.ndarray, "labels classes"],
    mass: Float64[np.ndarray, " classes"],
) -> None:
    """Write P(truth | labels but this one) at each label; add expected tasks of each class up."""
    n_classes = len(log_prior)
    for task in range(len(task_start) - 1):
        first, last = task_start[task], task_start[task + 1]
        if first == last:
            continue
        for code in range(n_classes):
            belief[code] = log_prior[code]
        for row in range(first, last):
            belief[label[row]] += log_odds[worker[row]]
        for row in range(first, last):
            belief[label[row]] -= log_odds[worker[row]]
            _probabilities(belief, chance)
            for code in range(n_classes):
                others[row, code] = chance[code]
            belief[label[row]] += log_odds[worker[row]]
        _probabilities(belief, chance)
        for code in range(n_classes):
            mass[code] += chance[code]


@kernel
def _probabilities(log_odds, chance) -> None:
    """Write the probabilities, which add up to 1, that are in these proportions."""
    _powers(log_odds, chance)
    total = 0.0
    for place in range(len(chance)):
        total += chance[place]
    for place in range(len(chance)):
        chance[place] /= total


@kernel
def _log_evidence(
    worker: Int32[np.ndarray, " labels"],
    label: Int16[np.ndarray, " labels"],
    others: Float64[np.ndarray, "labels classes"],
    reliability: Float64[np.ndarray, " grid"],
    total: Float64[np.ndarray, "workers grid"],
) -> None:
    """Add up the log likelihood of each worker's labels at every reliability, given the others'."""
    for row in range(len(worker)):
        right = others[row, label[row]]
        wrong = (1 - right) / (others.shape[1] - 1)
        for place in range(len(reliability)):
            chance = wrong + (right - wrong) * reliability[place]
            total[worker[row], place] += np.log(chance)


BATCH = 40  # crowds drawn at once


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
    level
        The level for Benjamini and Hochberg's rule on ``p_value`` at which an honest crowd is
        left alone with the chance asked for.
    population
        The honest population fitted.
    """

    penalty: Float64[np.ndarray, " workers"]
    p_value: Float64[np.ndarray, " workers"]
    level: float
    population: HonestPopulation

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"HonestNull({len(self.penalty)} workers, smallest p-value "
            f"{self.p_value.min(initial=1.0):.2g}, level {self.level:.2g})"
        )


def honest_null(
    labels: CrowdLabels,
    judged: Bool[np.ndarray, " workers"],
    *,
    false_removal_rate: float,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> HonestNull:
    """Judge soft penalties by what an honest worker gets, and calibrate on honest crowds.

    The level is the `false_removal_rate` quantile of the least Benjamini–Hochberg ratio in crowds
    whose workers are drawn from the null; their population is fitted anew each time, so that
    the error of the fit is paid for.

    Parameters
    ----------
    labels
        The crowd's labels.
    judged
        True for the workers whose p-values will be looked at.
    false_removal_rate
        Chance to flag anybody in a crowd of honest workers, in (0, 1).
    rng
        Source of randomness, for the level alone.
    progress
        Called after each simulated crowd; see :data:`~quality.parallel.Progress`.

    Examples
    --------
    >>> from quality import encode
    >>> rng = np.random.default_rng(0)
    >>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    >>> wrong[7] = True
    >>> worker, task = np.divmod(np.arange(1200), 60)
    >>> labels = encode(worker, task, (truth ^ wrong).ravel())
    >>> null = honest_null(labels, np.full(20, True), false_removal_rate=0.1, rng=rng)
    >>> int(null.p_value.argmin())
    7
    """
    population, others = fit_honest(labels)
    penalty = soft_penalty(labels)
    judged = judged & (penalty > 0)
    p_value = np.ones(labels.n_workers)
    if not judged.any():
        return HonestNull(penalty, p_value, false_removal_rate, population)
    rows = (
        labels.worker_order, labels.worker_start, labels.task, labels.label, labels.counts(), others
    )  # fmt: skip
    tails = PenaltyTails.of(labels, others, RELIABILITY)
    p_value = tails.p_values(penalty, population.probability)
    n_drawn = max(200, int(np.ceil(10 / false_removal_rate))) - 1
    asked = np.diff(labels.worker_start) > 0
    candidates, reached = Candidates.of(labels.n_classes), np.cumsum(population.probability)
    shape = labels.n_workers, len(RELIABILITY)
    each = int(np.diff(labels.worker_start).max(initial=0)), labels.n_classes
    work = [np.empty(size) for size in (each, each, each, (*each, shape[1]), shape[1])]
    ratio = np.empty(n_drawn)
    tell = counter(progress, "honest crowds", n_drawn)
    for first in range(0, n_drawn, BATCH):
        size = min(BATCH, n_drawn - first)
        evidence, drawn = np.empty((size, *shape)), np.zeros((size, labels.n_workers))
        _draw(*rows, RELIABILITY, reached, rng, *work, evidence, drawn)
        for crowd in range(size):
            fitted, _ = fit_population(evidence[crowd, asked], candidates)
            p_drawn = tails.p_values(drawn[crowd], fitted.probability)
            ratio[first + crowd] = step_up_ratio(np.sort(p_drawn[judged]), fitted).min()
            tell(first + crowd + 1)
    place = int(false_removal_rate * (n_drawn + 1) + 1e-9) - 1
    return HonestNull(penalty, p_value, float(np.partition(ratio, place)[place]), population)


def step_up_ratio(
    p_value: Float64[np.ndarray, " judged"], population: HonestPopulation
) -> Float64[np.ndarray, " judged"]:
    """Expected honest workers with so small a p-value over how many there are; p ascending."""
    n_honest = (1 - population.adversaries) * len(p_value)
    ratio: np.ndarray = n_honest * p_value / np.arange(1, len(p_value) + 1)
    return ratio


@kernel
def _draw(
    worker_order, worker_start, task, label, counts, others, reliability, reached, rng,
    flat, slope, given, log_chance, log_evidence, evidence, penalty,
) -> None:  # fmt: skip
    """Draw each worker's labels anew among the others': write likelihoods on the grid, and penalties.

    `flat` to `log_evidence` are for work; `given` is the penalty of each answer, 0 if it makes no conflict.
    """
    n_classes, n_grid = others.shape[1], len(reliability)
    for worker in range(len(worker_start) - 1):
        begin = worker_start[worker]
        n_rows = worker_start[worker + 1] - begin
        for i in range(n_rows):
            row, n_others = worker_order[begin + i], -1
            for answer in range(n_classes):
                n_others += counts[task[row], answer]
            for answer in range(n_classes):
                same = counts[task[row], answer] - (answer == label[row])
                given[i, answer] = 1.0 / (same + 1) if same < n_others else 0.0
                flat[i, answer] = (1 - others[row, answer]) / (n_classes - 1)
                slope[i, answer] = others[row, answer] - flat[i, answer]
                for place in range(n_grid):
                    chance = flat[i, answer] + slope[i, answer] * reliability[place]
                    log_chance[i, answer, place] = np.log(chance)
        for crowd in range(len(evidence)):
            left, place = rng.random(), 0
            while place < n_grid - 1 and reached[place] < left:
                place += 1
            hers, total, n_conflict = reliability[place], 0.0, 0
            for place in range(n_grid):
                log_evidence[place] = 0.0
            for i in range(n_rows):
                left = rng.random()
                answer = 0
                left -= flat[i, 0] + slope[i, 0] * hers
                while left > 0 and answer < n_classes - 1:
                    answer += 1
                    left -= flat[i, answer] + slope[i, answer] * hers
                total += given[i, answer]
                n_conflict += given[i, answer] > 0
                for place in range(n_grid):
                    log_evidence[place] += log_chance[i, answer, place]
            _powers(log_evidence, evidence[crowd, worker])
            penalty[crowd, worker] = total / max(n_conflict, 1)


@kernel
def _powers(exponent, power) -> None:
    """Write the powers of e, divided by the largest of them."""
    highest = exponent[0]
    for place in range(1, len(exponent)):
        highest = max(highest, exponent[place])
    for place in range(len(exponent)):
        power[place] = np.exp(exponent[place] - highest)

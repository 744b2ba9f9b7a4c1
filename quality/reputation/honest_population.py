"""What a crowd may be made of, and the mixture that its workers' labels speak for.

Every worker has one reliability. Honest ones draw theirs from a Beta distribution; adversaries, at most
half of the crowd, guess or are mostly wrong. Both parts are fitted together, so adversaries in number do
not widen what counts as honest: a single distribution for all would. All is done on a grid of
reliabilities, so that a fit can be repeated for hundreds of simulated crowds.
"""

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
from jaxtyping import Float64, Int64

from quality.labels import freeze_arrays
from quality.parallel import kernel

__all__ = [
    "N_GRID", "RELIABILITY", "Candidates", "HonestPopulation", "fit_population", "looked_at",
    "step_up_ratio",
]  # fmt: skip

N_GRID = 48
# even in the arc sine of the root: fine where workers are nearly always right or always wrong
RELIABILITY = np.sin((np.arange(N_GRID) + 0.5) * np.pi / (2 * N_GRID)) ** 2
RELIABILITY.setflags(write=False)
MEANS = np.linspace(0.1, 0.97, 18)  # of the honest, from chance (0) to always right (1)
SIZES = np.geomspace(4, 200, 8)  # a + b of the Beta distribution
SHARES = np.array([0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])  # of adversaries, if there are any
NO_ADVERSARIES = 0.5  # prior chance of that
FLOOR = 1e-30  # of a worker's likelihood
TOGETHER = 8  # workers whose likelihoods are multiplied before a logarithm; more would underflow
MAX_FITTED = 20_000  # workers: more of them change no population
# nats behind the best; the mixture that the crowd is drawn from is so once in e**50
HOPELESS = 50.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HonestPopulation:
    """Reliabilities of a crowd's honest workers, as :func:`fit_population` finds them.

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


def looked_at(asked: Int64[np.ndarray, " asked"]) -> Int64[np.ndarray, " chosen"]:
    """Return whom a population is fitted to, of more than `MAX_FITTED` so many, in an order of no meaning.

    Hopeless ones among the candidates are given up on the way through them.
    """
    chosen: np.ndarray = asked[np.random.default_rng(0).permutation(len(asked))[:MAX_FITTED]]
    return chosen


def fit_population(
    evidence: Float64[np.ndarray, "workers grid"],
    order: Int64[np.ndarray, " chosen"],
    candidates: Candidates,
) -> tuple[HonestPopulation, Float64[np.ndarray, " grid"]]:
    """Fit the honest to the likelihood on the grid of the workers looked at, in their order.

    The mean over all candidates, weighted by how likely they make the labels: the uncertainty of
    the fit widens it. Also return the whole crowd's distribution.
    """
    n_kinds = len(candidates.adversary)
    shape = len(candidates.honest), 1 + n_kinds * len(SHARES)
    left = np.append(1.0, np.tile(1 - SHARES, n_kinds))
    share = np.append(0.0, np.tile(SHARES, n_kinds))
    kind = np.append(0, np.repeat(np.arange(n_kinds), len(SHARES)))
    log_likelihood = np.full(shape, log((1 - NO_ADVERSARIES) / (n_kinds * len(SHARES))))
    log_likelihood[:, 0] = log(NO_ADVERSARIES)
    work = np.ones(shape), np.empty(n_kinds), np.empty(shape[1])
    _add_log_likelihood(
        evidence, order, candidates.honest, candidates.adversary, left, share, kind,
        np.arange(shape[0]), *work, log_likelihood,
    )  # fmt: skip
    weight = np.exp(log_likelihood - log_likelihood.max())
    weight /= weight.sum()
    probability = weight.sum(axis=1) @ candidates.honest
    shares = weight[:, 1:].sum(axis=0).reshape(n_kinds, len(SHARES)) @ SHARES  # of each kind
    population = HonestPopulation(RELIABILITY, probability, float(shares.sum()))
    return population, (1 - shares.sum()) * probability + shares @ candidates.adversary


def step_up_ratio(
    p_value: Float64[np.ndarray, " judged"], population: HonestPopulation
) -> Float64[np.ndarray, " judged"]:
    """Expected honest workers with so small a p-value over how many there are; p ascending."""
    n_honest = (1 - population.adversaries) * len(p_value)
    ratio: np.ndarray = n_honest * p_value / np.arange(1, len(p_value) + 1)
    return ratio


@kernel
def _add_log_likelihood(
    evidence, order, honest, adversary, left, share, kind, beta, product, others, added, log_likelihood
) -> None:  # fmt: skip
    """Add the workers' to each cell: a Beta distribution and a mixture, which is a share of adversaries.

    A Beta distribution whose mixtures are all hopelessly behind is given up. From `beta` on all but the
    last is for work: `beta` numbers the distributions, and the products are 1 before.
    """
    n_betas, n_mixtures = product.shape
    for place in range(len(order)):
        seen = evidence[order[place]]
        for k in range(len(adversary)):
            others[k] = _dot(adversary[k], seen)
        for m in range(n_mixtures):
            added[m] = share[m] * others[kind[m]] + FLOOR
        for i in range(n_betas):
            hers = _dot(honest[beta[i]], seen)
            for m in range(n_mixtures):
                product[i, m] *= hers * left[m] + added[m]
        if place % TOGETHER == TOGETHER - 1 or place == len(order) - 1:
            highest = -inf
            for i in range(n_betas):
                for m in range(n_mixtures):
                    log_likelihood[beta[i], m] += log(product[i, m])
                    product[i, m] = 1.0
                    highest = max(highest, log_likelihood[beta[i], m])
            n_betas = _kept(beta[:n_betas], highest - HOPELESS, log_likelihood)


@kernel
def _kept(beta, hopeless, log_likelihood) -> int:
    """Write the Beta distributions with a mixture that is not hopeless to the front; return how many."""
    n_kept = 0
    for i in range(len(beta)):
        b, best = beta[i], -inf
        for m in range(log_likelihood.shape[1]):
            best = max(best, log_likelihood[b, m])
        if best < hopeless:
            for m in range(log_likelihood.shape[1]):
                log_likelihood[b, m] = -inf
        else:
            beta[n_kept] = b
            n_kept += 1
    return n_kept


@kernel
def _dot(one, other) -> float:
    """Four sums at once: one alone would wait for each addition. The grid is a multiple of four."""
    a = b = c = d = 0.0
    for place in range(0, len(one), 4):
        a += one[place] * other[place]
        b += one[place + 1] * other[place + 1]
        c += one[place + 2] * other[place + 2]
        d += one[place + 3] * other[place + 3]
    return (a + b) + (c + d)


@kernel
def over_largest(number, share) -> None:
    """Write numbers divided by the largest of them."""
    highest = number[0]
    for place in range(1, len(number)):
        highest = max(highest, number[place])
    for place in range(len(number)):
        share[place] = number[place] / highest


@kernel
def powers_over_largest(exponent, power) -> None:
    """Write the powers of e, divided by the largest of them."""
    highest = exponent[0]
    for place in range(1, len(exponent)):
        highest = max(highest, exponent[place])
    for place in range(len(exponent)):
        power[place] = exp(exponent[place] - highest)

"""The population of a crowd: a mixture of honest workers and adversaries, fitted to their labels.

Every worker has one reliability. Honest workers draw theirs from a Beta distribution; adversaries, at most
half of the crowd, guess or are mostly wrong. Both parts are fitted together, so that many adversaries do
not widen the distribution of the honest, as they would with a single distribution for all. Everything is on
a grid of reliabilities, so that a fit can be repeated for hundreds of simulated crowds.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from quality.labels import freeze_arrays
from quality.parallel import kernel

__all__ = [
    "AT_ONCE", "N_GRID", "RELIABILITY", "Candidates", "HonestPopulation", "evidence_work",
    "fit_population", "held_over_largest", "looked_at", "step_up_ratio", "take_powers", "write_evidence",
]  # fmt: skip

N_GRID = 48
# even in the arc sine of the root: dense where workers are nearly always right or always wrong
RELIABILITY = np.sin((np.arange(N_GRID) + 0.5) * np.pi / (2 * N_GRID)) ** 2
RELIABILITY.setflags(write=False)
MEANS = np.linspace(0.1, 0.97, 18)  # of honest workers, from chance (0) to always right (1)
SIZES = np.geomspace(4, 200, 8)  # a + b of the Beta distribution
SHARES = np.array([0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])  # of adversaries, if there are any
NO_ADVERSARIES = 0.5  # prior chance of a crowd without adversaries
FLOOR = 1e-30  # of a worker's likelihood
TOGETHER = 8  # workers multiplied before powers of two are taken out; products of more underflow
MAX_FITTED = 20_000  # workers: more of them change no population
# powers of two behind the best at which a mixture is given up; the true one falls so far once in 2**72
HOPELESS = 73
AT_ONCE = 32  # labels multiplied before powers of two are taken out; a multiple of four
VANISHES = -1000  # power of two, relative to the largest, below which a number is taken as 0


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
        """Mean reliability of the honest workers."""
        return float(self.probability @ self.reliability)

    @property
    def spread(self) -> float:
        """Standard deviation of the honest workers' reliability."""
        return float(np.sqrt(self.probability @ (self.reliability - self.mean) ** 2))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidate distributions of reliability, a row each."""

    honest: Float64[np.ndarray, "beta grid"]
    adversary: Float64[np.ndarray, "kinds grid"]

    @classmethod
    def of(cls, n_classes: int) -> "Candidates":
        """Return Beta distributions above chance, and kinds of adversaries: guessing, mostly wrong, both."""
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
    """Return the workers that a population is fitted to, at most `MAX_FITTED`, in random order.

    The fit gives up hopeless candidates on its way through the workers.
    """
    chosen: np.ndarray = asked[np.random.default_rng(0).permutation(len(asked))[:MAX_FITTED]]
    return chosen


def fit_population(
    evidence: Float64[np.ndarray, "workers grid"],
    order: Int64[np.ndarray, " chosen"],
    candidates: Candidates,
) -> tuple[HonestPopulation, Float64[np.ndarray, " grid"]]:
    """Fit the honest population to workers' likelihoods on the grid, in the given order.

    The result is the mean over all candidates, weighted by the likelihood of the labels, so that the
    uncertainty of the fit widens it. Also return the whole crowd's distribution.
    """
    n_kinds = len(candidates.adversary)
    shape = len(candidates.honest), 1 + n_kinds * len(SHARES)
    left = np.append(1.0, np.tile(1 - SHARES, n_kinds))
    share = np.append(0.0, np.tile(SHARES, n_kinds))
    kind = np.append(0, np.repeat(np.arange(n_kinds), len(SHARES)))
    product, held = np.empty(shape), np.zeros(shape, dtype=np.int64)
    product[:, 0], product[:, 1:] = NO_ADVERSARIES, (1 - NO_ADVERSARIES) / (shape[1] - 1)
    beta = np.arange(shape[0])
    n_left = _multiply_likelihood(
        evidence, order, candidates.honest, candidates.adversary, left, share, kind,
        np.empty(n_kinds), np.empty(shape[1]), beta, product, product.view(np.int64), held,
    )  # fmt: skip
    beta, weight = beta[:n_left], np.zeros(shape)
    weight[beta] = np.ldexp(product[beta], held[beta] - held[beta].max())
    weight /= weight.sum()
    probability = weight.sum(axis=1) @ candidates.honest
    shares = weight[:, 1:].sum(axis=0).reshape(n_kinds, len(SHARES)) @ SHARES  # of each kind
    population = HonestPopulation(RELIABILITY, probability, float(shares.sum()))
    return population, (1 - shares.sum()) * probability + shares @ candidates.adversary


def step_up_ratio(
    p_value: Float64[np.ndarray, " judged"], population: HonestPopulation
) -> Float64[np.ndarray, " judged"]:
    """Return the expected honest workers with so small a p-value over all workers with one; p ascends."""
    n_honest = (1 - population.adversaries) * len(p_value)
    ratio: np.ndarray = n_honest * p_value / np.arange(1, len(p_value) + 1)
    return ratio


@kernel
def _multiply_likelihood(
    evidence, order, honest, adversary, left, share, kind, others, added, beta, product, bits, held
) -> int:  # fmt: skip
    """Multiply each cell, a Beta distribution with a share of adversaries, by the workers' likelihoods.

    A Beta distribution whose mixtures are all hopelessly behind is given up. `beta` numbers the
    distributions; at the end those left are in front, and their number is returned. `bits` is the memory of
    `product`, whose powers of two are taken out; `others` and `added` are working memory.
    """
    n_betas = len(beta)
    for place in range(len(order)):
        seen = evidence[order[place]]
        for k in range(len(adversary)):
            others[k] = _dot(adversary[k], seen)
        for m in range(len(added)):
            added[m] = share[m] * others[kind[m]] + FLOOR
        for i in range(n_betas):
            b = beta[i]
            hers = _dot(honest[b], seen)
            for m in range(len(added)):
                product[b, m] *= hers * left[m] + added[m]
        if place % TOGETHER == TOGETHER - 1 or place == len(order) - 1:
            for i in range(n_betas):
                take_powers(bits[beta[i]], held[beta[i]])
            n_betas = _kept(beta[:n_betas], held)
    return n_betas


@kernel
def _kept(beta, held) -> int:
    """Move the Beta distributions with a mixture that is not hopeless to the front; return their number."""
    highest = held[beta[0]].max()
    for b in beta:
        highest = max(highest, held[b].max())
    n_kept = 0
    for b in beta:
        if held[b].max() >= highest - HOPELESS:
            beta[n_kept] = b
            n_kept += 1
    return n_kept


@kernel(forceinline=True)  # a call would cost as much
def _dot(one, other) -> float:
    """Return the dot product of rows whose length is a multiple of four, by four sums at once."""
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
def take_powers(bits, held) -> None:
    """Move the powers of two of positive numbers, given as bits, to `held`."""
    for place in range(len(bits)):
        power = (bits[place] >> 52) - 1023
        held[place] += power
        bits[place] -= power << 52


@kernel
def held_over_largest(number, bits, held, share) -> None:
    """Write numbers, each times its held power of two, divided by the largest of them.

    `bits` is the memory of `number`. Powers were taken out before, or all held ones are 0.
    """
    highest = held[0]
    for place in range(1, len(held)):
        highest = max(highest, held[place])
    for place in range(len(held)):
        power = held[place] - highest
        bits[place] = 0 if power < VANISHES else bits[place] + (power << 52)
    over_largest(number, share)


def evidence_work() -> tuple[np.ndarray, ...]:
    """Return the working memory of `write_evidence`: products, their bits, powers of two, and some labels."""
    product = np.empty(N_GRID)
    held, labels = np.empty(N_GRID, dtype=np.int64), np.empty((2, AT_ONCE))
    return product, product.view(np.int64), held, *labels


@kernel
def write_evidence(
    chosen, worker_order, worker_start, right, n_classes, reliability, evidence,
    product, bits, held, flat, slope,
) -> None:  # fmt: skip
    """Write the likelihood of each chosen worker's labels at every reliability, divided by the largest.

    The arguments from `product` on are working memory; `bits` is the memory of `product`.
    """
    each_wrong = 1 / (n_classes - 1)
    for seat in range(len(chosen)):
        begin, end = worker_start[chosen[seat]], worker_start[chosen[seat] + 1]
        for place in range(len(reliability)):
            product[place], held[place] = 1.0, 0
        for low in range(begin, end, AT_ONCE):
            n_rows = min(AT_ONCE, end - low)
            for at in range(n_rows):
                x = right[worker_order[low + at]]
                flat[at] = (1 - x) * each_wrong
                slope[at] = x - flat[at]
            for at in range(n_rows, AT_ONCE):
                flat[at], slope[at] = 1.0, 0.0
            for at in range(0, n_rows, 4):  # four labels: their factors stay in registers
                a, b, c, d = flat[at], flat[at + 1], flat[at + 2], flat[at + 3]
                e, f, g, h = slope[at], slope[at + 1], slope[at + 2], slope[at + 3]
                for place in range(len(reliability)):
                    r = reliability[place]
                    product[place] *= ((a + e * r) * (b + f * r)) * ((c + g * r) * (d + h * r))
            if end - begin > AT_ONCE:
                take_powers(bits, held)
        held_over_largest(product, bits, held, evidence[seat])

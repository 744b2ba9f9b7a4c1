"""A Dirichlet release with a public floor, drawn from an urn in exact integers.

Floating-point gamma variables would leave privacy unproved: which doubles can come out depends on
the private shapes. An urn that starts with weights proportional to the shapes, and gains weight on
each colour drawn, gives counts whose proportions tend to Dirichlet ones. Given the Dirichlet vector
they are multinomial, so they are its post-processing and cost no more.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy
from jaxtyping import Float, Int

from privacy.mechanism import Json, Noise
from privacy.mechanisms.dirichlet import largest_clamp_scale
from privacy.mechanisms.gaussian import check_moved_task
from privacy.mechanisms.kinds import ClampedDirichletEvent
from privacy.query import Query

__all__ = ["DirichletClamp", "draw_urn", "public_draws"]

DRAWS_PER_WEIGHT = 50  # the urn then adds about a hundredth to the l1 error
MOST_DRAWS = 1_000_000


@dataclass(frozen=True, slots=True)
class DirichletClamp:
    """Release class proportions by drawing from Dir(scale * max(counts, floor)).

    The released value is the list of the urn's counts; over their sum they are the proportions of
    the clamped counts. `choose_mechanism` names a mechanism to prefer; this one serves comparison
    with the paper, whose scale depends on the counts and is no privacy (see `privacy.mechanisms.dirichlet_pair`).

    Parameters
    ----------
    epsilon, delta
        Price of one release, 0 < epsilon <= 100 and 0 < delta < 1.
    floor
        **Public** integer >= 1 to which smaller counts are raised, zeros included. Results are
        unbiased where no count is below it.

    Raises
    ------
    InfeasibleFloor
        If no scale is cheap enough: from public numbers, never from counts.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; event, number of draws and
    refusals depend on public things only, and every vector of counts has a release.
    **Cost.** One uniform integer for each of ceil(50 scale max(n, classes * floor)) draws, at most
    a million. Draws are multinomial given the Dirichlet vector, so they add a variance of
    rho (1 - rho) / draws at most to each proportion.
    **Privacy.** Unit: the query's. Event: `ClampedDirichletEvent`, whose delta is `clamp_delta`.

    References
    ----------
    .. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016).
    .. [2] Blackwell, MacQueen, "Ferguson distributions via Polya urn schemes", Ann. Statist. 1
       (1973).

    Examples
    --------
    >>> DirichletClamp(epsilon=0.05, delta=0.05, floor=49).draws(n=1000, n_classes=5)
    38842
    """

    epsilon: float
    delta: float
    floor: int

    def __post_init__(self) -> None:
        if isinstance(self.floor, bool) or not (isinstance(self.floor, int) and self.floor >= 1):
            raise ValueError(f"floor must be an integer >= 1, got floor={self.floor}")
        largest_clamp_scale(self.floor, self.epsilon, self.delta)

    @property
    def scale(self) -> Fraction:
        """Scale of the Dirichlet; public."""
        return largest_clamp_scale(self.floor, self.epsilon, self.delta)

    def draws(self, n: int, n_classes: int) -> int:
        """Public number of draws from the urn, for n tasks."""
        return public_draws(self.scale, n, n_classes, max(n, n_classes * self.floor))

    def event(self, query: Query) -> ClampedDirichletEvent:
        """Describe a release of this query; refuses what is not a vector of class counts."""
        counts = check_moved_task(query)
        draws = self.draws(int(query.n), counts.size)
        return ClampedDirichletEvent(str(self.scale), self.floor, draws, self.epsilon, self.delta)

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Log probability of releases, up to what neighbouring queries share."""
        shape = float(self.scale) * np.maximum(check_moved_task(query), self.floor)
        gammaln = scipy.special.gammaln
        constant = gammaln(shape.sum()) - gammaln(shape).sum()
        drawn = gammaln(shape + releases).sum(axis=1)
        return np.asarray(constant + drawn - gammaln(shape.sum() + releases.sum(axis=1)))

    def draw(self, query: Query, noise: Noise) -> Json:
        """Counts drawn from the urn; only the ledger calls this."""
        counts = check_moved_task(query)
        clamped = np.maximum(counts, self.floor)
        return draw_urn(clamped, self.scale, self.draws(int(query.n), counts.size), noise)


def public_draws(scale: Fraction, n: int, n_classes: int, total: int) -> int:
    """How many draws an urn gives whose counts add up to `total` or so, for n tasks."""
    if not (n >= 1 and n_classes >= 2):
        raise ValueError(f"n must be >= 1 and n_classes >= 2, got n={n}, {n_classes}")
    return min(MOST_DRAWS, math.ceil(DRAWS_PER_WEIGHT * scale * total))


def draw_urn(
    counts: Int[np.ndarray, " classes"], scale: Fraction, draws: int, noise: Noise
) -> list[int]:
    """Draw from the Polya urn of Dir(scale * counts): Dirichlet-multinomial counts, exactly.

    Colours start with weights numerator * counts, and a drawn one gains the denominator.
    """
    weight = [scale.numerator * int(count) for count in counts]
    total, found = sum(weight), [0] * len(weight)
    for _ in range(draws):
        left, colour = noise.uniform_integer(total), 0
        while left >= weight[colour]:
            left -= weight[colour]
            colour += 1
        found[colour] += 1
        weight[colour] += scale.denominator
        total += scale.denominator
    return found

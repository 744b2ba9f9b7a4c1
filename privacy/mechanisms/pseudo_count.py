"""A Dirichlet release whose counts have a public pseudo-count added, so that none is small.

Every vector of counts has a release and no floor has to be promised or clamped to. What the
pseudo-counts add to the proportions is known, and taken out again afterwards.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy
from jaxtyping import Float, Int

from privacy.mechanism import Json, Noise
from privacy.mechanisms.dirichlet import largest_scale
from privacy.mechanisms.gaussian import check_moved_task
from privacy.mechanisms.kinds import PseudoCountDirichletEvent
from privacy.mechanisms.projection import project_to_simplex
from privacy.mechanisms.urn import draw_urn, public_draws
from privacy.query import Query

__all__ = ["DirichletPseudoCount"]


@dataclass(frozen=True, slots=True)
class DirichletPseudoCount:
    """Release class proportions by drawing from Dir(scale * (counts + pseudo_count)).

    The released value is the list of the urn's counts; `proportions` takes the pseudo-counts out.
    `choose_mechanism` names a mechanism to prefer: this one errs more than the discrete Gaussian,
    whose law it approaches as pseudo-counts grow.

    Parameters
    ----------
    epsilon, delta
        Price of one release, 0 < epsilon <= 100 and 0 < delta < 1.
    pseudo_count
        **Public** integer >= 1, added to the count of every class.

    Raises
    ------
    InfeasibleFloor
        If no scale is cheap enough: from public numbers, never from counts.
    ValueError
        If one of the conditions is broken.

    Notes
    -----
    **Guarantees.** The realised delta at epsilon is at most the claim; event, number of draws and
    refusals depend on public things only, and every vector of counts has a release. Proportions
    without the pseudo-counts lie on the simplex, and before their projection are unbiased.
    **Cost.** One uniform integer for each of ceil(50 scale (n + classes * pseudo_count)) draws, at
    most a million.
    **Privacy.** Unit: the query's. Event: `PseudoCountDirichletEvent`, whose delta is
    `dominating_delta` at the pseudo-count, below which no shape is in any data set.

    References
    ----------
    .. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016).
    .. [2] Blackwell, MacQueen, "Ferguson distributions via Polya urn schemes", Ann. Statist. 1
       (1973).

    Examples
    --------
    >>> mechanism = DirichletPseudoCount(epsilon=0.05, delta=0.05, pseudo_count=200)
    >>> mechanism.draws(n=1000, n_classes=2)
    222557
    >>> mechanism.proportions([600, 400], n=1000)
    array([0.64, 0.36])
    """

    epsilon: float
    delta: float
    pseudo_count: int

    def __post_init__(self) -> None:
        if isinstance(self.pseudo_count, bool) or not (
            isinstance(self.pseudo_count, int) and self.pseudo_count >= 1
        ):
            raise ValueError(
                f"pseudo_count must be an integer >= 1, got pseudo_count={self.pseudo_count}"
            )
        largest_scale(self.pseudo_count, self.epsilon, self.delta)

    @property
    def scale(self) -> Fraction:
        """Scale of the Dirichlet; public."""
        return largest_scale(self.pseudo_count, self.epsilon, self.delta)

    def draws(self, n: int, n_classes: int) -> int:
        """Public number of draws from the urn, for n tasks."""
        return public_draws(self.scale, n, n_classes, n + n_classes * self.pseudo_count)

    def event(self, query: Query) -> PseudoCountDirichletEvent:
        """Describe a release of this query; refuses what is not a vector of class counts."""
        draws = self.draws(int(query.n), check_moved_task(query).size)
        return PseudoCountDirichletEvent(
            str(self.scale), self.pseudo_count, draws, self.epsilon, self.delta
        )

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Log probability of releases, up to what neighbouring queries share."""
        shape = float(self.scale) * (check_moved_task(query) + float(self.pseudo_count))
        gammaln = scipy.special.gammaln
        return np.asarray(gammaln(shape + releases).sum(axis=1) - gammaln(shape).sum())

    def draw(self, query: Query, noise: Noise) -> Json:
        """Counts drawn from the urn; only the ledger calls this."""
        counts = check_moved_task(query)
        draws = self.draws(int(query.n), counts.size)
        return draw_urn(counts + self.pseudo_count, self.scale, draws, noise)

    def proportions(self, value: list[int], *, n: int) -> Float[np.ndarray, " classes"]:
        """Class proportions of n tasks from a released value, the pseudo-counts taken out."""
        drawn = np.asarray(value, dtype=np.float64)
        total = n + drawn.size * self.pseudo_count
        return project_to_simplex((total * drawn / drawn.sum() - self.pseudo_count) / n)

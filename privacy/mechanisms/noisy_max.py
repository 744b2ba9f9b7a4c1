"""Release the index of the best of some scores: permute-and-flip, or report-noisy-max, in integers.

>>> from privacy.query import Unit
>>> votes = Query("toy", "votes", np.array([40, 38, 2]), Unit.CONSENSUS_LABEL, n=80, l1=2.0)
>>> NoisyMax(epsilon=1.0).probability(votes).round(3)
array([0.816, 0.184, 0.   ])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Integer

from privacy.accounting import covering_scale, exact, keep_declared
from privacy.mechanism import Json, Noise, PureEvent
from privacy.mechanisms.laplace import draw_by_scale
from privacy.mechanisms.lattice_laplace import draw_geometric
from privacy.query import Query

__all__ = ["NoisyMax"]

NODES = 64  # quadrature nodes of each piece of an integral


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """Release the index of one score; better scores are likelier.

    The law is that of the index of the largest score_i + E_i, with E_i independent and exponential of mean
    spread / epsilon; the sampler draws no real number. Only the index is released.

    Parameters
    ----------
    epsilon
        Price of one release, > 0 and finite.
    spread
        **Public** bound, > 0, on the change of the difference of two scores between neighbours: 2 if each
        score moves by at most 1, and 1 if these moves have one direction. None for the query's l1, which is
        such a bound: a task that moves from one class count to another changes their difference by 2.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    The query's value is a vector of two integer scores or more, higher is better. Real scores must first be
    rounded to a public grid: the spread is that of the rounded scores, in steps. NaN and infinity are on no
    grid; scores need no bound, as only their change between neighbours counts.

    **Guarantees.** With c scores and any b in (0, 1), the released score is below the best by
    (spread / epsilon) ln((c - 1) / b) or more with probability at most b. Its expectation is at least that
    of the exponential mechanism, of weights exp(epsilon score / spread). Equal scores are equally likely.
    The scale depends on public things only, and every vector of scores has a release.
    **Privacy.** Unit: the query's. Event: `PureEvent`. Let scores s become s', with s'_j - s_j <=
    s'_i - s_i + spread for all i and j, and fix E_j for j != i. Then i is released if E_i > T - s_i
    with T = max (s_j + E_j) over j != i, which has probability min(1, exp(-(T - s_i) / scale)).
    For s' the difference T - s_i is larger by at most the spread, so the probability is smaller by
    a factor of at most exp(spread / scale) <= exp(epsilon); averaging over the E_j keeps it.
    **Sampler.** Let s* be the best score. s_i + E_i exceeds s* with probability exp(-(s* - s_i) / scale),
    independently for each i, and surely for the best; the excess is exponential again, with one law for all
    that exceed. So each of these is the largest with equal probability. For integers that probability is
    P(g >= s* - s_i), g geometric: exact in integers, ties included.

    References
    ----------
    .. [1] McKenna, Sheldon, "Permute-and-flip: a new mechanism for differentially private
       selection", NeurIPS (2020).
    .. [2] Ding, Kifer, et al., "The permute-and-flip mechanism is identical to report-noisy-max
       with exponential noise", arXiv:2105.07260 (2021).

    Examples
    --------
    >>> from privacy.query import Unit
    >>> votes = np.array([40, 38, 2])
    >>> query = Query("toy", "class counts", votes, Unit.CONSENSUS_LABEL, n=80, l1=2.0)
    >>> NoisyMax(epsilon=1.0).probability(query).round(3)
    array([0.816, 0.184, 0.   ])
    """

    epsilon: float
    spread: float | int | None = None

    def __post_init__(self) -> None:
        keep_declared(self)
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")
        if self.spread is not None:
            covering_scale(_check_spread(self.spread), self.epsilon)

    def event(self, query: Query) -> PureEvent:
        """Describe a release of this query; raise ValueError if it has no vector of integer scores."""
        scores = _check_scores(query)
        return PureEvent(
            "report noisy max",
            self.epsilon,
            {"scale": self._scale(query), "n_scores": scores.size},
            arithmetic="exact",
        )

    def probability(self, query: Query) -> Float[np.ndarray, " scores"]:
        """Return each index's probability, for plans and audits; for private scores it is private too.

        Index i passes if s_i + E_i exceeds the best score. An index that passes is released with
        probability 1 / (1 + N), with N the number of others that pass. That is the integral over v in
        [0, 1] of E[(1 - v)^N], a polynomial. It is split into pieces on which it falls by few powers of e,
        so that quadrature is exact to the last digits.
        """
        scores = _check_scores(query).astype(np.float64)
        passes = np.exp((scores - scores.max()) / self._scale(query))
        node, weight = np.polynomial.legendre.leggauss(NODES)
        ends, share = [0.0, *(0.5**k for k in range(scores.size.bit_length(), -1, -1))], 0.0
        for low, high in pairwise(ends):
            v = low + (high - low) / 2 * (node + 1)
            log_one = np.log1p(-passes[:, None] * v)  # of E[(1 - v)^1 if it passes, else ^0]
            others = np.exp(log_one.sum(axis=0) - log_one)
            share = share + others @ weight * (high - low) / 2
        return np.asarray(passes * share)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw the index of one score; only the ledger calls this."""
        return self.draw_all((query,), noise)[0]

    def draw_all(self, queries: Sequence[Query], noise: Noise) -> list[Json]:
        """Draw the index of one score of each query, one call per scale; only the ledger calls this."""
        scores = [_check_scores(query).tolist() for query in queries]
        slacks = draw_by_scale(
            partial(draw_geometric, noise),
            [self._scale(query) for query in queries],
            [len(one) for one in scores],
        )
        return [_choose(*pair, noise) for pair in zip(scores, slacks, strict=True)]

    def _scale(self, query: Query) -> float:
        """Return the scale of the noise for a query; public."""
        spread = query.l1 if self.spread is None else self.spread
        return covering_scale(_check_spread(spread), self.epsilon)


def _choose(scores: Sequence[int], slacks: Sequence[int], noise: Noise) -> int:
    """Return a uniform index among those whose score is below the best by at most their slack."""
    best = max(scores)
    passing = [
        i for i, (score, g) in enumerate(zip(scores, slacks, strict=True)) if g >= best - score
    ]
    return passing[noise.uniform_integer(len(passing))]


def _check_scores(query: Query) -> Integer[np.ndarray, " scores"]:
    scores = query.value
    if not isinstance(scores, np.ndarray):
        raise ValueError("scores must be a one-dimensional integer array, got several arrays")
    if not (scores.ndim == 1 and scores.dtype.kind in "iu"):
        raise ValueError(
            f"scores must be a one-dimensional integer array, got {scores.dtype} of shape {scores.shape}; "
            "round real scores to a public grid, with the spread in its steps"
        )
    if not scores.size >= 2:
        raise ValueError(f"scores must be two or more, got {scores.size}")
    return scores


def _check_spread(spread: float | int) -> float | int:
    if not 0 < spread < float("inf"):
        raise ValueError(f"spread must be > 0 and finite, or the query's l1 be, got {spread}")
    return spread

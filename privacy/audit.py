"""Audits: try to refute a claim of privacy by draws for two neighbours.

The draws give a lower bound on delta. A bound above the claim refutes it; no number of draws proves a
claim. `audit_mechanism` draws for two made-up vectors of counts through a temporary ledger, so that the
audit covers the whole path of a release, and not a model of it; `draw_releases` draws them the same way.
`audit_pair` takes two laws, `audit_losses` the privacy losses of earlier releases.

>>> from privacy.mechanisms import LatticeLaplace
>>> audit_mechanism(LatticeLaplace(epsilon=1.0), (3, 3), draws=100).refutes(0.0)
False
"""

import math
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import scipy
from jaxtyping import Float, Int

from privacy.accounting import MAX_EPSILON, double_up
from privacy.ledger import Ledger
from privacy.mechanism import Interaction, Json, Mechanism, Question
from privacy.query import ONE_TASK, Part, Query, Unit, check_array, check_size, is_whole

__all__ = [
    "AuditBound",
    "Auditable",
    "DirichletLaw",
    "Law",
    "audit_losses",
    "audit_mechanism",
    "audit_pair",
    "check_claim",
    "check_numbers",
    "draw_releases",
    "hit_shares",
]

ROUNDING = 1e-9  # a loss of epsilon itself counts as a hit, for mechanisms that never exceed it


@runtime_checkable
class Law(Protocol):
    """The law of one data set's release: draws, and their log density or log probability."""

    def sample(
        self, draws: int, *, rng: np.random.Generator
    ) -> Float[np.ndarray, "draws coordinates"]:
        """Draw independent releases."""

    def log_density(
        self, release: Float[np.ndarray, "draws coordinates"]
    ) -> Float[np.ndarray, " draws"]:
        """Return the log density of releases; both laws of a pair with respect to one measure."""


@dataclass(frozen=True, slots=True)
class DirichletLaw:
    """The law of theta ~ Dir(shape), two shapes or more, each > 0.

    Examples
    --------
    >>> round(float(DirichletLaw((1.0, 1.0, 1.0)).log_density(np.array([[0.2, 0.3, 0.5]]))[0]), 4)
    0.6931
    """

    shape: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (len(self.shape) >= 2 and all(0 < a < np.inf for a in self.shape)):
            raise ValueError("shape must be two finite numbers > 0 or more")

    def sample(
        self, draws: int, *, rng: np.random.Generator
    ) -> Float[np.ndarray, "draws coordinates"]:
        """Draw in floating point: for audits of the law, not for release."""
        _check_draws(draws)
        return rng.dirichlet(self.shape, size=draws)

    def log_density(
        self, release: Float[np.ndarray, "draws coordinates"]
    ) -> Float[np.ndarray, " draws"]:
        """Return the log density with respect to all but one of the coordinates."""
        shape = np.asarray(self.shape)
        constant = scipy.special.gammaln(shape.sum()) - scipy.special.gammaln(shape).sum()
        return np.asarray(constant + scipy.special.xlogy(shape - 1, release).sum(axis=1))


@dataclass(frozen=True, slots=True)
class AuditBound:
    """A lower bound on the delta at `epsilon`, and the counts that it was computed from.

    `draws` is the number of releases of each data set, and `hits` counts those with a privacy loss of
    epsilon or more. `shares` are the bounds on the two probabilities: from below for the first, from above
    for the other. `tried` is the number of distinguishers among which the one counted was chosen, by other
    draws.
    """

    delta: float
    epsilon: float
    level: float
    draws: int
    hits: tuple[int, int]
    shares: tuple[float, float]
    tried: int = 1

    def least_epsilon(self, delta: float = 0.0) -> float:
        """Return a lower bound on the epsilon that holds at this delta; 0 if the draws show none."""
        check_claim(delta)
        often, seldom = self.shares
        return max(0.0, math.log((often - delta) / seldom)) if often > delta else 0.0

    def refutes(self, claim: float) -> bool:
        """Return whether (epsilon, claim) is refuted at this level."""
        check_claim(claim)
        return self.delta > claim


def audit_pair(
    first: Law,
    second: Law,
    *,
    epsilon: float,
    draws: int,
    rng: np.random.Generator,
    level: float = 0.999,
) -> AuditBound:
    """Return a lower bound on the delta of any (epsilon, delta) guarantee of these two laws.

    Parameters
    ----------
    first, second
        Laws of the releases of two neighbouring data sets, in this direction.
    epsilon
        Epsilon of the claim, in [0, 100].
    draws
        Number of draws from each law, >= 1.
    rng
        Seeded generator for the draws.
    level
        Probability that the bound holds, in (0, 1).

    Returns
    -------
    AuditBound
        Its `delta` is 0 if the draws show none.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Notes
    -----
    The event is that the log likelihood ratio reaches epsilon: it attains
    delta = P(event) - e^epsilon Q(event). The two probabilities have one-sided
    Clopper–Pearson bounds, each at half of 1 - level.

    **Guarantees.** The bound exceeds the true delta of the pair with probability at most 1 - level, for any
    log densities; wrong ones only make the audit weaker.

    References
    ----------
    .. [1] Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of
       the binomial", Biometrika 26 (1934).

    Examples
    --------
    >>> narrow, wide = DirichletLaw((50.0, 50.0)), DirichletLaw((5.0, 5.0))
    >>> audit_pair(
    ...     narrow, wide, epsilon=0.1, draws=1000, rng=np.random.default_rng(0)
    ... ).refutes(0.3)
    True
    """
    _check_draws(draws)
    _check_bound(epsilon, level)
    here, there = (first.sample(draws, rng=rng), second.sample(draws, rng=rng))
    losses = []
    for release in (here, there):
        with np.errstate(invalid="ignore"):  # infinity minus infinity counts as no hit
            losses.append(first.log_density(release) - second.log_density(release))
    return audit_losses(losses[0], losses[1], epsilon=epsilon, level=level)


def _check_draws(draws: int) -> None:
    """Raise ValueError unless draws are an integer of 1 or more."""
    if not (is_whole(draws) and draws >= 1):
        raise ValueError(f"draws must be an integer >= 1, got draws={draws}")


def _check_bound(epsilon: float, level: float) -> None:
    """Raise ValueError unless a bound can be computed at this epsilon and this level."""
    if not 0 <= epsilon <= MAX_EPSILON:
        raise ValueError(f"epsilon must be in [0, 100], got epsilon={epsilon}")
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got level={level}")


def check_numbers(what: str, value: np.ndarray) -> None:
    """Raise TypeError unless a value is an array of numbers; the message shows its type alone."""
    check_array(what, value)
    if value.dtype.kind not in "biuf":
        raise TypeError(f"{what} must be real numbers, got an array of {value.dtype}")


def check_claim(delta: float) -> None:
    """Raise ValueError unless a claimed delta is a probability."""
    if not 0 <= delta <= 1:
        raise ValueError(f"delta must be in [0, 1], got delta={delta}")


def audit_losses(
    first: Float[np.ndarray, " draws"],
    second: Float[np.ndarray, " draws"],
    *,
    epsilon: float,
    level: float = 0.999,
) -> AuditBound:
    """Return a lower bound on delta from the privacy losses of earlier releases.

    Parameters
    ----------
    first, second
        log P(release) - log Q(release) for releases drawn from P, and for as many drawn from Q.
    epsilon, level
        As for `audit_pair`, errors included.

    Examples
    --------
    >>> loss = np.array([1.0] * 90 + [-1.0] * 10)
    >>> bound = audit_losses(loss, -loss, epsilon=0.5, level=0.95)
    >>> bound.hits, round(bound.least_epsilon(), 2)
    ((90, 10), 1.54)
    """
    _check_bound(epsilon, level)
    for loss in (first, second):
        check_numbers("losses", loss)
    if not (first.ndim == 1 and first.shape == second.shape and first.size >= 1):
        raise ValueError(
            f"draws must be equally many, 1 or more, got {first.shape} and {second.shape}"
        )
    draws = first.size
    often, seldom = (int((loss > epsilon - ROUNDING).sum()) for loss in (first, second))
    low, high = (float(share) for share in hit_shares(often, seldom, draws, level))
    delta = max(0.0, low - math.exp(epsilon) * high)
    return AuditBound(delta, epsilon, level, draws, (often, seldom), (low, high))


def hit_shares(
    often: int | Int[np.ndarray, " events"],
    seldom: int | Int[np.ndarray, " events"],
    draws: int,
    level: float,
) -> tuple[Float[np.ndarray, "*events"], Float[np.ndarray, "*events"]]:
    """Return bounds on two probabilities, from below on the first and from above on the second.

    The bounds are Clopper and Pearson's, each at `level` on both sides, from hits in equal numbers of
    draws.

    >>> low, high = hit_shares(9, 0, 10, level=0.9)
    >>> round(float(low), 3), round(float(high), 3)
    (0.606, 0.259)
    """
    tail, quantile = (1 - level) / 2, scipy.special.betaincinv
    often, seldom = np.asarray(often), np.asarray(seldom)
    low = quantile(np.maximum(often, 1), draws - often + 1, tail)
    high = quantile(seldom + 1, np.maximum(draws - seldom, 1), 1 - tail)
    return np.where(often > 0, low, 0.0), np.where(seldom < draws, high, 1.0)


@runtime_checkable
class Auditable(Mechanism, Protocol):
    """A mechanism on class counts that computes the likelihood of its releases."""

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Return the log probability of releases, up to a constant that neighbouring queries share."""


def audit_mechanism(
    mechanism: Auditable,
    counts: Sequence[int],
    *,
    draws: int = 20_000,
    level: float = 0.999,
) -> AuditBound:
    """Try to refute a mechanism's claim by its real draws for two neighbouring vectors of counts.

    Parameters
    ----------
    mechanism
        The mechanism to audit, with its public parameters.
    counts
        Made-up class counts of two classes or more, the first >= 1; the neighbour has one task of
        the first class in the second.
    draws
        Number of draws from each of the two, >= 1.
    level
        Probability that the bound holds, in (0, 1).

    Returns
    -------
    AuditBound
        Lower bounds on the delta at the claimed epsilon, and on epsilon at a delta; a sound mechanism is
        refuted with probability at most 1 - level.

    Raises
    ------
    TypeError
        If the mechanism has no `log_likelihood`.
    ValueError
        If the counts have no neighbour, the claimed delta is not below 1/n, or the claimed epsilon is above
        100; then nothing is drawn.

    Notes
    -----
    The neighbours' difference is one direction of many: choose counts at which the mechanism is weakest. No
    audit proves a claim.

    Examples
    --------
    >>> from privacy.mechanisms import LatticeLaplace
    >>> bound = audit_mechanism(LatticeLaplace(epsilon=1.0), (3, 3), draws=500)
    >>> bound.refutes(0.0), 0.0 < bound.least_epsilon() <= 1.0
    (False, True)
    """
    if not isinstance(mechanism, Auditable):
        raise TypeError(f"mechanism must be auditable, got {type(mechanism).__name__}")
    if not all(map(is_whole, counts)):
        raise ValueError("counts must be one integer for each class")
    if not (len(counts) >= 2 and counts[0] >= 1 and min(counts) >= 0):
        raise ValueError("counts must be of 2 classes or more, the first of them >= 1")
    check_size(sum(counts))
    here = np.array(counts, dtype=np.int64)
    there = here.copy()
    there[:2] += (-1, 1)
    one, other = (_query(value) for value in (here, there))
    cost = mechanism.event(one).cost()
    if not cost.delta * one.n < 1:
        raise ValueError(f"delta must be < 1/n, got delta={float(cost.delta)}, n={one.n}")
    _check_bound(float(cost.epsilon), level)  # before draws that take long
    losses = [
        mechanism.log_likelihood(one, drawn) - mechanism.log_likelihood(other, drawn)
        for drawn in (np.array(draw_releases(mechanism, query, draws)) for query in (one, other))
    ]
    return audit_losses(losses[0], losses[1], epsilon=float(cost.epsilon), level=level)


def _query(counts: Int[np.ndarray, " classes"]) -> Query:
    """Return the query of made-up class counts."""
    n = int(counts.sum())
    return Query("trial", "class counts", counts, Unit.CONSENSUS_LABEL, n, l1=ONE_TASK)


def draw_releases(
    mechanism: Mechanism | Interaction,
    query: Query,
    draws: int,
    questions: Sequence[Question] = (),
) -> list[Json]:
    """Draw independent releases of one query through a temporary ledger.

    Parameters
    ----------
    mechanism
        Mechanism to audit.
    query
        Made-up data; each draw comes from its own cell of a partition whose cells hold equal data.
    draws
        Number of releases, >= 1.
    questions
        For an interaction: the questions of each draw, in turn.

    Returns
    -------
    list
        The released values; for an interaction, the list of its answers.

    Examples
    --------
    >>> from privacy.mechanisms import LatticeLaplace
    >>> query = Query("trial", "counts", np.array([3, 3]), Unit.CONSENSUS_LABEL, 6, l1=ONE_TASK)
    >>> [sum(drawn) for drawn in draw_releases(LatticeLaplace(1.0), query, 2)]
    [6, 6]
    """
    _check_draws(draws)
    asked = tuple(questions)  # an iterator would have none left after the first draw
    cells = [replace(query, part=Part("trial", str(number))) for number in range(draws)]
    cost = mechanism.event(query).cost()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite", key=secrets.token_bytes(32))
        ledger.open_budget(
            query.dataset,
            unit=query.unit,
            epsilon=double_up(cost.epsilon),  # disjoint cells together cost as much as one
            delta=double_up(cost.delta),
            n=query.n_records,
        )
        if isinstance(mechanism, Mechanism):
            return [release.value for release in ledger.release_all(mechanism, cells)]
        return [
            [answer.value for answer in ledger.interact_all(mechanism, cell, asked)]
            for cell in cells
        ]

"""A mechanism on trial: real draws for two made-up neighbours, and what they prove against its price.

The draws come as all draws do, through a ledger, here one that is thrown away. What is audited is
therefore the whole path of a release, and not a model of it.
"""

import secrets
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from privacy.audit import AuditBound, audit_losses
from privacy.counts import ONE_TASK
from privacy.ledger.ledger import Ledger
from privacy.mechanism import Mechanism
from privacy.query import Part, Query, Unit, check_size

__all__ = ["Auditable", "audit_mechanism"]


@runtime_checkable
class Auditable(Mechanism, Protocol):
    """A mechanism on class counts that knows how likely its releases are."""

    def log_likelihood(
        self, query: Query, releases: Int[np.ndarray, "draws classes"]
    ) -> Float[np.ndarray, " draws"]:
        """Log probability of releases, up to what neighbouring queries share."""


def audit_mechanism(
    mechanism: Auditable,
    counts: Sequence[int],
    *,
    draws: int = 20_000,
    level: float = 0.999,
) -> AuditBound:
    """Try to refute what a mechanism claims, by its real draws for two neighbouring vectors of counts.

    Parameters
    ----------
    mechanism
        To be tried, with its public parameters.
    counts
        Made-up class counts of two classes or more, the first >= 1; the neighbour has one task of
        the first class in the second.
    draws
        From each of the two, >= 1.
    level
        Probability that the bound holds, in (0, 1).

    Returns
    -------
    AuditBound
        Lower bounds on the delta at the claimed epsilon, and on epsilon at a delta; a sound
        mechanism is refuted with probability at most 1 - level.

    Raises
    ------
    TypeError
        If the mechanism does not know how likely its releases are.
    ValueError
        If the counts have no neighbour, or the claimed delta is not below 1/n.

    Notes
    -----
    The neighbours' difference is one direction of many: choose counts where the mechanism is at
    its weakest. No trial proves a claim.

    Examples
    --------
    >>> from privacy.mechanisms.laplace import LatticeLaplace
    >>> bound = audit_mechanism(LatticeLaplace(epsilon=1.0), (3, 3), draws=500)
    >>> bound.refutes(0.0), 0.0 < bound.least_epsilon() <= 1.0
    (False, True)
    """
    if not isinstance(mechanism, Auditable):
        raise TypeError(f"mechanism must be auditable, got {type(mechanism).__name__}")
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
    losses = [
        mechanism.log_likelihood(one, drawn) - mechanism.log_likelihood(other, drawn)
        for drawn in (_draw(mechanism, query, draws) for query in (one, other))
    ]
    return audit_losses(losses[0], losses[1], epsilon=float(cost.epsilon), level=level)


def _query(counts: Int[np.ndarray, " classes"], part: Part | None = None) -> Query:
    """Class counts of nobody's tasks."""
    n = int(counts.sum())
    return Query("trial", "class counts", counts, Unit.CONSENSUS_LABEL, n, l1=ONE_TASK, part=part)


def _draw(mechanism: Mechanism, query: Query, draws: int) -> Int[np.ndarray, "draws classes"]:
    """Independent releases of one query, as of so many disjoint groups with the same counts."""
    counts: Any = query.value
    cells = [_query(counts, Part("trial", str(number))) for number in range(draws)]
    cost = mechanism.event(query).cost()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite", key=secrets.token_bytes(32))
        ledger.open_budget(
            "trial",
            unit=Unit.CONSENSUS_LABEL,
            epsilon=_above(cost.epsilon),
            delta=float(cost.delta),
            n=query.n,
        )
        return np.array([release.value for release in ledger.release_all(mechanism, cells)])


def _above(epsilon: Fraction) -> float:
    """A budget that surely covers this."""
    return float(epsilon) * 2 + 1

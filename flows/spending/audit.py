"""An audit of a privacy mechanism for the terminal: its names, and the outcome in sentences."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from flows.settings import SettingsError
from privacy import Auditable, AuditBound, audit_mechanism
from privacy.mechanisms import COUNT_MECHANISMS

__all__ = ["trial"]

MECHANISMS = {
    re.sub("(?<=[a-z])(?=[A-Z])", "_", one.__name__).lower(): one for one in COUNT_MECHANISMS
}


def trial(
    name: str, *, epsilon: float, delta: float, floor: int, counts: str, draws: int, level: float
) -> dict[str, Any]:
    """Audit the mechanism of that name.

    Raises SettingsError for an unknown name, which lists the known ones, and for a claim or counts out of
    range.
    """
    try:
        values = tuple(int(count) for count in counts.split(","))
    except ValueError:
        raise SettingsError(
            f"counts must be integers with commas between, got {counts!r}"
        ) from None
    if name not in MECHANISMS:
        raise SettingsError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}")
    try:
        kind = MECHANISMS[name]
        mechanism = kind(*(epsilon, delta, floor)[: len(fields(kind))])
        return _report(mechanism, audit_mechanism(mechanism, values, draws=draws, level=level))
    except ValueError as error:  # every number here is the caller's own, and public
        raise SettingsError(str(error)) from None


def _report(mechanism: Auditable, bound: AuditBound) -> dict[str, Any]:
    """The claim, what the draws prove, and whether that refutes it."""
    claim = float(getattr(mechanism, "delta", 0.0))
    refuted, least = bound.refutes(claim), bound.least_epsilon(claim)
    verdict = "Refuted: the claim does not hold" if refuted else "Not refuted, which is no proof"
    return {
        "mechanism": repr(mechanism),
        "epsilon": bound.epsilon,
        "delta": claim,
        "least_epsilon": least,
        "least_delta": bound.delta,
        "draws": bound.draws,
        "hits": list(bound.hits),
        "level": bound.level,
        "refuted": refuted,
        "sentences": [
            f"{mechanism!r} claims epsilon {bound.epsilon:g}, delta {claim:g}.",
            f"{bound.draws:,} releases of each of two neighbours: a loss of epsilon or more in "
            f"{bound.hits[0]:,} of the one and {bound.hits[1]:,} of the other.",
            f"So, with {bound.level:.1%} confidence, epsilon at that delta is at least "
            f"{least:.4g}, and delta at that epsilon at least {bound.delta:.4g}.",
            f"{verdict}.",
        ],
    }

"""The campaign behind publications without a run: its terms, and the budget that its first one declares.

>>> open_campaign(ledger, Path("state"), terms, unit=Unit.ANSWER, n=100)  # doctest: +SKIP
4.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flows.settings import NAME, SettingsError
from privacy import Cost, LatticeLaplace, LatticeLaplaceLaw, Ledger, Unit
from privacy.accounting import price_text

__all__ = ["PublicationTerms", "check_terms", "noise_of", "open_campaign"]

KEY = r"[A-Za-z0-9._-]{1,60}"


@dataclass(frozen=True, slots=True)
class PublicationTerms:
    """What every publication without a run is asked for.

    Parameters
    ----------
    campaign
        Its name in the ledger: a run whose settings have this name spends the same budget.
    epsilon
        Price of this publication.
    budget
        The campaign's whole budget, declared by its first publication; None is what was declared.
    publication
        The key under which it is published once, whatever becomes of the data; None where it is known
        by its counts.
    level
        That of the intervals.
    begun
        Whether the campaign must have begun before.
    """

    campaign: str
    epsilon: float
    budget: float | None = None
    publication: str | None = None
    level: float = 0.95
    begun: bool = False


def check_terms(terms: PublicationTerms) -> None:
    """Raise SettingsError if a term is out of its range."""
    if not re.fullmatch(NAME, terms.campaign):
        raise SettingsError(
            "--campaign must be a name of letters, digits, dots, dashes and underscores, at most 200, got "
            f"{terms.campaign!r}"
        )
    key = terms.publication
    if key is not None and not re.fullmatch(KEY, key):
        raise SettingsError(
            "--publication must be 1 to 60 letters, digits, dots, dashes and underscores, with a date in "
            f"place of its pattern, got {key!r}"
        )
    if not 0 < terms.epsilon < np.inf:
        raise SettingsError(f"--epsilon must be above 0 and finite, got {terms.epsilon}")
    if not 0 < terms.level < 1:
        raise SettingsError(f"--level must be in (0, 1), got {terms.level:g}")
    if terms.budget is not None and not terms.epsilon <= terms.budget < np.inf:
        raise SettingsError(
            "--budget, of all that the campaign ever publishes, must be finite and at least --epsilon, the "
            f"price of this publication: {price_text(terms.epsilon)}, got {terms.budget}"
        )


def noise_of(terms: PublicationTerms, n_counts: int, *, l1: float) -> tuple[LatticeLaplaceLaw, int]:
    """Return the noise on counts, and by how much one errs at most; SettingsError where it has no such law.

    To be called before a budget is declared or anything is paid: what is paid must be of use.
    """
    try:
        law = LatticeLaplace(terms.epsilon).law(n_counts, l1=l1)
        return law, law.half_width(terms.level)
    except ValueError as error:
        raise SettingsError(
            f"--epsilon {price_text(terms.epsilon)} and --level {terms.level:.12g} give no interval of "
            f"{n_counts:,} counts: {error}; nothing was spent"
        ) from None


def open_campaign(
    ledger: Ledger, state: Path, terms: PublicationTerms, *, unit: Unit, n: int
) -> Cost:
    """Return the campaign's budget, after declaring it if this is its first publication."""
    known = terms.campaign in ledger.datasets()
    if not known and terms.begun:
        raise SettingsError(
            f"the campaign {terms.campaign!r} must have begun (--begun), and {state} does not know it: its "
            "state is lost or elsewhere, and without it the same budget would be spent again; put it back"
        )
    if not known and terms.budget is None:
        raise SettingsError(
            f"the campaign {terms.campaign!r} is new: --budget must say how much all that it ever publishes "
            "may cost"
        )
    if not known:
        ledger.open_budget(
            terms.campaign, unit=unit, epsilon=float(terms.budget or 0), delta=0.0, n=n
        )
    declared = ledger.statement(terms.campaign, entries=0).budget
    if known and terms.budget is not None and terms.budget != float(declared.epsilon):
        raise SettingsError(
            f"the budget of the campaign {terms.campaign!r} is epsilon "
            f"{price_text(declared.epsilon, left=True)}, got "
            f"{price_text(terms.budget)}: leave --budget out, or raise it with crowdassay budget {state} "
            f"--dataset {terms.campaign} --raise-to"
        )
    return declared

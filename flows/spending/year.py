"""One plan for all that a campaign publishes in its planned runs: the split of its budget, and what it buys.

Public numbers alone decide: the settings, and how many tasks are labelled now and at the end.

>>> from flows.settings import PrivacySettings
>>> year = split_budget(PrivacySettings(epsilon=8.0, delta=1e-6, planned_runs=12), learns=True)
>>> year.counts, year.train, year.score, year.gate, year.cost().epsilon
(4.0, 3.6, 0.4, 4.0, Fraction(8, 1))
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, fields
from fractions import Fraction
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Any

from flows.settings import SettingsError
from privacy import Cost, LatticeLaplace
from privacy.accounting import exact, price_text, six_digits_down
from privacy.mechanisms import ExactLaw

if TYPE_CHECKING:
    from flows.settings import PrivacySettings, Settings

__all__ = [
    "Year", "check_year_prices", "dearest", "parse_year", "price_of", "split_budget", "with_choice",
    "year_months", "year_of",
]  # fmt: skip

COUNTS = Fraction(1, 2)  # of what corrections leave, where a model is trained
SCORE = Fraction(1, 10)  # of what learning takes
SELECT = Fraction(1, 8)  # of the rest, where training chooses among candidates
LEAST_LEARNING = Fraction(1, 10**4)  # of the budget
OVERFIT = 0.1  # the gap whose power the preview states


@dataclass(frozen=True, slots=True)
class Year:
    """The prices at which each cohort of a year is asked, once for each; 0 for what is not asked.

    Tasks to train on and tasks of the holdout are different ones, so that the gate goes beside training and
    score; cohorts are different tasks, so that all of them cost what one does.
    """

    counts: float
    correction: float
    train: float
    select: float
    score: float
    gate: float
    delta: float

    def cost(self) -> Cost:
        """Return the price of all runs together."""
        return price_of([self])

    def text(self) -> str:
        """Return it as a line of JSON, for the record of cohorts."""
        return json.dumps(asdict(self), sort_keys=True)


def price_of(years: Iterable[Year]) -> Cost:
    """Return what cohorts asked at these prices cost together: of each partition the dearest counts.

    Examples
    --------
    >>> cheap, dear = Year(4.0, 0, 3.0, 0, 1.0, 4.0, 0.0), Year(6.0, 0, 1.5, 0, 0.5, 2.0, 0.0)
    >>> float(price_of([cheap, dear]).epsilon)
    10.0
    """
    every = list(years)
    learning = (
        max(exact(one.train) + exact(one.select) + exact(one.score), exact(one.gate))
        for one in every
    )
    epsilon = (
        max(exact(one.counts) for one in every)
        + max(exact(one.correction) for one in every)
        + max(learning)
    )
    return Cost(epsilon, max(exact(one.delta) for one in every))


def dearest(years: Iterable[Year]) -> Year:
    """Return the highest of each price: what any task of these cohorts was asked at, at most."""
    return Year(*map(max, zip(*map(astuple, years), strict=True)))


def parse_year(text: str) -> Year:
    """Read back what `Year.text` wrote; ValueError for anything else."""
    found = json.loads(text)
    if not (isinstance(found, dict) and set(found) == {one.name for one in fields(Year)}):
        raise ValueError("not the prices of a year")
    return Year(**found)


def split_budget(privacy: PrivacySettings, *, learns: bool) -> Year:
    """Split a whole budget among what each cohort is asked, from public numbers alone.

    Parameters
    ----------
    privacy
        The budget; `proportions_epsilon`, where it is given, is the price of the counts.
    learns
        Whether a model is trained and judged.

    Returns
    -------
    Year
        Corrections take what the settings say; of the rest counts take half, or all without a model. A tenth
        of what learning takes is for the score, the gate has as much as training and score together, and the
        delta is training's.

    Notes
    -----
    **Guarantees.** The whole never costs more than the budget. Equal settings give equal prices, whatever the
    data are.

    Half for counts: each cohort's noise adds to that of the others, so that after twelve of them a count errs
    by sqrt(12) times a cohort's noise, which falls nearly exponentially with the price. Measured, with the
    alternatives, by `python -m benchmarks.flows.year`.
    """
    correction = exact(privacy.correction_epsilon or 0)
    rest = exact(privacy.epsilon) - correction
    counts = rest * COUNTS if learns else rest
    if "proportions_epsilon" in privacy.model_fields_set:
        counts = min(rest, exact(privacy.proportions_epsilon))
    counts_price = six_digits_down(counts)
    learning = rest - exact(counts_price) if learns else Fraction(0)
    if (
        learning < exact(privacy.epsilon) * LEAST_LEARNING
    ):  # a rest of rounding, too small for any noise
        return Year(counts_price, float(correction), 0.0, 0.0, 0.0, 0.0, 0.0)
    score = six_digits_down(learning * SCORE)
    training = learning - exact(score)
    train, select = (six_digits_down(training), 0.0) if privacy.delta else with_choice(training)
    gate = six_digits_down(learning)
    return Year(counts_price, float(correction), train, select, score, gate, privacy.delta)


def with_choice(price: Fraction) -> tuple[float, float]:
    """Divide a price between training and the choice among candidates."""
    select = six_digits_down(price * SELECT)
    return six_digits_down(price - exact(select)), select


def year_of(settings: Settings) -> Year | None:
    """Return the year that settings plan, None if they plan none."""
    privacy = settings.privacy
    if privacy is None or privacy.planned_runs == 1:
        return None
    from flows.spending.corrections import why_not_corrected  # a campaign without a year needs none

    if why_not_corrected(settings) is not None:
        privacy = privacy.model_copy(update={"correction_epsilon": None})
    return split_budget(privacy, learns=settings.model is not None and bool(settings.input.tasks))


def check_year_prices(year: Year, n_classes: int) -> None:
    """Raise SettingsError if a price is too small for the law of its noise, which intervals need."""
    # the gate's is above the score's
    for price, n_counts in ((year.counts, n_classes), (year.score, 2)):
        try:
            if price:
                LatticeLaplace(price).law(n_counts)
        except ValueError as error:
            raise SettingsError(
                f"[privacy]: epsilon must be larger for planned_runs, whose smallest share of it is "
                f"{price_text(price)}: {error}"
            ) from None


def year_months(
    settings: Settings, year: Year, *, n_tasks: int | None, used: Iterable[int] = ()
) -> list[dict[str, Any]]:
    """Return, run by run, what a year buys as the campaign grows to `planned_tasks`.

    Parameters
    ----------
    settings
        They plan a year, and declare the classes.
    year
        Its prices.
    n_tasks
        Labelled tasks today, if that is known; without `planned_tasks` the campaign grows as it did.
    used
        Labelled tasks of each cohort so far; those to come are of equal sizes.

    Returns
    -------
    list of dict
        `run`, from 1; `counts_l1`, the expected error of a group's counts, in labels over all classes, where
        each cohort has tasks in the group; and where sizes are known `n_tasks`, `n_holdout`, the gate's
        `threshold`, and its `power` against a gap of 0.1 for a model that is right on 8 tasks of 10.
    """
    privacy = settings.privacy
    if privacy is None or settings.classes is None:
        raise ValueError("settings must plan a year and declare the classes")
    law: ExactLaw = LatticeLaplace(year.counts).law(len(settings.classes))
    laws = accumulate(repeat(law, privacy.planned_runs), ExactLaw.plus)
    found: list[dict[str, Any]] = []
    sizes = _sizes(privacy, list(used), n_tasks)
    for run, total in enumerate(laws, start=1):
        row: dict[str, Any] = {"run": run, "counts_l1": total.expected_l1}
        if sizes is not None:
            row |= {"n_tasks": sum(sizes[:run]), **_gate(settings, year, sizes[:run])}
        found.append(row)
    return found


def _sizes(privacy: PrivacySettings, used: list[int], n_tasks: int | None) -> list[int] | None:
    """Return sizes of all planned cohorts, as far as public numbers predict them."""
    left = privacy.planned_runs - len(used)
    if left <= 0:
        return used
    now = sum(used)
    if privacy.planned_tasks is not None:
        end = max(now + left, privacy.planned_tasks)
    elif used:
        end = now + left * max(1, round(now / len(used)))
    elif n_tasks is not None:
        end = n_tasks * left  # as many again in every run
    else:
        return None
    grown = [now + math.ceil((end - now) * step / left) for step in range(left + 1)]
    return used + [after - before for before, after in pairwise(grown)]


def _gate(settings: Settings, year: Year, sizes: list[int]) -> dict[str, Any]:
    """Return what the gate will tell after cohorts of these sizes."""
    if not year.gate or settings.model is None:
        return {}
    from learners.holdout import ScoreCounts, planned_power  # for campaigns with a model alone

    held = settings.gate.holdout
    learnt = (1 - held) * (1 - settings.model.validation)
    train, holdout = (
        ScoreCounts((0,) * len(sizes), tuple(max(1, round(share * n)) for n in sizes), variance)
        for share, variance in (
            (learnt, LatticeLaplace(year.score).law(2).variance),
            (held, LatticeLaplace(year.gate).law(2).variance),
        )
    )
    threshold, power = planned_power(train, holdout, tolerance=OVERFIT)
    return {"n_holdout": holdout.size, "threshold": threshold, "power": power}

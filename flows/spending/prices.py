"""What a run would spend: the prices of its releases, from public numbers alone.

>>> preview(settings.state, settings, n_tasks=2_000)["asked"]  # doctest: +SKIP
{'epsilon': 3.5, 'delta': 0.0}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.settings import GRANULARITIES, Granularity, SettingsError, granularity_of
from flows.spending.account import (
    check_not_set_back,
    known_ledger,
    known_statement,
    numbers,
    open_account,
)
from flows.spending.cohorts import (
    CORRECTED,
    COUNTED,
    SPLIT,
    check_record_beside_ledger,
    known_sizes,
    known_years,
)
from flows.spending.year import Year, check_year_prices, price_of, year_months, year_of
from privacy import BudgetError, Cost, PlanUse, Statement, fits
from privacy.accounting import NOTHING, Account, Arithmetic, exact, price_text
from privacy.ledger import cost_text

if TYPE_CHECKING:
    from flows.settings import PrivacySettings, Settings

__all__ = ["check_budget", "preview", "propose_key"]

COUNTS, CORRECTION = "class counts", "corrections by gold"
YEAR_PARTITIONS = (COUNTED, CORRECTED, SPLIT)
ADDED = (COUNTS, CORRECTION)  # to the dearer of model and gate
PLAN_IT = ". With planned_releases one price pays for the counts of that many, at more noise"


def preview(folder: Path, settings: Settings, *, n_tasks: int | None = None) -> dict[str, Any]:
    """Return what a run of these settings on new data would ask for, from public numbers alone.

    No label is read. `n_tasks` is the public number of labelled tasks; if it is None, that of the data
    set's budget is used. The gate's price is for the expected size of the holdout. `years` has, for
    each pattern of a publication key, the most publications of a calendar year and their price together,
    None where the plan pays for fewer; `affordable` is for how many publications all that is left pays.
    """
    privacy = settings.privacy
    if privacy is None or settings.classes is None:
        missing = "have no [privacy] section" if privacy is None else "do not declare the classes"
        raise SettingsError(f"the settings {missing}: a run of them would release nothing")
    found = known_statement(folder, settings.name)
    if n_tasks is None and found is not None:
        n_tasks = found.budgets[-1].n
    limit = Cost(exact(privacy.epsilon), exact(privacy.delta))
    budget, left = (limit, limit) if found is None else (found.budget, found.left)
    year = year_of(settings)
    if year is not None:
        check_year_prices(year, len(settings.classes))
        return _year_preview(folder, settings, privacy, year, n_tasks=n_tasks) | {
            "budget": numbers(budget), "left": numbers(left), "same_budget": budget == limit,
        }  # fmt: skip
    counts = _counts_price(privacy, len(settings.classes), found)
    parts = [
        counts,
        *_correction_price(settings, privacy),
        *_learning_prices(settings, privacy, n_tasks),
    ]
    series = _series(privacy, found, parts)
    return {
        "dataset": settings.name,
        "unit": str(privacy.unit),
        "parts": [
            {"what": what, "arithmetic": arithmetic, "note": note}
            | ({} if cost is None else numbers(cost))
            for what, cost, arithmetic, note in parts
        ],
        "budget": numbers(budget),
        "left": numbers(left),
        **_verdict(parts, budget, limit, left),
        "publication": privacy.publication,
        "affordable": series.affordable(left),
        "years": [
            {"publication": one.pattern, "publications": one.a_year}
            | ({} if (cost := series.price(one.a_year)) is None else numbers(cost))
            for one in GRANULARITIES
        ],
    }


def _year_preview(
    folder: Path, settings: Settings, privacy: PrivacySettings, year: Year, *, n_tasks: int | None
) -> dict[str, Any]:
    """Return what a planned year costs, what of that is paid, and what each of its runs buys."""
    sizes = known_sizes(folder, settings.name)
    paid, left = _paid_year(folder, settings)
    asked = _unpaid([*known_years(settings.state, settings.name), year], paid)
    fits = left is None or asked.within(left)
    return {
        "dataset": settings.name,
        "unit": str(privacy.unit),
        "parts": [
            {"what": what, "arithmetic": arithmetic, "note": note} | numbers(cost)
            for what, cost, arithmetic, note in _year_parts(year)
            if cost is not None
        ],
        "asked": numbers(asked),
        "fits": fits,
        "publication": privacy.publication,
        "affordable": max(0, privacy.planned_runs - len(sizes)) if fits else 0,
        "years": [],
        "year": {
            "price": numbers(year.cost()),
            "paid": numbers(paid),
            "planned": privacy.planned_runs,
            "used": len(sizes),
            "months": year_months(settings, year, n_tasks=n_tasks, used=sizes.values()),
        },
    }


def _unpaid(years: Iterable[Year], paid: Cost) -> Cost:
    """Return what cohorts asked at these prices add to what was paid."""
    price = price_of(years)
    return Cost(
        max(exact(0), price.epsilon - paid.epsilon), max(exact(0), price.delta - paid.delta)
    )


def _year_parts(year: Year) -> list[Price]:
    """Return the prices of a year by what they buy: each cohort is asked once, and none adds to another."""
    zero = exact(0)
    counts = Cost(exact(year.counts), zero)
    parts: list[Price] = [(COUNTS, counts, "exact", "each cohort once, in parallel")]
    if year.correction:
        price = Cost(exact(year.correction), zero)
        parts.append((CORRECTION, price, "exact", "the gold of each cohort once"))
    if year.train:
        trained = exact(year.train) + exact(year.select) + exact(year.score)
        note = f"each cohort once: training {price_text(year.train)}"
        note += f", selection {price_text(year.select)}" if year.select else ""
        price = Cost(trained, exact(year.delta))
        parts.append(("model", price, "double", f"{note}, score {price_text(year.score)}"))
        about = "each cohort's holdout once; in parallel with the model"
        parts.append(("gate", Cost(exact(year.gate), zero), "exact", about))
    return parts


def _paid_year(folder: Path, settings: Settings) -> tuple[Cost, Cost | None]:
    """Return what a campaign has paid for its cohorts, and what is left of its budget, if it has one."""
    ledger = known_ledger(folder)
    if ledger is None or settings.name not in ledger.datasets():
        return NOTHING, None
    account, found = Account(), ledger.statement(settings.name)
    for entry in found.entries:
        if entry.part is not None and entry.part.partition in YEAR_PARTITIONS:
            account.add(entry.part, entry.cost)
    return account.spent, found.left


def propose_key(settings: Settings, *, runs_a_year: float = math.inf) -> str | None:
    """Say which publication key fits a schedule and the budget, or what the settings' own costs a year.

    Parameters
    ----------
    settings
        The campaign's settings.
    runs_a_year
        How often the schedule runs in a year, at most.

    Returns
    -------
    str or None
        One or two sentences; None where a run would release nothing.

    Notes
    -----
    **Guarantees.** A key that is proposed is the finest that what is left of the budget pays for during a
    calendar year. No label is read.
    """
    privacy = settings.privacy
    if privacy is None or settings.classes is None:
        return None
    found, key = preview(settings.state, settings), privacy.publication
    if privacy.planned_runs > 1:
        return _planned_words(privacy, found["affordable"], runs_a_year)
    now = None if key is None else granularity_of(key)
    affordable = found["affordable"]
    paid = (one for one in GRANULARITIES if min(one.a_year, runs_a_year) <= affordable)
    chosen = now or next(paid, None)
    about = _year_words(chosen, found, runs_a_year) + (
        "" if privacy.planned_releases > 1 else PLAN_IT
    )
    if now is not None:
        return f'publication = "{key}": {about}'
    asked = "" if chosen is None else f'Proposed: [privacy] publication = "{chosen.pattern}": '
    why = "without a publication key, two equal publications show that no data changed"
    if key is not None:
        why = f'publication = "{key}" stays the same, and every run publishes what it did before'
    return f"{why}. {asked}{about}"


def _planned_words(privacy: PrivacySettings, left: int, runs_a_year: float) -> str:
    """Say how many planned runs are left, and whether a schedule may use them up within a calendar year."""
    key = privacy.publication
    cohort = "every run with new tasks" if key is None else f'"{key}"'
    line = f"planned_runs = {privacy.planned_runs:,}: {left:,} are left, paid together; a cohort for {cohort}"
    most = runs_a_year
    if key is not None:
        one = granularity_of(key)
        most = min(runs_a_year, 1 if one is None else one.a_year)
    if not left < most < math.inf:
        return line
    return f"{line}. A calendar year may bring {most:,.0f}: tasks that join after the last one wait"


def _year_words(one: Granularity | None, found: dict[str, Any], runs_a_year: float) -> str:
    """Return a phrase for what a calendar year costs under keys of one granularity, if there is one."""
    unknown = any("epsilon" not in part for part in found["parts"])
    apart = " (without the gate, whose price depends on the number of labelled tasks)"
    n_paid = found["affordable"]
    pays = f"what is left of the budget pays for {n_paid:,} publication{'s' * (n_paid != 1)}"
    pays += apart if unknown else ""
    if one is None:
        return f"{pays}, which is less than one a year"
    n = int(min(one.a_year, runs_a_year))
    return f"each {one.name} is paid anew, at most {n:,} a calendar year; {pays}"


def check_budget(settings: Settings) -> str | None:
    """Refuse a run whose releases cost more than its whole budget; return a warning if little is left.

    No table is read. The gate is left out, because its price depends on the data's size. A release that
    was paid before is free, so a run on a budget that has been spent from is warned of and not refused.

    Raises
    ------
    BudgetError
        If nothing is spent, and the settings ask for more than their own budget.
    SettingsError
        If runs are planned, and the ledger is on a server; or if a price is too small for its noise's law.
    LedgerError
        If the data set has another budget than the settings say.
    LedgerSetBack
        If the ledger is older than a run that it has paid for.
    """
    privacy = settings.privacy
    if privacy is None or settings.classes is None:
        return None
    if privacy.planned_runs > 1:
        check_record_beside_ledger()
    if privacy.correction_epsilon is not None:
        from flows.spending.corrections import check_correction_price  # others need none

        check_correction_price(privacy, len(settings.classes))
    check_not_set_back(settings, known_ledger(settings.state))
    found = known_statement(settings.state, settings.name)
    limit = Cost(exact(privacy.epsilon), exact(privacy.delta))
    if found is not None:
        open_account(settings, privacy, n=found.budgets[-1].n)  # refuses another budget
    left = limit if found is None else found.left
    year = year_of(settings)
    if year is not None:
        check_year_prices(year, len(settings.classes))
        return _check_year(settings, privacy, year, left, limit)
    counts = _counts_price(privacy, len(settings.classes), found)
    asked = _asked(
        [counts, *_correction_price(settings, privacy), *_learning_prices(settings, privacy, None)]
    )
    if asked.within(left):
        return None
    if privacy.skips_unpaid:
        return (
            f"{_rest(privacy, left, limit)}. A run on new data asks {cost_text(asked)}: a stage that is not "
            "covered will be skipped"
        )
    if found is None or not found.n_entries:
        raise BudgetError(settings.name, privacy.unit, limit, NOTHING, asked)
    return (
        f"{_rest(privacy, left, limit)}. A run on new data asks {cost_text(asked)}: unless most of it was "
        "paid before, this one will be refused when it comes to release"
    )


def _rest(privacy: PrivacySettings, left: Cost, limit: Cost) -> str:
    rest, whole = (cost_text(one, left=True) for one in (left, limit))
    return f"{rest} per {privacy.unit} is left of {whole}"


def _check_year(
    settings: Settings, privacy: PrivacySettings, year: Year, left: Cost, limit: Cost
) -> str | None:
    """Refuse, or warn of, a year that what is left of the budget does not cover."""
    paid, _ = _paid_year(settings.state, settings)
    asked = _unpaid([*known_years(settings.state, settings.name), year], paid)
    if asked.within(left):
        return None
    if not privacy.skips_unpaid:
        raise BudgetError(settings.name, privacy.unit, limit, limit - left, asked)
    return (
        f"{_rest(privacy, left, limit)}, and the planned runs ask {cost_text(asked)} more: a stage that is "
        "not covered will be skipped"
    )


Price = tuple[str, Cost | None, Arithmetic, str]
"""What is priced, the price if it is known, how its noise is drawn, and a note."""


def _counts_price(privacy: PrivacySettings, n_classes: int, found: Statement | None) -> Price:
    """Return the price of the class counts: all groups together, or their plan if it is not paid yet."""
    from flows.spending.noise_choice import count_noise  # a statement needs none

    epsilon, delta = exact(privacy.proportions_epsilon), exact(privacy.proportions_delta)
    n_planned, paid = privacy.planned_releases, _paid_plan(privacy, found)
    if paid is not None:
        left = n_planned - paid.used
        note = f"paid by entry {paid.entry}; {left} of {n_planned} releases left"
        return COUNTS, NOTHING, paid.plan.arithmetic, note
    if n_planned > 1:
        return COUNTS, Cost(epsilon, delta), "exact", f"a plan of {n_planned} releases"
    noise = count_noise(privacy, n_classes)
    return COUNTS, Cost(epsilon, exact(noise.delta)), "exact", f"{noise.name} noise"


def _paid_plan(privacy: PrivacySettings, found: Statement | None) -> PlanUse | None:
    """Return the plan of class counts that these settings ask for, if it is paid."""
    from flows.spending.releases import PLAN  # a statement needs none

    limit = Cost(exact(privacy.proportions_epsilon), exact(privacy.proportions_delta))
    asked = PLAN, limit, privacy.planned_releases
    for one in () if found is None or privacy.planned_releases == 1 else found.plans:
        if (one.name, one.plan.cost(), one.n_releases) == asked:
            return one
    return None


@dataclass(frozen=True, slots=True)
class _Series:
    """Publications under one key after another: the price of all, that of each, and how many there can be."""

    once: Cost
    each: Cost
    at_most: float

    def price(self, n: int) -> Cost | None:
        """Return the price of `n` of them; None if there cannot be as many."""
        return None if n > self.at_most else self.once + self.each.times(n)

    def affordable(self, left: Cost) -> int:
        """Return how many of them a budget's rest pays for."""
        if not self.once.within(left):
            return 0
        n = self.at_most if self.each == NOTHING else fits(left - self.once, self.each)
        return int(min(n, self.at_most))


def _series(privacy: PrivacySettings, found: Statement | None, parts: list[Price]) -> _Series:
    """Return publications of these parts; a plan pays for the counts of as many as it has releases left."""
    counts, *others = parts
    if privacy.planned_releases == 1:
        return _Series(NOTHING, _asked(parts), math.inf)
    paid = _paid_plan(privacy, found)
    left = privacy.planned_releases - (0 if paid is None else paid.used)
    return _Series(_asked([counts]), _asked(others), left)


def _correction_price(settings: Settings, privacy: PrivacySettings) -> list[Price]:
    """Return the price of the correction by gold, if the settings ask for one that can be made."""
    from flows.spending.corrections import why_not_corrected  # a statement needs none

    if privacy.correction_epsilon is None or why_not_corrected(settings) is not None:
        return []
    price = Cost(exact(privacy.correction_epsilon), exact(0))
    return [(CORRECTION, price, "exact", f"{settings.input.gold_sampling} gold")]


def _learning_prices(
    settings: Settings, privacy: PrivacySettings, n_tasks: int | None
) -> list[Price]:
    """Return the prices of training and of the gate; they have different tasks, so the dearer one counts."""
    from flows.spending.releases import gate_of  # for runs with a model alone
    from learners import ScoredTraining, Thresholdout

    model, gate = settings.model, settings.gate
    if model is None or not settings.input.tasks:
        return []
    delta = exact(model.delta_train) + exact(model.delta_components)
    training = Cost(sum(map(exact, model.epsilons.values()), exact(0)), delta)
    words = {"train": "training", "select": "selection"}
    note = ", ".join(
        f"{words.get(what, what)} {price_text(price)}" for what, price in model.epsilons.items()
    )
    if model.delta_train > 0:
        note += "; the delta is spent by noisy descent alone"
    trained = "model", training, ScoredTraining.arithmetic, note
    if n_tasks is None:
        unknown = "depends on the number of labelled tasks; give --tasks"
        return [trained, ("gate", None, Thresholdout.arithmetic, unknown)]
    size = max(1, round(gate.holdout * n_tasks))
    rows = privacy.max_tasks_per_subject or 1
    judge = gate_of(
        gate, training.epsilon, n=size, n_scored=size,  # which moves the threshold, and not the price
        epsilon_score=model.epsilon_score / rows, rows=rows,
    )  # fmt: skip
    price = Cost(2 * rows * gate.budget / (exact(judge.sigma) * size), exact(0))
    about = f"expected, for a holdout of {size:,} of {n_tasks:,} tasks; in parallel with the model"
    return [trained, ("gate", price, Thresholdout.arithmetic, about)]


def _verdict(parts: list[Price], budget: Cost, limit: Cost, left: Cost) -> dict[str, Any]:
    """Return whether the parts fit together into what is left; None if a price is unknown."""
    asked = _asked(parts)
    verdict: bool | None = asked.within(left) and budget == limit
    if verdict and any(cost is None for _, cost, _, _ in parts):
        verdict = None
    return {"asked": numbers(asked), "fits": verdict, "same_budget": budget == limit}


def _asked(parts: list[Price]) -> Cost:
    """Return the cost of the parts together whose price is known."""
    known = [(what, cost) for what, cost, _, _ in parts if cost is not None]
    asked = Cost.max([cost for what, cost in known if what not in ADDED] or [NOTHING])
    for _, cost in (one for one in known if one[0] in ADDED):
        asked = asked + cost
    return asked

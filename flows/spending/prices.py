"""What a run would spend: the prices of its releases, from public numbers alone.

>>> preview(settings.state, settings, n_tasks=2_000)["asked"]  # doctest: +SKIP
{'epsilon': 3.5, 'delta': 0.0}
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.settings import SettingsError
from flows.spending.account import (
    check_not_set_back,
    known_ledger,
    known_statement,
    numbers,
    open_account,
)
from privacy import BudgetError, Cost, Statement
from privacy.accounting import Arithmetic, exact
from privacy.ledger import cost_text

if TYPE_CHECKING:
    from flows.settings import PrivacySettings, Settings

__all__ = ["check_budget", "preview"]

NOTHING = Cost(exact(0), exact(0))


def preview(folder: Path, settings: Settings, *, n_tasks: int | None = None) -> dict[str, Any]:
    """Return what a run of these settings on new data would ask for, from public numbers alone.

    No label is read. `n_tasks` is the public number of labelled tasks; if it is None, that of the data
    set's budget is used. The gate's price is for the expected size of the holdout.
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
    counts = _counts_price(privacy, len(settings.classes), found)
    parts = [counts, *_learning_prices(settings, n_tasks)]
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
    }


def check_budget(settings: Settings) -> str | None:
    """Refuse a run whose releases cost more than its whole budget; return a warning if little is left.

    No table is read. The gate is left out, because its price depends on the data's size. A release that
    was paid before is free, so a run on a budget that has been spent from is warned of and not refused.

    Raises
    ------
    BudgetError
        If nothing is spent, and the settings ask for more than their own budget.
    LedgerError
        If the data set has another budget than the settings say.
    LedgerSetBack
        If the ledger is older than a run that it has paid for.
    """
    privacy = settings.privacy
    if privacy is None or settings.classes is None:
        return None
    check_not_set_back(settings, known_ledger(settings.state))
    found = known_statement(settings.state, settings.name)
    limit = Cost(exact(privacy.epsilon), exact(privacy.delta))
    if found is not None:
        open_account(settings, privacy, n=found.budgets[-1].n)  # refuses another budget
    left = limit if found is None else found.left
    counts = _counts_price(privacy, len(settings.classes), found)
    asked = _asked([counts, *_learning_prices(settings, None)])
    if asked.within(left):
        return None
    if found is None or not found.n_entries:
        raise BudgetError(settings.name, limit, NOTHING, asked)
    return (
        f"{cost_text(left)} per {privacy.unit} is left of {cost_text(limit)}, and where all is new a "
        f"run asks {cost_text(asked)}: unless most was paid before, this one will be refused when it "
        "comes to release"
    )


Price = tuple[str, Cost | None, Arithmetic, str]
"""What is priced, the price if it is known, how its noise is drawn, and a note."""


def _counts_price(privacy: PrivacySettings, n_classes: int, found: Statement | None) -> Price:
    """The price of the class counts: all groups together, or their plan if it is not paid yet."""
    from flows.spending.releases import PLAN, count_noise  # a statement needs neither

    epsilon, delta = exact(privacy.proportions_epsilon), exact(privacy.proportions_delta)
    n_planned = privacy.planned_releases
    if n_planned > 1:
        for one in () if found is None else found.plans:
            price = one.name, one.plan.cost(), one.n_releases
            if price == (PLAN, Cost(epsilon, delta), n_planned):
                left = n_planned - one.used
                note = f"paid by entry {one.entry}; {left} of {n_planned} releases left"
                return "class counts", NOTHING, one.plan.arithmetic, note
        note = f"a plan of {n_planned} releases"
        return "class counts", Cost(epsilon, delta), "exact", note
    noise = count_noise(privacy, n_classes)
    return "class counts", Cost(epsilon, exact(noise.delta)), "exact", f"{noise.name} noise"


def _learning_prices(settings: Settings, n_tasks: int | None) -> list[Price]:
    """The prices of training and of the gate; they have different tasks, so the dearer one counts."""
    from learners import ScoredTraining, Thresholdout  # for runs with a model alone

    model, gate = settings.model, settings.gate
    if model is None or not settings.input.tasks:
        return []
    shares = (model.epsilon_train, model.epsilon_select, model.epsilon_score)
    training = Cost(sum(map(exact, shares), exact(0)), exact(0))
    note = "training {:g}, selection {:g}, score {:g}".format(*shares)
    trained = "model", training, ScoredTraining.arithmetic, note
    if n_tasks is None:
        unknown = "depends on the number of labelled tasks; give --tasks"
        return [trained, ("gate", None, Thresholdout.arithmetic, unknown)]
    size = max(1, round(gate.holdout * n_tasks))
    rows = 1 if settings.privacy is None else settings.privacy.max_tasks_per_subject or 1
    price = Cost(2 * rows * gate.budget / (exact(gate.sigma) * size), exact(0))
    about = f"expected, for a holdout of {size:,} of {n_tasks:,} tasks; in parallel with the model"
    return [trained, ("gate", price, Thresholdout.arithmetic, about)]


def _verdict(parts: list[Price], budget: Cost, limit: Cost, left: Cost) -> dict[str, Any]:
    """Whether the parts fit together into what is left; None if a price is unknown."""
    asked = _asked(parts)
    verdict: bool | None = asked.within(left) and budget == limit
    if verdict and any(cost is None for _, cost, _, _ in parts):
        verdict = None
    return {"asked": numbers(asked), "fits": verdict, "same_budget": budget == limit}


def _asked(parts: list[Price]) -> Cost:
    """The cost of the parts together whose price is known."""
    (_, counts, _, _), *learning = parts
    return (counts or NOTHING) + Cost.max(
        [cost for _, cost, _, _ in learning if cost is not None] or [NOTHING]
    )

"""The last stage: what was spent, the campaign over its runs, and the two reports."""

from __future__ import annotations

from typing import Any

from flows.report import write_reports
from flows.run import Run, trend
from flows.spending import open_state, statement
from flows.stages.publication import why_no_release
from privacy.accounting import price_text

__all__ = ["spend_verdict", "write_report"]

MAX_ENTRIES = 1_000  # in spend.json; the totals are of all


def write_report(run: Run) -> str:
    """State the account, and make the two reports from the run folder alone."""
    run.waits_for("the account")
    why_not = why_no_release(run.settings)
    if why_not is not None:
        run.skip("spend.json", why_not)
    else:  # also where this run could pay for nothing
        with open_state(run.settings.state) as ledger:
            account = statement(ledger, run.settings.name, entries=MAX_ENTRIES)
        run.write_json("spend.json", account)
    run.waits_for("the campaign over its runs")
    run.write_json("trend.json", trend(run))
    run.waits_for("the two reports")
    write_reports(run.folder, show_worker_ids=run.settings.report.worker_names)
    return "report.html (internal), public.html and public/ (releases only)"


def spend_verdict(found: dict[str, Any]) -> str:
    """Say how much of the budget is spent, from `spend.json`."""
    spent = price_text(found["spent"]["epsilon"])
    budget, left = (price_text(found[name]["epsilon"], left=True) for name in ("budget", "left"))
    return f"epsilon {spent} of {budget} spent, {left} left (unit: {found['unit']})"

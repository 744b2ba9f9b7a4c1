"""The last stage: what was spent, the campaign over its runs, and the two reports."""

from __future__ import annotations

from flows.report import write_reports
from flows.run.history import trend
from flows.run.store import Run
from flows.spending.account import open_state, statement

__all__ = ["write_report"]

LISTED = 1_000  # entries in spend.json; the totals are of all


def write_report(run: Run) -> str:
    """State the account, then build the internal report and the public one from the run folder alone."""
    published = run.read_json("proportions.json")
    if "skipped" in published:
        run.write_json("spend.json", {"skipped": published["skipped"]})
    else:
        with open_state(run.settings.state) as ledger:
            run.write_json("spend.json", statement(ledger, run.settings.name, entries=LISTED))
    run.write_json("trend.json", trend(run))
    write_reports(run.folder, show_worker_ids=run.settings.report.worker_names)
    return "report.html (internal), public.html and public/ (releases only)"

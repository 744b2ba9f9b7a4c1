"""The last stage: what was spent, and the two reports."""

from __future__ import annotations

from flows.accounts import open_state, statement
from flows.report import write_reports
from flows.run_store import Run

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
    write_reports(run.folder)
    return "report.html (internal), public.html and public/ (releases only)"

"""The two pages of a run: `report.html` for the team, `public.html` with releases only.

Rendering, no arithmetic: every number on a page is read from a file of the run folder and
formatted. The public page is made from a context that holds released values alone
(`flows.report.pages`), so a template cannot show what was not released.
"""

from flows.report.html import render_public, render_report, write_reports

__all__ = ["render_public", "render_report", "write_reports"]

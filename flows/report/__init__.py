"""The two pages of a run: `report.html` for the team, `public.html` with releases only.

Every number on a page is read from a file of the run folder and formatted. The public page and the files
in `public` are made of released values alone, which `public_page` picks by name: a template cannot show
what was not released.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.report.html import render_public, render_report, write_reports
    from flows.report.pages import public_page
    from flows.report.publication_files import SET_SHARES, WIN_SHARES
    from flows.report.release_files import write_release_files
    from flows.report.worker_page import write_worker_page

__all__ = [
    "SET_SHARES", "WIN_SHARES", "public_page", "render_public", "render_report", "write_release_files",
    "write_reports", "write_worker_page",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)

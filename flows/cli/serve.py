"""The command that keeps a campaign's flow running on a schedule: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.app import Quiet, app, console, mistakes

__all__ = ["Cron", "Interval", "Name", "SettingsFile", "serve"]

SettingsFile = Annotated[Path, typer.Argument(help="settings file (TOML)")]
Cron = Annotated[str | None, typer.Option(help='when to run, in UTC, e.g. "0 6 * * *"')]
Interval = Annotated[float | None, typer.Option(help="seconds from one run to the next")]
Name = Annotated[str | None, typer.Option(help="the deployment's [default: the campaign's]")]


@app.command(epilog='Example: `crowdassay serve settings.toml --cron "0 6 * * *"`')
def serve(
    settings: SettingsFile,
    cron: Cron = None,
    interval: Interval = None,
    name: Name = None,
    quiet: Quiet = False,
) -> None:
    """Run a campaign on a schedule and on demand, in this process, with a Prefect server that stays."""
    with mistakes():
        from flows.prefect.deploy import Schedule, serve_campaign

        def tell(line: str) -> None:
            console().print(line, soft_wrap=True, markup=False)

        serve_campaign(settings, Schedule(cron, interval), name=name, tell=tell)

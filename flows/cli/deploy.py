"""Commands that run a campaign on a schedule: serve, in this process; deploy, in a work pool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.root import Quiet, app, mistakes, print_line

__all__ = ["Cron", "Interval", "Name", "SettingsFile", "deploy", "serve"]

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
        from flows.prefect import Schedule, serve_campaign  # seconds, for this command only

        serve_campaign(settings, Schedule(cron, interval), name=name, print_line=print_line)


@app.command(epilog='Example: `crowdassay deploy settings.toml --pool crowd --cron "0 6 * * *"`')
def deploy(
    settings: SettingsFile,
    pool: Annotated[str, typer.Option(help="work pool of type process")],
    cron: Cron = None,
    interval: Interval = None,
    name: Name = None,
    yaml: Annotated[
        Path | None, typer.Option(help="write this prefect.yaml instead, with comments")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Deploy a campaign to a Prefect work pool, whose workers run it on a schedule and on demand."""
    with mistakes():
        from flows.prefect import Schedule, deploy_campaign, write_prefect_yaml  # seconds

        schedule = Schedule(cron, interval)
        if yaml is None:
            deploy_campaign(settings, schedule, pool=pool, name=name, print_line=print_line)
            return
        write_prefect_yaml(yaml, settings, schedule, pool=pool, name=name)
        print_line(f"{yaml} is written; `prefect deploy --all` beside it deploys it")

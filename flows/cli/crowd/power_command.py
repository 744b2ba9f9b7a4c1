"""The command `power`: how many labels per task a campaign needs, before it is paid for."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from flows.aggregators import AggregatorName
from flows.cli.root import AsJson, Quiet, app, console, counted, mistakes, waiting_for

__all__ = ["power"]


@app.command(epilog="Example: `crowdassay power --goal 0.95 --spammers 0.2 --accuracy 0.8`")
def power(
    goal: Annotated[
        float, typer.Option(help="share of tasks whose consensus is to be right")
    ] = 0.95,
    spammers: Annotated[
        float, typer.Option(help="share of the workers who answer at random")
    ] = 0.2,
    accuracy: Annotated[float, typer.Option(help="mean accuracy of the others")] = 0.8,
    difficulty: Annotated[
        float, typer.Option(help="how much tasks differ, from 0 (not at all) to 1")
    ] = 0.5,
    classes: Annotated[int, typer.Option(help="classes")] = 2,
    tasks: Annotated[int, typer.Option(help="tasks of a campaign")] = 300,
    workers: Annotated[int, typer.Option(help="workers of a campaign")] = 50,
    most: Annotated[int, typer.Option(help="most labels per task to try")] = 15,
    aggregator: Annotated[
        AggregatorName, typer.Option(help="aggregation method")
    ] = "hierarchical_dawid_skene",
    campaigns: Annotated[int, typer.Option(help="campaigns to simulate")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="seed of the simulation")] = 1,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say how many labels per task a campaign needs, from simulated campaigns."""
    from flows.power import Crowd, labels_needed  # numba and the rooms, for this command only
    from flows.settings import SettingsError

    with mistakes():
        try:
            crowd = Crowd(
                goal=goal, tasks=tasks, workers=workers, classes=classes, spammers=spammers,
                accuracy=accuracy, difficulty=difficulty, most=most, aggregator=aggregator,
            )  # fmt: skip
            with waiting_for("campaigns simulated"):
                found = labels_needed(crowd, campaigns=campaigns, seed=seed)
        except ValueError as error:  # a number, whose sentence says which
            raise SettingsError(str(error)) from None
        if json_:
            print(json.dumps({**asdict(crowd), "campaigns": campaigns, **asdict(found)}, indent=1))
            return
        from flows.terminal import print_rows  # loads the rooms

        rows = [
            [
                str(row.labels),
                f"{row.accuracy:.3f}",
                f"{row.low:.3f} to {row.high:.3f}",
                f"{row.reached:.0%}",
            ]
            for row in found.rows
        ]
        of_them = f"{crowd.n_spammers:,} of them spammers"
        title = f"Consensus of {counted(tasks, 'task')} by {workers:,} workers, {of_them}"
        header = ["labels per task", "accuracy", "90 % of campaigns", f"reach {goal:g}"]
        print_rows(console(), title, header, rows)
        console().print(_answer(found.labels, found.low, found.high, most), soft_wrap=True)


def _answer(labels: int | None, low: int | None, high: int | None, most: int) -> str:
    """Return the answer as a sentence."""
    beyond = f"more than {most}"
    if labels is None:
        least = beyond if low is None else f"{low} or more"
        return f"{beyond} labels per task are needed on average; 95 % need {least}"
    are = "label per task is" if labels == 1 else "labels per task are"
    return (
        f"{labels} {are} needed on average; 90 % of the campaigns need {low or beyond} to "
        f"{high or beyond}"
    )

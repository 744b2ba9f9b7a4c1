"""Commands that plan what to label by experts: plan gold."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.crowd.label_commands import output_file
from flows.cli.root import (
    AsJson,
    Force,
    Output,
    Quiet,
    app,
    counted,
    mistakes,
    print_line,
    print_reading,
    refuse_unwritten,
    waiting_for,
)

if TYPE_CHECKING:
    from flows.settings import Settings
    from flows.spending import GoldProposal

__all__ = ["gold", "plan"]

plan = typer.Typer(
    help="Plan what experts should label.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    epilog="Example: `crowdassay plan gold settings.toml --width 0.1`",
)
app.add_typer(plan, name="plan")


@plan.command(
    epilog="Example: `crowdassay plan gold settings.toml --width 0.1 --price 1 --output gold_to_label.csv`"
)
def gold(
    context: typer.Context,
    settings: Annotated[Path, typer.Argument(help="settings file of the campaign")],
    width: Annotated[float, typer.Option(help="width wanted for the interval of one share")] = 0.1,
    price: Annotated[
        float | None,
        typer.Option(help="epsilon of class counts and correction together [default: not private]"),
    ] = None,
    accuracy: Annotated[
        float, typer.Option(help="guess of how often the consensus is right")
    ] = 0.8,
    output: Output = None,
    force: Force = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say how many gold tasks bring corrected shares of a width, and draw them at random."""
    from flows.settings import SettingsError, load_settings  # pydantic and tables, for this only
    from flows.spending import propose_gold
    from flows.tables import input_paths, write_table

    with mistakes():
        refuse_unwritten(context, {"--output": output})
        chosen = load_settings(settings)
        if chosen.classes is None:
            raise SettingsError("the settings must declare the classes")
        if chosen.input.several is not None:
            raise SettingsError(
                "plan gold is for one label a task, and input.several is set: gold corrects no shares there"
            )
        read = (path for _, path in input_paths(chosen.input))
        written = output_file(output, [settings, *read], force)
        with waiting_for("labels and gold"):
            tasks, known, read_as = _tasks(chosen)
        privacy = chosen.privacy
        with waiting_for("how many gold tasks it takes"):
            found = propose_gold(
                width, accuracy=accuracy, n_tasks=len(tasks), n_classes=len(chosen.classes),
                level=0.9 if privacy is None else privacy.level, price=price,
                max_tasks=1 if privacy is None else privacy.max_tasks_per_subject or 1,
            )  # fmt: skip
        drawn = _drawn(chosen, tasks, known, found.n_gold)
        if written is not None:
            write_table({"task": drawn}, written)
        if json_:
            print(json.dumps(asdict(found) | {"n_tasks": len(tasks), "n_known": len(known)}))
            return
        print_reading(read_as)
        for line in _lines(found, width, len(tasks), len(known)):
            print_line(line)
        if output is not None:
            print_line(f"{counted(len(drawn), 'task')} to label written to {output}")


def _tasks(settings: Settings) -> tuple[list[str], list[str], tuple[str, ...]]:
    """Return the labelled tasks, those that have gold, and how tables were read that are not plain."""
    from flows.tables import open_sources, read_gold, read_labels  # DuckDB, for this command only

    gold = None if settings.input.gold_sampling == "chosen" else settings.input.gold
    alone = {"gold": gold, "tasks": (), "reference": None, "embeddings": None}
    inputs = settings.input.model_copy(update=alone)
    with TemporaryDirectory(prefix="crowdassay-") as folder:
        sources = open_sources(inputs, Path(folder), mapped=False)
        with sources.naming_files():
            labels = read_labels(
                sources.labels.table, classes=settings.classes, duplicates=inputs.duplicates,
                known_tasks=None,
            )  # fmt: skip
            tasks = labels.tasks.astype(str).tolist()
            if sources.gold is None:
                return tasks, [], sources.read_as
            known = set(read_gold(sources.gold.table, classes=settings.classes).task.tolist())
    return tasks, [task for task in tasks if task in known], sources.read_as


def _drawn(settings: Settings, tasks: list[str], known: list[str], n_gold: int | None) -> list[str]:
    """Return the tasks to label: as many as are missing, at random among those without gold."""
    import numpy as np  # `--help` need not load it

    without = sorted(set(tasks) - set(known))
    missing = len(without) if n_gold is None else min(len(without), max(0, n_gold - len(known)))
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, len(known)]))
    return sorted(without[place] for place in rng.choice(len(without), missing, replace=False))


def _lines(found: GoldProposal, width: float, n_tasks: int, n_known: int) -> list[str]:
    """Return the findings as sentences; prices are rounded down, so that they add up to no more."""
    from privacy.accounting import price_text  # the ledger's, for this command only

    lines = [
        f"No number of gold tasks brings intervals of width {width:g}: with gold for all {n_tasks:,} tasks "
        f"they are {found.width:.3f} wide, from the noise that the price asks for"
        if found.n_gold is None
        else f"{found.n_gold:,} of {n_tasks:,} tasks, drawn at random, need gold for intervals of width "
        f"{width:g} on the shares of all groups together"
    ]
    if n_known:
        lines.append(f"{n_known:,} have it already; the others are drawn among the tasks without")
    if found.correction_epsilon and found.proportions_epsilon and found.n_each:  # it has a price
        lines += [
            f"[privacy] proportions_epsilon = {price_text(found.proportions_epsilon, left=True)}, "
            f"correction_epsilon = {price_text(found.correction_epsilon, left=True)} divide the price so "
            "that shares err least",
            f"groups are corrected one by one from {counted(found.n_each, 'gold task')} in each on"
            if found.n_each <= n_tasks
            else f"groups are too small to be corrected one by one: that takes {found.n_each:,} gold tasks "
            f"in each, and there are {counted(n_tasks, 'task')} in all",
        ]
    return [*lines, 'then: [input] gold_sampling = "random"']

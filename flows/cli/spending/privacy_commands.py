"""Commands about privacy: budget, audit; and about the ledger: ledger verify, ledger backup."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.root import (
    AsJson,
    Quiet,
    app,
    console,
    counted,
    mistakes,
    refuse_dropped,
    waiting_for,
)

__all__ = ["audit", "backup", "budget", "ledger", "verify"]

PARALLEL = "cells of one partition compose in parallel: the dearest cell counts"
ARITHMETIC = (
    "noise: exact, drawn in integers by the law that is proved; or double, where the proof is about real "
    "numbers and does not cover rounding"
)

N_DRAWS, N_PUBLICATIONS = 20_000, 2_000
"""Of each of two neighbours, by default: releases of a mechanism, and publications."""

State = Annotated[Path, typer.Argument(help="state folder, the one with ledger.sqlite")]


@app.command(
    epilog="Example: `crowdassay budget state`; before a run, "
    "`crowdassay budget state --preview settings.toml --tasks 2000`"
)
def budget(
    context: typer.Context,
    state: State = Path("state"),
    raise_to: Annotated[
        float | None,
        typer.Option(help="new epsilon of a data set's budget; the old one stays on record"),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="only this data set, whose budget may be raised")
    ] = None,
    entries: Annotated[
        int, typer.Option(min=0, max=10**9, help="how many of the newest entries are listed")
    ] = 20,
    preview: Annotated[
        Path | None, typer.Option(help="settings file: what a run of it on new data would ask for")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="public number of labelled tasks, for --preview")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show what each data set's privacy budget is, what it was spent on, and what is left."""
    from flows.spending import read_statements  # the ledger, for this command only

    with mistakes():
        _refuse_apart(preview, raise_to=raise_to, tasks=tasks)
        if preview is not None:
            refuse_dropped(
                context,
                ("dataset", "entries"),
                "is of what was spent, and --preview of a run to come; leave it out",
            )
            _preview(state, preview, n_tasks=tasks, as_json=json_)
            return
        statements = read_statements(state, dataset=dataset, raise_to=raise_to, entries=entries)
        if json_:
            print(json.dumps(statements, indent=1))
            return
        for found in statements:
            _print_statement(found)


def _refuse_apart(preview: Path | None, *, raise_to: float | None, tasks: int | None) -> None:
    """Raise SettingsError for options that would be dropped."""
    from flows.settings import SettingsError  # pydantic, for this command only

    if preview is not None and raise_to is not None:
        raise SettingsError(
            "--raise-to and --preview are two commands: raise the budget first, then preview a run"
        )
    if preview is None and tasks is not None:
        raise SettingsError("--tasks needs --preview, the settings of the run with so many tasks")


@app.command(
    epilog="Example: `crowdassay audit lattice_laplace --epsilon 0.5 --counts 10,10,10`; a whole run: "
    "`crowdassay audit public_folder --unit row --draws 2000`"
)
def audit(
    context: typer.Context,
    mechanism: Annotated[
        str,
        typer.Argument(help="a mechanism, or public_folder; an unknown name lists them all"),
    ],
    epsilon: Annotated[float, typer.Option(help="claimed epsilon")] = 1.0,
    delta: Annotated[
        float, typer.Option(help="claimed delta, where the mechanism has one; below 1/n")
    ] = 1e-3,
    floor: Annotated[int, typer.Option(help="public floor, or pseudo-count, of a Dirichlet")] = 40,
    counts: Annotated[
        str, typer.Option(help="made-up class counts; the neighbour moves one task to the second")
    ] = "10,10,10",
    unit: Annotated[
        str, typer.Option(help="for public_folder: what the two campaigns differ in")
    ] = "consensus label",
    draws: Annotated[
        int | None,
        typer.Option(
            min=2, help="releases of each of the two [default: 20000; 2000 of public_folder]"
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="confidence of the bounds")] = 0.999,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Try to refute a claim by draws: a mechanism's, or that of all that a run publishes.

    Exit code 1 if that succeeds. For public_folder a small made-up campaign and its neighbour are
    published --draws times each, at a fifth of a second each, and their price is what the ledger booked.
    """
    with mistakes():
        _refuse_path(mechanism)
        if mechanism == "public_folder":
            claims = ("epsilon", "delta", "floor", "counts")
            refuse_dropped(
                context, claims, "is for a mechanism, not for public_folder; leave it out"
            )
            from flows.cli.spending.folder_audit import (
                folder_trial,  # the pipeline, for this choice only
            )

            n_pairs = N_PUBLICATIONS if draws is None else draws
            with waiting_for(f"{n_pairs:,} publications of each of two campaigns") as progress:
                found = folder_trial(unit=unit, draws=n_pairs, level=level, progress=progress)
        else:
            refuse_dropped(context, ("unit",), "is for public_folder; leave it out")
            from flows.spending import claimed, trial  # OpenDP, for this command only

            dropped = {"delta", "floor", "counts"}.difference(claimed(mechanism))
            refuse_dropped(context, dropped, f"plays no part in {mechanism}; leave it out")
            n_draws = N_DRAWS if draws is None else draws
            with waiting_for(f"{n_draws:,} releases of each of two neighbours"):
                found = trial(
                    mechanism, epsilon=epsilon, delta=delta, floor=floor, counts=counts, draws=n_draws,
                    level=level,
                )  # fmt: skip
        if json_:
            print(json.dumps(found, indent=1))
        else:
            for line in found["sentences"]:
                console().print(line, soft_wrap=True)
    if found["refuted"]:
        raise typer.Exit(1)


def _refuse_path(mechanism: str) -> None:
    """Raise SettingsError for a run's folder, or its settings, in place of a mechanism."""
    if os.sep in mechanism or Path(mechanism).is_file():
        from flows.settings import SettingsError  # pydantic, for a mistake only

        raise SettingsError(
            "audit tests a mechanism, or all that a run publishes, on made-up data and takes no files, got "
            f"{mechanism}; crowdassay audit public_folder --unit UNIT tests the price of runs whose "
            "settings have that unit"
        )


ledger = typer.Typer(
    help="Check the ledger, or copy it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    epilog="Example: `crowdassay ledger verify state`",
)
app.add_typer(ledger, name="ledger")


@ledger.command(epilog="Example: `crowdassay ledger verify state`")
def verify(state: State, quiet: Quiet = False) -> None:
    """Follow the whole chain of the ledger's rows, and name the first that is not what was written."""
    from flows.spending import existing_ledger  # the ledger, for this command only

    with mistakes():
        n_rows = existing_ledger(state).verify()
        console().print(
            f"{counted(n_rows, 'row')}, each as it was written. Note the number: it only grows, and a "
            "smaller one later means that an older copy was put in the ledger's place",
            soft_wrap=True,
        )


@ledger.command(epilog="Example: `crowdassay ledger backup state ledger-2026-11.sqlite`")
def backup(
    state: State,
    file: Annotated[Path, typer.Argument(help="file to write, a new one")],
    quiet: Quiet = False,
) -> None:
    """Copy the ledger to a new file, consistent while it is in use."""
    from flows.spending import existing_ledger  # the ledger, for this command only

    with mistakes():
        existing_ledger(state).backup(file)
        console().print(
            f"{file} is a copy of the ledger, which opens with {state / 'fingerprint.key'}. What is "
            "spent from now on is not in it",
            soft_wrap=True,
        )


def _print_statement(found: dict[str, Any]) -> None:
    from flows.terminal import print_rows  # loads the rooms
    from privacy.accounting import price_text

    prices = _parameters(found)
    plans = {plan["entry"] for plan in found["plans"]}
    rows = [
        [
            str(e["entry"]),
            e["time"][:16].replace("T", " "),
            _what(e, plans),
            e["cell"] or "-",
            e["arithmetic"],
            *(price_text(e[name]) for name in prices),
        ]
        for e in found["entries"]
    ]
    spent = {name: price_text(found["spent"][name]) for name in prices}
    budget, left = (
        {name: price_text(found[of][name], left=True) for name in prices}
        for of in ("budget", "left")
    )
    totals = "; ".join(
        f"{name} {spent[name]} of {budget[name]} spent, {left[name]} left" for name in prices
    )
    title = f"{found['dataset']}: {totals} (unit: {found['unit']})"
    if rows:
        print_rows(console(), title, ["entry", "time", "what", "cell", "noise", *prices], rows)
    else:
        console().print(title, style="bold", soft_wrap=True)
    for line in _totals(found):
        console().print(line, style="dim", soft_wrap=True)


def _parameters(found: dict[str, Any]) -> list[str]:
    """Return the parameters of the budget: epsilon, and delta if the budget has one."""
    return ["epsilon", "delta"] if found["budget"]["delta"] else ["epsilon"]


def _what(entry: dict[str, Any], plans: Collection[int]) -> str:
    paid = "" if entry["plan"] is None else f" (paid by entry {entry['plan']})"
    lost = "" if entry["released"] or entry["entry"] in plans else " (paid, not drawn yet)"
    return f"{entry['what']}{paid}{lost}"


def _totals(found: dict[str, Any]) -> list[str]:
    """Return the lines below the entries: their number, what plans have left, and how many more fit."""
    from flows.terminal import noise_words  # loads the rooms

    listed, all_ = len(found["entries"]), found["n_entries"]
    lines = [PARALLEL, ARITHMETIC] if all_ else []
    if listed < all_:
        shown = f"the newest {listed:,} of {all_:,} entries" if listed else f"{all_:,} entries"
        lines.insert(0, f"{shown}; --entries N lists more")
    lines += [
        f"entry {plan['entry']}, {plan['name']}: {plan['used']} of {plan['n_releases']} releases used, "
        f"{noise_words(plan)}"
        for plan in found["plans"]
    ]
    return lines + [
        f"{kind['what']} at {_price(kind)}: {kind['more']:,} more fit"
        + (", each for all its cells" if kind["cells"] else "")
        for kind in found["fits"]
    ]


def _price(cost: dict[str, float], *, left: bool = False) -> str:
    from privacy.accounting import price_text  # the ledger's, for these commands only

    delta = f", delta {price_text(cost['delta'], left=left)}" if cost["delta"] else ""
    return f"epsilon {price_text(cost['epsilon'], left=left)}{delta}"


def _preview(state: Path, path: Path, *, n_tasks: int | None, as_json: bool) -> None:
    """Print what a run would ask of the budget, and whether it fits."""
    from flows.settings import load_settings  # the ledger, for this command only
    from flows.spending import preview
    from flows.terminal import print_rows

    found = preview(state, load_settings(path), n_tasks=n_tasks)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    rows = [
        [
            one["what"],
            _price(one) if "epsilon" in one else "unknown",
            one["arithmetic"],
            one["note"],
        ]
        for one in found["parts"]
    ]
    asked = f"{_price(found['asked'])} (unit: {found['unit']})"
    title = f"{found['dataset']}: a run on new data would ask for {asked}"
    print_rows(console(), title, ["what", "price", "noise", "note"], rows)
    console().print(_verdict(found), soft_wrap=True)
    if "year" in found:
        months = found["year"]["months"]
        columns = [name for name in MONTHS if name in months[0]]
        shown = months if len(months) <= MAX_SHOWN else [*months[: MAX_SHOWN - 1], months[-1]]
        cells = [[MONTHS[name][1].format(row[name]) for name in columns] for row in shown]
        print_rows(console(), _months_title(found), [MONTHS[name][0] for name in columns], cells)
        if len(shown) < len(months):
            between = f"{len(months) - len(shown):,} runs before the last are not shown"
            console().print(f"{between}; --json lists them all", style="dim")
        return
    print_rows(console(), _year_title(found), ["publication", "a year", "price"], _years(found))


MAX_SHOWN = 60  # planned runs on the terminal: more than there are weeks in a year
MONTHS = {
    "run": ("run", "{:,}"),
    "n_tasks": ("tasks", "{:,}"),
    "counts_l1": ("counts of a group err by, labels", "{:.2f}"),
    "n_holdout": ("holdout tasks", "{:,}"),
    "threshold": ("gap that passes", "{:.3f}"),
    "power": ("overfit by .1 refuted", "{:.0%}"),
}


def _months_title(found: dict[str, Any]) -> str:
    """Say what the whole year costs, how much of that is paid, and how far it is used."""
    year = found["year"]
    return (
        f"{year['planned']:,} planned runs cost {_price(year['price'])} together, {_price(year['paid'])} of "
        f"it paid; {year['used']:,} used, {year['planned'] - year['used']:,} left; run by run:"
    )


def _year_title(found: dict[str, Any]) -> str:
    key = f'"{found["publication"]}"' if found["publication"] else "not given"
    return (
        f"the publication key is {key}; what is left pays for "
        f"{counted(found['affordable'], 'publication')}, each under a key of its own"
    )


def _years(found: dict[str, Any]) -> list[list[str]]:
    """Return a row for each pattern of a key: its most publications in a calendar year, their price."""
    return [
        [
            one["publication"],
            f"{one['publications']:,}",
            _price(one) if "epsilon" in one else "more than are planned",
        ]
        for one in found["years"]
    ]


def _verdict(found: dict[str, Any]) -> str:
    left = f"{_price(found['left'], left=True)} is left of {_price(found['budget'], left=True)}"
    if not found["same_budget"]:
        return f"{left}: the settings say another budget, which a run refuses"
    if found["fits"] is None:
        return f"{left}: whether all fits is not known"
    return f"{left}: it {'fits' if found['fits'] else 'does not fit'}"

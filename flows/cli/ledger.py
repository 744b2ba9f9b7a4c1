"""Commands about the ledger itself: ledger verify, ledger backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.root import app, console, mistakes

__all__ = ["backup", "ledger", "verify"]

State = Annotated[Path, typer.Argument(help="state folder, the one with ledger.sqlite")]

ledger = typer.Typer(
    help="Check the ledger, or copy it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    epilog="Example: `crowdassay ledger verify state`",
)
app.add_typer(ledger, name="ledger")


@ledger.command(epilog="Example: `crowdassay ledger verify state`")
def verify(state: State) -> None:
    """Follow the whole chain of the ledger's rows, and name the first that is not what was written."""
    from flows.spending import existing_ledger

    with mistakes():
        n_rows = existing_ledger(state).verify()
        console().print(
            f"{n_rows:,} rows, each as it was written. Note the number: it only grows, and a smaller "
            "one later means that an older copy was put in the ledger's place",
            soft_wrap=True,
        )


@ledger.command(epilog="Example: `crowdassay ledger backup state ledger-2026-11.sqlite`")
def backup(
    state: State, file: Annotated[Path, typer.Argument(help="file to write, a new one")]
) -> None:
    """Copy the ledger to a new file, consistent while it is in use."""
    from flows.spending import existing_ledger

    with mistakes():
        existing_ledger(state).backup(file)
        console().print(
            f"{file} is a copy of the ledger, which opens with {state / 'fingerprint.key'}. What is "
            "spent from now on is not in it",
            soft_wrap=True,
        )

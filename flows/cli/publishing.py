"""The options of commands that publish without a run: whose budget pays, how much, and under which key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.root import named_path, refuse_dropped

__all__ = [
    "Begun", "Budget", "Epsilon", "Key", "Payer", "Publish", "State", "key_now", "leaving_no_empty",
    "refuse_elsewhere", "refuse_state_in", "refuse_unpublished",
]  # fmt: skip

PUBLICATION = "Publication"
"""Heading of these options, and of a command's own that belong to them: all need `--publish`."""

Publish = Annotated[
    Path | None,
    typer.Option(
        help="pay for private shares, and write page and tables to this folder",
        rich_help_panel=PUBLICATION,
    ),
]
Epsilon = Annotated[
    float, typer.Option(help="price of this publication", rich_help_panel=PUBLICATION)
]
Payer = Annotated[str, typer.Option(help="whose budget pays", rich_help_panel=PUBLICATION)]
Budget = Annotated[
    float | None,
    typer.Option(
        help="epsilon of all that the campaign ever publishes; the first publication declares it",
        rich_help_panel=PUBLICATION,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        help="its key, such as 2026-11 or %Y-%m: published once, whatever becomes of the data",
        rich_help_panel=PUBLICATION,
    ),
]
State = Annotated[
    Path,
    typer.Option(
        help="state folder with the ledger, kept for ever",
        rich_help_panel=PUBLICATION,
        parser=named_path,
    ),
]
Begun = Annotated[
    bool,
    typer.Option(
        "--begun",
        help="refuse to begin a campaign: its state must be there",
        rich_help_panel=PUBLICATION,
    ),
]


def refuse_unpublished(context: typer.Context, publish: Path | None) -> None:
    """Raise SettingsError for options of a publication where nothing is published."""
    if publish is None:
        terms = [
            option.name or ""
            for option in context.command.params
            if getattr(option, "rich_help_panel", None) == PUBLICATION
        ]
        refuse_dropped(
            context, terms, "needs --publish, the folder to publish to; add that, or leave it out"
        )


def refuse_elsewhere(state: Path) -> None:
    """Raise SettingsError for a state folder whose path names another place than the one it would lie at."""
    from flows.settings import SettingsError, check_folder  # pydantic, for these commands only

    try:
        check_folder(state, "--state")
    except ValueError as error:
        raise SettingsError(str(error)) from None


def refuse_state_in(publish: Path, state: Path) -> None:
    """Raise SettingsError if the state folder is the folder to publish to, lies in it, or cannot be meant."""
    from flows.settings import SettingsError  # pydantic, for these commands only

    refuse_elsewhere(state)
    if state.resolve().is_relative_to(publish.resolve()):
        raise SettingsError(
            f"--publish {publish} must not hold the state folder, got --state {state}: whoever is given the "
            "publication would have the ledger and its key; name another folder"
        )


def key_now(key: str | None) -> str | None:
    """Return a publication's key at this moment, with the date in place of %Y, %m, %d, %G and %V.

    Raises
    ------
    SettingsError
        If it is no key.
    """
    from flows.settings import SettingsError, check_key, key_at  # pydantic, for a publication only

    if key is None:
        return None
    try:
        return key_at(check_key(key), datetime.now(UTC))
    except ValueError as error:
        raise SettingsError(f"--publication: {error}") from None


@contextmanager
def leaving_no_empty(publish: Path | None) -> Iterator[None]:
    """Remove the folders to publish to that the block made, if it fails before it has written to them."""
    folders = () if publish is None else (publish, *publish.parents)
    made = [one for one in folders if not one.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):  # one that holds something, or was never made
            for folder in made:
                folder.rmdir()
        raise

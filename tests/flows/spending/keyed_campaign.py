"""A small campaign under publication keys, whose data and ledger change; importable by several tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from flows.pipeline import run_stage
from flows.run import Run, open_run
from flows.settings import (
    Settings,
    load_settings,
)
from flows.stages import STAGES, Stage
from tests.flows.campaign import write_small_campaign


def campaign(folder: Path, key: str, *more: str, model: bool = True) -> Path:
    """The small campaign with a publication key."""
    path = write_small_campaign(folder)
    lines = "\n".join(["epsilon = 40.0", f'publication = "{key}"', *more])
    text = path.read_text().replace("epsilon = 20.0", lines)
    path.write_text(text if model else text.partition("[model]")[0])
    return path


def set_key(path: Path, key: str) -> None:
    path.write_text(re.sub(r'publication = ".*"', f'publication = "{key}"', path.read_text()))


def relabel(path: Path, *, how_many: int = 60) -> None:
    """Have everybody give the first tasks one class."""
    labels = path.with_name("labels.csv")
    lines = labels.read_text().splitlines()
    tasks = {f"t{j:03d}" for j in range(how_many)}
    changed = [line[:-1] + "a" if line.split(",")[1] in tasks else line for line in lines]
    labels.write_text("\n".join(changed) + "\n")


def leave_out(path: Path, *tasks: str) -> None:
    """Drop the labels of tasks, so that fewer are labelled."""
    labels = path.with_name("labels.csv")
    lines = [line for line in labels.read_text().splitlines() if line.split(",")[1] not in tasks]
    labels.write_text("\n".join(lines) + "\n")


class Died(BaseException):
    """Ends a run as a signal would."""


def die_before(name: str) -> Any:
    """Run stages until one is reached."""

    def step(stage: Stage, run: Run) -> str:
        if stage.name == name:
            raise Died
        return run_stage(stage, run)

    return step


def published_counts(settings: Settings) -> str:
    """What the stage says that publishes proportions; the run goes no further."""
    run = open_run(settings)
    for stage in STAGES:
        line = run_stage(stage, run)
        if stage.name == "publish_proportions":
            run.discard()
            return line
    raise AssertionError


def counts_alone(folder: Path, *lines: str, key: str | None = None) -> Settings:
    """The small campaign with counts alone, at epsilon 0.25 of 4."""
    path = write_small_campaign(folder)
    given = ["epsilon = 4.0", *lines, *([] if key is None else [f'publication = "{key}"'])]
    text = path.read_text().partition("[model]")[0].replace("epsilon = 20.0", "\n".join(given))
    path.write_text(text.replace("proportions_epsilon = 2.0", "proportions_epsilon = 0.25"))
    return load_settings(path)

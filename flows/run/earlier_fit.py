"""What a campaign's runs hand on from one to the next: what its aggregator believed of the workers.

A run that goes on (`consensus.go_on`) starts EM from the fit of the newest complete run before it.
Which run that is, is written into the run folder before its fit is first used, with a copy of it: so
a run that is resumed, or made again of the same inputs, starts where the first one did.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from flows.run.history import complete_runs, same_work
from flows.run.store import Run, write_whole
from quality import Consensus, CrowdLabels, EMStart

__all__ = ["begun_from", "facts_of", "in_words", "keep_fit", "start_of"]

CHOSEN, START, FIT = "start.json", "start.npz", "fit.npz"
ARRAYS = ("workers", "classes", "prior", "confusion")


def start_of(run: Run, labels: CrowdLabels) -> EMStart | None:
    """Where EM starts on these labels: where an earlier run's ended, or None for the majority vote."""
    if begun_from(run) is None:
        return None
    with np.load(run.folder / START, allow_pickle=False) as kept:
        earlier = EMStart(*(kept[name] for name in ARRAYS))
    return earlier.matched(labels.workers, labels.classes)


def begun_from(run: Run) -> str | None:
    """Name of the run whose fit this one goes on from; chosen once, and kept."""
    if not run.settings.consensus.go_on:
        return None
    if not (run.folder / CHOSEN).is_file():
        _choose(run)
    name: str | None = run.read_json(CHOSEN)["run"]
    return name


def keep_fit(run: Run, fit: EMStart) -> None:
    """Keep what the aggregator believed of the workers, for the next run that goes on."""
    arrays = {name: getattr(fit, name) for name in ARRAYS}

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(run.folder / FIT, write)


def facts_of(run: Run, start: EMStart, found: Consensus, anew: Consensus | None) -> dict[str, Any]:
    """What the run says of where it started, and, where EM was begun anew too, of what differs."""
    known = int(start.confusion.any(axis=(1, 2)).sum())
    facts = {"run": begun_from(run), "n_known_workers": known}
    if anew is None:
        return facts
    differ = int(np.count_nonzero(anew.label != found.label))
    return facts | {"n_iter_anew": getattr(anew, "n_iter", 1), "n_differ": differ}


def in_words(facts: dict[str, Any] | None, n_iter: int) -> str:
    """The same for the stage's line; nothing where EM was begun anew."""
    if facts is None:
        return ""
    said = f"; gone on from {facts['run']} in {n_iter} iterations"
    if "n_differ" not in facts:
        return said
    return (
        f"{said} ({facts['n_iter_anew']} anew, which {facts['n_differ']:,} tasks would differ by)"
    )


def _choose(run: Run) -> None:
    """Copy the start of a run of the same work, or else the newest fit of the same aggregator."""
    name, source = _found(run)
    if source is not None:
        write_whole(run.folder / START, lambda aside: shutil.copyfile(source, aside))
    run.write_json(CHOSEN, {"run": name})


def _found(run: Run) -> tuple[str | None, Path | None]:
    """Whose fit to go on from, and where it lies."""
    for earlier in reversed(complete_runs(run.settings)):
        said = earlier.read_json("consensus.json")["aggregator"]
        if not (earlier.folder / FIT).is_file() or said != run.settings.consensus.aggregator:
            continue
        if not same_work(earlier, run):
            return earlier.final_name, earlier.folder / FIT
        name = earlier.read_json(CHOSEN)["run"]
        return name, None if name is None else earlier.folder / START
    return None, None

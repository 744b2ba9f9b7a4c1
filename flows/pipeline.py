"""The run: every stage of `flows.stages.STAGES` in order, in plain Python. `flows.prefect` wraps it.

>>> from flows.pipeline import run_pipeline
>>> from flows.settings import load_settings
>>> result = run_pipeline(load_settings(Path("demo/settings.toml")))  # doctest: +SKIP
>>> print(result.report)  # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from flows.run import (
    Run,
    find_unfinished,
    forget_failure,
    has_digest_key,
    identity_of,
    note_failure,
    open_run,
    prune_runs,
    unchanged_run,
)
from flows.settings import Settings, SettingsError
from flows.spending import check_budget
from flows.stages import STAGES, Stage
from flows.tables import ResultTable, TableError
from privacy import UnitError

__all__ = ["RunResult", "Stage", "StageLine", "Step", "nothing_new", "run_pipeline", "run_stage"]

INTERRUPTED = "Query interrupted"  # DuckDB's RuntimeError where Ctrl-C or SIGTERM ended a query
Step: TypeAlias = Callable[[Stage, Run], str]
"""Runs one stage of a run and returns the stage's line."""


@dataclass(frozen=True, slots=True)
class StageLine:
    """The line of one stage, and the seconds that it took."""

    stage: str
    line: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """A complete run: its folder, its report and its stages' lines; `unchanged` if it is an earlier one.

    What it found is read from the folder when it is asked for.
    """

    folder: Path
    report: Path
    stages: tuple[StageLine, ...]
    unchanged: bool = False

    @property
    def run(self) -> Run:
        """The run's folder, to read from."""
        return Run(self.folder, None)  # type: ignore[arg-type]  # settings are not needed to read

    @property
    def workers(self) -> ResultTable:
        """A row per worker, those removed first: reputation, penalties, and why."""
        return ResultTable(self.run.read_table("workers.parquet"), "workers")

    @property
    def consensus(self) -> ResultTable:
        """A row per task: its label, and how far to believe it."""
        return ResultTable(self.run.read_table("consensus.parquet"), "consensus")

    @property
    def verdicts(self) -> dict[str, str]:
        """What each part of the work found, in a sentence; parts that the settings left out are missing."""
        every = (one for stage in STAGES for one in stage.verdicts)
        texts = {verdict.title: verdict.of(self.run) for verdict in every}
        return {title: text for title, text in texts.items() if not text.startswith("skipped")}

    def to_frame(self) -> Any:
        """Return the consensus as a pandas data frame."""
        return self.consensus.to_frame()

    def _repr_html_(self) -> str:
        """Show in a notebook what the run found, and where its report lies."""
        rows = "".join(
            f"<tr><th>{escape(title)}</th><td>{escape(text)}</td></tr>"
            for title, text in self.verdicts.items()
        )
        return f"<table><caption>{escape(str(self.report))}</caption>{rows}</table>"


def run_stage(stage: Stage, run: Run) -> str:
    """Run one stage here, or return its line if an earlier try of this run has finished it."""
    done = run.finished(stage.name)
    if done is not None:
        return str(done["line"])
    begin = time.perf_counter()
    run.waits_for("its libraries")
    line = stage(run)
    from flows.tables import release_memory  # Arrow, which the stage has loaded

    release_memory()
    run.record(stage.name, line, time.perf_counter() - begin)
    return line


def run_pipeline(
    settings: Settings, *, step: Step = run_stage, resume: bool = False, again: bool = False
) -> RunResult:
    """Run every stage on one campaign.

    Parameters
    ----------
    settings
        The campaign's settings, with absolute paths.
    step
        How a stage is run: here, or in a Prefect task, or with its line printed.
    resume
        Go on in the newest run that died on these settings, inputs and code version.
    again
        Run although nothing is new since the newest complete run.

    Returns
    -------
    RunResult
        The run; the newest complete one if inputs, settings, key and code version are the same.

    Raises
    ------
    TypeError
        If `settings` are not of :func:`flows.load_settings`, such as the path of a file.

    Notes
    -----
    **Guarantees.** A run that is refused for its tables or settings leaves no folder. One that dies or
    fails otherwise leaves its whole stages, and `resume` goes on after them, under the publication key with
    which it began; its manifest says whether it was cancelled or failed, as far as its process could. So
    does a run that the budget does not cover: `resume` goes on in it when the budget is larger. No error of
    a run that was resumed takes away what was whole. Where the ledger is older than a run that it has paid
    for, nothing is spent and every folder stays. A complete run stays complete though older ones cannot be
    pruned. Why a run failed is kept in the state folder until another
    of its campaign succeeds.
    """
    if not isinstance(settings, Settings):
        kind = type(settings).__name__
        raise TypeError(
            f"settings must be Settings, got {kind}; load them: flows.load_settings(path)"
        )
    try:
        earlier = None if again else nothing_new(settings, resume=resume)
        result = earlier or _run_anew(settings, step, resume=resume)
    except Exception as error:
        note_failure(settings.state, error, str(error), campaign=settings.name)
        raise
    forget_failure(settings.state, settings.name)
    return result


def _run_anew(settings: Settings, step: Step, *, resume: bool) -> RunResult:
    """Run every stage, and prune older runs where the settings say so."""
    check_budget(settings)
    run = open_run(settings, resume=resume)
    resumed = bool(run.whole_stages)
    try:
        for stage in STAGES:
            step(stage, run)
    except BaseException as stopped:  # Ctrl-C and signals too
        with suppress(Exception):  # a full disk, say, does not hide why the run stopped
            _leave(run, stopped, resumed=resumed)
        raise
    closed = run.close()
    if settings.keep_runs is not None:
        # the run is whole: the next prune, or `crowdassay prune`, reports a run that cannot be removed
        with suppress(Exception):
            prune_runs(settings, settings.keep_runs, ended=closed)
    return _result(closed)


def _leave(run: Run, stopped: BaseException, *, resumed: bool) -> None:
    """Keep the folder of a stopped run, unless it has no whole or reusable outputs."""
    if not isinstance(stopped, Exception) or str(stopped) == INTERRUPTED:
        run.stop("cancelled")
        return
    from quality import LabelError  # numba, which a run where nothing is new need not load

    # other tables or other settings mend it, and with them a run begins anew
    refused = isinstance(stopped, LabelError | SettingsError | TableError | UnitError)
    if not run.whole_stages or (refused and not resumed):
        run.discard()
        return
    run.stop("failed")
    if run.settings.keep_runs is not None:  # a failure a day would leave a folder a day
        prune_runs(run.settings, run.settings.keep_runs)


def nothing_new(settings: Settings, *, resume: bool = False) -> RunResult | None:
    """Return the newest complete run if a new one would have its inputs, settings and code version.

    With `resume`, return None if a run died on these settings and inputs.
    """
    if not has_digest_key(settings):
        return None
    identity = identity_of(settings)
    if resume and find_unfinished(settings, identity) is not None:
        return None
    earlier = unchanged_run(settings, identity)
    return None if earlier is None else _result(earlier, unchanged=True)


def _result(run: Run, *, unchanged: bool = False) -> RunResult:
    """Return the manifest's record of the stages as a result."""
    stages = run.read_json("manifest.json")["stages"]
    lines = tuple(StageLine(name, done["line"], done["seconds"]) for name, done in stages.items())
    return RunResult(run.folder, run.folder / "report.html", lines, unchanged)

"""The run as a dozen lines, top to bottom; plain Python. Prefect wraps it in `prefect_flow.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flows.run.history import unchanged_run
from flows.run.store import Run, find_unfinished, identity_of, open_run
from flows.settings.sections import EngineError
from flows.settings.settings import Settings
from flows.spending.preview import check_budget
from flows.stages import (
    aggregate,
    ask_holdout,
    estimate_ratios,
    judge_workers,
    publish_proportions,
    read_and_check,
    train_privately,
    write_report,
)

__all__ = [
    "RunResult",
    "Stage",
    "StageLine",
    "Step",
    "nothing_new",
    "run_pipeline",
    "run_stage",
]

Stage = Callable[[Run], str]
Step = Callable[[Stage, Run], str]


@dataclass(frozen=True, slots=True)
class StageLine:
    """What one stage said of itself, and how long it took."""

    stage: str
    line: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run: its folder, its report and its stages' lines; `unchanged` where it is an earlier one."""

    folder: Path
    report: Path
    stages: tuple[StageLine, ...]
    unchanged: bool = False


def run_stage(stage: Stage, run: Run) -> str:
    """Run one stage here, or skip it where an earlier try of this run has finished it."""
    done = run.finished(stage.__name__)
    if done is not None:
        return str(done["line"])
    begin = time.perf_counter()
    line = stage(run)
    run.record(stage.__name__, line, time.perf_counter() - begin)
    return line


def run_pipeline(
    settings: Settings, *, step: Step = run_stage, resume: bool = False, again: bool = False
) -> RunResult:
    """Run the whole story on one campaign; see `run_store` for what is left when it dies.

    Where inputs, settings and code version are those of the newest complete run, that run is the
    result and nothing is written; `again` makes another nevertheless.
    """
    earlier = None if again else nothing_new(settings, resume=resume)
    if earlier is not None:
        return earlier
    check_budget(settings)
    run = open_run(settings, resume=resume)
    try:
        step(read_and_check, run)  # tables, checked and encoded
        step(judge_workers, run)  # reputation, filter
        step(aggregate, run)  # consensus labels, what to label next
        step(publish_proportions, run)  # these stages,
        step(estimate_ratios, run)  # (post-processing: no further price)
        step(train_privately, run)  # and no others,
        step(ask_holdout, run)  # hold the ledger
        step(write_report, run)
    except EngineError:
        raise
    except (ValueError, RuntimeError, OSError):
        run.discard()
        raise
    return _result(run.close())


def nothing_new(settings: Settings, *, resume: bool = False) -> RunResult | None:
    """The newest complete run, where another would have its inputs, settings and code version.

    With `resume`, a run that died on these settings and inputs is something to do.
    """
    identity = identity_of(settings)
    if resume and find_unfinished(settings, identity) is not None:
        return None
    earlier = unchanged_run(settings, identity)
    return None if earlier is None else _result(earlier, unchanged=True)


def _result(run: Run, *, unchanged: bool = False) -> RunResult:
    """The manifest's record of the stages, as a result."""
    stages = run.read_json("manifest.json")["stages"]
    lines = tuple(StageLine(name, said["line"], said["seconds"]) for name, said in stages.items())
    return RunResult(run.folder, run.folder / "report.html", lines, unchanged)

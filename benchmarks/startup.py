"""What starting costs: `--help`, and a run beyond its stages' work, in process and on a Prefect server.

A stage imports what it works with when it is run. Those imports are no work on the data: they are
done before the stages here, and counted with the rest of starting and ending.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.publish import publish
from flows.prefect_server import embedded_server
from flows.simulate import write_campaign

TRIES = 3
HELP, IN_PROCESS, ON_SERVER = 0.4, 2.0, 7.0  # the goals, in seconds of processor time
STAGES = (
    "reading", "workers", "consensus", "publication", "class_ratios", "model", "reporting"
)  # fmt: skip
IMPORTED = f"""
import {", ".join(f"flows.stages.{stage}" for stage in STAGES)}
import duckdb, privacy.noise
"""
TIMED = f"""
import atexit, gc, time
from flows.cli import main, process
gc.set_threshold(process.OBJECTS)
begin = time.process_time()
{IMPORTED}
ratios = time.process_time()
from learners import ClassRatioEstimator
ended = time.process_time()
imported, ratios = ended - begin, ended - ratios

from flows import pipeline, terminal
in_stages, run_stage = 0.0, pipeline.run_stage

def timed(stage, run):
    global in_stages
    begin = time.process_time()
    try:
        return run_stage(stage, run)
    finally:
        in_stages += time.process_time() - begin

terminal.run_stage = timed
atexit.register(lambda: print(in_stages, imported, ratios))
main()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "campaign" / "settings.toml"
        write_campaign(settings.parent, seed=20)
        plain = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
        plain["PREFECT_HOME"] = folder  # and no profile of the user's
        _run(settings, plain)  # once: kernels are compiled, releases are paid
        rows = [
            _row("crowdassay --help", [_help(plain) for _ in range(TRIES)], HELP),
            _row(
                "run where nothing is new, whole",
                [_unchanged(settings, plain) for _ in range(TRIES)],
            ),
        ]
        rows += _beyond("in process", settings, plain, IN_PROCESS)
        with embedded_server(Path(folder) / "prefect") as url:
            served = plain | {"PREFECT_API_URL": url}
            rows += _beyond("on a Prefect server", settings, served, ON_SERVER)
    publish(
        "startup",
        "What starting costs",
        ["CPU seconds", "median", "least", "goal"],
        rows,
        note=(
            f"Processor time of the command's process, {TRIES} tries each, on the sample campaign. What "
            "is beyond the stages' work is everything but it: starting, imports, settings, the run "
            "folder, Prefect, ending. What a stage imports is imported before the stages here, and "
            "counted. scikit-learn, which brings pandas and scipy.stats with it, is loaded only where "
            "class ratios are estimated, as in the sample: other runs are without it. The server, "
            "which runs already, has processor time of its own that is not in it."
        ),
    )


def _beyond(
    where: str, settings: Path, environment: dict[str, str], goal: float
) -> list[list[str]]:
    """What a run costs beyond its stages' work, and how much of that is the stages' imports."""
    beyond, imported, ratios = zip(
        *(_run(settings, environment) for _ in range(TRIES)), strict=True
    )
    return [
        _row(f"run beyond its stages' work, {where}", beyond, goal),
        _row("of that, what the stages import", imported),
        _row("of that, scikit-learn, for class ratios alone", ratios),
    ]


def _row(name: str, seconds: Sequence[float], goal: float | None = None) -> list[str]:
    wanted = "" if goal is None else f"< {goal:g}"
    return [name, f"{median(seconds):.2f}", f"{min(seconds):.2f}", wanted]


def _help(environment: dict[str, str]) -> float:
    return _cpu_seconds(["-m", "flows.cli", "--help"], environment)[0]


def _unchanged(settings: Path, environment: dict[str, str]) -> float:
    asked = ["-m", "flows.cli", "run", str(settings)]
    seconds, told = _cpu_seconds(asked, environment)
    if "nothing is new" not in told:
        raise RuntimeError(f"the run was to find nothing new, and said {told}")
    return seconds


def _run(settings: Path, environment: dict[str, str]) -> tuple[float, float, float]:
    """Processor time of `crowdassay run` beyond its stages, of their imports, and of scikit-learn's."""
    whole, told = _cpu_seconds(["-c", TIMED, "run", str(settings), "--again"], environment)
    in_stages, imported, ratios = map(float, told.split()[-3:])
    return whole - in_stages, imported, ratios


def _cpu_seconds(arguments: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """Processor time of a Python process, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, told.stdout


if __name__ == "__main__":
    main()

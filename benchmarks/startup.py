"""What starting costs: `--help`, and a run beyond its stages, in process and on a Prefect server.

A stage imports what it works with when it is run. Those imports are the stages' own and stand in a
row of their own: NumPy, SciPy, Numba, scikit-learn, DuckDB, OpenDP and Matplotlib, of a run that has
every stage.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.publish import publish
from flows.prefect_server import embedded_server
from flows.simulate import write_campaign

TRIES = 3
HELP, IN_PROCESS, ON_SERVER = 0.4, 2.0, 7.0  # the goals, in seconds of processor time
STAGES = ("reading", "workers", "consensus", "publication", "model", "reporting")
IMPORTED = f"""
import time
import flows.pipeline
begin = time.process_time()
import {", ".join(f"flows.stages.{stage}" for stage in STAGES)}
import duckdb, opendp.prelude, sklearn.linear_model
print(time.process_time() - begin)
"""
TIMED = """
import sys, time
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
from flows.cli import app
app(sys.argv[1:], standalone_mode=False)
print(in_stages)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "campaign" / "settings.toml"
        write_campaign(settings.parent, seed=20)
        plain = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
        plain["PREFECT_HOME"] = folder  # and no profile of the user's
        _beyond_stages(settings, plain)  # once: kernels are compiled, releases are paid
        rows = [
            _row("crowdassay --help", [_help(plain) for _ in range(TRIES)], HELP),
            _row(
                "run where nothing is new, whole",
                [_unchanged(settings, plain) for _ in range(TRIES)],
            ),
            _row("imports of all stages", [_imports(plain) for _ in range(TRIES)]),
            _row(
                "run beyond its stages, in process",
                [_beyond_stages(settings, plain) for _ in range(TRIES)],
                IN_PROCESS,
            ),
        ]
        with embedded_server(Path(folder) / "prefect") as url:
            served = plain | {"PREFECT_API_URL": url}
            on_server = [_beyond_stages(settings, served) for _ in range(TRIES)]
        rows.append(_row("run beyond its stages, on a Prefect server", on_server, ON_SERVER))
    publish(
        "startup",
        "What starting costs",
        ["CPU seconds", "median", "least", "goal"],
        rows,
        note=(
            f"Processor time of the command's process, {TRIES} tries each, on the sample campaign. What "
            "is beyond the stages is everything but them: starting, settings, the run folder, Prefect. "
            "A stage imports what it works with; these imports are in the stages' time, and are "
            "shown by themselves for a run that has every stage. The server, which runs already, has "
            "processor time of its own that is not in it."
        ),
    )


def _row(name: str, seconds: list[float], goal: float | None = None) -> list[str]:
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


def _imports(environment: dict[str, str]) -> float:
    return float(_cpu_seconds(["-c", IMPORTED], environment)[1])


def _beyond_stages(settings: Path, environment: dict[str, str]) -> float:
    """Processor time of `crowdassay run` without what is spent in its stages."""
    whole, told = _cpu_seconds(["-c", TIMED, "run", str(settings), "--again"], environment)
    return whole - float(told.split()[-1])


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

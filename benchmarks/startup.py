"""What starting costs: `--help`, and a run beyond its stages, in process and on a Prefect server."""

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
                "run, in process",
                [_beyond_stages(settings, plain) for _ in range(TRIES)],
                IN_PROCESS,
            ),
        ]
        with embedded_server(Path(folder) / "prefect") as url:
            served = plain | {"PREFECT_API_URL": url}
            on_server = [_beyond_stages(settings, served) for _ in range(TRIES)]
        rows.append(_row("run, on a Prefect server that runs already", on_server, ON_SERVER))
    publish(
        "startup",
        "What starting costs",
        ["CPU seconds", "median", "least", "goal"],
        rows,
        note=(
            f"Processor time of the command's process, {TRIES} tries each; of a run, without what its "
            "stages take on the sample campaign. The server's own processor time is not in it."
        ),
    )


def _row(name: str, seconds: list[float], goal: float) -> list[str]:
    return [name, f"{median(seconds):.2f}", f"{min(seconds):.2f}", f"< {goal:g}"]


def _help(environment: dict[str, str]) -> float:
    return _cpu_seconds(["-m", "flows.cli", "--help"], environment)[0]


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

"""The cost of starting: `--help`, a small run, whole and beyond its stages' work, and one with its server.

    python -m benchmarks.flows.startup
    python -m benchmarks.flows.startup --tries 3 --no-server

Imports are no work on the data, before the stages or in them: they count as starting and ending do.
"""

from __future__ import annotations

import compileall
import csv
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import flows
from benchmarks.machine import LOOP, loop_seconds
from benchmarks.publish import parser_of, publish
from flows.prefect import embedded_server
from flows.simulate import write_campaign

HELP, IN_PROCESS, ON_SERVER = 0.4, 2.0, 7.0  # the goals, in seconds of processor time
WHOLE, FIRST_EMBEDDED, LATER_EMBEDDED = 6.0, 20.0, 10.0  # of whole runs, two with their server
ROOMS = ("flows", "learners", "privacy", "quality")
TIMED = """
import atexit, gc, time
from importlib import _bootstrap
from flows.cli import main
gc.set_threshold(1_000_000)  # as main will, before it imports more
from flows import pipeline  # before what takes its `run_stage` by name

spent = {"in stages": 0.0, "imports in stages": 0.0}
counting = None

def count(what, work, *given):
    global counting
    outer, counting, begin = counting, what, time.process_time()
    try:
        return work(*given)
    finally:
        counting = outer
        spent[what] += time.process_time() - begin

def load(name, import_, load=_bootstrap._find_and_load):
    if counting == "in stages":
        return count("imports in stages", load, name, import_)
    return load(name, import_)

def run_stage(stage, run, run_stage=pipeline.run_stage):
    return count("in stages", run_stage, stage, run)

_bootstrap._find_and_load, pipeline.run_stage = load, run_stage
atexit.register(lambda: print(*spent.values()))
main()
"""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tries", type=int, default=5, help="of each measurement")
    parser.add_argument("--no-server", action="store_true", help="leave the Prefect server out")
    asked = parser.parse_args()
    tries: int = asked.tries
    for room in ROOMS:  # as who installs a package has it
        compileall.compile_dir(Path(flows.__file__).parents[1] / room, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "campaign" / "settings.toml"
        write_campaign(settings.parent, seed=20)
        plain = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
        plain["PREFECT_HOME"] = folder  # and no profile of the user's
        coded = _with_a_scale(settings, Path(folder) / "coded")
        for campaign in (settings, coded):
            _run(campaign, plain)  # once: kernels are compiled, releases are paid
        rows = [
            _row("crowdassay --help", [_help(plain) for _ in range(tries)], HELP),
            _row(
                "run where nothing is new, whole",
                [_unchanged(settings, plain) for _ in range(tries)],
            ),
        ]
        loops = [loop_seconds()]
        rows += _run_rows("in process", settings, plain, tries, IN_PROCESS, WHOLE)
        loops.append(loop_seconds())
        rows += _run_rows("in process, where boosted trees are tried", coded, plain, tries)
        loops.append(loop_seconds())
        if not asked.no_server:
            with embedded_server(Path(folder) / "prefect") as url:
                served = plain | {"PREFECT_API_URL": url}
                rows += _run_rows("on a Prefect server", settings, served, tries, ON_SERVER)
            loops.append(loop_seconds())
            rows += _embedded(settings, plain, tries)
            loops.append(loop_seconds())
        rows.append(_row(LOOP, loops))
    publish(
        "startup",
        "What starting costs",
        ["CPU seconds", "median", "least", "goal"],
        rows,
        note=(
            f"Processor time of the command's process, {tries} tries each, on the sample campaign; the "
            "package's bytecode is compiled before, as an installer does. Beyond "
            "the stages' work are starting, settings, the run folder, Prefect, ending and all "
            "imports, also those that happen while a stage works. Boosted "
            "trees are tried for class ratios where a feature takes 2 to 63 values (here one more, of "
            "7). scikit-learn, which brings pandas and scipy.stats with it, is loaded for these and where "
            "features join the consensus, as they do here. "
            + (
                "A run on a Prefect server was not measured this time."
                if asked.no_server
                else "The server, which runs already, has processor time of its own that is not in it. An "
                "embedded server is a child of its run, and counts whole: its imports, and in the first "
                "run the tables of its database."
            )
            + " A median above its goal is a goal missed."
            f" The machine's load was {os.getloadavg()[2]:.0f} on {os.cpu_count()} cores: work beside it "
            "makes processor time dearer."
        ),
    )


def _with_a_scale(settings: Path, folder: Path) -> Path:
    """The settings of the same campaign with one more feature, of seven values."""
    shutil.copytree(settings.parent, folder)
    with (folder / "tasks.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    with (folder / "tasks.csv").open("w", newline="") as file:
        scale = ([*row, place % 7] for place, row in enumerate(rows))
        csv.writer(file).writerows([[*header, "scale"], *scale])
    return folder / settings.name


def _run_rows(
    where: str,
    settings: Path,
    environment: dict[str, str],
    tries: int,
    goal: float | None = None,
    goal_whole: float | None = None,
) -> list[list[str]]:
    """What a run costs, how much of it beyond its stages' work, and of that, imports in the stages."""
    runs = (_run(settings, environment) for _ in range(tries))
    whole, beyond, imported = zip(*runs, strict=True)
    return [
        _row(f"run {where}, whole", whole, goal_whole),
        _row(f"run beyond its stages' work, {where}", beyond, goal),
        _row("of that, imports while the stages work", imported),
    ]


def _embedded(settings: Path, environment: dict[str, str], tries: int) -> list[list[str]]:
    """What a whole run costs with its embedded server, whose database the first one makes."""
    asked = ["-m", "flows.cli", "run", str(settings), "--prefect", "--again"]
    first, *later = (_cpu_seconds(asked, environment)[0] for _ in range(1 + tries))
    return [
        _row("first run with its embedded server, whole", [first], FIRST_EMBEDDED),
        _row("later run with its embedded server, whole", later, LATER_EMBEDDED),
    ]


def _row(name: str, seconds: Sequence[float], goal: float | None = None) -> list[str]:
    wanted = "" if goal is None else f"< {goal:g}"
    return [name, f"{median(seconds):.2f}", f"{min(seconds):.2f}", wanted]


def _help(environment: dict[str, str]) -> float:
    return _cpu_seconds(["-m", "flows.cli", "--help"], environment)[0]


def _unchanged(settings: Path, environment: dict[str, str]) -> float:
    asked = ["-m", "flows.cli", "run", str(settings)]
    seconds, shown = _cpu_seconds(asked, environment)
    if "nothing is new" not in shown:
        raise RuntimeError(f"the run should have found nothing new, and printed {shown}")
    return seconds


def _run(settings: Path, environment: dict[str, str]) -> tuple[float, float, float]:
    """Processor time of a run, of what is beyond its stages' work, and of imports in the stages."""
    whole, shown = _cpu_seconds(["-c", TIMED, "run", str(settings), "--again"], environment)
    in_stages, imported = map(float, shown.split()[-2:])
    if not in_stages > imported > 0:
        raise RuntimeError(f"stages must be seen at work, and importing; the run printed {shown}")
    return whole, whole - in_stages + imported, imported


def _cpu_seconds(arguments: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """Processor time of a Python process, and its standard output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, shown.stdout


if __name__ == "__main__":
    main()

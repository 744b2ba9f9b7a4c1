"""A year of scheduled runs: `crowdassay serve` on a Prefect server whose clock is moved.

    python -m benchmarks.flows.served_year

The clock of the server, of `serve` and of every run that it starts is shifted by `moved_clock.c`, which needs
a C compiler; time goes on at its own pace in between.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.flows.year import DELTA, EPSILON, RUNS, growing, prepare
from benchmarks.publish import parser_of, publish
from flows.prefect.server import QUIET
from flows.run import Run
from flows.settings import Settings, load_settings
from flows.spending import preview, read_statements, year_of
from flows.spending.cohorts import known_sizes

__all__ = ["Firing", "build_clock", "free_port", "serve_year", "started", "until"]

T = TypeVar("T")
CRON, FIRST = "0 6 1 * *", datetime(2027, 1, 1, 6, tzinfo=UTC)
AHEAD = timedelta(seconds=4)  # before it is due, a month comes
WAIT = 1_800.0
MONTHLY = ("proportions", "model", "gate")
NOTE = (
    '`crowdassay serve settings.toml --cron "{cron}"` is started once, on a Prefect server, in December '
    "2026. Both are programs of their own, and so is each run. Before each first of a month the sample "
    "campaign gains a twelfth of its tasks, and the clock of all of them is moved there; "
    "nothing else is done in between. The budget is epsilon {epsilon:g}, delta {delta:g}, with "
    '`planned_runs = {runs}` and `publication = "%Y-%m"`.'
)


@dataclass(frozen=True, slots=True)
class Firing:
    """What became of a month: Prefect's state and name of the run, what was published, what is spent."""

    state: str
    name: str
    skipped: tuple[str, ...]
    publication: str
    gate: str
    spent: dict[str, float]


def build_clock(folder: Path) -> Path | None:
    """Compile what moves the clock of programs that preload it; None where there is no C compiler."""
    compiler, library = shutil.which("cc"), folder / "moved_clock.so"
    if compiler is None or sys.platform != "linux":
        return None
    options = ("-O2", "-shared", "-fPIC", "-o", str(library))
    source = Path(__file__).with_name("moved_clock.c")
    subprocess.run([compiler, *options, str(source), "-ldl"], check=True)
    return library


def serve_year(
    path: Path, grow: Callable[[int], object], *, runs: int, home: Path, library: Path
) -> Iterator[Firing]:
    """Serve a campaign on a server of its own, month by month, and yield what became of each.

    Parameters
    ----------
    path
        The settings file.
    grow
        Called with each month's number, from 1, before it comes.
    runs
        How many months come.
    home
        The server's folder.
    library
        As `build_clock` returns it.
    """
    clock = _Clock(home / "clock")
    clock.move_to(FIRST - timedelta(days=1))
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    environment = os.environ | QUIET | clock.environment(library) | {
        "PREFECT_HOME": str(home), "PREFECT_API_URL": api, "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
    }  # fmt: skip
    log, settings = home / "serve.log", load_settings(path)
    server = ("prefect", "server", "start", "--port", str(port), "--no-ui")
    serve = ("flows.cli", "serve", str(path), "--cron", CRON)
    with started(*server, log=home / "server.log", environment=environment):
        until(lambda: _health(api))
        with started(*serve, log=log, environment=environment):
            until(lambda: "Ctrl-C ends it" in log.read_text() or None)
            for month in range(1, runs + 1):
                grow(month)
                clock.move_to(FIRST.replace(month=month) - AHEAD)
                ended = until(lambda month=month: _ended(api, month))  # type: ignore[misc]
                yield _firing(settings, ended)


class _Clock:
    """The clock of programs that are started with its environment."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_bytes(bytes(8))

    def move_to(self, moment: datetime) -> None:
        """Move the clock of programs that go on; in place, since they have mapped the file."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", round((moment - datetime.now(UTC)).total_seconds())))

    def environment(self, library: Path) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "MOVED_CLOCK": str(self._file)}


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def started(
    *arguments: str, log: Path = Path(os.devnull), environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python module as a job in the background, which ignores Ctrl-C; end it by SIGTERM.

    Without an `environment` it has this process's.
    """
    job = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            job, stdout=output, stderr=output, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()


def until(found: Callable[[], T | None]) -> T:
    """Return what is found, as soon as it is; raise TimeoutError after half an hour."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        if (value := found()) is not None:
            return value
        time.sleep(0.5)
    raise TimeoutError(f"{getattr(found, '__name__', found)} found nothing within {WAIT:g} s")


def _health(api: str) -> bool | None:
    with suppress(OSError), urllib.request.urlopen(f"{api}/health", timeout=5):
        return True
    return None


def _ended(api: str, month: int) -> dict[str, Any] | None:
    """The scheduled run of a month, once it has ended."""
    asked = {"flow_runs": {"tags": {"all_": ["auto-scheduled", "crowdassay"]}}}
    request = urllib.request.Request(
        f"{api}/flow_runs/filter", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)
    of_month = [one for one in found if f"-{month:02d}-01T06:00" in one["expected_start_time"]]
    ended = [one for one in of_month if one["end_time"] is not None]
    return ended[0] if ended else None


def _firing(settings: Settings, ended: dict[str, Any]) -> Firing:
    if ended["state_name"] != "Completed":
        return Firing(ended["state_name"], ended["name"], MONTHLY, "", "", {})
    newest = max(settings.runs.iterdir(), key=lambda folder: folder.name)
    run = Run(newest, settings)
    found = {name: run.read_json(f"{name}.json") for name in MONTHLY}
    skipped = tuple(name for name, one in found.items() if "skipped" in one)
    publication = found["proportions"].get("publication", "")
    return Firing(
        ended["state_name"],
        ended["name"],
        skipped,
        publication,
        found["gate"].get("status", ""),
        run.read_json("spend.json")["spent"],
    )


def main() -> None:
    parser_of(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        campaign, home = Path(folder, "campaign"), Path(folder, "prefect")
        path = prepare(campaign)
        text = path.read_text()
        path.write_text(text.replace("planned_runs", 'publication = "%Y-%m"\nplanned_runs', 1))
        grow, months = growing(campaign), list[Firing]()
        home.mkdir()
        library = build_clock(home)
        if library is None:
            raise SystemExit("a C compiler, cc, must be there to build a clock that can be moved")
        for month in serve_year(path, grow, runs=RUNS, home=home, library=library):
            months.append(month)
            print(month, flush=True)
        rows = figures(load_settings(path), months)
    note = NOTE.format(cron=CRON, epsilon=EPSILON, delta=DELTA, runs=RUNS)
    publish(
        "served_year", "A year of scheduled runs", ("figure", "found", "to hold"), rows, note=note
    )


def figures(settings: Settings, months: Sequence[Firing]) -> list[list[str]]:
    """What the year came to, and what it was to."""
    year = year_of(settings)
    assert year is not None
    price = {"epsilon": float(year.cost().epsilon), "delta": float(year.cost().delta)}
    predicted = preview(settings.state, settings)["year"]["price"]
    spent = read_statements(settings.state)[0]["spent"]
    same = all(one == price for one in (predicted, spent, *(month.spent for month in months)))
    keys = [f"2027-{month:02d}" for month in range(1, RUNS + 1)]
    states = Counter(month.state for month in months)
    agreed = sum(month.gate == "agrees" for month in months)
    named = sum(f" {key}-01 06:00" in one.name for key, one in zip(keys, months, strict=True))
    silent = sum(bool(one.skipped) for one in months)
    cohorts = list(known_sizes(settings.state, settings.name))
    return [
        ["runs that the schedule fired, by Prefect's state", counted(states), f"Completed {RUNS}"],
        ["runs named by the moved clock", str(named), str(RUNS)],
        ["months refused or silent", str(silent), "0"],
        ["publications, each with its cohort", f"{cohorts[0]} to {cohorts[-1]}: {len(cohorts)}",
         f"{keys[0]} to {keys[-1]}: {RUNS}"],
        ["months whose gate agreed", str(agreed), str(RUNS)],
        ["ledger's sum after each month, plan's price, preview", json.dumps(spent), f"equal: {same}"],
    ]  # fmt: skip


def counted(states: Counter[str]) -> str:
    return ", ".join(f"{state} {n}" for state, n in sorted(states.items()))


if __name__ == "__main__":
    main()

"""Where a terminal says nothing new for more than five seconds, in every command that can take that long.

    python -m benchmarks.flows.silences --only run run-on-shards --labels 1000000

Each command runs in a terminal of its own, on a simulated campaign. A silence is a stretch in which the
words on the terminal stay the same; its clock runs on, and is not counted as words. A served campaign
is asked for one run, for which Prefect looks every ten seconds, and ended as by Ctrl-C. The page lists
every silence of more than five seconds with what the terminal showed meanwhile, or "nothing". A command
that is never silent for so long has one row, with its longest silence.

Seconds are those on the wall, which depend on what else the cores are doing. The command runs what it is
asked for and keeps the other rows of the page; the last column is the day on which a row was measured.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.flows.default_run import ENGINE, Shape, rows_of, write_campaign
from benchmarks.publish import RESULTS, parser_of, publish
from flows.prefect import embedded_server

HEADER = ("command", "size", "took s", "silent s", "the terminal shows", "measured")
PAGE = RESULTS / "silences.md"
LONG = 5.0  # seconds
Meanwhile = Callable[[subprocess.Popen[bytes]], None]  # what happens while a command runs
UNSEEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\u2800-\u28ff]|[━╸╺]|\d+:\d\d:\d\d|-:--:--")


@dataclass(frozen=True)
class Silence:
    """A stretch without new words, and what was shown in it."""

    seconds: float
    shown: str


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_campaign(folder, Shape(asked.labels, asked.workers))
        _crowdassay(folder, "init", "labels.parquet", "tasks.parquet", "--name", "trial")
        before = rows_of(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
        for name in asked.only:
            with _api(folder) if name in ON_A_SERVER else nullcontext():
                size, arguments = COMMANDS[name](folder, asked.labels)
                took, found = listened(arguments, folder, ON_A_SERVER.get(name))
            title = f"crowdassay {' '.join(arguments)}"
            before[title] = [(title, size, *row) for row in _rows(took, found)]
            every = [row for rows in before.values() for row in rows]
            note = "\n\n".join(" ".join(part.split()) for part in __doc__.split("\n\n")[2:])
            note += (
                f" At the end the machine's load was {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores: a "
                "machine with nothing else to do is that many times less silent."
            )
            publish("silences", "What a terminal shows while it waits", HEADER, every, note=note)


def _rows(took: float, found: Sequence[Silence]) -> list[tuple[str, ...]]:
    """A row for each long silence, or one for the longest."""
    shown = [one for one in found if one.seconds > LONG]
    if not shown:
        shown = [max(found, key=lambda one: one.seconds)]
    day = date.today().isoformat()
    return [
        (
            f"{took:.0f}",
            f"{one.seconds:.1f}",
            one.shown or "nothing",
            day,
        )
        for one in shown
    ]


def listened(
    arguments: Sequence[str], folder: Path, meanwhile: Meanwhile | None = None
) -> tuple[float, list[Silence]]:
    """Run a command in a terminal; return how long it took, and the stretches without new words.

    What is to happen meanwhile happens in a thread of its own.
    """
    ours, theirs = pty.openpty()
    begin = time.perf_counter()
    environment = os.environ | {"COLUMNS": "300", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *arguments], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    if meanwhile is not None:
        threading.Thread(target=meanwhile, args=(process,), daemon=True).start()
    found, since, words, text = [], begin, "", ""
    while True:
        ready, _, _ = select.select([ours], [], [], 1.0)
        try:
            read = os.read(ours, 65_536) if ready else b""
        except OSError:  # the terminal's other end is closed
            break
        if ready and not read:
            break
        text += read.decode(errors="replace")
        *whole, text = re.split(r"[\r\n]", text)
        lines = [" ".join(UNSEEN.sub("", line).split()) for line in [*whole, text]]
        new = next((line for line in reversed(lines) if line), words)
        if new != words:
            found.append(Silence(time.perf_counter() - since, words))
            since, words = time.perf_counter(), new
    os.close(ours)
    found.append(Silence(time.perf_counter() - since, words))
    if process.wait() not in (0, 1, 3):  # an audit that refutes, a candidate that is overfit
        raise RuntimeError(
            f"crowdassay {' '.join(arguments)} ended with {process.returncode}: {words}"
        )
    return time.perf_counter() - begin, found


def _crowdassay(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "flows.cli", *arguments], cwd=folder, check=True)


Asked = tuple[str, list[str]]


def _on_labels(*arguments: str) -> Callable[[Path, int], Asked]:
    """A command on the campaign's tables."""
    return lambda _, n_labels: (f"{n_labels:,} labels", list(arguments))


def _on_shards(folder: Path, n_labels: int) -> Asked:
    text = (folder / "settings.toml").read_text(encoding="utf-8").replace('"trial"', '"shards"', 1)
    engine = "\n[engine]\nwhole_labels = 0\n"
    (folder / ENGINE).write_text(text + engine, encoding="utf-8")
    return f"{n_labels:,} labels", ["run", ENGINE, "--no-prefect"]


def _export(folder: Path, n_labels: int) -> Asked:
    table = pq.read_table(folder / "labels.parquet").rename_columns(["who", "what", "said"])
    pq.write_table(table, folder / "export.parquet")
    columns = "worker=who,task=what,label=said"
    written = ["--format", "table", "--map", columns, "--output", "imported.csv"]
    return f"{n_labels:,} labels", ["import", "export.parquet", *written]


def _comparisons(folder: Path, n_labels: int) -> Asked:
    rng, n_items = np.random.default_rng(0), 500
    left = rng.integers(n_items, size=n_labels)
    right = (left + rng.integers(1, n_items, size=n_labels)) % n_items
    wins = rng.random(n_labels) < 1 / (1 + np.exp((left - right) / 100))
    table = {
        "worker": [f"w{code}" for code in rng.integers(2_000, size=n_labels).tolist()],
        "left": [f"i{code}" for code in left.tolist()],
        "right": [f"i{code}" for code in right.tolist()],
        "winner": np.where(wins, "left", "right").tolist(),
        "question": [f"q{code}" for code in (np.minimum(left, right) * n_items).tolist()],
    }
    pq.write_table(pa.table(table), folder / "comparisons.parquet")
    return f"{n_labels:,} comparisons", ["rank", "comparisons.parquet"]


def _sets(folder: Path, n_labels: int) -> Asked:
    _crowdassay(
        folder, "simulate", "--tasks", str(n_labels // 5), "--several", "3", "--classes", "8",
        "--workers", "500", "--output", "sets",
    )  # fmt: skip
    return f"{n_labels:,} answers", ["multilabel", "sets/labels.csv"]


def _scores(folder: Path, n_labels: int) -> Asked:
    rng, n_candidates = np.random.default_rng(0), 20
    n_examples = n_labels // n_candidates
    example = np.tile(np.arange(n_examples), n_candidates)
    table = {
        "candidate": np.repeat([f"c{code}" for code in range(n_candidates)], n_examples),
        "example": [f"e{code}" for code in example.tolist()],
        "split": np.where(example % 2 == 0, "development", "holdout"),
        "score": rng.random(len(example)),
    }
    pq.write_table(pa.table(table), folder / "scores.parquet")
    return f"{n_labels:,} scores", ["gate", "scores.parquet", "--state", "gate"]


@contextmanager
def _api(folder: Path) -> Iterator[None]:
    """Have a Prefect server, with a work pool, as the configured API."""
    with embedded_server(folder / "prefect") as url:
        os.environ["PREFECT_API_URL"] = url
        pool = ["work-pool", "create", "crowd", "--type", "process", "--overwrite"]
        subprocess.run([sys.executable, "-m", "prefect", *pool], check=True, capture_output=True)
        try:
            yield
        finally:
            del os.environ["PREFECT_API_URL"]


def _served(folder: Path, n_labels: int) -> Asked:
    for name in ("runs", "state"):  # after another command's run nothing would be new
        shutil.rmtree(folder / name, ignore_errors=True)
    return f"{n_labels:,} labels", ["serve", "settings.toml"]


def _request_a_run(process: subprocess.Popen[bytes]) -> None:
    """Request a run of the campaign that is served; when it has ended, end the process as Ctrl-C does."""
    from prefect import get_client  # reads the environment when it is imported
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_URL, temporary_settings

    url = {PREFECT_API_URL: os.environ["PREFECT_API_URL"]}
    with temporary_settings(url), get_client(sync_client=True) as client:
        deployment = run = None
        while deployment is None:
            time.sleep(1.0)
            with suppress(ObjectNotFound):
                deployment = client.read_deployment_by_name("crowdassay/trial")
        run = client.create_flow_run_from_deployment(deployment.id)
        while run.state is None or not run.state.is_final():
            time.sleep(1.0)
            run = client.read_flow_run(run.id)
    process.send_signal(signal.SIGINT)


def _warm(folder: Path, n_labels: int) -> Asked:
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")  # an empty one; it is asked for last
    return "no kernel compiled", ["warm"]


COMMANDS: dict[str, Callable[[Path, int], Asked]] = {
    "init": _on_labels("init", "labels.parquet", "tasks.parquet", "--output", "another.toml"),
    "run": _on_labels("run", "settings.toml", "--no-prefect"),
    "run-on-shards": _on_shards,
    "check": _on_labels("check", "labels.parquet"),
    "workers": _on_labels("workers", "labels.parquet", "--output", "workers.csv", "--force"),
    "aggregate": _on_labels("aggregate", "labels.parquet", "--output", "consensus.csv", "--force"),
    "agreement": _on_labels("agreement", "labels.parquet"),
    "plan": _on_labels("plan", "gold", "settings.toml"),
    "import": _export,
    "rank": _comparisons,
    "multilabel": _sets,
    "gate": _scores,
    "simulate": lambda _, n: (
        f"{n:,} labels",
        ["simulate", "--tasks", str(n // 5), "--output", "crowd"],
    ),
    "audit": lambda _, n: (
        f"{n // 5:,} draws",
        ["audit", "lattice_laplace", "--draws", str(n // 5)],
    ),
    "deploy": lambda *_: ("a deployment", ["deploy", "settings.toml", "--pool", "crowd"]),
    "serve": _served,
    "audit-folder": lambda *_: ("60 draws", ["audit", "public_folder", "--draws", "60"]),
    "warm": _warm,
}

ON_A_SERVER: dict[str, Meanwhile | None] = {"deploy": None, "serve": _request_a_run}


if __name__ == "__main__":
    main()

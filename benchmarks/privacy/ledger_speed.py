"""The time of the ledger's calls by its number of entries: `python -m benchmarks.privacy.ledger_speed`."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.publish import parser_of, publish
from flows.files import KEY as KEY_FILE
from flows.files import LEDGER
from privacy import LatticeLaplace, Ledger, Query, Unit, plan
from privacy.accounting import event_json
from privacy.ledger.ledger import store_at
from privacy.ledger.records import Access, append
from privacy.ledger.store import entries, releases
from privacy.mechanisms import LatticeLaplaceEvent

KEY = bytes(range(32))
SIZES = (100_000, 1_000_000)
CELLS = 1_000  # of one partition, each released again and again
BATCH = 50_000
LISTED = 20


def main() -> None:
    parser_of(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = [_measure(Path(folder) / str(size), size) for size in SIZES]
    publish(
        "ledger_speed",
        "The ledger's calls, by its number of entries",
        ["CPU seconds", *(f"{size:,} entries" for size in SIZES)],
        [[name, *(f"{one[name]:.3g}" for one in measured)] for name in measured[0]],
        note=(
            f"SQLite file; {CELLS:,} cells of one partition, one release of each in turn, every entry "
            "with a stored value. CPU time of the process, in which waiting for the disk is not "
            "counted. Opening and each statement also follow the newest 10,000 rows of the chain. The "
            "command is a process from its start to its end, which opens the ledger, prints the totals of "
            "all entries and a plan among them, and lists the newest 20."
        ),
    )


def _measure(state: Path, size: int) -> dict[str, float]:
    """CPU seconds of each call on a ledger of this many entries, in a campaign's state folder."""
    state.mkdir(mode=0o700)
    (state / KEY_FILE).write_bytes(KEY)
    path = state / LEDGER
    ledger = Ledger(path, key=KEY)
    ledger.open_budget("speed", unit=Unit.CONSENSUS_LABEL, epsilon=1e9, delta=1e-3, n=4)
    filling = _seconds(lambda: _fill(path, size))
    query, mechanism = _query(3), LatticeLaplace(epsilon=0.1)
    ledger.release(mechanism, _query(2))  # the noise source is loaded once to a process
    bundle = plan({mechanism.event(query): 16}, delta=1e-6)  # and so is what composes
    entry = ledger.open_plan("speed", bundle, name="sixteen months")
    return {
        "writing an entry and its value, in bulk": filling / size,
        "opening": _seconds(lambda: Ledger(path, key=KEY)),
        f"statement, newest {LISTED} entries listed": _seconds(
            lambda: ledger.statement("speed", entries=LISTED)
        ),
        "release of one new value": _seconds(lambda: ledger.release(mechanism, query)),
        "release of one new value from a plan": _seconds(
            lambda: ledger.release(mechanism, _query(4), plan=entry)
        ),
        "release of a stored value": _seconds(lambda: ledger.release(mechanism, query)),
        "the command `crowdassay budget`": _command_seconds("budget", str(state)),
        "verify": _seconds(ledger.verify),
        "backup": _seconds(lambda: ledger.backup(path.with_suffix(".backup"))),
        "statement, all entries listed": _seconds(lambda: ledger.statement("speed")),
    }


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def _command_seconds(*words: str) -> float:
    """CPU seconds of a whole process of the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", "from flows.cli import app; app()", *words],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _query(count: int) -> Query:
    value = np.array([count, 1])
    return Query("speed", "asked", value, Unit.CONSENSUS_LABEL, n=count + 1, l1=2.0)


def _fill(path: Path, size: int) -> None:
    """Write entries and values as the ledger does, many to a transaction."""
    store = store_at(path)
    for first in range(1, size + 1, BATCH):
        batch = list(_rows(first, min(first + BATCH, size + 1)))
        with Access(store, KEY).writing() as book:
            append(book, entries, [entry for entry, _ in batch])
            append(book, releases, [release for _, release in batch])


def _rows(first: int, end: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    event = event_json(LatticeLaplaceEvent(scale=200.0, l1=2.0, n_classes=2, epsilon=0.01))
    for number in range(first, end):
        shared = {"entry": number, "time": "2026-01-01T00:00:00+00:00"}
        entry = shared | {
            "dataset": "speed",
            "query": "class counts",
            "unit": str(Unit.CONSENSUS_LABEL),
            "n": 4,
            "partition": "site:1",
            "cell": f"cell {number % CELLS}",
            "mechanism": "LatticeLaplace",
            "event": event,
            "fingerprint": number.to_bytes(32, "big"),
            "facts": None,
        }
        yield entry, shared | {"contents": None, "value": "[2, 2]"}


if __name__ == "__main__":
    main()

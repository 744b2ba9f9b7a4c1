"""Questions that the reusable holdout answers in a second of CPU time: as an algorithm, and by the ledger.

``python -m benchmarks.learners.thresholdout_speed``
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.learners.stability import seeded
from benchmarks.publish import parser_of, publish
from learners.holdout.thresholdout import Thresholdout
from privacy import History, Ledger, Query, Question, Unit

N = 10_000
SIZES = (100, 10_000)  # questions of one batch
# never refutes here, so that all is asked
GATE = Thresholdout(threshold=0.2, sigma=0.002, budget=3)
QUERY = Query("speed", "holdout", np.zeros(N), Unit.ROW, n=N, l1=math.inf)


def main() -> None:
    parser_of(__doc__).parse_args()
    right = np.arange(N) % 2 == 0
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            ("algorithm, true or false", f"{rate(algorithm(right), 50_000):,.0f}"),
            ("algorithm, numbers in [0, 1]", f"{rate(algorithm(right * 1.0), 50_000):,.0f}"),
            ("ledger, true or false", f"{rate(ledger(Path(folder), right), 1_000):,.0f}"),
            *(
                (
                    f"ledger, true or false, {size:,} at once",
                    f"{batched(Path(folder), right, size):,.0f}",
                )
                for size in SIZES
            ),
        ]
    publish(
        "thresholdout_speed",
        "Questions answered by Thresholdout per second of CPU time",
        ["path, one value per record", "questions a second"],
        rows,
        note=(
            f"{N:,} records, values computed beforehand, one question at a time unless stated "
            "otherwise, best of three runs. Algorithm: the mechanism's own step, with noise from a seeded "
            "generator. Ledger: noise from OpenDP's exact sampler, one transaction that stores the answer "
            "and the secret state after it, SQLite file; waiting for the disk is not "
            "counted. At once: the same rows for each question, in one transaction for all."
        ),
    )


def algorithm(values: np.ndarray) -> Callable[[int], None]:
    noise = seeded(0)
    state = GATE.start(QUERY, noise)
    asked = Question("accuracy", {"train": 0.5, "holdout": values})
    history = History(1, 1, GATE.event(QUERY).cost(), ())

    def ask(_: int) -> None:
        nonlocal state
        state = GATE.answer(state, asked, noise, history)[0]

    return ask


def ledger(folder: Path, values: np.ndarray) -> Callable[[int], None]:
    door = opened(folder / "ledger.sqlite")
    count = iter(range(10**9))

    def ask(_: int) -> None:
        asked = Question(f"model {next(count)}", {"train": 0.5, "holdout": values})
        door.interact(GATE, QUERY, asked)

    return ask


def batched(folder: Path, values: np.ndarray, size: int) -> float:
    """Questions a second where so many are asked at once."""
    door = opened(folder / f"{size}.sqlite")
    count = iter(range(10**9))

    def ask(_: int) -> None:
        asked = {"train": 0.5, "holdout": values}
        door.interact_all(
            GATE, QUERY, [Question(f"model {next(count)}", asked) for _ in range(size)]
        )

    return size * rate(ask, 1)


def opened(path: Path) -> Ledger:
    door = Ledger(path, key=bytes(range(32)))
    door.open_budget("speed", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=N)
    return door


def rate(ask: Callable[[int], None], times: int) -> float:
    seconds = math.inf
    for _ in range(3):
        begin = time.process_time()
        for k in range(times):
            ask(k)
        seconds = min(seconds, time.process_time() - begin)
    return times / seconds


if __name__ == "__main__":
    main()

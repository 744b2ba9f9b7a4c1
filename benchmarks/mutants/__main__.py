"""Plant every mutant, one at a time, and count those that a test catches.

``make mutants``, or ``python -m benchmarks.mutants [--only PART] [--every N] [--workers N]``. It exits
with 1 where fewer than 95 in 100 are caught, where one that survives is not listed with its reason
(`survivors.py`), or where a mutant on a list is of code that is there no more.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.mutants.operators import Mutant, mutants_of
from benchmarks.mutants.planting import (
    KILLED,
    SURVIVED,
    UNPLANTED,
    check_tests,
    try_mutant,
)
from benchmarks.mutants.survivors import SURVIVORS
from benchmarks.mutants.written import WRITTEN, check_written, try_written

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = 0.95
LIMIT = 900  # seconds for one mutant
OUTCOMES = {KILLED: "killed", SURVIVED: "survived", UNPLANTED: "not planted"}
AROUND = {  # tests of the places that use a folder's code, beside those of the folder itself
    "privacy/ledger": [],
    "privacy/accounting": ["tests/privacy/mechanisms"],
    "learners/holdout": [],
    "privacy": [],
    "privacy/mechanisms": ["tests/privacy/ledger/test_releasing.py"],
    "flows/spending": [
        "tests/flows/stages/test_publication.py", "tests/flows/stages/test_model.py",
    ],
}  # fmt: skip
"""The folders whose files are mutated."""

Task = tuple[str, Path, Mutant]
"""A mutant's full name, its file, and itself."""


def targets() -> list[Path]:
    """The files that are mutated."""
    return [
        path
        for folder in AROUND
        for path in sorted((ROOT / folder).glob("*.py"))
        if path.name != "__init__.py"
    ]


def tests_of(path: Path) -> tuple[list[str], list[str]]:
    """The tests of a file, and those around it."""
    folder = path.parent.relative_to(ROOT)
    beside = ROOT / "tests" / folder
    own = beside / f"test_{path.stem}.py"
    others = [one for one in sorted(beside.glob("test_*.py")) if one != own]
    near = [str(own)] if own.is_file() else []
    far = [*map(str, others), *(str(ROOT / one) for one in AROUND[str(folder)])]
    return (near, far) if near else (far, far[:1])


def all_tasks(only: str) -> list[Task]:
    """Every mutant made by rule whose name holds a text."""
    found = []
    for path in targets():
        for mutant in mutants_of(path.read_text(encoding="utf-8")):
            name = f"{path.relative_to(ROOT)} {mutant.name}"
            if only in name:
                found.append((name, path, mutant))
    return found


def outcomes(tasks: Sequence[Task], workers: int) -> Iterator[tuple[str, int, int]]:
    """Try mutants in forks of this process, several at a time; yield name, line and outcome."""
    waiting, running = list(reversed(tasks)), dict[int, Task]()
    while waiting or running:
        while waiting and len(running) < workers:
            task = waiting.pop()
            _, path, mutant = task
            child = os.fork()
            if child == 0:
                os._exit(try_mutant(path, mutant, *tests_of(path), LIMIT))
            running[child] = task
        child, status = os.wait()
        name, _, mutant = running.pop(child)
        code = os.waitstatus_to_exitcode(status)
        yield name, mutant.line, code if code in (SURVIVED, UNPLANTED) else KILLED


def stale(made: Mapping[str, int], only: str) -> list[str]:
    """Names on the list of survivors that are no mutant's any more."""
    return [name for name in SURVIVORS if only in name and name not in made]


def main() -> int:
    """Try all mutants; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", default="", help="mutants whose file, function or code holds this"
    )
    parser.add_argument("--every", type=int, default=1, help="only each N-th mutant made by rule")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    given = parser.parse_args()
    check_written(ROOT)
    tasks = all_tasks(given.only)
    faults = [
        f"no such mutant: {one}" for one in stale(dict.fromkeys(t[0] for t in tasks), given.only)
    ]
    tasks = tasks[:: given.every]
    if given.list:
        print("\n".join(name for name, _, _ in tasks))
        return 0
    begun, counts = time.monotonic(), Counter[str]()
    tests = sorted({test for _, path, _ in tasks for side in tests_of(path) for test in side})
    written = [one for one in WRITTEN if given.only in one.name]
    check_tests(tests)
    for name, line, code in outcomes(tasks, given.workers):
        outcome = OUTCOMES[code]
        counts[outcome] += 1
        if counts.total() % 50 == 0:
            print(f"{counts.total():,} of {len(tasks):,} tried", flush=True)
        if code == KILLED and name in SURVIVORS:
            faults.append(f"listed as a survivor, and killed: {name}")
        if code != KILLED:
            print(f"{outcome}, line {line}: {name}", flush=True)
            if name not in SURVIVORS:
                faults.append(f"{outcome}: {name}")
    for one in written:
        outcome = OUTCOMES[try_written(one, ROOT)]
        counts[outcome] += 1
        if outcome != "killed":
            print(f"{outcome}: {one.name}", flush=True)
            faults.append(f"{outcome}: {one.name}")
    tried = sum(counts.values())
    share = counts["killed"] / max(1, tried)
    print(f"{counts['killed']:,} of {tried:,} mutants killed ({share:.1%}), "
          f"in {(time.monotonic() - begun) / 60:.0f} minutes")  # fmt: skip
    print(*faults, sep="\n")
    return int(bool(faults) or not share >= ENOUGH)


if __name__ == "__main__":
    sys.exit(main())

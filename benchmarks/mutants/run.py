"""Plant every mutant, one at a time, and count those that a test catches.

``make mutants``, or ``python -m benchmarks.mutants.run [--only PART] [--every N] [--workers N]``. It exits
with 1 where fewer than 95 in 100 are caught, where one that survives is not listed with its reason
(`survivors.py`), or where a mutant on a list is of code that is there no more.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
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
from benchmarks.mutants.written import WRITTEN, check_written, copy_tree, try_written

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

LEFT_OUT = ("__init__.py", "postgres.py")
"""Faces hold names alone. What a server does is tested on one, by `make test-postgres`; the mutants of
its rules are written by hand."""

Task = tuple[str, Path, Mutant]
"""A mutant's full name, its file, and itself."""


def targets() -> list[Path]:
    """The files that are mutated."""
    return [
        path
        for folder in AROUND
        for path in sorted((ROOT / folder).glob("*.py"))
        if path.name not in LEFT_OUT
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


def written_outcomes(only: str) -> Iterator[tuple[str, int, int]]:
    """Try the mutants written by hand; yield name, line and outcome."""
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(ROOT, Path(folder))
        for one in WRITTEN:
            if only in one.name:
                text = (ROOT / one.path).read_text(encoding="utf-8")
                line = 1 + text[: text.index(one.old)].count("\n")
                yield f"{one.path}: {one.name}", line, try_written(one, Path(folder))


def judge(found: Iterable[tuple[str, int, int]], n_all: int) -> tuple[int, int, list[str]]:
    """Print what survives as it is found; return mutants tried and killed, and what is wrong."""
    tried, killed, faults = 0, 0, []
    for name, line, code in found:
        tried, killed = tried + 1, killed + (code == KILLED)
        if tried % 50 == 0:
            print(f"{tried:,} of {n_all:,} tried, {killed:,} killed", flush=True)
        if code == KILLED and name in SURVIVORS:
            faults.append(f"listed as a survivor, and killed: {name}")
        if code != KILLED:
            print(f"{OUTCOMES[code]}, line {line}: {name}", flush=True)
            if name not in SURVIVORS:
                faults.append(f"{OUTCOMES[code]} and not listed: {name}")
    return tried, killed, faults


def main() -> int:
    """Try all mutants; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="mutants whose file, function or code holds it")
    parser.add_argument("--every", type=int, default=1, help="each N-th of those made by rule")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--by", choices=("rule", "hand"), help="only mutants made this way")
    parser.add_argument("--list", action="store_true", help="print those made by rule, try none")
    given = parser.parse_args()
    check_written(ROOT)
    made = [] if given.by == "hand" else all_tasks(given.only)
    names = {name for name, _, _ in made}
    gone = [one for one in SURVIVORS if made and given.only in one and one not in names]
    if given.list:
        print(*sorted(names), sep="\n")
        return 0
    tasks, begun = made[:: given.every], time.monotonic()
    check_tests(sorted({test for _, path, _ in tasks for side in tests_of(path) for test in side}))
    found = outcomes(tasks, given.workers)
    if given.by != "rule":
        found = chain(found, written_outcomes(given.only))
    tried, killed, faults = judge(found, len(tasks) + len(WRITTEN) * (given.by != "rule"))
    faults += [f"listed as a survivor, and no mutant: {one}" for one in gone]
    minutes = (time.monotonic() - begun) / 60
    print(f"{killed:,} of {tried:,} mutants killed ({killed / tried:.1%}), {minutes:.0f} minutes")
    print(*faults, sep="\n")
    return int(bool(faults) or killed < ENOUGH * tried)


if __name__ == "__main__":
    sys.exit(main())

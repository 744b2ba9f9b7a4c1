"""Plant a mutant in a process that has everything imported already, and run tests there.

Importing the rooms and the tests takes seconds, a test of a guard milliseconds. So one process
imports all of it, and each mutant is planted in a fork: functions that are alive get the mutant's
code in place of their own.
"""

import contextlib
import functools
import gc
import multiprocessing.process
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from benchmarks.mutants.operators import Mutant

__all__ = [
    "KILLED",
    "SURVIVED",
    "UNPLANTED",
    "check_tests",
    "plant",
    "run_tests",
    "skip_processes",
    "try_mutant",
]

KILLED, SURVIVED, UNPLANTED = 1, 0, 3
FAST = ("-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", "--tb=no")
SHARED_MEMORY = Path("/dev/shm")  # a ledger waits for the disk at every write


class Order:
    """A plugin: notes how long each test takes, and runs the quick ones of each file first."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the seconds of a test and of what it sets up."""
        self.seconds[report.nodeid] += report.duration

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep files together, as what they set up is theirs, and their order as it was asked."""
        place = {path: number for number, path in enumerate(dict.fromkeys(i.path for i in items))}
        items.sort(key=lambda item: (place[item.path], self.seconds[item.nodeid]))


ORDER = Order()


def check_tests(tests: Sequence[str]) -> None:
    """Run tests on the code as it is, so that all of it is imported; raise if one of them fails."""
    if tests and run_tests(tests):
        raise RuntimeError(
            f"the tests must pass before a mutant is planted: pytest {' '.join(tests)}"
        )


def run_tests(tests: Sequence[str]) -> int:
    """Run tests in this process; 0 if all passed, 1 if one failed."""
    where = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with _silent(), tempfile.TemporaryDirectory(dir=where) as folder:
        return int(pytest.main([*FAST, f"--basetemp={folder}/tests", *tests], plugins=[ORDER]))


def skip_processes() -> None:
    """Skip what starts another process: it would import the code as it stands on disk."""

    def skipping(*_: object, **__: object) -> None:
        pytest.skip("a process of its own meets no mutant")

    subprocess.Popen.__init__ = skipping  # type: ignore[method-assign]
    multiprocessing.process.BaseProcess.start = skipping  # type: ignore[method-assign]


def try_mutant(
    path: Path, mutant: Mutant, near: Sequence[str], far: Sequence[str], limit: int
) -> int:
    """Plant a mutant and run the tests beside its file, then those around it; the child's whole life."""
    signal.alarm(limit)  # an endless loop is caught too
    skip_processes()
    try:
        if not plant(path, mutant):
            return UNPLANTED
        return KILLED if run_tests(near) or run_tests(far) else SURVIVED
    except ValueError:  # the mutant's code asks for other variables of the function around it
        return UNPLANTED


def plant(path: Path, mutant: Mutant) -> bool:
    """Give functions that are alive the mutant's code; False if there is none to give."""
    whole = compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
    planted = compile(mutant.tree, str(path), "exec", dont_inherit=True)
    new = {
        here: there
        for here, there in zip(_codes(whole), _codes(planted), strict=False)
        if here.co_qualname == there.co_qualname and here != there
    }
    found = [
        one
        for one in gc.get_objects()
        if isinstance(one, FunctionType)
        and one.__code__ in new
        and Path(one.__code__.co_filename) == path
    ]
    for function in found:
        function.__code__ = new[function.__code__]
    for cache in gc.get_objects():
        if isinstance(cache, functools._lru_cache_wrapper):
            cache.cache_clear()  # what was computed before is right
    return bool(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object's inner ones, outermost first."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Send what is printed nowhere, below Python too."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            for number, copy in enumerate(kept, start=1):
                os.dup2(copy, number)
                os.close(copy)

"""Plant a mutant in a process that has everything imported already, and run tests there.

Importing the rooms and the tests takes seconds, a test of a guard milliseconds. So one process
imports all of it, and each mutant is planted in a fork: functions that are alive get the mutant's
code in place of their own.
"""

import ast
import contextlib
import functools
import gc
import multiprocessing.process
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from benchmarks.mutants.operators import Mutant
from benchmarks.mutants.reach import NOTE, Reach, noting

__all__ = [
    "KILLED",
    "SURVIVED",
    "UNPLANTED",
    "Alive",
    "reach_of",
    "run_tests",
    "try_mutant",
    "without_processes",
]

KILLED, SURVIVED, UNPLANTED = 1, 0, 3
NONE_RAN = int(pytest.ExitCode.NO_TESTS_COLLECTED)
FAST = ("-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", "--tb=no")
WAITS = 20
SHARED_MEMORY = Path("/dev/shm")  # a ledger waits for the disk at every write


class Chosen:
    """A plugin: keeps the tests that were chosen, files together, in the order they were named."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.place = {test: number for number, test in enumerate(tests)}
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        self.file = {file: number for number, file in enumerate(files)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose and sort."""
        kept = [item for item in items if item.nodeid in self.place]
        kept.sort(key=lambda item: (self.file[_file_of(item)], self.place[item.nodeid]))
        items[:] = kept


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def reach_of(tests: Sequence[str], paths: Iterable[Path]) -> Reach:
    """Run tests on the code as it is and note what they reach; raise if one of them fails.

    The files are as they were afterwards.
    """
    reach = Reach()
    if not tests:
        return reach
    _run(tests, [Chosen(())])  # imports all of it
    alive = Alive()
    for path in paths:
        for function in alive.give(path, noting(path.read_text(encoding="utf-8"))):
            function.__globals__[NOTE] = reach.noter(path)
    with without_processes():
        failed = _run(tests, [reach])
    alive = Alive()
    for path in paths:
        alive.give(path, ast.parse(path.read_text(encoding="utf-8")))
    if failed:
        raise RuntimeError(
            f"the tests must pass before a mutant is planted: pytest {' '.join(tests)}"
        )
    gc.collect()
    return reach


def run_tests(tests: Sequence[str]) -> int:
    """Run chosen tests in this process, those of the first one's file before the others; 1 if one failed."""
    by_file: dict[str, list[str]] = {}
    for test in tests:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    files = [*by_file]
    for some in (files[:1], files[1:]):  # most faults are caught beside their file
        chosen = [test for file in some for test in by_file[file]]
        if chosen and _run(some, [Chosen(chosen)]) not in (0, NONE_RAN):
            return 1
    return 0


def _run(tests: Sequence[str], plugins: list[object]) -> int:
    where = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with _silent(), tempfile.TemporaryDirectory(dir=where) as folder:
        return int(pytest.main([*FAST, f"--basetemp={folder}/tests", *tests], plugins=plugins))


@contextlib.contextmanager
def without_processes() -> Iterator[None]:
    """Skip tests that start another process: it would import the code as it stands on disk."""

    def skipping(*_: object, **__: object) -> None:
        pytest.skip("a process of its own meets no mutant")

    process = multiprocessing.process.BaseProcess
    kept = subprocess.Popen.__init__, process.start
    subprocess.Popen.__init__ = skipping  # type: ignore[method-assign]
    process.start = skipping  # type: ignore[method-assign]
    try:
        yield
    finally:
        subprocess.Popen.__init__, process.start = kept  # type: ignore[method-assign]


def try_mutant(alive: "Alive", path: Path, mutant: Mutant, tests: Sequence[str], limit: int) -> int:
    """Plant a mutant and run the tests that reach it, at most `limit` CPU seconds; the child's whole life."""
    signal.setitimer(signal.ITIMER_PROF, limit)  # an endless loop is caught too
    signal.alarm(WAITS * limit)  # and an endless wait, even on a busy machine
    try:
        if not alive.plant(path, mutant):
            return UNPLANTED
        with without_processes():
            return KILLED if run_tests(tests) else SURVIVED
    except ValueError:  # the mutant's code asks for other variables of the function around it
        return UNPLANTED


class Alive:
    """The functions that are alive, by their file, and all that remember what they computed.

    Found once: to look through everything alive takes a second, and in a fork it copies all memory.
    """

    def __init__(self) -> None:
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)
        self.caches: list[functools._lru_cache_wrapper[Any]] = []
        for one in gc.get_objects():
            kind = type(one)  # isinstance would ask a weak proxy, which may raise
            if kind is FunctionType:
                self.functions[one.__code__.co_filename].append(one)
            elif kind is functools._lru_cache_wrapper:
                self.caches.append(one)

    def plant(self, path: Path, mutant: Mutant) -> bool:
        """Give functions the mutant's code; False if there is none to give."""
        found = self.give(path, mutant.tree)
        for cache in self.caches:
            cache.cache_clear()  # what was computed before is right
        return bool(found)

    def give(self, path: Path, tree: ast.Module) -> list[FunctionType]:
        """Give functions of a file the code of a tree, where it differs; return these."""
        planted = compile(tree, str(path), "exec", dont_inherit=True)
        codes = list(_codes(planted))
        n_there = Counter(map(_place, codes))  # two lambdas of one line look the same
        new = {_place(one): one for one in codes if n_there[_place(one)] == 1}
        found = [
            one
            for one in self.functions[str(path)]
            if new.get(_place(one.__code__), one.__code__) != one.__code__
        ]
        for function in found:
            function.__code__ = new[_place(function.__code__)]
        return found


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


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

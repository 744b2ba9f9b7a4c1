"""Which test reaches which statement, so that a mutant meets only the tests that can notice it.

Before each statement of the mutated files stands a call that notes it, planted as a mutant is; whatever else
runs is as quick as ever. What is reached while a file's shared objects are set up counts as reached by all
tests of that file.
"""

import ast
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutants.operators import functions_of

__all__ = ["NOTE", "Reach", "noting"]

NOTE = "__reached__"  # the name of the call, a global of each mutated module
Place = tuple[str, int]


class Reach:
    """A plugin: notes the statements that each test reaches, and its CPU seconds.

    >>> Reach().tests_of(Path("privacy/query.py"), 1)
    []
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.by_test: dict[str, set[Place]] = defaultdict(set)
        self.by_file: dict[str, set[Place]] = defaultdict(set)
        self._now: set[Place] = set()

    def noter(self, path: Path) -> Callable[[int], None]:
        """Return what notes the lines of a file."""
        return lambda line: self._now.add((str(path), line))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Add up the CPU seconds of a test and of what it sets up."""
        begun = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] += time.process_time() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[Any]:
        """Note what a test sets up."""
        self._now = self.by_file[item.nodeid.partition("::")[0]]
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        """Note what a test reaches."""
        self._now = self.by_test[item.nodeid]
        return (yield)

    def tests_of(self, path: Path, statement: int) -> list[str]:
        """Return the tests that reach the statement of a line, the quickest first."""
        place = (str(path), statement)
        files = {file for file, seen in self.by_file.items() if place in seen}
        found = [
            test
            for test, seen in self.by_test.items()
            if place in seen or test.partition("::")[0] in files
        ]
        return sorted(found, key=lambda test: (self.seconds[test], test))


def noting(text: str) -> ast.Module:
    r"""Return a file's tree with a call before each statement of its functions.

    >>> print(ast.unparse(noting("def f(a):\n    return a")))
    def f(a):
        __reached__(2)
        return a
    """
    tree = ast.parse(text)
    for _, function in functions_of(tree, ""):
        for node in list(ast.walk(function)):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):  # the body of a lambda is none
                    setattr(node, name, [one for inner in block for one in (_note(inner), inner)])
    return ast.fix_missing_locations(tree)


def _note(statement: ast.stmt) -> ast.stmt:
    call = ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(statement.lineno)], [])
    return ast.copy_location(ast.Expr(call), statement)

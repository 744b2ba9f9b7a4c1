"""Which test reaches which line, so that a mutant meets only the tests that can notice it.

The tests are run once on the code as it is, traced in the mutated files alone. A line that is reached while
a file's shared objects are set up counts as reached by all tests of that file.
"""

import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

__all__ = ["Reach"]


class Reach:
    """A plugin: notes the lines of some files that each test reaches, and its seconds.

    >>> Reach([]).tests_of(Path("privacy/query.py"), 1, 9)
    []
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.files = {str(path) for path in paths}
        self.seconds: dict[str, float] = defaultdict(float)
        self._by_test: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._by_file: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._now: set[tuple[str, int]] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the seconds of a test and of what it sets up."""
        self.seconds[report.nodeid] += report.duration

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[Any]:
        """Trace what a test sets up."""
        with_lines = self._by_file[item.nodeid.partition("::")[0]]
        return (yield from self._traced(with_lines))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        """Trace a test."""
        return (yield from self._traced(self._by_test[item.nodeid]))

    def tests_of(self, path: Path, line: int, last: int) -> list[str]:
        """Return the tests that reach a line or, if none does, one up to the last, the quickest first.

        An expression may begin on a line that starts no instruction.
        """
        for lines in ([line], range(line, last + 1)):
            places = {(str(path), one) for one in lines}
            files = {file for file, seen in self._by_file.items() if places & seen}
            found = [
                test
                for test, seen in self._by_test.items()
                if places & seen or test.partition("::")[0] in files
            ]
            if found:
                break
        return sorted(found, key=lambda test: (self.seconds[test], test))

    def _traced(self, lines: set[tuple[str, int]]) -> Iterator[Any]:
        before, self._now = sys.gettrace(), lines
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(before)
            threading.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._now.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

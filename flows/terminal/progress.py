"""Progress of long work while it goes on: a bar on a terminal, lines in a log.

A step that takes long reports what it waits for, how much of that is done, for how long, and for how long at
most:

    with waiting(console, "judge workers …") as progress:
        progress("honest crowds", 40, 199)

A terminal has a bar. A log has a line about a step that takes longer than `FIRST_WORD` seconds, and another
whenever twice as many have passed: a few lines, however long it takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from quality import Progress

__all__ = ["Waited", "repeating", "waiting"]

FIRST_WORD = 5.0  # seconds before a step has its first line; the next come after twice as many each
BAR_WIDTH = 12  # of a line of eighty characters, most of which are for words


class Waited:
    """What a step waits for as it last reported, since when, and for how long at most.

    Work is named by the text before a colon: "candidates: MACE" and "candidates: GLAD" are one work, whose
    steps go on.

    Examples
    --------
    >>> waited = Waited()
    >>> waited.note("candidates: MACE", 3, 14)
    >>> waited.words()
    'candidates: MACE, 3 of 14'
    >>> waited.words(counts=False)
    'candidates: MACE'
    """

    def __init__(self) -> None:
        self.begin = time.perf_counter()
        self._what, self._done, self._total = "", 0, 1
        self._since = self._at = self.begin, 0

    def note(self, what: str, done: int, total: int) -> None:
        """Take in a report, as :data:`quality.Progress` has it."""
        now = time.perf_counter(), done
        if what.partition(":")[0] != self._what.partition(":")[0] or done < self._done:
            self._since = now
        if now[1] != self._at[1] or self._since is now:
            self._at = now
        self._what, self._done, self._total = what, done, total

    @property
    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.perf_counter() - self.begin

    @property
    def counted(self) -> tuple[int, int] | None:
        """Steps made and their greatest number; None for work whose steps are not counted."""
        return None if self._total <= 1 else (self._done, self._total)

    def left(self) -> float | None:
        """Return the seconds that all further steps take at the pace so far at most; None if unknown."""
        (begin, before), (last, done) = self._since, self._at
        if self.counted is None or done <= before:
            return None
        per_step = (last - begin) / (done - before)
        return max(0.0, per_step * (self._total - done) - (time.perf_counter() - last))

    def words(self, *, counts: bool = True) -> str:
        """Say what is waited for and for how long at most; steps in numbers only with `counts`."""
        parts, left = [self._what] if self._what else [], self.left()
        if counts and self.counted is not None:
            parts.append(f"{self._done:,} of {self._total:,}")
        if left is not None and left >= 1:
            parts.append(f"at most {left:,.0f} s more")
        return ", ".join(parts)


@contextmanager
def waiting(console: Console, name: str) -> Iterator[Progress]:
    """Yield a callback that shows the progress of long work as far as the console can."""
    with (_bar if console.is_terminal else _lines)(console, name) as progress:
        yield progress


@contextmanager
def repeating(action: Callable[[], object]) -> Iterator[None]:
    """Call `action` in a thread of its own while the body works long: after 5 seconds, 10, 20 and so on."""
    begin, ended, context = time.perf_counter(), threading.Event(), copy_context()

    def repeat() -> None:
        after = FIRST_WORD
        while not ended.wait(begin + after - time.perf_counter()):
            context.run(action)
            after *= 2

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _bar(console: Console, name: str) -> Iterator[Progress]:
    """Yield a callback that draws a bar; before its first call, and without steps, that is indefinite."""
    # not needed for a log
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), words, BarColumn(BAR_WIDTH), TimeElapsedColumn())
    waited = Waited()
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(name, total=None)

        def draw(what: str, done: int, total: int) -> None:
            waited.note(what, done, total)
            steps = waited.counted or (0, None)
            bars.update(bar, description=f"{name} {waited.words()}", completed=steps[0])
            bars.tasks[0].total = steps[1]

        yield draw


@contextmanager
def _lines(console: Console, name: str) -> Iterator[Progress]:
    """Yield a callback that notes what is waited for, of which a line is printed now and then."""
    from rich.text import Text  # not needed for `--help`

    waited = Waited()

    def tell() -> None:
        words = waited.words()
        start = f"{name} {words}; " if words else f"{name} "
        line = Text(f"{start}{waited.seconds:,.0f} s so far", style="dim")
        console.print(line, soft_wrap=True)

    with repeating(tell):
        yield waited.note

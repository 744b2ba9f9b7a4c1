"""The command `watch`: a live table of workers and alarms while labels arrive."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flows.cli.root import (
    JSON_LISTS,
    SHOWN,
    Force,
    Map,
    Quiet,
    app,
    console,
    mistakes,
    named_path,
    print_line,
    reading_of_options,
    refuse_dropped,
    refuse_unwritten,
    show_rows,
)

if TYPE_CHECKING:
    from rich.table import Table

    from flows.watching import Alarm, LabelRows, LabelWatcher

__all__ = ["watch"]

STANDARD_INPUT = Path("-")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, `kill`, the end of the terminal
BLOCK = 2**16
LOOK = 0.2  # seconds between two looks at whether to end
SAVE_SECONDS = 30.0  # between two savings of the state, beside the one at the end
NUMBERS = ("labels", "judged", "agrees", "fatigue")


@app.command(epilog="Example: `crowdassay watch labels.csv --state watch.npz`")
def watch(
    context: typer.Context,
    labels: Annotated[
        Path,
        typer.Argument(
            help="CSV file that grows, with the columns worker, task, label; or -",
            parser=named_path,
        ),
    ],
    state: Annotated[
        Path | None,
        typer.Option(
            help="file that keeps what is known, to go on from it next time", parser=named_path
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="read what is there, show it and end")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.05, help="seconds between two looks at the file")
    ] = 2.0,
    seconds: Annotated[
        str | None,
        typer.Option(
            help="column with the seconds that a label took [default: seconds, if there is one]"
        ),
    ] = None,
    map_: Map = "",
    false_alarm: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            max=0.5,
            help="chance that the alarm for good is ever wrong about anybody [default: that of --state, "
            "or 0.05]",
        ),
    ] = None,
    consensus: Annotated[
        Path | None, typer.Option(help="write the consensus so far to this file at the end")
    ] = None,
    force: Force = False,
    json_: Annotated[
        bool, typer.Option("--json", help="print one JSON object for each update, a line each")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Follow labels while they arrive: each worker's reliability, and who got worse.

    A label is judged by the others of its task, once it has three. The alarm says `worse?` where a worker may
    have got worse, and `worse` where the evidence leaves no more doubt than --false-alarm. The command ends
    with standard input, with Ctrl-C or SIGTERM, and then shows the table once more.
    """
    from flows.tables import table_file, write_table  # these load DuckDB and numba, for this only
    from flows.watching import held_state

    with mistakes():
        if once:
            refuse_dropped(
                context, ("every",), "is for a file that is followed; leave it or --once out"
            )
        refuse_unwritten(context, {"--consensus": consensus})
        written = None
        if consensus is not None:
            inputs = (labels,) if state is None else (labels, state)
            written = table_file(consensus, inputs=inputs, force=force)
        with _ended_by_signals() as ending, held_state(state, false_alarm=false_alarm) as watcher:
            # with a state, a last row without an end of line waits for the next call, when it may have more
            to_end = once and state is None
            follow = _standard_input if labels == STANDARD_INPUT else partial(_file, to_end=to_end)
            names = Names(seconds, dict(reading_of_options(None, None, None, False, map_).columns))
            updates = follow(watcher, labels, names, ending, 0.0 if once else every)
            _show_updates(watcher, updates, state, as_json=json_, live=not once)
            if state is not None:
                watcher.save(state)
            if not json_:
                _print_table(watcher)
            if written is not None:
                write_table(watcher.consensus(), written)


class Names(NamedTuple):
    """What the columns of the labels are called: of the seconds, and of worker, task and label."""

    seconds: str | None
    columns: dict[str, str]


class Ending:
    """Whether the end was asked for, by a handler of signals: it may take no lock, as `Event.set` would.

    >>> ending = Ending()
    >>> ending.wait(0.0), ending.set(), ending.wait(60.0), ending.close()
    (False, None, True, None)
    """

    def __init__(self) -> None:
        self._asked = False
        self._heard, self._told = os.pipe()

    def set(self) -> None:
        """Ask for the end."""
        self._asked = True
        os.write(self._told, b".")

    def is_set(self) -> bool:
        """Return whether the end was asked for."""
        return self._asked

    def wait(self, seconds: float) -> bool:
        """Return as soon as the end is asked for, or after so many seconds."""
        select.select([self._heard], [], [], seconds)
        return self._asked

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._heard)
        os.close(self._told)


@contextmanager
def _ended_by_signals() -> Iterator[Ending]:
    """Yield the switch that signals set; an ignored signal stays ignored, except SIGTERM."""
    ending, former = Ending(), {}
    for number in ENDING:
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            former[number] = signal.signal(number, lambda *_: ending.set())
    try:
        yield ending
    finally:
        for number, before in former.items():
            signal.signal(number, before)
        ending.close()


def _file(
    watcher: LabelWatcher,
    labels: Path,
    names: Names,
    ending: Ending,
    every: float,
    *,
    to_end: bool,
) -> Iterator[LabelRows]:
    """Yield what a file gains, until the end is asked for; with `every` 0 what is there now."""
    from flows.watching import read_new, reader_of  # numba, for this command only

    tail, lines = reader_of(watcher, labels, names.seconds, names.columns)
    while not ending.is_set():
        rows = read_new(watcher, tail, lines, to_end=to_end)
        if rows is not None:
            yield rows
        elif not every or ending.wait(every):
            return


def _standard_input(
    watcher: LabelWatcher, _: Path, names: Names, ending: Ending, every: float
) -> Iterator[LabelRows]:
    """Yield what comes on standard input, until it or the user ends; at most one piece in `every` seconds."""
    from flows.watching import LabelLines  # numba, for this command only

    lines = LabelLines("standard input", seconds=names.seconds, columns=names.columns)
    read, held, due = _reader(sys.stdin.buffer), b"", 0.0
    while not ending.is_set():
        data = read()
        held += data or b""
        is_over = data == b""
        if is_over or (held and every and time.monotonic() >= due):
            rows = lines.feed(held, last=is_over)
            watcher.n_waiting = lines.held
            yield rows
            held, due = b"", time.monotonic() + every
        if is_over:
            return
    if held:
        rows = lines.feed(held)
        watcher.n_waiting = lines.held
        yield rows


def _reader(stream: object) -> Callable[[], bytes | None]:
    """Return a function that reads the bytes there, None after a moment without any, b"" at the end."""
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
    except OSError:  # no file of the system, as under a test
        return lambda: stream.read(BLOCK)  # type: ignore[attr-defined]

    def read() -> bytes | None:
        ready, _, _ = select.select([number], [], [], LOOK)
        return os.read(number, BLOCK) if ready else None

    return read


def _show_updates(
    watcher: LabelWatcher,
    updates: Iterator[LabelRows],
    state: Path | None,
    *,
    as_json: bool,
    live: bool,
) -> None:
    """Take in new rows, show them as the options ask, and save the state now and then."""
    screen = console()
    saved = time.monotonic()
    if as_json:
        gathered: list[Alarm] = []  # of all blocks of a file that is read once
        for rows in updates:
            alarms = watcher.take(rows)
            if live:
                _print_json(watcher, alarms)
            else:
                gathered += alarms
            saved = _save_in_time(watcher, state, saved)
        if not live:
            _print_json(watcher, gathered)
        return
    if not (live and screen.is_terminal):
        for rows in updates:
            for alarm in watcher.take(rows):
                print_line(str(alarm))
            print_line(watcher.counts)
            saved = _save_in_time(watcher, state, saved)
        return
    from rich.live import Live  # for a terminal only

    with Live(_table(watcher), console=screen, transient=True, auto_refresh=False) as shown:
        for rows in updates:
            for alarm in watcher.take(rows):
                print_line(str(alarm))
            shown.update(_table(watcher), refresh=True)
            saved = _save_in_time(watcher, state, saved)


def _save_in_time(watcher: LabelWatcher, state: Path | None, saved: float) -> float:
    if state is None or time.monotonic() < saved + SAVE_SECONDS:
        return saved
    watcher.save(state)
    return time.monotonic()


def _print_json(watcher: LabelWatcher, alarms: list[Alarm]) -> None:
    raised = [{"worker": one.worker, "kind": one.kind, "at": one.at} for one in alarms]
    print(json.dumps({**watcher.as_json(), "alarms": raised}), flush=True)


def _table(watcher: LabelWatcher) -> Table:
    """Return the first rows as a table that is redrawn."""
    from rich.table import Table  # for a terminal only
    from rich.text import Text

    from flows.terminal import printable
    from flows.watching import HEADER

    table = Table(
        title=f"Watching: {watcher.counts}", title_justify="left", box=None, pad_edge=False
    )
    for name in HEADER:
        table.add_column(name, justify="right" if name in NUMBERS else "left", overflow="fold")
    for row in watcher.rows()[:SHOWN]:
        style = "red" if row[-1].startswith("worse ") else "yellow" if row[-1] else ""
        table.add_row(*(Text(printable(cell), style=style) for cell in row))
    return table


def _print_table(watcher: LabelWatcher) -> None:
    from flows.watching import HEADER  # numba, for this command only

    title = f"Watched: {watcher.counts}; alarms first, then by reliability, least first"
    show_rows(title, HEADER, watcher.rows(), None, numbers=NUMBERS, all_by=JSON_LISTS)

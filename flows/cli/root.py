"""The root command `crowdassay`, what its commands share, and the process that runs one of them.

They share the terminal, options, and the sentence for a mistake. Heavy imports happen inside the commands.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from flows.choices import Duplicates
from flows.cli.kernels import notice
from flows.stages import counted
from flows.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console

    from flows.files import OutputFile
    from flows.tables import Reading
    from quality import Progress

__all__ = [
    "JSON_LISTS", "MISTAKE", "AsJson", "Encoding", "Force", "Guard", "LabelsFile", "Map", "Output", "Quiet",
    "Repeated", "Sep", "Sheet", "Wide", "app", "console", "counted", "kept_input", "listed", "main",
    "mistakes", "named_path", "one_table", "print_line", "print_reading", "reading_of_options",
    "refuse_dropped", "refuse_unwritten", "show_rows", "waiting_for", "write_rows",
]  # fmt: skip

_silent = ContextVar("_silent", default=False)
_taken = ContextVar("_taken", default=frozenset[str]())  # options of the command at work
MISTAKE = 2  # exit code for a mistake that the user can mend
STOPPED = 130  # as shells have it for Ctrl-C
ENDING = (signal.SIGTERM, signal.SIGHUP)  # `kill`, the end of the terminal
GOES_ON = "what is paid stays paid; crowdassay run SETTINGS --resume goes on after the whole stages"
SHOWN = 15  # rows on the terminal
JSON_LISTS = "--json lists them all"
LIVE = {"distributed", "prefect"}  # they have threads, for which an ordinary exit waits
DAY = (
    "import", "check", "init", "run", "runs", "report", "compare", "workers", "aggregate",
    "agreement", "multilabel", "rank", "gate", "watch", "block", "repost", "budget", "plan", "serve",
    "deploy", "prune", "doctor", "demo", "simulate", "power", "audit", "ledger", "warm",
)  # fmt: skip


class _InOrderOfADay(typer.core.TyperGroup):
    """Commands in the order in which a day's work takes them; others come last."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: DAY.index(name) if name in DAY else len(DAY))


app = typer.Typer(
    name="crowdassay",
    cls=_InOrderOfADay,
    help="Assays the crowd: raw crowd labels in; results that can be trusted, released and reused out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # for this option only

        print(f"crowdassay {version('crowdassay')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="print the version", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Hold what every command takes."""


def _silence(context: typer.Context, quiet: bool) -> bool:
    """Keep the console silent until the command has ended, and know which options it takes."""
    context.call_on_close(partial(_silent.reset, _silent.set(quiet)))
    _taken.set(frozenset(name for one in context.command.params for name in one.opts))
    return quiet


def named_path(text: str) -> Path:
    """Return a path; refuse an empty text, as of a variable that is not set: it is the working folder."""
    if not text:
        raise typer.BadParameter("must name a file or a folder, got an empty text")
    return Path(text)


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="print nothing but errors", callback=_silence)
]
AsJson = Annotated[bool, typer.Option("--json", help="print the result as JSON")]
Output = Annotated[
    Path | None,
    typer.Option(
        help="write all rows to this file, as its name ends: .csv, .tsv, .parquet, .jsonl"
    ),
]
Guard = Annotated[
    bool,
    typer.Option(
        "--guard-formulas", help="put ' before texts that a spreadsheet would run, such as =cmd"
    ),
]
LabelsFile = Annotated[
    Path,
    typer.Argument(
        help="table with the columns worker, task, label: a file, a folder, a pattern, or -",
        parser=named_path,
    ),
]
Sep = Annotated[
    str | None, typer.Option(help='what separates the cells of a CSV, such as ";" or tab')
]
Encoding = Annotated[str | None, typer.Option(help="encoding of a CSV, such as cp1252 or utf-16")]
Sheet = Annotated[str | None, typer.Option(help="sheet of a workbook [default: the first]")]
Wide = Annotated[
    bool, typer.Option("--wide", help="the labels have a row per task and a column per worker")
]
Map = Annotated[
    str,
    typer.Option(
        "--map", help="columns that have other names, as in worker=annotator,task=item,label=answer"
    ),
]
Repeated = Annotated[
    Duplicates, typer.Option(help="what to do with a worker's repeated labels of a task")
]
Force = Annotated[bool, typer.Option("--force", help="overwrite what exists; never an input")]


def console(*, quiet: bool = False) -> Console:
    """Return standard output for a person: in colour on a terminal only, silent with `--quiet`."""
    from rich.console import Console  # not needed for `--help`

    return Console(quiet=quiet or _silent.get(), highlight=False, markup=False)


@contextmanager
def waiting_for(name: str) -> Iterator[Progress]:
    """Show on standard error what a command waits for, where that takes long; nothing with `--quiet`."""
    from rich.console import Console  # not needed for `--help`

    from flows.terminal import waiting

    screen = Console(stderr=True, quiet=_silent.get(), highlight=False, markup=False)
    with waiting(screen, f"{name} …") as progress:
        yield progress


def print_line(line: str) -> None:
    """Print a line without wrapping; what a terminal would obey is written out."""
    console().print(printable(line, keep="\n"), soft_wrap=True)


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, quoted, and how many more there are.

    >>> listed(["ann", "bob", "cy"], 2)
    "'ann', 'bob' and 1 more"
    """
    more = len(names) - most
    return ", ".join(map(repr, names[:most])) + f" and {more:,} more" * (more > 0)


def print_reading(clauses: Iterable[str]) -> None:
    """Print how tables that are not plain were read, a line each, and what of the command overrides it."""
    ways = list(filter(_taken.get().__contains__, ("--sep", "--encoding", "--sheet", "--map")))
    if "--map" in ways or not ways:  # else no run reads such tables
        ways.append("[input]")
    for clause in clauses:
        print_line(f"{clause}; to override this: {', '.join(ways)}")


def kept_input(path: Path, folder: Path) -> Path:
    """Return the path of a table, or for - a file in the folder that holds standard input."""
    from flows.tables import STANDARD_INPUT, TableError, keep_standard_input  # DuckDB

    if path.suffix.lower() == ".sql":
        raise TableError(
            f"{path.name} is a query, which the settings of a run take; write its rows to a file and name "
            f"that, for labels: crowdassay import {shlex.quote(str(path))} --format sql --url-env NAME "
            "--output labels.csv"
        )
    return keep_standard_input(folder, sys.stdin.buffer) if path == STANDARD_INPUT else path


@contextmanager
def one_table(
    path: Path, needed: tuple[str, ...], reading: Reading, *, tell: bool = True
) -> Iterator[Path]:
    """Yield a file with the rows of a table: a file, a folder, a pattern, an address, or - ."""
    from tempfile import TemporaryDirectory  # not needed for `--help`

    from flows.tables import opened_alone  # DuckDB, for a table only

    with TemporaryDirectory(prefix="crowdassay-") as folder:
        file = kept_input(path, Path(folder))
        with opened_alone(file, needed, Path(folder), reading) as source:
            if tell and source.read_as:
                print_reading([source.read_as])
            yield source.table


def reading_of_options(
    sep: str | None, encoding: str | None, sheet: str | None, wide: bool, map_: str = ""
) -> Reading:
    """Return the dialect of tables that the options give; a tab may be written as text.

    Raises
    ------
    SettingsError
        If the separator is not one letter, or --map is not of its form.
    """
    from flows.settings import SettingsError, check_separator, named_columns  # pydantic
    from flows.tables import Reading  # DuckDB, likewise for these commands only

    sign = {"tab": "\t", "\\t": "\t"}.get(sep or "", sep)
    try:
        if sign is not None:
            check_separator(sign)
        columns = named_columns(map_.split(",") if map_ else (), what="map")
    except ValueError as error:
        raise SettingsError(f"--{error}") from None
    return Reading(sign, encoding, sheet, wide, tuple(columns.items()))


@contextmanager
def mistakes() -> Iterator[None]:
    """Turn a user's mistake, or Ctrl-C, into one sentence on stderr; let every other error pass."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        from flows.pipeline import INTERRUPTED  # loads the rooms, for a mistake only
        from flows.terminal import is_mistake, sentence  # likewise

        ctrl_c = str(error) == INTERRUPTED and not _Terminated.came
        if not (ctrl_c or is_mistake(error)):
            raise
        told = "crowdassay: " + printable(sentence(error), keep="\n")
        print(_stopped() if ctrl_c else told, file=sys.stderr)
        raise typer.Exit(STOPPED if ctrl_c else MISTAKE) from None
    except KeyboardInterrupt:
        print(_stopped(), file=sys.stderr)
        raise typer.Exit(STOPPED) from None


def _stopped(by: str = "") -> str:
    runs = sys.argv[1:2] in (["run"], ["demo"], ["serve"])  # nothing else has stages
    return f"crowdassay: stopped{by}{f'; {GOES_ON}' * runs}"


def refuse_dropped(context: typer.Context, names: Collection[str], why: str) -> None:
    """Raise SettingsError for an option that was given and would have no effect.

    `why` goes on after the option's name, as in "is for --yaml; leave it out".
    """
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in names and source is not None and source.name == "COMMANDLINE":
            from flows.settings import SettingsError  # pydantic, for a mistake only

            raise SettingsError(f"{option.opts[0]} {why}")


def refuse_unwritten(
    context: typer.Context,
    tables: Mapping[str, Path | None],
    others: Mapping[str, Path | None] | None = None,
) -> None:
    """Raise SettingsError for --force where no file is written, and for --guard-formulas where no CSV is.

    `tables` and `others` are what may be written, by the options that name it.
    """
    ends = {one.suffix.lower() for one in tables.values() if one}
    if ends and not ends & {".csv", ".tsv"}:
        refuse_dropped(context, ("guard",), "is for .csv and .tsv; write one, or leave it out")
    for option, written in (("guard", tables), ("force", {**tables, **(others or {})})):
        if not any(written.values()):
            what = f"needs {' or '.join(written)}, which says what to write"
            refuse_dropped(context, (option,), f"{what}; add that, or leave it out")


class _Terminated(SystemExit):
    """SIGTERM or SIGHUP came: every open block ends as on Ctrl-C."""

    came = 0  # its number, kept for errors that a library makes of this one


def _terminate(number: int, frame: FrameType | None) -> None:
    """Raise _Terminated; a moment later where a destructor is at work, which must not be left halfway."""
    at = frame
    while at is not None:
        if at.f_code.co_name == "__del__":
            _send_again(number)
            return
        at = at.f_back
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)  # a second signal does not disturb the end
    _Terminated.came = number
    raise _Terminated(128 + number)


def _send_again(number: int) -> None:
    """Send the signal a moment later, from a thread: at once it would come to the same place."""
    again = threading.Timer(0.05, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def _come_again(ignored: Any) -> None:
    """Send such a signal or Ctrl-C again where Python ignored it, as in a destructor.

    Once SIGTERM or SIGHUP has come, errors of half-made objects are not printed.
    """
    for kind, number in ((_Terminated, _Terminated.came), (KeyboardInterrupt, signal.SIGINT)):
        if isinstance(ignored.exc_value, kind):
            if kind is _Terminated:
                signal.signal(number, _terminate)
            _send_again(number)
            return
    if not _Terminated.came:
        sys.__unraisablehook__(ignored)


def show_rows(
    title: str,
    header: list[str],
    rows: list[list[str]],
    output: OutputFile | None,
    *,
    numbers: Collection[str],
    guard: bool = False,
    all_by: str = "--output FILE writes them all",
    brief: Callable[[str], str] = str,
) -> None:
    """Print the first rows, and write all of them if `output` is given; `numbers` names such columns.

    `all_by` says which option shows all rows; `brief` shortens a row's last cell for the terminal.
    """
    from flows.terminal import print_rows  # loads the rooms

    print_rows(console(), title, header, [[*row[:-1], brief(row[-1])] for row in rows[:SHOWN]])
    if len(rows) > SHOWN and output is None:
        console().print(f"… and {len(rows) - SHOWN:,} more; {all_by}", style="dim")
    write_rows(header, rows, output, numbers=numbers, guard=guard)


def write_rows(
    header: list[str],
    rows: list[list[str]],
    output: OutputFile | None,
    *,
    numbers: Collection[str],
    guard: bool = False,
) -> None:
    """Write all rows if `output` is given; `numbers` names the columns of numbers."""
    if output is not None:
        from flows.tables import write_table  # DuckDB, where a file is written

        columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
        typed = {name: _as_numbers(columns[name]) for name in header if name in numbers}
        with waiting_for("the rows written"):
            write_table(columns | typed, output, guard=guard)


def _as_numbers(cells: list[str]) -> list[float | None]:
    """Return cells as whole numbers, or if one is not whole as fractions; a blank one is None."""
    kind = int if all(cell.isdigit() for cell in cells if cell) else float
    return [kind(cell) if cell else None for cell in cells]


class _Pipe(io.FileIO):
    """A standard stream that drops what is written after its reader or its terminal has gone."""

    _gone: Collection[int] = (errno.EPIPE,)

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in self._gone:
                raise
            return memoryview(data).nbytes


def _outlive_readers() -> None:
    """Let a command finish as without `| head` after its reader has gone, and find a closed input empty."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed before the start, as by `>&-`
            nowhere = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115  # until the end
            setattr(sys, name, nowhere)
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            pipe = _Pipe(stream.fileno(), "w", closefd=False)
            pipe._gone = (errno.EPIPE, errno.EIO)[: 1 + pipe.isatty()]
            raw = pipe if stream.write_through else io.BufferedWriter(pipe)  # python -u: unbuffered
            how = ("encoding", "line_buffering", "write_through")
            same = {key: getattr(stream, key) for key in how}
            setattr(sys, name, io.TextIOWrapper(raw, errors="backslashreplace", **same))


def _mention_kernels() -> None:
    """Print where compiled kernels are kept, if a command used them and the place is temporary."""
    if (sentence := notice()) is not None and not _silent.get():
        print(f"crowdassay: {sentence}", file=sys.stderr)


def _run_command() -> None:
    """Run the command; if a signal ended it, print one sentence, whatever the outcome."""
    try:
        app()
    except BaseException as ended:
        behind = getattr(ended.__context__, "__cause__", None)  # of Typer's end
        if KeyboardInterrupt in (type(ended), type(behind)):  # outside `mistakes`, as in imports
            print(_stopped(), file=sys.stderr)
            raise SystemExit(STOPPED) from None
        if not _Terminated.came:
            raise
    if _Terminated.came:
        print(_stopped(f" by {signal.Signals(_Terminated.came).name}"), file=sys.stderr)
        raise SystemExit(128 + _Terminated.came)


def main() -> None:
    """Run the command that the arguments name, and end the process.

    The libraries of a run make hundreds of thousands of objects that stay until the end. So the collector
    runs rarely while they are imported, and the process ends without taking them apart. Beside a thread that
    goes on, as Prefect's do, DuckDB would list what that thread still holds.
    """
    gc.set_threshold(1_000_000)  # new objects before it runs
    sys.unraisablehook = _come_again
    _outlive_readers()
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # not after nohup
            signal.signal(number, _terminate)
    try:
        _run_command()
    except SystemExit as ended:
        _mention_kernels()
        if not isinstance(ended.code, int):
            raise
        if LIVE & sys.modules.keys():
            atexit.register(_end_process, ended.code)  # as the first, when threads have ended
            raise
        _end_process(ended.code)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG):
            raise
        print(f"crowdassay: standard output: {error.strerror}", file=sys.stderr)
        _end_process(MISTAKE)


def _end_process(status: int) -> None:
    """Run what the libraries have registered for the exit, and end the process at once."""
    atexit.unregister(_end_process)
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError as error:
        if not status:  # else an error was printed already; on a full disk, output alone is lost
            print(f"crowdassay: standard output: {error.strerror}", file=sys.stderr)
            status = MISTAKE
    sys.stderr.flush()
    os._exit(status)

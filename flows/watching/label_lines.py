r"""Rows of a label table that is still being written: whole lines are taken, the last one waits for its end.

>>> lines = LabelLines("labels.csv")
>>> lines.feed(b"worker,task,label\nann,1,ye").worker, lines.feed(b"s\nbob,1,no\n").label
([], ['yes', 'no'])
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from flows.choices import LABEL_COLUMNS
from flows.tables import TableError

__all__ = ["FileTail", "LabelLines", "LabelRows"]

TIME, SECONDS = "time", "seconds"
SEPARATORS = (",", ";", "\t", "|")
BLOCK = 2**22  # bytes read at a time
FAR = 1e11  # seconds since 1970 by which the year has five digits
HEAD = 4096  # bytes at the beginning, and as many read last, by which a file is known again
MAX_ROW = BLOCK  # bytes without an end
NO_TEXT = (b"PAR1", b"PK\x03\x04", b"\x1f\x8b")


@dataclass(frozen=True, slots=True)
class LabelRows:
    """Labels in the order in which they came.

    Parameters
    ----------
    worker, task, label
        Texts of the cells.
    time
        When each was given, in seconds since 1970; NaN where that is not known.
    seconds
        What each took; NaN where that is not known.
    """

    worker: list[str] = field(default_factory=list)
    task: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


class LabelLines:
    """Reads the bytes of a CSV table piece by piece.

    Parameters
    ----------
    name
        What errors call the table.
    seconds
        The column with the seconds that each label took; without it "seconds" is taken where there is one.
    columns
        The columns of worker, task and label where the table calls them otherwise.
    header, n_rows
        The line of names and the rows that were read before, where reading goes on.
    """

    def __init__(
        self,
        name: str,
        *,
        seconds: str | None = None,
        columns: Mapping[str, str] | None = None,
        header: str = "",
        n_rows: int = 0,
    ) -> None:
        self.name, self.n_rows, self.header = name, n_rows, ""
        self._asked, self._held, self._sep = seconds, b"", ","
        self._columns, self._at = dict(columns or {}), dict[str, int]()
        self._width = 0
        if header:
            self._take_header(header)

    @property
    def held(self) -> int:
        """Bytes that wait for the end of their row."""
        return len(self._held)

    def feed(self, data: bytes, *, last: bool = False) -> LabelRows:
        """Return the rows that these bytes complete; with `last`, also one without an end of line.

        Raises
        ------
        TableError
            If the table lacks a column, or a row cannot be used or has no end; it names the row.
        """
        whole = self._below_header(self._held + data, last)
        end = len(whole) if last else self._end_of_rows(whole)
        ready, self._held = whole[:end], whole[end:]
        rows = LabelRows()
        if ready.strip():
            self._parse(self._text(ready), rows)
        if len(self._held) > MAX_ROW:
            raise TableError(
                f"{self.name}, row {self.n_rows + 1}: the row has no end in {MAX_ROW:,} bytes; mend the "
                'row, where a cell that begins with " must end with "'
            )
        return rows

    def _below_header(self, whole: bytes, last: bool) -> bytes:
        """Take the header once its line is whole, and return what stands below it."""
        while not self.header and (last or b"\n" in whole):
            line, _, whole = whole.partition(b"\n")
            names = self._text(line).strip("\r")
            if names:
                self._take_header(names)
            elif not whole:
                break
        return whole

    def _end_of_rows(self, whole: bytes) -> int:
        """Return where the last whole row ends; a quote that does not begin a cell is a letter."""
        if not self.header:
            return 0
        sep = re.escape(self._sep).encode()
        quoted = rb'(?<![^%s\r\n])"[^"]*(?:""[^"]*)*"?' % sep
        return re.sub(quoted, lambda cell: b"-" * len(cell[0]), whole).rfind(b"\n") + 1

    def _text(self, ready: bytes) -> str:
        if not self.header and ready.startswith(NO_TEXT):
            raise TableError(
                f"{self.name} must be a CSV text that grows; `crowdassay import` writes one"
            )
        try:
            return ready.decode("utf-8-sig" if not self.header else "utf-8")
        except UnicodeDecodeError:
            raise TableError(f"{self.name} must be UTF-8; convert it first") from None

    def _parse(self, text: str, rows: LabelRows) -> None:
        try:
            for cells in csv.reader(
                io.StringIO(text, newline=""), delimiter=self._sep, strict=True
            ):
                if cells:
                    self.n_rows += 1
                    self._take(cells, rows)
        except csv.Error as error:
            raise TableError(f"{self.name}, row {self.n_rows + 1}: {error}; mend the row") from None

    def _take_header(self, line: str) -> None:
        self._sep = max(SEPARATORS, key=line.count)
        try:
            names = [name.strip() for name in next(csv.reader([line], delimiter=self._sep), [])]
        except csv.Error:  # such as of lines that end as old Macs ended them
            raise TableError(
                f"{self.name}: the line of names cannot be read; save the table with lines that end in a "
                "line feed"
            ) from None
        shown = ", ".join(names) or "none"
        given = {column: role for role, column in self._columns.items() if column in names}
        names = [given.get(name, "" if name in given.values() else name) for name in names]
        missing = [
            name for name in (*LABEL_COLUMNS, *filter(None, [self._asked])) if name not in names
        ]
        if missing:
            raise TableError(
                f"{self.name} must have the column {missing[0]!r}; its columns are {shown}; rename it, or "
                + (
                    "name another by --seconds"
                    if missing[0] == self._asked
                    else f"say which it is: --map {missing[0]}=..."
                )
            )
        timed = self._asked or SECONDS
        used = [name for name in (*LABEL_COLUMNS, TIME, timed) if name in names]
        twice = next((name for name in used if names.count(name) > 1), None)
        if twice is not None:
            raise TableError(
                f"{self.name} must have one column {twice!r}, it has {names.count(twice)}; rename or delete "
                "the others"
            )
        self._at = {name: names.index(name) for name in used}
        self._width, self.header = len(names), line

    def _take(self, cells: Sequence[str], rows: LabelRows) -> None:
        if len(cells) != self._width:
            raise TableError(
                f"{self.name}, row {self.n_rows}: {len(cells)} cell{'s' * (len(cells) != 1)} under "
                f"{self._width} names; mend the row"
            )
        for name in LABEL_COLUMNS:
            cell = cells[self._at[name]].strip()
            if not cell:
                raise TableError(
                    f"{self.name}, row {self.n_rows}, column {name}: the cell is blank; fill it or "
                    "delete the row"
                )
            getattr(rows, name).append(cell)
        rows.time.append(self._number(TIME, cells, _moment, "a time such as 2026-11-22T10:00:00"))
        timed = self._asked or SECONDS
        rows.seconds.append(self._number(timed, cells, _duration, "seconds, above 0"))

    def _number(
        self, name: str, cells: Sequence[str], read: Callable[[str], float], what: str
    ) -> float:
        cell = cells[self._at[name]].strip() if name in self._at else ""
        if not cell:
            return math.nan
        try:
            return read(cell)
        except ValueError:
            raise TableError(
                f"{self.name}, row {self.n_rows}, column {name}: {cell!r} must be {what}; mend the cell "
                "or leave it blank"
            ) from None


def _moment(cell: str) -> float:
    """Return seconds since 1970, from a number of them or a date and time; UTC where it names no zone.

    A number too large for seconds counts thousandths, or millionths or billionths, of them.
    """
    try:
        found = float(cell)
    except ValueError:
        when = datetime.fromisoformat(cell)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not abs(found) < FAR * 1e9:
        raise ValueError(cell)
    while abs(found) >= FAR:
        found /= 1000
    return found


def _duration(cell: str) -> float:
    found = float(cell)
    if not 0 < found < math.inf:
        raise ValueError(cell)
    return found


class FileTail:
    """Reads what a file has gained since it was read before.

    Parameters
    ----------
    path
        The file.
    offset
        Bytes that were taken before.
    head, end
        Digests of its beginning then, and of what was taken last, by which it is known again. States of
        earlier versions have no `end`.

    Raises
    ------
    TableError
        If it is no file, or one that is shorter than what was taken or holds other bytes there.
    """

    def __init__(self, path: Path, *, offset: int = 0, head: str = "", end: str = "") -> None:
        if path.is_dir():
            raise TableError(f"{path} is a folder; name the CSV file that grows")
        if path.exists() and not path.is_file():
            raise TableError(
                f"{path} is a pipe or a device; name a file, or - and give the rows on standard input"
            )
        self.path, self.offset = path, offset
        with self._opened() as file:
            self._start = file.read(min(offset, HEAD))
            self._end = self._before(file, offset)
        if offset and self.head_at(offset) != head:
            raise self._another()
        if end and _digest(self._end) != end:
            raise self._another()

    def head_at(self, offset: int) -> str:
        """Return the digest of the beginning of what was taken, as it was when that ended at `offset`."""
        return _digest(self._start[:offset])

    def end_at(self, offset: int) -> str:
        """Return the digest of what was taken last, where that ended at `offset`."""
        with self._opened() as file:
            return _digest(self._before(file, offset))

    def read(self) -> bytes:
        """Return new bytes, at most some megabytes at once; none where it has not grown.

        Raises
        ------
        TableError
            If the file is gone, has become shorter, or holds other bytes than it did at its beginning or
            where it was read last.
        """
        with self._opened() as file:
            if file.seek(0, io.SEEK_END) < self.offset:
                raise TableError(
                    f"{self.path} is shorter than when it was read before: it must only grow; give another "
                    "--state for a new file"
                )
            file.seek(0)
            if file.read(len(self._start)) != self._start:
                raise self._another()
            if self._before(file, self.offset) != self._end:
                raise self._another()
            data = file.read(BLOCK)
        self.offset += len(data)
        self._start += data[: HEAD - len(self._start)]
        self._end = (self._end + data)[-HEAD:]
        return data

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            raise TableError(
                f"{self.path} does not exist; name the CSV file that grows, which may be empty"
            ) from None

    @staticmethod
    def _before(file: BinaryIO, offset: int) -> bytes:
        """Read the last bytes that end at `offset`, where the file then stands."""
        size = min(offset, HEAD)
        file.seek(offset - size)
        return file.read(size)

    def _another(self) -> TableError:
        return TableError(
            f"{self.path} is not the file that was watched: it must only grow; give another --state for it"
        )


def _digest(part: bytes) -> str:
    return blake2b(part, digest_size=16).hexdigest()

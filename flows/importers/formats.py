"""The one table of export formats: who reads each, and which columns may be named by hand.

>>> FORMATS["mturk"].roles
('worker', 'task', 'label', 'seconds')

A new platform is an importer of its own, a row of this table and a test with a sample export.
`crowdassay import --format`, what `--map` accepts and the tests of every format are derived from the
rows. The table itself loads no importer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from flows.choices import LABEL_COLUMNS

if TYPE_CHECKING:
    from flows.importers.responses import Response

__all__ = ["FORMATS", "Format", "FormatName", "recognise"]

PLAIN = ("jsonl", "sql", "table")  # formats of no platform
TIMED = (*LABEL_COLUMNS, "seconds")
LONG = (*TIMED, "question")  # with a row for each answer to a question


@dataclass(frozen=True, slots=True)
class Format:
    """How an export is read: the function `reader` of an importer, given a path and columns by role.

    `roles` are those whose columns may be named by hand. With `cells` an answer is a cell of a table, in
    which several labels may stand.
    """

    module: str
    reader: str
    roles: tuple[str, ...] = ()
    cells: bool = False

    @property
    def read(self) -> Callable[..., Iterator[Response]]:
        """The reader; its importer is loaded now."""
        importer = import_module(f"flows.importers.{self.module}")
        found: Callable[..., Iterator[Response]] = getattr(importer, self.reader)
        return found


FORMATS = {
    "appen": Format("appen", "read_appen", LABEL_COLUMNS, cells=True),
    "argilla": Format("argilla", "read_argilla"),
    "deepeval": Format("judges", "read_deepeval"),
    "inspect": Format("judges", "read_inspect"),
    "jsonl": Format("mapped", "read_jsonl", LONG, cells=True),
    "label-studio": Format("label_studio", "read_label_studio", ("left", "right")),
    "lm-eval": Format("judges", "read_lm_eval"),
    "mturk": Format("mturk", "read_mturk", TIMED, cells=True),
    "prodigy": Format("prodigy", "read_prodigy"),
    "promptfoo": Format("judges", "read_promptfoo"),
    "sql": Format("mapped", "read_query", LONG, cells=True),
    "table": Format("mapped", "read_table", LONG, cells=True),
    "toloka": Format("toloka", "read_toloka", LABEL_COLUMNS, cells=True),
}

if TYPE_CHECKING:
    FormatName: TypeAlias = str
else:
    FormatName = Literal[tuple(FORMATS)]


def recognise(path: Path) -> FormatName | None:
    """Return the format of a platform's export; None if no format fits, or several.

    A file is an export of a platform if its importer can read the first answer.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "export.json"
    ...     _ = path.write_text('[{"id": 1, "annotations": [{"completed_by": 7, "result": []}]}]')
    ...     recognise(path)
    'label-studio'
    """
    from flows.tables import TableError  # DuckDB's room, where there is a file to look at

    def is_one(form: Format) -> bool:
        try:
            return next(form.read(path, {}), None) is not None
        except TableError:
            return False

    found = [name for name, form in FORMATS.items() if name not in PLAIN and is_one(form)]
    return found[0] if len(found) == 1 else None

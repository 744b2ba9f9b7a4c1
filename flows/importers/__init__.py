"""Importers: crowdsourcing platforms' exports as the table worker, task, label and, where told, seconds.

Only the columns and keys that make up a label are read, so nothing else of a worker can reach the
output. One module per platform says which they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from flows.importers.appen import read_appen
from flows.importers.argilla import read_argilla
from flows.importers.label_studio import read_label_studio
from flows.importers.mapped import read_jsonl, read_query, read_table
from flows.importers.mturk import read_mturk
from flows.importers.prodigy import read_prodigy
from flows.importers.responses import Dropped, ImportedLabels, Response, gather
from flows.importers.toloka import read_toloka
from flows.importers.written import check_output, write_labels
from flows.tables.text_table import TableError

__all__ = [
    "FORMATS",
    "Dropped",
    "Format",
    "ImportedLabels",
    "check_output",
    "import_labels",
    "parse_map",
    "write_labels",
]

ROLES = ("worker", "task", "label", "seconds")


class Format(NamedTuple):
    """How an export is read, and which columns of it may be named by hand."""

    read: Callable[..., Iterator[Response]]  # of a path and columns by role
    roles: tuple[str, ...]


FORMATS = {
    "appen": Format(read_appen, ROLES[:3]),
    "argilla": Format(read_argilla, ()),
    "csv": Format(read_table, ROLES),
    "jsonl": Format(read_jsonl, ROLES),
    "label-studio": Format(read_label_studio, ()),
    "mturk": Format(read_mturk, ROLES),
    "parquet": Format(read_table, ROLES),
    "prodigy": Format(read_prodigy, ()),
    "sql": Format(read_query, ROLES),
    "toloka": Format(read_toloka, ROLES[:3]),
}


def parse_map(text: str, form: str) -> dict[str, str]:
    """Columns by role from `worker=annotator,task=item`; refuse a role that the format does not take."""
    roles = FORMATS[form].roles
    if text and not roles:
        raise TableError(f"--map is for tables; {form} exports name their own keys: leave it out")
    columns: dict[str, str] = {}
    for part in text.split(",") if text else ():
        role, _, column = part.partition("=")
        if role not in roles or not column or role in columns:
            raise TableError(
                f"--map must be ROLE=COLUMN,... with roles of {', '.join(roles)}, each once, "
                f"got {part!r}"
            )
        columns[role] = column
    return columns


def import_labels(
    path: Path,
    form: str,
    *,
    question: str | None = None,
    keep_rejected: bool = False,
    columns: Mapping[str, str] | None = None,
    url_env: str | None = None,
) -> ImportedLabels:
    r"""Read a platform's export.

    Parameters
    ----------
    path
        The export.
    form
        A name of `FORMATS`.
    question
        Which question's answers become labels; needed where there are several.
    keep_rejected
        Keep answers of assignments that were rejected.
    columns
        Columns by role where they differ from the platform's own, as `parse_map` finds them.
    url_env
        For a query, the name of the environment variable that holds the database's address.

    Raises
    ------
    TableError
        If the file is no such export, its question is not told, no label is left, or an address
        is named for what is no query or none for a query.

    Notes
    -----
    **Guarantees.** (1) Workers and tasks keep the names they came with. (2) Every answer to the
    question is either a label or counted as dropped. (3) No other cell of the export is in the
    result.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("annotator,item,label\nann,t1,cat\nben,t1,dog\neve,t1,\n")
    ...     import_labels(path, "csv", columns=parse_map("worker=annotator,task=item", "csv"))
    ImportedLabels(3 answers to 'label' read from answers.csv; dropped 1 skipped; 2 labels)
    """
    if form == "sql" and url_env is None:
        raise TableError(
            f"{path.name} is to be asked of a database: --url-env must name the environment variable "
            "that holds its address; check --format"
        )
    if form != "sql" and url_env is not None:
        raise TableError("--url-env is for --format sql: leave it out")
    database = {} if url_env is None else {"url_env": url_env}
    responses = list(FORMATS[form].read(path, columns or {}, **database))
    return gather(responses, path.name, question=question, keep_rejected=keep_rejected)

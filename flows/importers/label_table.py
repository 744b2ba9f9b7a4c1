"""An export as a label table, whatever platform it is from, read and written.

labels = import_labels(Path("export.csv"), "mturk", question="sentiment")
write_labels(labels, table_file(Path("labels.csv"), inputs=(Path("export.csv"),)))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.choices import LABEL_COLUMNS
from flows.files import OutputFile
from flows.importers.formats import FORMATS
from flows.importers.responses import ImportedLabels, Several, gather
from flows.settings import named_columns
from flows.tables import AS_FOUND, Reading, TableError, write_table

__all__ = ["import_labels", "parse_map", "write_labels"]


def parse_map(text: str, form: str) -> dict[str, str]:
    """Return columns by role, from a text such as ``worker=annotator,task=item``.

    Raises
    ------
    TableError
        If a role is unknown to the format, a role or a column is named twice, or a role has no column.
    """
    roles = FORMATS[form].roles
    if text and not roles:
        raise TableError(f"--map is for tables; {form} exports name their own keys: leave it out")
    try:
        return named_columns(text.split(",") if text else (), roles=roles, what="map")
    except ValueError as error:
        raise TableError(f"--{error}") from None


def import_labels(
    path: Path,
    form: str,
    *,
    question: str | None = None,
    keep_rejected: bool = False,
    several: Several | None = None,
    columns: Mapping[str, str] | None = None,
    url_env: str | None = None,
    reading: Reading = AS_FOUND,
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
    several
        Keep answers with several labels at once, as cells of them; without it they are dropped. Its
        ``in_cells`` is that of the format.
    columns
        Columns by role where they differ from the platform's own, as `parse_map` finds them.
    url_env
        For a query, the name of the environment variable that holds the database's address.
    reading
        For a table, how it is written, where that is not to be found out.

    Raises
    ------
    TableError
        If the file is not such an export, holds several questions and none is named, or has no label
        left; or if an address is named for what is not a query, or none for a query.

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
    ...     import_labels(path, "table", columns=parse_map("worker=annotator,task=item", "table"))
    ImportedLabels(3 answers to 'label' read from answers.csv; dropped 1 skipped; 2 labels)
    """
    if form == "sql" and url_env is None:
        raise TableError(
            f"{path.name} is to be asked of a database: --url-env must name the environment variable "
            "that holds its address; check --format"
        )
    if form != "sql" and url_env is not None:
        raise TableError("--url-env is for --format sql: leave it out")
    if form != "table" and reading != AS_FOUND:
        raise TableError(
            "--sep, --encoding, --sheet and --wide are for --format table: leave them out"
        )
    if several is not None and not several.split:
        raise TableError("--split must not be empty")
    if several is not None:
        several = several._replace(in_cells=FORMATS[form].cells)
    more: dict[str, Any] = {} if url_env is None else {"url_env": url_env}
    if form == "table":
        more["reading"] = reading
    responses = list(FORMATS[form].read(path, columns or {}, **more))
    return gather(
        responses, path.name, question=question, keep_rejected=keep_rejected, several=several
    )


def write_labels(labels: ImportedLabels, output: OutputFile, *, guard: bool = False) -> None:
    """Write worker, task, label, and left and right, seconds and kind where there are any; nothing else."""
    sides = {"left": bool(labels.left), "right": bool(labels.right)}
    more = {**sides, "seconds": labels.has_seconds, "kind": any(labels.kind)}
    names = [*LABEL_COLUMNS, *(name for name, there in more.items() if there)]
    columns = {name: getattr(labels, name) for name in names}
    try:
        write_table(columns, output, guard=guard)
    except UnicodeEncodeError:
        raise TableError(f"{labels.file} holds a name that is not Unicode text; mend it") from None

"""The sections of what a run reads: `[input]`, its tables, and `[groups]`, the source of a task's group.

>>> InputSettings(labels=Path("labels.csv")).gold_sampling
'chosen'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from flows.choices import LABEL_COLUMNS, Duplicates, GoldSampling
from flows.settings.addresses import check_address
from flows.settings.section import Section

__all__ = ["GroupSettings", "InputSettings", "check_separator", "named_columns"]


def check_separator(sep: str) -> None:
    """Raise ValueError for what cannot separate the cells of a line."""
    if len(sep) != 1 or sep in '"\r\n\0':
        raise ValueError(f'sep must be one letter, such as ";" or "\\t", got {sep!r}')


def named_columns(
    texts: Iterable[str], *, roles: Sequence[str] = LABEL_COLUMNS, what: str = "columns"
) -> dict[str, str]:
    """Return the columns that tables have for worker, task and label, from texts such as ``task=item``.

    Raises
    ------
    ValueError
        If a text is not of this form, or a role or a column comes twice.

    Examples
    --------
    >>> named_columns(["worker=annotator", "task=item"])
    {'worker': 'annotator', 'task': 'item'}
    """
    found: dict[str, str] = {}
    for text in texts:
        role, _, column = text.partition("=")
        if role not in roles or not column or role in found or column in found.values():
            raise ValueError(
                f"{what} must be ROLE=COLUMN,... with roles of {', '.join(roles)}, each once, each column "
                f"once, got {text!r}"
            )
        found[role] = column
    return found


class GroupSettings(Section):
    """The source of a task's group: a column of the task tables, or a pattern in the task's name."""

    column: str = "group"
    """The column of the task tables that names a task's group; by default it may be missing."""
    pattern: str | None = None
    """Instead of a column: a pattern, and its groups in the task's name."""

    @model_validator(mode="after")
    def _pattern_captures_the_group(self) -> GroupSettings:
        try:
            captures = self.pattern is None or re.compile(self.pattern).groups >= 1
        except re.error as error:
            raise ValueError(f"pattern must be a regular expression: {error}") from None
        if self.column == "task":
            raise ValueError('column must not be "task": every task would be its own group')
        if not captures:
            raise ValueError(f"pattern must have a (capturing group), got {self.pattern!r}")
        if self.pattern is not None and "column" in self.model_fields_set:
            raise ValueError(
                "column and pattern must not both be given, as a task has one group: leave out "
                f"column {self.column!r}, or the pattern"
            )
        return self


class InputSettings(Section):
    """The tables to read, each in the format that the end of its name says.

    They are CSV or TSV (plain or gzipped), Parquet, JSON (lines or an array), workbooks (.xlsx, .xls, .ods)
    or queries. How a CSV is written is found out and reported; `sep` and `encoding` set it instead.

    A path is a file, or a folder or pattern of files that arrive day by day. A query is a file `*.sql`.
    The address of its database is a secret and never stands in settings.

    A table elsewhere is named by its address, without keys: ``s3://``, ``gs://``, ``https://`` and others, or
    ``delta+s3://``, ``iceberg+s3://`` for a whole table; DuckDB's extensions read it, where installed.
    """

    labels: Path
    """The crowd's labels, one a row: worker, task, label."""
    tasks: tuple[Path, ...] = ()
    """Tables of the tasks: their names, groups and features."""
    gold: Path | None = None
    """Tasks whose truth is known: task, label."""
    gold_column: str | None = None
    """The gold table's column with the truth, blank where there is none; that table may be the labels."""
    reference: Path | None = None
    """Answers of language models, to find workers who paste them: task, label, and model if of several."""
    url_env: str | None = None
    """For queries: the environment variable with the database's address."""
    sep: str | None = None
    """What separates the cells of a CSV; by default found out."""
    encoding: str | None = None
    """The encoding of a CSV, such as "cp1252"; by default found out."""
    sheet: str | None = None
    """The sheet of a workbook; by default the first with cells."""
    wide: bool = False
    """True: the labels have a row per task and a column per worker."""
    columns: tuple[str, ...] = ()
    """Columns that have other names in the tables, as in ["worker=annotator", "task=item"]."""
    seconds: str | None = None
    """The column of the labels with the seconds that each took."""
    gold_sampling: GoldSampling = "chosen"
    """How gold tasks came: random among all, stratified (random in each group), or chosen."""
    duplicates: Duplicates = "error"
    """A worker's repeated label of a task: error, first or last."""
    subject: str | None = None
    """The column of the task tables that says whose a task is, for the unit "subject"."""
    features: tuple[str, ...] = ()
    """Columns of the task tables to learn from, as in ["x*", "embedding"]; by default all that are left."""
    ignore: tuple[str, ...] = ()
    """Columns of the task tables that are not read, as in ["note*"]."""
    shown: tuple[str, ...] = ("title", "text", "url")
    """Columns of the task tables, if there, that say what a task is: the internal report shows them."""
    embeddings: Path | None = None
    """A matrix in a file .npy, a row for each row of the task tables in their order: more features."""
    order: bool = False
    """True: the classes, in the order given, are grades, where a near miss is better than a far one."""
    several: Annotated[str, Field(min_length=1)] | None = None
    """Where several classes may hold at once: what stands between them in a cell, such as a bar."""
    nothing: Annotated[str, Field(min_length=1)] | None = None
    """With several: the word for an answer without any class, such as "none"."""
    models: tuple[str, ...] = ()
    """Workers that are language models, beside those whose kind is "model" in the labels."""
    features_private: bool = False
    """True: results that read features in the clear stay internal."""
    standardize: bool = False
    """True: features are centred and scaled, which reads them in the clear."""

    @model_validator(mode="after")
    def _queries_have_an_address(self) -> InputSettings:
        given = (self.labels, *self.tasks, *filter(None, (self.gold, self.reference)))
        for path in (*given, *filter(None, (self.embeddings,))):
            check_address(path)
        query = next((path.name for path in given if path.suffix.lower() == ".sql"), None)
        if self.url_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.url_env):
            raise ValueError(
                "url_env must be the name of an environment variable; the address that it holds is "
                "a secret and does not stand in settings"
            )
        if query is not None and self.url_env is None:
            raise ValueError(
                f"{query} is a query, so url_env must name the environment variable that holds the "
                "database's address"
            )
        if query is None and self.url_env is not None:
            raise ValueError(
                "url_env is for queries; name a file *.sql as labels, tasks, gold or reference"
            )
        return self

    @model_validator(mode="after")
    def _embeddings_are_of_tasks(self) -> InputSettings:
        if self.embeddings is not None and self.embeddings.suffix.lower() != ".npy":
            raise ValueError(f"embeddings must be a file .npy, got {self.embeddings.name!r}")
        if self.embeddings is not None and not self.tasks:
            raise ValueError("embeddings needs tasks, the tables whose rows they are of")
        return self

    @model_validator(mode="after")
    def _columns_and_scaling_fit(self) -> InputSettings:
        if self.subject == "task":
            raise ValueError(
                'subject must not be "task": use the unit "row", which protects one task'
            )
        if self.sep is not None:
            check_separator(self.sep)
        named = named_columns(self.columns)
        if self.wide and set(named) - {"task"}:
            raise ValueError(
                "columns must name no more than task with wide: the others are workers"
            )
        if self.seconds in (*LABEL_COLUMNS, *named.values()):
            raise ValueError(f"seconds must name a column of its own, got {self.seconds!r}")
        if self.gold_column is not None and self.gold is None:
            raise ValueError(
                "gold_column needs gold, the table that has it, which may be the labels"
            )
        if self.gold_column == named.get("task", "task"):
            raise ValueError("gold_column must be another column than that of the tasks")
        if self.standardize and self.features_private:
            raise ValueError(
                "standardize must be false with features_private: it reads all features in the clear"
            )
        return self

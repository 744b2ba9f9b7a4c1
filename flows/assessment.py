"""A table of labels assessed in one call: from a data frame to workers, consensus, shares and a report.

    import flows
    found = flows.assess(frame)            # columns worker, task, label
    found.consensus.to_pandas()            # one label per task, and how far to believe it
    found.save_report("report.html")

It is the run of `crowdassay run`, in a folder that is gone when the call returns: nothing is released,
nothing is kept. To release anything, and pay for it, use a settings file and its state folder.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.choices import LABEL_COLUMNS, Duplicates, GoldSampling
from flows.files import OutputError, OutputFile
from flows.pipeline import RunResult, run_pipeline
from flows.run import Crowd, load_crowd
from flows.settings import Settings, SettingsError, run_settings
from flows.tables import (
    Frame,
    ResultTable,
    TableError,
    arrow_table,
    column_names,
    find_files,
    frame_table,
    plain_table,
    typed_like,
)
from quality import corrected_shares

__all__ = ["Assessment", "assess"]

Given: TypeAlias = "Frame | str | os.PathLike[str]"

MOST_CELLS = 10**7  # groups * classes^2 of a correction by gold, which has some tables of so many
KEPT_APART = ("privacy", "model", "gate", "engine", "name", "runs", "state", "input", "keep_runs")


@dataclass(frozen=True, slots=True, eq=False)
class Assessment:
    """What the labels say; made by :func:`assess`.

    Parameters
    ----------
    workers
        A row per worker: reputation, penalties, and whether and why the filter removed her; those removed
        first.
    consensus
        A row per task: its label, the confidence in it, and what speaks for it.
    shares
        A row per group and class: the share of the group's tasks. With a random sample of gold it is
        corrected, and `low` and `high` are the ends of its interval; else it is that of the consensus
        labels, without an interval. The latter also holds where groups * classes^2 exceed 10,000,000, and a
        verdict states it.
    next_labels
        A row per task, in the order in which another label would help most.
    verdicts
        What was found, in a sentence for each part of the work that was done.
    report
        The internal report, a page of HTML that loads nothing from elsewhere.
    """

    workers: ResultTable
    consensus: ResultTable
    shares: ResultTable
    next_labels: ResultTable
    verdicts: Mapping[str, str]
    report: str = field(repr=False)

    def save_report(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the report to a file, and return its path; OutputError for a file that is there already."""
        try:
            file = OutputFile(Path(path), force=force)
            file.write(lambda aside: aside.write_text(self.report, encoding="utf-8"))
        except OutputError as error:
            raise OutputError(str(error).replace("--force", "force=True")) from None
        return file.path

    def _repr_html_(self) -> str:
        """Show the verdicts and the first rows of the tables in a notebook."""
        rows = "".join(
            f"<tr><th>{escape(title)}</th><td>{escape(text)}</td></tr>"
            for title, text in self.verdicts.items()
        )
        tables = "".join(one._repr_html_() for one in (self.shares, self.workers, self.consensus))
        return f"<table><caption>what was found</caption>{rows}</table>{tables}"


def assess(
    labels: Given,
    *,
    gold: Given | None = None,
    tasks: Given | None = None,
    worker: str = "worker",
    task: str = "task",
    label: str = "label",
    gold_sampling: GoldSampling = "chosen",
    duplicates: Duplicates = "error",
    seed: int = 0,
    **sections: Any,
) -> Assessment:
    """Judge workers, filter them, find one label per task and the class shares; return all with a report.

    Parameters
    ----------
    labels
        One row per label: a data frame of pandas or Polars, an Arrow table, a mapping of columns, a
        list of rows, or the path of a file (a folder or a pattern of files) as text.
    gold
        Tasks whose truth is known: task, label.
    tasks
        Tasks with their group and features.
    worker, task, label
        The names that these columns have; a file may have the names themselves instead.
    gold_sampling
        How gold tasks came: "random" among all, "stratified" (random in each group), or "chosen".
    duplicates
        What to do with a worker's repeated label of a task: "error", "first" or "last".
    seed
        Of the filter's draws.
    **sections
        Sections of a settings file, each a mapping: ``consensus={"aggregator": "glad"}``,
        ``filter={"fraction": 0.1}``, ``report={"worker_names": True}``; and ``classes``.

    Raises
    ------
    TableError
        If a table lacks a column or has a row that a run refuses.
    SettingsError
        If a section has an unknown key or an invalid value, or would release something.

    Notes
    -----
    **Guarantees.** The arguments are not changed. Ids and labels come back in the types that they had in
    the data frame `labels`, and as text where that is a file. The same arguments give the same result. No
    file is left anywhere.

    Examples
    --------
    >>> frame = {"worker": list("abc") * 4, "task": [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4],
    ...          "label": list("xxyyyyxxxyyx")}
    >>> found = assess(frame, filter={"n_workers": 0})
    >>> dict(zip(*(found.consensus.arrow[name].to_pylist() for name in ("task", "label"))))
    {1: 'x', 2: 'y', 3: 'x', 4: 'y'}
    >>> found.shares.to_arrow()["share"].to_pylist()
    [0.5, 0.5]
    """
    apart = sorted(set(sections) & set(KEPT_APART))
    if apart:
        why = "keeps and releases nothing"
        if apart[0] == "input":
            why = "has arguments for its tables and for no other key of [input]"
        raise SettingsError(
            f"assess {why}, so it takes no {apart[0]}; write a settings file and run it: "
            "run_pipeline(load_settings(path))"
        )
    _refuse_unknown(sections)
    # pandas names columns by numbers too
    columns = {"worker": str(worker), "task": str(task), "label": str(label)}
    if len(set(columns.values())) < len(columns):
        named = ", ".join(map(repr, columns.values()))
        raise SettingsError(f"worker, task and label must be three columns, got {named}")
    with TemporaryDirectory(prefix="crowdassay-") as scratch:
        folder, types = Path(scratch), dict[str, pa.DataType]()  # of the labels' columns
        given: dict[str, Any] = {"gold_sampling": gold_sampling, "duplicates": duplicates}
        renamed = set[str]()
        for role, frame, needed in (
            ("labels", labels, LABEL_COLUMNS),
            ("gold", gold, ("task", "label")),
            ("tasks", tasks, ("task",)),
        ):
            if frame is not None or role == "labels":
                names = {name: columns[name] for name in needed}
                path = _on_disk(role, frame, names, folder, types)
                renamed |= _renamed(path, names)
                given[role] = (path,) if role == "tasks" else path
        given["columns"] = [f"{role}={columns[role]}" for role in LABEL_COLUMNS if role in renamed]
        settings = run_settings(
            name="assessment", seed=seed, runs=folder / "runs", state=folder / "state",
            input=given, **sections,
        )  # fmt: skip
        try:
            found = run_pipeline(settings)
        except TableError as error:
            raise TableError(_unplaced(str(error))) from None
        return _assessment(found, types, gold_sampling)


def _refuse_unknown(sections: Mapping[str, Any]) -> None:
    """Raise SettingsError for a name that is neither an argument of :func:`assess` nor a section."""
    own = [name for name in inspect.signature(assess).parameters if name != "sections"]
    taken = [key for key in Settings.model_fields if key not in (*KEPT_APART, *own)]
    for name in sections:
        if name not in taken:
            close = difflib.get_close_matches(name, (*own, *taken), n=1)
            raise SettingsError(
                f"assess takes no {name!r}; "
                + (
                    f"did you mean {close[0]!r}?"
                    if close
                    else f"known are {', '.join((*own, *taken))}"
                )
            )


def _on_disk(
    role: str, frame: Given, names: Mapping[str, str], folder: Path, types: dict[str, pa.DataType]
) -> Path:
    """Return the path of a table, which for a data frame is a file made for it; note the labels' types."""
    if isinstance(frame, str | os.PathLike):
        return Path(frame).absolute()
    _refuse_pairs(role, frame)
    table = frame_table(frame, names, what=role)
    if role == "labels":
        types.update((name, table.schema.field(name).type) for name in names)
    path = folder / f"{role}.parquet"
    try:
        pq.write_table(plain_table(table), path)
    except pa.ArrowNotImplementedError as error:
        raise TableError(
            f"{role} must have columns of text, numbers, truth values or moments; convert or leave out the "
            f"others ({error})"
        ) from None
    return path


def _renamed(path: Path, names: Mapping[str, str]) -> set[str]:
    """Return which of our columns a table's files have under the caller's names, where these are others."""
    others = {ours: theirs for ours, theirs in names.items() if ours != theirs}
    files = find_files(path) if others else ()
    held = {name for file in files for name in column_names(file, ())}
    return {ours for ours, theirs in others.items() if theirs in held}


def _refuse_pairs(role: str, frame: Frame) -> None:
    """Raise TableError for a dict or a Series that has a label for each task, and no columns."""
    pairs = isinstance(frame, Mapping) and any(
        isinstance(column, str) or not hasattr(column, "__len__") for column in frame.values()
    )
    if pairs or len(getattr(frame, "shape", (0, 0))) == 1:
        names = "worker, task and label" if role == "labels" else "task and label"
        raise TableError(
            f"{role} must have columns, such as {names}, each with a value for every row; got a "
            f"{type(frame).__name__} of single values; make its keys a column, its values another"
        )


def _unplaced(message: str) -> str:
    """Rewrite a message about a file that was made for a data frame as one about the data frame."""
    message = message.replace(" (--duplicates first)", "")
    for role in ("labels", "gold", "tasks"):
        message = message.replace(f"{role}.parquet", role)
    message = message.replace("--wide (wide = true) reads it so", "melt it to a row per label")
    return re.sub(r"--map (.+?), or columns under \[input\]", _as_arguments, message)


def _as_arguments(mapping: re.Match[str]) -> str:
    """Return the columns that an option of the command line names as arguments of :func:`assess`."""
    (named,) = shlex.split(mapping[1])
    pairs = (one.partition("=") for one in re.split(r",(?=worker=|task=|label=)", named))
    return "pass " + ", ".join(f"{role}={column!r}" for role, _, column in pairs)


def _assessment(
    found: RunResult, types: Mapping[str, pa.DataType], gold_sampling: GoldSampling
) -> Assessment:
    """Read what the run found into memory."""
    crowd = load_crowd(found.folder)
    consensus = found.consensus
    next_labels = ResultTable(found.run.read_table("next_labels.parquet"), "next labels")
    report = found.report.read_text(encoding="utf-8")
    shares, uncorrected = _shares(crowd, consensus, gold_sampling)
    return Assessment(
        _typed(found.workers, types),
        _typed(consensus, types),
        _typed(shares, types),
        _typed(next_labels, types),
        {**found.verdicts, **({"class shares": uncorrected} if uncorrected else {})},
        report,
    )


def _typed(table: ResultTable, types: Mapping[str, pa.DataType]) -> ResultTable:
    """Return a table whose ids and labels have the types that they came with."""
    arrow = table.arrow
    for place, name in enumerate(arrow.column_names):
        source = types.get("label" if name == "class" else name)
        if source is not None:
            arrow = arrow.set_column(place, name, typed_like(arrow.column(place), source))
    return ResultTable(arrow, table.title)


def _shares(
    crowd: Crowd, consensus: ResultTable, gold_sampling: GoldSampling
) -> tuple[ResultTable, str]:
    """Return the class shares of every labelled group: corrected by gold where it is a sample.

    Where tables would be too large they are not corrected, and the second value is the reason.
    """
    names, group = crowd.labelled_groups()
    classes = crowd.labels.classes
    order = np.argsort(classes, kind="stable")
    named = np.array(consensus.arrow["label"].to_pylist(), dtype=classes.dtype)
    label = order[np.searchsorted(classes, named, sorter=order)]
    counts = np.zeros((len(names), len(classes)), dtype=np.int64)
    np.add.at(counts, (group, label), 1)
    size = counts.sum(axis=1, keepdims=True)
    share = counts / size
    low = high = np.full(share.shape, np.nan)
    gold = crowd.gold_code()
    known = gold >= 0
    is_sample = gold_sampling != "chosen" and known.any()
    fits = counts.size * len(classes) <= MOST_CELLS
    if is_sample and fits:
        table = np.zeros((len(names), len(classes), len(classes)), dtype=np.int64)
        np.add.at(table, (group[known], label[known], gold[known]), 1)
        corrected = corrected_shares(counts, table)
        share, low, high = corrected.share, corrected.low, corrected.high
    columns = {
        "group": np.repeat(names, len(classes)).astype(np.str_),
        "class": np.tile(classes.astype(np.str_), len(names)),
        "n": np.repeat(size.ravel(), len(classes)),
        "share": share.ravel(),
        "low": low.ravel(),
        "high": high.ravel(),
    }
    uncorrected = (
        f"The shares of {len(classes):,} classes in {len(names):,} group{'s' * (len(names) != 1)} are those "
        f"of the consensus labels: the correction by gold takes at most {MOST_CELLS:,} cells, groups times "
        "the square of classes."
    )
    words = uncorrected if is_sample and not fits else ""
    return ResultTable(arrow_table(columns), "class shares"), words

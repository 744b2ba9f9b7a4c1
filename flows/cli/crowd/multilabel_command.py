"""The command for tasks with several labels at once: multilabel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.root import (
    AsJson,
    Encoding,
    Force,
    Guard,
    Output,
    Quiet,
    Sep,
    Sheet,
    app,
    mistakes,
    one_table,
    print_line,
    reading_of_options,
    show_rows,
)

if TYPE_CHECKING:
    from quality import MultiLabelConsensus, MultiLabels

__all__ = ["multilabel"]


@app.command(
    epilog='Example: `crowdassay multilabel answers.csv --split "|" --output consensus.csv`'
)
def multilabel(
    answers: Annotated[
        Path,
        typer.Argument(
            help="table with the columns worker, task, label: lists, cells such as a|b, or a row a label; "
            "a file, a folder, a pattern, or -"
        ),
    ],
    split: Annotated[str, typer.Option(help="what stands between the labels of a cell")] = "|",
    nothing: Annotated[
        str | None, typer.Option(help='the word for an answer without any label, such as "none"')
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="the classes, with commas between them [default: those found]"),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="a class is chosen where its probability is above this")
    ] = 0.5,
    probabilities: Annotated[
        Path | None,
        typer.Option(
            help="write a row for each class of each task that somebody gave to this file"
        ),
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    output: Output = None,
    guard: Guard = False,
    force: Force = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say which of several labels hold for each task, and how each worker gives them."""
    from flows.settings import SettingsError  # these load pydantic, numba and DuckDB
    from flows.tables import read_multilabels, table_file, write_table
    from quality import multilabel_consensus

    with mistakes():
        if not 0 < threshold < 1:
            raise SettingsError(f"--threshold must be above 0 and below 1, got {threshold:g}")
        files = [
            None if path is None else table_file(path, inputs=(answers,), force=force)
            for path in (output, probabilities)
        ]
        named = None if classes is None else tuple(one.strip() for one in classes.split(","))
        reading = reading_of_options(sep, encoding, sheet, False)
        with one_table(answers, ("worker", "task"), reading, tell=not json_) as file:
            table = read_multilabels(file, split=split, nothing=nothing, classes=named)
        found = multilabel_consensus(table, threshold=threshold)
        if files[1] is not None:
            write_table(_cells(table, found), files[1], guard=guard)
        header, rows = _task_rows(table, found, split)
        if json_:
            print(json.dumps(_as_json(table, found)))
            return
        show_rows("Tasks", header, rows, files[0], numbers=header[2:], guard=guard)
        for title, (header, rows) in (
            ("Classes", _class_rows(table, found)),
            ("Workers, who tell most first", _worker_rows(table, found)),
        ):
            show_rows(title, header, rows, None, numbers=header[1:])
        for line in _sentences(table, found):
            print_line(line)


def _names_of(table: MultiLabels, found: MultiLabelConsensus, task: int) -> list[str]:
    """The chosen classes of a task, by name."""
    return [str(table.classes[one]) for one in found.classes_of(task)]


def _task_rows(
    table: MultiLabels, found: MultiLabelConsensus, split: str
) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row per task; `sure` is of its least sure class."""
    rows = []
    for t in range(table.n_tasks):
        sure = _least_sure(found.probability[found.start[t] : found.start[t + 1]].tolist())
        n_answers = table.task_start[t + 1] - table.task_start[t]
        joined = split.join(_names_of(table, found, t))
        rows.append([str(table.tasks[t]), joined, f"{sure:.4f}", str(n_answers)])
    return ["task", "label", "sure", "answers"], rows


def _least_sure(chance: list[float]) -> float:
    """The smallest probability that a decision on a class is right; 1 where nobody gave one."""
    return min((max(one, 1 - one) for one in chance), default=1.0)


def _cells(table: MultiLabels, found: MultiLabelConsensus) -> dict[str, list[Any]]:
    """Return the columns of the table of probabilities."""
    import numpy as np  # `--help` need not load it

    task = np.repeat(np.arange(table.n_tasks), np.diff(found.start))
    n_classes = table.n_classes
    about = np.repeat(table.task, np.diff(table.label_start)).astype(np.int64)
    cell = task * n_classes + found.label
    place = np.searchsorted(cell, about * n_classes + table.label)
    return {
        "task": table.tasks[task].tolist(),
        "class": table.classes[found.label].tolist(),
        "probability": found.probability.tolist(),
        "chosen": found.chosen.astype(int).tolist(),
        "given": np.bincount(place, minlength=len(cell)).tolist(),
        "answers": np.diff(table.task_start)[task].tolist(),
    }


def _class_rows(
    table: MultiLabels, found: MultiLabelConsensus
) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row per class, the most frequent first."""
    import numpy as np  # `--help` need not load it

    given = np.bincount(table.label, minlength=table.n_classes)
    chosen = np.bincount(found.label[found.chosen], minlength=table.n_classes)
    rows = [
        [
            str(table.classes[c]), str(given[c]), str(chosen[c]), f"{found.prevalence[c]:.3f}",
            f"{np.median(found.sensitivity[:, c]):.2f}", f"{np.median(found.false_rate[:, c]):.3f}",
        ]
        for c in np.argsort(-found.prevalence, kind="stable")
    ]  # fmt: skip
    return ["class", "given", "tasks", "prevalence", "found by", "false"], rows


def _worker_rows(
    table: MultiLabels, found: MultiLabelConsensus
) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row per worker, by how far her word depends on what holds."""
    import numpy as np  # `--help` need not load it

    answers = np.bincount(table.worker, minlength=table.n_workers)
    who = np.repeat(table.worker, np.diff(table.label_start))
    labels = np.bincount(who, minlength=table.n_workers)
    skill = found.worker_sensitivity - found.worker_false_rate
    rows = [
        [
            str(table.workers[w]), str(answers[w]), f"{labels[w] / max(answers[w], 1):.2f}",
            f"{found.worker_sensitivity[w]:.3f}", f"{found.worker_false_rate[w]:.3f}", f"{skill[w]:.3f}",
        ]
        for w in np.argsort(-skill, kind="stable")
    ]  # fmt: skip
    return ["worker", "answers", "labels each", "sensitivity", "false rate", "skill"], rows


def _sentences(table: MultiLabels, found: MultiLabelConsensus) -> list[str]:
    """What else is to be said of the answers."""
    from quality import set_alpha  # loads numba

    agreed = set_alpha(table)
    interval = f"{agreed.lower:.2f} to {agreed.upper:.2f}"
    lines = [
        f"{table.n_answers:,} answers, {len(table.label) / table.n_answers:.2f} labels each; consensus "
        f"{found.chosen.sum() / table.n_tasks:.2f} labels a task",
        f"agreement beyond chance: alpha {agreed.value:.2f} "
        f"({interval if agreed.lower == agreed.lower else 'too few tasks for an interval'}), distance MASI",
    ]
    if not found.converged:
        lines.append(f"not converged after {found.n_iter} iterations: probabilities may move yet")
    if len(table.label) == table.n_answers:
        lines.append(
            "every answer has one label: if just one can hold, `crowdassay aggregate` knows that, and is "
            "better"
        )
    return lines


def _as_json(table: MultiLabels, found: MultiLabelConsensus) -> dict[str, Any]:
    """All of it as one object."""
    from quality import set_alpha  # loads numba

    bounds = zip(found.start[:-1].tolist(), found.start[1:].tolist(), strict=True)
    tasks = [
        {
            "task": str(table.tasks[t]),
            "labels": _names_of(table, found, t),
            "probabilities": {
                str(table.classes[found.label[cell]]): float(found.probability[cell])
                for cell in range(first, last)
            },
        }
        for t, (first, last) in enumerate(bounds)
    ]
    tables = {}
    for name, (header, rows) in (
        ("classes", _class_rows(table, found)),
        ("workers", _worker_rows(table, found)),
    ):
        keys = [one.replace(" ", "_") for one in header]
        tables[name] = [
            {keys[0]: row[0], **dict(zip(keys[1:], map(float, row[1:]), strict=True))}
            for row in rows
        ]
    agreed = set_alpha(table)
    alpha = {name: getattr(agreed, name) for name in ("value", "lower", "upper")}
    defined = {name: number if number == number else None for name, number in alpha.items()}
    return {"tasks": tasks, **tables, "alpha_masi": defined, "converged": found.converged}

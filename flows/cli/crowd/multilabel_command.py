"""The command for tasks with several labels at once: multilabel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.crowd.agreement_command import groups_of
from flows.cli.publishing import (
    PUBLICATION,
    Begun,
    Budget,
    Epsilon,
    Key,
    Payer,
    Publish,
    State,
    key_now,
    leaving_no_empty,
    refuse_state_in,
    refuse_unpublished,
)
from flows.cli.root import (
    JSON_LISTS,
    AsJson,
    Encoding,
    Force,
    Guard,
    Map,
    Output,
    Quiet,
    Sep,
    Sheet,
    app,
    counted,
    mistakes,
    named_path,
    one_table,
    print_line,
    reading_of_options,
    refuse_unwritten,
    show_rows,
    waiting_for,
    write_rows,
)

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float64, Int8, Int64, Shaped

    from flows.spending import SetShares
    from quality import MultiLabelConsensus, MultiLabels

__all__ = ["multilabel"]


@app.command(
    epilog='Example: `crowdassay multilabel answers.csv --split "|" --output consensus.csv`'
)
def multilabel(
    context: typer.Context,
    answers: Annotated[
        Path,
        typer.Argument(
            help="table with the columns worker, task, label: lists, cells such as a|b, or a row a label; "
            "a file, a folder, a pattern, or -",
            parser=named_path,
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
    gold: Annotated[
        Path | None,
        typer.Option(
            help="table of task and label, all labels that hold: stands, teaches and calibrates"
        ),
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
    publish: Publish = None,
    epsilon: Epsilon = 1.0,
    max_labels: Annotated[
        int,
        typer.Option(
            help="most labels of a task that count; chosen before a look at the answers",
            rich_help_panel=PUBLICATION,
        ),
    ] = 3,
    tasks: Annotated[
        Path | None,
        typer.Option(
            help="table of task and group, both public: shares of each group",
            rich_help_panel=PUBLICATION,
        ),
    ] = None,
    campaign: Payer = "labels",
    budget: Budget = None,
    publication: Key = None,
    state: State = Path("state"),
    begun: Begun = False,
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    map_: Map = "",
    output: Output = None,
    guard: Guard = False,
    force: Force = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say which of several labels hold for each task, and how each worker gives them.

    With --publish also pay for private shares of the classes, which may be shown: `crowdassay budget`
    lists what was spent, and the same publication is never paid twice.
    """
    from flows.settings import SettingsError  # these load pydantic, numba and DuckDB
    from flows.tables import inputs_of, read_multilabels, table_files, write_table
    from quality import multilabel_consensus

    with mistakes(), leaving_no_empty(publish):
        if not 0 < threshold < 1:
            raise SettingsError(f"--threshold must be above 0 and below 1, got {threshold:g}")
        if nothing == "":
            raise SettingsError("--nothing must be a word, got an empty text; leave it out")
        inputs = inputs_of(answers, gold, tasks)
        refuse_unpublished(context, publish)
        outputs = {"--output": output, "--probabilities": probabilities}
        refuse_unwritten(context, outputs, {"--publish": publish})
        if publish is not None:
            refuse_state_in(publish, state)
        asked = _asked(
            publish, classes, tasks, inputs, force, campaign=campaign, epsilon=epsilon,
            max_labels=max_labels, budget=budget, publication=publication, threshold=threshold,
            begun=begun,
        )  # fmt: skip
        files = table_files(outputs, inputs=inputs, force=force)
        named = None if classes is None else _classes_of(classes)
        reading = reading_of_options(sep, encoding, sheet, False, map_)
        needed = ("worker", "task")
        with one_table(answers, needed, reading, tell=not json_) as file, waiting_for("answers"):
            table = read_multilabels(file, split=split, nothing=nothing, classes=named)
        truth = None if gold is None else _gold_of(gold, table, split, nothing)
        with waiting_for("sets of labels") as progress:
            progress("who does not answer on their own", 0, 1)
            groups = _groups_who_copy(table)
            found = multilabel_consensus(
                table, threshold=threshold, gold=truth, groups=groups, progress=progress
            )
            progress("the rows", 0, 1)
            if files[1] is not None:
                write_table(_cells(table, found), files[1], guard=guard)
            header, rows = _task_rows(table, found, split)
            progress("the publication", 0, 1)
            published = None if asked is None else asked(table, found, state)
        given = context.get_parameter_source("split")
        said = split if given is not None and given.name == "COMMANDLINE" else None
        sentences = _sentences(table, found, groups, nothing, said)
        if published is not None and publish is not None:
            sentences += _published_sentences(published, publish)
        if json_:
            write_rows(header, rows, files[0], numbers=header[2:], guard=guard)
            more = {} if published is None else {"published": published.public()}
            print(json.dumps(_as_json(table, found) | more | {"sentences": sentences}))
            return
        show_rows("Tasks", header, rows, files[0], numbers=header[2:], guard=guard)
        for title, (header, rows) in (
            ("Classes", _class_rows(table, found)),
            ("Workers, who tell most first", _worker_rows(table, found)),
        ):
            show_rows(title, header, rows, None, numbers=header[1:], all_by=JSON_LISTS)
        for line in sentences:
            print_line(line)


def _classes_of(listed: str) -> tuple[str, ...]:
    """Return the classes that the option names, with commas between them."""
    from flows.settings import SettingsError  # pydantic, for this option only

    names = tuple(one.strip() for one in listed.split(","))
    if "" in names or len(set(names)) < len(names):
        raise SettingsError(f"--classes must name classes, each once, as in a,b,c, got {listed!r}")
    return names


def _gold_of(
    gold: Path, table: MultiLabels, split: str, nothing: str | None
) -> Int8[np.ndarray, "tasks classes"]:
    """Read the true sets of the table's tasks."""
    from flows.tables import AS_FOUND, read_gold_sets  # DuckDB, for this option only

    with one_table(gold, ("task",), AS_FOUND, tell=False) as file:
        return read_gold_sets(file, table, split=split, nothing=nothing)


def _asked(
    publish: Path | None,
    classes: str | None,
    tasks: Path | None,
    inputs: tuple[Path, ...],
    force: bool,
    *,
    max_labels: int,
    threshold: float,
    **terms: Any,
) -> Callable[[MultiLabels, MultiLabelConsensus, Path], SetShares] | None:
    """Check what a publication needs, before anything is read; return how it is made and written."""
    if publish is None:
        return None
    from flows.report import SET_SHARES  # Jinja, for this option only
    from flows.settings import SettingsError
    from flows.spending import PublicationTerms, publish_set_shares

    if classes is None:
        raise SettingsError(
            "--publish needs --classes: names that are found in private answers would leak"
        )
    terms["publication"] = key_now(terms["publication"])
    files = SET_SHARES.files(publish, inputs=inputs, force=force)

    def publish_shares(table: MultiLabels, found: MultiLabelConsensus, state: Path) -> SetShares:
        names = table.classes.astype(str).tolist()
        group = _task_groups(table, tasks)
        shares = publish_set_shares(
            state, _given_chance(table, found), table.tasks.astype(str), names, group,
            PublicationTerms(**terms), max_labels=max_labels, threshold=threshold,
        )  # fmt: skip
        SET_SHARES.write(files, shares.public())
        return shares

    return publish_shares


def _given_chance(
    table: MultiLabels, found: MultiLabelConsensus
) -> Float64[np.ndarray, "tasks classes"]:
    """Return the probability of every class of every task, 0 where nobody gave it."""
    import numpy as np  # `--help` need not load it

    chance = np.zeros((table.n_tasks, table.n_classes))
    chance[np.repeat(np.arange(table.n_tasks), np.diff(found.start)), found.label] = (
        found.probability
    )
    return chance


def _task_groups(table: MultiLabels, tasks: Path | None) -> Shaped[np.ndarray, " tasks"]:
    """Return the name of each task's group; one group of all without a table of tasks."""
    import numpy as np  # `--help` need not load it

    from flows.tables import TableError

    if tasks is None:
        return np.full(table.n_tasks, "all tasks")  # as a run calls them
    names, code = groups_of(table.tasks, tasks)
    if (code < 0).any():
        lacking = table.tasks[int((code < 0).argmax())]
        raise TableError(
            f"{tasks.name} must have a row for every task that has answers; it lacks {lacking}"
        )
    found: np.ndarray = names[code].astype(str)
    return found


def _published_sentences(shares: SetShares, folder: Path) -> list[str]:
    """Return lines about the publication, its price, and facts for the team alone."""
    from privacy.accounting import level_text, price_text  # loaded already by what was published

    key = "" if shares.terms.publication is None else f"publication {shares.terms.publication}, "
    groups = counted(len(shares.groups), "group")
    again = f" ({shares.n_paid_before:,} paid for before)" if shares.n_paid_before else ""
    lines = [
        f"published: {key}{groups}{again} at epsilon {price_text(shares.terms.epsilon)}, each count within "
        f"±{shares.half_width:,} tasks at {level_text(shares.terms.level)}; {price_text(shares.spent)} of "
        f"{price_text(shares.budget.epsilon, left=True)} spent; {folder / 'public.html'}"
    ]
    if shares.n_left_out:
        lines.append(
            f"internal: {shares.n_left_out:,} labels beyond {shares.max_labels} of a task do not count"
        )
    if shares.n_stale:
        lines.append(
            f"internal: {shares.n_stale:,} of the groups stay as they were published, and have changed since"
        )
    return lines


def _names_of(table: MultiLabels, found: MultiLabelConsensus, task: int) -> list[str]:
    """Return the chosen classes of a task, by name."""
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
    """Return the smallest probability that a decision on a class is right; 1 where nobody gave one."""
    return min((max(one, 1 - one) for one in chance), default=1.0)


def _cells(table: MultiLabels, found: MultiLabelConsensus) -> dict[str, list[Any]]:
    """Return the columns of the table of probabilities."""
    import numpy as np  # `--help` need not load it

    task = np.repeat(np.arange(table.n_tasks), np.diff(found.start))
    n_classes = table.n_classes
    about = np.repeat(table.task, np.diff(table.label_start)).astype(np.int64)
    cell = task * n_classes + found.label
    given = about * n_classes + table.label
    given = given[np.isin(given, cell)]  # a group's answer has not every class that a member gave
    place = np.searchsorted(cell, given)
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
    """Return a header and a row per worker, by how far her answers depend on the truth."""
    import numpy as np  # `--help` need not load it

    answers = np.bincount(table.worker, minlength=table.n_workers)
    who = np.repeat(table.worker, np.diff(table.label_start))
    labels = np.bincount(who, minlength=table.n_workers)
    skill = found.worker_sensitivity - found.worker_false_rate
    rows = [
        [
            str(table.workers[w]), str(answers[w]), f"{labels[w] / max(answers[w], 1):.2f}",
            f"{found.worker_sensitivity[w]:.3f}", f"{found.worker_false_rate[w]:.3f}", f"{skill[w]:z.3f}",
        ]
        for w in np.argsort(-skill, kind="stable")
    ]  # fmt: skip
    return ["worker", "answers", "labels each", "sensitivity", "false rate", "skill"], rows


def _groups_who_copy(table: MultiLabels) -> Int64[np.ndarray, " workers"] | None:
    """Return the group of each dependent worker, -1 for others; None if all are independent."""
    from quality import dependent_groups, yes_no_labels  # these load numba

    found = dependent_groups(yes_no_labels(table))
    return found.group if len(found.sizes) else None


def _sentences(
    table: MultiLabels,
    found: MultiLabelConsensus,
    groups: Int64[np.ndarray, " workers"] | None,
    nothing: str | None,
    split: str | None,
) -> list[str]:
    """Return further findings about the answers, as lines; `split` is the separator that was asked for."""
    from flows.proposal import NOTHING  # loads DuckDB
    from quality import set_alpha  # loads numba

    agreed = set_alpha(table)
    interval = f"{agreed.lower:z.2f} to {agreed.upper:z.2f}"
    known = (
        f"agreement beyond chance: alpha {agreed.value:z.2f} "
        f"({interval if agreed.lower == agreed.lower else 'too few tasks for an interval'}), distance MASI"
    )
    if agreed.value != agreed.value:
        known = "agreement beyond chance is not known: all answers are the same, or no two are of a task"
    lines = [
        f"{counted(table.n_answers, 'answer')}, {len(table.label) / table.n_answers:.2f} labels each; "
        f"consensus {found.chosen.sum() / table.n_tasks:.2f} labels a task",
        known,
    ]
    word = next(
        (name for name in table.classes.astype(str).tolist() if name.lower() in NOTHING), None
    )
    if word is not None:
        lines.append(
            f"{word!r} was taken for a class: if it stands for an answer without any label, "
            + (f"say --nothing {word!r}" if nothing is None else f"write {nothing!r} in its place")
        )
    if groups is not None:
        n_groups, n_members = int(groups.max()) + 1, int((groups >= 0).sum())
        lines.append(
            f"{n_members} workers in {n_groups} group{'s' * (n_groups != 1)} do not answer on their own: a "
            "group has one answer a task"
        )
    if found.evidence == "gold":
        lines.append("probabilities are calibrated on gold, which must be drawn at random")
    if not found.converged:
        lines.append(f"not converged after {found.n_iter} iterations: probabilities may move yet")
    if bool((table.label_start[1:] == table.label_start[:-1] + 1).all()):
        lines.append(
            "every answer has one label: if just one can hold, `crowdassay aggregate` knows that, and is "
            "better"
        )
        if split is not None:
            lines.append(
                f"--split {split!r} has divided no cell into labels: if cells hold several, name what stands "
                "between them"
            )
    return lines


def _as_json(table: MultiLabels, found: MultiLabelConsensus) -> dict[str, Any]:
    """Return all results as one object for JSON."""
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

"""The command agreement: alpha, kappas and AC1 of a label table, by class, group and pair; models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.choices import Metric
from flows.cli.crowd.label_commands import number_cell, output_file, read_labels_of
from flows.cli.root import (
    Encoding,
    Force,
    Guard,
    LabelsFile,
    Map,
    Output,
    Quiet,
    Repeated,
    Sep,
    Sheet,
    Wide,
    app,
    mistakes,
    one_table,
    print_line,
    reading_of_options,
    refuse_dropped,
    refuse_unwritten,
    show_rows,
    waiting_for,
)

if TYPE_CHECKING:
    import numpy as np

    from quality import AltTest, CrowdLabels

__all__ = ["agreement", "agreement_rows", "groups_of", "model_rows"]

HEADER = ["measure", "of", "value", "low", "high", "n", "counted"]
Row = list[str]


@app.command(
    epilog="Example: `crowdassay agreement labels.csv --tasks tasks.csv`, with --models gpt-4o where a "
    "worker is a model of that name"
)
def agreement(
    context: typer.Context,
    labels: LabelsFile,
    metric: Annotated[
        Metric, typer.Option(help="how far two labels are apart, for Krippendorff's alpha")
    ] = "nominal",
    order: Annotated[
        str | None,
        typer.Option(
            help="for --metric ordinal or interval: classes from low to high, by commas [default: by number, "
            "else by name]"
        ),
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option(help="table of task and group: alpha of each group as well")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(help="workers that are models, by commas: may they stand in for people?"),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(
            help="how much worse a model may be: 0.1 against a crowd, 0.2 against experts"
        ),
    ] = 0.1,
    min_common: Annotated[
        int, typer.Option(help="pairs of workers with fewer common tasks are left out")
    ] = 10,
    duplicates: Repeated = "error",
    sep: Sep = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    wide: Wide = False,
    map_: Map = "",
    output: Output = None,
    guard: Guard = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Measure how far labels agree beyond chance: alpha with its interval, kappas, AC1."""
    from flows.settings import SettingsError  # pydantic, for this command only

    with mistakes():
        if models is None:
            refuse_dropped(context, ("epsilon",), "is for --models; leave it out")
        if metric == "nominal":
            why = "is for --metric ordinal or interval, got nominal; name one of them, or leave it out"
            refuse_dropped(context, ("order",), why)
        refuse_unwritten(context, {"--output": output})
        written = output_file(output, [labels, tasks], force)
        read = read_labels_of(
            labels, duplicates, reading_of_options(sep, encoding, sheet, wide, map_)
        ).labels
        values = class_numbers(read, metric, order)
        group = None if tasks is None else groups_of(read.tasks, tasks)
        if group is not None and (group[1] < 0).all():
            raise SettingsError(
                f"--tasks {tasks} has none of the labelled tasks; are they named alike?"
            )
        if not min_common >= 1:
            raise SettingsError(f"--min-common must be >= 1, got {min_common}")
        with waiting_for("agreement and its intervals"):
            rows = list(agreement_rows(read, metric, values, group, min_common))
            tests = [] if models is None else _tests(read, models.split(","), epsilon)
        rows = [*rows[:4], *model_rows(read, tests), *rows[4:]]
        numbers = ("value", "low", "high", "n")
        show_rows("Agreement", HEADER, rows, written, numbers=numbers, guard=guard)
        if not rows[0][2]:
            print_line(
                "agreement beyond chance is not known: labels to compare are of one class, or no two are "
                "of one task"
            )
        for test in tests:
            print_line(_sentence(read, test, epsilon))


def agreement_rows(
    labels: CrowdLabels,
    metric: Metric,
    values: np.ndarray,
    group: tuple[np.ndarray, np.ndarray] | None,
    min_common: int,
) -> Iterator[Row]:
    """Yield four rows of the whole, then classes, groups, and pairs of workers, the least agreed first."""
    import numpy as np  # it loads with the rooms, for this command only

    from quality import (
        alpha_by_class,
        alpha_by_group,
        alpha_interval,
        fleiss_kappa,
        gwet_ac1,
        pair_kappas,
    )

    def alpha(of: str, found: object, name: str = metric) -> Row:
        return _row(f"{name} alpha", of, found, "n_tasks", "tasks")

    yield alpha("all labels", alpha_interval(labels, metric, values=values))
    yield _row("Fleiss' kappa", "all labels", fleiss_kappa(labels), "n_tasks", "tasks")
    yield _row("Gwet's AC1", "all labels", gwet_ac1(labels), "n_tasks", "tasks")
    try:
        pairs = pair_kappas(labels, min_common=min_common)
        light, n_pairs = number_cell(pairs.light), str(len(pairs.pair))
    except ValueError:  # too many to be listed
        pairs, light, n_pairs = None, "", ""
    yield ["Light's kappa", "pairs of workers", light, "", "", n_pairs, "pairs"]
    for name, found in zip(labels.classes, alpha_by_class(labels), strict=True):
        yield alpha(f"class {name}", found, "nominal")
    if group is not None:
        names, code = group
        for name, found in zip(
            names, alpha_by_group(labels, code, len(names), metric, values=values), strict=True
        ):
            yield alpha(f"group {name}", found)
    if pairs is None:
        return
    for at in np.argsort(pairs.kappa, kind="stable"):
        one, other = labels.workers[pairs.pair[at]]
        n, kappa = str(pairs.n_common[at]), number_cell(pairs.kappa[at])
        yield ["Cohen's kappa", f"{one}, {other}", kappa, "", "", n, "common tasks"]


def model_rows(labels: CrowdLabels, tests: Sequence[AltTest]) -> Iterator[Row]:
    """Yield two rows for each model: how many people it wins against, and how often it is as good."""
    for test in tests:
        of, n = f"model {labels.workers[test.model]}", str(len(test.person))
        yield ["alt-test winning rate", of, number_cell(test.winning_rate), "", "", n, "people"]
        yield [
            "advantage probability",
            of,
            number_cell(test.advantage_probability),
            "",
            "",
            n,
            "people",
        ]


def class_numbers(labels: CrowdLabels, metric: Metric, order: str | None) -> np.ndarray:
    """Return the number of each class: its place in `order`, else the number in its name, else its code."""
    import numpy as np  # it loads with the rooms, for this command only

    from flows.settings import SettingsError

    names = [str(name) for name in labels.classes]
    if order is not None:
        listed = [name.strip() for name in order.split(",")]
        if sorted(listed) != sorted(names):
            raise SettingsError(
                f"--order must name each class once, which are {', '.join(names[:8])}; got {order}"
            )
        return np.array([listed.index(name) for name in names], dtype=np.float64)
    try:
        numbers = np.array(names, dtype=np.float64)
    except ValueError:
        numbers = np.full(len(names), np.nan)
    if np.isfinite(numbers).all():
        return numbers
    if metric == "interval":
        wrong = names[int(np.argmax(~np.isfinite(numbers)))]
        raise SettingsError(
            f"--metric interval needs labels that are numbers, got {wrong!r}; use ordinal with --order"
        )
    return np.arange(len(names), dtype=np.float64)


def groups_of(names: np.ndarray, tasks: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the names of groups, and each task's code among them; -1 for tasks that the table lacks."""
    import numpy as np  # DuckDB and pydantic, for this command only

    from flows.settings import GroupSettings
    from flows.tables import AS_FOUND, list_tasks, open_table

    needed = ("task", "group")
    with one_table(tasks, needed, AS_FOUND, tell=False) as file:
        found, _, _ = list_tasks([open_table(file, needed)], GroupSettings())
    at = np.minimum(np.searchsorted(found.names, names), len(found.names) - 1)
    known = found.names[at] == names
    return found.group_names, np.where(known, found.group[at], -1)


def _tests(labels: CrowdLabels, models: Sequence[str], epsilon: float) -> Sequence[AltTest]:
    """Return the alt-test of each named model; raise SettingsError for a name that no worker has."""
    import numpy as np  # it loads with the rooms, for this command only

    from flows.settings import SettingsError
    from quality import alt_test

    names = [name.strip() for name in models]
    known = set(labels.workers.astype(str).tolist())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingsError(f"--models must name workers of the labels, got {unknown[0]!r}")
    if len(known) == len(set(names)):
        raise SettingsError(
            "--models names every worker: there must be people to compare models with"
        )
    if not 0 <= epsilon < 1:
        raise SettingsError(f"--epsilon must be in [0, 1), got {epsilon:g}")
    return alt_test(labels, np.isin(labels.workers.astype(str), names), epsilon=epsilon)


def _sentence(labels: CrowdLabels, test: AltTest, epsilon: float) -> str:
    """Say whether a model may stand in for people."""
    name, n = labels.workers[test.model], len(test.person)
    if n == 0:
        return f"{name}: nobody shares 30 tasks with it that another person labelled too, so it is not judged"
    verdict = "may stand in for people" if test.passed else "may not stand in for people"
    won = int(test.won.sum())
    return f"{name} {verdict}: it wins against {won} of {n}, half are needed (epsilon {epsilon:g})"


def _row(measure: str, of: str, found: object, count: str, counted: str) -> Row:
    """Return a row of a result that has an interval."""
    value, low, high = (number_cell(getattr(found, name)) for name in ("value", "lower", "upper"))
    return [measure, of, value, low, high, str(getattr(found, count)), counted]

"""Commands that need a label table and no settings: workers, aggregate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flows.aggregators import ORDERED, AggregatorName, any_consensus_of
from flows.choices import Duplicates, Loss, Penalty
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
    kept_input,
    listed,
    mistakes,
    print_line,
    print_reading,
    reading_of_options,
    refuse_unwritten,
    show_rows,
    waiting_for,
)

if TYPE_CHECKING:
    from flows.files import OutputFile
    from flows.settings import FilterSettings
    from flows.tables import Reading
    from quality import CrowdLabels, DependentGroups, JoinedVoice, Progress

__all__ = [
    "Labelled", "aggregate", "consensus_rows", "number_cell", "ordered_classes", "output_file",
    "read_labels_of", "worker_rows", "workers",
]  # fmt: skip


MAX_NAMED = 5  # workers that a sentence names
HARDLY_KNOWN = (
    "Votes are hardly more alike than by chance: confidence is mostly that of a guess, and 50 to 100 gold "
    "tasks would tell"
)


def number_cell(value: float, digits: int = 4) -> str:
    """Return a number to so many digits behind the point; blank where it is undefined.

    >>> number_cell(0.25), number_cell(float("nan"))
    ('0.2500', '')
    """
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


class Labelled(NamedTuple):
    """A label table, and the names of the workers whom it calls models."""

    labels: CrowdLabels
    models: tuple[str, ...]


@app.command(epilog="Example: `crowdassay workers labels.csv --false-removal-rate 0.05`")
def workers(
    context: typer.Context,
    labels: LabelsFile,
    penalty: Annotated[Penalty, typer.Option(help="penalty the filter removes by")] = "soft",
    false_removal_rate: Annotated[
        float | None,
        typer.Option(help="chance to remove anybody from an honest crowd [default: 0.1]"),
    ] = None,
    fraction: Annotated[
        float | None, typer.Option(help="or: the share of the workers to remove")
    ] = None,
    n_workers: Annotated[int | None, typer.Option(help="or: the number to remove")] = None,
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
    """Rank workers by reputation and say whom to remove, and why."""
    from flows.settings import filter_settings  # pydantic, for this command only

    with mistakes():
        refuse_unwritten(context, {"--output": output})
        written = output_file(output, [labels], force)
        stop = {"false_removal_rate": false_removal_rate, "fraction": fraction}
        chosen = filter_settings(penalty=penalty, n_workers=n_workers, **stop)
        read = read_labels_of(
            labels, duplicates, reading_of_options(sep, encoding, sheet, wide, map_)
        )
        with waiting_for("workers") as progress:
            header, rows = worker_rows(read.labels, chosen, progress)
        title = "Workers: whom to remove, then by reputation, least first"
        show_rows(title, header, rows, written, numbers=header[1:-1], guard=guard, brief=_brief)


@app.command(epilog="Example: `crowdassay aggregate labels.csv --output consensus.csv`")
def aggregate(
    context: typer.Context,
    labels: LabelsFile,
    aggregator: Annotated[
        AggregatorName | None,
        typer.Option(help="aggregation method [default: auto; with --order ordinal_crowd]"),
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="classes that are grades, in their order: low,mid,high")
    ] = None,
    loss: Annotated[
        Loss, typer.Option(help="what a wrong label costs; with --order absolute or squared")
    ] = "zero_one",
    ignore_groups: Annotated[
        bool,
        typer.Option(
            "--ignore-groups", help="count every worker, also those who do not answer on their own"
        ),
    ] = False,
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
    """Turn crowd labels into one consensus label per task."""
    with mistakes():
        refuse_unwritten(context, {"--output": output})
        written = output_file(output, [labels], force)
        classes = ordered_classes(order, loss, aggregator)
        reading = reading_of_options(sep, encoding, sheet, wide, map_)
        read = read_labels_of(labels, duplicates, reading, classes=classes)
        name = aggregator or ("auto" if classes is None else ORDERED)
        with waiting_for("consensus") as progress:
            header, rows, sentences = consensus_rows(
                read, aggregator=name, loss=loss, weigh=not ignore_groups, progress=progress
            )
        if classes is not None:
            print_line(_order_line(read.labels))
        for sentence in (*_undeclared(read), *sentences):
            print_line(sentence)
        numbers = ("confidence", "labels")
        show_rows("Consensus labels", header, rows, written, numbers=numbers, guard=guard)


def ordered_classes(
    order: str | None, loss: Loss, aggregator: str | None
) -> tuple[str, ...] | None:
    """Return the classes that ``--order`` names, or None; refuse options that need an order without one.

    >>> ordered_classes("low, mid,high", "absolute", None)
    ('low', 'mid', 'high')
    """
    from flows.settings import SettingsError  # pydantic, for these commands only

    if order is None:
        if loss != "zero_one":
            raise SettingsError(f"--loss {loss} needs --order, the classes in their order")
        if aggregator == ORDERED:
            raise SettingsError(f"--aggregator {ORDERED} needs --order, the classes in their order")
        return None
    names = tuple(name.strip() for name in order.split(","))
    if len(names) < 2 or len(set(names)) < len(names) or "" in names:
        raise SettingsError(f"--order must name two classes or more, each once, got {order!r}")
    return names


def _order_line(labels: CrowdLabels) -> str:
    """Return the verdict of the test of order, as a sentence."""
    from quality import order_fit  # numba, for these commands only

    found = order_fit(labels).sentence()
    return found[:1].upper() + found[1:]


def _undeclared(read: Labelled) -> Iterator[str]:
    """Name the workers who look like models, where nothing declares models."""
    from flows.tables import like_models  # Arrow, which the labels have loaded

    found = () if read.models else like_models(read.labels.workers)
    if found:
        yield (
            f"Workers who look like language models by name: {listed(found, MAX_NAMED)}; a column kind, "
            "with model in their rows, declares those who are"
        )


def _brief(verdict: str) -> str:
    """Return a verdict for the terminal; kept workers need no reason there.

    >>> _brief("kept: soft penalty 0.5"), _brief("removed 1st at soft penalty 1, always a:b")
    ('kept', 'removed 1st at soft penalty 1, always a:b')
    """
    return "kept" if verdict.startswith("kept:") else verdict


def worker_rows(
    labels: CrowdLabels, chosen: FilterSettings, progress: Progress | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row per worker: the removed first, then by reputation."""
    import numpy as np  # these load numba and pydantic, for this command only

    from flows.settings import ConsensusSettings
    from flows.stages import filter_by, refuse_more_workers
    from quality import worker_report
    from quality.parallel import counter

    refuse_more_workers(chosen, labels.n_workers)
    filtered, _ = filter_by(labels, chosen, seed=0, progress=progress)
    consensus = any_consensus_of(labels, ConsensusSettings(), seed=0, progress=progress)
    found = worker_report(labels, filtered, consensus.posterior, progress=progress)
    counter(progress, "the rows", 1)(0)
    order = np.lexsort((np.arange(labels.n_workers), found.reputation, ~found.flagged))
    header = ["worker", "labels", "agreement", "soft", "hard", "reputation", "verdict"]
    rows = [
        [
            str(labels.workers[w]),
            str(found.n_labels[w]),
            number_cell(found.agreement[w], 2),
            number_cell(found.soft_penalty[w], 3),
            str(found.hard_penalty[w]),
            number_cell(found.reputation[w], 2),
            found.reason[w],
        ]
        for w in order
    ]
    return header, rows


def consensus_rows(
    read: Labelled,
    *,
    aggregator: str,
    loss: Loss = "zero_one",
    weigh: bool = True,
    progress: Progress | None = None,
) -> tuple[list[str], list[list[str]], list[str]]:
    """Return a header, a row per task, and sentences on models, dependent workers and guessers.

    Of each task: label, confidence, whether it is a tie, number of labels. As in a run without gold,
    dependent workers share one vote if they are to be weighed, and models beside people are a voice. The
    confidence is calibrated without gold; there is none where models alone vote.
    """
    import numpy as np  # this and the next load pydantic and numba, for this command only

    from flows.settings import ConsensusSettings
    from flows.stages import beside_people, hear_models, of_models_alone
    from quality import calibrate, dependent_groups
    from quality.choice import NamedAuto
    from quality.many_classes import NamedConsensus, needs_names
    from quality.parallel import counter

    given = {"aggregator": aggregator, "loss": loss}
    chosen, labels, sentences = ConsensusSettings.model_validate(given), read.labels, []
    models = np.flatnonzero(np.isin(labels.workers.astype(np.str_), read.models))
    people = ~np.isin(np.arange(labels.n_workers), models)
    joining = weigh and beside_people(labels, models, np.ones_like(people))
    joining = joining and not needs_names(labels)  # a classifier does not learn so many classes
    voting = labels.keep_workers(people) if joining else labels
    groups = None
    if weigh:
        counter(progress, "who does not answer on their own", 1)(0)
        found = dependent_groups(voting, models=None if joining else models)
        groups = found.group if len(found.sizes) else None
        sentences = [] if groups is None else [_weighed(found, apart=joining * models.size)]
    consensus = any_consensus_of(voting, chosen, seed=0, groups=groups, progress=progress)
    voice_votes = None
    if joining and not isinstance(consensus, NamedConsensus | NamedAuto):
        consensus, voice = hear_models(consensus, labels, models, chosen, groups=groups, seed=0)
        voice_votes = voice.votes
        sentences.append(
            _voice_line(voice, models.size, int((np.diff(voting.task_start) == 0).sum()))
        )
    counter(progress, "how far each label can be believed", 1)(0)
    sure = calibrate(voting, consensus.posterior, groups=groups, voice_votes=voice_votes)
    if sure.hardly_known:
        sentences.append(HARDLY_KNOWN)
    confidence = sure.in_label(consensus.posterior, consensus.label)
    confidence = np.where(of_models_alone(voting, models), np.nan, confidence)
    counter(progress, "the rows", 1)(0)
    n_labels = np.diff(voting.task_start)
    rows = [
        [
            str(labels.tasks[t]),
            str(labels.classes[consensus.label[t]]),
            number_cell(confidence[t]),
            "tie" if consensus.tied[t] else "",
            str(n_labels[t]),
        ]
        for t in range(labels.n_tasks)
    ]
    return ["task", "label", "confidence", "tied", "labels"], rows, sentences


def _weighed(found: DependentGroups, *, apart: int) -> str:
    """Return a sentence on the groups that share one vote; the models `apart` do not vote."""
    return (
        f"{len(found.group) - apart:,} workers, worth {found.worth - apart:,.0f}: {found.sizes.sum():,} "
        f"who do not answer on their own have one vote a group ({len(found.sizes):,} of them); "
        "--ignore-groups counts each"
    )


def _voice_line(voice: JoinedVoice, n_models: int, n_alone: int) -> str:
    """Return a sentence on what the models' answers added, and on tasks without a person's label."""
    alone = f"; {n_alone:,} tasks without these are answered as the others taught" * bool(n_alone)
    if not voice.heard:
        return (
            f"The labels are the people's: answers of {n_models:,} models say nothing that they bear "
            f"out{alone}"
        )
    return (
        f"The answers of {n_models:,} models are heard beside the people's labels: worth "
        f"{voice.worth:.1f} labels a task{alone}"
    )


def output_file(path: Path | None, inputs: Sequence[Path | None], force: bool) -> OutputFile | None:
    """Return where a command writes all rows, if it does; raise OutputError if it cannot."""
    from flows.tables import inputs_of, table_file  # DuckDB, for these commands only

    return None if path is None else table_file(path, inputs=inputs_of(*inputs), force=force)


def read_labels_of(
    path: Path, duplicates: Duplicates, reading: Reading, *, classes: tuple[str, ...] | None = None
) -> Labelled:
    """Return the labels of a file, a folder, a pattern or standard input, and say how they were read."""
    from flows.settings import input_settings  # pydantic and DuckDB, for these commands only
    from flows.tables import open_sources, read_labels, read_models

    with TemporaryDirectory(prefix="crowdassay-") as folder:
        given = {
            "labels": kept_input(path, Path(folder)),
            "duplicates": duplicates,
            **reading.keys(),
        }
        sources = open_sources(input_settings(**given), Path(folder))
        print_reading(sources.read_as)
        with sources.naming_files(), waiting_for("labels"):
            table = sources.labels.table
            labels = read_labels(table, classes=classes, duplicates=duplicates, known_tasks=None)
            return Labelled(labels, read_models(table))

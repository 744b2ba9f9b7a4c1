"""Reading: the tables of a campaign, checked, encoded and kept in the run folder.

With an `[engine]` labels are streamed into shards and features into a folder, under a cap of memory: neither
is in this process at once. Names, and what belongs to each task, are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np

from flows.aggregators import check_classes
from flows.files import FULL, OutputError
from flows.run import FEATURES, Crowd, Run, digest_key, identity_of, save_crowd
from flows.settings import EngineSettings, InputSettings, ReportSettings, SettingsError
from flows.sharding import (
    SHARDS,
    ShardFolder,
    count_rows,
    list_features,
    names_alone,
    open_tasks,
    refuse_hollow_shards,
    write_features,
    write_gold,
    write_groups,
    write_shards,
)
from flows.stages.labels import refuse_whole_filter
from flows.stages.learning import BOUNDARY
from flows.stages.stage import counted
from flows.tables import (
    Reference,
    Sources,
    TableError,
    TaskColumns,
    TaskTable,
    column_names,
    like_models,
    open_sources,
    open_table,
    read_gold,
    read_gold_sets,
    read_labels,
    read_models,
    read_multilabels,
    read_reference,
    read_seconds,
    read_tasks,
    read_texts,
    refuse_gold,
    refuse_hollow,
    task_texts,
)
from quality import MultiLabels, conflict_tasks, yes_no_labels
from quality.labels import check_table

__all__ = [
    "gold_apart", "models_apart", "names_of_models", "public_sizes", "read_and_check",
    "refuse_other_features",
]  # fmt: skip

TEXTS = "task_texts.parquet"
SHOWN_NAMES = 12  # of features, in a sentence


def read_and_check(run: Run) -> str:
    """Read and check the tables; write nothing before all of them are sound, and the same as at first.

    Raises
    ------
    TableError
        If a table is at fault, or changes while it is read.
    OutputError
        If there is no room for what is written.
    """
    with _with_room(run.folder):
        return _read_and_check(run)


@contextmanager
def _with_room(folder: Path) -> Iterator[None]:
    """Raise OutputError for a full disk, as `write_whole` does, also where shards and pages are written."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        place, why = error.filename or folder, os.strerror(error.errno)
    except duckdb.IOException as error:  # which has the system's words in its own
        whys = [os.strerror(number) for number in FULL if os.strerror(number) in str(error)]
        if not whys:
            raise
        place, why = folder, whys[0]
    else:
        return
    raise OutputError(f"{place} cannot be written: {why}; make room there, and run again")


def _read_and_check(run: Run) -> str:
    settings, engine = run.settings, run.settings.engine
    run.waits_for("the tables, opened and fetched")
    sources = open_sources(settings.input, run.folder, key=digest_key(settings))
    digests = {one.file: one.digest for one in sources.digested}
    if run.work()["identity"] != identity_of(settings, digests):
        raise TableError(
            "a file of the input changed since the run began; run again when it is whole"
        )
    counts, where = {}, ""
    with sources.unchanged(), sources.naming_files():
        if engine is None:
            crowd = _read_whole(run, sources)
            labels = crowd.labels
            if crowd.answers is not None:
                check_table(labels.n_tasks, labels.n_classes, crowd.n_labels)
        else:
            crowd, shards = _read_shards(run, sources, engine)
            labels = crowd.labels
            counts, n_shards = {"n_labels": shards.n_labels}, len(shards.paths)
            where = f", in {counted(n_shards, 'shard')}"
    refuse_other_features(settings.report, () if crowd.tasks is None else crowd.tasks.feature_names)
    if crowd.answers is None:
        check_classes(
            settings.aggregator, n_workers=labels.n_workers, n_tasks=labels.n_tasks,
            n_classes=labels.n_classes, n_labels=counts.get("n_labels", crowd.n_labels),
            sharded=engine is not None,
        )  # fmt: skip
    run.waits_for("the run folder")
    save_crowd(run.folder, crowd)
    counts = public_sizes(crowd) | counts
    names = {"name": run.settings.name, "classes": list(map(str, crowd.labels.classes))}
    run.write_json("inputs.json", names | {"files": list(sources.described)} | counts)
    read_as = "".join(f"; {clause}" for clause in sources.read_as)
    doubts = gold_apart(crowd) + models_apart(crowd, settings.input)
    what = "labels" if crowd.answers is None else "answers"
    tasks = counted(counts["n_labelled_tasks"], "task")
    return (
        f"{counts['n_labels']:,} {what} of {tasks} by {counts['n_workers']:,} workers, "
        f"{counts['n_classes']} classes{where}{doubts}{read_as}"
    )


def refuse_other_features(asked: ReportSettings, names: tuple[str, ...]) -> None:
    """Raise SettingsError if the report needs a feature, or a number of features, that the tasks lack."""
    axis, shape = asked.psychometric, asked.image_shape
    if names and axis not in (None, BOUNDARY, *names):
        few = ", ".join(names[:SHOWN_NAMES]) + ", ..." * (len(names) > SHOWN_NAMES)
        raise SettingsError(
            f'report.psychometric must be a feature or "{BOUNDARY}", got {axis!r}; features are {few}'
        )
    if names and shape is not None and shape[0] * shape[1] != len(names):
        raise SettingsError(
            f"report.image_shape must have as many pixels as the tasks have features, {len(names):,}, got "
            f"{shape[0]} x {shape[1]}"
        )


def gold_apart(crowd: Crowd) -> str:
    """Say that gold and labels have no task, or no class, in common; empty if they do."""
    if crowd.gold is None:
        return ""
    if not crowd.n_gold:
        n_gold = len(crowd.gold.task)
        return f"; none of the {counted(n_gold, 'gold task')} has a label: are tasks named there as here?"
    labels, gold = crowd.labels, crowd.gold_code()
    # of labels in shards the crowd has the names alone
    if not labels.n_labels or np.isin(gold[gold >= 0], labels.label).any():
        return ""
    return (
        f"; nobody gave a class that gold has, such as {str(crowd.gold.label[0])!r}: are classes spelled "
        "there as here?"
    )


def models_apart(crowd: Crowd, inputs: InputSettings) -> str:
    """Say how many workers look like models by name, where none is declared; names stay inside."""
    if crowd.models or crowd.answers is not None or "models" in inputs.model_fields_set:
        return ""
    n_like = len(like_models(crowd.labels.workers))
    if not n_like:
        return ""
    what = f"{n_like:,} workers look like language models"
    if n_like == 1:
        what = "1 worker looks like a language model"
    return f"; {what} by name: name those who are in input.models, where [] stands for none"


def public_sizes(crowd: Crowd) -> dict[str, int]:
    """Return public sizes of a campaign."""
    labels, tasks = crowd.labels, crowd.tasks
    labelled = np.unique(crowd.label_group()).size
    return {
        "n_labels": crowd.n_labels,
        "n_tasks": labels.n_tasks if tasks is None else tasks.names.size,
        "n_labelled_tasks": labels.n_tasks,
        "n_workers": labels.n_workers,
        "n_classes": labels.n_classes,
        "n_groups": int(labelled),
        "n_unlabelled_groups": int(crowd.group_names.size - labelled),
        "n_features": 0 if tasks is None else len(tasks.feature_names),
        "n_gold": crowd.n_gold,
    }


def _read_whole(run: Run, sources: Sources) -> Crowd:
    """Read every table, and check it by itself and against the others."""
    inputs, classes, groups = run.settings.input, run.settings.classes, run.settings.groups
    tables, tasks = [source.table for source in sources.tasks], None
    if tables:
        columns, subject = TaskColumns.of(inputs, run.settings.topics), inputs.subject
        if run.settings.topics is not None:
            run.write_table("topic_texts.parquet", read_texts(tables, run.settings.topics.text))
        run.waits_for("the task tables")
        tasks = read_tasks(
            tables, groups, standardize=inputs.standardize, subject=subject, columns=columns
        )
        _write_texts(run, tables, columns)
    if inputs.several is not None:
        return _read_sets(inputs, classes, sources, tasks)
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=classes)
    run.waits_for("the labels")
    labels = read_labels(
        sources.labels.table,
        classes=classes,
        duplicates=inputs.duplicates,
        known_tasks=None if tasks is None else tasks.names,
    )
    refuse_hollow(labels, sources.labels.name)
    if gold is not None and sources.gold is not None:
        refuse_gold(sources.gold.table, gold, labels.classes)
    seconds, table = None, sources.labels.table
    if inputs.seconds:
        seconds = read_seconds(table, inputs.seconds, labels, duplicates=inputs.duplicates)
    models = names_of_models(labels.workers, inputs.models, read_models(table))
    return Crowd(labels, tasks, gold, seconds, reference=_reference(run, sources), models=models)


def _read_sets(
    inputs: InputSettings,
    classes: tuple[str, ...] | None,
    sources: Sources,
    tasks: TaskTable | None,
) -> Crowd:
    """Read and check answers that hold several classes at once, and gold of sets."""
    name, split = sources.labels.name, str(inputs.several)
    models = read_models(sources.labels.table)
    if models:
        raise TableError(
            f"{name}: column kind must name no models with input.several, which has no models among workers, "
            f"got {models[0]!r}; leave the column out to take all for people"
        )
    answers = read_multilabels(
        sources.labels.table, split=split, nothing=inputs.nothing, classes=classes
    )
    joined = next((one for one in answers.classes.astype(str).tolist() if split in one), None)
    if joined is not None:
        raise TableError(
            f"{name}: input.several must not stand in a class, got {split!r} in {joined}; name another "
            "separator, as consensus labels are joined by it"
        )
    if tasks is not None:
        unknown = ~np.isin(answers.tasks.astype(str), tasks.names.astype(str))
        if unknown.any():
            raise TableError(
                f"{name}: task {answers.tasks[int(unknown.argmax())]} must be in the task tables, and is "
                "not; add it there"
            )
    _refuse_hollow_sets(answers, name)
    gold = None
    if sources.gold is not None:
        gold = read_gold_sets(sources.gold.table, answers, split=split, nothing=inputs.nothing)
    return Crowd.of_sets(answers, tasks, gold)


def _refuse_hollow_sets(answers: MultiLabels, file: str) -> None:
    """Raise TableError for answers of one worker, and for answers without disagreement."""
    if answers.n_workers == 1:
        raise TableError(
            f"{file}, column worker: every answer is by one worker, {str(answers.workers[0])!r}; "
            "reputations need two workers or more; check the export"
        )
    if not conflict_tasks(yes_no_labels(answers)).any():
        raise TableError(
            f"{file}: no two workers differ on any task, so nothing tells good workers from bad; have some "
            "tasks answered by several workers, or use the answers as they are"
        )


def _read_shards(run: Run, sources: Sources, engine: EngineSettings) -> tuple[Crowd, ShardFolder]:
    """Read and check the same under the cap of memory; the campaign's labels are names without rows."""
    settings, memory_gb, inputs = run.settings, engine.memory_gb, run.settings.input
    tables, folder = [source.table for source in sources.tasks], run.folder / FEATURES
    if inputs.duplicates == "error":  # a row is a label: what is refused, is at once
        refuse_whole_filter(settings.filter, engine, count_rows(sources.labels.table))
    listed = None
    if tables:
        run.waits_for("the task tables")
        listed = list_features(
            tables, settings.groups, folder, memory_gb=memory_gb, subject=inputs.subject,
            columns=TaskColumns.of(inputs),
        )  # fmt: skip
        _write_texts(run, tables, TaskColumns.of(inputs))
    tasks = None if listed is None else listed.table
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=settings.classes)
    run.waits_for("labels sorted into shards")
    shards = write_shards(
        sources.labels.table, run.folder / SHARDS, shard_labels=engine.shard_labels,
        memory_gb=memory_gb, classes=settings.classes, duplicates=inputs.duplicates,
        known_tasks=None if tasks is None else tasks.names,
    )  # fmt: skip
    names = names_alone(shards.names("worker"), shards.names("task"), shards.names("label"))
    if gold is not None and sources.gold is not None:
        refuse_gold(sources.gold.table, gold, names.classes)
    row = None if tasks is None else tasks.rows(names.tasks)
    run.waits_for("features written in the order of the tasks")
    if listed is not None and listed.table.feature_names:
        labelled = np.zeros(listed.table.names.size, dtype=np.bool_)
        labelled[row] = True
        write_features(
            tables, listed, labelled, folder, memory_gb=memory_gb, standardize=inputs.standardize
        )
    models = names_of_models(names.workers, inputs.models, read_models(sources.labels.table))
    answers = _reference(run, sources)
    crowd = Crowd(names, tasks, gold, reference=answers, models=models, row=row)
    run.waits_for("groups and gold of each shard")
    write_gold(shards, crowd.gold_code())
    write_groups(shards, crowd.labelled_groups()[1])
    refuse_hollow_shards(shards, sources.labels.name)
    return crowd, shards


def _write_texts(run: Run, paths: Sequence[Path], columns: TaskColumns) -> None:
    """Write the texts of each task; with an engine, those of Parquet under the cap of memory."""
    settings, engine = run.settings, run.settings.engine
    apart = ("task", settings.groups.column, settings.input.subject or "task")
    shown = columns.shown_in(column_names(paths[0], ("task",)), apart=apart)
    if not shown:
        return
    if engine is None or any(path.suffix.lower() != ".parquet" for path in paths):
        run.write_rows(TEXTS, task_texts((open_table(path, ("task",)) for path in paths), shown))
        return
    with open_tasks(paths, run.folder, memory_gb=engine.memory_gb, threads=None) as tables:
        run.write_rows(TEXTS, task_texts(tables, shown))


def names_of_models(
    workers: np.ndarray, named: tuple[str, ...], of_kind: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the workers that are models, by settings or by the labels' column `kind`, sorted.

    Raise SettingsError for a name in the settings that no worker has.
    """
    known = set(workers.astype(np.str_).tolist()) if named else set()
    missing = sorted(set(named) - known)
    if missing:
        raise SettingsError(
            f"input.models: {missing[0]!r} must be a worker of the labels, and has none there"
        )
    return tuple(sorted({*named, *of_kind}))


def _reference(run: Run, sources: Sources) -> Reference | None:
    """Return the answers of models, if the settings name a table of them."""
    if sources.reference is None:
        return None
    return read_reference(sources.reference.table, classes=run.settings.classes)

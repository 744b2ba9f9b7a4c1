"""Reading a label table into shards, and features into a folder: the `[engine]` of the settings.

Neither is in this process at once; names, and what is said of each task, are. From here on
the campaign has code books and no rows, which is all that the later stages ask of it.
"""

from __future__ import annotations

import numpy as np

from flows.run.crowd import FEATURES, Crowd, save_crowd
from flows.run.store import Run
from flows.settings.sections import EngineSettings
from flows.sharding.engine import open_engine
from flows.sharding.features import list_features, write_features
from flows.sharding.shards import ShardFolder, write_gold, write_groups, write_shards
from flows.stages.reading import CROWD, public_sizes
from flows.tables.sources import Sources, open_sources
from flows.tables.tables import read_gold
from flows.tables.text_table import TableError
from quality import CrowdLabels
from quality.labels import LabelShard

__all__ = ["SHARDS", "books_of", "engine_of", "read_shards"]

SHARDS = "shards"


def read_shards(run: Run) -> str:
    """Read and check the tables; labels are streamed into shards under the cap of memory."""
    sources = open_sources(run.settings.input, run.folder)
    with sources.telling():
        shards, crowd = _read(run, sources)
    with open_engine(shards, engine_of(run)) as engine:
        if not any(engine.map(_has_conflict, None)):
            raise TableError(
                f"{sources.labels.name}: no two workers differ on any task, so nothing tells good "
                "workers from bad; have tasks labelled by several workers, or use the labels as they are"
            )
    save_crowd(run.folder / CROWD, crowd)
    counts = public_sizes(crowd) | {"n_labels": shards.n_labels}
    files = {"name": run.settings.name, "classes": list(map(str, crowd.labels.classes))}
    run.write_json("inputs.json", files | {"files": list(sources.described)} | counts)
    return (
        f"{counts['n_labels']:,} labels of {counts['n_labelled_tasks']:,} tasks by "
        f"{counts['n_workers']:,} workers, {counts['n_classes']} classes, in {len(shards.paths):,} shards"
    )


def engine_of(run: Run) -> EngineSettings:
    """The section that has brought the run here."""
    return run.settings.engine or EngineSettings()


def books_of(workers: np.ndarray, tasks: np.ndarray, classes: np.ndarray) -> CrowdLabels:
    """A label table of these names and no rows."""
    nothing = np.empty(0, dtype=np.int32)
    return CrowdLabels.from_codes(
        nothing, nothing, nothing, workers=workers, tasks=tasks, classes=classes
    )


def _read(run: Run, sources: Sources) -> tuple[ShardFolder, Crowd]:
    """Every table, checked by itself and against the others; the crowd has no rows of labels."""
    settings, engine = run.settings, engine_of(run)
    tables, inputs = [source.table for source in sources.tasks], settings.input
    folder, memory_gb = run.folder / FEATURES, engine.memory_gb
    listed = list_features(tables, settings.groups, folder, memory_gb=memory_gb) if tables else None
    tasks = None if listed is None else listed.table
    gold = None if sources.gold is None else read_gold(sources.gold.table, classes=settings.classes)
    shards = write_shards(
        sources.labels.table, run.folder / SHARDS, shard_labels=engine.shard_labels,
        memory_gb=memory_gb, classes=settings.classes, duplicates=inputs.duplicates,
        known_tasks=None if tasks is None else tasks.names,
    )  # fmt: skip
    books = books_of(shards.names("worker"), shards.names("task"), shards.names("label"))
    if listed is not None and listed.table.feature_names:
        labelled, standardize = np.isin(listed.table.names, books.tasks), inputs.standardize
        write_features(
            tables, listed, labelled, folder, memory_gb=memory_gb, standardize=standardize
        )
    crowd = Crowd(books, tasks, gold)
    write_gold(shards, crowd.gold_code())
    write_groups(shards, crowd.labelled_groups()[1])
    return shards, crowd


def _has_conflict(shard: LabelShard, _: object) -> bool:
    return bool((np.count_nonzero(shard.counts(), axis=1) > 1).any())

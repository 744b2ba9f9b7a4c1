"""Engines: threads, and a real Dask cluster of processes, give the same bytes whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from flows.settings import EngineError, EngineSettings, SettingsError
from flows.sharding import (
    ShardFolder,
    group_of_shard,
    load_fit,
    load_shard,
    open_engine,
    save_fit,
    stored,
    write_gold,
    write_groups,
    write_shards,
)
from flows.sharding.dask import DaskEngine, open_dask
from quality import regular_assignment, simulate_crowd
from quality.aggregation.em import EMFit
from quality.aggregation.sharded_em import dawid_skene_by_shards, posterior_of_shard
from quality.choice import auto_by_shards
from quality.labels.shards import Engine, LabelShard, LocalEngine
from quality.reputation import filter_dishonest_by_shards
from quality.reputation.penalties import soft_penalty_by_shards
from quality.reputation.sharded_filtering import filter_workers_by_shards

# a busy disk is no fault: Dask times how long its scratch folder takes to make
pytestmark = pytest.mark.filterwarnings("ignore:Creating scratch directories:UserWarning")
DASK = EngineSettings(kind="dask", workers=2, memory_gb=1.0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> ShardFolder:
    """3,000 labels in seven shards."""
    folder, rng = tmp_path_factory.mktemp("engine"), np.random.default_rng(0)
    rows = regular_assignment(n_tasks=600, n_workers=30, labels_per_task=5, rng=rng)
    truth = rng.integers(3, size=600)
    crowd = simulate_crowd(rows, truth, n_classes=3, adversaries={"random": 6}, rng=rng)
    columns = {name: getattr(crowd, name) for name in ("worker", "task", "label")}
    pq.write_table(pa.table(columns), folder / "labels.parquet")
    return write_shards(
        folder / "labels.parquet", folder / "shards", shard_labels=450, memory_gb=0.2,
        classes=None, duplicates="error", threads=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def dask_engine(shards: ShardFolder) -> Iterator[DaskEngine]:
    with open_dask(shards, DASK, hold=True) as engine:
        yield engine


class NoKeysError(Exception):
    """As a store's own package raises it."""


def local(shards: ShardFolder) -> LocalEngine:
    return LocalEngine([load_shard(shards, number) for number in range(len(shards.paths))])


def same(one: EMFit, other: EMFit) -> bool:
    arrays = ("prior", "table", "counts", "mass")
    return (one.n_iter, one.log_likelihood) == (other.n_iter, other.log_likelihood) and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in arrays
    )


def groups_of(shard: LabelShard, shards: ShardFolder) -> tuple[np.ndarray, ...]:
    """How many of a shard's tasks each group has, those with gold apart."""
    group = group_of_shard(shards, shard)
    return np.bincount(group, minlength=4), np.bincount(group[shard.gold >= 0], minlength=4)


def group_counts(engine: Engine, shards: ShardFolder) -> np.ndarray:
    return np.array(engine.add_up(groups_of, shards))


def die_once(shard: LabelShard, mark: str) -> tuple[np.ndarray, ...]:
    """Kill the process that works on the fourth shard, the first time it comes there."""
    if shard.first_task > 250 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return (shard.worker.sum(keepdims=True),)


def test_a_cluster_gives_the_bytes_of_threads(shards: ShardFolder, dask_engine: DaskEngine) -> None:
    here = local(shards)
    assert len(shards.paths) == 7
    fit, expected = (dawid_skene_by_shards(e, max_iter=4) for e in (dask_engine, here))
    assert same(fit, expected)
    belief = (fit.prior, fit.table, False)
    for mine, its in zip(
        dask_engine.map(posterior_of_shard, belief),
        here.map(posterior_of_shard, belief),
        strict=True,
    ):
        assert mine.tobytes() == its.tobytes()
    tasks = shards.names("task")
    filtered, filtered_here = (
        filter_workers_by_shards(engine, tasks, n_workers=2) for engine in (dask_engine, here)
    )
    assert filtered.removed.tolist() == filtered_here.removed.tolist()
    kept, kept_here = (engine.keep_workers(filtered.keep) for engine in (dask_engine, here))
    assert soft_penalty_by_shards(kept).tobytes() == soft_penalty_by_shards(kept_here).tobytes()


def test_a_cluster_filters_and_pools_with_the_bytes_of_threads(
    shards: ShardFolder, dask_engine: DaskEngine
) -> None:
    """What a default run does: who goes, and the pool of those who are left."""
    found = []
    for engine in (dask_engine, local(shards)):
        filtered = filter_dishonest_by_shards(
            engine, shards.names("task"), false_removal_rate=0.3, rng=np.random.default_rng(0)
        )
        pool = auto_by_shards(engine.keep_workers(filtered.keep), enough=1)
        found.append((filtered, pool))
    (filtered, pool), (here, pool_here) = found
    assert len(filtered.removed) > 0
    assert filtered.removed.tobytes() == here.removed.tobytes()
    assert filtered.p_value.tobytes() == here.p_value.tobytes()
    assert pool.scores == pool_here.scores


@pytest.mark.parametrize("hold", [True, False])
def test_a_killed_worker_costs_time_and_changes_no_byte(
    shards: ShardFolder, dask_engine: DaskEngine, tmp_path: Path, hold: bool
) -> None:
    """SIGKILL from inside the work: the process is in the middle of it for certain."""
    engine = DaskEngine(dask_engine.client, shards, hold=hold)
    before = soft_penalty_by_shards(engine)
    mark = tmp_path / "died"
    (total,) = engine.add_up(die_once, str(mark))
    assert mark.exists()
    assert total.tobytes() == local(shards).add_up(die_once, str(mark))[0].tobytes()
    assert soft_penalty_by_shards(engine).tobytes() == before.tobytes()


@pytest.mark.slow
def test_a_fit_whose_workers_are_killed_has_the_same_bytes(
    shards: ShardFolder, dask_engine: DaskEngine
) -> None:
    expected = dawid_skene_by_shards(local(shards), max_iter=12, tol=0.0)

    def kill_one(fit: EMFit) -> None:
        if fit.n_iter in (3, 7):
            workers = dask_engine.client.run(os.getpid)
            os.kill(min(workers.values()), signal.SIGKILL)

    fit = dawid_skene_by_shards(dask_engine, max_iter=12, tol=0.0, after=kill_one)
    assert same(fit, expected)


def test_shards_that_do_not_fit_are_read_in_every_pass(shards: ShardFolder) -> None:
    """What is held and what is loaded anew give the same bytes."""
    expected = dawid_skene_by_shards(local(shards), max_iter=3)
    loads = LocalEngine([lambda n=n: load_shard(shards, n) for n in range(7)], threads=2)
    assert same(dawid_skene_by_shards(loads, max_iter=3), expected)
    huge = ShardFolder(shards.folder, 10**9, 600, 30, 3, shards.first_task)
    with open_engine(huge, EngineSettings()) as engine:
        assert isinstance(engine, LocalEngine)
        assert not any(isinstance(shard, LabelShard) for shard in engine._shards)
    with open_engine(shards, EngineSettings(workers=2)) as engine:
        assert same(dawid_skene_by_shards(engine, max_iter=3), expected)


def test_a_fit_gone_on_with_from_its_file_has_the_same_bytes(
    shards: ShardFolder, tmp_path: Path
) -> None:
    engine, path = local(shards), tmp_path / "fit.npz"
    assert load_fit(path) is None
    expected = dawid_skene_by_shards(engine, max_iter=9, tol=0.0)
    begun = dawid_skene_by_shards(engine, max_iter=4, tol=0.0)
    save_fit(path, begun)
    found = load_fit(path)
    assert found is not None
    assert same(found, begun)
    assert found.converged == begun.converged
    assert same(dawid_skene_by_shards(engine, max_iter=9, tol=0.0, begun=found), expected)


def test_a_damaged_file_of_a_fit_is_named_in_one_sentence(
    shards: ShardFolder, tmp_path: Path
) -> None:
    path = tmp_path / "fit.npz"
    save_fit(path, dawid_skene_by_shards(local(shards), max_iter=2))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(
        EngineError, match=r"fit\.npz cannot be read .*; begin anew without --resume"
    ):
        load_fit(path)


def test_a_scheduler_that_does_not_answer_is_told(shards: ShardFolder) -> None:
    chosen = EngineSettings(kind="dask", scheduler="wrong://127.0.0.1:1")
    with (
        pytest.raises(
            SettingsError, match="engine.scheduler: 'wrong://127.0.0.1:1' does not answer"
        ),
        open_dask(shards, chosen, hold=True),
    ):
        pass


def test_a_cluster_whose_workers_do_not_come_back_is_told(shards: ShardFolder) -> None:
    """A scheduler without workers: nothing would ever run, and nobody would hear of it."""
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,  # type: ignore[no-untyped-call]
        Client(cluster, set_as_default=False) as client,  # type: ignore[no-untyped-call]
        pytest.raises(EngineError, match=r"has no worker that lives .* go on with --resume"),
    ):
        soft_penalty_by_shards(DaskEngine(client, shards, hold=False))


def test_without_dask_one_sentence_says_what_to_install(
    shards: ShardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flows.sharding.dask", None)
    with (
        pytest.raises(SettingsError, match='needs the extra "scale": pip install'),
        open_engine(shards, DASK),
    ):
        pass


@pytest.mark.parametrize("hold", [True, False])
def test_workers_that_lack_the_run_folder_give_the_same_bytes_from_the_store(
    shards: ShardFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: bool
) -> None:
    """They stay where they began; gold and groups are in the store as well, which is empty at the end."""
    folder = shutil.copytree(shards.folder, tmp_path / "run" / "shards")
    (tmp_path / "store").mkdir()
    here, names = replace(shards, folder=folder), shards.names("task")
    write_gold(here, np.where(np.arange(len(names)) % 3 == 0, 1, -1))
    write_groups(here, np.arange(len(names)) % 4)
    expected = local(here)
    sums, groups = dawid_skene_by_shards(expected, max_iter=2), group_counts(expected, here)
    chosen = DASK.model_copy(update={"store": f"file://{tmp_path}/store/"})
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,  # type: ignore[no-untyped-call]
        Client(cluster, set_as_default=False) as client,  # type: ignore[no-untyped-call]
        stored(here.read_by_workers, chosen) as store,
    ):
        assert store is not None
        copies = {path.name for path in Path(store.removeprefix("file://")).iterdir()}
        assert copies == {path.name for path in folder.iterdir()} - {
            "workers.parquet", "tasks.parquet", "labels.parquet", "shards.json"
        }  # fmt: skip
        monkeypatch.chdir(tmp_path / "run")
        here = replace(here, folder=Path("shards"))
        with pytest.raises(
            EngineError, match=r"does not find shards/.*; let every machine have the run"
        ):
            group_counts(DaskEngine(client, here, hold=hold), here)
        here = replace(here, store=store)
        engine = DaskEngine(client, here, hold=hold)
        assert same(dawid_skene_by_shards(engine, max_iter=2), sums)
        assert np.array_equal(group_counts(engine, here), groups)
    assert list((tmp_path / "store").iterdir()) == []


def test_a_store_that_cannot_be_written_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for store, words in (
        (f"file://{tmp_path}/file/in", "that this run can write: .*Not a directory"),
        (
            f"file://{tmp_path}/misspelt",
            "that is there and that this run can write: .*No such file",
        ),
        ("nowhere://crowd", "that this run can write: Protocol not known"),
    ):
        chosen = DASK.model_copy(update={"store": store})
        with pytest.raises(SettingsError, match=words), stored((), chosen):
            pass
    assert not (tmp_path / "misspelt").exists()


def test_errors_that_a_store_has_of_its_own_are_sentences(
    shards: ShardFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NoKeysError("unable to locate credentials")

    there = "fsspec.implementations.memory.MemoryFileSystem."
    chosen = DASK.model_copy(update={"store": "memory://crowd"})
    with stored(shards.paths, chosen) as store:
        monkeypatch.setattr(f"{there}open", refuse)
        away = replace(shards, folder=tmp_path / "nowhere", store=store)
        with pytest.raises(
            EngineError, match=r"/crowdassay-\w+ cannot be read on .*: unable to locate"
        ):
            load_shard(away, 0)
    monkeypatch.setattr(f"{there}put_file", refuse)
    with (
        pytest.raises(SettingsError, match="write: unable to locate"),
        stored(shards.paths, chosen),
    ):
        pass
    monkeypatch.undo()
    assert not MemoryFileSystem().find("/crowd")


def test_copies_that_cannot_be_taken_away_are_named(
    shards: ShardFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    (tmp_path / "store").mkdir()
    chosen = DASK.model_copy(update={"store": f"file://{tmp_path}/store"})
    with (
        pytest.raises(EngineError, match=r"/store/crowdassay-\w+ cannot be taken away: not yours"),
        stored(shards.paths, chosen),
    ):
        monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.rm", refuse)


def test_a_run_leaves_no_copies_where_the_work_fails(shards: ShardFolder, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    chosen = DASK.model_copy(update={"store": f"file://{tmp_path}/store"})
    with pytest.raises(KeyboardInterrupt), stored(shards.paths, chosen):
        raise KeyboardInterrupt
    assert list((tmp_path / "store").iterdir()) == []

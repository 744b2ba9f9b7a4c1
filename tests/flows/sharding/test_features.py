"""Task features brought into a folder in batches: the rows that are read whole, the same refusals."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from flows.settings import EngineError, GroupSettings
from flows.sharding.features import (
    FeatureFolder,
    ListedTasks,
    list_features,
    open_features,
    write_features,
)
from flows.tables.refusals import TableError
from flows.tables.tables import read_tasks

GROUPS = GroupSettings()


def table_of(n: int = 60, width: int = 3, seed: int = 0) -> pa.Table:
    """Shuffled tasks of three groups; names of features that a query might use for its own ends."""
    rng = np.random.default_rng(seed)
    names = ["n", "row", "file_number", *(f"x {j}" for j in range(width - 3))]
    columns = {name: rng.normal(size=n) for name in names}
    group = [f"g{j}" for j in rng.integers(3, size=n)]
    task = [f"t{seed}-{j}" for j in rng.permutation(n)]
    return pa.table({"task": task, **columns, "group": group})


def written(
    paths: list[Path], folder: Path, *, standardize: bool = False
) -> tuple[ListedTasks, np.ndarray, FeatureFolder]:
    """The folder, where every third task by name has a label."""
    listed = list_features(paths, GROUPS, folder, memory_gb=0.2)
    labelled = np.arange(listed.table.names.size) % 3 == 0
    found = write_features(paths, listed, labelled, folder, memory_gb=0.2, standardize=standardize)
    return listed, labelled, found


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("standardize", [False, True])
def test_what_is_loaded_whole_has_the_bytes_of_a_table_read_whole(
    tmp_path: Path, suffix: str, standardize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables, in batches of seven rows and two columns."""
    monkeypatch.setattr("flows.tables.columns.task_columns.BATCH", 7)
    monkeypatch.setattr("flows.tables.columns.task_columns.AT_ONCE", 2)
    paths = [tmp_path / f"tasks-{seed}.{suffix}" for seed in (0, 1)]
    for seed, path in enumerate(paths):
        (pq.write_table if suffix == "parquet" else pc.write_csv)(table_of(seed=seed), path)
    listed, _, found = written(paths, tmp_path / "features", standardize=standardize)
    expected = read_tasks(paths, GROUPS, standardize=standardize)
    assert found.load().tobytes() == expected.features.tobytes()
    for name in ("names", "group", "group_names"):
        assert np.array_equal(getattr(listed.table, name), getattr(expected, name))
    assert listed.table.feature_names == expected.feature_names
    assert open_features(tmp_path / "features") == found


@pytest.mark.parametrize("grouped", [True, False])
def test_tasks_are_listed_alike_whether_cells_are_coded_as_they_stand_or_as_text(
    tmp_path: Path, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tables, the groups of one of which stand in no other."""
    tables = [table_of(seed=0), table_of(n=1, seed=1), table_of(n=40, seed=2)]
    place = tables[0].column_names.index("group")
    tables[2] = tables[2].set_column(place, "group", pa.array(["a", "z"] * 20))
    paths = [tmp_path / f"tasks-{number}.parquet" for number in range(3)]
    for table, path in zip(tables, paths, strict=True):
        pq.write_table(table if grouped else table.drop_columns("group"), path)
    plain = list_features(paths, GROUPS, tmp_path / "plain", memory_gb=0.2)
    asked = []
    monkeypatch.setattr(
        "flows.tables.tables.parquet_texts", lambda *given: asked.append(given) or None
    )
    text = list_features(paths, GROUPS, tmp_path / "text", memory_gb=0.2)
    assert asked
    assert np.array_equal(plain.order, text.order)
    for name in ("names", "group", "group_names"):
        assert np.array_equal(getattr(plain.table, name), getattr(text.table, name))
    for one, other in zip(plain.groups, text.groups, strict=True):
        assert np.array_equal(one.names[one.code], other.names[other.code])


@pytest.mark.parametrize("name", ["rows.npy", "bags.npz", "features.json"])
@pytest.mark.parametrize("n_bytes", [0, 40, 200])
def test_a_damaged_file_of_a_folder_is_named_in_one_sentence(
    tmp_path: Path, name: str, n_bytes: int
) -> None:
    """A ValueError would be taken for a reason to leave class ratios out."""
    pq.write_table(table_of(), tmp_path / "tasks.parquet")
    *_, found = written([tmp_path / "tasks.parquet"], tmp_path / "features")
    path = found.folder / name
    path.write_bytes(path.read_bytes()[: min(n_bytes, path.stat().st_size - 1)])
    with pytest.raises(EngineError, match=f"{name} cannot be read .*; begin anew without --resume"):
        open_features(found.folder).load()  # type: ignore[union-attr]
    if name == "rows.npy":
        with pytest.raises(EngineError, match=f"{name} cannot be read"):
            found.rows(0, 3)


def test_a_bag_is_a_group_with_its_labelled_tasks_first_each_by_name(tmp_path: Path) -> None:
    pq.write_table(table_of(), tmp_path / "tasks.parquet")
    listed, labelled, found = written([tmp_path / "tasks.parquet"], tmp_path / "features")
    size, known = found.bags()
    assert size.sum() == 60
    whole, first = found.load(), 0
    for code in range(3):
        mine = listed.table.group == code
        order = [*np.flatnonzero(mine & labelled), *np.flatnonzero(mine & ~labelled)]
        assert known[code] == (mine & labelled).sum()
        assert found.rows(first, first + size[code]).tolist() == whole[order].tolist()
        first += size[code]
    assert found.take(np.array([0, 5, 59])).tolist() == [
        found.rows(at, at + 1)[0].tolist() for at in (0, 5, 59)
    ]


@pytest.mark.parametrize("standardize", [False, True])
def test_features_laid_out_have_the_bytes_of_those_loaded_and_leave_no_file(
    tmp_path: Path, standardize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.sharding.features.COPIED", 7)
    pq.write_table(table_of(), tmp_path / "tasks.parquet")
    _, _, found = written(
        [tmp_path / "tasks.parquet"], tmp_path / "features", standardize=standardize
    )
    before = {path.name for path in (tmp_path / "features").iterdir()}
    some = np.random.default_rng(0).permutation(60)[:30]
    pages = found.laid_out(some)
    assert isinstance(pages, np.memmap)
    assert not pages.flags.writeable
    assert pages.tobytes() == found.load(some).tobytes()
    assert {path.name for path in (tmp_path / "features").iterdir()} == before
    assert found.laid_out(some[:0]).shape == (0, 3)


@pytest.mark.parametrize("standardize", [False, True])
def test_features_are_written_and_laid_out_a_batch_at_a_time(
    tmp_path: Path, standardize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in ("flows.sharding.features.COPIED", "flows.tables.columns.task_columns.BATCH"):
        monkeypatch.setattr(batch, 500)
    monkeypatch.setattr("flows.sharding.features.PART_CELLS", 500 * 64)
    paths = [tmp_path / "tasks.parquet"]
    pq.write_table(table_of(8_000, width=64), paths[0])
    listed = list_features(paths, GROUPS, tmp_path / "features", memory_gb=0.2)
    labelled = np.ones(8_000, dtype=np.bool_)
    tracemalloc.start()
    found = write_features(
        paths, listed, labelled, tmp_path / "features", memory_gb=0.2, standardize=standardize
    )
    pages = found.laid_out(np.arange(8_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < pages.nbytes / 2


def test_tables_of_many_days_share_the_memory_of_one(tmp_path: Path) -> None:
    paths = [tmp_path / f"tasks-{day:02d}.parquet" for day in range(30)]
    for day, path in enumerate(paths):
        pq.write_table(table_of(5, seed=day), path)
    listed = list_features(paths, GROUPS, tmp_path / "features", memory_gb=0.1)
    labelled = np.ones(150, dtype=np.bool_)
    found = write_features(
        paths, listed, labelled, tmp_path / "features", memory_gb=0.1, standardize=False
    )
    assert found.load().tobytes() == read_tasks(paths, GROUPS).features.tobytes()


FAULTS: list[dict[str, Any]] = [
    {"task": ["a", "b", " "], "group": ["x"] * 3, "f": ["1", "2", "3"]},
    {"task": ["a", "b", "a"], "group": ["x"] * 3, "f": ["1", "2", "3"]},
    {"task": ["a", "b", "c"], "group": ["x", None, "x"], "f": ["1", "2", "3"]},
    {"task": ["a", "b", "c"], "group": ["x"] * 3, "e": ["1"] * 3, "f": ["1", "two", "3"]},
    {"task": ["a", "b", "c"], "group": ["x"] * 3, "f": ["1", "2", None]},
    {"task": ["a", "b", "c"], "group": ["x"] * 3, "f": ["1", "inf", "nan"]},
    {"task": ["a", "b", "c"], "group": ["x", "y", "y"], "e": ["1", "", None], "f": ["1", "", ""]},
    {"task": ["a", "b"], "group": ["x"] * 2, "f": [[1.0, 2.0], [1.0]]},
]


@pytest.mark.parametrize("columns", FAULTS)
def test_faults_are_told_in_the_words_for_a_table_read_whole(
    tmp_path: Path, columns: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.tables.columns.task_columns.BATCH", 1)
    monkeypatch.setattr("flows.tables.columns.task_columns.AT_ONCE", 1)
    path = tmp_path / "tasks.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(TableError) as whole:
        read_tasks([path], GROUPS)
    with pytest.raises(TableError) as streamed:
        written([path], tmp_path / "features")
    assert str(streamed.value) == str(whole.value)
    assert open_features(tmp_path / "features") is None


@pytest.mark.parametrize("make", [lambda _: None, lambda path: path.write_bytes(b"PAR1 torn")])
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "tasks.parquet"
    make(path)
    with pytest.raises(TableError, match=r"tasks.parquet"):
        written([path], tmp_path / "features")


def test_nothing_but_the_folders_files_is_left(tmp_path: Path) -> None:
    pq.write_table(table_of(), tmp_path / "tasks.parquet")
    for _ in range(2):  # a folder of a run that died is begun anew
        written([tmp_path / "tasks.parquet"], tmp_path / "features")
    left = {path.name for path in (tmp_path / "features").iterdir()}
    assert left == {"rows.npy", "bags.npz", "features.json"}


def most_memory(path: Path, folder: Path) -> float:
    """Most megabytes that a process of its own ever held in writing a folder."""
    written([path], folder)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


@pytest.mark.slow
def test_memory_does_not_grow_with_the_features(tmp_path: Path) -> None:
    """320 MB of features more: names and buffers may grow, by less than a third of that."""
    peaks = []
    for n_batches in (15, 55):
        path = tmp_path / f"tasks-{n_batches}.parquet"
        with pq.ParquetWriter(path, table_of(1, width=100).schema) as writer:
            for seed in range(n_batches):
                writer.write_table(table_of(10_000, width=100, seed=seed))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
            folder = tmp_path / f"features-{n_batches}"
            peaks.append(child.submit(most_memory, path, folder).result())
    assert (tmp_path / "features-55" / "rows.npy").stat().st_size > 440e6
    assert peaks[1] - peaks[0] < 110

"""Class ratios of streamed features: the bytes of one process, by threads, by Dask, whoever dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client

from flows.settings import EngineError, EngineSettings, GroupSettings
from flows.sharding import Mapper, open_mapper, stored
from flows.sharding.dask import _open_client, open_dask_mapper
from flows.sharding.features import (
    FeatureFolder,
    FeaturePasses,
    block_rows,
    list_features,
    write_features,
)
from learners import ClassRatio, StreamedRatioEstimator
from learners.class_ratios import BagPasses, LocalBlocks

# a busy disk is no fault: Dask times how long its scratch folder takes to make
pytestmark = pytest.mark.filterwarnings("ignore:Creating scratch directories:UserWarning")
SHARES = np.array([[0.8, 0.2], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])
NOISE = np.tile(1e-3 * np.array([[1.0, -1.0], [-1.0, 1.0]]), (4, 1, 1))
SIZE, ROWS = 300, 64  # tasks of a group; rows of a block


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureFolder:
    """Four groups of known shares and two of unknown ones, rows shuffled."""
    folder, rng = tmp_path_factory.mktemp("ratios"), np.random.default_rng(0)
    share = np.repeat([*SHARES[:, 0], 0.4, 0.6], SIZE)
    shift = 3.0 * (rng.random(share.size) > share)
    columns = {f"x{j}": rng.normal(size=share.size) + shift for j in range(3)}
    group = np.repeat([f"g{j}" for j in range(6)], SIZE)
    names = [f"t{j}" for j in range(share.size)]
    table = pa.table({"task": names, "group": group, **columns}).take(rng.permutation(share.size))
    pq.write_table(table, folder / "tasks.parquet")
    paths, where = [folder / "tasks.parquet"], folder / "features"
    listed = list_features(paths, GroupSettings(), where, memory_gb=0.2)
    labelled = listed.table.group < 4
    return write_features(paths, listed, labelled, where, memory_gb=0.2, standardize=False)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.sharding.features.BLOCK_CELLS", ROWS * (1200 + 3))


def bags(which: range) -> list[tuple[int, int]]:
    return [(SIZE * code, SIZE * (code + 1)) for code in which]


def ratios_of(known: BagPasses, new: BagPasses) -> list[ClassRatio]:
    estimator = StreamedRatioEstimator().fit(known, SHARES, noise=NOISE)
    return estimator.predict_all(new)


def by_mapper(features: FeatureFolder, mapper: Mapper) -> list[ClassRatio]:
    known, new = (FeaturePasses(features, bags(of), mapper) for of in (range(4), range(4, 6)))
    return ratios_of(known, new)


def in_one_process(features: FeatureFolder) -> list[ClassRatio]:
    """Every row in memory, cut into the same blocks, nothing of the engine."""
    whole = np.load(features.folder / "rows.npy")

    def cut(of: range) -> LocalBlocks:
        return LocalBlocks(
            [[whole[at : min(at + ROWS, last)] for at in range(first, last, ROWS)]
             for first, last in bags(of)]
        )  # fmt: skip

    return ratios_of(cut(range(4)), cut(range(4, 6)))


def bytes_of(found: list[ClassRatio]) -> list[bytes]:
    return [array.tobytes() for one in found for array in (one.ratio, one.interval)]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_give_the_bytes_of_one_process(features: FeatureFolder, threads: int) -> None:
    with open_mapper(EngineSettings(workers=threads)) as mapper:
        found = by_mapper(features, mapper)
    assert bytes_of(found) == bytes_of(in_one_process(features))
    np.testing.assert_allclose([one.ratio[0] for one in found], [0.4, 0.6], atol=0.1)  # seed fixed


def die_once(piece: tuple[int, int], parameters: tuple[str, tuple[int, int], Any, Any]) -> Any:
    """Kill the process that works on one piece, the first time it comes there."""
    mark, fatal, work, rest = parameters
    if piece == fatal and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return work(piece, rest)


@pytest.mark.usefixtures("small_blocks")
def test_a_cluster_gives_the_bytes_of_one_process_and_a_worker_killed_in_mid_pass_changes_none(
    features: FeatureFolder, tmp_path: Path
) -> None:
    """SIGKILL from inside the work, in the second pass: what was sent for it must be sent again."""
    passes, mark = count(), tmp_path / "died"
    with open_dask_mapper(EngineSettings(kind="dask", workers=2, memory_gb=1.0)) as mapper:

        def deadly(
            work: Callable[[Any, Any], Any], pieces: Sequence[Any], parameters: Any
        ) -> Iterable[Any]:
            if next(passes) != 1:
                return mapper(work, pieces, parameters)
            fatal = pieces[len(pieces) // 2]
            return mapper(die_once, pieces, (str(mark), fatal, work, parameters))

        found = by_mapper(features, deadly)
    assert mark.exists()
    assert bytes_of(found) == bytes_of(in_one_process(features))


@pytest.mark.usefixtures("small_blocks")
def test_workers_that_lack_the_folder_read_the_same_rows_from_the_store(
    features: FeatureFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay where they began, and the folder has a path from another place."""
    (tmp_path / "store").mkdir()
    chosen = EngineSettings(kind="dask", workers=2, memory_gb=1.0, store=f"file://{tmp_path}/store")
    with open_dask_mapper(chosen) as mapper, stored(features.read_by_workers, chosen) as store:
        monkeypatch.chdir(features.folder.parent)
        here = replace(features, folder=Path(features.folder.name))
        with pytest.raises(EngineError, match="let every machine have the run folder"):
            by_mapper(here, mapper)
        found = by_mapper(replace(here, store=store), mapper)
    assert bytes_of(found) == bytes_of(in_one_process(features))
    assert list((tmp_path / "store").iterdir()) == []


def test_blocks_are_those_of_any_run_on_the_same_features(tmp_path: Path) -> None:
    wide = FeatureFolder(tmp_path, 10**9, 10**9, standardize=False)
    assert block_rows(FeatureFolder(tmp_path, 10**9, 50, standardize=False)) == 3200
    assert block_rows(wide) == 1


@pytest.mark.usefixtures("small_blocks")
def test_no_more_than_a_block_of_rows_is_loaded_at_once(
    features: FeatureFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the sample that scale, bandwidth and landmarks are chosen on, which has a fixed size."""
    monkeypatch.setattr("learners.class_ratios.streamed.SAMPLE_POINTS", 120)
    loaded, taken = list[int](), list[int]()
    rows, take = FeatureFolder.rows, FeatureFolder.take

    def counted(self: FeatureFolder, first: int, last: int) -> np.ndarray:
        loaded.append(last - first)
        return rows(self, first, last)

    def sampled(self: FeatureFolder, places: np.ndarray) -> np.ndarray:
        taken.append(len(places))
        return take(self, places)

    def refused(self: FeatureFolder) -> np.ndarray:
        raise AssertionError("all features were loaded")

    for name, method in {"rows": counted, "take": sampled, "load": refused}.items():
        monkeypatch.setattr(FeatureFolder, name, method)
    with open_mapper(EngineSettings(workers=1)) as mapper:
        by_mapper(features, mapper)
    assert max(loaded) == ROWS
    assert sum(loaded) >= 3 * 4 * SIZE + 2 * SIZE  # three passes over the labelled bags, one more
    assert taken == [30] * 4


def listening() -> set[tuple[str, int]]:
    """Addresses at which this process and those that it began can be reached."""
    own = psutil.Process()
    connections = [
        one for each in (own, *own.children(recursive=True)) for one in each.net_connections("inet")
    ]
    return {tuple(one.laddr) for one in connections if one.status == psutil.CONN_LISTEN}


def test_nobody_else_joins_a_cluster_that_is_started_here() -> None:
    """Whoever could would run code as this account, and read labels, ledger and key by it."""
    before = listening()
    with _open_client(EngineSettings(kind="dask", workers=1)) as client:
        assert {place for place, _ in listening() - before} == {"127.0.0.1"}
        scheme, _, place = client.scheduler.address.partition("://")
        assert scheme == "tls"
        with pytest.raises(OSError, match=r"reset by peer|Timed out"):
            Client(f"tcp://{place}", timeout="2s", set_as_default=False)  # type: ignore[no-untyped-call]

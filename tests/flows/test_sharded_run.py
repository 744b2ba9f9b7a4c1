"""The same campaign in memory, in shards and on a Dask cluster: the same results, paid for once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from flows.accounts import read_statements
from flows.pipeline import RunResult, Stage, run_pipeline, run_stage
from flows.run_store import Run
from flows.section import SettingsError
from flows.settings import Settings, load_settings
from flows.settings_sections import EngineSettings
from flows.text_table import TableError
from tests.flows.campaign import write_small_campaign

SHARDS = EngineSettings(shard_labels=400, memory_gb=0.3, checkpoint_every=2)
ITS_OWN = {"shards", "kept_fit.npz", "unfiltered_fit.npz"}  # what only a run on shards leaves
TABLES = ("workers", "consensus", "next_labels", "label_plan", "proportions", "class_ratios")
FACTS = (
    "quality",
    "consensus",
    "robustness",
    "proportions",
    "class_ratios",
    "gate",
    "bounds",
    "model",
)

SHARED_LOADS = ("hard_least", "hard_penalty", "balanced_penalty")


def settings_in(folder: Path, more: str = "") -> Settings:
    """The small campaign with its labels in Parquet."""
    path = write_small_campaign(folder)
    pq.write_table(pc.read_csv(folder / "labels.csv"), folder / "labels.parquet")
    text = path.read_text(encoding="utf-8").replace("labels.csv", "labels.parquet")
    path.write_text(text + more, encoding="utf-8")
    return load_settings(path)


def on(settings: Settings, engine: EngineSettings | None) -> Settings:
    return settings.model_copy(update={"engine": engine})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, RunResult, RunResult]:
    """One data set, one account: in memory first, then in shards."""
    settings = settings_in(tmp_path_factory.mktemp("sharded"))
    return settings, run_pipeline(settings), run_pipeline(on(settings, SHARDS))


def check_like(found: Any, expected: Any) -> None:
    """Equal, numbers up to the rounding of sums in another order."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            check_like(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_like(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-7)
    else:
        assert found == expected


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.column_names}


def bytes_of(folder: Path) -> dict[str, bytes]:
    """What a run found; not what tells when it was made, and of the runs before it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", "trend.json", "report.html")
    }


def test_a_run_on_shards_leaves_the_results_of_one_in_memory(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    _, whole, sharded = runs
    names = {path.name for path in whole.folder.iterdir()}
    assert {path.name for path in sharded.folder.iterdir()} == names | ITS_OWN
    assert len(list((sharded.folder / "shards").glob("shard-*.parquet"))) == 5
    for name in TABLES:
        tables = (pq.read_table(one.folder / f"{name}.parquet") for one in (sharded, whole))
        check_like(*map(columns_of, tables))
    for name in FACTS:
        texts = ((one.folder / f"{name}.json").read_text() for one in (sharded, whole))
        check_like(*map(json.loads, texts))


def test_the_releases_of_both_are_one_payment(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    """The consensus labels are the same, so that the ledger sees the same data."""
    settings, whole, sharded = runs
    for name in ("proportions.parquet", "class_ratios.parquet", "model.json", "spend.json"):
        assert (sharded.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    (found,) = read_statements(settings.state)
    assert found["spent"] == json.loads((whole.folder / "spend.json").read_text())["spent"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Creating scratch directories:UserWarning")  # a busy disk
def test_a_dask_cluster_leaves_the_bytes_of_threads(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    settings, _, sharded = runs
    chosen = SHARDS.model_copy(update={"kind": "dask", "workers": 2, "memory_gb": 1.0})
    assert bytes_of(run_pipeline(on(settings, chosen)).folder) == bytes_of(sharded.folder)


def test_a_run_killed_in_a_fit_goes_on_from_its_checkpoint(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    """Stopped in the third iteration: the resumed run starts from the second, and ends the same."""
    settings, _, sharded = runs
    told: list[int] = []

    def stop(what: str, done: int, total: int) -> None:
        told.append(done)
        if what == "EM over shards" and done == 3:
            raise KeyboardInterrupt

    def told_of(what: str, done: int, total: int) -> None:
        if what == "EM over shards":
            resumed.append(done)

    def stopping(stage: Stage, run: Run) -> str:
        return run_stage(stage, Run(run.folder, run.settings, progress=stop))

    def telling(stage: Stage, run: Run) -> str:
        return run_stage(stage, Run(run.folder, run.settings, progress=told_of))

    resumed: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(on(settings, SHARDS), step=stopping, again=True)
    found = run_pipeline(on(settings, SHARDS), step=telling, resume=True, again=True)
    assert resumed[0] == 3
    assert bytes_of(found.folder) == bytes_of(sharded.folder)


def test_what_needs_all_labels_is_left_out_of_tables_past_the_limit(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    chosen = SHARDS.model_copy(update={"whole_labels": 100, "whole_conflicts": 100})

    folder = run_pipeline(on(settings, chosen)).folder
    workers = pq.read_table(folder / "workers.parquet")
    for name in SHARED_LOADS:
        assert workers.column(name).null_count == len(workers)
    assert np.all(workers.column("soft_penalty").to_numpy() > 0)
    said = json.loads((folder / "robustness.json").read_text())
    assert said == {"skipped": "there are more labels than engine.whole_labels"}
    assert json.loads((folder / "consensus.json").read_text())["plan"]["n"] == 0
    assert "There are more labels than engine.whole_labels" in (folder / "report.html").read_text()


def test_penalties_that_workers_share_need_no_whole_table(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    settings, whole, _ = runs
    chosen = SHARDS.model_copy(update={"whole_labels": 0})
    folder = run_pipeline(on(settings, chosen), again=True).folder
    one, other = (pq.read_table(where / "workers.parquet") for where in (whole.folder, folder))
    for name in SHARED_LOADS:
        assert one.column(name).equals(other.column(name))
        assert one.column(name).null_count == 0


def test_labels_that_say_nothing_are_refused(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    rows = {"worker": ["a", "b"], "task": ["t001", "t001"], "label": ["a", "a"]}
    pq.write_table(pa.table(rows), tmp_path / "labels.parquet")
    with pytest.raises(TableError, match=r"labels.parquet: no two workers differ on any task"):
        run_pipeline(on(settings, SHARDS))


def test_a_task_that_is_in_no_task_table_is_refused_with_its_row(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    rows = {"worker": ["a", "b"], "task": ["t001", "t999"], "label": ["a", "b"]}
    pq.write_table(pa.table(rows), tmp_path / "labels.parquet")
    with pytest.raises(TableError, match="labels.parquet, row 2, column task: 't999' is not among"):
        run_pipeline(on(settings, SHARDS))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[engine]\nkind = 'spark'\n", "engine.kind: input should be 'local' or 'dask'"),
        ("[engine]\nscheduler = 'tcp://a:1'\n", 'engine: scheduler is for kind = "dask"'),
        (
            "[consensus]\naggregator = 'kos'\n[engine]\n",
            "[engine] needs consensus.aggregator to be",
        ),
    ],
)
def test_what_cannot_be_sharded_is_refused_in_one_sentence(
    tmp_path: Path, more: str, words: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_in(tmp_path, more)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("rule", ["false_removal_rate = 0.1", 'penalty = "hard"\nfraction = 0.1'])
def test_filters_that_need_all_labels_are_refused(tmp_path: Path, rule: str) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text(encoding="utf-8").replace("fraction = 0.1", rule) + "[engine]\n"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"\[engine\] needs filter.penalty"):
        load_settings(path)

"""The same campaign in memory, in shards and on a Dask cluster: the same results, paid for once."""

from __future__ import annotations

import json
import mmap
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from flows.pipeline import RunResult, Stage, run_pipeline, run_stage
from flows.run import Run, load_crowd, open_run
from flows.settings import EngineSettings, Settings, SettingsError
from flows.settings.settings import load_settings
from flows.spending import plan_releases, read_statements
from flows.stages import STAGES, outputs
from flows.stages.learning.class_ratios import Published, published_in
from flows.tables.refusals import TableError
from learners import StreamedRatioEstimator
from privacy import Unit
from privacy.ledger.releasing import fingerprint
from quality.choice import auto_by_shards
from tests.flows.campaign import write_small_campaign

SHARDS = EngineSettings(shard_labels=400, memory_gb=0.3, checkpoint_every=2)
ITS_OWN = {output.name for output in outputs() if output.only == "engine"}
TABLES = ("workers", "consensus", "next_labels", "label_plan", "proportions")
FACTS = ("quality", "consensus", "robustness", "proportions", "gate", "bounds", "model")

SHARED_LOADS = ("hard_least", "hard_penalty", "balanced_penalty")


def settings_in(folder: Path, more: str = "") -> Settings:
    """The small campaign with its labels and tasks in Parquet, and the default of shards by its name."""
    path = write_small_campaign(folder)
    text = path.read_text(encoding="utf-8")
    if "[consensus]" not in more:
        more = f'{more}\n[consensus]\naggregator = "hierarchical_dawid_skene"\n'
    for name in ("labels", "tasks"):
        pq.write_table(pc.read_csv(folder / f"{name}.csv"), folder / f"{name}.parquet")
        text = text.replace(f"{name}.csv", f"{name}.parquet")
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
    """The counts and the rows are the same, so that the ledger sees the same data."""
    settings, whole, sharded = runs
    for name in ("proportions.parquet", "model.json", "spend.json"):
        assert (sharded.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    (found,) = read_statements(settings.state)
    assert found["spent"] == json.loads((whole.folder / "spend.json").read_text())["spent"]
    said = [stage.line for stage in sharded.stages if stage.stage == "publish_proportions"]
    assert "6 of them paid for before" in said[0]


@pytest.mark.parametrize("unit", ["consensus label", "row"])
def test_what_is_asked_of_the_ledger_is_the_same_to_the_byte(
    runs: tuple[Settings, RunResult, RunResult], unit: str
) -> None:
    """Fingerprints bind mechanism, event, unit, partition and the counts themselves."""
    settings, whole, sharded = runs
    assert settings.privacy is not None
    privacy = settings.privacy.model_copy(update={"unit": Unit(unit)})
    asked = []
    for one, where in ((whole, settings), (sharded, on(settings, SHARDS))):
        run = Run(one.folder, where)
        plan = plan_releases(run, load_crowd(run.folder), privacy)
        asked.append(
            [
                fingerprint(mechanism, query, mechanism.event(query), key=b"key")
                for mechanism, query in plan.releases()
            ]
        )
    assert asked[0] == asked[1]
    assert len(asked[0]) == 6 + 2  # groups; training and the gate


def test_names_stay_in_the_run_folder_until_they_are_looked_at(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    _, whole, sharded = runs
    crowd, expected = load_crowd(sharded.folder), load_crowd(whole.folder)
    for found, given in (
        (crowd.labels.tasks, expected.labels.tasks),
        (crowd.labels.workers, expected.labels.workers),
        (crowd.table.names, expected.table.names),
    ):
        np.testing.assert_array_equal(found, given)
        base = found
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def test_a_model_on_shards_has_its_features_as_pages_of_files_that_go_with_it(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    settings, _, sharded = runs
    assert settings.privacy is not None
    run = Run(sharded.folder, on(settings, SHARDS))
    crowd = load_crowd(run.folder)
    learning = plan_releases(run, crowd, settings.privacy).learning
    assert learning is not None
    whole = crowd.label_features()
    held = learning.rows.holdout
    for query, expected in ((learning.training, whole[~held]), (learning.holdout, whole[held])):
        assert isinstance(query.value, dict)
        assert isinstance(query.value["x"], np.memmap)
        assert query.value["x"].tobytes() == expected.tobytes()
    left = {path.name for path in (run.folder / "features").iterdir()}
    assert left == {"rows.npy", "bags.npz", "features.json"}


def test_publication_needs_no_consensus_label_of_a_task(
    runs: tuple[Settings, RunResult, RunResult], tmp_path: Path
) -> None:
    settings, whole, sharded = runs
    shutil.copytree(sharded.folder, tmp_path / "run")
    (tmp_path / "run" / "consensus.parquet").unlink()
    counted = on(settings, SHARDS).model_copy(update={"model": None})
    assert settings.privacy is not None
    run = Run(tmp_path / "run", counted)
    plan = plan_releases(run, load_crowd(run.folder), settings.privacy)
    labels = pq.read_table(whole.folder / "consensus.parquet").to_pandas()
    expected = labels.groupby("group")["label"].value_counts()
    for query in plan.counts:
        assert query.part is not None
        found = [int(expected.get((query.part.name, name), 0)) for name in ("a", "b", "c")]
        assert np.asarray(query.value).tolist() == found


def test_class_ratios_are_those_of_the_streamed_estimator_in_one_process(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    """From the features that the run in memory has read, and the same published proportions."""
    settings, whole, sharded = runs
    crowd = load_crowd(whole.folder)
    published = published_in(Run(whole.folder, settings), crowd)
    assert isinstance(published, Published)
    features, group = crowd.label_features(), crowd.label_group()
    estimator = StreamedRatioEstimator(level=published.level, classes=published.classes).fit(
        [[features[group == code]] for code in range(6)],
        published.proportions,
        noise=published.noise,
    )
    table = pq.read_table(sharded.folder / "class_ratios.parquet")
    for code in (6, 7):
        expected = estimator.predict([crowd.table.features[crowd.table.group == code]])
        rows = table.filter(pyarrow.compute.equal(table["group"], f"u{code - 6}"))
        assert rows["ratio"].to_numpy().tobytes() == expected.ratio.tobytes()
        assert rows["low"].to_numpy().tobytes() == expected.interval[:, 0].tobytes()
        assert rows["n"].to_pylist() == [40] * 3
    said = json.loads((sharded.folder / "class_ratios.json").read_text())
    assert said["method"] == "kernel mean matching of streamed features"
    assert said["cross_validated_l1"] == estimator.trial_.mean_error
    for page in ("report.html", "manifest.json"):
        assert said["method"] in (sharded.folder / page).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, RunResult, RunResult]:
    """The aggregator left to the default: in memory first, then in shards."""
    settings = settings_in(tmp_path_factory.mktemp("pooled"), "[consensus]\n")
    return settings, run_pipeline(settings), run_pipeline(on(settings, SHARDS))


def test_the_default_aggregator_on_shards_pools_by_the_rule_of_one_process(
    pooled: tuple[Settings, RunResult, RunResult],
) -> None:
    """One candidate fewer, message passing, which has a small weight in this campaign of 1,800 labels."""
    _, whole, sharded = pooled
    facts, expected = (
        json.loads((one.folder / "consensus.json").read_text()) for one in (sharded, whole)
    )
    assert facts["aggregator"] == expected["aggregator"] == "auto"
    choice, of_all = facts["choice"], expected["choice"]
    assert choice["chosen"] == of_all["chosen"]
    assert choice["n_held_out"] == of_all["n_held_out"]
    others = [score for score in of_all["scores"] if score["name"] != "kos"]
    (kos,) = (score["weight"] for score in of_all["scores"] if score["name"] == "kos")
    for one, other in zip(choice["scores"], others, strict=True):
        assert one["name"] == other["name"]
        assert one["log_likelihood"] == pytest.approx(other["log_likelihood"], abs=1e-7)
        assert one["weight"] == pytest.approx(other["weight"] / (1 - kos), abs=1e-5)
    labels, of_whole = (
        pq.read_table(one.folder / "consensus.parquet").column("label").to_pylist()
        for one in (sharded, whole)
    )
    assert np.mean([one == other for one, other in zip(labels, of_whole, strict=True)]) > 0.99


def test_a_pool_killed_in_a_fit_ends_with_the_bytes_of_one_that_was_not(
    pooled: tuple[Settings, RunResult, RunResult],
) -> None:
    """Stopped in a fit to labels of which a fold is held out, after others have ended."""
    settings, _, sharded = pooled
    told: list[int] = []

    def stop(what: str, done: int, total: int) -> None:
        told.append(done)
        if what.startswith("EM over shards") and told.count(5) == 30:
            raise KeyboardInterrupt

    def stopping(stage: Stage, run: Run) -> str:
        return run_stage(stage, Run(run.folder, run.settings, progress=stop))

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(on(settings, SHARDS), step=stopping, again=True)
    found = run_pipeline(on(settings, SHARDS), resume=True, again=True)
    assert bytes_of(found.folder) == bytes_of(sharded.folder)


def test_a_pool_killed_after_its_first_looks_ends_with_the_bytes_of_one_that_was_not(
    pooled: tuple[Settings, RunResult, RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in a fit that goes on from its first look, after a checkpoint of its own."""
    settings, _, _ = pooled
    large = partial(auto_by_shards, enough=100)  # as if one fold were enough
    monkeypatch.setattr("flows.stages.labels.sharded_labels.auto_by_shards", large)
    told: list[str] = []

    def stop(what: str, done: int, total: int) -> None:
        told.append(what)
        if what == "EM over shards: dawid skene-without-0" and told.count(what) == 6:
            raise KeyboardInterrupt

    def stopping(stage: Stage, run: Run) -> str:
        return run_stage(stage, Run(run.folder, run.settings, progress=stop))

    whole = run_pipeline(on(settings, SHARDS), again=True)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(on(settings, SHARDS), step=stopping, again=True)
    assert "EM over shards: dawid skene-without-0-at-first" in told
    found = run_pipeline(on(settings, SHARDS), resume=True, again=True)
    assert bytes_of(found.folder) == bytes_of(whole.folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Creating scratch directories:UserWarning")  # a busy disk
def test_a_dask_cluster_leaves_the_bytes_of_threads(
    runs: tuple[Settings, RunResult, RunResult], tmp_path: Path
) -> None:
    """Its store has been in use, and is empty."""
    settings, _, sharded = runs
    (tmp_path / "store").mkdir()
    dask = {"kind": "dask", "workers": 2, "memory_gb": 1.0, "store": f"file://{tmp_path}/store"}
    found = run_pipeline(on(settings, SHARDS.model_copy(update=dask)))
    assert bytes_of(found.folder) == bytes_of(sharded.folder)
    assert list((tmp_path / "store").iterdir()) == []


def test_a_run_killed_in_a_fit_goes_on_from_its_checkpoint(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    """Stopped after the second stage of five iterations: the resumed run goes on from the first."""
    settings, _, sharded = runs
    told: list[int] = []

    def stop(what: str, done: int, total: int) -> None:
        told.append(done)
        if what.startswith("EM over shards") and done == 10:
            raise KeyboardInterrupt

    def told_of(what: str, done: int, total: int) -> None:
        if what.startswith("EM over shards") and done:
            resumed.append(done)

    def stopping(stage: Stage, run: Run) -> str:
        return run_stage(stage, Run(run.folder, run.settings, progress=stop))

    def telling(stage: Stage, run: Run) -> str:
        return run_stage(stage, Run(run.folder, run.settings, progress=told_of))

    resumed: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(on(settings, SHARDS), step=stopping, again=True)
    found = run_pipeline(on(settings, SHARDS), step=telling, resume=True, again=True)
    assert resumed[0] == 10
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
    assert "There are more labels than engine.whole_labels" in (folder / "report.html").read_text()


def test_penalties_that_workers_share_and_a_label_plan_need_no_whole_table(
    runs: tuple[Settings, RunResult, RunResult],
) -> None:
    """Features join only where the table is whole, so they are left out."""
    settings, _, _ = runs
    apart = settings.consensus.model_copy(update={"features": "ignore"})
    settings = settings.model_copy(update={"consensus": apart})
    chosen = SHARDS.model_copy(update={"whole_labels": 0})
    whole, folder = (
        run_pipeline(on(settings, engine), again=True).folder for engine in (None, chosen)
    )
    one, other = (pq.read_table(where / "workers.parquet") for where in (whole, folder))
    for name in SHARED_LOADS:
        assert one.column(name).equals(other.column(name))
        assert one.column(name).null_count == 0
    planned = (pq.read_table(at / "label_plan.parquet") for at in (folder, whole))
    found, expected = map(columns_of, planned)
    check_like(found, expected)
    assert len(found["task"]) > 0


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
        ("[engine]\nstore = 's3://crowd/work'\n", 'engine: store is for kind = "dask"'),
        (
            "[engine]\nkind = 'dask'\nstore = '/mnt/work'\n",
            "engine: store must be an address without",
        ),
        (
            "[engine]\nkind = 'dask'\nstore = 's3://key:secret@crowd/work'\n",
            "without a user, a password or a key, such as s3://crowd/work",
        ),
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


def with_filter(folder: Path, rule: str, more: str = "") -> Settings:
    settings = settings_in(folder, more)
    path = folder / "settings.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("fraction = 0.1", rule), "utf-8")
    found = load_settings(path)
    assert found.filter != settings.filter
    return found


@pytest.mark.parametrize("rule", ["false_removal_rate = 0.5", 'penalty = "hard"\nfraction = 0.1'])
def test_filters_of_all_labels_find_on_shards_whom_they_find_in_memory(
    tmp_path: Path, rule: str
) -> None:
    check_judged(with_filter(tmp_path, rule), SHARDS)


def test_the_default_filter_finds_past_the_limit_whom_it_finds_in_memory(tmp_path: Path) -> None:
    """From sums over shards; in one process from the whole table. Alpha has its interval there too."""
    few = SHARDS.model_copy(update={"whole_labels": 100})
    check_judged(with_filter(tmp_path, "false_removal_rate = 0.5"), few, alpha_alone=True)


def check_judged(settings: Settings, engine: EngineSettings, *, alpha_alone: bool = False) -> None:
    """The same workers are judged alike in memory and on shards, where alpha may stand alone."""
    tables, facts = [], []
    for one in (settings, on(settings, engine)):
        run = open_run(one, resume=False)
        for stage in STAGES[:2]:
            run_stage(stage, run)
        tables.append(columns_of(pq.read_table(run.folder / "workers.parquet")))
        facts.append(json.loads((run.folder / "quality.json").read_text()))
    assert any(tables[0]["flagged"])
    assert tables[0]["flagged"] == tables[1]["flagged"]
    assert tables[0]["reason"] == tables[1]["reason"]
    if alpha_alone:
        rows = facts[0]["agreement"]
        facts[0]["agreement"] = [
            row for row in rows if "alpha" in row["measure"] and "against" not in row["of"]
        ]
        assert len(facts[0]["agreement"]) == 2  # of all labels, and without the removed workers
    check_like(tables[1], tables[0])
    check_like(facts[1], facts[0])


def test_a_default_run_past_the_limit_is_never_refused(tmp_path: Path) -> None:
    """Nothing but the engine is named: filter, aggregator and all that follows are the default."""
    settings = with_filter(tmp_path, "", "[consensus]\n")
    run = run_pipeline(on(settings, SHARDS.model_copy(update={"whole_labels": 0})))
    found = json.loads((run.folder / "quality.json").read_text())
    assert found["stop"] == "false removal rate 0.1"
    assert json.loads((run.folder / "consensus.json").read_text())["aggregator"] == "auto"
    assert len(pq.read_table(run.folder / "proportions.parquet")) > 0
    assert len(pq.read_table(run.folder / "label_plan.parquet")) > 0


def test_a_filter_that_needs_all_labels_is_refused_past_the_limit_before_they_are_read(
    tmp_path: Path,
) -> None:
    few = SHARDS.model_copy(update={"whole_labels": 100})
    settings = on(with_filter(tmp_path, 'penalty = "hard"\nfraction = 0.1'), few)
    run = open_run(settings, resume=False)
    with pytest.raises(
        SettingsError,
        match=r"all labels in memory, up to engine.whole_labels = 100, and there are 1,800",
    ):
        run_stage(STAGES[0], run)
    assert not (run.folder / "shards").exists()

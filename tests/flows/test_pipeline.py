"""The whole story on a small campaign: same bytes twice, one payment, resume after every kill."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.pipeline import RunResult, Stage, nothing_new, run_pipeline, run_stage
from flows.run import PARTIAL, Run, digest_key
from flows.settings import EngineError, Settings
from flows.settings.settings import load_settings
from flows.spending import existing_ledger, read_statements
from flows.stages import KEPT, STAGES, outputs
from privacy import BudgetError
from privacy.ledger import releasing
from tests.flows.campaign import write_small_campaign

NAMES = tuple(stage.name for stage in STAGES)
OUTPUTS = {output.name for output in outputs() if output.only is None}
STAGE_MODULES = ("reading", "workers", "consensus", "publication", "learning.model", "reporting")


def run_and_die(path: Path, last: str) -> None:
    """Run, or go on with a run that died, and be killed as soon as a stage is whole."""

    def step(stage: Stage, run: Run) -> str:
        line = run_stage(stage, run)
        if stage.name == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    run_pipeline(load_settings(path), step=step, resume=True)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, RunResult]:
    settings = load_settings(write_small_campaign(tmp_path_factory.mktemp("campaign")))
    return settings, run_pipeline(settings)


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every output but the manifest, which alone knows times."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def interrupted(stage: Stage, run: Run) -> str:
    """A step that stops the run before the third stage, as Ctrl-C would."""
    if stage.name == "aggregate":
        raise KeyboardInterrupt
    return run_stage(stage, run)


def spent(settings: Settings) -> tuple[float, int]:
    (found,) = read_statements(settings.state)
    return found["spent"]["epsilon"], len(found["entries"])


def test_a_run_leaves_every_output(campaign: tuple[Settings, RunResult]) -> None:
    _, result = campaign
    voices = {"task_voices.parquet", "worker_voices.parquet"}  # its features join, and are few
    assert {path.name for path in result.folder.iterdir()} == OUTPUTS | voices
    assert tuple(stage.stage for stage in result.stages) == NAMES
    assert not any("skipped" in stage.line for stage in result.stages)


def test_the_state_folder_holds_what_is_declared(campaign: tuple[Settings, RunResult]) -> None:
    settings, _ = campaign
    for path in settings.state.iterdir():
        assert any(path.match(output.name) for output in KEPT), path.name


def test_digests_of_inputs_are_keyed(campaign: tuple[Settings, RunResult]) -> None:
    """A bare one could be compared with those of every file that the private one could be."""
    settings, result = campaign
    content = settings.input.labels.read_bytes()
    inputs = (result.folder / "inputs.json").read_text()
    for bare in (hashlib.sha256(content), hashlib.blake2b(content, digest_size=32)):
        assert bare.hexdigest() not in inputs
    key = (settings.state / "fingerprint.key").read_bytes()
    assert hashlib.blake2b(content, key=key, digest_size=32).hexdigest() in inputs
    elsewhere = settings.model_copy(update={"state": settings.state.with_name("other")})
    assert digest_key(elsewhere) != digest_key(settings)


def test_the_run_folder_is_its_owners_alone(campaign: tuple[Settings, RunResult]) -> None:
    settings, result = campaign
    assert result.folder.stat().st_mode & 0o777 == 0o700
    # names of runs show when data were new, as a run where nothing is leaves no folder
    assert settings.runs.stat().st_mode & 0o777 == 0o700
    assert (settings.state / "ledger.sqlite").stat().st_mode & 0o777 == 0o600
    assert (settings.state / "fingerprint.key").stat().st_mode & 0o777 == 0o600


def test_the_spend_is_proportions_and_the_dearer_cell_of_the_split(
    campaign: tuple[Settings, RunResult],
) -> None:
    settings, result = campaign
    gate = json.loads((result.folder / "gate.json").read_text())
    assert spent(settings)[0] == pytest.approx(2.0 + max(7.5, gate["epsilon"]), abs=1e-12)


def test_a_second_run_has_the_same_bytes_and_pays_nothing(
    campaign: tuple[Settings, RunResult],
) -> None:
    settings, first = campaign
    before = spent(settings)
    second = run_pipeline(settings, again=True)
    assert second.folder != first.folder
    assert bytes_of(second.folder) == bytes_of(first.folder)
    assert spent(settings) == before


def test_where_nothing_is_new_nothing_is_written(campaign: tuple[Settings, RunResult]) -> None:
    settings, _ = campaign
    left = {path: path.stat().st_mtime_ns for path in settings.runs.parent.rglob("*")}
    result = run_pipeline(settings)
    assert result.unchanged
    assert result.folder in left
    assert {path: path.stat().st_mtime_ns for path in settings.runs.parent.rglob("*")} == left


HEAVY = ("learners", "matplotlib", "numba", "opendp", "pandas", "prefect", "sklearn")
NOTHING_NEW = f"""
import sys
from pathlib import Path
from flows.pipeline import nothing_new
from flows.settings.settings import load_settings
found = nothing_new(load_settings(Path(sys.argv[1])))
print(found.unchanged, [name for name in {HEAVY} if name in sys.modules])
"""


SAMPLE = """
import sys
from pathlib import Path
from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from flows.simulate import copy_sample
run_pipeline(load_settings(copy_sample(Path(sys.argv[1]))))
unused = ("learners.genesis", "learners.streams", "learners.topics", "flows.power", "flows.watching")
print([name for name in sys.modules if name.startswith(unused)])
"""


def test_a_run_loads_no_stream_no_topic_and_no_simulator(tmp_path: Path) -> None:
    """So one that uses none of them costs nothing more; whatever else it uses."""
    asked = [sys.executable, "-c", SAMPLE, str(tmp_path)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_a_stage_works_with_is_imported_when_it_is_run(
    campaign: tuple[Settings, RunResult],
) -> None:
    """So a run where nothing is new, or without a model, does not wait for what it does not use."""
    settings, _ = campaign
    asked = [sys.executable, "-c", NOTHING_NEW, str(settings.runs.parent / "settings.toml")]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert told.stdout == "True []\n"


def test_other_settings_or_another_version_are_something_new(
    campaign: tuple[Settings, RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, _ = campaign
    assert nothing_new(settings) is not None
    assert nothing_new(settings.model_copy(update={"seed": 1})) is None
    version = {"python": "3.0", "versions": {}}
    monkeypatch.setattr("flows.run.history.code_version", lambda: version)
    assert nothing_new(settings) is None


def test_a_campaign_that_was_moved_whole_or_keeps_fewer_runs_is_nothing_new(
    campaign: tuple[Settings, RunResult], tmp_path: Path
) -> None:
    settings, _ = campaign
    moved = shutil.copytree(settings.runs.parent, tmp_path / "moved")
    path = moved / "settings.toml"
    path.write_text("keep_runs = 20\n" + path.read_text())
    found = nothing_new(load_settings(path))
    assert found is not None
    assert found.folder.parent == moved / "runs"
    (moved / "labels.csv").rename(moved / "others.csv")
    path.write_text(path.read_text().replace("labels.csv", "others.csv"))
    assert nothing_new(load_settings(path)) is None


def test_a_run_is_whole_though_older_ones_cannot_be_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small_campaign(tmp_path)
    path.write_text('name = "bare"\nkeep_runs = 1\n[input]\nlabels = "labels.csv"\n')

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("flows.pipeline.prune_runs", refused)
    assert run_pipeline(load_settings(path)).report.is_file()


@pytest.mark.prefect
def test_as_a_prefect_flow_a_run_has_the_same_bytes_and_pays_nothing(
    campaign: tuple[Settings, RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect.flow import run_as_flow

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    settings, first = campaign
    before, told = spent(settings), []
    path = settings.input.labels.parent / "settings.toml"
    flow = run_as_flow(path, home=settings.state / "prefect", print_line=told.append, again=True)
    assert flow.folder != first.folder
    assert "/runs/flow-run/" in told[0]
    assert bytes_of(flow.folder) == bytes_of(first.folder)
    assert spent(settings) == before


def test_a_run_killed_after_every_stage_is_resumed_and_never_pays_twice(
    campaign: tuple[Settings, RunResult], tmp_path: Path
) -> None:
    """Eight processes, each goes on from where SIGKILL ended the one before; forked ready-made."""
    settings, reference = campaign
    path = tmp_path / "settings.toml"
    for name in ("labels.csv", "tasks.csv", "gold.csv", "settings.toml"):
        shutil.copy(settings.input.labels.parent / name, tmp_path)
    own, context = load_settings(path), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"flows.stages.{module}" for module in STAGE_MODULES])
    for n_done, stage in enumerate(NAMES, start=1):
        killed = context.Process(target=run_and_die, args=(path, stage))
        killed.start()
        killed.join()
        assert killed.exitcode == -signal.SIGKILL, stage
        (partial,) = own.runs.iterdir()
        assert partial.name.startswith(PARTIAL)
        written = json.loads((partial / "manifest.json").read_text(encoding="utf-8"))
        assert tuple(written["stages"]) == NAMES[:n_done]
    resumed = run_pipeline(own, resume=True)
    assert [p.name for p in own.runs.iterdir()] == [resumed.folder.name]
    assert spent(own)[1] == spent(settings)[1]
    again = run_pipeline(own, again=True)
    assert bytes_of(again.folder) == bytes_of(resumed.folder)
    assert spent(own)[1] == spent(settings)[1]
    internal = ("consensus.parquet", "crowd.npz", "next_labels.parquet", "workers.parquet")
    assert all(bytes_of(resumed.folder)[n] == bytes_of(reference.folder)[n] for n in internal)


def run_and_die_in(path: Path, stage: str, when: str) -> None:
    """Run, or go on, and be killed in a stage: as its payment is booked, or as its value is stored."""

    def step(which: Stage, run: Run) -> str:
        if which.name == stage:
            where, name = (releasing, "_draw") if when == "paid" else (Run, "keep_head")
            setattr(where, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        return run_stage(which, run)

    run_pipeline(load_settings(path), step=step, resume=True)


def test_a_run_killed_within_a_stage_delivers_what_it_paid_for_and_never_pays_twice(
    tmp_path: Path,
) -> None:
    """Killed when the price is booked and nothing is drawn, then when the value is stored and not written."""
    path = write_small_campaign(tmp_path)
    own, context = load_settings(path), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"flows.stages.{module}" for module in STAGE_MODULES])
    states = []
    for stage in ("publish_proportions", "train_privately"):
        for when in ("paid", "stored"):
            killed = context.Process(target=run_and_die_in, args=(path, stage, when))
            killed.start()
            killed.join()
            assert killed.exitcode == -signal.SIGKILL, (stage, when)
            (statement,) = read_statements(own.state)
            released = {entry["released"] for entry in statement["entries"]}
            states.append((statement["spent"]["epsilon"], False in released))
    assert states == [(2.0, True), (2.0, False), (9.5, True), (9.5, False)]
    with existing_ledger(own.state) as ledger:
        before = ledger.head().n_rows
    resumed = run_pipeline(own, resume=True)
    model = json.loads((resumed.folder / "model.json").read_text(encoding="utf-8"))
    assert model["entry"] == 7
    (statement,) = read_statements(own.state)
    assert [entry["what"] for entry in statement["entries"]].count("rows to train on") == 1
    with existing_ledger(own.state) as ledger:
        assert ledger.head().n_rows == before + 2  # the gate's entry and its answer


def test_resume_does_not_run_a_finished_stage_again(tmp_path: Path) -> None:
    settings = load_settings(write_small_campaign(tmp_path))

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(settings, step=interrupted)
    (partial,) = settings.runs.iterdir()
    touched = (partial / "workers.parquet").stat().st_mtime_ns
    resumed = run_pipeline(settings, resume=True)
    assert (resumed.folder / "workers.parquet").stat().st_mtime_ns == touched


def test_what_is_finished_stays_where_the_cluster_is_gone(tmp_path: Path) -> None:
    settings = load_settings(write_small_campaign(tmp_path))

    def gone(stage: Stage, run: Run) -> str:
        if stage.name == "aggregate":
            raise EngineError("no worker lives")
        return run_stage(stage, run)

    with pytest.raises(EngineError):
        run_pipeline(settings, step=gone)
    (partial,) = settings.runs.iterdir()
    assert run_pipeline(settings, resume=True).folder.name == partial.name.removeprefix(PARTIAL)


def test_resume_starts_anew_where_an_input_has_changed(tmp_path: Path) -> None:
    settings = load_settings(write_small_campaign(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(settings, step=interrupted)
    rows = settings.input.labels.read_text().splitlines()
    settings.input.labels.write_text("\n".join(rows[:-1]) + "\n")
    resumed = run_pipeline(settings, resume=True)
    left = {p.name for p in settings.runs.iterdir()}
    assert len(left) == 2
    assert resumed.folder.name in left


def test_a_campaign_of_labels_alone_skips_with_plain_lines(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    path = tmp_path / "settings.toml"
    path.write_text('name = "bare"\n[input]\nlabels = "labels.csv"\n')
    result = run_pipeline(load_settings(path))
    said = {stage.stage: stage.line for stage in result.stages}
    assert said["publish_proportions"].startswith("skipped: the settings have no [privacy] section")
    assert said["train_privately"] == "skipped: the settings have no [model] section"
    assert not (tmp_path / "state").exists()
    assert result.report.is_file()


def test_undeclared_classes_are_for_quality_work_only(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    path.write_text(path.read_text().replace('classes = ["a", "b", "c"]\n', ""))
    result = run_pipeline(load_settings(path))
    said = {stage.stage: stage.line for stage in result.stages}
    assert "do not declare the classes" in said["publish_proportions"]
    assert not (tmp_path / "state").exists()


def test_too_few_tasks_for_a_model_are_a_plain_line(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    rows = (tmp_path / "labels.csv").read_text().splitlines()
    (tmp_path / "labels.csv").write_text("\n".join(rows[:11]) + "\n")
    said = {stage.stage: stage.line for stage in run_pipeline(load_settings(path)).stages}
    few = "skipped: there are too few labelled tasks to deal to training, validation and holdout"
    assert said["train_privately"] == said["ask_holdout"] == few


def test_a_budget_that_its_own_settings_exceed_is_refused_before_any_table_is_read(
    tmp_path: Path,
) -> None:
    path = write_small_campaign(tmp_path)
    path.write_text(path.read_text().replace("epsilon = 20.0", "epsilon = 8.0"))
    (tmp_path / "labels.csv").write_text("no table")
    with pytest.raises(BudgetError, match=r"asked epsilon=9\.5"):
        run_pipeline(load_settings(path))
    assert not (tmp_path / "runs").exists()


def test_without_groups_all_tasks_are_one_group(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    path = tmp_path / "settings.toml"
    path.write_text(
        'name = "bare"\nclasses = ["a", "b", "c"]\n[input]\nlabels = "labels.csv"\n[privacy]\nepsilon = 1.0\n'
    )
    said = {stage.stage: stage.line for stage in run_pipeline(load_settings(path)).stages}
    assert said["publish_proportions"].startswith(
        "1 group at epsilon 1 per consensus label (all newly paid)"
    )
    assert said["estimate_ratios"] == "skipped: there are no task features"


def test_one_release_is_no_plan(campaign: tuple[Settings, RunResult]) -> None:
    _, result = campaign
    proportions = json.loads((result.folder / "proportions.json").read_text("utf-8"))
    assert not {"n_planned", "n_drawn"} & set(proportions)
    assert json.loads((result.folder / "spend.json").read_text("utf-8"))["plans"] == []
    for name in ("report.html", "public.html"):
        assert "planned release" not in (result.folder / name).read_text("utf-8")


@pytest.mark.refusal
@pytest.mark.parametrize("given", ["settings.toml", Path("settings.toml"), None])
def test_a_path_in_place_of_settings_is_refused_with_what_loads_them(given: object) -> None:
    """It was an AttributeError: 'str' object has no attribute 'state'."""
    with pytest.raises(
        TypeError, match=r"^settings must be Settings, got .*; load them: flows\.load"
    ):
        run_pipeline(given)  # type: ignore[arg-type]

"""The whole story on a small campaign: same bytes twice, one payment, resume after every kill."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.accounts import read_statements
from flows.pipeline import RunResult, Stage, run_pipeline, run_stage
from flows.run_store import Run
from flows.settings import Settings, load_settings
from tests.flows.campaign import write_small_campaign

STAGES = (
    "read_and_check",
    "judge_workers",
    "aggregate",
    "publish_proportions",
    "estimate_ratios",
    "train_privately",
    "ask_holdout",
    "write_report",
)
OUTPUTS = {
    "bounds.json",
    "class_ratios.json",
    "class_ratios.parquet",
    "consensus.json",
    "consensus.parquet",
    "crowd.npz",
    "gate.json",
    "inputs.json",
    "manifest.json",
    "model.json",
    "next_labels.parquet",
    "proportions.json",
    "proportions.parquet",
    "public.html",
    "quality.json",
    "report.html",
    "spend.json",
    "workers.parquet",
}
KILL_AFTER = """
import os, signal, sys
from pathlib import Path
from flows.pipeline import run_pipeline, run_stage
from flows.settings import load_settings
def step(stage, run):
    line = run_stage(stage, run)
    if stage.__name__ == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return line
run_pipeline(load_settings(Path(sys.argv[1])), step=step)
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, RunResult]:
    settings = load_settings(write_small_campaign(tmp_path_factory.mktemp("campaign")))
    return settings, run_pipeline(settings)


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every output but the manifest, which alone knows times."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "manifest.json"}


def interrupted(stage: Stage, run: Run) -> str:
    """A step that stops the run before the third stage, as Ctrl-C would."""
    if stage.__name__ == "aggregate":
        raise KeyboardInterrupt
    return run_stage(stage, run)


def spent(settings: Settings) -> tuple[float, int]:
    (found,) = read_statements(settings.state)
    return found["spent"]["epsilon"], len(found["entries"])


def test_a_run_leaves_every_output(campaign: tuple[Settings, RunResult]) -> None:
    _, result = campaign
    assert {path.name for path in result.folder.iterdir()} == OUTPUTS
    assert tuple(stage.stage for stage in result.stages) == STAGES
    assert not any("skipped" in stage.line for stage in result.stages)


def test_the_run_folder_is_its_owners_alone(campaign: tuple[Settings, RunResult]) -> None:
    settings, result = campaign
    assert result.folder.stat().st_mode & 0o777 == 0o700
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
    second = run_pipeline(settings)
    assert bytes_of(second.folder) == bytes_of(first.folder)
    assert spent(settings) == before


@pytest.mark.prefect
def test_as_a_prefect_flow_a_run_has_the_same_bytes_and_pays_nothing(
    campaign: tuple[Settings, RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect_flow import run_as_flow

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    settings, first = campaign
    before, told = spent(settings), []
    path = settings.input.labels.parent / "settings.toml"
    flow = run_as_flow(path, home=settings.state / "prefect", tell=told.append)
    assert "/runs/flow-run/" in told[0]
    assert bytes_of(flow.folder) == bytes_of(first.folder)
    assert spent(settings) == before


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_run_is_resumed_and_never_pays_twice(
    campaign: tuple[Settings, RunResult], tmp_path: Path, stage: str
) -> None:
    settings, reference = campaign
    path = tmp_path / "settings.toml"
    for name in ("labels.csv", "tasks.csv", "gold.csv"):
        shutil.copy(settings.input.labels.parent / name, tmp_path)
    shutil.copy(settings.input.labels.parent / "settings.toml", path)
    killed = subprocess.run(
        [sys.executable, "-c", KILL_AFTER, str(path), stage], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    own = load_settings(path)
    resumed = run_pipeline(own, resume=True)
    assert [p.name for p in own.runs.iterdir()] == [resumed.folder.name]
    assert spent(own)[1] == spent(settings)[1]
    again = run_pipeline(own)
    assert bytes_of(again.folder) == bytes_of(resumed.folder)
    assert spent(own)[1] == spent(settings)[1]
    internal = ("consensus.parquet", "crowd.npz", "next_labels.parquet", "workers.parquet")
    assert all(bytes_of(resumed.folder)[n] == bytes_of(reference.folder)[n] for n in internal)


def test_resume_does_not_run_a_finished_stage_again(tmp_path: Path) -> None:
    settings = load_settings(write_small_campaign(tmp_path))

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(settings, step=interrupted)
    (partial,) = settings.runs.iterdir()
    touched = (partial / "workers.parquet").stat().st_mtime_ns
    resumed = run_pipeline(settings, resume=True)
    assert (resumed.folder / "workers.parquet").stat().st_mtime_ns == touched


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


def test_without_groups_all_tasks_are_one_group(tmp_path: Path) -> None:
    write_small_campaign(tmp_path)
    path = tmp_path / "settings.toml"
    path.write_text(
        'name = "bare"\nclasses = ["a", "b", "c"]\n[input]\nlabels = "labels.csv"\n[privacy]\nepsilon = 1.0\n'
    )
    said = {stage.stage: stage.line for stage in run_pipeline(load_settings(path)).stages}
    assert said["publish_proportions"].startswith("1 group at epsilon 1 (all newly paid)")
    assert said["estimate_ratios"] == "skipped: there are no task features"

"""Runs are pruned without losing what is needed; the doctor sees what is wrong; help in the day's order."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from importlib.metadata import metadata, version
from importlib.resources import files
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flows.cli import app
from flows.cli.root import DAY
from flows.pipeline import Stage, run_pipeline, run_stage
from flows.run import Run, limit_of, list_runs
from flows.settings import SettingsError, load_settings
from tests.flows.campaign import write_small_campaign


def invoke(*words: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    assert invoke("run", str(write_small_campaign(folder)), "--no-prefect").exit_code == 0
    return folder


@pytest.fixture
def five_runs(one_run: Path, tmp_path: Path) -> Path:
    """The run five times, a day apart, the newest yesterday; and one that did not end."""
    folder = tmp_path / "campaign"
    shutil.copytree(one_run, folder)
    (whole,) = (folder / "runs").iterdir()
    for days in range(1, 6):
        ended = datetime.now(UTC) - timedelta(days=days)
        copy = folder / "runs" / f"{ended:%Y%m%dT%H%M%SZ}-small"
        shutil.copytree(whole, copy)
        manifest = json.loads((copy / "manifest.json").read_text())
        (copy / "manifest.json").write_text(json.dumps(manifest | {"ended": ended.isoformat()}))
    shutil.rmtree(whole)
    (folder / "runs" / ".partial-20200101T000000Z-small").mkdir()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in (folder / "runs").iterdir())


def forget_ledger(folder: Path, which: list[str]) -> None:
    """Let runs be some that paid nothing."""
    for name in which:
        path = folder / "runs" / name / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"ledger": None}))


@pytest.mark.parametrize(("keep", "left"), [("2", 2), ("3 days", 2), ("1 day", 1), ("99", 5)])
def test_runs_are_kept_by_number_or_age_and_the_newest_always(
    five_runs: Path, keep: str, left: int
) -> None:
    before = names(five_runs)
    forget_ledger(five_runs, before[1:-1])
    state = sorted(one.name for one in (five_runs / "state").iterdir())
    words = ("prune", str(five_runs / "settings.toml"), "--keep", keep)
    told = invoke(*words, "--dry-run")
    assert (told.exit_code, f"{5 - left} runs would go" in told.output) == (0, True)
    assert names(five_runs) == before
    assert invoke(*words).exit_code == 0
    assert names(five_runs) == [before[0], *before[-left:]]
    assert sorted(one.name for one in (five_runs / "state").iterdir()) == state
    assert invoke("run", str(five_runs / "settings.toml"), "--no-prefect", "--again").exit_code == 0


def test_the_run_that_saw_the_ledger_at_its_longest_is_kept(five_runs: Path) -> None:
    before = names(five_runs)
    forget_ledger(five_runs, [one for one in before[1:] if one != before[2]])
    assert invoke("prune", str(five_runs / "settings.toml"), "--keep", "1").exit_code == 0
    assert names(five_runs) == [before[0], before[2], before[-1]]


def test_a_run_prunes_where_the_settings_say_so(five_runs: Path) -> None:
    path = five_runs / "settings.toml"
    path.write_text("keep_runs = 2\n" + path.read_text())
    forget_ledger(five_runs, names(five_runs)[1:])
    newest = names(five_runs)[-1]
    assert invoke("run", str(path), "--no-prefect", "--again").exit_code == 0
    assert len(names(five_runs)) == 3
    assert newest in names(five_runs)


@pytest.mark.parametrize("keep", ["99999999999 days", "0", "ever"])
def test_what_is_no_number_of_runs_and_no_age_is_refused(one_run: Path, keep: str) -> None:
    told = invoke("prune", str(one_run / "settings.toml"), "--keep", keep)
    assert told.exit_code == 2
    assert "what is kept must be a number of runs, such as 20, or an age" in told.stderr
    text = (one_run / "settings.toml").read_text()
    (one_run / "other.toml").write_text(f'keep_runs = "{keep}"\n{text}')
    assert invoke("run", str(one_run / "other.toml"), "--no-prefect").exit_code == 2


def test_without_a_number_nothing_is_pruned(one_run: Path) -> None:
    told = invoke("prune", str(one_run / "settings.toml"))
    assert (told.exit_code, "--keep 20" in told.stderr) == (2, True)
    told = invoke("prune", str(one_run / "settings.toml"), "--keep", "all")
    assert (told.exit_code, "must be a number of runs" in told.stderr) == (2, True)


@pytest.mark.parametrize("keep", ["0", "-1", "days", "1.5", ""])
def test_what_is_no_limit_is_refused(keep: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a number of runs, such as 20, or an age"):
        limit_of(keep)
    path = write_small_campaign(tmp_path)
    path.write_text(f'keep_runs = "{keep}"\n' + path.read_text())
    with pytest.raises(SettingsError, match="keep_runs"):
        load_settings(path)


def test_the_doctor_finds_a_sound_campaign_and_a_damaged_one(
    one_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    state = tmp_path / "state"
    shutil.copytree(one_run / "state", state)
    state.chmod(0o700)
    told = invoke("doctor", str(state), "--json")
    assert told.exit_code == 0, told.output
    found = {one["what"]: one for one in json.loads(told.stdout)}
    assert found["crowdassay"]["found"] == version("crowdassay")
    assert "each as it was written" in found["ledger"]["found"]
    state.chmod(0o755)
    (state / "ledger.sqlite").write_bytes(b"no ledger")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    told = invoke("doctor", str(state), "--json")
    assert told.exit_code == 2
    unsound = [one["what"] for one in json.loads(told.stdout) if not one["sound"]]
    assert unsound == ["Prefect", "state folder", "ledger"]
    (state / "fingerprint.key").chmod(0o644)  # as restored by a copy
    told = invoke("doctor", str(state), "--json")
    found = {one["what"]: one for one in json.loads(told.stdout)}
    assert f"chmod 600 {state}/fingerprint.key" in found["fingerprint.key"]["found"]
    told = invoke("doctor", str(tmp_path / "nowhere"), "--json")
    found = {one["what"]: one for one in json.loads(told.stdout)}
    assert (found["state folder"]["sound"], found["state folder"]["found"]) == (False, "not there")


def test_the_version_is_that_of_the_package() -> None:
    told = invoke("--version")
    assert (told.exit_code, told.output) == (0, f"crowdassay {version('crowdassay')}\n")


def test_help_lists_every_command_in_the_order_of_a_day() -> None:
    command = typer.main.get_command(app)
    listed = command.list_commands(None)  # type: ignore[attr-defined,arg-type]
    assert [name for name in listed if name in DAY] == list(DAY)
    text = invoke("--help").output
    places = [text.index(f"│ {name} ") for name in DAY]
    assert places == sorted(places)


@pytest.mark.parametrize("room", ["flows", "learners", "privacy", "quality"])
def test_types_are_shipped(room: str) -> None:
    assert files(room).joinpath("py.typed").is_file()


def test_the_metadata_of_the_package_are_complete() -> None:

    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert {"description", "readme", "license", "keywords", "classifiers"} <= project.keys()
    assert "Typing :: Typed" in project["classifiers"]
    assert metadata("crowdassay")["Name"] == project["name"]


def stop_at(folder: Path, stage: str, error: BaseException) -> None:
    """Run the small campaign until a stage, which ends it so."""
    settings = load_settings(write_small_campaign(folder))

    def step(now: Stage, run: Run) -> str:
        if now.name == stage:
            raise error
        return run_stage(now, run)

    with pytest.raises(type(error)):
        run_pipeline(settings, step=step)


@pytest.mark.parametrize(
    ("error", "state"), [(KeyboardInterrupt(), "cancelled"), (KeyError("a bug"), "failed")]
)
def test_a_run_that_stopped_is_listed_as_such_and_resumed(
    error: BaseException, state: str, tmp_path: Path
) -> None:
    stop_at(tmp_path, "judge_workers", error)
    settings = str(tmp_path / "settings.toml")
    listed = json.loads(invoke("runs", settings, "--json").stdout)["runs"]
    assert [(one["state"], one["stages"]) for one in listed] == [
        (state, "1, the last read_and_check")
    ]
    shown = invoke("runs", settings)
    advice = re.search(r"crowdassay (run \S+ --resume)", shown.stdout)
    assert advice is not None
    assert invoke(*shlex.split(advice[1]), "--no-prefect").exit_code == 0
    listed = json.loads(invoke("runs", settings, "--json").stdout)["runs"]
    assert [one["state"] for one in listed] == ["complete"]  # in the same folder
    assert "--resume" not in invoke("runs", settings).stdout


def test_a_campaign_without_runs_is_a_sentence(tmp_path: Path) -> None:
    """It was a table without rows."""
    shown = invoke("runs", str(write_small_campaign(tmp_path)))
    assert (shown.exit_code, shown.stdout) == (0, f"small has no runs in {tmp_path / 'runs'}\n")


def test_a_run_whose_process_is_gone_died_and_one_of_another_machine_may_live(
    tmp_path: Path,
) -> None:
    stop_at(tmp_path, "judge_workers", KeyboardInterrupt())
    (folder,) = (tmp_path / "runs").iterdir()
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    pid = int(gone.stdout)
    own = json.loads((folder / "manifest.json").read_text())
    for process, state in (
        ({"host": platform.node(), "pid": pid}, "died"),
        ({"host": platform.node(), "pid": os.getpid()}, "running"),
        ({"host": "elsewhere", "pid": pid}, "running"),
    ):
        changed = own | {"state": "running", "process": process}
        (folder / "manifest.json").write_text(json.dumps(changed))
        (one,) = list_runs(load_settings(tmp_path / "settings.toml"))
        assert (one.state, one.can_resume) == (state, state == "died")


def test_a_refused_run_leaves_no_folder_and_its_reason_is_listed(
    one_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "campaign"
    shutil.copytree(one_run, folder)
    (folder / "labels.csv").write_text("worker,task,label\n")
    assert invoke("run", str(folder / "settings.toml"), "--no-prefect").exit_code == 2
    shown = invoke("runs", str(folder / "settings.toml"))
    assert "the newest run failed at" in shown.stdout
    assert "labels.csv has no rows" in shown.stdout
    assert len(names(folder)) == 1


def test_a_state_folder_is_closed_by_the_command_that_doctor_names(tmp_path: Path) -> None:
    """A path with a space was two words of it."""
    state = tmp_path / "my state"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    found = json.loads(invoke("doctor", str(state), "--json").stdout)
    (told,) = (one["found"] for one in found if one["what"] == "state folder")
    subprocess.run(shlex.split(told.partition("; ")[2].partition(" closes it")[0]), check=True)
    assert state.stat().st_mode & 0o777 == 0o700

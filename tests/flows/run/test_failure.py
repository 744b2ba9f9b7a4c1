"""Why the newest run failed is kept for its owner until another succeeds, whoever started it."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import run_pipeline
from flows.run import (
    LAST_FAILURE,
    find_unfinished,
    forget_failure,
    last_failure,
    note_failure,
    open_run,
)
from flows.settings import load_settings
from flows.stages import KEPT
from flows.tables import TableError
from tests.flows.campaign import write_small_campaign


def test_why_a_run_failed_is_kept_until_one_succeeds(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    settings, labels = load_settings(path), tmp_path / "labels.csv"
    settings.state.mkdir(mode=0o700)
    sound = labels.read_text()
    labels.write_text(sound + ",t,a\n")
    with pytest.raises(TableError) as refused:
        run_pipeline(settings)
    kept = last_failure(settings.state)
    assert kept is not None
    assert (kept["error"], kept["why"]) == ("TableError", str(refused.value))
    assert (settings.state / LAST_FAILURE).stat().st_mode & 0o777 == 0o600
    told = CliRunner().invoke(app, ["doctor", str(settings.state), "--json"])
    (found,) = [one for one in json.loads(told.stdout) if one["what"] == "newest run"]
    assert (found["sound"], str(refused.value) in found["found"]) == (False, True)
    labels.write_text(sound)
    run_pipeline(settings)
    assert last_failure(settings.state) is None


def test_the_note_of_a_failure_is_listed_as_one_that_may_hold_names() -> None:
    (listed,) = [output for output in KEPT if output.name == LAST_FAILURE]
    assert (listed.public, listed.private_names) == (False, True)


def test_without_a_state_folder_a_refused_run_leaves_nothing(tmp_path: Path) -> None:
    whole = load_settings(write_small_campaign(tmp_path))
    settings = whole.model_copy(update={"privacy": None, "model": None})
    (tmp_path / "labels.csv").unlink()
    with pytest.raises(TableError):
        run_pipeline(settings)
    assert not settings.state.exists()


def test_a_flow_that_fails_says_why_in_the_log_of_its_own_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = importlib.import_module("flows.prefect.flow")

    def refuse(*_: object, **__: object) -> None:
        raise TableError("labels.csv, row 3: 'canary' is not among the classes")

    monkeypatch.setattr(flow, "_pipeline", refuse)
    state = flow._called(tmp_path / "settings.toml", resume=False)
    assert state.type == "FAILED"
    assert "row 3: 'canary'" in capsys.readouterr().err
    assert "canary" not in str(state.message)


def test_a_note_that_cannot_be_written_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / LAST_FAILURE).mkdir()  # nothing can be renamed to it
    note_failure(tmp_path, ValueError("x"), "x", campaign="posts")
    assert last_failure(tmp_path) is None


def test_a_run_on_which_another_process_is_at_work_is_not_resumed(tmp_path: Path) -> None:
    """Two would write one folder, and the first to end would take it from under the other."""
    settings = load_settings(write_small_campaign(tmp_path))
    run = open_run(settings)
    assert open_run(settings, resume=True).folder == run.folder  # of this process
    manifest = run.read_json("manifest.json")
    manifest["process"]["pid"] = os.getppid()
    run.write_json("manifest.json", manifest)
    assert open_run(settings, resume=True).folder != run.folder
    manifest["process"]["pid"] = 2**22 + 1  # above any that Linux gives
    run.write_json("manifest.json", manifest)
    assert find_unfinished(settings, manifest["identity"]) is not None


def test_a_failure_is_of_its_own_campaign(tmp_path: Path) -> None:
    """Campaigns that share a state folder neither show each other's failures nor forget them."""
    note_failure(tmp_path, ValueError("x"), "x", campaign="posts")
    assert last_failure(tmp_path, "photos") is None
    forget_failure(tmp_path, "photos")
    assert last_failure(tmp_path, "posts") == last_failure(tmp_path)
    forget_failure(tmp_path, "posts")
    assert last_failure(tmp_path) is None

"""What Prefect's artifacts hold of a run: what its public page holds, and nothing about private data."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.pipeline import RunResult
from flows.report import public_page
from flows.run import Run
from flows.stages import STAGES
from flows.terminal import progress
from tests.flows.report.report_folder import overwrite_what_is_internal, write_folder

pytestmark = pytest.mark.prefect


def summary(folder: Path, *, unchanged: bool) -> str:
    from flows.prefect.artifacts import _summary

    result = RunResult(folder, folder / "report.html", (), unchanged)
    return _summary("spring", public_page(folder), result)


def test_the_summary_does_not_say_whether_anything_was_new(tmp_path: Path) -> None:
    """That inputs are those of the run before is a fact about private data."""
    folder = write_folder(tmp_path)
    assert summary(folder, unchanged=True) == summary(folder, unchanged=False)


def test_the_summary_depends_on_released_values_alone_and_names_the_unit_of_each_price(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path)
    before = summary(folder, unchanged=False)
    overwrite_what_is_internal(folder)
    assert summary(folder, unchanged=False) == before
    for words in (
        "at epsilon 1, delta 0 per consensus label (exact noise)",
        "(train, select, score) at epsilon 1 + 0.5 + 0.1, delta 0 per row (noise in double precision)",
        "at epsilon 0.5 per row (exact noise)",
    ):
        assert words in before


def test_a_long_stage_says_what_it_waits_for_but_not_how_many_steps_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many workers are removed, say, is the run's own; how long it takes, Prefect knows."""
    from flows.prefect import artifacts

    told: list[tuple[float, str]] = []
    monkeypatch.setattr(artifacts, "create_progress_artifact", lambda *_, **__: "here")
    monkeypatch.setattr(artifacts, "update_progress_artifact", lambda _, *what: told.append(what))
    monkeypatch.setattr(progress, "FIRST_WORD", 0.01)
    monkeypatch.setattr(artifacts, "APART", 0.0)

    def inner(stage: Any, run: Run) -> str:
        assert run.progress is not None
        run.progress("removals", 1234, 5678)
        end = time.monotonic() + 60
        while not told and time.monotonic() < end:
            time.sleep(0.005)
        return "done"

    step = artifacts.step_with_progress(inner, "spring")
    settings: Any = SimpleNamespace()
    assert step(STAGES[1], Run(tmp_path, settings)) == "done"
    (share, words), *_, (last_share, last) = told
    assert share == 0.0
    assert words.startswith("judge workers: removals; ")
    assert not {"1234", "1,234", "5678", "5,678"} & set(words.replace(";", " ").split())
    assert (last_share, last) == (100.0 / len(STAGES), f"1 of {len(STAGES)} stages done")


def test_campaigns_whose_names_are_cleaned_to_one_have_artifacts_of_their_own() -> None:
    from flows.prefect.artifacts import _key

    keys = [_key(name, "summary") for name in ("web-1", "web_1", "Web.1", "web--1")]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "crowdassay-web-1-summary"


@pytest.mark.parametrize(("seen", "slower"), [(True, "APART"), (False, "APART_UNSEEN")])
def test_stages_that_end_at_once_are_told_together_and_the_last_always(
    seen: bool, slower: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect import artifacts

    told: list[tuple[float, str]] = []
    monkeypatch.setattr(artifacts, "create_progress_artifact", lambda *_, **__: "here")
    monkeypatch.setattr(artifacts, "update_progress_artifact", lambda _, *what: told.append(what))
    for name in ("APART", "APART_UNSEEN"):
        monkeypatch.setattr(artifacts, name, 3600.0 if name == slower else 0.0)
    step = artifacts.step_with_progress(lambda stage, _: stage.name, "spring", seen=seen)
    settings: Any = SimpleNamespace()
    for stage in STAGES:
        step(stage, Run(tmp_path, settings))
    assert told == [(100.0, f"{len(STAGES)} of {len(STAGES)} stages done")]

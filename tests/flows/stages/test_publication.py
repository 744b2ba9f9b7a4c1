"""Planned releases of class counts: paid once, drawn as the data change, and never beyond the plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.pipeline import run_pipeline, run_stage
from flows.run import Run, open_run
from flows.settings import Settings, SettingsError
from flows.settings.settings import load_settings
from flows.spending import preview, read_statements
from flows.stages import STAGES
from tests.flows.campaign import write_small_campaign

PUBLISH = [stage.name for stage in STAGES].index("publish_proportions")


def spent(settings: Settings) -> float:
    (found,) = read_statements(settings.state)
    epsilon: float = found["spent"]["epsilon"]
    return epsilon


def planned_campaign(folder: Path, *, n_planned: int, delta: float = 1e-6) -> Settings:
    """The small campaign with several releases of class counts for its price."""
    path = write_small_campaign(folder)
    planned = f"delta = 1e-5\nplanned_releases = {n_planned}\nproportions_delta = {delta}\n"
    path.write_text(path.read_text().replace("[privacy]\n", "[privacy]\n" + planned))
    return load_settings(path)


def published(settings: Settings) -> tuple[Run, str]:
    """A run as far as the published proportions, and that stage's line."""
    run = open_run(settings)
    return run, [run_stage(stage, run) for stage in STAGES[: PUBLISH + 1]][-1]


def relabel(settings: Settings, task: str) -> None:
    """Have everybody give one task the class that nobody gave it before."""
    lines = settings.input.labels.read_text().splitlines()
    given = {line[-1] for line in lines if f",{task}," in line}
    (new, *_) = sorted({"a", "b", "c"} - given)
    changed = [line[:-1] + new if f",{task}," in line else line for line in lines]
    settings.input.labels.write_text("\n".join(changed) + "\n")


def agreed_tasks(settings: Settings) -> list[str]:
    """Tasks that everybody gave one class."""
    given: dict[str, set[str]] = {}
    for line in settings.input.labels.read_text().splitlines()[1:]:
        _, task, label = line.split(",")
        given.setdefault(task, set()).add(label)
    return [task for task, labels in given.items() if len(labels) == 1]


def test_planned_releases_are_paid_once_for_as_many_changes_of_the_data(tmp_path: Path) -> None:
    settings = planned_campaign(tmp_path, n_planned=2)
    first, line = published(settings)
    assert "6 groups at epsilon 2 per consensus label (release 1 of 2 that this pays for)" in line
    again, line = published(settings)
    assert "release 1 of 2" in line
    assert again.read_table("proportions.parquet") == first.read_table("proportions.parquet")
    asked = preview(settings.state, settings)
    assert asked["parts"][0]["note"] == "paid by entry 1; 1 of 2 releases left"
    assert asked["asked"]["epsilon"] == 7.5
    one, two, *_ = agreed_tasks(settings)
    relabel(settings, one)
    changed, line = published(settings)
    assert "release 2 of 2" in line
    assert changed.read_table("proportions.parquet") != first.read_table("proportions.parquet")
    assert spent(settings) == 2.0
    relabel(settings, one)
    relabel(settings, two)
    run = open_run(settings)
    for stage in STAGES[:PUBLISH]:
        run_stage(stage, run)
    with pytest.raises(SettingsError, match="the 2 planned releases of class counts are used up"):
        STAGES[PUBLISH](run)
    assert spent(settings) == 2.0


def test_tasks_that_join_are_the_plans_next_release_for_their_groups(tmp_path: Path) -> None:
    settings = planned_campaign(tmp_path, n_planned=3, delta=0.0)
    whole = settings.input.labels.read_text()
    kept = [line for line in whole.splitlines() if ",t000," not in line]
    settings.input.labels.write_text("\n".join(kept) + "\n")
    before, line = published(settings)
    assert "release 1 of 3" in line
    settings.input.labels.write_text(whole)
    after, line = published(settings)
    assert "release 2 of 3" in line
    first, second = (
        {row["group"]: row["entry"] for row in run.read_table("proportions.parquet").to_pylist()}
        for run in (before, after)
    )
    assert {group for group in first if first[group] != second[group]} == {"g0"}


def test_a_plan_of_the_same_price_for_other_noise_is_not_paid_again(tmp_path: Path) -> None:
    settings = planned_campaign(tmp_path, n_planned=2)
    published(settings)
    path = tmp_path / "settings.toml"
    path.write_text(path.read_text().replace('["a", "b", "c"]', '["a", "b", "c", "d"]'))
    with pytest.raises(SettingsError, match="a plan of this price is paid already"):
        published(load_settings(path))
    assert spent(settings) == 2.0


def test_reports_tell_planned_releases_and_only_the_teams_tells_how_many_were_drawn(
    tmp_path: Path,
) -> None:
    settings = planned_campaign(tmp_path, n_planned=3)
    folder = run_pipeline(settings).folder
    internal, public = (
        (folder / name).read_text("utf-8") for name in ("report.html", "public.html")
    )
    assert "released as number 1 of 3 planned releases" in internal
    assert "(paid by entry 1)" in internal
    assert "released as one of 3 planned releases" in public
    assert "released as number" not in public
    released = json.loads((folder / "public" / "release.json").read_text("utf-8"))["proportions"]
    assert (released["n_planned"], released["epsilon"], released["delta"]) == (3, 2.0, 1e-6)
    assert "n_drawn" not in released
    spend = json.loads((folder / "spend.json").read_text("utf-8"))
    assert (spend["plans"][0]["used"], spend["plans"][0]["n_releases"]) == (1, 3)
    assert spend["n_entries"] == len(spend["entries"]) == 9


def test_no_release_cannot_be_planned(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="planned_releases: input should be greater than or"):
        planned_campaign(tmp_path, n_planned=0)

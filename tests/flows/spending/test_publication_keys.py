"""Publication keys of a campaign: what a run publishes under one, and a ledger that was set back."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import flows.run.store
from flows.pipeline import RunResult, nothing_new, run_pipeline
from flows.run import Run, open_run
from flows.settings import Settings, load_settings
from flows.spending import LedgerSetBack, existing_ledger, open_state, read_statements
from flows.stages import STAGES, Stage
from privacy import LedgerError
from tests.flows.campaign import write_small_campaign

PRICE = 9.5  # of a run of the small campaign: 2 for the counts, 7.5 for the model, beside the gate


class Clock:
    """The time at which runs begin."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 30, 23, 59, 50, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(flows.run.store, "_now", clock)
    return clock


def campaign(folder: Path, key: str, *more: str, model: bool = True) -> Path:
    """The small campaign with a publication key."""
    path = write_small_campaign(folder)
    lines = "\n".join(["epsilon = 40.0", f'publication = "{key}"', *more])
    text = path.read_text().replace("epsilon = 20.0", lines)
    path.write_text(text if model else text.partition("[model]")[0])
    return path


def set_key(path: Path, key: str) -> None:
    path.write_text(re.sub(r'publication = ".*"', f'publication = "{key}"', path.read_text()))


def relabel(path: Path, *, how_many: int = 60) -> None:
    """Have everybody give the first tasks one class."""
    labels = path.with_name("labels.csv")
    lines = labels.read_text().splitlines()
    tasks = {f"t{j:03d}" for j in range(how_many)}
    changed = [line[:-1] + "a" if line.split(",")[1] in tasks else line for line in lines]
    labels.write_text("\n".join(changed) + "\n")


def leave_out(path: Path, *tasks: str) -> None:
    """Drop the labels of tasks, so that fewer are labelled."""
    labels = path.with_name("labels.csv")
    lines = [line for line in labels.read_text().splitlines() if line.split(",")[1] not in tasks]
    labels.write_text("\n".join(lines) + "\n")


def public(result: RunResult) -> dict[str, bytes]:
    """What is published, without class ratios, which are computed anew from the features."""
    found: dict[str, bytes] = {
        "proportions.csv": (result.folder / "public" / "proportions.csv").read_bytes()
    }
    release = json.loads((result.folder / "public" / "release.json").read_bytes())
    del release["class_ratios"]
    return found | {"release.json": json.dumps(release).encode()}


def said(result: RunResult, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((result.folder / f"{name}.json").read_text("utf-8"))
    return found


def spent(path: Path) -> float:
    (found,) = read_statements(path.parent / "state")
    epsilon: float = found["spent"]["epsilon"]
    return epsilon


def test_a_run_under_a_key_publishes_once_whatever_becomes_of_the_data(tmp_path: Path) -> None:
    """Counts, model, score, selection and the holdout's answer; the team is told what is older."""
    path = campaign(tmp_path, "2026-11")
    first = run_pipeline(load_settings(path))
    relabel(path)
    leave_out(path, "t100", "t101", "t350")
    second = run_pipeline(load_settings(path))
    assert not second.unchanged
    assert public(second) == public(first)
    assert said(second, "model")["coef"] == said(first, "model")["coef"]
    assert spent(path) == PRICE
    for name, key in (("proportions", "n_stale"), ("model", "stale"), ("gate", "stale")):
        assert not said(first, name)[key]
        assert said(second, name)[key]
    assert said(second, "gate")["n"] == said(first, "gate")["n"]
    assert (
        "Publication 2026-11, older than these data" in (second.folder / "report.html").read_text()
    )
    assert "older than" not in (second.folder / "public.html").read_text()
    bounds = {one["name"] for one in said(first, "bounds")["bounds"]}
    still = {one["name"] for one in said(second, "bounds")["bounds"]}
    assert len(bounds - still) == 1  # the one about the rows that were trained on


def test_another_key_is_paid_anew_on_unchanged_data(tmp_path: Path) -> None:
    path = campaign(tmp_path, "2026-11")
    first = run_pipeline(load_settings(path))
    assert run_pipeline(load_settings(path)).unchanged
    set_key(path, "2026-12")
    second = run_pipeline(load_settings(path))
    assert not second.unchanged
    assert public(second)["proportions.csv"] != public(first)["proportions.csv"]
    assert said(second, "model")["coef"] != said(first, "model")["coef"]
    assert spent(path) == 2 * PRICE
    assert len(said(second, "trend")["runs"]) == 2


def test_a_key_that_is_a_date_changes_with_the_date_and_not_with_the_data(
    tmp_path: Path, clock: Clock
) -> None:
    path = campaign(tmp_path, "web-%Y-%m")
    first = run_pipeline(load_settings(path))
    assert said(first, "manifest")["publication"] == "web-2026-11"
    assert nothing_new(load_settings(path)) is not None
    clock.time = datetime(2026, 12, 1, tzinfo=UTC)
    assert nothing_new(load_settings(path)) is None
    second = run_pipeline(load_settings(path))
    assert said(second, "manifest")["publication"] == "web-2026-12"
    assert spent(path) == 2 * PRICE
    relabel(path)
    assert public(run_pipeline(load_settings(path))) == public(second)
    assert spent(path) == 2 * PRICE


class Died(BaseException):
    """Ends a run as a signal would."""


def die_before(name: str) -> Any:
    """Run stages until one is reached."""

    def step(stage: Stage, run: Run) -> str:
        if stage.name == name:
            raise Died
        return flows.pipeline.run_stage(stage, run)

    return step


def test_a_run_that_is_resumed_keeps_the_key_with_which_it_began(
    tmp_path: Path, clock: Clock
) -> None:
    path = campaign(tmp_path, "%Y-%m")
    with pytest.raises(Died):
        run_pipeline(load_settings(path), step=die_before("train_privately"))
    assert spent(path) == 2.0
    clock.time = datetime(2026, 12, 1, tzinfo=UTC)
    done = run_pipeline(load_settings(path), resume=True)
    assert said(done, "model")["publication"] == "2026-11"
    assert spent(path) == PRICE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('classes = ["a", "b", "c"]', 'classes = ["b", "a", "c"]'),
        ("proportions_epsilon = 2.0", "proportions_epsilon = 1.0"),
        ('name = "small"', 'name = "small"\nseed = 5'),
        ("epsilon_train = 6.0", "epsilon_train = 5.0"),
        ("sigma = 0.02", "sigma = 0.03"),
    ],
)
def test_a_key_is_refused_for_other_terms_before_anything_is_spent(
    tmp_path: Path, old: str, new: str
) -> None:
    path = campaign(tmp_path, "2026-11")
    run_pipeline(load_settings(path))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(LedgerError, match="published already .* Give another publication key"):
        run_pipeline(load_settings(path))
    assert spent(path) == PRICE
    set_key(path, "2026-11b")
    run_pipeline(load_settings(path))


def published_counts(settings: Settings) -> str:
    """A run as far as the published proportions; what that stage said."""
    run = open_run(settings)
    for stage in STAGES:
        line = flows.pipeline.run_stage(stage, run)
        if stage.name == "publish_proportions":
            run.discard()
            return line
    raise AssertionError


def test_other_keys_are_paid_by_the_plan_as_long_as_releases_are_left(tmp_path: Path) -> None:
    path = campaign(
        tmp_path,
        "10",
        "delta = 1e-5",
        "planned_releases = 2",
        "proportions_delta = 1e-6",
        model=False,
    )
    assert "publication 10: release 1 of 2" in published_counts(load_settings(path))
    relabel(path)
    line = published_counts(load_settings(path))
    assert "publication 10: release 1 of 2" in line
    assert "changed since" in line
    set_key(path, "11")
    assert "publication 11: release 2 of 2" in published_counts(load_settings(path))
    set_key(path, "12")
    with pytest.raises(ValueError, match="the 2 planned releases of class counts are used up"):
        published_counts(load_settings(path))
    set_key(path, "10")
    assert "publication 10: release 2 of 2" in published_counts(load_settings(path))
    assert spent(path) == 2.0


def test_what_is_spent_under_keys_does_not_depend_on_the_data(tmp_path: Path) -> None:
    """Two campaigns, the same keys; the data of one change in between: entry by entry the same."""
    listed = []
    for name, changes in (("still", False), ("moving", True)):
        path = campaign(tmp_path / name, "10")
        run_pipeline(load_settings(path))
        if changes:
            relabel(path)
        run_pipeline(load_settings(path), again=True)
        set_key(path, "11")
        run_pipeline(load_settings(path))
        (found,) = read_statements(tmp_path / name / "state")
        shown = ("what", "cell", "epsilon", "released")
        listed.append([[entry[key] for key in shown] for entry in found["entries"]])
    assert listed[0] == listed[1]


def rollback(state: Path, copy: Path) -> None:
    """Set the ledger back whole to an earlier copy."""
    for left in state.glob("ledger.sqlite*"):
        left.unlink()
    shutil.copy(copy, state / "ledger.sqlite")
    (state / "ledger.sqlite").chmod(0o600)


@pytest.fixture
def set_back(tmp_path: Path) -> Path:
    """A campaign of two runs whose ledger was then set back to what it was after the first."""
    path = campaign(tmp_path, "10", model=False)
    run_pipeline(load_settings(path))
    existing_ledger(tmp_path / "state").backup(tmp_path / "copy.sqlite")
    set_key(path, "11")
    run_pipeline(load_settings(path))
    rollback(tmp_path / "state", tmp_path / "copy.sqlite")
    return path


def test_a_ledger_older_than_a_run_it_paid_for_is_refused(set_back: Path) -> None:
    runs = sorted((set_back.parent / "runs").iterdir())
    before = (set_back.parent / "state" / "ledger.sqlite").read_bytes()
    set_key(set_back, "12")
    for how in ({}, {"resume": True}, {"again": True}):
        with pytest.raises(LedgerSetBack, match=f"had paid for the run {runs[-1].name}: an older"):
            run_pipeline(load_settings(set_back), **how)
    assert sorted((set_back.parent / "runs").iterdir()) == runs
    assert (set_back.parent / "state" / "ledger.sqlite").read_bytes() == before


def test_a_ledger_set_back_stays_refused_after_others_have_spent_from_it(set_back: Path) -> None:
    """More rows than it had do not hide that some are missing."""
    with open_state(set_back.parent / "state") as ledger:
        for number in range(40):
            ledger.open_budget(f"other {number}", unit="row", epsilon=1.0, delta=0.0, n=5)
    set_key(set_back, "12")
    with pytest.raises(LedgerSetBack, match="an older copy or another ledger is in its place"):
        run_pipeline(load_settings(set_back))


def test_a_lost_ledger_is_not_begun_anew_beside_the_runs_that_it_paid_for(set_back: Path) -> None:
    shutil.rmtree(set_back.parent / "state")
    set_key(set_back, "12")
    with pytest.raises(LedgerSetBack, match="the ledger is missing"):
        run_pipeline(load_settings(set_back))
    assert not (set_back.parent / "state").exists()


def test_a_run_that_died_is_not_resumed_on_a_ledger_set_back(tmp_path: Path) -> None:
    path = campaign(tmp_path, "10", model=False)
    open_state(tmp_path / "state").backup(tmp_path / "copy.sqlite")
    with pytest.raises(Died):
        run_pipeline(load_settings(path), step=die_before("ask_holdout"))
    (partial,) = (tmp_path / "runs").iterdir()
    kept = sorted(one.name for one in partial.iterdir())
    rollback(tmp_path / "state", tmp_path / "copy.sqlite")
    with pytest.raises(LedgerSetBack, match=re.escape(partial.name)):
        run_pipeline(load_settings(path), resume=True)
    assert sorted(one.name for one in partial.iterdir()) == kept


def test_a_ledger_set_back_while_a_run_works_is_seen_before_the_next_payment(
    tmp_path: Path,
) -> None:
    path = campaign(tmp_path, "10")
    open_state(tmp_path / "state").backup(tmp_path / "copy.sqlite")

    def swap(stage: Stage, run: Run) -> str:
        if stage.name == "train_privately":
            rollback(tmp_path / "state", tmp_path / "copy.sqlite")
        return flows.pipeline.run_stage(stage, run)

    with pytest.raises(LedgerSetBack):
        run_pipeline(load_settings(path), step=swap)
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_nobody_is_refused_whose_ledger_has_only_grown(tmp_path: Path) -> None:
    """Other campaigns' rows, runs that were deleted, moved or copied whole, a copied project."""
    path = campaign(tmp_path / "one", "10", model=False)
    first = run_pipeline(load_settings(path))
    with open_state(path.parent / "state") as ledger:
        ledger.open_budget("other", unit="row", epsilon=1.0, delta=0.0, n=5)
    shutil.copytree(path.parent, tmp_path / "two")
    shutil.copytree(first.folder, first.folder.with_name(first.folder.name + "-7"))
    for folder in ("one", "two"):
        set_key(tmp_path / folder / "settings.toml", "11")
        run_pipeline(load_settings(tmp_path / folder / "settings.toml"))
    shutil.rmtree(first.folder)
    set_key(path, "12")
    run_pipeline(load_settings(path))
    other = tmp_path / "two" / "runs"
    other.rename(tmp_path / "two" / "elsewhere")
    set_key(tmp_path / "two" / "settings.toml", "12")
    run_pipeline(load_settings(tmp_path / "two" / "settings.toml"))


def test_a_run_of_a_copied_project_shows_that_this_ledger_lacks_its_price(tmp_path: Path) -> None:
    path = campaign(tmp_path / "one", "10", model=False)
    run_pipeline(load_settings(path))
    shutil.copytree(path.parent, tmp_path / "two")
    set_key(tmp_path / "two" / "settings.toml", "11")
    there = run_pipeline(load_settings(tmp_path / "two" / "settings.toml"))
    shutil.copytree(there.folder, path.parent / "runs" / there.folder.name)
    set_key(path, "12")
    with pytest.raises(LedgerSetBack, match=there.folder.name):
        run_pipeline(load_settings(path))

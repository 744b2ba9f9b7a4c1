"""A ledger that was set back whole is seen by the campaign's next run, and nobody else is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from flows.pipeline import run_pipeline, run_stage
from flows.run import Run
from flows.settings import (
    load_settings,
)
from flows.spending import (
    LedgerSetBack,
    existing_ledger,
    open_state,
)
from flows.stages import Stage
from tests.flows.spending.keyed_campaign import (
    Died,
    campaign,
    die_before,
    set_key,
)


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
        return run_stage(stage, run)

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

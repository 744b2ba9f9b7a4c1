"""Where a campaign's ledger lies."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.report import render_report
from flows.run import Run
from flows.settings import Settings, SettingsError
from flows.spending import (
    LEDGER_URL,
    LedgerSetBack,
    existing_ledger,
    known_statement,
    open_account,
    open_state,
    paying,
    read_statements,
    statement,
)
from flows.spending.account import check_not_set_back, known_ledger
from privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeLaplace,
    Ledger,
    LedgerError,
    Part,
    Publication,
    PureEvent,
    Unit,
    plan,
)
from tests.flows.campaign import toy_run, toy_settings
from tests.flows.report.report_folder import write_folder
from tests.privacy.ledger.processes import race
from tests.privacy.toy import Forgetful, counts_query, question


def test_a_campaigns_ledger_lies_in_its_state_folder(tmp_path: Path) -> None:
    ledger = open_state(tmp_path / "state")
    ledger.open_budget("toy", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    assert [found["dataset"] for found in read_statements(tmp_path / "state")] == ["toy"]


def test_a_ledgers_url_that_is_none_is_a_mistake_told_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEDGER_URL, "postgres://me:hunter2@host/db")
    with pytest.raises(SettingsError, match=f"{LEDGER_URL}: the ledger's URL must be") as refused:
        open_state(tmp_path)
    assert "hunter2" not in str(refused.value)


def test_a_ledger_that_is_no_url_is_refused_and_no_file_of_that_name_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path would be another ledger, of nothing spent, in each folder that one works in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(LEDGER_URL, "hunter2")
    with pytest.raises(SettingsError, match=f"{LEDGER_URL} must hold the URL") as refused:
        open_state(tmp_path / "state")
    assert "hunter2" not in str(refused.value)
    assert not (tmp_path / "hunter2").exists()


@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_for_a_ledgers_url_opens_no_second_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    """As a job has it whose secret is missing: what it paid for would be paid again."""
    monkeypatch.setenv(LEDGER_URL, blank)
    for asked in (open_state, known_ledger):
        with pytest.raises(SettingsError, match=f"{LEDGER_URL} must hold .*, and it is blank"):
            asked(tmp_path)
    assert list(tmp_path.iterdir()) == []


def toy_ledger(folder: Path) -> Ledger:
    """Five releases at a tenth each, two of them on cells of one partition; a budget of 1."""
    ledger = open_state(folder)
    ledger.open_budget("toy", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=0.0, n=4)
    for size in (1, 2, 3):
        ledger.release(LatticeLaplace(0.1), counts_query((size, 1)))
    for name, epsilon in (("north", 0.1), ("south", 0.2)):
        ledger.release(LatticeLaplace(epsilon), counts_query(part=Part("site:1", name)))
    return ledger


def test_a_statement_lists_the_newest_entries_and_its_totals_are_of_all(tmp_path: Path) -> None:
    ledger = toy_ledger(tmp_path / "state")
    found = statement(ledger, "toy", entries=2)
    assert [entry["entry"] for entry in found["entries"]] == [4, 5]
    assert found["n_entries"] == 5
    assert found["spent"]["epsilon"] == 0.5
    whole = statement(ledger, "toy")
    assert (len(whole["entries"]), whole["spent"]) == (5, found["spent"])


def test_how_many_more_fit_is_told_by_the_dearest_cell_of_a_round(tmp_path: Path) -> None:
    toy_ledger(tmp_path / "state")
    (found,) = read_statements(tmp_path / "state")
    cells, whole = found["fits"]
    assert (cells["cells"], cells["epsilon"], cells["more"]) == (True, 0.2, 2)
    assert (whole["cells"], whole["epsilon"], whole["more"]) == (False, 0.1, 5)


def test_publications_under_several_keys_are_one_kind(tmp_path: Path) -> None:
    ledger = open_state(tmp_path)
    ledger.open_budget("toy", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=0.0, n=4)
    for key in ("10", "11", "12"):
        ledger.release(LatticeLaplace(0.1), replace(counts_query(), publication=Publication(key)))
    (found,) = read_statements(tmp_path)
    assert [(kind["what"], kind["more"]) for kind in found["fits"]] == [("class counts", 7)]


def test_each_price_is_a_kind_of_its_own(tmp_path: Path) -> None:
    ledger = toy_ledger(tmp_path)
    ledger.release(LatticeLaplace(0.05), counts_query())
    ledger.release(DiscreteLaplace(0.05), counts_query())
    (found,) = read_statements(tmp_path)
    told = [(kind["epsilon"], kind["cells"], kind["more"]) for kind in found["fits"]]
    assert told == [(0.05, False, 8), (0.2, True, 2), (0.1, False, 4)]


def test_a_folder_without_a_ledger_is_named_and_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="holds no ledger.sqlite; name the state folder"):
        read_statements(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_must_be_one_of_the_ledgers(tmp_path: Path) -> None:
    toy_ledger(tmp_path / "state")
    with pytest.raises(LedgerError, match="--dataset must be one of toy, got 'other'"):
        read_statements(tmp_path / "state", dataset="other")
    (found,) = read_statements(tmp_path / "state", dataset="toy", raise_to=2.0)
    assert found["budget"]["epsilon"] == 2.0


@pytest.mark.parametrize("epsilon", [0.7, 1.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_budget_is_raised_and_nothing_else(tmp_path: Path, epsilon: float) -> None:
    toy_ledger(tmp_path)
    with pytest.raises(
        LedgerError, match="--raise-to must be finite, and above the budget of 'toy'"
    ):
        read_statements(tmp_path, dataset="toy", raise_to=epsilon)
    with pytest.raises(LedgerError, match="--raise-to needs --dataset, one of toy"):
        read_statements(tmp_path, raise_to=2.0)
    (found,) = read_statements(tmp_path)
    assert found["budget"]["epsilon"] == 1.0


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.1, 1.23456781234567])
def test_a_budgets_own_number_is_no_raise_of_it(tmp_path: Path, epsilon: float) -> None:
    """0.1 is a double above one tenth, which is what the ledger reads; the refusal rounds neither number."""
    with open_state(tmp_path) as ledger:
        ledger.open_budget("toy", unit=Unit.CONSENSUS_LABEL, epsilon=epsilon, delta=0.0, n=4)
        told = f"above the budget of 'toy', which is epsilon {epsilon}, got {epsilon}$"
        with pytest.raises(LedgerError, match=told):
            read_statements(tmp_path, dataset="toy", raise_to=epsilon)
        assert len(ledger.statement("toy").budgets) == 1
    (found,) = read_statements(tmp_path, dataset="toy", raise_to=math.nextafter(epsilon, 2.0))
    assert found["budget"]["epsilon"] > epsilon


def test_the_command_tells_delta_plans_and_what_was_not_drawn(tmp_path: Path) -> None:
    """Where the budget has a delta; entry 3 is paid and its draw has failed."""
    ledger = open_state(tmp_path)
    ledger.open_budget("toy", unit=Unit.CONSENSUS_LABEL, epsilon=2.0, delta=1e-6, n=4)
    ledger.open_budget("new", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    ledger.release(DiscreteGaussian(1.0, 1e-7), counts_query())
    two = plan({LatticeLaplace(0.25).event(counts_query()): 2}, delta=0.0)
    entry = ledger.open_plan("toy", two, name="two months")
    with pytest.raises(ValueError, match="x must be"):
        ledger.interact(Forgetful(0.125), counts_query(), question(-1))
    ledger.release(LatticeLaplace(0.25), counts_query(), plan=entry)
    told = CliRunner().invoke(app, ["budget", str(tmp_path)], env={"COLUMNS": "120"}).stdout
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert lines[0] == "new: epsilon 0 of 1 spent, 1 left (unit: row)"
    assert lines[1] == (
        "toy: epsilon 1.625 of 2 spent, 0.375 left; delta 1e-07 of 1e-06 spent, 9e-07 left "
        "(unit: consensus label)"
    )
    assert lines[2] == "entry time what cell noise epsilon delta"
    assert lines[3].endswith("class counts - exact 1 1e-07")
    assert lines[4].endswith("two months - exact 0.5 0")
    assert lines[5].endswith("class counts (paid, not drawn yet) - double 0.125 0")
    assert lines[6].endswith("class counts (paid by entry 2) - exact 0 0")
    assert "entry 2, two months: 1 of 2 releases used, exact noise" in lines
    assert "class counts at epsilon 0.125: 3 more fit" in lines


def test_a_full_disk_leaves_no_half_of_a_key(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(LedgerError, match="nothing was spent"):
            open_state(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    assert open_state(tmp_path).datasets() == ()


def race_to_open(folder: str, number: int, barrier: Any, results: Any) -> None:
    """Open a state folder that nobody has made."""
    barrier.wait()
    results.put(open_state(Path(folder)).datasets())


def test_processes_that_make_a_state_folder_make_one(tmp_path: Path) -> None:
    """No process reads a key that another has not finished writing."""
    assert race(tmp_path / "state", race_to_open, racers=14) == [()] * 14
    names = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert names == ["fingerprint.key", "ledger.sqlite"]


def test_the_report_says_which_entries_its_file_holds(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    path = folder / "spend.json"
    spend = json.loads(path.read_text("utf-8"))
    listed = len(spend["entries"])
    path.write_text(json.dumps(spend | {"n_entries": 5000}), "utf-8")
    assert f"of 5,000 entries are shown; the newest {listed} are in" in render_report(folder)
    path.write_text(json.dumps(spend | {"n_entries": listed}), "utf-8")
    assert "entries are shown" not in render_report(folder)


def test_a_statement_needs_no_numerical_library(tmp_path: Path) -> None:
    """Each of them takes longer to import than a ledger of a million entries to read."""
    toy_ledger(tmp_path).open_plan("toy", plan({PureEvent("toy", 0.1): 2}, delta=0.0), name="two")
    heavy = ["dp_accounting", "numba", "opendp", "pandas", "prefect", "scipy.special", "sklearn"]
    code = (
        "import sys; from pathlib import Path; from flows.spending.account import read_statements; "
        "read_statements(Path(sys.argv[1])); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_state_folder_has_a_key_of_its_own(tmp_path: Path) -> None:
    """A known key would let anybody try all small counts against a fingerprint."""
    keys = set()
    for name in ("one", "other"):
        open_state(tmp_path / name)
        keys.add((tmp_path / name / "fingerprint.key").read_bytes())
    assert len(keys) == 2
    assert all(len(key) == 32 and len(set(key)) > 8 for key in keys)


def test_a_ledger_that_has_lost_its_key_is_refused_and_gets_no_other(tmp_path: Path) -> None:
    open_state(tmp_path).open_budget("toy", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    (tmp_path / "fingerprint.key").rename(tmp_path / "kept")
    with pytest.raises(LedgerError, match="must hold the fingerprint.key that its ledger.sqlite"):
        open_state(tmp_path)
    assert not (tmp_path / "fingerprint.key").exists()
    (tmp_path / "kept").rename(tmp_path / "fingerprint.key")
    assert open_state(tmp_path).datasets() == ("toy",)


# the ledger's head in the manifests of runs ----------------------------------------------------


def paid(settings: Settings, run: Run, *releases: int) -> tuple[int, str]:
    """Pay for releases of a run; return the head of the ledger that its manifest has then."""
    assert settings.privacy is not None
    with paying(run, settings.privacy, n=4) as ledger:
        for size in releases:
            ledger.release(LatticeLaplace(0.1), counts_query((size, 1)))
    head: dict[str, Any] = run.read_json("manifest.json")["ledger"]
    return head["n_rows"], head["seal"]


def test_a_run_that_has_paid_notes_where_the_ledger_stood_though_its_stage_failed(
    tmp_path: Path,
) -> None:
    settings = toy_settings(tmp_path)
    run = toy_run(settings, "a")
    head = existing_head(settings, paid(settings, run, 1))
    with contextlib.suppress(KeyboardInterrupt), paying(run, settings.privacy, n=4) as ledger:  # type: ignore[arg-type]
        ledger.release(LatticeLaplace(0.1), counts_query((2, 1)))
        raise KeyboardInterrupt
    noted = run.read_json("manifest.json")["ledger"]["n_rows"]
    assert noted == existing_ledger(settings.state).head().n_rows > head


def existing_head(settings: Settings, noted: tuple[int, str]) -> int:
    """The number of the ledger's rows, which a manifest has noted with its seal."""
    head = existing_ledger(settings.state).head()
    assert noted == (head.n_rows, head.seal)
    return head.n_rows


def test_a_ledger_that_lacks_a_runs_price_pays_for_none(tmp_path: Path) -> None:
    """The newest run that it lacks is named, with how much the ledger then held."""
    settings = toy_settings(tmp_path)
    check_not_set_back(settings, None)  # nothing was paid
    runs = [toy_run(settings, "a"), Run(settings.runs / "2-toy", settings)]
    runs[1].folder.mkdir()
    runs[1].write_json("manifest.json", {"name": "toy"})
    open_account(settings, settings.privacy, n=4).backup(tmp_path / "early.sqlite")  # type: ignore[arg-type]
    heads = [paid(settings, run, size) for size, run in enumerate(runs, start=1)]
    check_not_set_back(settings, existing_ledger(settings.state))
    for left in settings.state.glob("ledger.sqlite*"):
        left.unlink()
    with pytest.raises(
        LedgerSetBack, match=f"is missing and lacks what it held, {heads[1][0]:,} rows"
    ):
        check_not_set_back(settings, None)
    (tmp_path / "early.sqlite").rename(settings.state / "ledger.sqlite")
    now = existing_ledger(settings.state).head().n_rows
    with pytest.raises(LedgerSetBack, match=f"has {now} rows .*paid for the run 2-toy: an older"):
        paid(settings, runs[0], 3)
    assert existing_ledger(settings.state).head().n_rows == now


def test_a_budget_is_opened_with_the_units_and_numbers_of_the_settings(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path, privacy={"epsilon": 2.5, "delta": 1e-6, "unit": "row"})
    assert settings.privacy is not None
    (found,) = (one for one in [open_account(settings, settings.privacy, n=9).statement("toy")])
    assert (found.unit, found.budgets[-1].n) == (Unit.ROW, 9)
    assert (float(found.budget.epsilon), float(found.budget.delta)) == (2.5, 1e-6)


def test_a_ledger_that_cannot_be_written_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    open_state(tmp_path)
    (tmp_path / "ledger.sqlite").chmod(0o400)
    with pytest.raises(LedgerError, match="is read-only; make it writable"):
        open_state(tmp_path)
    (tmp_path / "ledger.sqlite").chmod(0o600)
    open_state(tmp_path)


@pytest.mark.parametrize("name", ["ledger.sqlite", "fingerprint.key"])
def test_a_file_of_another_user_in_the_state_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As where one run was root's: "unable to open database file" said neither whose fault nor what to do."""
    open_state(tmp_path)
    foreign, access, read = tmp_path / name, os.access, Path.read_bytes

    def refused(path: Path) -> bytes:
        if path == foreign:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)  # the tests may run as root, who may read all
    monkeypatch.setattr(
        "flows.spending.account.os.access",
        lambda path, mode: path != foreign and access(path, mode),
    )
    with pytest.raises(LedgerError, match=rf"{name} must be readable .*by the user who runs this"):
        open_state(tmp_path)


def test_totals_are_known_of_data_sets_of_a_ledger_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LEDGER_URL, raising=False)
    assert known_statement(tmp_path, "toy") is None
    assert list(tmp_path.iterdir()) == []
    toy_ledger(tmp_path)
    assert known_statement(tmp_path, "other") is None
    found = known_statement(tmp_path, "toy")
    assert found is not None
    assert (found.n_entries, found.entries) == (5, ())
    monkeypatch.setenv(LEDGER_URL, "postgres://nowhere")  # beside which no folder needs a file
    with pytest.raises(SettingsError, match=LEDGER_URL):
        known_statement(tmp_path / "elsewhere", "toy")


def test_of_several_data_sets_one_or_all_are_stated(tmp_path: Path) -> None:
    toy_ledger(tmp_path).open_budget("other", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    assert [found["dataset"] for found in read_statements(tmp_path)] == ["other", "toy"]
    assert [found["dataset"] for found in read_statements(tmp_path, dataset="toy")] == ["toy"]
    with pytest.raises(LedgerError, match="--raise-to needs --dataset, one of other, toy"):
        read_statements(tmp_path, raise_to=2.0)


def test_a_raised_budget_keeps_its_delta(tmp_path: Path) -> None:
    open_state(tmp_path).open_budget("toy", unit=Unit.ROW, epsilon=1.0, delta=1e-6, n=4)
    (found,) = read_statements(tmp_path, dataset="toy", raise_to=1.5)
    assert found["budget"] == {"epsilon": 1.5, "delta": 1e-6}


def test_a_state_folder_that_is_read_only_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own words were of an attempt to write, where a budget was only looked at."""
    state = tmp_path / "state"
    open_state(state).open_budget("toy", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
    access = os.access
    monkeypatch.setattr(
        "flows.spending.account.os.access",
        lambda path, mode: not (path == state and mode == os.W_OK) and access(path, mode),
    )  # the tests may run as root, to whom every folder is writable
    with pytest.raises(
        LedgerError, match=r"state folder .*state is read-only, .* nothing was spent"
    ):
        read_statements(state)

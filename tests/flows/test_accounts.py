"""Where a campaign's ledger lies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows.accounts import LEDGER_URL, open_state, read_statements, statement
from flows.report.html import render_report
from flows.section import SettingsError
from privacy import LatticeLaplace, Ledger, LedgerError, Part, PureEvent, Unit, plan
from tests.flows.report_folder import write_folder
from tests.privacy.toy import counts_query


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


def test_a_data_set_must_be_one_of_the_ledgers(tmp_path: Path) -> None:
    toy_ledger(tmp_path / "state")
    with pytest.raises(LedgerError, match="--dataset must be one of toy, got 'other'"):
        read_statements(tmp_path / "state", dataset="other")
    (found,) = read_statements(tmp_path / "state", dataset="toy", raise_to=2.0)
    assert found["budget"]["epsilon"] == 2.0


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
        "import sys; from pathlib import Path; from flows.accounts import read_statements; "
        "read_statements(Path(sys.argv[1])); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

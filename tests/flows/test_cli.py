"""The command line: what each command does, and what a mistake looks like."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.settings import Aggregator
from tests.flows.campaign import write_small_campaign

COMMANDS = ("aggregate", "budget", "demo", "report", "run", "simulate", "workers")


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, list(arguments))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    settings = write_small_campaign(folder)
    assert invoke("run", str(settings), "--no-prefect").exit_code == 0
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    told = invoke(command, "--help")
    assert told.exit_code == 0
    assert f"Example: crowdassay {command}" in told.output


def test_a_run_prints_a_line_a_stage_a_table_and_where_the_report_lies(tmp_path: Path) -> None:
    told = invoke("run", str(write_small_campaign(tmp_path)), "--no-prefect")
    assert told.exit_code == 0
    lines = told.output.splitlines()
    names = [line[:19].strip() for line in lines[:8]]
    assert names == [
        "read and check",
        "judge workers",
        "aggregate",
        "publish proportions",
        "estimate ratios",
        "train privately",
        "ask holdout",
        "write report",
    ]
    assert "What the run found" in told.output
    assert lines[-1].endswith("report.html")


def test_without_an_api_a_run_says_that_it_is_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    told = invoke("run", str(write_small_campaign(tmp_path)))
    assert told.output.splitlines()[0] == (
        "no Prefect API is configured and reachable: running in process"
    )


def test_json_is_one_object_for_machines(tmp_path: Path) -> None:
    told = invoke("run", str(write_small_campaign(tmp_path)), "--no-prefect", "--json")
    found = json.loads(told.stdout)
    assert Path(found["report"]).is_file()
    assert found["stages"][0]["stage"] == "read_and_check"


def test_an_unfinished_run_is_pointed_out(finished: Path) -> None:
    (finished / "runs" / ".partial-20260101T000000Z-small").mkdir()
    told = invoke("run", str(finished / "settings.toml"), "--no-prefect")
    assert "an earlier run did not end" in told.output
    (finished / "runs" / ".partial-20260101T000000Z-small").rmdir()


def test_workers_are_ranked_with_a_verdict(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "workers.csv"
    told = invoke(
        "workers", str(finished / "labels.csv"), "--fraction", "0.15", "--output", str(output)
    )
    assert told.exit_code == 0
    rows = rows_of(output)
    assert len(rows) == 15
    assert {row["worker"] for row in rows[:2]} == {"w00", "w01"}  # who answer at random
    assert rows[0]["verdict"].startswith("removed ")


def test_aggregate_writes_one_row_per_task(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "consensus.csv"
    labels = str(finished / "labels.csv")
    for aggregator in get_args(Aggregator):
        told = invoke("aggregate", labels, "--aggregator", aggregator, "--output", str(output))
        assert told.exit_code == 0
        rows = rows_of(output)
        assert len(rows) == 360
        assert {row["label"] for row in rows} == {"a", "b", "c"}


def test_repeated_labels_are_refused_or_resolved(finished: Path, tmp_path: Path) -> None:
    rows = (finished / "labels.csv").read_text()
    twice = tmp_path / "labels.csv"
    twice.write_text(rows + rows.splitlines()[1] + "\n")
    assert "stands 2 times" in invoke("workers", str(twice)).stderr
    assert invoke("workers", str(twice), "--duplicates", "first").exit_code == 0


def test_an_output_that_cannot_be_written_is_a_mistake(finished: Path, tmp_path: Path) -> None:
    told = invoke(
        "aggregate", str(finished / "labels.csv"), "--output", str(tmp_path / "no" / "c.csv")
    )
    assert told.exit_code == 2
    assert told.stderr.strip().endswith("c.csv: No such file or directory")


def test_budget_tells_what_was_spent_on_what(finished: Path) -> None:
    told = invoke("budget", str(finished / "state"))
    assert told.exit_code == 0
    assert told.output.startswith("small: epsilon 9.5 of 20 spent, 10.5 left")
    assert "rows to train on" in told.output
    (found,) = json.loads(invoke("budget", str(finished / "state"), "--json").stdout)
    assert len(found["entries"]) == 8


def test_a_budget_can_be_raised_and_the_old_one_stays_on_record(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    assert invoke("run", str(settings), "--no-prefect").exit_code == 0
    state = str(tmp_path / "state")
    told = invoke("budget", state, "--dataset", "small", "--raise-to", "25")
    assert told.output.startswith("small: epsilon 9.5 of 25 spent")
    again = invoke("run", str(settings), "--no-prefect")
    assert again.exit_code == 2  # the settings still say 20
    assert "crowdassay budget STATE --dataset NAME --raise-to EPSILON" in again.stderr


def test_budget_of_a_folder_without_a_ledger_is_a_mistake(tmp_path: Path) -> None:
    told = invoke("budget", str(tmp_path))
    assert told.exit_code == 2
    assert "holds no ledger.sqlite" in told.stderr


def test_report_is_built_again_with_the_same_bytes(finished: Path) -> None:
    run = next(iter((finished / "runs").iterdir()))
    before = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert invoke("report", str(run)).exit_code == 0
    assert (run / "report.html").read_bytes() == before
    assert invoke("report", str(run), "--show-worker-ids").exit_code == 0
    assert b"w00" in (run / "report.html").read_bytes()


def test_report_of_no_run_is_a_mistake(tmp_path: Path) -> None:
    told = invoke("report", str(tmp_path))
    assert told.exit_code == 2
    assert "must be the folder of a finished run" in told.stderr


def test_the_sample_campaign_is_what_simulate_writes(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[2] / "sample_data"
    assert invoke("simulate", "--seed", "20", "--output", str(tmp_path)).exit_code == 0
    for name in ("labels.csv", "tasks.csv", "gold.csv", "settings.toml", "truth/workers.csv"):
        assert (tmp_path / name).read_bytes() == (sample / name).read_bytes(), name


def test_the_demo_runs_on_a_copy_and_keeps_edited_settings(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert invoke("demo", "--folder", str(folder), "--no-prefect").exit_code == 0
    settings = folder / "settings.toml"
    settings.write_text(settings.read_text().replace("fraction = 0.15", "fraction = 0.1"))
    told = invoke("demo", "--folder", str(folder), "--no-prefect")
    assert "12 of 120 workers removed" in told.output

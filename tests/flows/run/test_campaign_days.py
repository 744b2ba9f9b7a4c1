"""A campaign of three days, its files arriving in a folder: what each day pays, and what is shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import RunResult, run_pipeline
from flows.run.history import complete_runs, trend
from flows.settings.settings import Settings, load_settings
from flows.spending.account import open_state, read_statements
from tests.flows.campaign import write_small_campaign

EPSILON = 2.0
DAYS = (("g0", "g1"), ("g2",), ("g2", "g3"))  # the groups that a day's labels are of
KILL_BEFORE_THE_RELEASE = """
import os, signal, sys
from pathlib import Path
from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from privacy import Ledger
Ledger.release_all = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)
run_pipeline(load_settings(Path(sys.argv[1])))
"""


class Campaign:
    """The small campaign, its labels kept back until their day."""

    def __init__(self, folder: Path) -> None:
        self.path = write_small_campaign(folder)
        text = self.path.read_text().partition("[model]")[0]
        text = text.replace('"labels.csv"', '"arrived"').replace('gold = "gold.csv"\n', "")
        self.path.write_text(text)
        self.arrived = folder / "arrived"
        self.arrived.mkdir()
        tasks = (folder / "tasks.csv").read_text().splitlines()[1:]
        group = {row.split(",")[0]: row.split(",")[1] for row in tasks}
        self.header, *rows = (folder / "labels.csv").read_text().splitlines()
        self.rows: dict[str, list[str]] = {}
        for row in rows:
            self.rows.setdefault(group[row.split(",")[1]], []).append(row)

    @property
    def settings(self) -> Settings:
        return load_settings(self.path)

    def arrive(self, day: int) -> None:
        """Put a day's file into the folder; a group of two days comes in halves, by its tasks."""
        rows = []
        for group in DAYS[day]:
            own = self.rows[group]
            days = [other for other, groups in enumerate(DAYS) if group in groups]
            if len(days) == 2:
                tasks = sorted({row.split(",")[1] for row in own})
                half = set(tasks[days.index(day) :: 2])
                own = [row for row in own if row.split(",")[1] in half]
            rows += own
        text = "\n".join([self.header, *rows]) + "\n"
        (self.arrived / f"day-{day}.csv").write_text(text)

    def spent(self) -> float:
        (found,) = read_statements(self.settings.state)
        return float(found["spent"]["epsilon"])

    def published(self, result: RunResult) -> dict[str, int]:
        """The ledger's entry of every published group."""
        run = next(one for one in complete_runs(self.settings) if one.folder == result.folder)
        return {
            row["group"]: row["entry"] for row in run.read_table("proportions.parquet").to_pylist()
        }


def trend_of(result: RunResult) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((result.folder / "trend.json").read_text())["runs"]
    return rows


def test_three_days_of_a_campaign(tmp_path: Path) -> None:
    """Majority vote without a filter, so that no day's labels change another day's consensus."""
    campaign = Campaign(tmp_path)
    text = campaign.path.read_text().replace("fraction = 0.1", "fraction = 0.0")
    campaign.path.write_text(text + '[consensus]\naggregator = "majority_vote"\n')

    campaign.arrive(0)
    first = run_pipeline(campaign.settings)
    assert campaign.published(first).keys() == {"g0", "g1"}
    assert campaign.spent() == EPSILON

    unchanged = CliRunner().invoke(app, ["run", str(campaign.path), "--no-prefect"])
    assert unchanged.exit_code == 0
    (line,) = unchanged.output.splitlines()
    assert line.startswith("nothing is new")
    assert str(first.folder) in line
    assert [path.name for path in campaign.settings.runs.iterdir()] == [first.folder.name]

    campaign.arrive(1)  # a new group: as dear as the dearest, which is paid
    second = run_pipeline(campaign.settings)
    before, now = campaign.published(first), campaign.published(second)
    assert {group for group in now if now[group] != before.get(group)} == {"g2"}
    assert campaign.spent() == EPSILON

    campaign.arrive(2)  # g2 gains tasks: its second release adds to its first
    third = run_pipeline(campaign.settings)
    before, now = now, campaign.published(third)
    assert {group for group in now if now[group] != before.get(group)} == {"g2", "g3"}
    assert campaign.spent() == 2 * EPSILON

    rows = trend_of(third)
    assert [row["run"] for row in rows] == [one.folder.name for one in (first, second, third)]
    assert [row["epsilon"] for row in rows] == [EPSILON, EPSILON, 2 * EPSILON]
    assert [row["n_groups"] for row in rows] == [2, 3, 4]
    assert [row["n_tasks"] for row in rows] == [120, 150, 240]
    assert rows[0]["drift"] is None
    assert rows[1]["drift"] == {"g0": 0.0, "g1": 0.0}
    assert rows[2]["drift"].keys() == {"g0", "g1", "g2"}
    assert rows[2]["drift"]["g0"] == 0.0 < rows[2]["drift"]["g2"]

    again = run_pipeline(campaign.settings, again=True)
    assert again.folder != third.folder
    assert trend_of(again) == rows
    assert campaign.spent() == 2 * EPSILON

    release = json.loads((third.folder / "public" / "release.json").read_text())
    assert "trend" not in release
    assert not (third.folder / "public" / "trend.json").exists()
    expected = _largest_sum(campaign.settings)
    assert expected == Fraction(campaign.spent())


def _largest_sum(settings: Settings) -> Fraction:
    """The maximum over groups of the sums of their releases, counted by hand from the entries."""
    sums: dict[str, Fraction] = {}
    with open_state(settings.state) as ledger:
        for entry in ledger.statement(settings.name).entries:
            assert entry.part is not None
            group = entry.part.name
            sums[group] = sums.get(group, Fraction(0)) + entry.cost.epsilon
    return max(sums.values())


def test_a_run_killed_between_the_note_and_the_release_is_resumed_for_one_payment(
    tmp_path: Path,
) -> None:
    campaign = Campaign(tmp_path)
    campaign.arrive(0)
    killed = subprocess.run(
        [sys.executable, "-c", KILL_BEFORE_THE_RELEASE, str(campaign.path)],
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert (campaign.settings.state / "groups-small.npz").is_file()
    assert campaign.spent() == 0.0
    run_pipeline(campaign.settings, resume=True)
    assert campaign.spent() == EPSILON


def test_a_damaged_or_strange_folder_among_the_runs_is_passed_over(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.arrive(0)
    result = run_pipeline(campaign.settings)
    runs = campaign.settings.runs
    for name in ("20990101T000000Z-small", "20990101T000000Z-small-copy", "x-small"):
        (runs / name).mkdir()
    (found,) = complete_runs(campaign.settings)
    assert found.folder == result.folder
    assert trend(found)["runs"] == trend_of(result)
    os.remove(result.folder / "report.html")
    assert complete_runs(campaign.settings) == []

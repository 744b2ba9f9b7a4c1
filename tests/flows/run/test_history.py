"""A campaign of several runs: where EM starts in each, what each day pays, and what the trend shows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import RunResult, Stage, run_pipeline, run_stage
from flows.run import Run, complete_runs, ledger_heads, open_run, prune_runs, trend
from flows.settings import EngineSettings, Settings, SettingsError
from flows.settings.settings import load_settings
from flows.spending import open_state, read_statements
from tests.flows.campaign import toy_settings, write_small_campaign

FITS = ("dawid_skene", "one_coin_dawid_skene", "hierarchical_dawid_skene")
LABELS = (1500, 1700, 1800)  # rows that have arrived by each day


class Growing:
    """The small campaign without releases, its labels arriving row by row."""

    def __init__(
        self, folder: Path, aggregator: str = "dawid_skene", *, go_on: bool = True
    ) -> None:
        self.path = write_small_campaign(folder)
        text = self.path.read_text(encoding="utf-8").partition("[privacy]")[0]
        chosen = f'[consensus]\naggregator = "{aggregator}"\ngo_on = {str(go_on).lower()}\n'
        self.path.write_text(text + chosen, encoding="utf-8")
        self.labels = folder / "labels.csv"
        self.rows = self.labels.read_text(encoding="utf-8").splitlines(keepends=True)

    @property
    def settings(self) -> Settings:
        return load_settings(self.path)

    def arrive(self, day: int) -> None:
        self.labels.write_text("".join(self.rows[: LABELS[day] + 1]), encoding="utf-8")

    def run(self, day: int, **how: Any) -> RunResult:
        self.arrive(day)
        return run_pipeline(self.settings, **how)


def said(result: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((result.folder / "consensus.json").read_text("utf-8"))
    return found


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every output but the manifest and the reports, which name the run."""
    apart = ("manifest.json", "trend.json", "report.html", "public.html")
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in apart)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("aggregator", FITS)
def test_each_day_goes_on_from_the_day_before_in_fewer_iterations(
    tmp_path: Path, aggregator: str
) -> None:
    campaign = Growing(tmp_path, aggregator)
    days = [campaign.run(day) for day in range(3)]
    facts = [said(day)["start"] for day in days]
    assert facts[0] is None
    assert [one["run"] for one in facts[1:]] == [day.folder.name for day in days[:2]]
    for day, fact in zip(days[1:], facts[1:], strict=True):
        assert said(day)["converged"]
        assert said(day)["n_iter"] <= fact["n_iter_anew"]
        assert fact["n_known_workers"] >= 10
        line = next(stage.line for stage in day.stages if stage.stage == "aggregate")
        assert f"gone on from {fact['run']} in {said(day)['n_iter']} iterations" in line
    assert sum(said(day)["n_iter"] for day in days[1:]) < sum(f["n_iter_anew"] for f in facts[1:])
    rows = json.loads((days[2].folder / "trend.json").read_text("utf-8"))["runs"]
    assert [row["n_labels"] for row in rows] == list(LABELS)


def test_the_same_inputs_again_start_at_the_same_place_and_leave_the_same_bytes(
    tmp_path: Path,
) -> None:
    """Else a run would go on from itself, and its last digits, and prices, move for nothing."""
    campaign = Growing(tmp_path)
    for day in (0, 1):
        first = campaign.run(day)
        assert campaign.run(day).unchanged
        for _ in range(2):
            again = campaign.run(day, again=True)
            assert bytes_of(again.folder) == bytes_of(first.folder)


def test_a_run_that_is_resumed_starts_where_it_began(tmp_path: Path) -> None:
    campaign = Growing(tmp_path)
    campaign.run(0)

    def interrupted(stage: Stage, run: Run) -> str:
        if stage.name == "aggregate":
            raise KeyboardInterrupt
        return run_stage(stage, run)

    with pytest.raises(KeyboardInterrupt):
        campaign.run(1, step=interrupted)
    (partial,) = campaign.settings.runs.glob(".partial-*")
    chosen = (partial / "start.json").read_bytes()
    later = run_pipeline(campaign.settings, again=True)  # it has the same start, and is whole now
    resumed = run_pipeline(campaign.settings, resume=True)
    assert (resumed.folder / "start.json").read_bytes() == chosen
    assert bytes_of(resumed.folder) == bytes_of(later.folder)


def test_what_another_aggregator_believed_is_not_gone_on_from(tmp_path: Path) -> None:
    campaign = Growing(tmp_path)
    campaign.run(0)
    other = campaign.path.read_text("utf-8").replace('"dawid_skene"', '"one_coin_dawid_skene"')
    campaign.path.write_text(other, encoding="utf-8")
    assert said(campaign.run(1))["start"] is None


def test_unless_asked_runs_begin_anew_and_keep_nothing(tmp_path: Path) -> None:
    campaign = Growing(tmp_path, go_on=False)
    for day in (0, 1):
        result = campaign.run(day)
        assert said(result)["start"] is None
        assert not {"fit.npz", "start.npz", "start.json"} & {
            p.name for p in result.folder.iterdir()
        }


def test_on_shards_it_goes_on_as_in_memory(tmp_path: Path) -> None:
    found = []
    for name in ("memory", "shards"):
        campaign = Growing(tmp_path / name)
        text = campaign.path.read_text("utf-8").replace("labels.csv", "labels.parquet")
        text = text.replace("[consensus]\n", '[consensus]\nfeatures = "ignore"\n')  # as on shards
        campaign.path.write_text(text, encoding="utf-8")
        engine = EngineSettings(shard_labels=400, memory_gb=0.3) if name == "shards" else None
        for day in (0, 1):
            campaign.arrive(day)
            pq.write_table(pc.read_csv(campaign.labels), tmp_path / name / "labels.parquet")
            result = run_pipeline(campaign.settings.model_copy(update={"engine": engine}))
        found.append(result)
    whole, sharded = (said(one) for one in found)
    assert whole["n_iter"] == sharded["n_iter"] <= whole["start"]["n_iter_anew"]
    assert sharded["start"]["n_known_workers"] == whole["start"]["n_known_workers"]
    assert "n_differ" not in sharded["start"]
    line = next(stage.line for stage in found[1].stages if stage.stage == "aggregate")
    assert line.endswith(f"({sharded['start']['why_not_anew']})")
    assert "on shards that would cost what going on saves" in line
    tables = [pq.read_table(one.folder / "consensus.parquet").column("label") for one in found]
    assert tables[0] == tables[1]


def test_what_has_no_fit_to_go_on_from_is_refused(tmp_path: Path) -> None:
    campaign = Growing(tmp_path, "glad")
    with pytest.raises(SettingsError, match="go_on is for dawid_skene, hierarchical_dawid_skene"):
        load_settings(campaign.path)


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
    assert rows[2]["drift"]["g0"] == 0.0
    moved = {}  # by chance, noise may publish the same shares again
    for day, run in enumerate((second, third)):
        for row in run.run.read_table("proportions.parquet").to_pylist():
            if row["group"] == "g2":
                moved[row["class"], day] = row["proportion"]
    gaps = [abs(moved[name, 0] - moved[name, 1]) for name in {name for name, _ in moved}]
    assert rows[2]["drift"]["g2"] == pytest.approx(sum(gaps) / 2)

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
        (runs / name / "manifest.json").write_text('{"ledger": {"n_rows": 1, "seal": "x"}}')
    heads = ledger_heads(campaign.settings)
    assert set(heads.values()) <= {result.folder.name}
    (found,) = complete_runs(campaign.settings)
    assert found.folder == result.folder
    assert trend(found)["runs"] == trend_of(result)
    os.remove(result.folder / "report.html")
    assert complete_runs(campaign.settings) == []


def ended_run(settings: Settings, n_labels: int) -> Run:
    """A complete run, as far as the trend reads one; it differs from others by its number of labels."""
    run = open_run(settings)
    counts = dict.fromkeys(("n_labelled_tasks", "n_workers", "n_groups"), 1)
    run.write_json("inputs.json", {"files": [n_labels], "n_labels": n_labels, **counts})
    run.write_json("quality.json", dict.fromkeys(("n_removed", "alpha", "alpha_kept"), 0))
    for name in ("gate.json", "proportions.json", "spend.json"):
        run.skip(name, "there is no budget")
    (run.folder / "report.html").touch()
    return run.close()


@pytest.mark.parametrize("name", ["manifest.json", "inputs.json", "quality.json"])
def test_a_run_that_another_process_prunes_meanwhile_is_passed_over(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its files is looked for when it is gone."""
    settings = toy_settings(tmp_path)
    old, kept, last = (ended_run(settings, n_labels) for n_labels in (1, 2, 3))
    read = Run.read_json

    def pruned(run: Run, asked: str) -> dict[str, Any]:
        if run.folder == old.folder and asked == name:
            shutil.rmtree(old.folder, ignore_errors=True)
        return read(run, asked)

    monkeypatch.setattr(Run, "read_json", pruned)
    rows = trend(last)["runs"]
    assert [row["run"] for row in rows] == [kept.folder.name, last.folder.name]
    assert [run.folder for run in complete_runs(settings)] == [kept.folder, last.folder]


def test_a_run_that_has_just_ended_is_kept_though_a_later_one_ended_before(tmp_path: Path) -> None:
    """Else a run would prune itself, and then look for what it has found."""
    settings = toy_settings(tmp_path)
    oldest, ended, newest = (ended_run(settings, n_labels) for n_labels in (1, 2, 3))
    assert prune_runs(settings, 1, ended=ended) == [oldest]
    assert [run.folder for run in complete_runs(settings)] == [ended.folder, newest.folder]


def test_a_file_that_a_run_lacks_is_no_run_that_was_pruned(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path)
    old, last = (ended_run(settings, n_labels) for n_labels in (1, 2))
    (old.folder / "gate.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"gate\.json"):
        trend(last)

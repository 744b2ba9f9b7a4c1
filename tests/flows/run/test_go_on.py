"""A campaign whose runs go on from one another: where each starts, what it says of that, and again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from flows.pipeline import RunResult, Stage, run_pipeline, run_stage
from flows.run.store import Run
from flows.settings.sections import EngineSettings, SettingsError
from flows.settings.settings import Settings, load_settings
from tests.flows.campaign import write_small_campaign

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
        if stage.__name__ == "aggregate":
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

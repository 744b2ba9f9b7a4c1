"""A worker's page: its numbers are those of the run folder, and it is a page like the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axe_playwright_python.sync_playwright import Axe
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import run_pipeline
from flows.report.rows import pseudonyms
from flows.report.worker_page import label_quality, worker_facts, write_worker_page
from flows.run import load_crowd
from flows.settings import load_settings
from flows.tables import TableError
from tests.flows.campaign import write_small_campaign
from tests.flows.report.browser import chromium, open_browser, open_page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the small campaign, without its private stages."""
    settings = write_small_campaign(tmp_path_factory.mktemp("campaign"))
    kept = settings.read_text().split("[privacy]")[0]
    settings.write_text(kept)
    return run_pipeline(load_settings(settings)).folder


def test_a_label_has_the_quality_that_the_run_gauges(folder: Path) -> None:
    """The consensus label its confidence, the rest shared as the posterior does; together 1."""
    crowd = load_crowd(folder)
    quality = label_quality(folder, crowd)
    rows = {row["task"]: row for row in pq.read_table(folder / "consensus.parquet").to_pylist()}
    classes = crowd.labels.classes.tolist()
    for task, found in zip(crowd.labels.tasks, quality, strict=True):
        row = rows[task]
        chosen = classes.index(row["label"])
        assert found[chosen] == row["confidence"]
        others = [code for code in range(3) if code != chosen]
        ratio = [row["posterior"][code] for code in others]
        assert found[others] * sum(ratio) == pytest.approx(
            (1 - row["confidence"]) * np.array(ratio), abs=1e-12
        )
    assert quality.sum(axis=1) == pytest.approx(1)


def test_labels_without_a_confidence_have_the_models_posterior(
    folder: Path, tmp_path: Path
) -> None:
    """As where all workers are language models."""
    run = shutil.copytree(folder, tmp_path / "run")
    table = pq.read_table(run / "consensus.parquet")
    place, nothing = table.schema.get_field_index("confidence"), [None] * len(table)
    column = pa.array(nothing, table.schema.field("confidence").type)
    pq.write_table(table.set_column(place, "confidence", column), run / "consensus.parquet")
    expected = np.array(table["posterior"].to_pylist())[np.argsort(table["task"].to_pylist())]
    assert label_quality(run, load_crowd(run)) == pytest.approx(expected)
    assert CliRunner().invoke(app, ["report", str(run), "--worker", "w00"]).exit_code == 0


def test_the_facts_are_counts_of_her_labels(folder: Path) -> None:
    """Oracle: her rows of the table, one by one."""
    facts, crowd = worker_facts(folder, "w00"), load_crowd(folder)
    labels, table = crowd.labels, pq.read_table(folder / "consensus.parquet")
    consensus = dict(zip(*(table[name].to_pylist() for name in ("task", "label")), strict=True))
    classes = labels.classes.tolist()
    rows = np.flatnonzero(labels.workers[labels.worker] == "w00")
    truth, counts = crowd.gold_code(), np.zeros((3, 3), dtype=int)
    on_gold, disputed = np.zeros((3, 3), dtype=int), 0
    for row in rows:
        task, given = labels.task[row], labels.label[row]
        agreed = classes.index(consensus[labels.tasks[task]])
        counts[agreed, given] += 1
        disputed += agreed != given
        if truth[task] >= 0:
            on_gold[truth[task], given] += 1
    assert facts["confusion_by_consensus"] == counts.tolist()
    assert facts["gold_confusion"] == on_gold.tolist()
    assert facts["n_disputed"] == disputed
    scores = [row["score"] for row in facts["disputed"]]
    assert scores == sorted(scores)
    assert len(scores) == min(disputed, 40)
    assert facts["worker"]["n_labels"] == len(rows)


def test_a_label_less_sure_than_another_is_still_the_consensus(
    folder: Path, tmp_path: Path
) -> None:
    """Confidence by gold may fall below that of another class, and by distance no label need be likeliest."""
    run = shutil.copytree(folder, tmp_path / "run")
    table = pq.read_table(run / "consensus.parquet")
    place = table.schema.get_field_index("confidence")
    column = pa.array([0.1] * len(table), table.schema.field("confidence").type)
    pq.write_table(table.set_column(place, "confidence", column), run / "consensus.parquet")
    consensus = dict(zip(*(table[name].to_pylist() for name in ("task", "label")), strict=True))
    facts, sure = worker_facts(run, "w00"), worker_facts(folder, "w00")
    assert facts["disputed"]
    assert all(row["consensus"] == consensus[row["task"]] for row in facts["disputed"])
    assert facts["n_disputed"] == sure["n_disputed"]
    assert facts["confusion_by_consensus"] == sure["confusion_by_consensus"]


def test_earlier_runs_of_the_campaign_stand_beside_it(folder: Path, tmp_path: Path) -> None:
    first = shutil.copytree(folder, tmp_path / "runs" / "1")
    second = shutil.copytree(folder, tmp_path / "runs" / "2")
    for run, started in ((first, "2026-01-01T00:00:00"), (second, "2026-01-02T00:00:00")):
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps(manifest | {"started": started}))
    started = [run["started"] for run in worker_facts(second, "w03")["runs"]]
    assert started == ["2026-01-01T00:00:00", "2026-01-02T00:00:00"]
    assert len(worker_facts(first, "w03")["runs"]) == 1


def test_a_run_that_has_not_ended_is_none_and_the_others_come_by_their_start(
    folder: Path, tmp_path: Path
) -> None:
    """Whatever their folders are called; that of a run that was killed came first."""
    days = {".partial-3": 1, "z": 2, "a": 3, "m": 4}
    for name, day in days.items():
        run = shutil.copytree(folder, tmp_path / "runs" / name)
        manifest = json.loads((run / "manifest.json").read_text())
        manifest["started"] = f"2026-01-0{day}T00:00:00"
        (run / "manifest.json").write_text(json.dumps(manifest))
    started = [row["started"] for row in worker_facts(tmp_path / "runs" / "m", "w03")["runs"]]
    assert started == [f"2026-01-0{day}T00:00:00" for day in (2, 3, 4)]


def test_what_has_a_manifest_without_a_campaigns_name_is_no_run(
    folder: Path, tmp_path: Path
) -> None:
    for name in ("own", "other"):
        shutil.copytree(folder, tmp_path / "runs" / name)
    for other in ({}, {"name": "small"}):
        (tmp_path / "runs" / "other" / "manifest.json").write_text(json.dumps(other))
        assert len(worker_facts(tmp_path / "runs" / "own", "w03")["runs"]) == 1


def test_the_command_writes_the_page_under_the_pseudonym(folder: Path) -> None:
    called = pseudonyms([f"w{code:02d}" for code in range(15)])["w00"]
    for name in ("w00", called):
        told = CliRunner().invoke(app, ["report", str(folder), "--worker", name])
        assert told.exit_code == 0
        path = folder / f"{called.replace(' ', '-')}.html"
        assert path.name in told.output.replace("\n", "")
        text = path.read_text(encoding="utf-8")
        assert f"<h1>{called}</h1>" in text
        assert "w00" not in text
    write_worker_page(folder, "w00", show_worker_ids=True)
    assert "<h1>w00</h1>" in path.read_text(encoding="utf-8")


def test_nobody_of_that_name_and_no_run_are_refused(folder: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["report", str(folder), "--worker", "nobody"])
    assert told.exit_code == 2
    assert "'nobody' must be a worker of" in told.stderr
    with pytest.raises(FileNotFoundError, match="must be the folder of a finished run"):
        write_worker_page(tmp_path, "w00")
    with pytest.raises(TableError, match="must be a worker of"):
        write_worker_page(folder, "worker zzzz")


@pytest.mark.skipif(chromium() is None, reason="no chromium; .ci/browser installs it")
def test_the_page_fits_a_phone_and_axe_finds_no_fault(folder: Path) -> None:
    page = write_worker_page(folder, "w00")
    with open_browser() as browser:
        for scheme in ("light", "dark"):
            with open_page(browser, width=390, scheme=scheme) as shown:
                shown.goto(page.as_uri())
                assert shown.evaluate("document.documentElement.scrollWidth") <= 390
                found = Axe().run(shown).response["violations"]
                assert [(fault["id"], fault["nodes"][0]["html"]) for fault in found] == []

"""What a run says of its consensus: gold that was used, and which aggregator was chosen."""

from __future__ import annotations

import json
from pathlib import Path

from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from flows.stages.consensus import consensus_verdict
from tests.flows.campaign import write_small_campaign


def test_gold_that_was_used_cannot_check(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text(encoding="utf-8").split("[privacy]")[0]
    path.write_text(text + "[consensus]\nuse_gold = true\n", encoding="utf-8")
    folder = run_pipeline(load_settings(path)).folder
    found = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))
    assert found["gold"] is None
    assert found["gold_used"] == 50
    assert "the gold was used, so it cannot check" in (folder / "report.html").read_text("utf-8")


def test_the_report_says_which_aggregator_was_chosen_and_why(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text(encoding="utf-8").split("[privacy]")[0]
    path.write_text(text + '[consensus]\naggregator = "auto"\n', encoding="utf-8")
    folder = run_pipeline(load_settings(path)).folder
    choice = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))["choice"]
    assert choice["chosen"] in {score["name"] for score in choice["scores"]}
    assert "that best predicted" in (folder / "report.html").read_text("utf-8")


def test_a_panel_of_models_alone_is_refused_a_confidence() -> None:
    found = {"gold": None, "mean_confidence": 0.99, "models_alone": True}
    said = consensus_verdict(found)
    assert "0.99" not in said
    assert "all workers are models" in said
    assert "mean confidence 0.990" in consensus_verdict(found | {"models_alone": False})

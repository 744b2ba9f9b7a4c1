"""Real crowd labels through the whole pipeline, by the settings under sample_data/settings/."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings

SETTINGS = Path(__file__).resolve().parents[3] / "sample_data" / "settings"
NO_MODEL = {"estimate_ratios", "train_privately", "ask_holdout"}


@pytest.mark.parametrize(
    ("name", "skipped", "least_accuracy"),
    [
        ("rte", NO_MODEL, 0.92),
        ("web", NO_MODEL, 0.80),
        ("music", {"estimate_ratios"}, 0.74),
        pytest.param("labelme", set(), 0.77, marks=pytest.mark.slow),
        pytest.param("sentence_polarity", {"estimate_ratios"}, 0.90, marks=pytest.mark.slow),
    ],
)
def test_a_real_data_set_runs_and_skips_what_it_lacks(
    shared_data: Path, tmp_path: Path, name: str, skipped: set[str], least_accuracy: float
) -> None:
    """Floors up to three points below Dawid–Skene without the filter (data README: 92.8 to 76.9)."""
    settings = load_settings(SETTINGS / f"{name}.toml")
    assert settings.input.labels.is_relative_to(shared_data)
    own = settings.model_copy(update={"runs": tmp_path / "runs", "state": tmp_path / "state"})
    result = run_pipeline(own)
    assert skipped == {s.stage for s in result.stages if s.line.startswith("skipped: ")}
    gold = json.loads((result.folder / "consensus.json").read_text())["gold"]
    assert gold["accuracy"] >= least_accuracy
    assert result.report.stat().st_size < 1_000_000

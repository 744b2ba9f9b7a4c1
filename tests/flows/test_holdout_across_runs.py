"""The holdout is bought once: next month's run asks it where the last one stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flows.accounts import read_statements
from flows.pipeline import run_pipeline
from flows.settings import load_settings
from tests.flows.campaign import write_small_campaign


def gate_of(path: Path) -> tuple[dict[str, Any], float]:
    """What the run's gate said, and all that was spent so far."""
    settings = load_settings(path)
    folder = run_pipeline(settings, again=True).folder
    (statement,) = read_statements(settings.state)
    return json.loads((folder / "gate.json").read_text()), statement["spent"]["epsilon"]


def test_the_next_run_continues_where_the_last_one_stopped(tmp_path: Path) -> None:
    """Another model is another question to the same holdout: only its training is paid for."""
    path = write_small_campaign(tmp_path)
    first, paid = gate_of(path)
    assert first["asked"] == 1
    path.write_text(path.read_text().replace("[0.01, 0.1]", "[0.02, 0.2]"))
    second, paid_then = gate_of(path)
    assert second["question"] != first["question"]
    assert second["asked"] == 2
    assert second["budget_left"] == first["budget_left"] - (second["status"] == "overfit")
    assert second["epsilon"] == first["epsilon"]
    assert paid_then == paid + 7.5
    assert gate_of(path) == (second, paid_then)

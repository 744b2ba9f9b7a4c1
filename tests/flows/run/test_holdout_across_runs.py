"""The holdout is bought once: next month's run asks it where the last one stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from flows.spending.account import read_statements
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
    newest = max((tmp_path / "runs").iterdir(), key=lambda folder: folder.name)
    rows = json.loads((newest / "trend.json").read_text())["runs"]
    assert [row["gate"]["question"] for row in rows] == [first["question"], second["question"]]
    assert rows[1]["gate"] == {key: second[key] for key in rows[1]["gate"]}


def test_another_label_in_the_holdout_makes_it_another_holdout(tmp_path: Path) -> None:
    """It is paid for again, beside the first, and its refutations and questions count anew."""
    path = write_small_campaign(tmp_path)
    path.write_text(path.read_text().replace("epsilon = 20.0", "epsilon = 40.0"))
    first, _ = gate_of(path)
    labels = (tmp_path / "labels.csv").read_text()
    (tmp_path / "labels.csv").write_text(
        labels.replace(",a\n", ",swap\n").replace(",b\n", ",a\n").replace(",swap\n", ",b\n")
    )
    (tmp_path / "gold.csv").unlink()
    path.write_text(path.read_text().replace('gold = "gold.csv"\n', ""))
    second, _ = gate_of(path)
    assert first["asked"] == second["asked"] == 1
    (statement,) = read_statements(load_settings(path).state)
    assert [entry["what"] for entry in statement["entries"]].count("holdout rows") == 2

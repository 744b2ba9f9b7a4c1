"""The holdout has one history: next month's run, or another gate, asks it where the last one stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from flows.spending import read_statements
from flows.stages.model import gate_verdict
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


def change_labels(tmp_path: Path) -> None:
    """Swap two classes in all labels."""
    labels = (tmp_path / "labels.csv").read_text()
    (tmp_path / "labels.csv").write_text(
        labels.replace(",a\n", ",swap\n").replace(",b\n", ",a\n").replace(",swap\n", ",b\n")
    )


def test_changed_labels_ask_the_same_holdout(tmp_path: Path) -> None:
    """Whether it is the same depends on public things alone: it is paid once, and counts on."""
    path = write_small_campaign(tmp_path)
    text = path.read_text().replace("epsilon = 20.0", "epsilon = 40.0")
    path.write_text(text.replace('gold = "gold.csv"\n', ""))
    (tmp_path / "gold.csv").unlink()
    first, _ = gate_of(path)
    change_labels(tmp_path)
    second, _ = gate_of(path)
    assert (first["asked"], second["asked"]) == (1, 2)
    assert second["question"] != first["question"]
    assert second["budget_left"] == first["budget_left"] - (second["status"] == "overfit")
    (statement,) = read_statements(load_settings(path).state)
    assert [entry["what"] for entry in statement["entries"]].count("holdout rows") == 1


def test_another_gate_of_the_same_rows_counts_on(tmp_path: Path) -> None:
    """Refuted by a narrow gate, agreed to by a wide one: nothing is certified by agreement."""
    path = write_small_campaign(tmp_path)
    text = path.read_text().replace("epsilon = 20.0", "epsilon = 9000.0").partition("[gate]")[0]
    narrow, wide = ("\n".join(["", "[gate]", *gate, ""]) for gate in (
        ("threshold = 0.00002", "sigma = 0.00001", "budget = 1"),
        ("threshold = 0.9", "sigma = 0.01", "budget = 3"),
    ))  # fmt: skip
    found = []
    for gate in (narrow, wide):
        path.write_text(text + gate)
        found.append(gate_of(path)[0])
    first, second = found
    assert (first["status"], second["status"]) == ("overfit", "agrees")
    assert (first["refuted_before"], second["refuted_before"]) == (0, 1)
    assert (second["asked"], second["gates"], second["budget_left"]) == (2, 2, 3)
    assert second["epsilon"] > first["epsilon"]
    newest = max((tmp_path / "runs").iterdir(), key=lambda folder: folder.name)
    bounds = json.loads((newest / "bounds.json").read_text())["bounds"]
    (agreeing,) = [one for one in bounds if one["name"] == "agreeing holdout"]
    assert not agreeing["applies"]
    assert "; 1 refuted before on these rows" in gate_verdict(second)

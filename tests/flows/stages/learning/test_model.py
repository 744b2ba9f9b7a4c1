"""The holdout has one history: next month's run, or another gate, asks it where the last one stopped."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import run_pipeline
from flows.run import PARTIAL
from flows.settings import SettingsError
from flows.settings.settings import load_settings
from flows.spending import preview, read_statements
from flows.stages.learning.model import gate_verdict
from learners.private import logistic_minimum
from tests.flows.campaign import write_small_campaign
from tests.flows.spending.test_year import year_campaign


def gate_of(path: Path) -> tuple[dict[str, Any], float]:
    """The run's answer of the gate, and all that was spent so far."""
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


@pytest.mark.parametrize("standardize", [False, True])
def test_features_scaled_in_the_clear_leave_no_bound_by_privacy_of_rows(
    tmp_path: Path, standardize: bool
) -> None:
    """Training then protects labels alone; what other bounds take for granted is stated."""
    path = write_small_campaign(tmp_path)
    scaled = f'gold = "gold.csv"\nstandardize = {str(standardize).lower()}'
    path.write_text(path.read_text().replace('gold = "gold.csv"', scaled))
    folder = run_pipeline(load_settings(path)).folder
    bounds = json.loads((folder / "bounds.json").read_text())["bounds"]
    assert ("private transfer" in {one["name"] for one in bounds}) is not standardize
    for one in bounds:
        if one["applies"]:
            assert ("scales of the features" in one["assumption"]) is standardize


@pytest.mark.parametrize("method", ["auto", "noisy_descent"])
def test_noisy_descent_trains_for_a_delta_that_every_page_states(
    tmp_path: Path, method: str
) -> None:
    """It chooses nothing, so the price of the choice is the training's; a transfer bound is for pure ones."""
    path = write_small_campaign(tmp_path)
    text = path.read_text().replace("epsilon = 20.0", "epsilon = 20.0\ndelta = 1e-4")
    train = f'method = "{method}"\ndelta_train = 1e-5\nepsilon_train = 6.0'
    text = text.replace("epsilon_train = 6.0", train)
    if method == "noisy_descent":
        text = text.replace("regularization = [0.01, 0.1]\n", "")
    path.write_text(text)
    settings = load_settings(path)
    folder = run_pipeline(settings).folder
    model = json.loads((folder / "model.json").read_text())
    terms = (
        "method",
        "epsilon_train",
        "epsilon_select",
        "delta_train",
        "candidates",
        "regularization",
    )
    assert [model[key] for key in terms] == ["noisy gradient descent", 7.0, 0.0, 1e-5, [], None]
    assert model["validation"]["private"] > 0.6
    (statement,) = read_statements(settings.state)
    spent = {entry["what"]: (entry["epsilon"], entry["delta"]) for entry in statement["entries"]}
    assert spent["rows to train on"] == (7.5, 1e-5)
    bounds = json.loads((folder / "bounds.json").read_text())["bounds"]
    assert "transfer" not in " ".join(one["name"] for one in bounds)
    for page in ("report.html", "public.html"):
        shown = " ".join((folder / page).read_text().split())
        assert "ε = 7, δ = 1e-05 for training, 0.5 for the score" in shown


def test_the_price_of_a_choice_among_one_is_the_trainings(tmp_path: Path) -> None:
    """What is booked, the model's page and the preview say the same three numbers."""
    path = write_small_campaign(tmp_path)
    one = path.read_text().replace("regularization = [0.01, 0.1]", "regularization = [0.1]")
    path.write_text(one)
    settings = load_settings(path)
    folder = run_pipeline(settings).folder
    model = json.loads((folder / "model.json").read_text())
    terms = ("epsilon_train", "epsilon_select", "epsilon_score", "regularization")
    assert [model[key] for key in terms] == [7.0, 0.0, 0.5, 0.1]
    (statement,) = read_statements(settings.state)
    spent = {entry["what"]: entry["epsilon"] for entry in statement["entries"]}
    assert spent["rows to train on"] == 7.5
    for page in ("report.html", "public.html"):
        assert "ε = 7 for training, 0.5 for the score" in " ".join(
            (folder / page).read_text().split()
        )


def test_without_a_delta_training_is_pure_whatever_the_features(tmp_path: Path) -> None:
    settings = load_settings(write_small_campaign(tmp_path))
    model = json.loads((run_pipeline(settings).folder / "model.json").read_text())
    assert (model["method"], model["delta_train"]) == ("objective perturbation", 0.0)
    assert model["regularization"] in model["candidates"] == [0.01, 0.1]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ('method = "noisy_descent"', "needs delta_train > 0"),
        ("delta_train = 0.1", "delta_train must be at most privacy.delta, 0, got 0.1"),
    ],
)
def test_a_delta_that_is_not_there_is_refused(tmp_path: Path, given: str, sentence: str) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text().replace("regularization = [0.01, 0.1]\n", "")
    path.write_text(text.replace("[model]", f"[model]\n{given}"))
    with pytest.raises(SettingsError, match=sentence):
        load_settings(path)


def test_noisy_descent_can_be_asked_for_in_a_year_whose_budget_has_a_delta(tmp_path: Path) -> None:
    path = year_campaign(tmp_path)
    text = path.read_text().replace("regularization = [0.01, 0.1]\n", "")
    path.write_text(text.replace("[model]", '[model]\nmethod = "noisy_descent"'))
    model = load_settings(path).model
    assert model is not None
    assert model.method == "noisy_descent"
    path.write_text(path.read_text().replace("delta = 1e-4\n", ""))
    with pytest.raises(SettingsError, match=r"needs privacy.delta > 0"):
        load_settings(path)


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


def test_components_are_paid_for_and_every_page_states_them(tmp_path: Path) -> None:
    """The preview, the ledger and the pages have one price; the model is one of the features."""
    path = write_small_campaign(tmp_path)
    text = path.read_text().replace("epsilon = 20.0", "epsilon = 20.0\ndelta = 1e-4")
    reduced = "[model]\ncomponents = 1\nepsilon_components = 2.0\ndelta_components = 1e-5"
    path.write_text(text.replace("[model]", reduced))
    settings = load_settings(path)
    (priced,) = [
        one for one in preview(settings.state, settings)["parts"] if one["what"] == "model"
    ]
    assert "components 2" in priced["note"]
    folder = run_pipeline(settings).folder
    model = json.loads((folder / "model.json").read_text())
    assert len(model["coef"][0]) == len(model["features"]) + 1 > 2
    (statement,) = read_statements(settings.state)
    spent = {entry["what"]: (entry["epsilon"], entry["delta"]) for entry in statement["entries"]}
    assert spent["rows to train on"] == (9.5, 1e-5) == (priced["epsilon"], priced["delta"])
    bounds = json.loads((folder / "bounds.json").read_text())["bounds"]
    assert "transfer" not in " ".join(one["name"] for one in bounds)
    for page in ("report.html", "public.html"):
        shown = " ".join((folder / page).read_text().split())
        assert "ε = 2, δ = 1e-05 for 1 component" in shown
    release = json.loads((folder / "public" / "release.json").read_text())
    assert release["model"]["components"] == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "components = 3\ndelta_components = 0.1",
            "delta_components must be at most privacy.delta",
        ),
        ("epsilon_components = 1.0", "epsilon_components needs components"),
        ("components = 0", "components"),
    ],
)
def test_components_that_cannot_be_paid_for_are_refused(
    tmp_path: Path, given: str, sentence: str
) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text().replace("regularization = [0.01, 0.1]\n", "")
    path.write_text(text.replace("[model]", f"[model]\n{given}"))
    with pytest.raises(SettingsError, match=sentence):
        load_settings(path)


def test_as_many_components_as_features_are_refused_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    path = write_small_campaign(tmp_path)
    path.write_text(path.read_text().replace("[model]", "[model]\ncomponents = 500"))
    with pytest.raises(SettingsError, match="components must be below the number of features"):
        run_pipeline(load_settings(path))
    assert not list(load_settings(path).state.glob("ledger*"))


def refused_run(path: Path, *, keeps: bool = False) -> str:
    """What a run that is refused prints: one sentence; its folder stays if it `keeps` whole stages."""
    told = CliRunner().invoke(app, ["run", str(path), "--no-prefect"])
    assert told.exit_code == 2
    assert "Traceback" not in told.output
    runs = path.parent / "runs"
    left = [one.name for one in runs.iterdir() if one.is_dir()] if runs.is_dir() else []
    assert [name.startswith(PARTIAL) for name in left] == [True] * keeps
    (sentence,) = (one for one in told.output.splitlines() if one.startswith("crowdassay: "))
    return sentence


def test_training_that_does_not_converge_tells_nothing_of_its_rows_and_is_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least regularization keeps it from happening; here the solver is stopped at its first step."""
    paths = [write_small_campaign(tmp_path / name) for name in ("one", "other")]
    change_labels(paths[1].parent)
    with monkeypatch.context() as stopped:
        never = functools.partial(logistic_minimum.minimise, max_iter=0)
        stopped.setattr(logistic_minimum, "minimise", never)
        sentences = {refused_run(path, keeps=True) for path in paths}
    (sentence,) = sentences
    assert "the gradient norm must reach" in sentence
    assert "Train with more than regularization=" in sentence
    settings = load_settings(paths[0])
    (before,) = read_statements(settings.state)
    paid = [entry["what"] for entry in before["entries"]]
    assert paid.count("rows to train on") == 1
    run_pipeline(settings)
    (after,) = read_statements(settings.state)
    now = [entry["what"] for entry in after["entries"]]
    assert now == [*paid, "holdout rows"]


def test_a_feature_that_is_not_finite_stops_the_run_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    """A2: the team sees the cell; nothing that anybody may see is made, and no question is asked."""
    path = write_small_campaign(tmp_path)
    table = (tmp_path / "tasks.csv").read_text().splitlines()
    name, *cells = table[5].split(",")
    for odd in ("nan", "inf", ""):
        table[5] = ",".join([name, cells[0], odd, *cells[2:]])
        (tmp_path / "tasks.csv").write_text("\n".join(table) + "\n")
        sentence = refused_run(path)
        assert "tasks.csv, row 5, column x0: a feature must be a finite number" in sentence
        assert not any(cell in sentence for cell in cells[2:])
        assert not list((tmp_path / "state").glob("ledger*"))

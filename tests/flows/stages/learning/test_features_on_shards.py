"""Models trained on shards: requests, coefficients and prices of one process, features a batch at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from flows.pipeline import run_stage
from flows.run import Run, load_crowd, open_run
from flows.settings import EngineSettings, Settings
from flows.settings.settings import load_settings
from flows.sharding import FeatureFolder
from flows.spending import paying, plan_releases, plan_year, read_statements
from flows.stages import STAGES
from privacy.ledger.releasing import request_of
from tests.flows.spending.test_year import year_campaign
from tests.flows.stages.test_campaign_labels import SHARDS, on, settings_in
from tests.flows.stages.test_year_counts import grow
from tests.learners.scripted_noise import SeededNoise

KEY = bytes(32)
ROWS = 64  # that may be read at once, of 440 tasks
BATCHES = {
    "flows.sharding.features.COPIED": ROWS,
    "flows.tables.columns.task_columns.BATCH": ROWS,
    "learners.private.logistic_minimum.HELD_CELLS": 0,
}
# features that join are loaded whole
APART = '\n[consensus]\naggregator = "hierarchical_dawid_skene"\nfeatures = "ignore"\n'
CONSENSUS = ("read_and_check", "judge_workers", "aggregate")
PAID = ("publish_proportions", "train_privately", "ask_holdout")
STANDARDIZED = ('gold = "gold.csv"', 'gold = "gold.csv"\nstandardize = true')
DELTA = ("epsilon = 20.0", "epsilon = 20.0\ndelta = 1e-4")
COMPONENTS = "[model]\ncomponents = 2\nepsilon_components = 2.0\ndelta_components = 1e-5"
DESCENT = 'method = "noisy_descent"\ndelta_train = 1e-5'
STRENGTHS = ("regularization = [0.01, 0.1]\n", "")
CHANGES = {
    "standardized": [STANDARDIZED],
    "components": [DELTA, ("[model]", COMPONENTS)],
    "components and descent": [
        STANDARDIZED,
        DELTA,
        STRENGTHS,
        ("[model]", f"{COMPONENTS}\n{DESCENT}"),
    ],
}


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to read more rows of a feature folder at once than a batch has."""
    take = FeatureFolder.take

    def some(self: FeatureFolder, places: np.ndarray) -> np.ndarray:
        assert len(places) <= ROWS
        return take(self, places)

    def refused(self: FeatureFolder, *_: Any) -> np.ndarray:
        raise AssertionError("features were loaded whole")

    monkeypatch.setattr(FeatureFolder, "take", some)
    for name in ("load", "rows"):
        monkeypatch.setattr(FeatureFolder, name, refused)
    for name, number in BATCHES.items():
        monkeypatch.setattr(name, number)


def changed(path: Path, changes: list[tuple[str, str]]) -> Settings:
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return load_settings(path)


def through(settings: Settings, *stages: str) -> Run:
    run = open_run(settings, resume=False)
    for stage in STAGES:
        if stage.name in stages:
            run_stage(stage, run)
    return run


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("change", CHANGES)
def test_a_model_on_shards_asks_for_and_trains_what_it_does_in_memory(
    tmp_path: Path, change: str
) -> None:
    """To the byte, of the same noise; and a value that one has paid for is the other's."""
    settings_in(tmp_path, APART)
    settings = changed(tmp_path / "settings.toml", CHANGES[change])
    asked, drawn, said = [], [], []
    for where in (settings, on(settings, SHARDS)):
        run = through(where, *CONSENSUS, *PAID)
        assert where.privacy is not None
        learning = plan_releases(run, load_crowd(run.folder), where.privacy).learning
        assert learning is not None
        assert isinstance(learning.rows.develop_x, np.memmap) is (where.engine is not None)
        requests = ((learning.mechanism, learning.training), (learning.asked, learning.holdout))
        asked.append([request_of(*one, key=KEY).fingerprint for one in requests])
        drawn.append(learning.mechanism.draw(learning.training, SeededNoise(0)))
        said.append([run.read_json(f"{name}.json") for name in ("model", "gate", "bounds")])
    assert asked[0] == asked[1]
    assert drawn[0] == drawn[1]
    assert said[0] == said[1]
    (statement,) = read_statements(settings.state)
    assert [one["what"] for one in statement["entries"]].count("rows to train on") == 1


def two_months(folder: Path, engines: tuple[EngineSettings | None, ...], delta: str) -> Any:
    """A year's first months by these engines: what each asks, what it would draw, and what came of it."""
    path, found = year_campaign(folder, "planned_tasks = 360", "correction_epsilon = 0.2"), []
    path.write_text(path.read_text(encoding="utf-8") + APART, encoding="utf-8")
    parquet = ("labels.csv", "labels.parquet")  # as shards want it
    changed(path, [STANDARDIZED, parquet, ("delta = 1e-4", f"delta = {delta}")])
    for month, engine in enumerate(engines, start=1):
        settings = on(grow(path, month / len(engines)), engine)
        pq.write_table(pc.read_csv(folder / "labels.csv"), settings.input.labels)
        run = through(settings, *CONSENSUS, *PAID)
        assert settings.privacy is not None
        with paying(run, settings.privacy, n=load_crowd(run.folder).labels.n_tasks) as ledger:
            planned = plan_year(run, load_crowd(run.folder), settings.privacy, ledger)
        learnt = planned.learnt(load_crowd(run.folder))
        trained = [learnt[at] for at in range(0, len(learnt), 3)]
        requests = [request_of(*one, key=KEY) for one in trained]
        facts = {name: run.read_json(f"{name}.json") for name in ("proportions", "model", "gate")}
        assert not facts["model"]["stale"]
        assert not any("skipped" in one for one in facts.values())
        bounds = run.read_json("bounds.json")["bounds"]
        assert all("scales of the features" in bound["assumption"] for bound in bounds)
        found.append(
            {
                "asked": [(one.fingerprint, one.contents) for one in requests],
                "drawn": [one.draw(query, SeededNoise(0)) for one, query in trained],
                "sizes": [facts["model"][f"n_{use}"] for use in ("train", "validation", "holdout")],
                "used": facts["proportions"]["year"]["used"],
                "method": facts["model"]["method"],
            }
        )
    entries = read_statements(settings.state, entries=1000)[0]["entries"]
    with np.load(settings.state / f"cohorts-{settings.name}.npz") as record:
        cohorts = {name: record[name].tolist() for name in record.files}
    return found, [(one["what"], one["cell"], one["epsilon"]) for one in entries], cohorts


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    ("delta", "method"), [("0.0", "objective perturbation"), ("1e-4", "noisy gradient descent")]
)
def test_a_planned_year_goes_on_in_memory_and_on_shards_alike(
    tmp_path: Path, delta: str, method: str
) -> None:
    """One begins in memory and goes on on shards, the other the other way: nothing is asked twice."""
    one = two_months(tmp_path / "one", (None, SHARDS), delta)
    other = two_months(tmp_path / "other", (SHARDS, None), delta)
    assert json.dumps(one, default=bytes.hex) == json.dumps(other, default=bytes.hex)
    months, entries, _ = one
    assert [len(month["asked"]) for month in months] == [1, 2]
    assert months[1]["asked"][0] == months[0]["asked"][0]
    assert months[1]["method"].startswith(method)
    assert sum("rows to train on" in what for what, _, _ in entries) == 2
    assert len(set(entries)) == len(entries)


@pytest.mark.usefixtures("few_rows")
def test_a_closer_look_at_features_on_shards_finds_what_it_finds_in_memory(tmp_path: Path) -> None:
    settings_in(tmp_path, f"{APART}[report]\nerror_features = true\ndecision_images = true\n")
    head, *rows = (tmp_path / "gold.csv").read_text(encoding="utf-8").splitlines()
    rows[::3] = [f"{row[:-1]}a" for row in rows[::3]]  # so that the consensus errs on some
    (tmp_path / "gold.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    settings, found = load_settings(tmp_path / "settings.toml"), []
    for where in (settings, on(settings, SHARDS)):
        run = through(where, *CONSENSUS)
        found.append(
            [run.read_json(f"{name}.json") for name in ("error_features", "decision_images")]
        )
    assert [one["why_not"] for one in found[0]] == [None, None]
    assert found[0] == found[1]

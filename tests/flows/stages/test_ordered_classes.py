"""Ordered classes in a run: decided by loss, checked against the order, never half on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.pipeline import run_pipeline
from flows.settings import SettingsError, load_settings
from privacy import DiscreteGaussian, LatticeLaplace, cumulative_noise
from quality import (
    CrowdLabels,
    calibrate,
    encode,
    encode_gold,
    graded_penalty,
    least_loss,
    ordinal_crowd,
)
from quality.shares import cumulative_band

GRADES = ("poor", "fair", "good", "great")
HEAD = """\
name = "grades"
classes = ["poor", "fair", "good", "great"]
[input]
labels = "labels.csv"
gold = "gold.csv"
order = true
[consensus]
groups = "ignore"
"""


def campaign(folder: Path, settings: str = HEAD, *, names: tuple[str, ...] = GRADES) -> Path:
    """120 tasks with 5 labels each, which miss by one or two; `names` are what grades are called."""
    rng = np.random.default_rng(3)
    truth = rng.integers(4, size=120)
    labels, gold = ["worker,task,label"], ["task,label"]
    for task, true in enumerate(truth):
        gold.append(f"t{task:03d},{names[true]}")
        for worker in rng.choice(15, size=5, replace=False):
            said = int(np.clip(np.round(true + rng.normal(0.3 * (worker < 4), 0.9)), 0, 3))
            labels.append(f"w{worker:02d},t{task:03d},{names[said]}")
    for name, rows in (("labels", labels), ("gold", gold)):
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "settings.toml"
    path.write_text(settings, encoding="utf-8")
    return path


def run(path: Path) -> tuple[Path, dict[str, Any]]:
    folder = run_pipeline(load_settings(path)).folder
    return folder, json.loads((folder / "consensus.json").read_text("utf-8"))


@pytest.mark.parametrize("loss", ["zero_one", "absolute", "squared"])
def test_a_run_decides_by_the_ordinal_model_and_the_loss(tmp_path: Path, loss: Any) -> None:
    folder, facts = run(campaign(tmp_path, HEAD + f'loss = "{loss}"\n'))
    posterior = ordinal_crowd(labels_of(tmp_path)).posterior
    table = pq.read_table(folder / "consensus.parquet")
    decided = least_loss(posterior, loss).label
    assert facts["aggregator"] == "ordinal_crowd"
    assert table["label"].to_pylist() == [GRADES[code] for code in decided]
    assert facts["order"]["n_moved"] == np.count_nonzero(decided != posterior.argmax(axis=1))
    assert (facts["order"]["n_moved"] == 0) == (loss == "zero_one")


def labels_of(folder: Path) -> CrowdLabels:
    rows = [line.split(",") for line in (folder / "labels.csv").read_text("utf-8").split()[1:]]
    return encode(*zip(*rows, strict=True), classes=GRADES)


RELEASED = """
[privacy]
epsilon = 4.0
proportions_epsilon = 0.2
level = 0.9
"""


@pytest.mark.parametrize("delta", [0.0, 0.008])
def test_cumulative_shares_follow_from_what_is_published(tmp_path: Path, delta: float) -> None:
    """Whoever reads the public files alone can work them out: post-processing, whatever the noise."""
    deltas = f"proportions_delta = {delta}\ndelta = {delta}\n" if delta else ""
    folder, _ = run(campaign(tmp_path, HEAD + RELEASED + deltas))
    facts = json.loads((folder / "public" / "release.json").read_text("utf-8"))["proportions"]
    table = pq.read_table(folder / "public" / "proportions.parquet")
    assert table.column_names[-3:] == ["at_most", "at_most_low", "at_most_high"]
    assert set(table.column_names) == set(facts["columns"])
    price = DiscreteGaussian(0.2, delta) if delta else LatticeLaplace(0.2)
    assert facts["mechanism"] == ("discrete Gaussian" if delta else "lattice Laplace")
    law, noisy = price.law(4), np.array(table["noisy_count"])
    low, high = cumulative_noise([law], int(noisy.sum()) - 120, 0.9)
    band = cumulative_band(
        np.array(table["proportion"]),
        (np.cumsum(noisy)[:-1] - high) / 120,
        (np.cumsum(noisy)[:-1] - low) / 120,
    )
    for name, part in zip(
        ("at_most", "at_most_low", "at_most_high"), (band.share, band.low, band.high), strict=True
    ):
        assert np.array(table[name]) == pytest.approx(part)
    page = (folder / "public.html").read_text("utf-8")
    assert "At most fair" in page
    assert f"{band.mean_place()[0]:.2f}" in page
    spent = json.loads((folder / "spend.json").read_text("utf-8"))["spent"]["epsilon"]
    assert spent == 0.2
    assert "At most fair" in (folder / "report.html").read_text("utf-8")


def test_workers_are_judged_by_distance(tmp_path: Path) -> None:
    folder, _ = run(campaign(tmp_path))
    table = pq.read_table(folder / "workers.parquet")
    found = dict(zip(table["worker"].to_pylist(), table["soft_penalty"].to_pylist(), strict=True))
    labels = labels_of(tmp_path)
    expected = dict(zip(labels.workers.tolist(), graded_penalty(labels).tolist(), strict=True))
    assert found == pytest.approx(expected)
    assert "close to the others’ are penalised less" in (folder / "report.html").read_text("utf-8")


def test_without_an_order_there_are_no_cumulative_shares(tmp_path: Path) -> None:
    folder, _ = run(campaign(tmp_path, HEAD.replace("order = true\n", "") + RELEASED))
    assert "at_most" not in pq.read_table(folder / "proportions.parquet").column_names
    assert "At most fair" not in (folder / "public.html").read_text("utf-8")
    assert "close to the others’" not in (folder / "report.html").read_text("utf-8")


def test_shares_corrected_by_gold_have_them_too(tmp_path: Path) -> None:
    random = HEAD.replace("order = true", 'order = true\ngold_sampling = "random"')
    path = campaign(tmp_path, random + RELEASED + "correction_epsilon = 1.0\n")
    rows = (tmp_path / "gold.csv").read_text("utf-8").split()
    (tmp_path / "gold.csv").write_text("\n".join(rows[:61]) + "\n", encoding="utf-8")
    folder, _ = run(path)
    table = pq.read_table(folder / "public" / "corrected_shares.parquet")
    at, low, high = (np.array(table[name]) for name in table.column_names[-3:])
    assert at == pytest.approx(np.cumsum(np.array(table["share"])))
    assert np.all((low <= at) & (at <= high))
    assert high[0] - low[0] > 0
    assert "Shares corrected by gold: at most a grade" in (folder / "public.html").read_text(
        "utf-8"
    )


def test_a_planned_year_adds_up_the_noise_of_its_cohorts(tmp_path: Path) -> None:
    planned = "\n[privacy]\nepsilon = 4.0\nplanned_runs = 4\nplanned_tasks = 480\nlevel = 0.9\n"
    folder, _ = run(campaign(tmp_path, HEAD + planned))
    table = pq.read_table(folder / "proportions.parquet")
    assert np.array(table["at_most"]) == pytest.approx(np.cumsum(np.array(table["proportion"])))
    assert np.all(np.array(table["at_most_low"]) <= np.array(table["at_most_high"]))


def test_the_confidence_of_a_label_that_is_not_the_likeliest_is_its_own(tmp_path: Path) -> None:
    folder, _ = run(campaign(tmp_path, HEAD + 'loss = "squared"\n'))
    table, labels = pq.read_table(folder / "consensus.parquet"), labels_of(tmp_path)
    rows = [line.split(",") for line in (tmp_path / "gold.csv").read_text("utf-8").split()[1:]]
    gold = encode_gold(labels, *zip(*rows, strict=True))
    posterior = ordinal_crowd(labels).posterior
    code = np.array([GRADES.index(name) for name in table["label"].to_pylist()])
    sure = calibrate(labels, posterior, gold=gold)
    expected = sure.in_label(posterior, code)
    assert table["confidence"].to_numpy() == pytest.approx(expected)
    moved = code != posterior.argmax(axis=1)
    assert moved.any()
    assert (expected[moved] != sure.confidence[moved]).all()


def test_the_report_says_that_the_labels_show_the_order_and_keeps_it(tmp_path: Path) -> None:
    folder, facts = run(campaign(tmp_path, HEAD + 'loss = "absolute"\n'))
    assert facts["order"]["verdict"] == "shown"
    assert facts["classes"] == list(GRADES)
    quality = json.loads((folder / "quality.json").read_text("utf-8"))
    assert quality["agreement"][0]["measure"] == "Krippendorff’s alpha, ordinal"
    assert quality["agreement"][0]["value"] == pytest.approx(quality["alpha"])
    page = (folder / "report.html").read_text("utf-8")
    assert "The classes are ordered, and a label is a median of what is believed" in page
    assert "The labels show the order: at every boundary workers confuse neighbours most" in page
    assert "Are the classes grades, in this order?" not in page


def test_classes_that_are_no_grades_are_noticed(tmp_path: Path) -> None:
    """The same labels under a wrong order of the names."""
    settings = HEAD.replace('"poor", "fair", "good", "great"', '"good", "poor", "great", "fair"')
    folder, facts = run(campaign(tmp_path, settings))
    assert facts["order"]["verdict"] == "contradicted"
    assert "speak against the order" in facts["order"]["sentence"]
    page = (folder / "report.html").read_text("utf-8")
    assert "Are the classes grades, in this order?" in page


def test_published_shares_stand_in_the_order_of_the_classes(tmp_path: Path) -> None:
    folder, _ = run(campaign(tmp_path, HEAD + "[privacy]\nepsilon = 1.0\n"))
    names = pq.read_table(folder / "public" / "proportions.parquet")["class"].to_pylist()
    assert names == list(GRADES)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            HEAD.replace("order = true\n", "") + 'loss = "absolute"\n',
            'consensus.loss = "absolute" needs input.order = true',
        ),
        (
            HEAD.replace("order = true\n", "") + 'aggregator = "ordinal_crowd"\n',
            'consensus.aggregator = "ordinal_crowd" needs input.order = true',
        ),
        (
            HEAD.replace('classes = ["poor", "fair", "good", "great"]\n', ""),
            "input.order needs classes, the names in their order",
        ),
        (
            HEAD + '[filter]\npenalty = "hard"\n',
            'filter.penalty = "hard" must be without input.order: it counts whole conflicts',
        ),
        (
            HEAD + "[engine]\n[filter]\nn_workers = 0\n",
            "[engine] must be without input.order: the ordinal model needs all labels in memory",
        ),
        (HEAD + "go_on = true\n", "not for ordinal_crowd"),
        (
            HEAD + '[privacy]\nepsilon = 1.0\nunit = "task"\n[filter]\nn_workers = 0\n',
            'privacy.unit = "task" needs consensus.aggregator = "majority_vote"',
        ),
    ],
)
def test_what_does_not_go_with_an_order_is_refused_in_a_sentence(
    tmp_path: Path, settings: str, sentence: str
) -> None:
    path = campaign(tmp_path, settings)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_aggregator_may_be_named_and_its_posterior_is_decided_by_loss(
    tmp_path: Path,
) -> None:
    settings = HEAD + 'aggregator = "majority_vote"\nloss = "absolute"\n'
    settings += '[privacy]\nepsilon = 1.0\nunit = "task"\n[filter]\nn_workers = 0\n'
    folder, facts = run(campaign(tmp_path, settings))
    table = pq.read_table(folder / "consensus.parquet")
    decided = least_loss(np.array(table["posterior"].to_pylist()), "absolute").label
    assert table["label"].to_pylist() == [GRADES[code] for code in decided]
    assert facts["aggregator"] == "majority_vote"

"""What a run says of its consensus: gold that was used, and which aggregator was chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.aggregators import consensus_of
from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from flows.stages.consensus import consensus_verdict
from flows.stages.label_sets import compared_with_gold, vote_wins
from flows.stages.workers import agrees_by_chance
from quality import CrowdLabels
from tests.flows.campaign import write_small_campaign

ALIKE = 'if gold is like the other tasks (input.gold_sampling is "chosen")'


def test_gold_that_was_used_cannot_check(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text(encoding="utf-8").split("[privacy]")[0]
    path.write_text(text + "[consensus]\nuse_gold = true\n", encoding="utf-8")
    folder = run_pipeline(load_settings(path)).folder
    found = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))
    assert found["gold"] is None
    assert found["gold_used"] == 50
    said = consensus_verdict(found)
    assert "by labels, and 1 for 50 gold tasks; " in said
    assert "not checked, as the 50 gold tasks made it" in said
    assert "the gold was used, so it cannot check" in (folder / "report.html").read_text("utf-8")


def test_the_report_says_which_aggregator_was_chosen_and_why(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text(encoding="utf-8").split("[privacy]")[0]
    path.write_text(text + '[consensus]\naggregator = "auto"\n', encoding="utf-8")
    folder = run_pipeline(load_settings(path)).folder
    choice = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))["choice"]
    assert choice["chosen"] in {score["name"] for score in choice["scores"]}
    page = (folder / "report.html").read_text("utf-8")
    assert "that best predicted" in page
    n_pooled = sum(score["weight"] > 0 for score in choice["scores"])
    assert n_pooled > 1
    assert f"By a pool of {n_pooled} aggregators led by" in page


def test_a_panel_of_models_alone_is_refused_a_confidence(tmp_path: Path) -> None:
    found = {"gold": None, "confidence": None, "model_confidence": 0.99, "models_alone": True}
    assert "0.99" not in consensus_verdict(found)
    assert "all workers are models" in consensus_verdict(found)
    path = write_small_campaign(tmp_path)
    text = path.read_text(encoding="utf-8").split("[filter]")[0].replace('gold = "gold.csv"\n', "")
    models = ", ".join(f'"w{worker:02d}"' for worker in range(15))
    path.write_text(f"{text}models = [{models}]\n", encoding="utf-8")
    folder = run_pipeline(load_settings(path)).folder
    facts = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))
    assert facts["confidence"] is facts["mean_confidence"] is facts["confidence_histogram"] is None
    for table in ("consensus", "next_labels"):
        column = pq.read_table(folder / f"{table}.parquet")["confidence"]
        assert np.isnan(column.to_numpy()).all()
    assert "No confidence: all workers are models" in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize("engine", ["", "[engine]\nshard_labels = 40\nwhole_labels = 0\n"])
def test_where_chance_may_explain_the_agreement_confidence_is_doubted(
    engine: str, tmp_path: Path
) -> None:
    """A crowd of guessers is believed as a public one is, at about .65; the verdicts must not hide it."""
    rng = np.random.default_rng(3)
    rows = [(f"w{w}", f"t{t:02d}", "abc"[rng.integers(3)]) for t in range(40) for w in range(3)]
    table = dict(zip(("worker", "task", "label"), zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(table), tmp_path / "labels.parquet")
    settings = tmp_path / "settings.toml"
    settings.write_text('name = "guessed"\n[input]\nlabels = "labels.parquet"\n' + engine)
    result = run_pipeline(load_settings(settings))
    facts = json.loads((result.folder / "consensus.json").read_text(encoding="utf-8"))
    assert facts["by_chance"]
    assert "yet workers agree no more than by chance" in consensus_verdict(facts)
    page = (result.folder / "report.html").read_text("utf-8")
    assert "Workers agree no more than chance may explain." in page
    assert "nothing shows that anybody knew" in page


def test_agreement_that_chance_cannot_explain_leaves_no_doubt() -> None:
    alpha = {"measure": "Krippendorff’s alpha", "of": "all labels", "low": 0.0}
    kept = alpha | {"of": "without the removed workers", "low": 0.2}
    assert agrees_by_chance({"agreement": [alpha]})
    assert not agrees_by_chance({"agreement": [alpha, kept]})  # the workers kept are asked
    assert not agrees_by_chance({"agreement": [alpha | {"low": None}]})
    assert not agrees_by_chance({"agreement": None})


def test_confidence_is_that_of_quality_and_the_model_s_stands_beside(tmp_path: Path) -> None:
    folder = run_pipeline(load_settings(write_small_campaign(tmp_path))).folder
    facts = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))
    table = pq.read_table(folder / "consensus.parquet").to_pandas()
    posterior = np.stack(table["posterior"].to_list())
    assert (table["model_confidence"] == posterior.max(axis=1)).all()
    assert facts["mean_confidence"] == pytest.approx(table["confidence"].mean())
    assert facts["model_confidence"] == pytest.approx(table["model_confidence"].mean())
    assert facts["confidence"]["evidence"] == "gold"
    assert facts["confidence"]["n_gold"] == 50
    assert facts["confidence"]["after"]["brier"] < facts["confidence"]["before"]["brier"] + 0.02
    assert sum(facts["confidence_histogram"]["counts"]) == len(table)
    first = pq.read_table(folder / "next_labels.parquet").to_pandas()
    belief = first["confidence"] * first["model_confidence"]
    assert belief.round(12).is_monotonic_increasing
    by_task = table.set_index("task").loc[first["task"]]
    for column in ("confidence", "model_confidence"):
        assert (first[column].to_numpy() == by_task[column].to_numpy()).all()
    assert "How far confidence can be believed" in (folder / "report.html").read_text("utf-8")


def test_without_gold_confidence_is_by_labels_and_what_is_heard_beside_them(tmp_path: Path) -> None:
    path = write_small_campaign(tmp_path)
    text = path.read_text(encoding="utf-8").split("[filter]")[0].replace('gold = "gold.csv"\n', "")
    path.write_text(text, encoding="utf-8")
    folder = run_pipeline(load_settings(path)).folder
    facts = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))
    assert facts["confidence"]["evidence"] == "labels"
    assert facts["confidence"]["before"] is None
    assert facts["mean_confidence"] < facts["model_confidence"]
    assert "by labels and features;" in consensus_verdict(facts)
    assert "by labels alone;" in consensus_verdict(facts | {"features": None})
    assert "How far confidence can be believed" not in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("model", "low", "high", "words"),
    [
        (0.986, 0.78, 0.87, "overconfident by 15.6 points; use the adjusted figures"),
        (0.70, 0.78, 0.87, "underconfident by 13.0 points; use the adjusted figures"),
        (0.85, 0.78, 0.87, "as close as 300 gold tasks can tell"),
    ],
)
def test_the_verdict_compares_the_model_with_gold(
    model: float, low: float, high: float, words: str
) -> None:
    before = {"n": 300, "confidence": model, "right": 0.83, "low": low, "high": high}
    compared = compared_with_gold(before)
    assert compared == f"the model says {model:.1%}, gold says 83.0%: {words}"
    found = {
        "gold": None,
        "models_alone": False,
        "mean_confidence": 0.84,
        "model_confidence": model,
        "confidence": {"n_gold": 300, "compared": compared},
    }
    assert consensus_verdict(found).endswith(compared)
    gold = dict.fromkeys(("accuracy", "low", "high", "unfiltered", "majority_vote"), 0.83)
    for chosen, end in ((False, compared), (True, f"{compared}, {ALIKE}")):
        sampled = found | {"gold": gold | {"n": 300, "chosen": chosen}}
        assert consensus_verdict(sampled).endswith(end)


@pytest.mark.parametrize("sampling", ["", 'gold_sampling = "random"\n'])
def test_gold_that_is_not_declared_a_sample_is_said_to_be_taken_for_one(
    sampling: str, tmp_path: Path
) -> None:
    settings = write_small_campaign(tmp_path)
    text = settings.read_text("utf-8").split("[privacy]")[0]
    settings.write_text(text.replace("[input]\n", f"[input]\n{sampling}"), "utf-8")
    result = run_pipeline(load_settings(settings))
    facts = json.loads((result.folder / "consensus.json").read_text("utf-8"))
    assert facts["gold"]["chosen"] is not bool(sampling)
    page = (result.folder / "report.html").read_text("utf-8")
    for said in (ALIKE in consensus_verdict(facts), "Gold is not declared a random sample" in page):
        assert said is not bool(sampling)
    assert ("gold tasks show it, taken for a random sample" in page) is not bool(sampling)


def test_a_consensus_of_the_same_inputs_is_fitted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judging, aggregating and the check against gold: of the workers kept, and of all."""
    fitted = []

    def counted(labels: CrowdLabels, *given: Any, **named: Any) -> Any:
        fitted.append(labels.n_labels)
        return consensus_of(labels, *given, **named)

    monkeypatch.setattr("flows.stages.labels.whole_labels.any_consensus_of", counted)
    monkeypatch.setattr("flows.stages.labels.whole_labels._RECENT", {})
    run_pipeline(load_settings(write_small_campaign(tmp_path)))
    assert 1 <= len(fitted) <= 2
    assert len(set(fitted)) == len(fitted)


def test_a_crowd_that_hardly_knows_is_told_so_in_a_sentence(tmp_path: Path) -> None:
    """One label in seven is known: more than chance explains, and hardly more."""
    rng = np.random.default_rng(5)
    truth = rng.integers(3, size=600)
    knows, guess = rng.random((600, 5)) < 0.15, rng.integers(3, size=(600, 5))
    given = np.where(knows, truth[:, np.newaxis], guess)
    rows = [
        f"w{(t + 7 * w) % 40:02d},t{t:03d},{'abc'[given[t, w]]}"
        for t in range(600)
        for w in range(5)
    ]
    (tmp_path / "labels.csv").write_text("\n".join(["worker,task,label", *rows]) + "\n")
    settings = tmp_path / "settings.toml"
    settings.write_text('name = "weak"\n[input]\nlabels = "labels.csv"\n')
    folder = run_pipeline(load_settings(settings)).folder
    facts = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))
    assert not facts["by_chance"]
    assert facts["confidence"]["hardly_known"]
    assert facts["mean_confidence"] < 0.55
    assert "hardly more alike than by chance" in consensus_verdict(facts)
    page = (folder / "report.html").read_text("utf-8")
    assert "votes are little more alike than by chance" in page
    assert "crowd is taken for one like the public ones" not in page


def test_majority_vote_does_better_where_gold_shows_it() -> None:
    """One task more of three is chance, six of six are not; tasks that both get right do not count."""
    right = np.repeat([True, False, False], [40, 6, 4])
    for n_vote, wins in ((6, True), (1, False), (0, False)):
        by_vote = right.copy()
        by_vote[40 : 40 + n_vote] = True
        assert vote_wins(right, by_vote) is wins
        assert not vote_wins(by_vote, right)
    by_vote = right.copy()
    by_vote[[0, 40, 41]] = [False, True, True]  # two for one
    assert not vote_wins(right, by_vote)

"""What judging says of workers: who answers in a group, and who may paste a model's answers.

The groups are those of `quality`. Who pastes is named with evidence in the team's report, and never removed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.pipeline import RunResult, run_pipeline
from flows.settings import SettingsError
from flows.settings.settings import load_settings
from flows.stages.reading import names_of_models
from flows.stages.workers import agreement_facts, group_facts
from flows.tables.tables import read_reference
from flows.tables.text_table import TableError
from quality import (
    alpha_interval,
    dependent_groups,
    encode,
    regular_assignment,
    simulate_crowd,
)


def test_groups_are_named_with_their_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(2, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    monkeypatch.setattr("flows.stages.workers.SHOWN_MEMBERS", 3)
    facts = group_facts(dependent_groups(labels), labels.workers, "weigh")
    assert (facts["n_workers"], round(facts["worth"]), facts["n_grouped"]) == (24, 21, 4)
    (group,) = facts["shown"]
    assert (group["n"], group["workers"]) == (4, ["20", "21", "22"])
    assert (group["n_common"], group["n_agreed"]) == (6 * 150, 6 * 150)
    assert group["expected"] < 6 * 100
    assert group["n_wrong"] > 1.5 * group["expected_wrong"]
    assert group["p_value"] < 1e-6


def test_agreement_is_of_the_whole_of_those_kept_and_of_each_class() -> None:
    rng = np.random.default_rng(1)
    task, worker = np.repeat(np.arange(40), 4), np.tile(["ann", "bob", "cy", "dan"], 40)
    labels = encode(worker, task, rng.integers(3, size=160))
    kept = labels.keep_workers(labels.workers != "dan")
    facts = agreement_facts(labels, kept)
    assert facts is not None
    assert [fact["of"] for fact in facts] == [
        *3 * ["all labels"], "without the removed workers",
        *(f"{name} against the others" for name in range(3)),
    ]  # fmt: skip
    whole, of_kept = alpha_interval(labels), alpha_interval(kept)
    assert (facts[0]["value"], facts[0]["low"]) == (whole.value, whole.lower)
    assert (facts[3]["value"], facts[3]["high"]) == (of_kept.value, of_kept.upper)
    assert agreement_facts(None, kept) is None


def test_undefined_agreement_is_null() -> None:
    labels = encode(["ann", "bob"], [1, 1], ["x", "x"])
    facts = agreement_facts(labels, labels)
    assert facts is not None
    assert {fact["value"] for fact in facts} == {None}


def test_models_are_found_by_name_or_kind_and_unknown_ones_are_refused() -> None:
    workers = np.array(["ann", "gpt", "bob"])
    assert names_of_models(workers, (), ()) == ()
    assert names_of_models(workers, ("gpt",), ("bob", "gpt")) == ("bob", "gpt")
    with pytest.raises(
        SettingsError, match=r"input.models: 'llama' must be a worker of the labels"
    ):
        names_of_models(workers, ("gpt", "llama"), ())


SETTINGS = """\
name = "answers"
classes = ["a", "b", "c"]
[input]
labels = "labels.csv"
reference = "reference.csv"
"""


def campaign(folder: Path, *, named: bool = False) -> Path:
    """200 tasks, 20 workers, of whom w00 to w03 paste a model that is right on 60 %."""
    rng = np.random.default_rng(5)
    truth = rng.integers(3, size=200)
    model = np.where(rng.random(200) < 0.6, truth, rng.integers(3, size=200))
    other = np.where(rng.random(200) < 0.6, truth, rng.integers(3, size=200))
    labels = ["worker,task,label"]
    for task in range(200):
        for worker in rng.choice(20, size=6, replace=False):
            right = truth[task] if rng.random() < 0.8 else rng.integers(3)
            said = model[task] if worker < 4 else right
            labels.append(f"w{worker:02d},t{task:03d},{'abc'[said]}")
    answers = ["task,label" + (",model" if named else "")]
    for task in range(200):
        answers.append(f"t{task:03d},{'abc'[model[task]]}" + (",first" if named else ""))
        if named:
            answers.append(f"t{task:03d},{'abc'[other[task]]},second")
    (folder / "labels.csv").write_text("\n".join(labels) + "\n", encoding="utf-8")
    (folder / "reference.csv").write_text("\n".join(answers) + "\n", encoding="utf-8")
    (folder / "settings.toml").write_text(SETTINGS, encoding="utf-8")
    return folder / "settings.toml"


@pytest.mark.parametrize("named", [False, True])
def test_workers_who_paste_are_named_with_evidence_and_stay(tmp_path: Path, named: bool) -> None:
    folder = run_pipeline(load_settings(campaign(tmp_path, named=named))).folder
    quality = json.loads((folder / "quality.json").read_text("utf-8"))
    pasted = quality["pasted"]
    assert sorted(one["worker"] for one in pasted["suspected"]) == ["w00", "w01", "w02", "w03"]
    assert pasted["models"] == (["first", "second"] if named else [""])
    for one in pasted["suspected"]:
        assert one["model"] == ("first" if named else "")
        assert one["share"] > 0.5
        assert one["n_same"] == one["n"] > 30
    assert not set(quality["removed"]) & {"w00", "w01", "w02", "w03"}
    page = (folder / "report.html").read_text("utf-8")
    assert "Workers who may paste a model’s answers" in page
    assert "nobody was removed" in page
    assert "may paste" not in (folder / "public.html").read_text("utf-8")
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert "reference" in json.dumps(manifest)


def test_answers_on_other_tasks_or_of_other_classes_are_no_evidence(tmp_path: Path) -> None:
    path = campaign(tmp_path)
    rows = (tmp_path / "reference.csv").read_text("utf-8").split()
    strange = [*rows[:150], "t999,a", "t998,b"]
    (tmp_path / "reference.csv").write_text("\n".join(strange) + "\n", encoding="utf-8")
    folder = run_pipeline(load_settings(path)).folder
    pasted = json.loads((folder / "quality.json").read_text("utf-8"))["pasted"]
    assert pasted["n_tasks"] == {"": 149}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["task,label", "t1,a", "t1,b"], "keep one answer of a model per task"),
        (["task,label", "t1,z"], "z"),
        (["task,label,model", "t1,a,"], "model"),
        (["task,answer", "t1,a"], "label"),
    ],
)
def test_reference_tables_with_faults_are_refused(
    tmp_path: Path, rows: list[str], message: str
) -> None:
    path = tmp_path / "reference.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    with pytest.raises(TableError, match=message):
        read_reference(path, classes=["a", "b"])


def test_one_models_answer_may_be_given_beside_anothers(tmp_path: Path) -> None:
    path = tmp_path / "reference.csv"
    path.write_text("task,label,model\nt2,b,y\nt1,a,y\nt1,b,x\n", encoding="utf-8")
    found = read_reference(path, classes=None)
    rows = zip(found.model.tolist(), found.task.tolist(), found.label.tolist(), strict=True)
    assert list(rows) == [("x", "t1", "b"), ("y", "t1", "a"), ("y", "t2", "b")]


SHARDS = "[engine]\nshard_labels = 200\n"


def crowd_with_copies() -> dict[str, list[str]]:
    """Labels of 24 workers, four of whom copy from one another; three tasks have theirs alone."""
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(2, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
    copied = np.unique(crowd.task[crowd.worker >= 20])[:3]
    kept = (crowd.worker >= 20) | ~np.isin(crowd.task, copied)
    return {
        "worker": [f"w{code:02d}" for code in crowd.worker[kept]],
        "task": [f"t{code:03d}" for code in crowd.task[kept]],
        "label": ["ab"[code] for code in crowd.label[kept]],
    }


@pytest.mark.parametrize("engine", ["", SHARDS])
def test_nobody_is_removed_where_no_group_is_found(tmp_path: Path, engine: str) -> None:
    alone = [row for row in pa.table(crowd_with_copies()).to_pylist() if row["worker"] < "w20"]
    pq.write_table(pa.Table.from_pylist(alone), tmp_path / "labels.parquet")
    (tmp_path / "settings.toml").write_text(
        'name = "alone"\n[input]\nlabels = "labels.parquet"\n[filter]\nn_workers = 0\n'
        f'[consensus]\naggregator = "dawid_skene"\ngroups = "remove"\n{engine}'
    )
    facts = run_pipeline(load_settings(tmp_path / "settings.toml")).run.read_json("quality.json")
    assert (facts["groups"]["n"], facts["n_removed"], facts["refused"]) == (0, 0, [])


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("engine", ["", SHARDS, SHARDS + "whole_labels = 10\n"])
def test_a_group_is_removed_but_for_whom_a_task_needs(
    tmp_path: Path, engine: str, least: int
) -> None:
    crowd = crowd_with_copies()
    pq.write_table(pa.table(crowd), tmp_path / "labels.parquet")
    (tmp_path / "settings.toml").write_text(
        'name = "copies"\n[input]\nlabels = "labels.parquet"\n'
        f"[filter]\nn_workers = 0\nmin_labels_per_task = {least}\n"
        f'[consensus]\naggregator = "dawid_skene"\ngroups = "remove"\n{engine}'
    )
    result = run_pipeline(load_settings(tmp_path / "settings.toml"))
    workers = {row["worker"]: row for row in result.workers.arrow.to_pylist()}
    gone = sorted(name for name, row in workers.items() if row["flagged"])
    grouped = sorted(name for name, row in workers.items() if row["group"] is not None)
    assert grouped == ["w20", "w21", "w22", "w23"]
    assert len(gone) == 4 - least
    assert set(gone) < set(grouped)
    assert min(row["n_labels"] for row in result.consensus.arrow.to_pylist()) == least
    facts = result.run.read_json("quality.json")
    assert (facts["n_removed"], sorted(facts["removed"])) == (len(gone), gone)
    assert sorted(row["worker"] for row in facts["refused"]) == sorted(set(grouped) - set(gone))
    assert facts["labels_removed"] == sum(crowd["worker"].count(name) for name in gone)
    for name in grouped:
        said = "removed for not answering on her own" if name in gone else "and stays: task t"
        assert said in workers[name]["reason"]
    line = next(one.line for one in result.stages if one.stage == "judge_workers")
    assert f"0 of 24 workers removed by soft penalty (0 workers) and {len(gone)} in groups" in line
    assert f"without the {len(gone)} removed" in result.verdicts["crowd"]


def liars(tmp_path: Path, more: str, *, gold: int = 100) -> RunResult:
    """A run on a crowd in which a quarter is always wrong, of two classes, with gold."""
    rng = np.random.default_rng(4)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=5, rng=rng)
    truth = rng.integers(2, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries={"malicious": 5}, rng=rng)
    names = {"worker": [f"w{code:02d}" for code in crowd.worker.tolist()]}
    names["task"] = [f"t{code:03d}" for code in crowd.task.tolist()]
    names["label"] = ["ab"[code] for code in crowd.label.tolist()]
    pq.write_table(pa.table(names), tmp_path / "labels.parquet")
    known = {"task": [f"t{code:03d}" for code in range(gold)]}
    known["label"] = ["ab"[code] for code in truth[:gold].tolist()]
    pq.write_table(pa.table(known), tmp_path / "gold.parquet")
    (tmp_path / "settings.toml").write_text(
        'name = "liars"\n[input]\nlabels = "labels.parquet"\ngold = "gold.parquet"\n' + more
    )
    return run_pipeline(load_settings(tmp_path / "settings.toml"))


@pytest.mark.parametrize("engine", ["", SHARDS, SHARDS + "whole_labels = 10\n"])
def test_the_pool_weighs_labels_of_the_removed(tmp_path: Path, engine: str) -> None:
    result = liars(tmp_path, engine)
    quality, gold = (
        result.run.read_json("quality.json"),
        result.run.read_json("consensus.json")["gold"],
    )
    assert quality["n_removed"] >= 3
    assert quality["labels_weighed"] == quality["labels_removed"] > 0
    lines = {one.stage: one.line for one in result.stages}
    removed = f"the consensus weighs their {quality['labels_removed']:,} labels"
    assert removed in lines["judge_workers"]
    # a liar of two classes tells the truth to whoever knows her
    assert gold["accuracy"] == gold["unfiltered"] > gold["without_removed"] + 0.03
    without = f"without those removed {gold['without_removed']:.1%}"
    assert without in result.verdicts["consensus"]
    # what is said of tasks, and whom to ask, is of the workers kept
    assert sum(row["n_labels"] for row in result.consensus.arrow.to_pylist()) == (
        1500 - quality["labels_removed"]
    )
    asked = result.run.read_table("label_plan.parquet").column("worker").to_pylist()
    assert not set(asked) & set(quality["removed"])


@pytest.mark.parametrize(
    ("chosen", "weighs"),
    [
        ('removed = "drop"', False),
        ('aggregator = "dawid_skene"', False),
        ('aggregator = "dawid_skene"\nremoved = "weigh"', True),
        ("use_gold = true", False),
    ],
)
def test_labels_of_the_removed_are_weighed_where_the_settings_say_so(
    tmp_path: Path, chosen: str, weighs: bool
) -> None:
    result = liars(tmp_path, f"[consensus]\n{chosen}\n")
    quality = result.run.read_json("quality.json")
    assert quality["labels_weighed"] == (quality["labels_removed"] if weighs else 0)
    gold = result.run.read_json("consensus.json")["gold"]
    if gold is None:
        return
    assert (gold["without_removed"] is None) is not weighs
    line = next(one.line for one in result.stages if one.stage == "judge_workers")
    assert ("the consensus weighs" in line, ", with " in line) == (weighs, not weighs)


def test_members_of_a_group_to_be_removed_have_no_say_though_others_removed_do(
    tmp_path: Path,
) -> None:
    crowd = crowd_with_copies()
    pq.write_table(pa.table(crowd), tmp_path / "labels.parquet")
    (tmp_path / "settings.toml").write_text(
        'name = "copies"\n[input]\nlabels = "labels.parquet"\n[filter]\nn_workers = 2\n'
        '[consensus]\ngroups = "remove"\n'
    )
    result = run_pipeline(load_settings(tmp_path / "settings.toml"))
    facts = result.run.read_json("quality.json")
    workers = {row["worker"]: row for row in result.workers.arrow.to_pylist()}
    heard = [name for name in facts["removed"] if workers[name]["group"] is None]
    assert facts["labels_weighed"] == sum(workers[name]["n_labels"] for name in heard)
    assert len(heard) < len(facts["removed"])

"""Features of tasks in a run: they join where nothing released or judged rests on their being apart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import read_csv

from flows.aggregators import consensus_of
from flows.pipeline import run_pipeline
from flows.run import Run, load_crowd
from flows.settings import ConsensusSettings, Settings, SettingsError
from flows.settings.settings import load_settings
from flows.spending import plan_releases
from flows.stages.consensus import consensus_verdict
from flows.stages.learning.task_voices import (
    hear_models,
    panel_sentence,
    voices_sentence,
    why_unlearned,
)
from quality import CrowdLabels, calibrate, encode

HEAD = """\
name = "voices"
classes = ["a", "b", "c"]
[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
gold = "gold.csv"
"""


def campaign(folder: Path, *, noise: bool = False, settings: str = "") -> Path:
    """300 tasks of 8 features and two groups, three labels each; the first two tasks are the same."""
    rng = np.random.default_rng(11)
    truth = rng.integers(3, size=300)
    truth[1] = truth[0]
    features = rng.normal(size=(300, 8)) + (0 if noise else 1.2) * rng.normal(size=(3, 8))[truth]
    features[1] = features[0]
    cells = ["task,group," + ",".join(f"x{j}" for j in range(8))]
    for task, row in enumerate(features):
        values = ",".join(f"{value:.6f}" for value in row)
        cells.append(f"t{task:03d},g{task % 2},{values}")
    labels, gold = ["worker,task,label"], ["task,label"]
    for task, true in enumerate(truth):
        gold.append(f"t{task:03d},{'abc'[true]}")
        for worker in rng.choice(12, size=3, replace=False):
            said = true if rng.random() < 0.65 else rng.integers(3)
            labels.append(f"w{worker:02d},t{task:03d},{'abc'[said]}")
    for name, rows in (("tasks", cells), ("labels", labels), ("gold", gold)):
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "settings.toml"
    path.write_text(HEAD + settings, encoding="utf-8")
    return path


def run(path: Path) -> tuple[Path, dict[str, Any]]:
    folder = run_pipeline(load_settings(path)).folder
    return folder, json.loads((folder / "consensus.json").read_text("utf-8"))


def labels_of(folder: Path) -> list[str]:
    labels: list[str] = pq.read_table(folder / "consensus.parquet").column("label").to_pylist()
    return labels


def test_features_that_know_the_classes_join_by_default(tmp_path: Path) -> None:
    folder, found = run(campaign(tmp_path))
    voice = found["features"]
    assert voice["heard"]
    assert voice["gold"]["with"] > voice["gold"]["without"] + 0.05
    assert voice["gold"]["with"] == found["gold"]["accuracy"]
    assert voice["gold"]["without"] == found["gold"]["of_labels"]
    assert voice["worth"] > 0
    table = pq.read_table(folder / "task_voices.parquet").to_pylist()
    turned = [row for row in table if row["suspected"]]
    assert len(turned) == voice["n_turned"] > 0
    assert table[: len(turned)] == turned  # they stand first, the least believed before all
    assert [row["by_labels"] != row["label"] for row in table] == [r["suspected"] for r in table]
    assert [row["task"] for row in voice["suspected"]] == [row["task"] for row in turned[:10]]
    final = dict(zip(sorted(r["task"] for r in table), labels_of(folder), strict=True))
    assert {row["task"]: row["label"] for row in table} == final
    page = (folder / "report.html").read_text("utf-8")
    assert "is one more voice" in page
    assert ", joined by features." in page
    assert f"{voice['n_turned']} of 300 tasks" in page
    assert "Labels that look wrong" in page


def test_workers_who_guess_are_known_by_features_though_most_tasks_have_one_label(
    tmp_path: Path,
) -> None:
    """Of 400 tasks 40 have three labels, and a third of the workers guess.

    A worker's agreement is a plain count of her labels that are the joint label.
    """
    path, rng = campaign(tmp_path), np.random.default_rng(3)
    truth = rng.integers(3, size=400)
    features = rng.normal(size=(400, 8)) + 1.5 * rng.normal(size=(3, 8))[truth]
    tasks, labels = ["task,group," + ",".join(f"x{j}" for j in range(8))], ["worker,task,label"]
    for task, true in enumerate(truth.tolist()):
        tasks.append(f"t{task:03d},g," + ",".join(f"{value:.6f}" for value in features[task]))
        for worker in rng.choice(9, size=3 if task < 40 else 1, replace=False).tolist():
            said = rng.integers(3) if worker < 3 or rng.random() < 0.2 else true
            labels.append(f"w{worker},t{task:03d},{'abc'[said]}")
    for name, rows in (("tasks", tasks), ("labels", labels)):
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    text = path.read_text(encoding="utf-8").replace('gold = "gold.csv"\n', "")
    path.write_text(text, encoding="utf-8")

    folder, found = run(path)
    table = pq.read_table(folder / "worker_voices.parquet").to_pylist()
    assert {row["worker"] for row in table[:3]} == {"w0", "w1", "w2"}
    doubtful = found["features"]["doubtful_workers"]
    assert {row["worker"] for row in doubtful} == {"w0", "w1", "w2"}
    final = dict(zip(sorted(f"t{task:03d}" for task in range(400)), labels_of(folder), strict=True))
    own = [line.split(",") for line in labels if line.startswith(f"{table[0]['worker']},")]
    agreed = sum(final[task] == label for _, task, label in own)
    assert table[0]["n_labels"] == len(own)
    assert table[0]["agreement"] == pytest.approx(agreed / len(own))
    assert "Workers whose labels agree least with these" in (folder / "report.html").read_text(
        "utf-8"
    )
    right = np.mean([final[f"t{task:03d}"] == "abc"[true] for task, true in enumerate(truth)])
    assert found["mean_confidence"] == pytest.approx(right, abs=0.15)


def test_tasks_that_came_in_twice_are_listed(tmp_path: Path) -> None:
    folder, found = run(campaign(tmp_path))
    pairs = pq.read_table(folder / "near_duplicates.parquet").to_pylist()
    assert [(row["task"], row["like"]) for row in pairs] == [("t000", "t001")]
    assert found["features"]["duplicates"]["n"] == 1
    assert "Tasks that may have come in twice" in (folder / "report.html").read_text("utf-8")


def test_features_of_noise_leave_the_consensus_as_it_is(tmp_path: Path) -> None:
    tables = []
    for name, text in (("noise", ""), ("ignored", '[consensus]\nfeatures = "ignore"\n')):
        (tmp_path / name).mkdir()
        folder, found = run(campaign(tmp_path / name, noise=True, settings=text))
        tables.append((folder / "consensus.parquet").read_bytes())
        if name == "noise":
            assert not found["features"]["heard"]
            assert "was not heard" in (folder / "report.html").read_text("utf-8")
            assert not (folder / "task_voices.parquet").exists()
        else:
            assert found["features"] is None
    assert tables[0] == tables[1]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    tables = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        folder, _ = run(campaign(tmp_path / name))
        names = ("consensus.parquet", "task_voices.parquet", "next_labels.parquet")
        tables.append([(folder / one).read_bytes() for one in names])
    assert tables[0] == tables[1]


def test_gold_that_is_used_keeps_its_class(tmp_path: Path) -> None:
    folder, found = run(campaign(tmp_path, settings="[consensus]\nuse_gold = true\n"))
    gold = [line.split(",")[1] for line in (tmp_path / "gold.csv").read_text().split()[1:]]
    assert labels_of(folder) == gold
    assert found["gold"] is None


BUDGET = "[privacy]\nepsilon = 4.0\n"
SAMPLED = 'gold_sampling = "random"\n'
LOCAL = '[consensus]\naggregator = "majority_vote"\ngroups = "ignore"\n[filter]\nn_workers = 0\n'
OUT = [
    ('[privacy]\nepsilon = 4.0\nunit = "row"\n', "", 'privacy.unit = "row"'),
    ('[privacy]\nepsilon = 4.0\nunit = "task"\n', LOCAL, 'privacy.unit = "task"'),
    ('[privacy]\nepsilon = 4.0\nunit = "answer"\n', LOCAL, 'privacy.unit = "answer"'),
    (
        '[privacy]\nepsilon = 4.0\nunit = "subject"\nmax_tasks_per_subject = 200\n',
        "",
        'privacy.unit = "subject"',
    ),
]


@pytest.mark.parametrize(("text", "more", "why"), OUT)
def test_features_stay_out_where_something_rests_on_their_being_apart(
    tmp_path: Path, text: str, more: str, why: str
) -> None:
    """By default they stay out and the report says why; asked to join, the settings are refused."""
    subject = 'subject = "group"\n' if "subject" in text else ""
    path = campaign(tmp_path, settings=subject + text + more)
    folder, found = run(path)
    assert why in found["features"]["why_not"]
    assert not (folder / "task_voices.parquet").exists()
    assert "Features did not join" in (folder / "report.html").read_text("utf-8")
    asked = more if "[consensus]" in more else more + "[consensus]\n"
    asked = asked.replace("[consensus]\n", '[consensus]\nfeatures = "join"\n')
    path.write_text(HEAD + subject + text + asked, encoding="utf-8")
    with pytest.raises(SettingsError, match=r'consensus.features = "join" cannot be'):
        load_settings(path)


def test_a_model_learns_and_is_judged_by_the_labels_before_features_joined_them(
    tmp_path: Path,
) -> None:
    """What training and the holdout read is to the byte what they read where features are left out."""
    model, asked, labels = BUDGET.replace("4", "40") + "[model]\nnorm_bound = 4.0\n", [], []
    for name, text in (("joined", ""), ("apart", '[consensus]\nfeatures = "ignore"\n')):
        (tmp_path / name).mkdir()
        settings = load_settings(campaign(tmp_path / name, settings=model + text))
        found = run_pipeline(settings)
        table = pq.read_table(found.folder / "consensus.parquet")
        labels.append(table["by_labels" if name == "joined" else "label"].to_pylist())
        assert ("by_labels" in table.column_names) is (name == "joined")
        crowd, privacy = load_crowd(found.folder), settings.privacy
        assert privacy is not None
        learning = plan_releases(Run(found.folder, settings), crowd, privacy).learning
        assert learning is not None
        queries = (learning.training, learning.holdout)
        asked.append([{key: value.tolist() for key, value in one.value.items()} for one in queries])
        page = (found.folder / "report.html").read_text("utf-8")
        assert ("labels that features shaped must not judge" in page) is (name == "joined")
    assert asked[0] == asked[1]
    assert labels[0] == labels[1]


def test_where_models_join_the_labels_features_stay_out_of_what_judges_a_model(
    tmp_path: Path,
) -> None:
    """No consensus is kept that both have left alone; the models are heard as they were."""
    path = with_models(tmp_path, settings=BUDGET.replace("4", "40") + "[model]\nnorm_bound = 4.0\n")
    text = path.read_text("utf-8").replace("[input]\n", '[input]\ntasks = ["tasks.csv"]\n')
    path.write_text(text, encoding="utf-8")
    folder, found = run(path)
    assert (found["features"]["heard"], found["features"]["features"]) == (True, False)
    assert "by_labels" not in pq.read_table(folder / "consensus.parquet").column_names
    crowd, settings = load_crowd(folder), load_settings(path)
    assert "models' answers join the labels" in str(why_unlearned(settings, crowd, True))
    assert why_unlearned(settings, crowd) is None


ENGINE = '[engine]\nkind = "local"\nshard_labels = 200\n'
SIMPLE = '[consensus]\naggregator = "dawid_skene"\n[filter]\nn_workers = 0\n'


def on_shards(path: Path, engine: str = ENGINE) -> Path:
    """The same campaign on shards, which are read from Parquet."""
    folder = path.parent
    pq.write_table(read_csv(folder / "labels.csv"), folder / "labels.parquet")
    text = path.read_text("utf-8").replace("labels.csv", "labels.parquet")
    path.write_text(text + engine, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "voice", ["features", "models beside people", "models alone, read by gold"]
)
def test_voices_on_shards_say_what_they_say_in_one_process(tmp_path: Path, voice: str) -> None:
    make = {"features": campaign, "models beside people": with_models}.get(voice, models_alone)
    found = []
    for name in ("one", "shards"):
        (tmp_path / name).mkdir()
        path = make(tmp_path / name, settings=BUDGET + SIMPLE)
        folder, facts = run(path if name == "one" else on_shards(path))
        said = {key: facts[key] for key in ("features", "panel", "gold", "n_models_alone")}
        found.append((labels_of(folder), json.dumps(said)))
    (labels, said), (on_them, said_there) = found
    assert on_them == labels
    assert re.sub(r"\.\d+", "", said_there) == re.sub(r"\.\d+", "", said)
    counts = pq.read_table(folder / "class_counts.parquet").to_pylist()
    by_class = {one: sum(row["n"] for row in counts if row["class"] == one) for one in "abc"}
    assert by_class == {one: labels.count(one) for one in "abc"}


def test_tables_too_large_to_be_held_have_no_voices(tmp_path: Path) -> None:
    limit = ENGINE + "whole_labels = 899\n"
    (tmp_path / "features").mkdir()
    _, found = run(on_shards(campaign(tmp_path / "features", settings=SIMPLE), limit))
    assert found["features"] == {"why_not": "there are more labels than engine.whole_labels"}
    (tmp_path / "models").mkdir()
    _, found = run(on_shards(with_models(tmp_path / "models", settings=SIMPLE), limit))
    assert found["features"] is None
    assert found["panel"] is None


def test_features_beyond_the_engines_memory_stay_out() -> None:
    settings = Settings(
        name="c", input={"labels": "labels.csv", "tasks": ["tasks.csv"]}, engine={"memory_gb": 0.1}
    )
    names = SimpleNamespace(feature_names=("x", "y"))
    sizes = {6_250_000: None, 6_250_001: "features of 6,250,001 tasks are 0.1 GB, more than engine"}
    for n_tasks, why in sizes.items():
        crowd: Any = SimpleNamespace(labels=SimpleNamespace(n_tasks=n_tasks), table=names)
        said = why_unlearned(settings, crowd)
        assert said is None if why is None else said.startswith(why)


def test_private_features_stay_out_of_counts_that_are_published(tmp_path: Path) -> None:
    path = campaign(tmp_path, settings="features_private = true\n" + BUDGET)
    assert "pay for labels alone" in run(path)[1]["features"]["why_not"]
    path.write_text(HEAD + "features_private = true\n", encoding="utf-8")
    assert load_settings(path).features_join


def test_a_consensus_that_features_join_is_not_local(tmp_path: Path) -> None:
    path = campaign(tmp_path, settings=LOCAL)
    assert not load_settings(path).consensus_is_local
    path.write_text(HEAD + LOCAL.replace("[filter]", 'features = "ignore"\n[filter]'), "utf-8")
    assert load_settings(path).consensus_is_local


def test_public_pages_and_files_hold_nothing_of_the_voice(tmp_path: Path) -> None:
    folder, found = run(campaign(tmp_path, settings=BUDGET))
    assert found["features"]["heard"]
    public = (folder / "public.html").read_text("utf-8")
    assert "one more voice" not in public
    assert "t000" not in public


def test_the_verdict_says_what_features_added() -> None:
    voice = {"why_not": None, "heard": True, "worth": 1.94, "n_turned": 12, "gold": None}
    voice |= {"features": True, "n_models": 0}
    said = "; features, worth 1.9 labels a task, turned 12 tasks"
    assert voices_sentence(voice) == said
    with_gold = voice | {"gold": {"n": 5, "with": 0.9, "without": 0.8}}
    assert voices_sentence(with_gold) == f"{said} (80.0% right without them)"
    assert voices_sentence(None) == voices_sentence({"why_not": "they are streamed"}) == ""
    assert "nothing that the labels bear out" in voices_sentence(voice | {"heard": False})
    both = voices_sentence(voice | {"n_models": 3})
    assert both.startswith("; features and models' answers, worth")


def with_models(folder: Path, *, settings: str = "", right: float = 0.8) -> Path:
    """The same without features, and four models of one mind, right so often."""
    path = campaign(folder)
    rng = np.random.default_rng(2)
    gold = [line.split(",") for line in (folder / "gold.csv").read_text("utf-8").split()[1:]]
    rows = (folder / "labels.csv").read_text("utf-8").split()
    for task, true in gold:
        mind = true if rng.random() < right else "abc"[rng.integers(3)]
        for model in range(4):
            said = mind if rng.random() < 0.9 else "abc"[rng.integers(3)]
            rows.append(f"m{model},{task},{said}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    text = path.read_text("utf-8").replace('tasks = ["tasks.csv"]\n', "")
    models = 'models = ["m0", "m1", "m2", "m3"]\n'
    path.write_text(text + models + settings, encoding="utf-8")
    return path


def test_models_beside_people_are_a_voice_and_not_workers(tmp_path: Path) -> None:
    folder, found = run(with_models(tmp_path))
    voice = found["features"]
    assert voice["heard"]
    assert (voice["n_models"], voice["features"]) == (4, False)
    assert voice["gold"]["with"] > voice["gold"]["without"] + 0.03
    assert max(pq.read_table(folder / "consensus.parquet").column("n_labels").to_pylist()) == 3
    page = (folder / "report.html").read_text("utf-8")
    assert "learned the consensus from the answers of 4 models" in page


@pytest.mark.parametrize("several", [False, True])
def test_the_kind_of_workers_names_models_as_settings_do(tmp_path: Path, several: bool) -> None:
    path = with_models(tmp_path)
    named = run(path)[1]["features"]
    file = tmp_path / "labels.csv"
    head, *rows = file.read_text("utf-8").split()
    people = [row for row in rows if row.startswith("w")]
    models = [f"{row},model" for row in rows if row.startswith("m")]
    if several:
        file.unlink()
        (tmp_path / "labels").mkdir()
        parts = {"people": [head, *people], "models": [f"{head},kind", *models]}
        for name, part in parts.items():
            (tmp_path / "labels" / f"{name}.csv").write_text("\n".join(part) + "\n", "utf-8")
    else:
        kinds = [f"{head},kind", *(f"{row}," for row in people), *models]
        file.write_text("\n".join(kinds) + "\n", encoding="utf-8")
    text = path.read_text("utf-8").replace('models = ["m0", "m1", "m2", "m3"]\n', "")
    path.write_text(text.replace("labels.csv", "labels") if several else text, encoding="utf-8")
    _, found = run(path)
    assert found["features"] == named
    assert found["features"]["n_models"] == 4


def test_models_who_guess_together_leave_the_peoples_consensus_as_it_is(tmp_path: Path) -> None:
    folder, found = run(with_models(tmp_path, right=0.0))
    assert not found["features"]["heard"]
    path = campaign(tmp_path)
    text = path.read_text("utf-8").replace('tasks = ["tasks.csv"]\n', "")
    path.write_text(text, encoding="utf-8")
    alone, _ = run(path)
    assert labels_of(folder) == labels_of(alone)


@pytest.mark.parametrize(
    "settings",
    ['[consensus]\nfeatures = "ignore"\n', LOCAL + '[privacy]\nepsilon = 4.0\nunit = "task"\n'],
)
def test_models_are_workers_of_one_vote_where_voices_stay_out(
    tmp_path: Path, settings: str
) -> None:
    path = with_models(tmp_path, settings=settings)
    assert not load_settings(path).models_join
    folder, found = run(path)
    assert found["features"] is None
    assert max(pq.read_table(folder / "consensus.parquet").column("n_labels").to_pylist()) == 7


def without_people(path: Path, first: int) -> Path:
    """The same where no person has labelled the tasks from this one on."""
    file = path.with_name("labels.csv")
    head, *rows = file.read_text("utf-8").split()
    rows = [row for row in rows if row.startswith("m") or int(row.split(",")[1][1:]) < first]
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


def test_tasks_that_models_alone_have_labelled_are_answered_as_the_others_taught(
    tmp_path: Path,
) -> None:
    """Models right on 87 %: they lift the people's tasks, and are believed elsewhere as they deserve."""
    folder, found = run(without_people(with_models(tmp_path), 150))
    voice = found["features"]
    assert voice["heard"]
    assert (voice["n_tasks"], voice["n_alone"], voice["gold_alone"]["n"]) == (150, 150, 150)
    assert voice["gold"]["with"] > voice["gold"]["without"] + 0.03
    assert voice["gold_alone"]["right"] > 0.8
    rows = pq.read_table(folder / "consensus.parquet").to_pylist()
    assert {row["n_labels"] for row in rows[150:]} == {0}
    sure = np.mean([row["confidence"] for row in rows[150:]])
    assert abs(sure - voice["gold_alone"]["right"]) < 0.15
    assert all(row["confidence"] == max(row["posterior"]) for row in rows[150:])
    table = {row["task"]: row for row in pq.read_table(folder / "task_voices.parquet").to_pylist()}
    assert {table[row["task"]]["by_labels"] for row in rows[150:]} == {None}
    assert not any(table[row["task"]]["suspected"] for row in rows[150:])
    assert "No person has labelled 150 tasks" in (folder / "report.html").read_text("utf-8")
    assert "150 tasks without a person's label are answered by them" in voices_sentence(voice)


def test_models_who_guess_are_not_believed_on_tasks_of_their_own(tmp_path: Path) -> None:
    folder, found = run(without_people(with_models(tmp_path, right=0.0), 150))
    assert not found["features"]["heard"]
    rows = pq.read_table(folder / "consensus.parquet").to_pylist()
    assert np.mean([row["confidence"] for row in rows[150:]]) < 0.45  # a third by chance
    assert max(row["confidence"] for row in rows[150:]) < 0.7
    labels = (tmp_path / "labels.csv").read_text("utf-8").split()
    people = [row for row in labels if not row.startswith("m")]
    (tmp_path / "labels.csv").write_text("\n".join(people) + "\n", encoding="utf-8")
    path = tmp_path / "settings.toml"
    models = 'models = ["m0", "m1", "m2", "m3"]\n'
    path.write_text(path.read_text("utf-8").replace(models, ""), encoding="utf-8")
    alone, _ = run(path)
    assert labels_of(folder)[:150] == labels_of(alone)


def test_with_too_few_people_to_learn_from_models_vote_but_have_no_confidence_alone(
    tmp_path: Path,
) -> None:
    path = without_people(with_models(tmp_path), 40)
    path.write_text(path.read_text("utf-8").replace('gold = "gold.csv"\n', ""), "utf-8")
    folder, found = run(path)
    assert found["features"] is None
    assert (found["models_alone"], found["n_models_alone"]) == (False, 260)
    rows = pq.read_table(folder / "consensus.parquet").to_pylist()
    assert [row["confidence"] is None for row in rows] == [False] * 40 + [True] * 260
    shown = [row["confidence"] for row in rows[:40]]
    assert found["mean_confidence"] == pytest.approx(np.mean(shown))
    assert "none for 260 tasks that models alone have labelled" in consensus_verdict(found)
    assert "260 tasks that models alone" in (folder / "report.html").read_text("utf-8")


def people_and_models(seed: int, right: float) -> tuple[CrowdLabels, np.ndarray, np.ndarray]:
    """300 tasks, four models of one mind on all, three people each on the first half; truth, models."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=300)
    rows = [
        (f"w{worker:02d}", task, true if rng.random() < 0.65 else int(rng.integers(3)))
        for task, true in enumerate(truth[:150].tolist())
        for worker in rng.choice(12, size=3, replace=False).tolist()
    ]
    for task, true in enumerate(truth.tolist()):
        mind = true if rng.random() < right else int(rng.integers(3))
        rows += [
            (f"m{model}", task, mind if rng.random() < 0.9 else int(rng.integers(3)))
            for model in range(4)
        ]
    labels = encode(*zip(*rows, strict=True), classes=[0, 1, 2])
    return labels, truth, np.flatnonzero(np.char.startswith(labels.workers.astype(str), "m"))


@pytest.mark.parametrize("right", [0.0, 0.4, 0.8])
def test_models_leave_the_peoples_tasks_no_worse_and_are_no_surer_than_right_on_their_own(
    right: float,
) -> None:
    """Four campaigns each; a voice that is noise is heard with probability < .0014 in each of them.

    Confidence by labels alone is cautious in crowds this good, and what it teaches is as well.
    """
    chosen = ConsensusSettings(aggregator="hierarchical_dawid_skene")
    sure, held = [], []
    for seed in range(4):
        labels, truth, models = people_and_models(seed, right)
        people = labels.keep_workers(~np.isin(np.arange(labels.n_workers), models))
        alone = consensus_of(people, chosen, seed=0)
        joined, _ = hear_models(alone, labels, models, chosen, groups=None, seed=0)
        by_people = slice(0, 150)
        were, are = (np.mean((c.label == truth)[by_people]) for c in (alone, joined))
        assert are >= were - 0.01
        confidence = calibrate(people, joined.posterior).confidence
        sure.append(confidence[150:].mean())
        held.append(np.mean((joined.label == truth)[150:]))
    assert np.mean(held) - 0.25 < np.mean(sure) < np.mean(held) + 0.1  # a standard error of .02
    assert np.mean(held) > 0.3 + right / 2


def models_alone(folder: Path, *, n_gold: int = 100, settings: str = "", people: int = 0) -> Path:
    """The four models alone, whose one mind takes c for a, and gold of some tasks; people on the first."""
    path = without_people(with_models(folder, settings=settings), people)
    truth = dict(line.split(",") for line in (folder / "gold.csv").read_text("utf-8").split()[1:])
    file, rng = folder / "labels.csv", np.random.default_rng(5)
    head, *rows = file.read_text("utf-8").split()
    for at, row in enumerate(rows):
        worker, task, _ = row.split(",")
        if worker.startswith("m"):
            said = truth[task] if worker == "m3" else truth[task].replace("c", "a")
            said = said if rng.random() < 0.9 else "abc"[rng.integers(3)]
            rows[at] = f"{worker},{task},{said}"
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    gold = [f"{task},{true}" for task, true in list(truth.items())[:n_gold]]
    (folder / "gold.csv").write_text("\n".join(["task,label", *gold]) + "\n", encoding="utf-8")
    return path


def right_after(folder: Path, path: Path, n_gold: int) -> float:
    """Share of the tasks without gold whose label is right."""
    truth = campaign(path.parent / "again").with_name("gold.csv").read_text("utf-8").split()[1:]
    pairs = zip(labels_of(folder)[n_gold:], truth[n_gold:], strict=True)
    return float(np.mean([label == line.split(",")[1] for label, line in pairs]))


def test_a_panel_of_models_is_read_as_gold_teaches(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    path = models_alone(tmp_path)
    folder, found = run(path)
    read = found["panel"]
    assert (read["n_models"], read["n_gold"]) == (4, 100)
    assert read["with"] > read["without"] + 0.1
    assert found["gold"]["accuracy"] == read["with"]
    path.write_text(path.read_text("utf-8") + '[consensus]\nfeatures = "ignore"\n', "utf-8")
    before, ignored = run(path)
    assert ignored["panel"] is None
    assert right_after(folder, path, 100) > right_after(before, path, 100) + 0.15
    rows = pq.read_table(folder / "consensus.parquet").to_pylist()[100:]
    sure = np.mean([row["confidence"] for row in rows])
    assert abs(sure - right_after(folder, path, 100)) < 0.08
    verdict, page = consensus_verdict(found), (folder / "report.html").read_text("utf-8")
    assert "read as 100 gold tasks teach, turned" in verdict
    assert found["gold"]["of_labels"] == read["without"]  # all workers' is of labels alone too
    assert "; labels alone, of all workers, " in verdict
    assert "labels alone, of all workers, " in page
    assert "and by how gold teaches to read the models’ answers." in page
    assert "; with all workers " in consensus_verdict(ignored)
    assert "What gold teaches of the models’ answers" in page


@pytest.mark.parametrize(
    ("more", "removed"),
    [
        ("", []),
        ("[filter]\nn_workers = 1\n", ["m5"]),
        ("# people, as far as the settings say", ["m5"]),
    ],
)
def test_no_model_of_a_panel_is_removed_for_disagreeing_unless_asked(
    tmp_path: Path, more: str, removed: list[str]
) -> None:
    """Five of one mind, and the sixth, who errs less alike than they, is the best."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    mind = np.where(rng.random(300) < 0.6, (truth + 1) % 3, truth)
    rows = ["worker,task,label"]
    for model in range(6):
        known = truth if model == 5 else mind
        said = np.where(rng.random(300) < 0.9, known, rng.integers(3, size=300))
        rows += [f"m{model},t{task:03d},{'abc'[code]}" for task, code in enumerate(said)]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    models = "" if more.startswith("#") else f"models = {[f'm{model}' for model in range(6)]}\n"
    path = tmp_path / "settings.toml"
    path.write_text(f'name = "panel"\n[input]\nlabels = "labels.csv"\n{models}{more}\n', "utf-8")
    found = json.loads((run(path)[0] / "quality.json").read_text("utf-8"))
    assert found["removed"] == removed
    assert ("models err alike" in found["stop"]) == (not removed)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"n_gold": 49}, "too little gold to teach"),
        ({"people": 40}, "people have answered too"),
        ({"settings": "[consensus]\nuse_gold = true\n"}, "the gold is used otherwise"),
        ({"settings": LOCAL + '[privacy]\nepsilon = 4.0\nunit = "task"\n'}, "its labels would move others"),
        ({"settings": SAMPLED + BUDGET + "correction_epsilon = 1.0\n"}, "each gold label is protected"),
    ],
)  # fmt: skip
def test_models_are_not_read_by_gold_where(tmp_path: Path, given: dict[str, Any], why: str) -> None:
    _, found = run(models_alone(tmp_path, **given))
    assert found["panel"] is None, why
    assert panel_sentence(None) == ""

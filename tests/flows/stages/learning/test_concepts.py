"""Concepts of tasks' texts in a run: what no class names is found, and nothing else changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.pipeline import run_pipeline
from flows.settings import SettingsError
from flows.settings.settings import load_settings
from flows.tables import TableError

WORDS = {
    "cat": "purr whisker kitten meow paw",
    "dog": "bark leash puppy fetch tail",
    "fish": "gill water scale reef swim",
}
HEAD = """\
name = "pets"
classes = ["cat", "dog"]
[input]
labels = "labels.csv"
tasks = ["tasks.csv"]
"""
TOPICS = '[topics]\ntext = "about"\nlevels = [4]\n'


def campaign(folder: Path, settings: str = TOPICS, *, script: bool = False) -> Path:
    """120 tasks of 20 words, a fifth of them about fish, which no class names: workers then guess."""
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True, exist_ok=True)
    kind = rng.choice(["cat", "dog", "fish"], 120, p=[0.4, 0.4, 0.2])
    tasks, labels = ["task,group,about"], ["worker,task,label"]
    for task, about in enumerate(kind):
        words = " ".join(rng.choice(WORDS[str(about)].split(), 20))
        more = "<script>alert(1)</script> &amp; " if script else ""
        tasks.append(f"t{task:03d},g,{more}{words}")
        for worker in rng.choice(8, size=4, replace=False):
            guess = str(rng.choice(["cat", "dog"]))
            right = about != "fish" and rng.random() < 0.9
            labels.append(f"w{worker},t{task:03d},{about if right else guess}")
    for name, rows in (("tasks", tasks), ("labels", labels)):
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "settings.toml"
    path.write_text(HEAD + settings, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_pipeline(load_settings(campaign(tmp_path_factory.mktemp("pets")))).folder


def test_what_no_class_names_is_a_concept_of_its_own(found: Path) -> None:
    topics = json.loads((found / "topics.json").read_text("utf-8"))
    assert topics["n_tasks"] == 120
    assert 0 < topics["n_named"] < 120
    (missing,) = topics["missing"]
    assert set(missing["words"]) & set(WORDS["fish"].split())
    assert not set(missing["words"][:5]) - set(WORDS["fish"].split())
    assert missing["tasks"] >= 10


def test_a_concept_no_class_names_is_harder_and_agreed_on_less(found: Path) -> None:
    topics = json.loads((found / "topics.json").read_text("utf-8"))
    by_name = {one["name"]: one for one in topics["concepts"]}
    fish = by_name[topics["missing"][0]["name"]]
    for name in ("cat", "dog"):
        assert set(by_name[name]["words"][:5]) == set(WORDS[name].split())
        assert by_name[name]["parents"] == ["root"]
        assert fish["difficulty"] > by_name[name]["difficulty"]
        assert fish["agreement"] < by_name[name]["agreement"]


def test_every_task_has_a_concept(found: Path) -> None:
    rows = pq.read_table(found / "task_concepts.parquet").to_pydict()
    assert rows["task"] == sorted(rows["task"])
    assert len(rows["task"]) == 120
    labels = dict(
        zip(*pq.read_table(found / "consensus.parquet", columns=["task", "label"]).to_pydict().values(),
            strict=True)
    )  # fmt: skip
    named = [
        (labels[task], concept)
        for task, concept, is_named in zip(
            rows["task"], rows["concept"], rows["named"], strict=True
        )
        if is_named
    ]
    assert named
    assert all(label == concept for label, concept in named)


def test_the_report_draws_the_graph_and_names_what_is_missing(found: Path) -> None:
    page = (found / "report.html").read_text("utf-8")
    assert 'id="concepts"' in page
    assert "concepts-" in page
    assert "Graph of" in page
    assert "and no class" in page
    public = (found / "public.html").read_text("utf-8")
    assert not [word for words in WORDS.values() for word in words.split()[:2] if word in public]


def test_it_changes_no_label_and_is_off_by_default(found: Path, tmp_path: Path) -> None:
    path = campaign(tmp_path, "")
    table = path.parent / "tasks.csv"  # without the text, which would be taken for a feature
    rows = [row.rsplit(",", 1)[0] for row in table.read_text().splitlines()]
    table.write_text("\n".join(rows) + "\n")
    plain = run_pipeline(load_settings(path)).folder
    one, other = (pq.read_table(folder / "consensus.parquet") for folder in (found, plain))
    assert one.equals(other)
    assert {one.name for one in found.iterdir()} - {one.name for one in plain.iterdir()} == {
        "topics.json", "task_concepts.parquet", "topic_texts.parquet",
    }  # fmt: skip
    assert 'id="concepts"' not in (plain / "report.html").read_text("utf-8")


def test_text_is_shown_as_text(tmp_path: Path) -> None:
    folder = run_pipeline(load_settings(campaign(tmp_path, script=True))).folder
    page = (folder / "report.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert not re.search(r'(?:src|href)="https?:', page)


def test_texts_without_common_words_are_said_to_say_nothing(tmp_path: Path) -> None:
    path = campaign(tmp_path)
    table = tmp_path / "tasks.csv"
    head, *rows = table.read_text().splitlines()
    alone = [f"{row.rsplit(',', 1)[0]},word{i}" for i, row in enumerate(rows)]
    table.write_text("\n".join([head, *alone]) + "\n")
    folder = run_pipeline(load_settings(path)).folder
    topics = json.loads((folder / "topics.json").read_text("utf-8"))
    assert topics["why_not"].startswith("fewer than 20 tasks have words")
    assert "No concepts were learned" in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize(("settings", "message"), [
    ('[topics]\nlevels = [3]\n', "text"),
    ('[topics]\ntext = "about"\nlevels = [90, 90]\n', "levels must be one to three numbers"),
    ('[topics]\ntext = "about"\n[engine]\nfolder = "x"\n', "engine"),
    ('[topics]\ntext = "task"\n', "text must name a column of its own"),
])  # fmt: skip
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, settings: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(campaign(tmp_path, settings))


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    path = campaign(tmp_path, TOPICS.replace("about", "story"))
    with pytest.raises(TableError, match=r"no column 'story', which topics.text names; .* about"):
        run_pipeline(load_settings(path))


def test_tasks_that_models_alone_answered_have_no_agreement(tmp_path: Path) -> None:
    """Warnings are errors here: the share of labels of a task without a person's label is none."""
    path = campaign(tmp_path)
    labels = tmp_path / "labels.csv"
    header, *rows = labels.read_text("utf-8").splitlines()
    people = [f"{row},person" for row in rows if ",t000," not in row]
    models = [f"gpt,t{task:03d},{('cat', 'dog')[task % 2]},model" for task in range(120)]
    labels.write_text("\n".join([f"{header},kind", *people, *models]) + "\n", "utf-8")
    folder = run_pipeline(load_settings(path)).folder
    table = pq.read_table(folder / "consensus.parquet").to_pandas().set_index("task")
    assert table.loc["t000", "n_labels"] == 0
    topics = json.loads((folder / "topics.json").read_text("utf-8"))
    assert all(0 < one["agreement"] <= 1 for one in topics["concepts"] if one["tasks"])

"""Several classes at once through the whole story: simulated, proposed, run, published, compared."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.pipeline import run_pipeline
from flows.run import compare_runs
from flows.settings import load_settings
from flows.spending import preview, read_statements
from flows.tables import TableError, read_multilabels
from privacy import LatticeLaplace
from quality import multilabel_consensus, set_alpha


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, [*arguments])


def test_simulated_answers_are_read_again_and_their_truth_is_found(tmp_path: Path) -> None:
    sizes = ("--tasks", "150", "--several", "3", "--classes", "6", "--strategy", "spammer=5")
    made = invoke("simulate", *sizes, "--output", str(tmp_path))
    assert "750 labels written" in made.stdout
    answers = str(tmp_path / "labels.csv")
    found = json.loads(invoke("multilabel", answers, "--nothing", "none", "--json").stdout)
    with (tmp_path / "truth" / "tasks.csv").open(newline="") as file:
        truth = {row["task"]: row["label"] for row in csv.DictReader(file)}
    right = [task["labels"] == truth[task["task"]].split("|") for task in found["tasks"]]
    assert sum(right) > 0.85 * len(right)
    with (tmp_path / "truth" / "workers.csv").open(newline="") as file:
        kind = {row["worker"]: row["kind"] for row in csv.DictReader(file)}
    assert [kind[one["worker"]] for one in found["workers"][-5:]] == ["spammer"] * 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--several", "3"), "--several is for a crowd"),
        (("--tasks", "9", "--several", "3"), "--several must be from 1 to 2 classes"),
        (("--tasks", "9", "--several", "2", "--strategy", "sybils=2"), "--strategy must be among"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    found = invoke("simulate", *arguments, "--output", str(tmp_path))
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert said in found.stderr


RELEASED = """
[privacy]
epsilon = 4.0
proportions_epsilon = 1.0
max_labels = 2
publication = "2026-11"
"""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a simulated crowd with five guessers; its settings release nothing."""
    folder = tmp_path_factory.mktemp("crowd")
    sizes = ("--tasks", "120", "--several", "3", "--classes", "5", "--strategy", "spammer=5")
    assert invoke("simulate", *sizes, "--output", str(folder)).exit_code == 0
    rows = [f"t{task:03d},g{task % 3}" for task in range(120)]
    (folder / "tasks.csv").write_text("\n".join(["task,group", *rows]) + "\n", encoding="utf-8")
    return folder


def campaign(crowd: Path, folder: Path, more: str = "", inputs: str = "") -> Path:
    """A copy of the crowd in a folder, with more in its settings and in their section of inputs."""
    shutil.copytree(crowd, folder, dirs_exist_ok=True)
    path = folder / "settings.toml"
    path.write_text(path.read_text("utf-8") + inputs + more, encoding="utf-8")
    return path


def read(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def made(crowd: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of that crowd that publishes its shares group by group."""
    path = campaign(
        crowd, tmp_path_factory.mktemp("run") / "c", RELEASED, 'tasks = ["tasks.csv"]\n'
    )
    return run_pipeline(load_settings(path)).folder


def test_a_run_finds_guessers_and_sets(made: Path, crowd: Path) -> None:
    with (crowd / "truth" / "workers.csv").open(newline="") as file:
        guessers = {row["worker"] for row in csv.DictReader(file) if row["kind"] == "spammer"}
    assert set(read(made, "quality.json")["removed"]) == guessers
    with (crowd / "truth" / "tasks.csv").open(newline="") as file:
        truth = {row["task"]: row["label"] for row in csv.DictReader(file)}
    table = pq.read_table(made / "consensus.parquet")
    rows = zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True)
    assert np.mean([truth[task] == label for task, label in rows]) > 0.85
    facts = read(made, "consensus.json")
    assert facts["gold"]["n"] == 24
    assert facts["gold"]["accuracy"] >= facts["gold"]["majority_vote"]
    assert facts["gold"]["macro_f1"] > 0.9


def test_consensus_and_probabilities_are_the_models_without_the_removed(
    made: Path, crowd: Path
) -> None:
    words = {"nothing": "none", "classes": tuple(f"class-{code}" for code in range(5))}
    answers = read_multilabels(crowd / "labels.csv", split="|", **words)
    removed = np.isin(answers.workers, read(made, "quality.json")["removed"])
    kept = answers.keep_workers(~removed)
    found = multilabel_consensus(kept)
    table = pq.read_table(made / "consensus.parquet")
    assert np.array(table["posterior"].to_pylist()) == pytest.approx(found.table())
    expected = ["|".join(kept.classes[found.classes_of(task)]) or "none" for task in range(120)]
    assert table["label"].to_pylist() == expected
    cells = pq.read_table(made / "class_cells.parquet")
    assert cells["probability"].to_numpy() == pytest.approx(found.probability)
    sure = np.maximum(found.probability, 1 - found.probability)
    least = [sure[found.start[t] : found.start[t + 1]].min(initial=1.0) for t in range(120)]
    assert table["confidence"].to_numpy() == pytest.approx(least)


def test_agreement_is_of_sets_and_of_each_class(made: Path, crowd: Path) -> None:
    answers = read_multilabels(crowd / "labels.csv", nothing="none")
    quality = read(made, "quality.json")
    assert quality["alpha"] == pytest.approx(set_alpha(answers).value)
    said = {(row["measure"], row["of"]): row["value"] for row in quality["agreement"]}
    jaccard = said["Krippendorff’s alpha, Jaccard distance", "all answers"]
    assert jaccard == pytest.approx(set_alpha(answers, "jaccard").value)
    assert len(said) == 3 + 5  # without the removed workers, and each class


def test_the_plan_asks_no_removed_worker_and_nobody_twice_for_a_task(
    made: Path, crowd: Path
) -> None:
    plan = pq.read_table(made / "label_plan.parquet").to_pylist()
    with (crowd / "labels.csv").open(newline="") as file:
        answered = {(row["worker"], row["task"]) for row in csv.DictReader(file)}
    assert plan
    assert not answered & {(one["worker"], one["task"]) for one in plan}
    assert not {one["worker"] for one in plan} & set(read(made, "quality.json")["removed"])
    facts = read(made, "consensus.json")
    gains = [one["gain"] for one in facts["sets"]["classes"]]
    assert sum(gains) == pytest.approx(facts["plan"]["gain"])


def test_published_shares_are_noisy_counts_over_the_groups_tasks(made: Path) -> None:
    """Beside the exact counts within the noise, which the terms of the release predict."""
    release = read(made, "public/release.json")["proportions"]
    assert (release["max_labels"], release["threshold"], release["epsilon"]) == (2, 0.5, 1.0)
    law = LatticeLaplace(1.0).law(6, l1=4.0)
    assert release["half_width_labels"] == law.half_width(0.9)
    assert release["noise"]["scale"] == law.scale
    assert "need not add up to 1" in release["columns"]["proportion"]
    for row in release["rows"]:
        assert row["n"] == 40
        assert row["proportion"] == pytest.approx(min(1, max(0, row["noisy_count"] / 40)))
    page = (made / "public.html").read_text("utf-8")
    assert "ticked every label that they saw hold" in page
    assert "Of each task at most 2 classes count" in page
    assert "left out" not in page  # how many were is internal
    # beyond the bound a class holds and does not count: the interval is not of the consensus's share
    assert "says that the class class-0 counts for about" in " ".join(page.split())
    assert "were labelled" not in page
    report = (made / "report.html").read_text("utf-8")
    assert "left out" in report
    assert " answers by " in report
    assert read(made, "spend.json")["spent"] == {"epsilon": 1.0, "delta": 0.0}


def test_the_run_and_the_command_publish_the_same_and_pay_once(made: Path, crowd: Path) -> None:
    """One query, one mechanism, one meaning: under its key the command gets what the run has paid for."""
    classes = ",".join(f"class-{code}" for code in range(5))
    folder = made.parents[1]
    told = invoke(
        "multilabel", str(folder / "labels.csv"), "--nothing", "none", "--classes", classes,
        "--publish", str(folder / "shown"), "--campaign", "simulated-crowd", "--epsilon", "1",
        "--max-labels", "2", "--tasks", str(folder / "tasks.csv"), "--publication", "2026-11",
        "--state", str(folder / "state"), "--begun",
    )  # fmt: skip
    assert told.exit_code == 0, told.stderr
    assert "(3 paid for before)" in " ".join(told.stdout.split())
    one, other = (
        [(row["group"], row["class"], row["noisy_count"]) for row in rows]
        for rows in (
            read(made, "public/release.json")["proportions"]["rows"],
            read(folder, "shown/release.json")["rows"],
        )
    )
    assert one == other
    state = read_statements(folder / "state", dataset="simulated-crowd")[0]
    assert state["spent"]["epsilon"] == 1.0


def test_without_groups_too_the_command_gets_what_the_run_has_paid_for(
    crowd: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    run_pipeline(load_settings(campaign(crowd, folder, RELEASED)))
    told = invoke(
        "multilabel", str(folder / "labels.csv"), "--nothing", "none",
        "--classes", ",".join(f"class-{code}" for code in range(5)),
        "--publish", str(folder / "shown"), "--campaign", "simulated-crowd", "--epsilon", "1",
        "--max-labels", "2", "--publication", "2026-11", "--state", str(folder / "state"),
    )  # fmt: skip
    assert told.exit_code == 0, told.stderr
    state = read_statements(folder / "state", dataset="simulated-crowd")[0]
    assert state["spent"]["epsilon"] == 1.0


def test_a_preview_is_what_the_run_pays(crowd: Path, tmp_path: Path) -> None:
    settings = load_settings(campaign(crowd, tmp_path, RELEASED))
    assert preview(settings.state, settings, n_tasks=120)["asked"] == {"epsilon": 1.0, "delta": 0.0}
    folder = run_pipeline(settings).folder
    assert read(folder, "spend.json")["spent"] == {"epsilon": 1.0, "delta": 0.0}


def test_planned_releases_pay_for_sets_too(crowd: Path, tmp_path: Path) -> None:
    text = RELEASED.replace('publication = "2026-11"\n', "planned_releases = 4\n")
    folder = run_pipeline(load_settings(campaign(crowd, tmp_path, text))).folder
    facts = read(folder, "proportions.json")
    assert (facts["n_planned"], facts["n_drawn"]) == (4, 1)
    assert read(folder, "spend.json")["spent"]["epsilon"] == 1.0
    rows = pq.read_table(folder / "proportions.parquet")
    assert len(rows) == 5


def test_gold_that_is_used_stands(crowd: Path, tmp_path: Path) -> None:
    folder = run_pipeline(
        load_settings(campaign(crowd, tmp_path, "[consensus]\nuse_gold = true\n"))
    ).folder
    table = pq.read_table(folder / "consensus.parquet")
    said = dict(zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True))
    with (crowd / "gold.csv").open(newline="") as file:
        gold = {row["task"]: row["label"] for row in csv.DictReader(file)}
    assert gold.items() <= said.items()
    facts = read(folder, "consensus.json")
    assert (facts["gold"], facts["gold_used"], facts["sets"]["evidence"]) == (None, 24, "gold")
    assert read(folder, "proportions.json")["skipped"]


def test_rows_of_one_label_each_make_the_same_run(crowd: Path, tmp_path: Path) -> None:
    """A row a label, and lists, are other forms of the same answers."""
    with (crowd / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    texts = {
        "rows": [f"{r['worker']},{r['task']},{one}" for r in rows for one in r["label"].split("|")],
        "lists": [
            f'{r["worker"]},{r["task"]},"{json.dumps(r["label"].split("|")).replace(QUOTE, 2 * QUOTE)}"'
            for r in rows
        ],
    }
    found = [run_pipeline(load_settings(campaign(crowd, tmp_path / "cells"))).folder]
    for name, lines in texts.items():
        path = campaign(crowd, tmp_path / name)
        text = "\n".join(["worker,task,label", *lines]) + "\n"
        (path.parent / "labels.csv").write_text(text, encoding="utf-8")
        found.append(run_pipeline(load_settings(path)).folder)
    tables = [pq.read_table(folder / "consensus.parquet") for folder in found]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


QUOTE = '"'


def test_a_worker_has_no_page_of_her_own(made: Path) -> None:
    told = invoke("report", str(made), "--worker", "w00")
    assert told.exit_code == 2
    assert "is of several classes at once" in " ".join(told.stderr.split())


def test_runs_of_sets_are_compared(made: Path, crowd: Path, tmp_path: Path) -> None:
    other = run_pipeline(
        load_settings(campaign(crowd, tmp_path, "[filter]\nn_workers = 0\n"))
    ).folder
    changes = compare_runs(made, other)
    assert changes.n_common == 120
    assert compare_runs(made, made).changes == ()


def test_the_trend_says_by_how_much_a_class_has_moved(crowd: Path, tmp_path: Path) -> None:
    """Shares that need not add up to 1: half the sum of their gaps may be above all tasks."""
    released = RELEASED.replace('publication = "2026-11"\n', "")
    path = campaign(crowd, tmp_path, released)
    before = run_pipeline(load_settings(path)).folder
    labels = tmp_path / "labels.csv"
    swapped = str.maketrans("01234", "43210")
    header, *rows = labels.read_text("utf-8").splitlines()
    cells = (row.rsplit(",", 1) for row in rows)
    changed = [f"{who},{label.translate(swapped)}" for who, label in cells]
    labels.write_text("\n".join([header, *changed]) + "\n", encoding="utf-8")
    after = run_pipeline(load_settings(path)).folder
    gaps = [
        abs(now["proportion"] - then["proportion"])
        for then, now in zip(
            *(
                read(folder, "public/release.json")["proportions"]["rows"]
                for folder in (before, after)
            ),
            strict=True,
        )
    ]
    assert max(gaps) < sum(gaps) / 2
    assert read(after, "trend.json")["runs"][-1]["drift"] == {"all tasks": max(gaps)}


@pytest.mark.parametrize(
    ("change", "said"),
    [(("class-0", "dog"), "is not one of the classes"), ((",none", ","), "blank")],
)
def test_mistakes_in_the_table_are_named(
    crowd: Path, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    path = campaign(crowd, tmp_path)
    labels = path.parent / "labels.csv"
    text = labels.read_text("utf-8")
    assert change[0] in text
    labels.write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(TableError, match=said) as caught:
        run_pipeline(load_settings(path))
    assert "labels.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["w,t0,a|b", "w,t1,b"], "every answer is by one worker, 'w'"),
        (["w,t0,a|b", "v,t0,a|b", "w,t1,b", "v,t1,b"], "no two workers differ on any task"),
        (["w,t0,none", "v,t0,none", "w,t1,b", "v,t1,b"], "no two workers differ on any task"),
    ],
)
def test_answers_that_tell_nothing_are_refused_in_the_tables_own_words(
    tmp_path: Path, rows: list[str], said: str
) -> None:
    (tmp_path / "labels.csv").write_text("\n".join(["worker,task,label", *rows]) + "\n")
    path = tmp_path / "settings.toml"
    path.write_text('name = "c"\n[input]\nlabels = "labels.csv"\nseveral = "|"\nnothing = "none"\n')
    with pytest.raises(TableError, match=said) as caught:
        run_pipeline(load_settings(path))
    assert "'yes'" not in str(caught.value)


def test_a_task_that_the_task_tables_lack_is_named(crowd: Path, tmp_path: Path) -> None:
    path = campaign(crowd, tmp_path, inputs='tasks = ["tasks.csv"]\n')
    rows = (path.parent / "tasks.csv").read_text("utf-8").splitlines()[:-1]
    (path.parent / "tasks.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    with pytest.raises(TableError, match="task t119 must be in the task tables"):
        run_pipeline(load_settings(path))


def test_workers_who_are_called_models_are_not_taken_for_people(
    crowd: Path, tmp_path: Path
) -> None:
    path = campaign(crowd, tmp_path)
    labels = path.parent / "labels.csv"
    header, *rows = labels.read_text("utf-8").splitlines()
    judge = rows[0].split(",")[0]
    kinds = ("model" if row.startswith(f"{judge},") else "person" for row in rows)
    table = [f"{header},kind", *(f"{row},{kind}" for row, kind in zip(rows, kinds, strict=True))]
    labels.write_text("\n".join(table) + "\n", encoding="utf-8")
    with pytest.raises(TableError, match=f"column kind must name no models .+ got '{judge}'"):
        run_pipeline(load_settings(path))
    labels.write_text("\n".join(table).replace(",model", ",person") + "\n", encoding="utf-8")
    assert not run_pipeline(load_settings(path)).unchanged


def test_what_init_proposes_runs(crowd: Path, tmp_path: Path) -> None:
    shutil.copytree(crowd, tmp_path / "c")
    folder, output = tmp_path / "c", str(tmp_path / "c" / "proposed.toml")
    tables = str(folder / "labels.csv"), "--gold", str(folder / "gold.csv")
    told = invoke("init", *tables, "--output", output)
    assert "cells hold several classes at once" in told.stdout
    settings = load_settings(output)
    assert settings.classes == tuple(f"class-{code}" for code in range(5))
    assert (settings.input.several, settings.input.nothing) == ("|", "none")
    assert settings.privacy is not None
    assert settings.privacy.max_labels == 3
    assert len(read(run_pipeline(settings).folder, "quality.json")["removed"]) == 5

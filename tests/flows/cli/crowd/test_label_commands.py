"""Commands that need labels alone: `crowdassay aggregate` believes as a run does."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from flows.cli import app
from quality import CrowdLabels, encode, majority_vote, regular_assignment, simulate_crowd


def crowd_with_sybils(folder: Path) -> tuple[Path, CrowdLabels, dict[str, str]]:
    """A label file of 20 workers and six who copy one guesser, its labels, and the truth."""
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(2, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries={"sybils": 6}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    cells = zip(crowd.worker.tolist(), crowd.task.tolist(), crowd.label.tolist(), strict=True)
    lines = ["worker,task,label", *(",".join(map(str, row)) for row in cells)]
    path = folder / "labels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, labels, {str(task): str(true) for task, true in enumerate(truth.tolist())}


def aggregated(path: Path) -> tuple[str, list[dict[str, str]]]:
    output = path.with_name("consensus.csv")
    asked = ["aggregate", str(path), "--aggregator", "dawid_skene", "--output", str(output)]
    told = CliRunner().invoke(app, [*asked, "--force"])
    assert told.exit_code == 0
    with output.open(encoding="utf-8") as file:
        return told.output, list(csv.DictReader(file))


def test_aggregate_gives_a_group_one_vote_and_says_so(tmp_path: Path) -> None:
    path, _, truth = crowd_with_sybils(tmp_path)
    told, rows = aggregated(path)
    assert "26 workers, worth 21: 6 who do not answer on their own have one vote a group" in told
    right = np.mean([row["label"] == truth[row["task"]] for row in rows])
    assert right > 0.8  # .5 with a vote for each of them


def test_aggregate_has_no_confidence_in_models_alone(tmp_path: Path) -> None:
    path, _, _ = crowd_with_sybils(tmp_path)
    head, *rows = path.read_text(encoding="utf-8").split()
    kinds = [f"{head},kind", *(f"{row},model" for row in rows)]
    path.write_text("\n".join(kinds) + "\n", encoding="utf-8")
    _, found = aggregated(path)
    assert {row["confidence"] for row in found} == {""}


def test_aggregate_asks_about_workers_who_have_a_models_name(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    rows = [
        f"{who},{task},{'ab'[task % 2]}" for who in ("gpt-4o", "ann", "bob") for task in range(6)
    ]
    path.write_text("\n".join(["worker,task,label", *rows]) + "\n", encoding="utf-8")
    asked = "look like language models by name: 'gpt-4o'; a column kind, with model in their rows"
    assert asked in aggregated(path)[0]
    kinds = [f"{row},{'model' if row.startswith('gpt') else ''}" for row in rows]
    path.write_text("\n".join(["worker,task,label,kind", *kinds]) + "\n", encoding="utf-8")
    assert "by name" not in aggregated(path)[0]


def graded(folder: Path) -> Path:
    """A label file of 60 tasks with four grades, labels of which miss by one."""
    rng, names = np.random.default_rng(2), ("none", "mild", "bad", "worst")
    rows = ["worker,task,label"]
    for task, true in enumerate(rng.integers(4, size=60)):
        for worker in range(5):
            said = np.clip(true + rng.choice([-1, 0, 0, 1]), 0, 3)
            rows.append(f"w{worker},t{task:02d},{names[said]}")
    path = folder / "labels.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_aggregate_decides_ordered_classes_by_loss_and_says_whether_labels_show_the_order(
    tmp_path: Path,
) -> None:
    path, output = graded(tmp_path), tmp_path / "consensus.csv"
    asked = ["aggregate", str(path), "--output", str(output), "--force"]
    right = CliRunner().invoke(
        app, [*asked, "--order", "none,mild, bad,worst", "--loss", "absolute"]
    )
    assert right.exit_code == 0, right.output
    assert "The labels show the order" in right.output
    wrong = CliRunner().invoke(app, [*asked, "--order", "none,worst,mild,bad"])
    assert wrong.exit_code == 0, wrong.output
    assert "speak against the order" in wrong.output


def test_aggregate_refuses_a_loss_or_the_ordinal_model_without_an_order(tmp_path: Path) -> None:
    path = graded(tmp_path)
    for options, sentence in (
        (["--loss", "squared"], "--loss squared needs --order, the classes in their order"),
        (["--aggregator", "ordinal_crowd"], "--aggregator ordinal_crowd needs --order"),
        (["--order", "none"], "--order must name two classes or more, each once, got 'none'"),
        (
            ["--order", "none,mild"],
            "is not among the classes declared; add the class or mend the row",
        ),
        (["--order", "none,none"], "--order must name two classes or more, each once"),
    ):
        told = CliRunner().invoke(app, ["aggregate", str(path), *options])
        assert told.exit_code != 0
        assert sentence in told.output


def with_models(folder: Path, *, right: float) -> tuple[Path, Path, dict[str, str]]:
    """Label files of 20 people, with four models right on a share of the tasks and without; the truth."""
    rng = np.random.default_rng(3)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=3, rng=rng)
    truth = rng.integers(3, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=3, adversaries={}, rng=rng)
    said = np.where(rng.random(300) < right, truth, rng.integers(3, size=300))  # one mind
    people = [
        f"w{worker},{task},{label},"
        for worker, task, label in zip(crowd.worker, crowd.task, crowd.label, strict=True)
    ]
    models = [f"m{m},{task},{said[task]},model" for m in range(4) for task in range(300)]
    beside, alone = folder / "labels.csv", folder / "people.csv"
    for path, found in ((beside, people + models), (alone, people)):
        path.write_text("\n".join(["worker,task,label,kind", *found]) + "\n", encoding="utf-8")
    return beside, alone, {str(task): str(true) for task, true in enumerate(truth.tolist())}


def test_aggregate_hears_models_beside_people_where_the_labels_bear_them_out(
    tmp_path: Path,
) -> None:
    beside, alone, truth = with_models(tmp_path, right=0.9)
    told, rows = aggregated(beside)
    assert "The answers of 4 models are heard beside the people's labels" in told
    assert {row["labels"] for row in rows} == {"3"}
    with_them, without = (
        np.mean([row["label"] == truth[row["task"]] for row in found])
        for found in (rows, aggregated(alone)[1])
    )
    assert with_them > without + 0.02


def test_aggregate_leaves_the_peoples_consensus_to_models_who_guess_together(
    tmp_path: Path,
) -> None:
    beside, alone, _ = with_models(tmp_path, right=0.0)
    told, rows = aggregated(beside)
    assert "answers of 4 models say nothing that they bear out" in told
    assert rows == aggregated(alone)[1]


def test_aggregate_counts_everybody_where_groups_are_to_be_ignored(tmp_path: Path) -> None:
    path, labels, _ = crowd_with_sybils(tmp_path)
    output = tmp_path / "consensus.csv"
    asked = ["aggregate", str(path), "--aggregator", "majority_vote", "--output", str(output)]
    told = CliRunner().invoke(app, [*asked, "--ignore-groups"])
    assert told.exit_code == 0
    assert "one vote a group" not in told.output
    vote = majority_vote(labels).label
    with output.open(encoding="utf-8") as file:
        found = {row["task"]: row["label"] for row in csv.DictReader(file)}
    assert found == {str(task): str(labels.classes[vote[t]]) for t, task in enumerate(labels.tasks)}


def test_aggregate_answers_tasks_of_models_alone_as_the_peoples_taught(tmp_path: Path) -> None:
    """300 tasks; five people label the first 150, three models of one mind all, right on 90 %."""
    rng, truth = np.random.default_rng(5), {}
    rows = ["worker,task,label,kind"]
    for task in range(300):
        true, mind = (str(rng.integers(2)) for _ in range(2))
        mind = true if rng.random() < 0.8 else mind
        truth[f"t{task:03d}"] = true
        rows += [f"m{model},t{task:03d},{mind},model" for model in range(3)]
        for worker in range(5 * (task < 150)):
            said = true if rng.random() < 0.75 else str(1 - int(true))
            rows.append(f"w{worker},t{task:03d},{said},")
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    told, found = aggregated(path)
    assert "150 tasks without these are answered as the others taught" in told
    assert [row["labels"] for row in found] == ["5"] * 150 + ["0"] * 150
    own = found[150:]
    assert np.mean([row["label"] == truth[row["task"]] for row in own]) > 0.8
    assert 0.55 < np.mean([float(row["confidence"]) for row in own]) < 0.95
    head, *rows = rows
    few = [head, *(row for row in rows if row.startswith("m") or row.split(",")[1] < "t030")]
    path.write_text("\n".join(few) + "\n", encoding="utf-8")
    _, found = aggregated(path)  # 30 tasks teach too little: the models vote, and are not believed
    assert [row["confidence"] == "" for row in found] == [False] * 30 + [True] * 270


def test_aggregate_says_where_votes_are_hardly_more_alike_than_by_chance(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(4), tmp_path / "labels.csv"
    said = rng.integers(3, size=(300, 5))
    rows = [f"w{(t + 7 * w) % 20},t{t},{said[t, w]}" for t in range(300) for w in range(5)]
    path.write_text("\n".join(["worker,task,label", *rows]) + "\n", encoding="utf-8")
    told, found = aggregated(path)
    assert "Votes are hardly more alike than by chance" in told.replace("\n", " ")
    assert np.mean([float(row["confidence"]) for row in found]) < 0.45
    told, _ = aggregated(crowd_with_sybils(tmp_path)[0])
    assert "hardly more alike" not in told.replace("\n", " ")

"""The command agreement: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from quality import alpha_interval, encode, krippendorff_alpha, pair_kappas


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, ["agreement", *arguments])


def rows_of(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    with path.open(newline="") as file:
        return {(row["measure"], row["of"]): row for row in csv.DictReader(file)}


@pytest.fixture
def columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[str], list[int]]:
    """Three people and two models score sixty tasks from 1 to 3; the folder has labels.csv and tasks.csv."""
    rng = np.random.default_rng(3)
    truth, names = rng.integers(1, 4, 60), ["ann", "bob", "cy", "good", "poor"]
    worker, task, label = [], [], []
    for t in range(60):
        for name, skill in zip(names, (0.6, 0.6, 0.6, 0.95, 0.1), strict=True):
            worker.append(name)
            task.append(f"t{t:02d}")
            label.append(int(truth[t] if rng.random() < skill else rng.integers(1, 4)))
    rows = [f"{w},{t},{c}" for w, t, c in zip(worker, task, label, strict=True)]
    (tmp_path / "labels.csv").write_text("worker,task,label\n" + "\n".join(rows) + "\n")
    groups = [f"t{t:02d},{'odd' if t % 2 else 'even'}" for t in range(60)]
    (tmp_path / "tasks.csv").write_text("task,group\n" + "\n".join(groups) + "\n")
    monkeypatch.chdir(tmp_path)
    return worker, task, label


def test_it_writes_alpha_kappas_classes_groups_models_and_pairs(columns: tuple) -> None:
    told = invoke(
        "labels.csv", "--tasks", "tasks.csv", "--models", "good,poor", "--output", "agreement.csv"
    )
    assert told.exit_code == 0, told.output
    found, labels = rows_of(Path("agreement.csv")), encode(*columns)
    alpha = alpha_interval(labels)
    whole = found["nominal alpha", "all labels"]
    expected = (alpha.value, alpha.lower, alpha.upper)
    assert [float(whole[name]) for name in ("value", "low", "high")] == pytest.approx(
        expected, abs=6e-5
    )
    odd = labels.keep_labels(np.arange(60)[labels.task] % 2 == 1)
    assert float(found["nominal alpha", "group odd"]["value"]) == pytest.approx(
        krippendorff_alpha(odd), abs=6e-5
    )
    assert found["Cohen's kappa", "ann, bob"]["n"] == "60"
    assert float(found["alt-test winning rate", "model good"]["value"]) == 1
    assert float(found["alt-test winning rate", "model poor"]["value"]) == 0
    assert {of for measure, of in found if measure == "nominal alpha"} == {
        "all labels", "class 1", "class 2", "class 3", "group even", "group odd"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["tasks.tsv", "tasks.jsonl", "tasks"])
def test_the_table_of_groups_is_read_in_every_format(columns: tuple, name: str) -> None:
    header, *rows = Path("tasks.csv").read_text().splitlines()
    if name == "tasks.tsv":
        Path(name).write_text("\n".join([header, *rows]).replace(",", "\t"))
    elif name == "tasks.jsonl":
        pairs = (row.split(",") for row in rows)
        Path(name).write_text(
            "\n".join(json.dumps({"task": task, "group": group}) for task, group in pairs)
        )
    else:
        Path(name).mkdir()
        for at in range(2):
            (Path(name) / f"{at}.csv").write_text("\n".join([header, *rows[at::2]]))
    for tasks, output in ((name, "one.csv"), ("tasks.csv", "other.csv")):
        told = invoke("labels.csv", "--tasks", tasks, "--output", output)
        assert told.exit_code == 0, told.output
    assert Path("one.csv").read_text() == Path("other.csv").read_text()


def test_it_says_whether_a_model_may_stand_in_for_people(columns: tuple) -> None:
    told = invoke("labels.csv", "--models", "good, poor")
    assert "good may stand in for people: it wins against 3 of 3" in told.output
    assert "poor may not stand in for people: it wins against 0 of 3" in told.output


@pytest.mark.parametrize("metric", ["ordinal", "interval"])
def test_labels_that_are_numbers_are_ordered_as_numbers(columns: tuple, metric: str) -> None:
    """10 comes after 9, though not by name."""
    worker, task, label = columns
    numbers = [{1: 9, 2: 10, 3: 30}[c] for c in label]
    rows = [f"{w},{t},{c}" for w, t, c in zip(worker, task, numbers, strict=True)]
    Path("labels.csv").write_text("worker,task,label\n" + "\n".join(rows) + "\n")
    assert invoke("labels.csv", "--metric", metric, "--output", "a.csv").exit_code == 0
    labels = encode(worker, task, numbers)
    expected = alpha_interval(labels, metric, values=labels.classes).value
    assert float(rows_of(Path("a.csv"))[f"{metric} alpha", "all labels"]["value"]) == pytest.approx(
        expected, abs=6e-5
    )


def test_an_order_may_be_given(columns: tuple) -> None:
    """Turned round it is the same order; with 2 at the end it is another."""
    values = []
    for order in ("1,2,3", "3,2,1", "1,3,2"):
        told = invoke(
            "labels.csv", "--metric", "ordinal", "--order", order, "--output", "a.csv", "--force"
        )
        assert told.exit_code == 0
        values.append(rows_of(Path("a.csv"))["ordinal alpha", "all labels"]["value"])
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--metric", "ordinal", "--order", "1,2"],
            "--order must name each class once, which are 1, 2, 3",
        ),
        (["--models", "nobody"], "--models must name workers of the labels, got 'nobody'"),
        (["--models", "ann,bob,cy,good,poor"], "there must be people"),
        (["--models", "good", "--epsilon", "1"], "--epsilon must be in [0, 1), got 1"),
        (["--min-common", "0"], "--min-common must be >= 1, got 0"),
        (["--tasks", "labels.csv"], "group"),
        (["--tasks", "none.csv"], "none.csv"),
    ],
)
def test_a_mistake_is_one_sentence(columns: tuple, options: list[str], sentence: str) -> None:
    told = invoke("labels.csv", *options)
    assert told.exit_code == 2
    assert sentence in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_an_interval_metric_of_words_is_refused(columns: tuple) -> None:
    Path("labels.csv").write_text("worker,task,label\na,1,cat\nb,1,dog\n")
    told = invoke("labels.csv", "--metric", "interval")
    assert told.exit_code == 2
    assert "--metric interval needs labels that are numbers, got 'cat'" in told.stderr


def test_where_pairs_are_too_many_to_be_listed_the_rest_is_printed(
    columns: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module(pair_kappas.__module__), "MAX_MEETINGS", 10)
    told = invoke("labels.csv", "--output", "a.csv")
    assert told.exit_code == 0
    found = rows_of(Path("a.csv"))
    assert found["Light's kappa", "pairs of workers"]["value"] == ""
    assert found["nominal alpha", "all labels"]["value"] != ""
    assert not any(measure == "Cohen's kappa" for measure, _ in found)


def test_groups_of_other_tasks_are_refused(columns: tuple) -> None:
    """They had a row each without a value, as of groups that are too small."""
    Path("others.csv").write_text("task,group\nT00,odd\nT01,even\n", encoding="utf-8")
    told = invoke("labels.csv", "--tasks", "others.csv")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "--tasks others.csv has none of the labelled tasks; are they named alike?" in told.stderr


@pytest.mark.parametrize(
    "rows", ["a,1,cat\nb,1,cat\n", "a,1,cat\na,2,dog\n", "a,1,cat\nb,1,cat\na,2,dog\n"]
)
def test_an_agreement_that_is_not_known_is_said_to_be_so(columns: tuple, rows: str) -> None:
    """Its cells were blank, without a word."""
    Path("labels.csv").write_text(f"worker,task,label\n{rows}")
    told = invoke("labels.csv")
    assert told.exit_code == 0
    why = "not known: labels to compare are of one class, or no two are of one task"
    assert why in " ".join(told.output.split())

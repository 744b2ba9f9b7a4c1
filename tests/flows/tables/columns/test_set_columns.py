"""Multi-label answers from tables of every form."""

import json
from pathlib import Path

import duckdb
import pytest

from flows.proposal.class_names import classes_of_cells
from flows.tables import TableError, read_multilabels

ANSWERS = [("ann", "t1", ["cat", "dog"]), ("bob", "t1", ["dog"]), ("bob", "t2", ["cat"])]


def written(folder: Path, form: str) -> Path:
    """The same answers as a file of one form."""
    path = folder / f"answers.{form.partition('-')[0]}"
    if form == "csv":
        rows = [f"{w},{t},{' | '.join(mine)}" for w, t, mine in ANSWERS]
        path.write_text("\n".join(["worker,task,label", *rows]))
    elif form == "csv-rows":
        rows = [f"{w},{t},{one}" for w, t, mine in ANSWERS for one in mine]
        path.write_text("\n".join(["worker,task,label", *rows]))
    elif form == "jsonl":
        keys = ("worker", "task", "labels")
        path.write_text("\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in ANSWERS))
    else:
        rows = ", ".join(f"('{w}', '{t}', {mine})" for w, t, mine in ANSWERS)
        duckdb.sql(f"SELECT * FROM (VALUES {rows}) v(worker, task, label)").write_parquet(str(path))
    return path


@pytest.mark.parametrize("form", ["csv", "csv-rows", "jsonl", "parquet"])
def test_every_form_is_the_same_table(form: str, tmp_path: Path) -> None:
    found = read_multilabels(written(tmp_path, form))
    sets = [found.set_of(answer).tolist() for answer in range(found.n_answers)]
    assert sets == [["cat", "dog"], ["dog"], ["cat"]]
    assert found.workers[found.worker].tolist() == ["ann", "bob", "bob"]
    assert found.tasks[found.task].tolist() == ["t1", "t1", "t2"]


def test_another_split_and_a_word_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("worker,task,label\nann,t1,cat;dog\nbob,t1,none\n")
    found = read_multilabels(path, split=";", nothing="none", classes=("dog", "cat", "eel"))
    assert [found.set_of(answer).tolist() for answer in range(2)] == [["dog", "cat"], []]
    assert found.classes.tolist() == ["dog", "cat", "eel"]


def test_an_empty_list_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    rows = [{"worker": "a", "task": 1, "label": []}, {"worker": "b", "task": 1, "label": ["x"]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = read_multilabels(path)
    assert [found.set_of(answer).tolist() for answer in range(2)] == [[], ["x"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker,task\na,t\n", "must have a column label"),
        (
            "worker,task,label\na,t,x|y\na,t,z\n",
            "answers.csv, rows 1, 2 hold answers of one worker",
        ),
        ("worker,task,label\na,t,x|y\nb,t,\n", "row 2, column label: the cell is blank"),
        ("worker,task,label\n,t,x|y\n", "row 1, column worker: the cell is blank"),
    ],
)
def test_faults_are_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=said.replace("|", r"\|")):
        read_multilabels(path)


def test_a_class_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="row 1: .* not one of the classes"):
        read_multilabels(written(tmp_path, "csv"), classes=("dog",))


def test_a_missing_list_and_a_blank_name_in_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"worker": "a", "task": 1, "label": ["x"]}\n{"worker": "b", "task": 1, "label": null}\n'
    )
    with pytest.raises(TableError, match="row 2, column label: the cell is blank"):
        read_multilabels(path)
    path.write_text('{"worker": "a", "task": 1, "label": ["x", ""]}\n')
    with pytest.raises(TableError, match="row 1: a class in the list is blank"):
        read_multilabels(path)


def test_values_of_lists_have_the_names_that_cells_have(tmp_path: Path) -> None:
    """A whole number with a point is one without, and true a small word, as in every other table."""
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"worker": "a", "task": 1, "label": [1, 2.0, true, " x "]}\n'
        '{"worker": "b", "task": 1, "label": [1.0, 2, "true", "x"]}\n'
    )
    found = read_multilabels(path)
    assert found.classes.tolist() == ["1", "2", "true", "x"]
    sets = [found.set_of(answer).tolist() for answer in range(2)]
    assert sets[0] == sets[1]
    cells = ["[1, 2.0, true]", "[1.0]"]
    assert classes_of_cells(cells) == ("|", None, ("1", "2", "true"))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ((["x", "y"], "x"), "row 1: the labels are a list here, and in other rows a text"),
        (("x", []), "row 2: the labels are a list here"),
        (
            (["x", ["y"]], ["x"]),
            r"row 1: a class in the list must be a text or a number, got .\"y\"",
        ),
        (([{"x": 1}], ["x"]), "row 1: a class in the list must be a text or a number"),
        ((["x", float("nan")], ["x"]), "row 1: a class in the list is blank"),
    ],
)
def test_lists_of_what_is_no_name_are_refused(
    tmp_path: Path, cells: tuple[object, object], said: str
) -> None:
    """None becomes a class that is named after its brackets."""
    path = tmp_path / "answers.jsonl"
    rows = [{"worker": str(at), "task": 1, "label": cell} for at, cell in enumerate(cells)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(TableError, match=rf"^answers.jsonl, {said}"):
        read_multilabels(path)


def test_names_in_brackets_that_are_no_list_of_texts_stay_names(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("worker,task,label\na,t,[1]|x\nb,t,[1]\nc,t,[tag]\n")
    assert read_multilabels(path).classes.tolist() == ["[1]", "[tag]", "x"]

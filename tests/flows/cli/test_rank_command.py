"""`crowdassay rank`: what it prints, writes and refuses."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app


def invoke(*arguments: str):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, ["rank", *arguments])


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four items in order of their names, by five people and a model who says left."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("rank") / "comparisons.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["worker", "prompt", "left", "right", "winner"])
        for number in range(600):
            worker = number % 6
            i, j = rng.choice(4, 2, replace=False)
            better = "left" if rng.random() < 1 / (1 + np.exp(1.5 * (i - j))) else "right"
            who = "model-x" if worker == 5 else f"person-{worker}"
            rows.writerow(
                [who, number // 4, "abcd"[i], "abcd"[j], "left" if worker == 5 else better]
            )
    return path


def test_items_come_in_order_with_their_intervals(compared: Path) -> None:
    output = compared.with_name("ranks.csv")
    done = invoke(str(compared), "--json", "--next", "2", "--output", str(output))
    found = json.loads(done.stdout)
    items = [row.split(",")[0] for row in output.read_text().splitlines()[1:]]
    assert sorted(items) == sorted(one["item"] for one in found["items"])
    assert [one["rank"] for one in found["items"]] == [1, 2, 3, 4]
    assert all(one["best"] <= one["rank"] <= one["worst"] for one in found["items"])
    assert len(found["next"]) == 2
    worth = {one["worker"]: one["worth"] for one in found["workers"]}
    assert worth["model-x"] == min(worth.values())


def test_a_models_answers_are_told_in_peoples(compared: Path) -> None:
    printed = invoke(str(compared), "--models", "model-*")
    assert printed.exit_code == 0
    assert "model-x: an answer says as much as 0." in printed.stdout
    nobody = invoke(str(compared), "--models", "nobody")
    assert "--models nobody must name some of the workers" in nobody.stderr
    assert nobody.exit_code == 2


def test_the_items_are_written(compared: Path, tmp_path: Path) -> None:
    output = tmp_path / "ranks.csv"
    assert invoke(str(compared), "--output", str(output)).exit_code == 0
    with output.open(newline="") as file:
        assert [row["item"] for row in csv.DictReader(file)] == list("abcd")


def test_a_comma_in_the_name_of_an_item_is_no_decimal(tmp_path: Path) -> None:
    """Items 1,5 and 2,5 of a table with semicolons were called 1.5 and 2.5, which it does not hold."""
    path = tmp_path / "sizes.csv"
    rows = [f"w{w};{a};{b};left" for w in range(3) for a, b in (("1,5", "2,5"), ("2,5", "3,5"))]
    path.write_text("\n".join(["worker;left;right;winner", *rows, ""]))
    found = invoke(str(path), "--json")
    assert [one["item"] for one in json.loads(found.stdout)["items"]] == ["1,5", "2,5", "3,5"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker,left,right\na,x,y\n", "must have a column winner"),
        (
            "worker,left,right,winner\na,x,y,x\nb,x,y,z\n",
            "row 2: winner must be left, right or tie",
        ),
        ("worker,left,right,winner\na,x,x,x\n", "row 1: left and right must differ"),
        ("worker,left,right,winner\na,,y,y\n", "left"),
        ("worker,left,winner\na,x,x\n", "right"),
        (
            "worker,left,right,winner\na,left,right,right\nb,right,left,right\n",
            "column winner: must be clear, got right, which is a side and an item too",
        ),
    ],
)
def test_a_fault_is_one_sentence_with_file_and_row(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "comparisons.csv"
    path.write_text(text)
    found = invoke(str(path))
    assert found.exit_code == 2
    assert said in found.stderr
    assert "comparisons.csv" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1

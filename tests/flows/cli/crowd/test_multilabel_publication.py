"""`crowdassay multilabel --publish`: what it pays, releases, returns again and refuses."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.report import SET_SHARES
from flows.settings import SettingsError
from flows.spending import PublicationTerms, existing_ledger, open_state, publish_set_shares
from privacy import Unit

CLASSES = ("cat", "dog", "eel", "fox")
FILES = ["public.html", "release.json", "shares.csv", "shares.parquet"]
PUBLIC = {
    "format", "version", "columns", "protects", "name", "publication", "epsilon", "delta", "budget",
    "budget_delta", "unit",
    "level", "max_labels", "threshold", "mechanism", "scale", "arithmetic", "half_width_labels", "rows",
}  # fmt: skip
SETS = {"t1": "cat|dog", "t2": "cat", "t3": "dog|eel", "t4": "none", "t5": "cat|dog|eel"}


def write_answers(sets: Mapping[str, str], name: str = "answers.csv") -> None:
    """Three workers who agree on each task's set."""
    rows = [f"{who},{task},{given}" for task, given in sets.items() for who in ("ann", "bob", "cy")]
    Path(name).write_text("\n".join(["worker,task,label", *rows]) + "\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command is called, with answers and a table of groups."""
    monkeypatch.chdir(tmp_path)
    write_answers(SETS)
    groups = zip(SETS, ("north", "north", "north", "south", "south"), strict=True)
    Path("tasks.csv").write_text("task,group\n" + "".join(f"{t},{g}\n" for t, g in groups))
    return tmp_path


def publish(*more: str, to: str = "public", classes: str = ",".join(CLASSES)) -> Any:
    """Call the command with a budget of 2, a price of 0.5 and two labels a task."""
    plain = ("--nothing", "none", "--classes", classes, "--publish", to)
    terms = ("--epsilon", "0.5", "--max-labels", "2")
    return CliRunner().invoke(app, ["multilabel", "answers.csv", *plain, *terms, *more])


def released(to: str = "public") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(to) / "release.json").read_text())
    return found


def spent() -> float:
    """What the campaign has spent."""
    found = existing_ledger(Path("state")).statement("labels", entries=0).spent
    return float(found.epsilon)


def test_shares_are_those_of_the_counts_that_the_ledger_has_paid_for() -> None:
    told = publish("--budget", "2")
    assert told.exit_code == 0, told.stderr
    assert "1 group at epsilon 0.5" in told.stdout
    assert "0.5 of 2 spent" in told.stdout
    assert "internal: 1 labels beyond 2 of a task do not count" in told.stdout
    found = released()
    assert sorted(one.name for one in Path("public").iterdir()) == FILES
    assert found.keys() == PUBLIC
    assert (found["scale"], found["epsilon"], found["budget"]) == (8.0, 0.5, 2.0)  # 2 * 2 / 0.5
    assert [row["class"] for row in found["rows"]] == list(CLASSES)
    for row in found["rows"]:
        width = found["half_width_labels"]
        clipped = [min(max((row["noisy_count"] + z) / 5, 0), 1) for z in (-width, 0, width)]
        assert [row["low"], row["share"], row["high"]] == clipped
        assert row["n"] == 5
    with Path("public/shares.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["noisy_count"]) for row in rows] == [
        row["noisy_count"] for row in found["rows"]
    ]
    table = pq.read_table("public/shares.parquet")
    assert table.to_pylist() == found["rows"]
    assert b"lattice Laplace" in b"".join(table.schema.metadata.values())
    assert spent() == 0.5


def test_a_publication_stays_under_its_key_whatever_the_answers_are_now() -> None:
    assert publish("--budget", "2", "--publication", "2026-11").exit_code == 0
    write_answers({"t1": "fox", "t2": "fox", "t9": "fox|eel"})
    told = publish("--publication", "2026-11", to="again")
    assert told.exit_code == 0, told.stderr
    assert "(1 paid for before)" in told.stdout
    assert "internal: 1 of the groups stay as they were published" in told.stdout
    for name in ("public.html", "release.json", "shares.csv"):
        assert (Path("again") / name).read_bytes() == (Path("public") / name).read_bytes()
    assert spent() == 0.5
    assert publish("--publication", "2026-12", to="next").exit_code == 0
    assert spent() == 1.0
    assert released("next")["rows"][0]["n"] == 3


@pytest.mark.parametrize("other", [("--threshold", "0.6"), ("--max-labels", "3")])
def test_another_threshold_or_bound_is_no_answer_under_a_key(other: tuple[str, str]) -> None:
    assert publish("--budget", "2", "--publication", "k").exit_code == 0
    told = publish("--publication", "k", *other, to="again")
    assert told.exit_code == 2
    assert "was published already with another" in told.stderr
    assert not Path("again").exists()


def test_groups_cost_what_one_of_them_costs_and_tasks_join_one_of_them() -> None:
    groups = ("--tasks", "tasks.csv")
    assert publish("--budget", "3", *groups).exit_code == 0
    assert [row["group"] for row in released()["rows"]] == ["north"] * 4 + ["south"] * 4
    assert [row["n"] for row in released()["rows"]] == [3] * 4 + [2] * 4
    assert spent() == 0.5
    with Path("tasks.csv").open("a") as file:
        file.write("t6,south\n")
    write_answers(SETS | {"t6": "fox"})
    told = publish(*groups, to="again")
    assert "2 groups (1 paid for before)" in told.stdout
    assert released("again")["rows"][:4] == released()["rows"][:4]
    assert spent() == 1.0


def test_a_budget_that_does_not_suffice_is_refused_before_anything_is_drawn() -> None:
    told = publish("--budget", "0.4")
    assert (told.exit_code, "--budget, of all that the campaign ever" in told.stderr) == (2, True)
    assert publish("--budget", "0.7").exit_code == 0
    told = publish("--publication", "next", to="next")
    assert told.exit_code == 2
    assert "does not cover this: asked epsilon=0.5" in told.stderr
    assert "Nothing was spent" in told.stderr
    assert not Path("next").exists()
    assert spent() == 0.5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "the campaign 'labels' is new: --budget must say"),
        (("--begun", "--budget", "1"), "must have begun"),
        (("--budget", "1", "--max-labels", "5"), "number of classes, 4, got 5"),
        (("--budget", "1", "--epsilon", "-1"), "--epsilon must be above 0"),
        (("--budget", "1", "--campaign", "../x"), "--campaign must be a name"),
        (("--budget", "1", "--publication", "a b"), "--publication: publication must be"),
        (("--budget", "1", "--tasks", "few.csv"), "lacks t2"),
    ],
)
def test_a_mistake_is_one_sentence_and_pays_nothing(more: tuple[str, ...], said: str) -> None:
    Path("few.csv").write_text("task,group\nt1,north\n")
    told = publish(*more)
    assert told.exit_code == 2
    assert said in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert not Path("public").exists()
    if Path("state/ledger.sqlite").is_file():
        assert existing_ledger(Path("state")).datasets() == ()


def test_another_budget_is_refused_and_may_be_raised() -> None:
    assert publish("--budget", "1").exit_code == 0
    told = publish("--budget", "2", "--publication", "k", to="again")
    assert (told.exit_code, "is epsilon 1, got 2" in told.stderr) == (2, True)
    raised = ["budget", "state", "--dataset", "labels", "--raise-to", "2"]
    assert CliRunner().invoke(app, raised).exit_code == 0
    assert publish("--budget", "2", "--publication", "k", to="again").exit_code == 0


def test_of_a_refused_publication_only_folders_that_were_there_before_are_left() -> None:
    assert publish(to="new/public").exit_code == 2
    assert not Path("new").exists()
    Path("mine").mkdir()
    assert publish(to="mine").exit_code == 2
    assert Path("mine").is_dir()


def test_names_found_in_answers_are_never_published() -> None:
    told = CliRunner().invoke(app, ["multilabel", "answers.csv", "--publish", "public"])
    assert told.exit_code == 2
    assert "--publish needs --classes" in told.stderr


def test_what_is_there_is_overwritten_by_force_alone_and_an_input_never() -> None:
    assert publish("--budget", "2", "--publication", "k").exit_code == 0
    page = Path("public/public.html").read_bytes()
    Path("public/public.html").write_text("mine")
    assert "--force overwrites it" in publish("--publication", "k").stderr
    assert Path("public/public.html").read_text() == "mine"
    assert publish("--publication", "k", "--force").exit_code == 0
    assert Path("public/public.html").read_bytes() == page
    Path("answers.csv").rename("public/shares.csv")
    asked = [
        "multilabel",
        "public/shares.csv",
        "--classes",
        "cat",
        "--publish",
        "public",
        "--force",
    ]
    assert "is an input" in CliRunner().invoke(app, asked).stderr


def test_the_page_is_of_its_facts_alone_and_names_are_text() -> None:
    assert publish("--budget", "2").exit_code == 0
    facts = released()
    assert SET_SHARES.render(facts) == Path("public/public.html").read_text()
    facts["rows"][0]["class"] = "<script>alert(1)</script>"
    page = SET_SHARES.render(facts)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    links = re.findall(r'href="(?!#|data:)([^"]*)"', page)
    assert set(links) <= set(FILES)


def test_the_page_promises_a_tasks_consensus_labels_and_no_answer() -> None:
    """A task's labels are also what workers said, and one answer can move the consensus of several tasks."""
    assert publish("--budget", "2").exit_code == 0
    page = Path("public/public.html").read_text(encoding="utf-8")
    assert page.count("the consensus labels of one task") == 4
    assert "the labels of one task" not in page
    assert "every single" not in page


def test_the_json_has_what_was_published() -> None:
    told = publish("--budget", "2", "--json")
    assert json.loads(told.stdout)["published"]["rows"] == released()["rows"]


def test_the_json_has_the_sentences_of_the_text() -> None:
    """Also those that are for the team alone, beside what is public."""
    assert publish("--budget", "2", "--publication", "k").exit_code == 0
    write_answers({"t1": "fox|eel|dog", "t2": "fox"})
    again = ("--publication", "k", "--force")
    found = json.loads(publish(*again, "--json").stdout)
    assert found["sentences"] == publish(*again).stdout.splitlines()[-len(found["sentences"]) :]
    assert [one for one in found["sentences"] if one.startswith("internal: ")] == [
        "internal: 1 labels beyond 2 of a task do not count",
        "internal: 1 of the groups stay as they were published, and have changed since",
    ]


def test_intervals_cover_the_exact_counts_as_often_as_they_say(tmp_path: Path) -> None:
    """400 groups, independent noise; below 336 of them at a level of 0.9 once in 10,000 (binomial)."""
    n_groups, per_group = 400, 3
    groups = np.repeat([f"g{number:03}" for number in range(n_groups)], per_group)
    chance = np.tile([0.9, 0.1, 0.8], (len(groups), 1))
    found = publish_set_shares(
        tmp_path / "covered", chance, np.array([f"t{k}" for k in range(len(groups))]), ("a", "b", "c"),
        groups, PublicationTerms("labels", 1.0, budget=1.0, level=0.9), max_labels=2,
    )  # fmt: skip
    covered = np.abs(found.noisy - np.array([3, 0, 3])) <= found.half_width
    assert (covered.sum(axis=0) >= 336).all()
    assert found.spent == 1.0


PROBABILITY = np.array([[0.9, 0.8], [0.5, 0.7], [0.1, 0.9]])


def shares(terms: PublicationTerms, max_labels: int, probability: np.ndarray = PROBABILITY) -> Any:
    """What is published of tasks of two classes, those of north before one of south."""
    names = np.array([f"t{j}" for j in range(len(probability))])
    groups = np.array(["north"] * (len(probability) - 1) + ["south"])
    return publish_set_shares(
        Path("direct"), probability, names, ("a", "b"), groups, terms, max_labels=max_labels
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"campaign": "a b"}, "--campaign must be a name"),
        ({"epsilon": 0.0}, "--epsilon must be above 0 and finite, got 0.0"),
        ({"epsilon": math.inf}, "--epsilon must be above 0 and finite, got inf"),
        ({"epsilon": math.nan}, "--epsilon must be above 0 and finite, got nan"),
        ({"level": 0.0}, r"--level must be in \(0, 1\), got 0"),
        ({"level": 1.0}, r"--level must be in \(0, 1\), got 1"),
        ({"budget": 0.25}, "must be finite and at least --epsilon"),
        ({"budget": math.inf}, "must be finite and at least --epsilon"),
        ({"max_labels": 0}, "--max-labels must be from 1 to the number of classes, 2, got 0"),
        ({"max_labels": 3}, "--max-labels must be from 1 to the number of classes, 2, got 3"),
        ({"budget": None}, "is new: --budget must say how much"),
        ({"begun": True}, "its state is lost or elsewhere"),
    ],
)
def test_terms_out_of_range_declare_no_campaign(wrong: dict[str, Any], said: str) -> None:
    given = {"campaign": "toy", "epsilon": 0.5, "max_labels": 1, "budget": 0.5} | wrong
    max_labels = given.pop("max_labels")
    with pytest.raises(SettingsError, match=said):
        shares(PublicationTerms(**given), max_labels)
    if Path("direct/ledger.sqlite").exists():
        assert existing_ledger(Path("direct")).datasets() == ()


@pytest.mark.parametrize("max_labels", [1, 2])
def test_a_publication_may_use_its_budget_up_and_its_campaign_then_has_begun(
    max_labels: int,
) -> None:
    first = shares(PublicationTerms("toy", 0.5, budget=0.5), max_labels)
    assert (first.budget.epsilon, first.spent) == (0.5, 0.5)
    assert (first.n_paid_before, first.n_stale) == (0, 0)
    again = shares(PublicationTerms("toy", 0.5, begun=True), max_labels)
    assert (again.budget.epsilon, again.spent, again.n_paid_before) == (0.5, 0.5, 2)
    assert (again.noisy == first.noisy).all()
    with pytest.raises(SettingsError, match="is epsilon 0.5, got 0.75: leave --budget out"):
        shares(PublicationTerms("toy", 0.5, budget=0.75), max_labels)


def test_a_class_at_the_threshold_does_not_hold_and_is_not_left_out() -> None:
    """Of the first task's two classes one counts; half a chance of the second's is no class."""
    assert shares(PublicationTerms("toy", 0.5, budget=1.0), 1).n_left_out == 1
    assert shares(PublicationTerms("toy", 0.5, budget=1.0), 2).n_left_out == 0


def test_sizes_under_a_key_are_as_published_and_else_of_now() -> None:
    for key, sizes in ((None, [3, 1]), ("k", [2, 1])):
        terms = PublicationTerms(f"toy-{key}", 0.5, budget=2.0, publication=key)
        assert shares(terms, 1).n.tolist() == [2, 1]
        grown = shares(terms, 1, np.vstack([PROBABILITY, [[0.9, 0.1]]]))
        assert grown.n.tolist() == sizes


def test_a_publication_never_holds_the_state_folder() -> None:
    told = publish("--budget", "2", "--state", "public/state")
    assert told.exit_code == 2
    assert (
        "--publish public must not hold the state folder, got --state public/state" in told.stderr
    )
    assert not Path("public", "state").exists()


def test_the_delta_of_a_budget_that_a_run_declared_is_published_with_it() -> None:
    """The campaign of a run's settings may have one, and Gaussian noise may have spent it."""
    with open_state(Path("state")) as ledger:
        ledger.open_budget("labels", unit=Unit.CONSENSUS_LABEL, epsilon=2.0, delta=1e-6, n=10)
    assert publish().exit_code == 0
    assert (released()["budget"], released()["budget_delta"]) == (2.0, 1e-6)
    page = Path("public/public.html").read_text(encoding="utf-8")
    assert "but for an addition of δ = 1e-06: that is the campaign’s whole budget" in page

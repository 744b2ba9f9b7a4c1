"""Which cells plainly hold several classes, which names are grades; what a proposal then says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flows.pipeline import run_pipeline
from flows.proposal import CampaignTables, write_settings
from flows.proposal.class_names import SCALES, classes_of_cells, grades_of
from flows.settings import load_settings


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["cat", "cat|dog", "dog", "none"], ("|", "none", ("cat", "dog"))),
        (["cat | dog", "eel"], ("|", None, ("cat", "dog", "eel"))),
        (["None", "cat|dog"], ("|", "None", ("cat", "dog"))),
        (["none|cat", "none"], ("|", None, ("cat", "none"))),  # a class that comes with others
        (["cat;dog", "dog", "cat"], (";", None, ("cat", "dog"))),
        (["cat, dog", "dog", "cat"], (",", None, ("cat", "dog"))),
        (["Smith, J.", "Jones"], (None, None, ("Smith, J.", "Jones"))),  # no part stands alone
        (["a", "b"], (None, None, ("a", "b"))),
        (['["cat", "dog"]', "[]", '["eel"]'], ("|", None, ("cat", "dog", "eel"))),
        (["[x]", "[y]"], (None, None, ("[x]", "[y]"))),
        ([], (None, None, ())),
    ],
)
def test_cells_of_several_classes_are_known(
    cells: list[str], found: tuple[str | None, str | None, tuple[str, ...]]
) -> None:
    assert classes_of_cells(cells) == found


@pytest.mark.parametrize(
    ("names", "grades"),
    [
        (["1", "2", "3", "4", "5"], ("1", "2", "3", "4", "5")),
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["medium", "low", "high"], ("low", "medium", "high")),
        (["Strongly_agree", "agree", "Neutral"], ("Neutral", "agree", "Strongly_agree")),
        (["Very Good", "poor", "fair"], ("poor", "fair", "Very Good")),
        (["1", "01", "2"], None),  # twice the same grade
        (["low", "minor", "high"], None),
        (["low", "high"], None),  # two classes need no order
        (["low", "good", "often"], None),  # of three scales
        (["benign", "suspicious", "toxic"], None),
    ],
)
def test_names_of_one_scale_are_grades(names: list[str], grades: tuple[str, ...] | None) -> None:
    assert grades_of(names) == grades


def test_no_word_stands_twice_on_a_scale() -> None:
    for scale in SCALES:
        words = [word for place in scale for word in place]
        assert len(words) == len(set(words))


def write_labels(path: Path, names: list[str]) -> Path:
    rows = [f"w{w},t{t:02d},{names[(t + (w == t % 4)) % 3]}" for t in range(40) for w in range(4)]
    path.write_text("\n".join(["worker,task,label", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("names", [["low", "medium", "high"], ["1", "2", "3"]])
def test_plain_grades_are_proposed_in_their_order_and_the_file_runs(
    tmp_path: Path, names: list[str]
) -> None:
    labels = write_labels(tmp_path / "labels.csv", names)
    settings = tmp_path / "settings.toml"
    write_settings(settings, CampaignTables(labels), name="graded")
    text = settings.read_text(encoding="utf-8")
    assert f"classes = {json.dumps(names)}" in text
    assert re.search(
        "^order = true +# the classes look like grades; a run tests the order", text, re.MULTILINE
    )
    assert load_settings(settings).aggregator == "ordinal_crowd"
    run_pipeline(load_settings(settings))


def test_numbers_that_may_be_codes_are_proposed_in_a_comment(tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels.csv", ["0", "1", "2"])
    settings = tmp_path / "settings.toml"
    write_settings(settings, CampaignTables(labels), name="graded")
    text = settings.read_text(encoding="utf-8")
    assert re.search("^# order = true +# the classes may be grades", text, re.MULTILINE)
    assert not load_settings(settings).input.order


def test_other_classes_stay_in_the_order_of_their_names_and_without_order(tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels.csv", ["dog", "cat", "horse"])
    write_settings(tmp_path / "settings.toml", CampaignTables(labels), name="nominal")
    text = (tmp_path / "settings.toml").read_text(encoding="utf-8")
    assert 'classes = ["cat", "dog", "horse"]' in text
    assert "\norder = false" in text

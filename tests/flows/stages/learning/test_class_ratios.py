"""Class ratios read features in the clear: they stay internal where the unit protects features."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.pipeline import run_pipeline
from flows.settings.settings import load_settings
from flows.stages.learning.class_ratios import Published, _rows_by_group
from tests.flows.campaign import write_small_campaign


def campaign(folder: Path, unit: str) -> Path:
    """The small campaign without a model, under this unit."""
    path = write_small_campaign(folder)
    text = re.sub(r"(?s)\[model\].*", "", path.read_text())
    path.write_text(text.replace("[privacy]\n", f'[privacy]\nunit = "{unit}"\n'))
    return path


def public_bytes(path: Path) -> dict[str, bytes]:
    """Every byte that a run makes public."""
    folder = run_pipeline(load_settings(path)).folder
    public = [folder / "public.html", *sorted((folder / "public").iterdir())]
    return {one.name: one.read_bytes() for one in public}


def move_features(folder: Path) -> None:
    """Give one labelled task other features; its label, and so what was paid for, stays."""
    path = folder / "tasks.csv"
    header, first, *rest = path.read_text().splitlines()
    assert first.startswith("t000,g0,")
    path.write_text("\n".join([header, "t000,g0,9.5,-9.5,9.5", *rest]) + "\n")


@pytest.mark.parametrize(("unit", "public"), [("row", False), ("consensus label", True)])
def test_no_public_byte_depends_on_features_that_the_unit_protects(
    tmp_path: Path, unit: str, public: bool
) -> None:
    """The counts are stored, so everything else would show; under the default unit features are public."""
    path = campaign(tmp_path, unit)
    before = public_bytes(path)
    move_features(tmp_path)
    after = public_bytes(path)
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert ("class_ratios.csv" in before) is public
    assert (before != after) is public


def test_the_report_and_the_line_say_why_class_ratios_stay_internal(tmp_path: Path) -> None:
    result = run_pipeline(load_settings(campaign(tmp_path, "row")))
    facts = json.loads((result.folder / "class_ratios.json").read_text())
    assert facts["public"] is False
    reason = "the unit 'row' protects the features, which were read in the clear and not paid for"
    assert facts["why_internal"] == reason
    (line,) = (one.line for one in result.stages if one.stage == "estimate_ratios")
    assert line.endswith(f"; internal: {reason}")
    page = (result.folder / "report.html").read_text()
    assert "They stay internal: the unit &#39;row&#39; protects the features" in page


def test_many_tasks_are_streamed_and_their_parts_are_in_the_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of the rows: the proportions of a part are those of its group and the chance of the draw."""
    rng = np.random.default_rng(0)
    share = np.array([[0.5, 0.3, 0.2]])
    published = Published(
        ("g",), share, np.full((1, 3, 3), 0.01), np.array([0]), 0.9, ("a", "b", "c")
    )
    rows = [np.zeros((90, 1))], [np.zeros((30, 1))]
    truth = np.repeat(np.arange(3), [45, 27, 18])
    drawn = [
        np.bincount(rng.permutation(truth)[:30], minlength=3) / 30 - share[0] for _ in range(20_000)
    ]
    # off by a factor 90 / 89 that the formula leaves out, and by 6 standard errors of a variance
    np.testing.assert_allclose(
        published.noise_of_parts(*rows)[0] - 0.01, np.cov(np.array(drawn).T), rtol=0.1
    )
    whole = run_pipeline(load_settings(campaign(tmp_path / "whole", "consensus label")))
    monkeypatch.setattr("flows.stages.learning.class_ratios.WHOLE_ROWS", 10)
    monkeypatch.setattr("flows.stages.learning.class_ratios.MAX_ROWS", 60)
    part = run_pipeline(load_settings(campaign(tmp_path / "part", "consensus label")))
    tables = [pq.read_table(run.folder / "class_ratios.parquet") for run in (whole, part)]
    assert tables[0].column("n") == tables[1].column("n")
    facts = json.loads((part.folder / "class_ratios.json").read_text())
    assert facts["method"] == "kernel mean matching"


@pytest.mark.parametrize(
    ("task", "said"),
    [("t000,g0,", "group 'alone' has 1 labelled task"), ("t360,u0,", "group 'alone' has 1 task")],
)
def test_a_group_of_one_task_is_named_with_a_remedy_that_works(
    tmp_path: Path, task: str, said: str
) -> None:
    path = campaign(tmp_path, "consensus label")
    tasks, alone = tmp_path / "tasks.csv", f"{task[:5]}alone,"
    text = tasks.read_text()
    assert task in text
    tasks.write_text(text.replace(task, alone))
    found = run_pipeline(load_settings(path))
    assert said in found.run.read_json("class_ratios.json")["skipped"]
    path.write_text(path.read_text().replace("[privacy]\n", "[privacy]\nmin_group_size = 2\n"))
    found = run_pipeline(load_settings(path))
    assert "cross-validated" in found.verdicts["class ratios"]


def test_rows_of_groups_are_those_that_a_look_at_each_group_finds() -> None:
    rng = np.random.default_rng(0)
    rows, group = rng.normal(size=(200, 2)), rng.integers(9, size=200)
    codes = np.array([7, 0, 3, 20])
    found = _rows_by_group(rows, group, codes)
    for one, code in zip(found, codes, strict=True):
        np.testing.assert_array_equal(one, rows[group == code])


def test_too_few_groups_are_told_in_words_of_the_settings(tmp_path: Path) -> None:
    """A learner calls groups bags, and takes a bandwidth, which no settings have."""
    path = campaign(tmp_path, "consensus label")
    tasks = tmp_path / "tasks.csv"
    for kept in (3, 2):
        text = re.sub(rf",g[{kept}-5],", ",g0,", tasks.read_text())
        tasks.write_text(text)
        found = run_pipeline(load_settings(path)).run.read_json("class_ratios.json")["skipped"]
        assert found.startswith("labelled groups must be at least")
        assert f"got {kept} labelled groups of 3 classes" in found
        assert not re.search("bag|bandwidth", found)

"""Patterns of what the crowd goes by, beside gold's, as points or pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from flows.pipeline import run_pipeline
from flows.report import charts
from flows.run import Crowd
from flows.settings import load_settings
from flows.stages.learning.decision_images import find_decision_images
from flows.tables import Gold, TaskTable
from quality import encode

SHAPE = (4, 5)


class Asked:
    """What the stage reads of a run."""

    def __init__(self, shape: tuple[int, int] | None, *, use_gold: bool = False) -> None:
        self.settings = self.report = self.consensus = self
        self.image_shape, self.use_gold, self.seed = shape, use_gold, 0


def campaign(n_classes: int = 2) -> tuple[Crowd, np.ndarray]:
    """Gold goes by the two upper rows of small pictures, the crowd by the uppermost alone."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 20))
    truth = np.digitize(x[:, :10].sum(axis=1), np.linspace(-2, 2, n_classes + 1)[1:-1])
    label = np.digitize(x[:, :5].sum(axis=1), np.linspace(-1.5, 1.5, n_classes + 1)[1:-1])
    names = np.array([f"t{at:03d}" for at in range(500)])
    labels = encode(["w"] * 500, names, label, classes=list(range(n_classes)))
    columns = tuple(f"p{at:02d}" for at in range(20))
    table = TaskTable(names, np.zeros(500, np.int32), np.array(["all"]), x, columns)
    return Crowd(labels, table, Gold(names, truth)), label


def test_a_pattern_shows_what_the_crowd_goes_by_and_gold_does() -> None:
    crowd, label = campaign()
    (image,) = find_decision_images(Asked(SHAPE), crowd, label)["images"]  # type: ignore[arg-type]
    ours, golds = (np.abs(image[key]).reshape(SHAPE).mean(axis=1) for key in ("pattern", "gold"))
    assert ours[0] > 3 * ours[1]  # the crowd overlooks the second row
    assert golds[1] > 0.5 * golds[0]
    assert max(ours[2:].max(), golds[2:].max()) < 0.3 * golds[:2].min()
    assert image["cosine"] < image["ceiling"]
    assert image["right"] > 0.9 > image["commonest"]
    assert np.mean(image["portrait"][:5]) > 0 > np.mean(image["others"][:5])


def test_named_features_are_those_that_move_most() -> None:
    crowd, label = campaign(3)
    found = find_decision_images(Asked(None), crowd, label)  # type: ignore[arg-type]
    assert len(found["images"]) == 3
    last = found["images"][[one["class"] for one in found["images"]].index("2")]
    assert len(last["features"]) == len(last["pattern"]) == len(last["gold"]) == 15
    assert {"p00", "p01", "p02", "p03", "p04"} <= set(last["features"][:10])


@pytest.mark.parametrize(
    ("shape", "label", "why"),
    [
        ((3, 3), None, "image_shape is 3 x 3, and the tasks have 20 features"),
        (None, np.zeros(500, int), "no class has 20 tasks"),
    ],
)
def test_where_there_is_no_image_the_reason_is_said(
    shape: tuple[int, int] | None, label: np.ndarray | None, why: str
) -> None:
    crowd, own = campaign()
    found = find_decision_images(Asked(shape), crowd, own if label is None else label)  # type: ignore[arg-type]
    assert why in found["why_not"]


@pytest.mark.parametrize(
    ("feature", "why"),
    [
        (0.0, "no feature differs from task to task"),
        (1e200, "a feature is too large to be squared"),
    ],
)
def test_features_that_no_line_can_be_learned_from_are_said(feature: float, why: str) -> None:
    crowd, label = campaign()
    table = crowd.table
    rows = feature * np.sign(table.features)
    flat = replace(crowd, tasks=replace(table, features=rows))
    found = find_decision_images(Asked(SHAPE), flat, label)  # type: ignore[arg-type]
    assert why in found["why_not"]


def test_a_single_task_has_too_few_of_its_class() -> None:
    crowd, label = campaign()
    table = crowd.table
    labels = encode(["w"], ["t000"], label[:1], classes=[0, 1])
    one = TaskTable(
        table.names[:1], table.group[:1], table.group_names, table.features[:1], table.feature_names
    )
    found = find_decision_images(Asked(SHAPE), Crowd(labels, one, None), label[:1])  # type: ignore[arg-type]
    assert "no class has 20 tasks" in found["why_not"]


def test_gold_tasks_that_are_all_alike_have_no_image() -> None:
    crowd, label = campaign()
    table, gold = crowd.table, crowd.gold
    assert gold is not None
    rows = table.features.copy()
    rows[:100] = 1.0  # those with gold
    alike = replace(
        crowd, tasks=replace(table, features=rows), gold=Gold(gold.task[:100], gold.label[:100])
    )
    (image,) = find_decision_images(Asked(SHAPE), alike, label)["images"]  # type: ignore[arg-type]
    assert image["gold"] is image["cosine"] is None


def test_gold_that_was_used_has_no_image() -> None:
    crowd, label = campaign()
    (image,) = find_decision_images(Asked(SHAPE, use_gold=True), crowd, label)["images"]  # type: ignore[arg-type]
    assert image["gold"] is image["cosine"] is None


def test_pictures_stand_inside_the_svg() -> None:
    panels = [("a", [0.0] * 6, False), ("b", [1.0, -2.0, 0.0, 0.5, 0.1, 0.2], True)]
    rows = [{"class": "a", "panels": panels}]
    svg = charts.image_panels(rows, (2, 3), name="image-1", label="x")
    root = ElementTree.fromstring(svg)
    pictures = list(root.iter("{http://www.w3.org/2000/svg}image"))
    place = "{http://www.w3.org/1999/xlink}href"
    assert len(pictures) == 2
    assert all(one.get(place, "").startswith("data:image/png;base64,") for one in pictures)
    assert svg == charts.image_panels(rows, (2, 3), name="image-1", label="x")


@pytest.mark.parametrize("shape", ["", "image_shape = [4, 5]"])
def test_a_run_draws_the_images_in_the_internal_report_alone(tmp_path: Path, shape: str) -> None:
    crowd, label = campaign()
    table, gold = crowd.table, crowd.gold
    assert gold is not None
    head = "task," + ",".join(table.feature_names)
    cells = [",".join(f"{v:.4f}" for v in row) for row in table.features]
    one_else = label ^ (np.arange(len(label)) == 0)
    votes = (one_else, label, label)
    said = [f"w{w},t{t:03d},{'ab'[k]}" for w, one in enumerate(votes) for t, k in enumerate(one)]
    files = {
        "labels.csv": ["worker,task,label", *said],
        "gold.csv": ["task,label", *(f"t{t:03d},{'ab'[k]}" for t, k in enumerate(gold.label))],
        "tasks.csv": [head, *(f"t{t:03d},{row}" for t, row in enumerate(cells))],
        "settings.toml": [
            'name = "images"', 'runs = "runs"', 'state = "state"', "[input]", 'labels = "labels.csv"',
            'tasks = ["tasks.csv"]', 'gold = "gold.csv"', "[filter]", "n_workers = 0", "[consensus]",
            'aggregator = "majority_vote"', 'features = "ignore"', "[report]",
            "decision_images = true", shape,
        ],
    }  # fmt: skip
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    folder = run_pipeline(load_settings(tmp_path / "settings.toml")).folder
    assert json.loads((folder / "decision_images.json").read_text("utf-8"))["why_not"] is None
    page = (folder / "report.html").read_text("utf-8")
    assert "What the crowd goes by" in page
    assert ("data:image/png;base64," in page) is bool(shape)
    assert "data:image" not in (folder / "public.html").read_text("utf-8")

"""Which unit each release of a run protects, and which rows each of them reads."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flows.pipeline import run_stage
from flows.run import Crowd, Run, load_crowd, open_run
from flows.settings import SettingsError
from flows.settings.settings import load_settings
from flows.spending import Learning, Plan, plan_releases
from flows.stages import STAGES
from privacy import Unit
from tests.flows.campaign import write_small_campaign

AGGREGATE = [stage.name for stage in STAGES].index("aggregate")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The small campaign as far as its consensus."""
    run = open_run(load_settings(write_small_campaign(tmp_path_factory.mktemp("campaign"))))
    for stage in STAGES[: AGGREGATE + 1]:
        run_stage(stage, run)
    return run


def planned(run: Run, **sections: str) -> tuple[Plan, Crowd]:
    """The plan of that run under other settings: lines added at the top of sections."""
    path = run.settings.input.labels.parent / "settings.toml"
    text = before = path.read_text(encoding="utf-8")
    for section, lines in sections.items():
        if f"[{section}]" not in text:
            text += f"[{section}]\n"
        text = text.replace(f"[{section}]\n", f"[{section}]\n{lines}\n")
    path.write_text(text.replace("fraction = 0.1\n", "", int("filter" in sections)), "utf-8")
    try:
        settings = load_settings(path)
    finally:
        path.write_text(before, encoding="utf-8")
    crowd = load_crowd(run.folder)
    asking: Any = SimpleNamespace(settings=settings, read_table=run.read_table, publication=None)
    assert settings.privacy is not None
    return plan_releases(asking, crowd, settings.privacy), crowd


def learning_of(plan: Plan) -> Learning:
    assert plan.learning is not None
    return plan.learning


def units(plan: Plan) -> tuple[Unit, Unit, Unit]:
    """Of the counts, the training and the holdout."""
    (counts,) = {query.unit for query in plan.counts}
    learning = learning_of(plan)
    return counts, learning.training.unit, learning.holdout.unit


LOCAL = {"consensus": 'aggregator = "majority_vote"', "filter": "fraction = 0.0"}


def test_training_protects_the_whole_row_unless_scaling_has_read_the_features(run: Run) -> None:
    plan, _ = planned(run)
    assert units(plan) == (Unit.CONSENSUS_LABEL, Unit.ROW, Unit.ROW)
    scaled, _ = planned(run, input="standardize = true")
    assert units(scaled) == (Unit.CONSENSUS_LABEL,) * 3


def test_with_the_unit_task_everything_protects_the_task(run: Run) -> None:
    plan, _ = planned(run, privacy='unit = "task"', **LOCAL)
    assert units(plan) == (Unit.TASK,) * 3


@pytest.mark.parametrize(
    "joint",
    [
        {"consensus": 'aggregator = "dawid_skene"', "filter": "fraction = 0.0"},
        {"consensus": 'aggregator = "majority_vote"', "filter": "fraction = 0.1"},
        {"consensus": 'aggregator = "majority_vote"', "filter": "n_workers = 1"},
        {"consensus": 'aggregator = "majority_vote"', "filter": "false_removal_rate = 0.1"},
        {"consensus": 'aggregator = "majority_vote"', "filter": 'penalty = "soft"'},
    ],
    ids=lambda sections: " ".join(sections.values()),
)
def test_the_unit_task_is_refused_where_other_tasks_move_a_consensus(
    run: Run, joint: dict[str, str]
) -> None:
    """Every aggregator that weighs workers, and every filter that removes any."""
    with pytest.raises(SettingsError, match='unit = "task" needs consensus.aggregator'):
        planned(run, privacy='unit = "task"', **joint)


@pytest.mark.parametrize("none", ["fraction = 0.0", "n_workers = 0"])
def test_a_filter_that_removes_nobody_leaves_the_majority_vote_local(run: Run, none: str) -> None:
    sections = {"consensus": 'aggregator = "majority_vote"', "filter": none}
    plan, _ = planned(run, privacy='unit = "task"', **sections)
    assert units(plan)[0] is Unit.TASK


def test_training_reads_no_row_of_the_holdout_and_the_gate_reads_no_other(run: Run) -> None:
    """Every feature vector of the campaign is its task's alone, so that rows tell where they come from."""
    plan, crowd = planned(run)
    learning, features = learning_of(plan), crowd.label_features()
    assert len(np.unique(features, axis=0)) == len(features)
    training, holdout = learning.training.value, learning.holdout.value
    assert isinstance(training, dict)
    assert isinstance(holdout, dict)
    held = learning.rows.holdout
    np.testing.assert_array_equal(training["x"], features[~held])
    np.testing.assert_array_equal(holdout["x"], features[held])
    np.testing.assert_array_equal(training["y"], learning.rows.y[~held])
    np.testing.assert_array_equal(holdout["y"], learning.rows.y[held])
    np.testing.assert_array_equal(training["validation"], learning.rows.validation[~held])
    assert not (learning.rows.validation & held).any()
    assert (learning.training.n, learning.holdout.n) == ((~held).sum(), held.sum())
    assert 0 < held.sum() < len(held)


def test_training_and_holdout_are_cells_of_one_partition_that_is_named_by_the_deal(
    run: Run,
) -> None:
    plan, _ = planned(run)
    parts = learning_of(plan).training.part, learning_of(plan).holdout.part
    assert parts[0] is not None
    assert parts[1] is not None
    assert parts[0].partition == parts[1].partition
    assert [part.name for part in parts if part] == ["develop", "holdout"]
    other, _ = planned(run, gate="holdout = 0.3")
    moved = learning_of(other).training.part
    assert moved is not None
    assert moved.partition != parts[0].partition


def test_rows_are_never_released_and_counts_move_by_two(run: Run) -> None:
    plan, _ = planned(run)
    assert {query.l1 for query in plan.counts} == {2.0}
    assert {learning_of(plan).training.l1, learning_of(plan).holdout.l1} == {math.inf}


def test_every_release_of_the_run_is_asked_for_before_the_first(run: Run) -> None:
    """Each group's counts, the training and the holdout: what `Ledger.afford` is asked."""
    plan, _ = planned(run)
    asked = [query.name for _, query in plan.releases()]
    assert asked == ["class counts"] * 6 + ["rows to train on", "holdout rows"]
    several, _ = planned(
        run, privacy="planned_releases = 3\ndelta = 1e-5\nproportions_delta = 1e-6"
    )
    assert len(several.plans()) == 1
    assert [query.name for _, query in several.releases()] == ["rows to train on", "holdout rows"]


def test_a_table_is_not_touched_by_reading_its_plan(run: Run, tmp_path: Path) -> None:
    before = sorted(path.name for path in run.folder.iterdir())
    planned(run)
    assert sorted(path.name for path in run.folder.iterdir()) == before

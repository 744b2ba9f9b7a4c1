"""Which unit each release of a run protects, which rows each of them reads, and what a plan holds."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flows.pipeline import run_stage
from flows.run import Crowd, Run, load_crowd, open_run
from flows.settings import (
    GateSettings,
    ModelSettings,
    PrivacySettings,
    SettingsError,
)
from flows.settings.settings import load_settings
from flows.spending import (
    LEDGER_URL,
    Correction,
    Learning,
    Plan,
    learning_rows,
    open_account,
    plan_releases,
    releases,
    with_grown_partition,
)
from flows.spending.learning_rows import deal
from flows.spending.releases import gate_of, protected_unit, training_of
from flows.stages import STAGES
from learners import NoisyGradientDescent, ScoredTraining, StabilityValidation, Thresholdout
from privacy import GroupInteraction, GroupPrivacy, JointLatticeLaplace, LatticeLaplace, Unit
from privacy.accounting import exact
from tests.flows.campaign import toy_crowd, toy_run, toy_settings, write_small_campaign

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
    asking: Any = SimpleNamespace(
        settings=settings, folder=run.folder, read_table=run.read_table, publication=None
    )
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


LOCAL = {"consensus": 'aggregator = "majority_vote"\ngroups = "ignore"', "filter": "fraction = 0.0"}


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
        {"consensus": 'aggregator = "majority_vote"', "filter": "n_workers = 0"},
        {"consensus": 'aggregator = "majority_vote"\ngroups = "remove"', "filter": "n_workers = 0"},
    ],
    ids=lambda sections: " ".join(sections.values()),
)
def test_the_unit_task_is_refused_where_other_tasks_move_a_consensus(
    run: Run, joint: dict[str, str]
) -> None:
    """Every aggregator that weighs workers, groups that vote once or go, and filters that remove any."""
    with pytest.raises(SettingsError, match='unit = "task" needs consensus.aggregator'):
        planned(run, privacy='unit = "task"', **joint)


@pytest.mark.parametrize("none", ["fraction = 0.0", "n_workers = 0"])
def test_a_filter_that_removes_nobody_leaves_the_majority_vote_local(run: Run, none: str) -> None:
    sections = LOCAL | {"filter": none}
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


# a plan, on a toy ------------------------------------------------------------------------------


def toy_plan(
    folder: Path,
    groups: str = "nnnss",
    *,
    key: str | None = None,
    crowd: Crowd | None = None,
    **given: Any,
) -> Plan:
    """The plan of a crowd whose consensus is all of the first class."""
    settings = toy_settings(folder, **given)
    assert settings.privacy is not None
    crowd = crowd or toy_crowd(groups)
    run = toy_run(settings, "a" * crowd.labels.n_tasks, publication=key)
    return plan_releases(run, crowd, settings.privacy)


def test_a_group_of_the_least_size_is_published_and_a_smaller_one_is_not(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path, "eennns", privacy={"epsilon": 4.0, "min_group_size": 2})
    assert plan.groups == ("e", "n")
    assert plan.sizes.tolist() == [2, 3]
    assert [query.value.tolist() for query in plan.counts] == [[2, 0], [3, 0]]


def test_where_no_group_is_large_enough_nothing_is_planned(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="min_group_size must leave a group to publish, got 4"):
        toy_plan(tmp_path, privacy={"epsilon": 4.0, "min_group_size": 4})


MODEL = {"norm_bound": 1.0}


@pytest.mark.parametrize(
    ("given", "crowd"),
    [
        ({}, toy_crowd("n" * 40)),
        ({"model": MODEL}, toy_crowd("n" * 40, table=False)),
        ({"model": MODEL}, toy_crowd("n" * 40, n_features=0)),
        ({"model": MODEL}, toy_crowd("nn")),
    ],
    ids=["no model", "no table of tasks", "no features", "too few tasks for every part"],
)
def test_where_no_model_can_be_trained_counts_are_all_that_is_asked(
    tmp_path: Path, given: dict[str, Any], crowd: Crowd
) -> None:
    plan = toy_plan(tmp_path, crowd=crowd, **given)
    assert plan.learning is None
    assert [query.name for _, query in plan.releases()] == ["class counts"]
    whole = toy_plan(tmp_path, crowd=toy_crowd("n" * 40), model=MODEL)
    assert [query.name for _, query in whole.releases()][1:] == ["rows to train on", "holdout rows"]


def test_under_a_key_each_group_is_published_with_its_classes_and_its_size(tmp_path: Path) -> None:
    """One group alone too: sizes are together only where groups are."""
    for groups, sizes in (("nnnss", [3, 2]), ("nnn", [3])):
        plan = toy_plan(tmp_path, groups, key="2026-11")
        published = [query.publication for query in plan.counts]
        assert all(one is not None and one.key == "2026-11" for one in published)
        assert [json.loads(one.facts) for one in published if one] == [{"n": n} for n in sizes]
        assert {one.terms for one in published if one} == {'{"classes": ["a", "b"]}'}
    assert [query.publication for query in toy_plan(tmp_path).counts] == [None, None]


def test_under_a_key_groups_that_are_one_release_are_published_with_all_sizes(
    tmp_path: Path,
) -> None:
    subjects = {"unit": "subject", "max_tasks_per_subject": 2, "epsilon": 4.0}
    crowd = toy_crowd("nnss", subjects="pqpq")
    given: dict[str, Any] = {"privacy": subjects, "input": {"subject": "who"}}
    plan = toy_plan(tmp_path, crowd=crowd, key="1", **given)
    assert isinstance(plan.mechanism, JointLatticeLaplace)
    assert isinstance(toy_plan(tmp_path).mechanism, LatticeLaplace)
    (query,) = plan.counts
    assert query.publication is not None
    assert json.loads(query.publication.facts) == {"sizes": [2, 2]}
    assert json.loads(query.publication.terms) == {"classes": ["a", "b"], "groups": ["n", "s"]}


def test_public_terms_are_written_in_the_order_of_their_names(tmp_path: Path) -> None:
    """So that a publication is found again whatever order the code has."""
    plan = toy_plan(tmp_path, "n" * 40, key="1", model=MODEL)
    published = learning_of(plan).training.publication
    assert published is not None
    terms = json.loads(published.terms)
    assert list(terms) == ["classes", "dealt", "features", "standardize"]
    assert terms["features"] == ["x", "y"]


@pytest.mark.parametrize(("gold", "groups"), [("abab--", ["n"]), ("abab-a", ["n", "s"])])
def test_a_correction_is_published_with_the_groups_that_it_is_of(
    tmp_path: Path, gold: str, groups: list[str]
) -> None:
    """Its own if each is corrected by itself, and else all that are published."""
    kept = 3 if groups == ["n"] else 1
    plan = toy_plan(
        tmp_path, crowd=toy_crowd("nnnnss", gold=gold), key="1",
        privacy={"epsilon": 4.0, "correction_epsilon": 1.0, "min_group_size": kept},
        input={"gold_sampling": "random"},
    )  # fmt: skip
    assert isinstance(plan.correction, Correction)
    (query,) = plan.correction.queries
    assert query.publication is not None
    assert json.loads(query.publication.terms)["groups"] == groups
    assert [query.name for _, query in plan.releases()][-1] == query.name


def test_counts_and_corrections_move_to_partitions_that_grow_each_to_its_own(
    tmp_path: Path,
) -> None:
    given: dict[str, Any] = {
        "privacy": {"epsilon": 4.0, "correction_epsilon": 1.0}, "input": {"gold_sampling": "random"}
    }  # fmt: skip
    settings = toy_settings(tmp_path, **given)
    assert settings.privacy is not None
    crowd = toy_crowd("nnnn", gold="ab--")
    plan = toy_plan(tmp_path, crowd=crowd, **given)
    ledger = open_account(settings, settings.privacy, n=4)
    grown = with_grown_partition(plan, crowd, settings, ledger)
    assert isinstance(plan.correction, Correction)
    assert isinstance(grown.correction, Correction)
    before, after = plan.counts[0].part, grown.counts[0].part
    assert before is not None
    assert after is not None
    assert (after.partition != before.partition, after.name) == (True, before.name)
    (moved,) = (query.part for query in grown.correction.queries)
    assert moved is not None
    assert (moved.partition.startswith("gold:first-"), moved.name) == (True, before.name)


def test_a_partition_of_sets_of_classes_grows_with_the_campaign(tmp_path: Path) -> None:
    """Its counts are of places, two for each task: a size is their number over two."""
    privacy = PrivacySettings(epsilon=4.0, max_labels=2)
    settings = toy_settings(tmp_path).model_copy(update={"privacy": privacy})
    ledger = open_account(settings, privacy, n=4)
    partitions = []
    for groups in ("nnn", "nnnss"):
        run, crowd = toy_run(settings, "a" * len(groups)), toy_crowd(groups)
        write_cells(run, crowd, np.full((len(groups), 2), 0.9))
        plan = with_grown_partition(plan_releases(run, crowd, privacy), crowd, settings, ledger)
        ledger.release_all(LatticeLaplace(0.5), plan.counts)
        partitions += [query.part.partition for query in plan.counts if query.part]
    assert len(partitions) == 3
    assert len(set(partitions)) == 1


def write_cells(run: Run, crowd: Crowd, probability: np.ndarray) -> None:
    """The consensus on sets: what the probability of each class of each task is."""
    task, label = np.indices(probability.shape).reshape(2, -1)
    run.write_table(
        "class_cells.parquet",
        pa.table({
            "task": crowd.labels.tasks[task], "class": crowd.labels.classes[label],
            "probability": probability.ravel(),
        }),
    )  # fmt: skip


def test_no_partition_grows_for_subjects_nor_beside_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects: dict[str, Any] = {
        "privacy": {"unit": "subject", "max_tasks_per_subject": 2, "epsilon": 4.0},
        "input": {"subject": "who"},
    }
    for given, crowd, url in (
        (subjects, toy_crowd("nns", subjects="pqr"), None),
        ({}, toy_crowd("nns"), "postgresql://somewhere"),
    ):
        settings, plan = toy_settings(tmp_path, **given), toy_plan(tmp_path, crowd=crowd, **given)
        assert settings.privacy is not None
        ledger = open_account(settings, settings.privacy, n=3)
        if url is not None:
            monkeypatch.setenv(LEDGER_URL, url)
        assert with_grown_partition(plan, crowd, settings, ledger) is plan
        shutil.rmtree(settings.state)


def test_the_deals_shares_are_of_what_is_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number drawn from [0, 1) is below h with probability h, so what is drawn at an edge is beyond it."""
    drawn = np.array([0.0, 0.25, 0.5, 0.625])
    monkeypatch.setattr(learning_rows, "drawn_by_name", lambda *_: drawn)
    held, validated = deal(np.array(list("wxyz")), seed=0, holdout=0.25, validation=0.5)
    assert held.tolist() == [True, False, False, False]
    assert validated.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("unit", "standardize", "protected"),
    [
        ("consensus label", False, Unit.ROW), ("consensus label", True, Unit.CONSENSUS_LABEL),
        ("row", False, Unit.ROW), ("task", False, Unit.TASK), ("answer", True, Unit.ANSWER),
        ("subject", False, Unit.SUBJECT),
    ],
)  # fmt: skip
def test_training_protects_the_settings_unit_or_as_much_as_scaling_leaves(
    tmp_path: Path, unit: str, standardize: bool, protected: Unit
) -> None:
    most = {"max_tasks_per_subject": 2} if unit == "subject" else {}
    privacy = PrivacySettings(epsilon=1.0, unit=Unit(unit), **most)
    settings = toy_settings(tmp_path, input={"standardize": standardize})
    assert protected_unit(settings, privacy) is protected


def test_what_learning_costs_a_subject_is_the_price_of_the_settings(tmp_path: Path) -> None:
    """Three rows of one: training and gate are priced for all of them together, and for one as they are."""
    rows = toy_plan(tmp_path, "n" * 60, model=MODEL).learning
    assert rows is not None
    assert isinstance(rows.mechanism, ScoredTraining)
    assert isinstance(rows.asked, Thresholdout)
    crowd = toy_crowd("n" * 60, subjects="".join(chr(97 + j // 3) for j in range(60)))
    subjects = toy_plan(
        tmp_path, crowd=crowd, model=MODEL, input={"subject": "who"},
        privacy={"unit": "subject", "max_tasks_per_subject": 3, "epsilon": 4.0},
    ).learning  # fmt: skip
    assert subjects is not None
    assert isinstance(subjects.mechanism, GroupPrivacy)
    assert isinstance(subjects.asked, GroupInteraction)
    for one in (rows, subjects):
        cost = one.mechanism.event(one.training).cost().epsilon
        assert exact(1.6) * 999_999 / 1_000_000 < cost <= exact(1.6)


def test_a_gate_is_the_settings_or_fitted_to_the_price_of_training() -> None:
    sizes = {"n": 100, "n_scored": 300, "epsilon_score": 0.1}
    given = gate_of(GateSettings(threshold=0.2, sigma=0.01, budget=2), exact(1.0), **sizes)
    assert given == Thresholdout(threshold=0.2, sigma=0.01, budget=2)
    fitted = gate_of(GateSettings(threshold="auto", budget=2), exact(1.0), **sizes)
    assert fitted.budget == 2
    assert 2 * 2 / (fitted.sigma * 100) <= 1.0


@pytest.mark.parametrize(
    ("given", "descends"),
    [
        ({}, False), ({"delta_train": 1e-6}, True),
        ({"method": "noisy_descent", "delta_train": 1e-6}, True),
        ({"method": "objective_perturbation", "delta_train": 1e-6}, False),
    ],
)  # fmt: skip
def test_the_training_is_what_the_settings_name_or_what_public_numbers_choose(
    given: dict[str, Any], descends: bool
) -> None:
    found = training_of(ModelSettings(norm_bound=1.0, **given), (1.0, 0.5), 5, 2)
    assert isinstance(found, NoisyGradientDescent if descends else StabilityValidation)


def test_descent_is_had_where_it_is_named_though_public_numbers_prefer_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(releases, "prefers_descent", lambda *_, **__: False)
    named, free = (
        training_of(ModelSettings(norm_bound=1.0, delta_train=1e-6, method=how), (1.0, 0.5), 5, 2)
        for how in ("noisy_descent", "auto")
    )
    assert isinstance(named, NoisyGradientDescent)
    assert isinstance(free, StabilityValidation)


def test_prices_too_small_to_draw_noise_for_are_a_mistake_of_the_settings() -> None:
    with pytest.raises(SettingsError, match=r"\[model\]: epsilon must be"):
        training_of(ModelSettings(norm_bound=1.0), (1e-12, 1e-12), 5, 2)


@pytest.mark.parametrize("method", ["auto", "noisy_descent"])
def test_prices_too_large_for_a_delta_are_a_mistake_of_the_settings(method: Any) -> None:
    model = ModelSettings(norm_bound=1.0, delta_train=1e-6, method=method)
    with pytest.raises(SettingsError, match=r"\[model\]: epsilon must be > 0 and at most 100"):
        training_of(model, (200.0, 0.3), 5, 2)


def test_components_are_fewer_than_the_features(tmp_path: Path) -> None:
    for components, features in ((1, 2), (None, 1)):
        model = MODEL | {"components": components}
        crowd = toy_crowd("n" * 40, n_features=features)
        learning = toy_plan(tmp_path, crowd=crowd, model=model).learning
        assert isinstance(
            learning_of(toy_plan(tmp_path, crowd=crowd, model=model)).mechanism, ScoredTraining
        )
        assert learning is not None
        reduced = hasattr(learning.mechanism.training, "reduction")
        assert reduced is (components is not None)
    with pytest.raises(
        SettingsError, match="components must be below the number of features, got 2 of 2"
    ):
        toy_plan(tmp_path, crowd=toy_crowd("n" * 40), model=MODEL | {"components": 2})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon_score": 1e-15}, r"\[model\]: epsilon must be >= l1"),
        (
            {"epsilon_train": 1e-8, "epsilon_select": 1e-8, "epsilon_score": 1e-8},
            r"\[gate\]: sigma",
        ),
    ],
)
def test_prices_for_which_no_noise_can_be_drawn_are_mistakes_of_the_settings(
    tmp_path: Path, given: dict[str, float], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        toy_plan(tmp_path, "n" * 60, model={"norm_bound": 1.0} | given, gate={"threshold": "auto"})

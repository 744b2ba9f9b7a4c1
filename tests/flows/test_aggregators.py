"""The aggregators of the table: each is there, takes the keys that its row lists, and repeats."""

from __future__ import annotations

import inspect
import re
from typing import get_args

import numpy as np
import pytest

from flows.aggregators import (
    AGGREGATORS,
    DEFAULTS,
    AggregatorName,
    any_consensus_of,
    check_classes,
    consensus_of,
    default_aggregator,
    title_of,
)
from flows.settings import ConsensusSettings
from quality import CrowdLabels, LabelError, encode, regular_assignment, simulate_crowd


@pytest.fixture(scope="module")
def labels() -> CrowdLabels:
    rng = np.random.default_rng(5)
    assignment = regular_assignment(n_tasks=60, n_workers=12, labels_per_task=5, rng=rng)
    crowd = simulate_crowd(
        assignment, rng.integers(2, size=60), n_classes=2, adversaries={"random": 2}, rng=rng
    )
    return encode(crowd.worker, crowd.task, crowd.label)


def test_the_rows_are_sorted_and_are_the_choices_of_settings() -> None:
    assert list(AGGREGATORS) == sorted(AGGREGATORS)
    assert get_args(AggregatorName) == tuple(AGGREGATORS)
    assert ConsensusSettings.model_fields["aggregator"].annotation == AggregatorName | None


def test_reports_have_a_title_for_each_and_keep_the_name_of_an_unknown_one() -> None:
    titles = [title_of(name) for name in AGGREGATORS]
    assert len({*titles, *AGGREGATORS}) == 2 * len(AGGREGATORS)
    assert title_of("of_another_version") == "of_another_version"


def test_the_default_is_the_pool_and_where_keys_keep_it_out_hierarchical_dawid_skene() -> None:
    assert ConsensusSettings().named() == ConsensusSettings().named(sharded=True) == "auto"
    for key in ({"max_iter": 9}, {"tol": 0.1}, {"use_gold": True}, {"go_on": True}):
        chosen = ConsensusSettings.model_validate(key)
        assert chosen.named() == chosen.named(sharded=True) == "hierarchical_dawid_skene"
    assert ConsensusSettings(smoothing=0.1, go_on=True).named(sharded=True) == "dawid_skene"
    assert ConsensusSettings(aggregator="kos").named(sharded=True) == "kos"


def test_some_default_takes_all_keys_and_runs_on_shards() -> None:
    every = {key for row in AGGREGATORS.values() for key in row.keys}
    assert default_aggregator(every, sharded=True) == DEFAULTS[-1]
    assert set(DEFAULTS) <= set(AGGREGATORS)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_an_aggregator_takes_the_keys_that_its_row_lists(name: str) -> None:
    called = {"use_gold": "gold", "go_on": "start"}
    row = AGGREGATORS[name]
    takes = {"max_iter", "tol", "smoothing", "gold", "start"} & set(
        inspect.signature(row.function).parameters
    )
    listed = {called.get(key, key) for key in row.keys}
    assert takes - {"smoothing"} == listed - {"smoothing"}
    assert listed <= takes


@pytest.mark.parametrize("name", AGGREGATORS)
def test_each_gives_every_task_a_label_and_the_same_one_again(
    labels: CrowdLabels, name: str
) -> None:
    chosen = ConsensusSettings.model_validate({"aggregator": name})
    one, other = (consensus_of(labels, chosen, seed=3) for _ in range(2))
    assert one.label.shape == (60,)
    assert one.posterior.tobytes() == other.posterior.tobytes()


@pytest.mark.parametrize(
    "name", [row.name for row in AGGREGATORS.values() if "use_gold" in row.keys]
)
def test_gold_is_believed_where_settings_say_so_and_only_there(
    labels: CrowdLabels, name: str
) -> None:
    gold = np.full(60, -1)
    blind = consensus_of(labels, ConsensusSettings.model_validate({"aggregator": name}), seed=0)
    gold[7] = 1 - blind.label[7]
    for use_gold in (True, False):
        chosen = ConsensusSettings.model_validate({"aggregator": name, "use_gold": use_gold})
        found = consensus_of(labels, chosen, seed=0, gold=gold)
        assert bool(found.label[7] == gold[7]) is use_gold


MANY = 600  # classes: confusion matrices of 400 workers have 144 million cells


@pytest.mark.parametrize("name", AGGREGATORS)
def test_many_classes_are_aggregated_or_refused_in_a_sentence_that_names_what_works(
    name: str,
) -> None:
    rng = np.random.default_rng(0)
    worker, task = np.divmod(np.arange(1200), 3)
    truth = rng.integers(MANY, size=300)
    label = np.where(rng.random(1200) < 0.8, truth[task * 100 + worker % 100], 0)
    labels = encode(worker, task * 100 + worker % 100, label, classes=range(MANY))
    chosen = ConsensusSettings(aggregator=name)
    if name == "ordinal_crowd":  # so many classes are no scale
        with pytest.raises(LabelError, match="at most 200, got 600; put grades together, or take"):
            any_consensus_of(labels, chosen, seed=0)
        return
    if name not in {"dawid_skene", "ebcc", "hierarchical_dawid_skene"}:
        found = any_consensus_of(labels, chosen, seed=0)
        assert found.posterior.shape == (300, MANY)
        right = np.mean(found.label == truth)  # of four workers right by 0.8 each
        assert right > 0.8 or not AGGREGATORS[name].named or name == "penalty_vote"
        return
    with pytest.raises(LabelError, match=f"{name} needs a confusion matrix of every") as told:
        any_consensus_of(labels, chosen, seed=0)
    offered = set(re.findall(r"[a-z_]+", str(told.value).split("; ")[1])) & set(AGGREGATORS)
    assert offered == {row.name for row in AGGREGATORS.values() if row.named}


def test_on_shards_very_many_classes_leave_majority_vote() -> None:
    sizes = {"n_workers": 2_000, "n_tasks": 10**6, "n_classes": 1_000, "n_labels": 10**7}
    with pytest.raises(LabelError, match=r"aggregator can be majority_vote instead"):
        check_classes("one_coin_dawid_skene", **sizes, sharded=True)
    check_classes("majority_vote", **sizes, sharded=True)
    check_classes("one_coin_dawid_skene", **sizes)


def test_a_loss_other_than_a_wrong_label_is_refused_with_very_many_classes() -> None:
    names = np.arange(400)
    labels = encode(names, names // 2, names % 3, classes=range(MANY))
    chosen = ConsensusSettings(aggregator="majority_vote", loss="absolute")
    with pytest.raises(LabelError, match='loss must be "zero_one" with 600 classes'):
        any_consensus_of(labels, chosen, seed=0)


def test_a_table_of_tasks_by_classes_that_is_nearly_empty_is_refused() -> None:
    labels = encode(range(20_000), range(20_000), np.zeros(20_000, int), classes=range(10_000))
    with pytest.raises(LabelError, match="got 20,000 tasks and 10,000 classes with 20,000 labels"):
        consensus_of(labels, ConsensusSettings(aggregator="majority_vote"), seed=0)

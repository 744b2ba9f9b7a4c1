"""The aggregators of the table: each is there, takes the keys that its row lists, and repeats."""

from __future__ import annotations

import inspect
from typing import get_args

import numpy as np
import pytest

from flows.aggregators import (
    AGGREGATORS,
    DEFAULTS,
    AggregatorName,
    consensus_of,
    default_aggregator,
    title_of,
)
from flows.settings import ConsensusSettings
from quality import CrowdLabels, encode, regular_assignment, simulate_crowd


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


def test_the_default_is_the_pool_and_where_it_cannot_go_hierarchical_dawid_skene() -> None:
    assert ConsensusSettings().named() == "auto"
    assert ConsensusSettings().named(sharded=True) == "hierarchical_dawid_skene"
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

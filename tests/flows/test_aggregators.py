"""The aggregators that settings name: all are there, take what they are said to take, and repeat."""

from __future__ import annotations

import inspect
from typing import get_args

import numpy as np
import pytest

from flows.aggregators import AGGREGATORS, DRAWS, READ_AS, consensus_of
from flows.cli.label_commands import Aggregator as Offered
from flows.settings.sections import KNOBS, Aggregator, ConsensusSettings
from quality import CrowdLabels, encode, regular_assignment, simulate_crowd

NAMES = get_args(Aggregator)


@pytest.fixture(scope="module")
def labels() -> CrowdLabels:
    rng = np.random.default_rng(5)
    assignment = regular_assignment(n_tasks=60, n_workers=12, labels_per_task=5, rng=rng)
    crowd = simulate_crowd(
        assignment, rng.integers(2, size=60), n_classes=2, adversaries={"random": 2}, rng=rng
    )
    return encode(crowd.worker, crowd.task, crowd.label)


def test_settings_command_line_and_report_know_the_same_aggregators() -> None:
    assert set(NAMES) == set(AGGREGATORS) == set(READ_AS) == {rule.value for rule in Offered}


def test_an_aggregator_takes_the_knobs_that_settings_say_it_takes() -> None:
    called = {"use_gold": "gold", "go_on": "start"}
    knobs = {"max_iter", "tol", "smoothing", *called.values()}
    for name, rule in AGGREGATORS.items():
        takes = knobs & set(inspect.signature(rule).parameters)
        said = {called.get(knob, knob) for knob in KNOBS.get(name, ())}
        assert takes - {"smoothing"} == said - {"smoothing"}, name
        assert said <= takes, name
        assert ("rng" in inspect.signature(rule).parameters) == (name in DRAWS), name


@pytest.mark.parametrize("name", NAMES)
def test_each_gives_every_task_a_label_and_the_same_one_again(
    labels: CrowdLabels, name: str
) -> None:
    chosen = ConsensusSettings.model_validate({"aggregator": name})
    one, other = (consensus_of(labels, chosen, seed=3) for _ in range(2))
    assert one.label.shape == (60,)
    assert one.posterior.tobytes() == other.posterior.tobytes()


@pytest.mark.parametrize("name", [name for name in NAMES if "use_gold" in KNOBS.get(name, ())])
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

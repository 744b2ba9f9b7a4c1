"""What judging says of workers who do not answer on their own; the groups are those of `quality`."""

from __future__ import annotations

import numpy as np
import pytest

from flows.settings import SettingsError
from flows.stages.reading import names_of_models
from flows.stages.workers import group_facts
from quality import dependent_groups, encode, regular_assignment, simulate_crowd


def test_groups_are_named_with_their_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(2, size=300)
    crowd = simulate_crowd(rows, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    monkeypatch.setattr("flows.stages.workers.SHOWN_MEMBERS", 3)
    facts = group_facts(dependent_groups(labels), labels.workers, "weigh")
    assert (facts["n_workers"], round(facts["worth"]), facts["n_grouped"]) == (24, 21, 4)
    (group,) = facts["shown"]
    assert (group["n"], group["workers"]) == (4, ["20", "21", "22"])
    assert (group["n_common"], group["n_agreed"]) == (6 * 150, 6 * 150)
    assert group["expected"] < 6 * 100
    assert group["n_wrong"] > 1.5 * group["expected_wrong"]
    assert group["p_value"] < 1e-6


def test_models_are_found_by_name_or_kind_and_unknown_ones_are_refused() -> None:
    workers = np.array(["ann", "gpt", "bob"])
    assert names_of_models(workers, (), ()) == ()
    assert names_of_models(workers, ("gpt",), ("bob", "gpt")) == ("bob", "gpt")
    with pytest.raises(
        SettingsError, match=r"input.models: 'llama' must be a worker of the labels"
    ):
        names_of_models(workers, ("gpt", "llama"), ())

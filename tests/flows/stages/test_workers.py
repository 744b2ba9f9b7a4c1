"""What judging says of workers who do not answer on their own; the groups are those of `quality`."""

from __future__ import annotations

import numpy as np
import pytest

from flows.settings import SettingsError
from flows.stages.reading import names_of_models
from flows.stages.workers import agreement_facts, group_facts
from quality import (
    alpha_interval,
    dependent_groups,
    encode,
    regular_assignment,
    simulate_crowd,
)


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


def test_agreement_is_of_the_whole_of_those_kept_and_of_each_class() -> None:
    rng = np.random.default_rng(1)
    task, worker = np.repeat(np.arange(40), 4), np.tile(["ann", "bob", "cy", "dan"], 40)
    labels = encode(worker, task, rng.integers(3, size=160))
    kept = labels.keep_workers(labels.workers != "dan")
    facts = agreement_facts(labels, kept)
    assert facts is not None
    assert [fact["of"] for fact in facts] == [
        *3 * ["all labels"], "without the removed workers",
        *(f"{name} against the others" for name in range(3)),
    ]  # fmt: skip
    whole, of_kept = alpha_interval(labels), alpha_interval(kept)
    assert (facts[0]["value"], facts[0]["low"]) == (whole.value, whole.lower)
    assert (facts[3]["value"], facts[3]["high"]) == (of_kept.value, of_kept.upper)
    assert agreement_facts(None, kept) is None


def test_undefined_agreement_is_null() -> None:
    labels = encode(["ann", "bob"], [1, 1], ["x", "x"])
    facts = agreement_facts(labels, labels)
    assert facts is not None
    assert {fact["value"] for fact in facts} == {None}


def test_models_are_found_by_name_or_kind_and_unknown_ones_are_refused() -> None:
    workers = np.array(["ann", "gpt", "bob"])
    assert names_of_models(workers, (), ()) == ()
    assert names_of_models(workers, ("gpt",), ("bob", "gpt")) == ("bob", "gpt")
    with pytest.raises(
        SettingsError, match=r"input.models: 'llama' must be a worker of the labels"
    ):
        names_of_models(workers, ("gpt", "llama"), ())

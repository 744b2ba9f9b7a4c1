"""Settings of several classes at once: what does not go with them is refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from flows.settings import Settings, SettingsError, run_settings
from flows.settings.several_classes import ONE_LABEL, SECTIONS

PAID = {"epsilon": 2.0, "max_labels": 2}
OTHERS: dict[str, Any] = {
    "input.order": True, "input.reference": "reference.csv", "input.seconds": "seconds",
    "input.subject": "subject", "input.models": ["gpt"], "input.wide": True, "input.duplicates": "first",
    "input.gold_sampling": "random", "input.embeddings": "tasks.npy", "input.standardize": True,
    "filter.penalty": "hard", "filter.potentials": 5,
    "consensus.aggregator": "majority_vote", "consensus.loss": "absolute", "consensus.max_iter": 5,
    "consensus.tol": 0.1, "consensus.smoothing": 0.1, "consensus.go_on": True, "consensus.removed": "weigh",
    "privacy.correction_epsilon": 1.0, "privacy.planned_runs": 3,
    "report.archetypes": True, "report.error_features": True, "report.decision_images": True,
    "report.psychometric": "x0", "report.plan_search": True,
}  # fmt: skip


def settings_of(**sections: Any) -> Settings:
    tables = {"labels": "labels.csv", "tasks": ["tasks.csv"], "gold": "gold.csv", "several": "|"}
    given = {"name": "c", "classes": ["cat", "dog", "eel"]} | sections
    return run_settings(**given | {"input": tables | sections.get("input", {})})


def test_every_key_that_is_listed_is_tried() -> None:
    listed = {f"{section}.{key}" for section, keys in ONE_LABEL.items() for key in keys}
    assert listed == OTHERS.keys()


@pytest.mark.parametrize("key", OTHERS)
def test_keys_of_one_label_a_task_are_refused(key: str) -> None:
    section, _, name = key.partition(".")
    paid = PAID if section == "privacy" else {}
    with pytest.raises(SettingsError) as caught:
        settings_of(**{section: paid | {name: OTHERS[key]}})
    said = str(caught.value)
    assert f"{key} must be left out with input.several" in said or name in said
    assert "\n" not in said


@pytest.mark.parametrize("section", SECTIONS)
def test_sections_of_one_label_a_task_are_refused(section: str) -> None:
    needed = {"model": {"norm_bound": 1.0}, "topics": {"text": "text"}, "engine": {}}[section]
    with pytest.raises(SettingsError, match=rf"\[{section}\] must be left out with input.several"):
        settings_of(**{section: needed, "privacy": PAID})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"privacy": {"epsilon": 1.0}}, "privacy.max_labels must be given with input.several"),
        ({"privacy": PAID | {"max_labels": 4}}, "at most the number of classes, 3, got 4"),
        ({"privacy": PAID | {"unit": "row"}}, 'privacy.unit must be "consensus label"'),
        ({"privacy": PAID | {"unit": "task"}}, 'privacy.unit must be "consensus label"'),
        ({"classes": ["a", "b|c"]}, r"input.several must not stand in a class, got '|'"),
        ({"input": {"nothing": "cat"}}, "input.nothing must be no class, got 'cat'"),
        ({"input": {"several": ""}}, "several"),
        ({"consensus": {"features": "join"}}, "several classes may hold for a task"),
        ({"input": {"several": None}, "privacy": PAID}, "privacy.max_labels needs input.several"),
        ({"input": {"several": None, "nothing": "none"}}, "input.nothing needs input.several"),
    ],
)
def test_what_does_not_fit_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(**given)
    assert said in str(caught.value)


def test_what_fits_is_taken() -> None:
    found = settings_of(privacy=PAID | {"planned_releases": 4, "publication": "%Y-%m"})
    assert found.input.several == "|"
    assert not found.features_join
    assert not found.consensus_is_local

"""What publications of a year cost, which key a budget pays for, and the noise that a price buys."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import flows
import learners
import privacy
from flows.cli import app
from flows.pipeline import run_pipeline
from flows.settings import PrivacySettings, SettingsError
from flows.spending import count_noise, open_account, preview, propose_key
from privacy import BudgetError, LatticeLaplace, Unit
from tests.flows.spending.keyed_campaign import (
    counts_alone,
    published_counts,
)

FLOWS, LEARNERS, PRIVACY = (Path(one.__path__[0]) for one in (flows, learners, privacy))
NO_PRICES = {"agreement_command.py", "gold_commands.py"}  # a margin between annotators; a proposal
NEAREST = re.compile(
    r"\{[^{}]*(?:epsilon|spent)[^{}]*:[,.\d]*[efg]\}|\{\{[^{}]*epsilon\w*\|(?:number|plain)"
)
"""A price in a format that rounds it to the nearest."""


def test_a_preview_prices_a_year_under_each_pattern(tmp_path: Path) -> None:
    found = preview(tmp_path / "state", counts_alone(tmp_path))
    assert (found["affordable"], found["publication"]) == (16, None)
    priced = {one["publication"]: (one["publications"], one["epsilon"]) for one in found["years"]}
    assert priced == {
        "%Y-%m-%d": (366, 91.5),
        "%G-W%V": (54, 13.5),
        "%Y-%m": (12, 3.0),
        "%Y": (1, 0.25),
    }


def test_a_preview_says_whether_the_ledger_has_the_settings_budget(tmp_path: Path) -> None:
    settings = counts_alone(tmp_path, key="1")
    assert preview(settings.state, settings)["same_budget"] is True
    privacy = settings.privacy
    assert privacy is not None
    open_account(settings, privacy, n=360)
    larger = privacy.model_copy(update={"epsilon": privacy.epsilon + 1})
    found = preview(settings.state, settings.model_copy(update={"privacy": larger}))
    assert (found["same_budget"], found["fits"]) == (False, False)
    found = preview(settings.state, settings)
    assert (found["same_budget"], found["fits"]) == (True, True)


def test_a_budget_that_does_not_fit_the_datas_size_is_a_mistake_of_the_settings(
    tmp_path: Path,
) -> None:
    settings = counts_alone(tmp_path)
    privacy = settings.privacy
    assert privacy is not None
    many = privacy.model_copy(update={"delta": 0.01})
    with pytest.raises(SettingsError, match="delta must be >= 0 and < 1/n"):
        open_account(settings, many, n=360)


def test_a_plan_is_one_price_for_as_many_publications_as_it_has_left(tmp_path: Path) -> None:
    settings = counts_alone(tmp_path, "planned_releases = 12", key="%Y-%m")
    found = preview(settings.state, settings)
    assert found["affordable"] == 12
    years = {one["publication"]: one.get("epsilon") for one in found["years"]}
    assert years == {"%Y-%m-%d": None, "%G-W%V": None, "%Y-%m": 0.25, "%Y": 0.25}
    run_pipeline(settings)
    after = preview(settings.state, settings)
    assert after["affordable"] == 11
    assert {one.get("epsilon") for one in after["years"]} == {None, 0.0}


def test_what_the_preview_calls_affordable_is_what_runs_can_pay(tmp_path: Path) -> None:
    settings = counts_alone(tmp_path, key="1")
    privacy = settings.privacy
    assert privacy is not None
    for n_left in (3, 2, 1):
        changed = privacy.model_copy(update={"publication": f"{n_left}", "epsilon": 0.75})
        now = settings.model_copy(update={"privacy": changed})
        assert preview(now.state, now)["affordable"] == n_left
        published_counts(now)
    with pytest.raises(BudgetError):
        published_counts(
            now.model_copy(update={"privacy": changed.model_copy(update={"publication": "0"})})
        )


@pytest.mark.parametrize(
    ("lines", "key", "runs_a_year", "words"),
    [
        ((), None, math.inf, 'Proposed: [privacy] publication = "%Y-%m": each month is paid anew'),
        ((), None, 4, 'Proposed: [privacy] publication = "%Y-%m-%d": each day is paid anew, at most 4'),
        (("planned_releases = 60",), None, math.inf, 'publication = "%G-W%V": each week'),
        ((), "2026-11", math.inf, 'publication = "2026-11" stays the same, and every run'),
        ((), "%Y-%m", math.inf, 'publication = "%Y-%m": each month is paid anew, at most 12'),
    ],
)  # fmt: skip
def test_the_key_that_is_proposed_is_the_finest_that_the_budget_pays_for(
    tmp_path: Path, lines: tuple[str, ...], key: str | None, runs_a_year: float, words: str
) -> None:
    said = propose_key(counts_alone(tmp_path, *lines, key=key), runs_a_year=runs_a_year)
    assert said is not None
    assert words in said
    assert ("two equal publications show that no data changed" in said) == (key is None)


def test_no_key_is_proposed_where_the_budget_pays_for_none(tmp_path: Path) -> None:
    settings = counts_alone(tmp_path, key="1")
    privacy = settings.privacy
    assert privacy is not None
    poor = settings.model_copy(
        update={"privacy": privacy.model_copy(update={"epsilon": 0.1, "publication": None})}
    )
    said = propose_key(poor)
    assert said is not None
    assert "Proposed" not in said
    assert "pays for 0 publications, which is less than one a year" in said
    assert propose_key(settings.model_copy(update={"privacy": None})) is None


def test_the_command_prints_a_year(tmp_path: Path) -> None:
    counts_alone(tmp_path, key="%Y-%m")
    command = ["budget", str(tmp_path / "state"), "--preview", str(tmp_path / "settings.toml")]
    told = CliRunner().invoke(app, command, env={"COLUMNS": "120"}).stdout
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert 'the publication key is "%Y-%m"; what is left pays for 16 publications' in " ".join(
        lines
    )
    assert "%Y-%m 12 epsilon 3" in lines


def test_every_price_that_is_shown_is_written_by_price_text() -> None:
    """Which writes the exact sum, or more: a format of so many digits would round to the nearest."""
    found = []
    modules = [one for room in (FLOWS, LEARNERS, PRIVACY) for one in room.rglob("*.py")]
    for path in (*modules, *FLOWS.rglob("*.j2")):
        if path.parent.name != "settings" and path.name not in NO_PRICES:
            text = path.read_text(encoding="utf-8")
            found += [f"{path.name}: {one}" for one in NEAREST.findall(text)]
    assert found == []
    assert NEAREST.findall("{found['spent']['epsilon']:g} and {{ gate.epsilon|plain }}")
    assert not NEAREST.findall("{price_text(epsilon)} and {{ gate.epsilon|price }}, {sigma:g}")


# the noise that a price buys -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ({}, 2.0), ({"unit": Unit.SUBJECT, "max_tasks_per_subject": 3}, 6.0), ({"max_labels": 2}, 4.0),
    ],
)  # fmt: skip
def test_noise_is_scaled_to_what_one_of_the_unit_can_move(
    given: dict[str, Any], moved: float
) -> None:
    """And is on one count more where several classes may hold, for the places that are left over."""
    found = count_noise(PrivacySettings(epsilon=4.0, proportions_epsilon=0.5, **given), n_classes=3)
    assert found.scale == moved / 0.5
    law = LatticeLaplace(0.5).law(4 if "max_labels" in given else 3, l1=moved)
    assert found.variance == law.variance
    assert found.covariance.shape == (3, 3)


def test_a_plan_of_releases_costs_its_own_delta_not_that_of_each(tmp_path: Path) -> None:
    privacy = PrivacySettings(
        epsilon=4.0,
        delta=1e-6,
        proportions_epsilon=4.0,
        proportions_delta=1e-6,
        planned_releases=16,
    )
    found = count_noise(privacy, n_classes=5)
    assert found.name == "discrete Gaussian"
    assert found.plan is not None
    assert found.delta == float(found.plan.cost().delta) > 0
    assert found.delta != getattr(found.mechanism, "delta", None)


@pytest.mark.parametrize("price", [1e-15, 101.0])
def test_a_price_that_buys_no_noise_is_a_mistake_of_the_settings(price: float) -> None:
    with pytest.raises(SettingsError, match=r"\[privacy\]: proportions: epsilon must be"):
        count_noise(PrivacySettings(epsilon=200.0, proportions_epsilon=price), n_classes=3)

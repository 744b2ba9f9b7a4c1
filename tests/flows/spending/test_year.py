"""The split of a year's budget, and what its preview foretells."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.settings import PrivacySettings, Settings, SettingsError, load_settings
from flows.spending import prices
from flows.spending.prices import check_budget, preview, propose_key
from flows.spending.year import Year, parse_year, split_budget, year_months, year_of
from privacy import BudgetError, Cost, LatticeLaplace
from privacy.accounting import exact
from tests.flows.campaign import write_small_campaign


def year_settings(folder: Path, *lines: str, model: bool = True) -> Settings:
    """The small campaign with a year of four runs, and no prices but that."""
    return load_settings(year_campaign(folder, *lines, model=model))


def year_campaign(folder: Path, *lines: str, model: bool = True) -> Path:
    path = write_small_campaign(folder)
    given = "\n".join(["epsilon = 20.0", "delta = 1e-4", "planned_runs = 4", *lines])
    text = path.read_text().replace("epsilon = 20.0", given)
    text = text.replace('gold = "gold.csv"', 'gold = "gold.csv"\ngold_sampling = "random"')
    kept = [
        line
        for line in text.splitlines()
        if not line.startswith(("proportions_epsilon", "epsilon_", "sigma", "budget"))
    ]
    text = "\n".join(kept) + "\n"
    path.write_text(text if model else text.partition("[model]")[0])
    return path


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 1 / 3, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("correction", [None, 0.05])
def test_the_whole_never_costs_more_than_the_budget(
    epsilon: float, delta: float, learns: bool, correction: float | None
) -> None:
    privacy = PrivacySettings(
        epsilon=epsilon, delta=delta, planned_runs=12, correction_epsilon=correction
    )
    cost = split_budget(privacy, learns=learns).cost()
    assert cost.epsilon <= exact(epsilon)
    assert cost.delta <= exact(delta)
    assert cost.epsilon > exact(epsilon) * 999 / 1000


def test_counts_take_the_price_that_is_given_and_learning_the_rest() -> None:
    year = split_budget(
        PrivacySettings(epsilon=4.0, delta=1e-6, planned_runs=12, proportions_epsilon=1.0),
        learns=True,
    )
    assert (year.counts, year.gate, year.train + year.score) == (1.0, 3.0, 3.0)


def test_without_a_delta_a_part_of_training_chooses_among_candidates() -> None:
    year = split_budget(PrivacySettings(epsilon=4.0, planned_runs=12), learns=True)
    assert year.select > 0
    assert year.cost().epsilon == 4


def test_prices_are_read_back_as_they_were_written() -> None:
    year = Year(4.0, 0.5, 3.6, 0.0, 0.4, 4.0, 1e-6)
    assert parse_year(year.text()) == year
    with pytest.raises(ValueError, match="not the prices"):
        parse_year("{}")


def test_errors_foretold_are_those_of_sums_over_cohorts(tmp_path: Path) -> None:
    settings = year_settings(tmp_path, "planned_tasks = 360")
    year = year_of(settings)
    assert year is not None
    months = year_months(settings, year, n_tasks=None)
    law = LatticeLaplace(year.counts).law(3)
    assert months[0]["counts_l1"] == pytest.approx(law.expected_l1)
    assert months[1]["counts_l1"] == pytest.approx(law.plus(law).expected_l1)
    assert [month["n_tasks"] for month in months] == [90, 180, 270, 360]
    assert months[0]["threshold"] > months[-1]["threshold"]
    assert months[0]["power"] < months[-1]["power"]


@pytest.mark.parametrize(("gate", "whole"), [(0.3, 1.9), (0.8, 1.9), (2.0, 3.1)])
def test_a_year_costs_the_dearer_of_learning_and_gate_beside_its_counts(
    gate: float, whole: float
) -> None:
    year = Year(1.0, 0.1, 0.4, 0.2, 0.2, gate, 1e-6)
    assert year.cost() == Cost(exact(whole), exact(1e-6))


def test_without_sizes_a_preview_foretells_the_counts_alone(tmp_path: Path) -> None:
    months = preview(tmp_path / "state", year_settings(tmp_path))["year"]["months"]
    assert [set(month) for month in months] == [{"run", "counts_l1"}] * 4


def test_the_preview_of_a_year_asks_the_price_of_the_plan(tmp_path: Path) -> None:
    settings = year_settings(tmp_path, "planned_tasks = 360")
    found, year = preview(settings.state, settings), year_of(settings)
    assert year is not None
    assert found["asked"] == found["year"]["price"] == {"epsilon": 20.0, "delta": 1e-4}
    assert found["fits"] is True
    assert (found["affordable"], found["year"]["used"]) == (4, 0)
    assert [part["what"] for part in found["parts"]] == ["class counts", "model", "gate"]
    assert all(0 < part["epsilon"] < 20 for part in found["parts"])


def test_a_schedule_is_told_how_many_runs_are_left_and_where_it_brings_more(tmp_path: Path) -> None:
    monthly = year_settings(tmp_path / "monthly", 'publication = "%Y-%m"')
    said = 'planned_runs = 4: 4 are left, paid together; a cohort for "%Y-%m"'
    assert propose_key(monthly, runs_a_year=4) == said
    more = f"{said}. A calendar year may bring 12: tasks that join after the last one wait"
    assert propose_key(monthly) == more
    unkeyed = year_settings(tmp_path / "unkeyed")
    said = "planned_runs = 4: 4 are left, paid together; a cohort for every run with new tasks"
    assert propose_key(unkeyed) == said
    assert "may bring 366" in str(propose_key(unkeyed, runs_a_year=366))


def test_a_year_beyond_the_budget_is_refused_in_the_first_second_where_settings_say_so(
    tmp_path: Path,
) -> None:
    refuses = year_settings(tmp_path, 'unpaid = "refuse"', "proportions_epsilon = 1.0")
    assert check_budget(refuses) is None
    from flows.spending import open_account

    assert refuses.privacy is not None
    ledger = open_account(refuses, refuses.privacy, n=360)
    spend(ledger, 19.5)
    with pytest.raises(BudgetError, match="left epsilon=0.5"):
        check_budget(refuses)
    skips = refuses.model_copy(
        update={"privacy": refuses.privacy.model_copy(update={"unpaid": None})}
    )
    warning = check_budget(skips)
    assert warning is not None
    assert "will be skipped" in warning


def test_a_year_with_its_ledger_on_a_server_is_refused_in_the_first_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record of cohorts is in one folder, and another's runs would not be in it."""
    monkeypatch.setenv("CROWDASSAY_LEDGER", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    with pytest.raises(SettingsError, match="so the ledger must be there too: unset"):
        check_budget(year_settings(tmp_path))


def test_without_a_year_nobody_asks_where_the_ledger_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(prices, "check_record_beside_ledger", lambda: asked.append(1))
    assert check_budget(load_settings(write_small_campaign(tmp_path / "plain"))) is None
    assert asked == []
    check_budget(year_settings(tmp_path / "year"))
    assert asked == [1]


def spend(ledger, epsilon: float) -> None:  # type: ignore[no-untyped-def]
    """Spend of the small campaign's budget on something else."""
    import numpy as np

    from privacy import Query, Unit

    query = Query("small", "other", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
    ledger.release(LatticeLaplace(epsilon), query)

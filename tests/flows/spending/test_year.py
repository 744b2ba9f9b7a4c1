"""The split of a year's budget, what its preview predicts, and what every cohort is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.run import Crowd
from flows.settings import PrivacySettings, Settings, SettingsError, load_settings
from flows.spending import (
    LEDGER_URL,
    YearReleases,
    learning_features,
    open_account,
    plan_year,
    prices,
)
from flows.spending.cohorts import COUNTED, SPLIT, join_cohorts
from flows.spending.learning_rows import deal
from flows.spending.prices import check_budget, preview, propose_key
from flows.spending.year import Year, parse_year, split_budget, year_months, year_of
from learners import StabilityValidation
from privacy import BudgetError, Cost, LatticeLaplace, Part
from privacy.accounting import exact
from tests.flows.campaign import toy_crowd, toy_run, toy_settings, write_small_campaign
from tests.privacy.toy import counts_query


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
    assert year.text().index("correction") < year.text().index(
        "counts"
    )  # whatever the code's order
    for other in (
        "{}",
        "[]",
        year.text().replace('"gate"', '"door"'),
        '{"more": 1, ' + year.text()[1:],
    ):
        with pytest.raises(ValueError, match="not the prices"):
            parse_year(other)


def test_errors_predicted_are_those_of_sums_over_cohorts(tmp_path: Path) -> None:
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


def test_without_sizes_a_preview_predicts_the_counts_alone(tmp_path: Path) -> None:
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

    from privacy import Query, Unit

    query = Query("small", "other", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
    ledger.release(LatticeLaplace(epsilon), query)


# on a toy, without a run -----------------------------------------------------------------------

YEAR: dict[str, Any] = {"epsilon": 8.0, "planned_runs": 3}
MODEL = {"norm_bound": 1.0}


def test_corrections_and_counts_take_what_is_given_as_far_as_the_budget_goes() -> None:
    year = split_budget(PrivacySettings(**YEAR, correction_epsilon=2.0), learns=False)
    assert (year.correction, year.counts, year.train, year.gate) == (2.0, 6.0, 0.0, 0.0)
    for learns in (True, False):
        whole = split_budget(PrivacySettings(**YEAR, proportions_epsilon=9.0), learns=learns)
        assert whole == Year(8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_year_is_planned_where_runs_are_and_pays_for_what_they_can_do(tmp_path: Path) -> None:
    assert year_of(toy_settings(tmp_path)) is None
    assert year_of(toy_settings(tmp_path, privacy=None)) is None
    corrected = YEAR | {"correction_epsilon": 2.0}
    for sampling, price in (("random", 2.0), ("chosen", 0.0)):
        settings = toy_settings(tmp_path, privacy=corrected, input={"gold_sampling": sampling})
        assert year_of(settings) == Year(8.0 - price, price, 0.0, 0.0, 0.0, 0.0, 0.0)
    learns = toy_settings(tmp_path, privacy=YEAR, model=MODEL)
    year = year_of(learns)
    assert year is not None
    assert year.gate > 0
    bare = learns.model_copy(update={"input": learns.input.model_copy(update={"tasks": ()})})
    assert year_of(bare) == Year(8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("without", ["privacy", "classes"])
def test_months_are_of_a_year_of_declared_classes(tmp_path: Path, without: str) -> None:
    settings = toy_settings(tmp_path, **{without: None})
    with pytest.raises(ValueError, match="settings must plan a year and declare the classes"):
        year_months(settings, Year(8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), n_tasks=4)


@pytest.mark.parametrize(
    ("planned", "n_tasks", "used", "sizes"),
    [
        (None, 5, [], [5, 10, 15]),  # as many again in every run
        (10, None, [], [4, 7, 10]),
        (10, 99, [3, 3], [3, 6, 10]),
        (None, None, [3, 4], [3, 7, 11]),
        (None, 99, [3, 4, 2], [3, 7, 9]),
        (2, None, [3, 4], [3, 7, 8]),  # a run brings one task at the least
        (9, None, [3, 4, 2, 5], [3, 7, 9]),
    ],
)
def test_a_campaign_is_predicted_to_grow_as_planned_or_as_it_did(
    tmp_path: Path, planned: int | None, n_tasks: int | None, used: list[int], sizes: list[int]
) -> None:
    settings = toy_settings(tmp_path, privacy=YEAR | {"planned_tasks": planned}, model=MODEL)
    year = year_of(settings)
    assert year is not None
    months = year_months(settings, year, n_tasks=n_tasks, used=used)
    assert [month["n_tasks"] for month in months] == sizes
    assert months[0]["n_holdout"] == 1  # however few the tasks are
    assert [month["run"] for month in months] == [1, 2, 3]


def test_no_gate_is_predicted_without_a_model_or_a_price_for_it(tmp_path: Path) -> None:
    learns = toy_settings(tmp_path, privacy=YEAR, model=MODEL)
    year = year_of(learns)
    assert year is not None
    for settings, asked in (
        (toy_settings(tmp_path, privacy=YEAR), year),
        (learns, replace(year, gate=0.0)),
    ):
        months = year_months(settings, asked, n_tasks=50)
        assert set(months[0]) == {"run", "counts_l1", "n_tasks"}


def test_a_preview_of_a_year_lists_what_cohorts_are_asked(tmp_path: Path) -> None:
    settings = toy_settings(
        tmp_path, privacy=YEAR | {"correction_epsilon": 2.0}, model=MODEL,
        input={"gold_sampling": "random"},
    )  # fmt: skip
    found = preview(settings.state, settings)
    parts = {part["what"]: part["epsilon"] for part in found["parts"]}
    assert parts == {"class counts": 3.0, "corrections by gold": 2.0, "model": 3.0, "gate": 3.0}
    assert "selection" in found["parts"][2]["note"]
    assert (found["same_budget"], found["fits"]) == (True, True)
    counts = toy_settings(tmp_path, privacy=YEAR)
    assert [part["what"] for part in preview(counts.state, counts)["parts"]] == ["class counts"]
    descends = toy_settings(tmp_path, privacy=YEAR | {"delta": 1e-6}, model=MODEL)
    assert "selection" not in preview(descends.state, descends)["parts"][1]["note"]


def test_what_cohorts_were_paid_for_is_not_asked_again_and_other_releases_do_not_count(
    tmp_path: Path,
) -> None:
    settings = toy_settings(tmp_path, privacy=YEAR)
    assert settings.privacy is not None
    ledger = open_account(settings, settings.privacy, n=4)
    asked = {
        "other": (None, 1.0),
        "group": (Part("group:1", "n"), 0.5),
        "year": (Part(COUNTED, "1: n"), 6.0),
    }
    seen = []
    for part, price in asked.values():
        ledger.release(LatticeLaplace(price), counts_query(part=part, dataset="toy"))
        found = preview(settings.state, settings)
        seen.append((found["asked"]["epsilon"], found["left"]["epsilon"], found["fits"]))
        assert found["affordable"] == (3 if found["fits"] else 0)
        assert found["year"]["paid"]["epsilon"] == (6.0 if price == 6.0 else 0.0)
    assert seen == [(8.0, 7.0, False), (8.0, 6.5, False), (2.0, 0.5, False)]


def test_cohorts_to_come_add_what_is_above_what_was_paid(tmp_path: Path) -> None:
    price = Year(2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e-6)
    for paid, unpaid in (((0.5, 0.0), (1.5, 1e-6)), ((3.0, 1e-5), (0.0, 0.0))):
        found = prices._unpaid([price], Cost(*map(exact, paid)))
        assert found == Cost(*map(exact, unpaid))


def test_more_cohorts_than_planned_leave_no_run(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path, privacy=YEAR | {"planned_runs": 2})
    assert settings.privacy is not None
    ledger = open_account(settings, settings.privacy, n=4)
    for n_tasks, left in ((1, 1), (2, 0), (3, 0)):
        tasks = np.array([f"t{j}" for j in range(n_tasks)])
        join_cohorts(
            settings.state, ledger, "toy", task=tasks, group=tasks, use=np.zeros(n_tasks, np.int64),
            key=None, at_most=9, prices=Year(8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0).text(),
        )  # fmt: skip
        found = preview(settings.state, settings)
        assert (found["affordable"], found["year"]["used"]) == (left, n_tasks)


# what every cohort is asked --------------------------------------------------------------------


def planned_year(
    folder: Path, groups: str, *, gold: str = "", key: str | None = None, **given: Any
) -> YearReleases:
    """The year of a toy crowd, whose consensus is of one class and the other in turn."""
    settings = toy_settings(folder, **{"privacy": YEAR} | given)
    assert settings.privacy is not None
    run = toy_run(settings, ("ab" * len(groups))[: len(groups)], publication=key)
    ledger = open_account(settings, settings.privacy, n=4)
    return plan_year(run, toy_crowd(groups, gold=gold), settings.privacy, ledger)


def test_without_planned_runs_or_beside_a_server_no_year_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match="planned_runs must be above 1 for a year"):
        planned_year(tmp_path, "nn", privacy={"epsilon": 4.0})
    settings = toy_settings(tmp_path / "server", privacy=YEAR)
    assert settings.privacy is not None
    ledger = open_account(settings, settings.privacy, n=2)
    monkeypatch.setenv(LEDGER_URL, "postgresql://somewhere")
    with pytest.raises(SettingsError, match="so the ledger must be there too"):
        plan_year(toy_run(settings, "aa"), toy_crowd("nn"), settings.privacy, ledger)
    assert not list(settings.state.glob("cohorts-*"))


def test_every_cohort_is_counted_in_each_group_that_is_large_enough_over_all_of_them(
    tmp_path: Path,
) -> None:
    privacy = YEAR | {"min_group_size": 3, "planned_runs": 2}
    planned_year(tmp_path, "nns", privacy=privacy | {"min_group_size": 2}, key="1")
    with pytest.raises(SettingsError, match="min_group_size must leave a group to publish, got 3"):
        planned_year(tmp_path, "nns", privacy=privacy, key="1")
    year = planned_year(tmp_path, "nnsnse", privacy=privacy, key="2")
    assert (year.groups, year.draws.tolist(), year.waiting) == (("n",), [2], 0)
    counted = [
        (cohort, query.part.name, query.value.tolist())
        for cohort, query in year.counts
        if query.part
    ]
    assert counted == [(0, "1: n", [1, 1]), (1, "2: n", [0, 1])]
    late = planned_year(tmp_path, "nnsnsenn", privacy=privacy, key="3")
    assert late.waiting == 2
    assert len(late.counts) == 2
    assert [query.publication.key for _, query in late.counts if query.publication] == ["1", "2"]


def test_a_run_that_is_refused_uses_up_no_cohort(tmp_path: Path) -> None:
    """Nights before the first group is large enough left a campaign of three cohorts none to publish."""
    privacy = YEAR | {"min_group_size": 3, "planned_runs": 2}
    for groups in ("ns", "nsns", "nsnsee"):
        with pytest.raises(SettingsError, match="min_group_size must leave a group"):
            planned_year(tmp_path, groups, privacy=privacy)
    assert not list(tmp_path.rglob("cohorts-*"))
    year = planned_year(tmp_path, "nsnseen", privacy=privacy)
    assert (year.cohorts.keys, year.waiting) == (("run-1",), 0)


def test_prices_that_buy_no_training_are_refused_before_a_cohort_is_used_up(tmp_path: Path) -> None:
    privacy = YEAR | {"epsilon": 4_000.0, "delta": 1e-6, "proportions_epsilon": 1.0}
    with pytest.raises(SettingsError, match=r"\[model\]: epsilon must be"):
        planned_year(tmp_path, "n" * 60, privacy=privacy, model=MODEL)
    assert not list(tmp_path.rglob("cohorts-*"))


CORRECTED = YEAR | {"correction_epsilon": 2.0}


@pytest.mark.parametrize(
    ("groups", "gold", "sampling", "given", "why_not"),
    [
        ("nns", "a-a", "random", CORRECTED, ""),  # one query of both groups
        ("nnn", "aa-", "stratified", CORRECTED, ""),
        ("nns", "---", "random", CORRECTED, "no task of a cohort has gold"),
        ("nns", "aa-", "stratified", CORRECTED, "stratified gold corrects each group by itself"),
        ("nns", "aa-", "chosen", CORRECTED, "gold that was chosen"),
        ("nns", "aa-", "random", YEAR, "shares are the crowd's: a correction has no price"),
    ],
)
def test_a_cohort_is_corrected_by_its_gold_in_all_groups_together(
    tmp_path: Path, groups: str, gold: str, sampling: str, given: dict[str, Any], why_not: str
) -> None:
    year = planned_year(
        tmp_path, groups, gold=gold, key="1", privacy=given, input={"gold_sampling": sampling}
    )
    assert year.why_uncorrected.startswith(why_not)
    assert bool(year.why_uncorrected) == bool(why_not)
    assert [cohort for cohort, _ in year.corrections] == ([] if why_not else [0])
    assert [query.n for _, query in year.corrections] == ([] if why_not else [2])


def test_a_cohort_is_asked_what_was_planned_when_it_joined(tmp_path: Path) -> None:
    """Neither corrected nor learned from where the plan had neither; the one after it is, by its own gold."""
    about: dict[str, Any] = {"input": {"gold_sampling": "random"}}
    planned_year(tmp_path, "n" * 60, gold="ab" + "-" * 58, key="1", **about)
    gold = "ab" + "-" * 58 + "a" + "-" * 59
    given = about | {"privacy": CORRECTED, "model": MODEL}
    year = planned_year(tmp_path, "n" * 120, gold=gold, key="2", **given)
    assert [(cohort, query.n) for cohort, query in year.corrections] == [(1, 1)]
    (rows,) = year.learning
    assert (rows.key, rows.use.size) == ("2", 60)
    assert [mechanism.epsilon for mechanism, _ in year.corrected()] == [2.0]
    assert len(year.learnt(toy_crowd("n" * 120))) == 3


@pytest.mark.parametrize(
    ("given", "crowd"),
    [
        ({}, toy_crowd("n" * 60)), ({"model": MODEL}, toy_crowd("n" * 60, table=False)),
        ({"model": MODEL}, toy_crowd("n" * 60, n_features=0)), ({"model": MODEL}, toy_crowd("nn")),
    ],
    ids=["no model", "no table of tasks", "no features", "too few tasks for every use"],
)  # fmt: skip
def test_where_no_model_can_be_trained_cohorts_are_counted_alone(
    tmp_path: Path, given: dict[str, Any], crowd: Crowd
) -> None:
    settings = toy_settings(tmp_path, privacy=YEAR, **given)
    assert settings.privacy is not None
    ledger = open_account(settings, settings.privacy, n=4)
    run = toy_run(settings, "a" * crowd.labels.n_tasks)
    year = plan_year(run, crowd, settings.privacy, ledger)
    assert (year.learnt(crowd), len(list(year.counted()))) == ([], 1)


def test_a_tasks_use_is_that_of_the_settings_deal(tmp_path: Path) -> None:
    """With the usual share for validation where no model says another."""
    names = toy_crowd("n" * 60).labels.tasks
    for place, model in (("usual", {}), ("half", {"model": MODEL | {"validation": 0.5}})):
        cohorts = planned_year(tmp_path / place, "n" * 60, **model).cohorts
        held, validated = deal(names, seed=0, holdout=0.2, validation=0.5 if model else 0.2)
        assert (cohorts.use == 2).tolist() == held.tolist()
        assert (cohorts.use == 1).tolist() == validated.tolist()


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_a_cohorts_rows_are_trained_on_and_judged_in_two_cells(
    tmp_path: Path, delta: float
) -> None:
    """Validation rows train beside the others where training chooses among candidates, and else wait."""
    (rows,) = planned_year(
        tmp_path, "n" * 60, key="1", model=MODEL, privacy=YEAR | {"delta": delta, "epsilon": 1.0}
    ).learning
    x = learning_features(toy_crowd("n" * 60), [rows])
    training, score, gate = (query for _, query in rows.requests(x))
    kept = rows.use == 0 if delta else rows.use != 2
    assert rows.n_train == (rows.use == 0).sum()
    np.testing.assert_array_equal(training.value["x"], x[kept])
    np.testing.assert_array_equal(training.value["y"], rows.y[kept])
    assert ("validation" in training.value) is (delta == 0)
    if not delta:
        np.testing.assert_array_equal(training.value["validation"], rows.use[kept] == 1)
    assert [query.part for query in (training, score, gate)] == [
        Part(SPLIT, f"1: {cell}") for cell in ("develop", "develop", "holdout")
    ]
    assert (score.name, score.n) == ("right on training rows", rows.n_train)
    assert (gate.name, gate.n) == ("right on holdout rows", (rows.use == 2).sum())
    right = rows.use != 2
    right[np.flatnonzero(~right)[:3]] = True
    judged = rows.right_query(right, 2)
    assert judged.value.tolist() == [3, gate.n - 3]
    assert (judged.part, judged.l1) == (gate.part, 2.0)
    assert list(json.loads(rows.terms)) == ["classes", "features", "standardize"]


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_each_cohort_asks_about_its_own_tasks_in_their_order(tmp_path: Path, delta: float) -> None:
    """The ledger's digest of what paid for a value would change with the order of the rows."""
    given: dict[str, Any] = {
        "model": MODEL, "privacy": YEAR | {"delta": delta, "epsilon": 1.0, "planned_runs": 2},
    }  # fmt: skip
    planned_year(tmp_path, "n" * 60, key="1", **given)
    year = planned_year(tmp_path, "n" * 130, key="2", **given)
    crowd = toy_crowd("n" * 130)
    x, whole, cohorts = (
        learning_features(crowd, year.learning),
        crowd.label_features(),
        year.cohorts,
    )
    assert len(year.learning) == 2
    for cohort, rows in enumerate(year.learning):
        kept = (cohorts.cohort == cohort) & (cohorts.use == 0 if delta else cohorts.use != 2)
        asked = rows.training_query(x)
        np.testing.assert_array_equal(asked.value["x"], whole[kept])
        np.testing.assert_array_equal(rows.task[: asked.n], np.flatnonzero(kept))
        np.testing.assert_array_equal(x[rows.place], whole[rows.task])
        np.testing.assert_array_equal(rows.use, cohorts.use[rows.task])
        assert set(rows.task) == set(np.flatnonzero(cohorts.cohort == cohort))


@pytest.mark.parametrize("method", ["auto", "objective_perturbation"])
def test_a_delta_that_training_does_not_take_leaves_it_a_choice_among_candidates(
    tmp_path: Path, method: str
) -> None:
    """At epsilon 4 public numbers prefer the pure mechanism; both prices together are the year's."""
    (rows,) = planned_year(
        tmp_path, "n" * 60, key="1", model=MODEL | {"method": method},
        privacy=YEAR | {"delta": 1e-6},
    ).learning  # fmt: skip
    assert isinstance(rows.training, StabilityValidation)
    assert rows.training.epsilon_select > 0
    x = learning_features(toy_crowd("n" * 60), [rows])
    cost = rows.training.event(rows.training_query(x)).cost()
    assert exact(3.59) < cost.epsilon <= exact(rows.year.train)
    assert rows.year.select == 0.0


def test_one_strength_is_trained_at_the_price_of_training_and_choice(tmp_path: Path) -> None:
    (rows,) = planned_year(
        tmp_path, "n" * 60, key="1", model=MODEL | {"regularization": [0.01]}, privacy=YEAR
    ).learning
    assert isinstance(rows.training, StabilityValidation)
    assert rows.training.epsilon_select == 0.0
    assert exact(rows.training.epsilon_train) == exact(rows.year.train) + exact(rows.year.select)


def test_a_rest_of_the_budget_too_small_for_any_noise_trains_no_model() -> None:
    """Counts have what is left but a hundred-thousandth, which rounding down to six digits leaves."""
    privacy = PrivacySettings(epsilon=1.2345678, planned_runs=12, proportions_epsilon=5.0)
    year = split_budget(privacy, learns=True)
    assert (year.counts, year.train, year.score, year.gate) == (1.23456, 0.0, 0.0, 0.0)


def test_a_correction_too_cheap_for_the_law_of_its_noise_is_refused_beforehand(
    tmp_path: Path,
) -> None:
    settings = toy_settings(tmp_path, privacy={"epsilon": 4.0, "correction_epsilon": 1e-5})
    with pytest.raises(SettingsError, match="correction_epsilon must be larger, got 1e-05"):
        prices.check_budget(settings)


def test_a_correction_is_by_gold_of_published_groups_alone(tmp_path: Path) -> None:
    """Gold of groups too small to publish was in it: the crowd may err in other ways there."""
    privacy = CORRECTED | {"min_group_size": 3}
    about: dict[str, Any] = {"privacy": privacy, "input": {"gold_sampling": "random"}}
    year = planned_year(tmp_path, "nnnns" + "tt", gold="ab--abb", key="1", **about)
    assert year.groups == ("n",)
    assert [(cohort, query.n) for cohort, query in year.corrections] == [(0, 2)]
    none = planned_year(tmp_path / "none", "nnnns", gold="----a", key="1", **about)
    assert none.why_uncorrected == "no task of a cohort has gold in a published group"
    stratified = {**about, "input": {"gold_sampling": "stratified"}}
    alone = planned_year(tmp_path / "alone", "nnnns", gold="ab--a", key="1", **stratified)
    assert [query.n for _, query in alone.corrections] == [2]


@pytest.mark.parametrize(("epsilon", "model"), [(1e-6, None), (1e-4, MODEL)])
def test_a_year_too_cheap_for_the_laws_of_its_noise_is_refused_beforehand(
    tmp_path: Path, epsilon: float, model: dict[str, Any] | None
) -> None:
    """Its counts, or the model's, were paid for, and then no interval could be made of them."""
    privacy = {"epsilon": epsilon, "planned_runs": 3}
    settings = toy_settings(tmp_path, privacy=privacy, model=model)
    for asked in (check_budget, lambda settings: preview(settings.state, settings)):
        with pytest.raises(SettingsError, match="epsilon must be larger for planned_runs"):
            asked(settings)
    assert not settings.state.exists()

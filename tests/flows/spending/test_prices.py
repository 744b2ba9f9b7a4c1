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
from flows.spending import (
    LedgerSetBack,
    check_budget,
    count_noise,
    open_account,
    preview,
    propose_key,
)
from flows.spending.releases import PLAN
from privacy import BudgetError, LatticeLaplace, LedgerError, Unit
from tests.flows.campaign import toy_run, toy_settings
from tests.flows.spending.keyed_campaign import (
    counts_alone,
    published_counts,
)
from tests.privacy.toy import counts_query

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


# on a toy, whose ledger is there or not --------------------------------------------------------

LEARNS = {"norm_bound": 1.0}  # at 1 for training, .5 for selection and .1 for the score


def priced(found: dict[str, Any]) -> dict[str, float | None]:
    """Each part of a preview with its epsilon, None where it is unknown."""
    return {part["what"]: part.get("epsilon") for part in found["parts"]}


@pytest.mark.parametrize(
    ("without", "words"),
    [("privacy", "have no [privacy] section"), ("classes", "do not declare the classes")],
)
def test_what_releases_nothing_has_no_price(tmp_path: Path, without: str, words: str) -> None:
    settings = toy_settings(tmp_path, **{without: None})
    with pytest.raises(
        SettingsError, match=re.escape(f"the settings {words}: a run of them would")
    ):
        preview(settings.state, settings)
    assert propose_key(settings) is None
    assert check_budget(settings) is None
    assert not settings.state.exists()


def test_a_preview_knows_the_gates_price_from_the_number_of_tasks_given_or_booked(
    tmp_path: Path,
) -> None:
    settings = toy_settings(tmp_path, privacy={"epsilon": 400.0}, model=LEARNS)
    assert settings.privacy is not None
    unknown = preview(settings.state, settings)
    assert priced(unknown) == {"class counts": 1.0, "model": 1.6, "gate": None}
    assert (unknown["asked"]["epsilon"], unknown["fits"]) == (2.6, None)
    given = preview(settings.state, settings, n_tasks=100)  # 2 budget / (sigma 20)
    assert priced(given) == {"class counts": 1.0, "model": 1.6, "gate": 75.0}
    assert (given["asked"]["epsilon"], given["fits"]) == (76.0, True)
    open_account(settings, settings.privacy, n=200)
    assert priced(preview(settings.state, settings))["gate"] == 37.5
    assert priced(preview(settings.state, settings, n_tasks=100))["gate"] == 75.0
    assert "40 of 200 tasks" in preview(settings.state, settings)["parts"][2]["note"]
    assert (
        priced(preview(settings.state, settings, n_tasks=1))["gate"] == 1500.0
    )  # of one row at least


def test_a_preview_says_what_of_the_budget_is_left_and_whether_a_run_fits(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path, privacy={"epsilon": 1.5})
    assert settings.privacy is not None
    ledger = open_account(settings, settings.privacy, n=4)
    ledger.release(LatticeLaplace(0.5), counts_query())
    found = preview(settings.state, settings)
    assert found["parts"][0]["note"] == "lattice Laplace noise"
    assert (found["budget"]["epsilon"], found["left"]["epsilon"]) == (1.5, 1.0)
    assert (found["fits"], found["affordable"]) == (True, 1)
    ledger.release(LatticeLaplace(0.25), counts_query())
    found = preview(settings.state, settings)
    assert (found["fits"], found["affordable"], found["same_budget"]) == (False, 0, True)


def test_counts_and_corrections_add_to_the_dearer_of_model_and_gate(tmp_path: Path) -> None:
    """A correction by gold that was chosen is none, and costs nothing."""
    privacy = {"epsilon": 400.0, "correction_epsilon": 0.25}
    for sampling, more in (("stratified", 0.25), ("chosen", 0.0)):
        settings = toy_settings(
            tmp_path, privacy=privacy, model=LEARNS, input={"gold_sampling": sampling}
        )
        found = preview(settings.state, settings, n_tasks=10_000)
        assert found["asked"]["epsilon"] == 1.0 + more + max(1.6, 0.75)
        assert priced(found).get("corrections by gold", 0.0) == more


def test_a_gate_that_fits_the_data_costs_what_training_does_for_any_number_of_tasks(
    tmp_path: Path,
) -> None:
    """Hardly less: sigma is rounded up to two digits."""
    settings = toy_settings(tmp_path, model=LEARNS, gate={"threshold": "auto"})
    for n_tasks in (1, 9, 1000):
        price = priced(preview(settings.state, settings, n_tasks=n_tasks))["gate"]
        assert price is not None
        assert 1.6 / 1.1 < price <= 1.6


def test_a_subjects_rows_count_in_the_gates_price(tmp_path: Path) -> None:
    settings = toy_settings(
        tmp_path, model=LEARNS, input={"subject": "who"},
        privacy={"unit": "subject", "max_tasks_per_subject": 3, "epsilon": 400.0},
    )  # fmt: skip
    assert priced(preview(settings.state, settings, n_tasks=100))["gate"] == 3 * 75.0


def test_without_tables_of_tasks_no_model_is_priced(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path, model=LEARNS)
    bare = settings.model_copy(update={"input": settings.input.model_copy(update={"tasks": ()})})
    assert set(priced(preview(bare.state, bare))) == {"class counts"}
    unmodelled = toy_settings(tmp_path)
    assert set(priced(preview(bare.state, unmodelled))) == {"class counts"}


@pytest.mark.parametrize(("delta", "said"), [(0.0, False), (1e-6, True)])
def test_a_delta_of_the_training_is_said_to_be_noisy_descents(
    tmp_path: Path, delta: float, said: bool
) -> None:
    settings = toy_settings(
        tmp_path, privacy={"epsilon": 4.0, "delta": 1e-5}, model=LEARNS | {"delta_train": delta}
    )
    note = preview(settings.state, settings)["parts"][1]["note"]
    assert note.startswith("training 1, selection 0.5, score 0.1")
    assert ("the delta is spent by noisy descent alone" in note) is said


def test_a_paid_plan_costs_no_more_and_another_plan_is_not_it(tmp_path: Path) -> None:
    privacy = {"epsilon": 4.0, "planned_releases": 3, "proportions_epsilon": 0.5}
    settings = toy_settings(tmp_path, privacy=privacy)
    assert settings.privacy is not None
    assert preview(settings.state, settings)["parts"][0]["note"] == "a plan of 3 releases"
    ledger = open_account(settings, settings.privacy, n=4)
    noise = count_noise(settings.privacy, 2)
    assert noise.plan is not None
    entry = ledger.open_plan("toy", noise.plan, name=PLAN)
    for used in (0, 1):
        found = preview(settings.state, settings)
        assert found["parts"][0]["epsilon"] == 0.0
        note = found["parts"][0]["note"]
        assert note == f"paid by entry {entry}; {3 - used} of 3 releases left"
        assert found["affordable"] == 3 - used
        ledger.release(noise.mechanism, counts_query(), plan=entry)
    dearer = toy_settings(tmp_path, privacy=privacy | {"proportions_epsilon": 0.75})
    assert preview(settings.state, dearer)["parts"][0]["epsilon"] == 0.75


def test_a_planned_series_is_paid_once_and_others_each_time(tmp_path: Path) -> None:
    """Of three publications the counts cost .5 together, the model 1.6 each; of four nobody knows."""
    privacy = {"epsilon": 4.0, "planned_releases": 3, "proportions_epsilon": 0.5}
    settings = toy_settings(tmp_path, privacy=privacy, model=LEARNS)
    found = preview(settings.state, settings)
    assert found["affordable"] == 2  # of 3.5 that .5 leaves
    years = {one["publications"]: one.get("epsilon") for one in found["years"]}
    assert years == {366: None, 54: None, 12: None, 1: 2.1}
    poor = toy_settings(tmp_path, privacy=privacy | {"epsilon": 0.4}, model=None)
    assert preview(poor.state, poor)["affordable"] == 0
    exactly = toy_settings(tmp_path, privacy=privacy | {"planned_releases": 12})
    priced_years = preview(exactly.state, exactly)["years"]
    assert [one.get("epsilon") for one in priced_years] == [None, None, 0.5, 0.5]


@pytest.mark.parametrize(("epsilon", "key"), [(12.0, "%Y-%m"), (11.9, "%Y"), (366.0, "%Y-%m-%d")])
def test_the_finest_key_that_is_proposed_may_use_the_budget_up(
    tmp_path: Path, epsilon: float, key: str
) -> None:
    settings = toy_settings(tmp_path, privacy={"epsilon": epsilon})
    said = propose_key(settings)
    assert said is not None
    assert f'Proposed: [privacy] publication = "{key}": ' in said
    assert "one price pays for the counts" in said
    planned = toy_settings(tmp_path, privacy={"epsilon": epsilon, "planned_releases": 2})
    assert "one price pays for the counts" not in str(propose_key(planned))


def test_a_proposal_says_that_the_gate_is_left_out_where_it_is(tmp_path: Path) -> None:
    plain, learns = toy_settings(tmp_path), toy_settings(tmp_path, model=LEARNS)
    assert "without the gate" not in str(propose_key(plain))
    assert "1 publication (without the gate, whose price" in str(propose_key(learns))


# before a run: refused, or warned of ------------------------------------------------------------


def test_a_run_that_the_whole_budget_does_not_cover_is_refused_while_nothing_is_spent(
    tmp_path: Path,
) -> None:
    rich, poor = (toy_settings(tmp_path, privacy={"epsilon": e}) for e in (1.0, 0.9))
    assert check_budget(rich) is None
    for _ in range(2):  # without a ledger, and with one that has no entry
        with pytest.raises(BudgetError, match="left epsilon=0.9"):
            check_budget(poor)
        open_account(poor, poor.privacy, n=4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "this one will be refused when it comes to release"),
        ({"unpaid": "skip", "publication": "1"}, "a stage that is not covered will be skipped"),
    ],
)
def test_on_a_budget_that_was_spent_from_a_run_is_warned(
    tmp_path: Path, more: dict[str, str], words: str
) -> None:
    """What is left is written no larger than it is: two thirds of 1 are no .666667."""
    settings = toy_settings(tmp_path, privacy={"epsilon": 1.0} | more)
    assert settings.privacy is not None
    ledger = open_account(settings, settings.privacy, n=4)
    ledger.release(LatticeLaplace(1 / 3), counts_query())
    warning = check_budget(settings)
    assert warning is not None
    assert warning.startswith(
        "epsilon=0.666666, delta=0 per consensus label is left of epsilon=1, delta=0. A run on new data asks"
    )
    assert warning.endswith(words)


def test_a_run_whose_settings_changed_the_budget_is_refused(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path)
    open_account(settings, settings.privacy, n=4)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="epsilon"):
        check_budget(toy_settings(tmp_path, privacy={"epsilon": 5.0}))


def test_a_ledger_set_back_is_refused_in_the_first_second(tmp_path: Path) -> None:
    settings = toy_settings(tmp_path)
    toy_run(settings, "a").keep_head(9, "0" * 64)
    with pytest.raises(LedgerSetBack, match="the ledger is missing"):
        check_budget(settings)


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

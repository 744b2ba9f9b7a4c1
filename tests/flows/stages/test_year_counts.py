"""A year of runs of the small campaign, which grows: paid once, published every month, killed anywhere."""

from __future__ import annotations

import json
import multiprocessing
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.pipeline import run_pipeline, run_stage
from flows.run import Run
from flows.settings import Settings, load_settings
from flows.spending import open_account, preview, read_statements, year_of
from flows.stages import Stage
from tests.flows.spending.keyed_campaign import Died, campaign, die_before
from tests.flows.spending.test_year import spend, year_campaign
from tests.flows.test_pipeline import STAGE_MODULES, run_and_die_in

OUTPUTS = ("proportions", "corrected_shares", "model", "gate", "bounds")


def grow(path: Path, share: float) -> Settings:
    """Leave the labels and gold of the first tasks of every group alone, so that a campaign can grow."""
    for name, column in (("labels.csv", 1), ("gold.csv", 0)):
        file = path.with_name(name)
        whole = path.with_name(f"whole-{name}")
        if not whole.exists():
            whole.write_text(file.read_text())
        head, *rows = whole.read_text().splitlines()
        kept = [row for row in rows if int(row.split(",")[column][1:]) % 60 < 60 * share]
        file.write_text("\n".join([head, *kept]) + "\n")
    return load_settings(path)


def found(settings: Settings, folder: Path) -> dict[str, dict[str, Any]]:
    run = Run(folder, settings)
    return {name: run.read_json(f"{name}.json") for name in OUTPUTS}


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, list[Run], list[Any]]:
    """Three of four planned months, each with the ledger's sum after it."""
    path = year_campaign(
        tmp_path_factory.mktemp("year"), "planned_tasks = 360", "correction_epsilon = 2.0"
    )
    runs, spent = [], []
    for share in (0.4, 0.7, 1.0):
        settings = grow(path, share)
        runs.append(Run(run_pipeline(settings).folder, settings))
        spent.append(read_statements(settings.state)[0]["spent"])
    return settings, runs, spent


def test_no_month_is_silent(months: tuple[Settings, list[Run], list[Any]]) -> None:
    settings, runs, _ = months
    for run in runs:
        assert not any("skipped" in one for one in found(settings, run.folder).values())


def test_the_ledgers_sum_is_the_plans_price_and_the_previews_from_the_first_month_on(
    months: tuple[Settings, list[Run], list[Any]],
) -> None:
    settings, _, spent = months
    year = year_of(settings)
    assert year is not None
    price = preview(settings.state, settings)["year"]["price"]
    assert spent == [price] * 3
    assert price == {"epsilon": float(year.cost().epsilon), "delta": float(year.cost().delta)}
    assert preview(settings.state, settings)["asked"] == {"epsilon": 0.0, "delta": 0.0}


def test_counts_are_those_of_all_cohorts_and_their_intervals_those_of_the_summed_noise(
    months: tuple[Settings, list[Run], list[Any]],
) -> None:
    _, runs, _ = months
    widths = []
    for run, n in zip(runs, (24, 42, 60), strict=True):
        table = run.read_table("proportions.parquet").to_pydict()
        assert set(table["n"]) == {n}
        noisy = np.array(table["noisy_count"]).reshape(-1, 3)
        assert (noisy.sum(axis=1) == n).all()
        widths.append(run.read_json("proportions.json")["noise"]["variance"])
    np.testing.assert_allclose(widths, np.array([1, 2, 3]) * widths[0])


def test_class_ratios_are_learned_from_the_corrected_shares(
    months: tuple[Settings, list[Run], list[Any]],
) -> None:
    _, runs, _ = months
    assert [run.read_json("class_ratios.json")["corrected"] for run in runs] == [True] * 3


def test_each_cohort_is_asked_once(months: tuple[Settings, list[Run], list[Any]]) -> None:
    settings, _, _ = months
    entries = read_statements(settings.state, entries=10_000)[0]["entries"]
    asked = [(entry["what"], entry["cell"]) for entry in entries]
    assert len(set(asked)) == len(asked)
    assert sum("rows to train on" in what for what, _ in asked) == 3


def test_a_line_of_the_report_says_how_far_the_year_is_used(
    months: tuple[Settings, list[Run], list[Any]],
) -> None:
    _, runs, _ = months
    for used, run in enumerate(runs, start=1):
        said = run.read_json("proportions.json")["year"]
        assert (said["planned"], said["used"]) == (4, used)
        assert f"4 runs paid for, {used} used, {4 - used} left" in (
            run.folder / "report.html"
        ).read_text(encoding="utf-8")


def test_a_page_states_the_price_of_the_dearest_cohort(tmp_path: Path) -> None:
    """The first month is counted at 20, the whole budget, and the second at 1."""
    path = year_campaign(tmp_path, model=False)
    run_pipeline(grow(path, 0.5))
    text = path.read_text().replace("[privacy]\n", "[privacy]\nproportions_epsilon = 1.0\n", 1)
    path.write_text(text)
    settings = grow(path, 1.0)
    facts = Run(run_pipeline(settings).folder, settings).read_json("proportions.json")
    year, (told,) = year_of(settings), read_statements(settings.state)
    assert year is not None
    assert (facts["year"]["used"], year.counts) == (2, 1.0)
    assert facts["epsilon"] == facts["year"]["price"]["epsilon"] == told["spent"]["epsilon"] == 20.0
    assert "at epsilon 20 at most" in facts["reason"]


def test_a_run_without_new_tasks_publishes_the_same(
    months: tuple[Settings, list[Run], list[Any]],
) -> None:
    settings, runs, spent = months
    again = run_pipeline(settings, again=True)
    for name in ("release.json", "proportions.csv"):
        old, new = (folder / "public" / name for folder in (runs[-1].folder, again.folder))
        assert old.read_bytes() == new.read_bytes()
    assert read_statements(settings.state)[0]["spent"] == spent[-1]


@pytest.mark.parametrize(
    ("stage", "within"),
    [
        ("publish_proportions", True),
        ("train_privately", True),
        ("ask_holdout", False),
    ],
)
def test_a_month_that_dies_anywhere_costs_and_publishes_what_it_would_have(
    tmp_path: Path, stage: str, within: bool
) -> None:
    """Before the stage, or after what it paid and before it wrote; then a month later, not resumed."""
    path = year_campaign(tmp_path, "planned_tasks = 360")
    settings = grow(path, 0.5)

    def dies_after_paying(one: Stage, run: Run) -> str:
        if one.name == stage:
            one(run)
            raise Died
        return run_stage(one, run)

    with pytest.raises(Died):
        run_pipeline(settings, step=dies_after_paying if within else die_before(stage))
    paid = released(settings)
    later = run_pipeline(grow(path, 1.0))
    assert not any("skipped" in one for name, one in found(settings, later.folder).items()
                   if name != "corrected_shares")  # fmt: skip
    assert paid.items() <= released(settings).items()
    year = year_of(settings)
    assert year is not None
    assert read_statements(settings.state)[0]["spent"]["epsilon"] == float(year.cost().epsilon)


def test_a_month_killed_in_every_paying_stage_delivers_what_it_paid_for(tmp_path: Path) -> None:
    """SIGKILL as a price is booked and nothing drawn, then as a value is stored and not written."""
    path = year_campaign(tmp_path, "planned_tasks = 360")
    settings, context = grow(path, 0.5), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"flows.stages.{module}" for module in STAGE_MODULES])
    for stage in ("publish_proportions", "train_privately", "ask_holdout"):
        for when in ("paid", "stored"):
            killed = context.Process(target=run_and_die_in, args=(path, stage, when))
            killed.start()
            killed.join()
            assert killed.exitcode == -signal.SIGKILL, (stage, when)
    resumed = run_pipeline(settings, resume=True)
    said = found(settings, resumed.folder)
    assert not any("skipped" in said[name] for name in ("proportions", "model", "gate", "bounds"))
    entries = read_statements(settings.state, entries=10_000)[0]["entries"]
    assert all(one["released"] for one in entries)
    assert len({(one["what"], one["cell"]) for one in entries}) == len(entries) == 6 + 3
    year = year_of(settings)
    assert year is not None
    assert read_statements(settings.state)[0]["spent"]["epsilon"] == float(year.cost().epsilon)


def released(settings: Settings) -> dict[int, str]:
    """Entries of the ledger, with what each is."""
    if not settings.state.exists() or not (settings.state / "ledger.sqlite").exists():
        return {}
    entries = read_statements(settings.state, entries=10_000)
    return {one["entry"]: f"{one['what']} {one['cell']}" for one in entries[0]["entries"]}


def test_a_stage_that_the_budget_does_not_cover_is_skipped_with_its_sentence(
    tmp_path: Path,
) -> None:
    settings = grow(year_campaign(tmp_path), 1.0)
    assert settings.privacy is not None
    spend(open_account(settings, settings.privacy, n=360), 6.0)
    said = found(settings, run_pipeline(settings).folder)
    assert "skipped" not in said["proportions"]
    for name in ("model", "gate", "bounds"):
        assert "does not cover the epsilon 10" in said[name]["skipped"]


def test_settings_may_refuse_a_run_that_is_not_covered_whole(tmp_path: Path) -> None:
    settings = grow(year_campaign(tmp_path, 'unpaid = "refuse"'), 1.0)
    assert settings.privacy is not None
    spend(open_account(settings, settings.privacy, n=360), 6.0)
    with pytest.raises(RuntimeError, match="does not cover this"):
        run_pipeline(settings)
    assert not any(settings.runs.glob("*"))


def test_without_a_year_a_key_lets_a_run_skip_what_is_not_covered(tmp_path: Path) -> None:
    path = campaign(tmp_path, "2026-11", 'unpaid = "skip"')
    path.write_text(path.read_text().replace("epsilon = 40.0", "epsilon = 5.0"))
    settings = load_settings(path)
    said = found(settings, run_pipeline(settings).folder)
    assert "skipped" not in said["proportions"]
    assert all("does not cover" in said[name]["skipped"] for name in ("model", "gate", "bounds"))
    assert read_statements(settings.state)[0]["spent"]["epsilon"] == 2.0


def test_a_gate_that_fits_the_data_costs_what_training_costs(tmp_path: Path) -> None:
    path = campaign(tmp_path, "2026-11")
    path.write_text(path.read_text().replace("sigma = 0.02", 'threshold = "auto"'))
    settings = load_settings(path)
    gate = Run(run_pipeline(settings).folder, settings).read_json("gate.json")
    assert gate["threshold"] > 0.1
    assert 0.85 * 7.5 < gate["epsilon"] <= 7.5
    parts = {one["what"]: one for one in preview(settings.state, settings)["parts"]}
    assert parts["gate"]["epsilon"] <= parts["model"]["epsilon"] == 7.5


def test_a_year_of_counts_alone_spends_all_on_them(tmp_path: Path) -> None:
    settings = grow(year_campaign(tmp_path, model=False), 1.0)
    run = run_pipeline(settings)
    assert json.loads((run.folder / "proportions.json").read_text())["epsilon"] == 20.0
    assert read_statements(settings.state)[0]["spent"]["epsilon"] == 20.0


def test_where_counts_are_not_covered_the_pages_still_state_account_and_budget(
    tmp_path: Path,
) -> None:
    """The first run spends 9.5 of 40. The second skips counts at 31, and pays 7.5 for a model."""
    run_pipeline(load_settings(campaign(tmp_path, "2026-11", 'unpaid = "skip"')))
    path = campaign(tmp_path, "2026-12", 'unpaid = "skip"')
    path.write_text(
        path.read_text().replace("proportions_epsilon = 2.0", "proportions_epsilon = 31.0")
    )
    result = run_pipeline(load_settings(path))
    assert "does not cover the epsilon 31" in result.run.read_json("proportions.json")["skipped"]
    why_not = result.run.read_json("class_ratios.json")["skipped"]  # which cost nothing themselves
    assert why_not == "no proportions were published to estimate them from"
    spend = result.run.read_json("spend.json")
    assert (spend["spent"]["epsilon"], spend["left"]["epsilon"]) == (17.0, 23.0)
    assert result.verdicts["privacy"].startswith("epsilon 17 of 40 spent")
    report = result.report.read_text("utf-8")
    assert "there is no privacy budget" not in report
    released = json.loads((result.folder / "public" / "release.json").read_text("utf-8"))
    assert released["model"] is not None
    assert (released["publication"], released["budget"]["epsilon"]) == ("2026-12", 40.0)
    public = (result.folder / "public.html").read_text("utf-8")
    assert "This is publication 2026-12. Everything this campaign ever publishes" in public


def test_a_run_that_releases_nothing_states_no_budget_in_public(tmp_path: Path) -> None:
    path = campaign(tmp_path, "2026-11", 'unpaid = "skip"')
    text = path.read_text().replace("epsilon = 40.0", "epsilon = 1.0", 1)
    path.write_text(text)
    result = run_pipeline(load_settings(path))
    released = json.loads((result.folder / "public" / "release.json").read_text("utf-8"))
    assert (released["publication"], released["budget"]) == (None, None)
    assert result.run.read_json("spend.json")["spent"]["epsilon"] == 0.0

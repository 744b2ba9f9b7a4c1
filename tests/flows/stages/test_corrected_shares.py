"""Shares corrected by gold in a run: what is paid, what is shown, and when nothing is corrected."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.pipeline import run_pipeline, run_stage
from flows.report import write_release_files
from flows.run import Run, open_run
from flows.settings import Settings, SettingsError, load_settings
from flows.spending import preview, read_statements
from flows.stages import STAGES
from flows.stages.corrected_shares import ALL_GROUPS, kurtosis_of_sum
from privacy import LatticeLaplace
from quality.shares.heavy_tails import half_width
from tests.flows.campaign import write_small_campaign

PUBLISH = [stage.name for stage in STAGES].index("publish_proportions")


def campaign(
    folder: Path,
    *,
    sampling: str = "random",
    epsilon: float = 3.0,
    counts: float = 2.0,
    budget: float = 20.0,
    use_gold: bool = False,
) -> Settings:
    """The small campaign with 50 random gold tasks and a price for correcting by them."""
    path = write_small_campaign(folder)
    text = path.read_text().replace("[input]\n", f'[input]\ngold_sampling = "{sampling}"\n')
    text = text.replace("[privacy]\n", f"[privacy]\ncorrection_epsilon = {epsilon}\n")
    text = text.replace("\nepsilon = 20.0", f"\nepsilon = {budget}")
    text = text.replace("proportions_epsilon = 2.0", f"proportions_epsilon = {counts}")
    path.write_text(f"{text}[consensus]\nuse_gold = {str(use_gold).lower()}\n")
    return load_settings(path)


def published(settings: Settings) -> tuple[Run, str]:
    """A run as far as the published proportions, and that stage's line."""
    run = open_run(settings)
    return run, [run_stage(stage, run) for stage in STAGES[: PUBLISH + 1]][-1]


def rows(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.read_table("corrected_shares.parquet").to_pylist()
    return found


def test_few_gold_tasks_correct_all_groups_together(tmp_path: Path) -> None:
    run, line = published(campaign(tmp_path))
    assert line.endswith("; corrected by 50 gold tasks at epsilon 3")
    found = rows(run)
    assert [(row["group"], row["class"], row["n"]) for row in found] == [
        (ALL_GROUPS, name, 360) for name in "abc"
    ]
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert all(0 <= row["low"] <= row["share"] <= row["high"] <= 1 for row in found)
    assert run.read_json("corrected_shares.json")["apart"] is False


def gold_for_all(settings: Settings) -> Settings:
    """The same with gold for every labelled task: its most frequent label."""
    given: dict[str, list[str]] = {}
    with settings.input.labels.open() as file:
        for row in csv.DictReader(file):
            given.setdefault(row["task"], []).append(row["label"])
    lines = [f"{task},{max(sorted(set(said)), key=said.count)}" for task, said in given.items()]
    assert settings.input.gold is not None
    settings.input.gold.write_text("\n".join(["task,label", *lines]) + "\n")
    return settings


def test_enough_gold_corrects_every_group_and_all_of_them(tmp_path: Path) -> None:
    run, _ = published(gold_for_all(campaign(tmp_path, epsilon=9.0)))
    found = rows(run)
    assert [row["group"] for row in found[::3]] == [ALL_GROUPS, *(f"g{j}" for j in range(6))]
    facts = run.read_json("corrected_shares.json")
    assert facts["apart"] is True
    assert len(facts["entries"]) == 6
    assert found[0]["n_gold"] == 360


def test_groups_corrected_one_by_one_are_paid_for_once(tmp_path: Path) -> None:
    """Half of each group's tasks have gold, so that counts and corrections are of other numbers of tasks."""
    settings = gold_for_all(campaign(tmp_path, epsilon=9.0, budget=100.0))
    gold = settings.input.gold
    assert gold is not None
    header, *lines = gold.read_text().splitlines()
    gold.write_text("\n".join([header, *lines[::2]]) + "\n")
    runs = [published(settings)[0] for _ in range(3)]
    assert rows(runs[0]) == rows(runs[1]) == rows(runs[2])
    assert runs[2].read_json("corrected_shares.json")["apart"] is True
    (found,) = read_statements(settings.state)
    assert found["spent"]["epsilon"] == 11.0
    gold.write_text("\n".join([header, *lines[1::2]]) + "\n")
    published(settings)
    (found,) = read_statements(settings.state)
    assert (
        found["spent"]["epsilon"] == 20.0
    )  # other gold tasks: the correction is anew, the counts are not


def test_the_correction_is_paid_for_on_top_of_the_counts_and_once(tmp_path: Path) -> None:
    settings = campaign(tmp_path)
    asked = preview(settings.state, settings, n_tasks=360)
    names = {part["what"]: part["epsilon"] for part in asked["parts"]}
    assert names["corrections by gold"] == 3.0
    first, _ = published(settings)
    (found,) = read_statements(settings.state)
    assert found["spent"]["epsilon"] == 5.0
    again, _ = published(settings)
    assert rows(first) == rows(again)
    (found,) = read_statements(settings.state)
    assert found["spent"]["epsilon"] == 5.0


def test_a_run_that_cannot_pay_for_the_correction_spends_nothing(tmp_path: Path) -> None:
    settings = campaign(tmp_path, epsilon=19.0)
    with pytest.raises(RuntimeError, match="budget"):
        run_pipeline(settings)


@pytest.mark.parametrize(
    ("sampling", "reason"),
    [
        ("chosen", "no random sample"),
        ("stratified", "stratified gold corrects each group by itself, which takes"),
    ],
)
def test_gold_that_is_no_sample_of_all_tasks_corrects_nothing(
    tmp_path: Path, sampling: str, reason: str
) -> None:
    settings = campaign(tmp_path, sampling=sampling)
    run, line = published(settings)
    assert "corrected" not in line
    assert reason in run.read_json("corrected_shares.json")["skipped"]
    (found,) = read_statements(settings.state)
    assert found["spent"]["epsilon"] == 2.0


def test_without_a_price_nothing_is_corrected(tmp_path: Path) -> None:
    run, _ = published(load_settings(write_small_campaign(tmp_path)))
    assert (
        "a correction has no price (privacy.correction_epsilon)"
        in run.read_json("corrected_shares.json")["skipped"]
    )


def test_gold_that_made_the_consensus_cannot_correct_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot say how often it errs"):
        campaign(tmp_path, use_gold=True)


def test_the_public_page_counts_noise_and_mistakes_in_words(tmp_path: Path) -> None:
    settings = campaign(tmp_path)
    run = open_run(settings)
    for stage in STAGES:
        run_stage(stage, run)
    page = (run.folder / "public.html").read_text()
    row = rows(run)[0]
    said = f"about {100 * row['share']:.0f} of 100 tasks are truly a, between {100 * row['low']:.0f} and"
    assert said in page
    assert "counting both the noise and the crowd’s mistakes" in page
    assert "and the gold labels of the same tasks with it" in page
    names = write_release_files(run.folder)
    assert {"corrected_shares.csv", "corrected_shares.parquet"} <= set(names)
    release = json.loads((run.folder / "public" / "release.json").read_text())
    assert release["corrected_shares"]["rows"][0]["share"] == row["share"]
    assert "covariance" not in release["corrected_shares"]["rows"][0]


def test_weighted_groups_are_the_population(tmp_path: Path) -> None:
    """With gold for all tasks and hardly any noise, all groups' shares are the truth's."""
    settings = gold_for_all(campaign(tmp_path, epsilon=20.0, counts=20.0, budget=90.0))
    run, _ = published(settings)
    assert settings.input.gold is not None
    truth = [line[-1] for line in settings.input.gold.read_text().splitlines()[1:]]
    shares = [row["share"] for row in rows(run)[:3]]
    np.testing.assert_allclose([truth.count(name) / 360 for name in "abc"], shares, atol=0.03)


def test_the_kurtosis_of_a_sum_is_that_of_its_exact_law() -> None:
    one, other = LatticeLaplace(1.0).law(3), LatticeLaplace(0.4).law(3)
    found = kurtosis_of_sum(
        np.array([one.variance, other.variance]), np.array([one.kurtosis, other.kurtosis])
    )
    assert found == pytest.approx(one.plus(other).kurtosis, rel=1e-6)
    assert kurtosis_of_sum(np.zeros(2), np.zeros(2)) == 0.0


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_the_tails_of_the_noise_are_those_of_its_exact_law(n_classes: int, epsilon: float) -> None:
    """Within 2 %, or one label: exact half widths are integers."""
    law = LatticeLaplace(epsilon).law(n_classes, l1=4.0)
    for level in (0.9, 0.95, 0.999):
        (found,) = half_width(level, np.zeros(1), [(np.array([law.variance]), law.kurtosis)])
        exact = law.half_width(level)
        assert abs(found - exact) <= max(1.0, 0.02 * exact)


def test_a_group_called_all_groups_is_not_taken_for_all_of_them(tmp_path: Path) -> None:
    settings = gold_for_all(campaign(tmp_path, epsilon=9.0))
    (tasks,) = settings.input.tasks
    tasks.write_text(tasks.read_text().replace(",g0,", f",{ALL_GROUPS},"))
    found = rows(published(settings)[0])
    names = [f"{ALL_GROUPS} together", ALL_GROUPS, *(f"g{j}" for j in range(1, 6))]
    assert [row["group"] for row in found[::3]] == names
    assert [row["n"] for row in found[::3]] == [360, *[60] * 6]

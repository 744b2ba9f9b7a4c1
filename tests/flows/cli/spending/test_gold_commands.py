"""`crowdassay plan gold`: how many gold tasks, and which."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.campaign import write_small_campaign


def plan(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["plan", "gold", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_it_says_how_many_and_draws_them_at_random(tmp_path: Path) -> None:
    settings, drawn = write_small_campaign(tmp_path), tmp_path / "gold_to_label.csv"
    text = plan(str(settings), "--width", "0.2", "--price", "3", "--output", str(drawn))
    found = json.loads(plan(str(settings), "--width", "0.2", "--price", "3", "--json"))
    assert f"{found['n_gold']} of 360 tasks, drawn at random" in text
    assert "correction_epsilon = " in text
    tasks = drawn.read_text().split()[1:]
    assert len(tasks) == len(set(tasks)) == found["n_gold"]
    assert found["n_known"] == 0  # gold that was chosen is no part of a random sample
    again = tmp_path / "again.csv"
    plan(str(settings), "--width", "0.2", "--price", "3", "--output", str(again))
    assert again.read_text() == drawn.read_text()


@pytest.mark.parametrize("price", ["3", "0.3", "0.0004"])
def test_the_prices_that_it_names_add_up_to_no_more_than_the_one_given(
    tmp_path: Path, price: str
) -> None:
    """To three digits each, they could add up to more, and a small one was 0.000."""
    text = plan(str(write_small_campaign(tmp_path)), "--width", "0.2", "--price", price)
    named = re.findall(r"_epsilon = (\S+?),? ", text)
    parts = [Fraction(one) for one in named]
    assert len(parts) == 2
    assert min(parts) > 0
    assert 0.9999 * Fraction(price) < sum(parts) <= Fraction(price)


def test_groups_too_small_to_be_corrected_one_by_one_are_told(tmp_path: Path) -> None:
    settings = str(write_small_campaign(tmp_path))
    assert "groups are corrected one by one from" in plan(
        settings, "--width", "0.2", "--price", "8"
    )
    assert "one by one from 1 gold task in each on" in plan(settings, "--price", "300")
    told = plan(settings, "--width", "0.5", "--price", "0.3")
    found = json.loads(plan(settings, "--width", "0.5", "--price", "0.3", "--json"))
    assert found["n_each"] > 360
    assert (
        f"groups are too small to be corrected one by one: that takes {found['n_each']:,} gold tasks in "
        "each, and there are 360 tasks in all"
    ) in told


def test_random_gold_that_is_there_counts(tmp_path: Path) -> None:
    settings, drawn = write_small_campaign(tmp_path), tmp_path / "more.csv"
    settings.write_text(
        settings.read_text().replace("[input]\n", '[input]\ngold_sampling = "random"\n')
    )
    text = plan(str(settings), "--width", "0.15", "--output", str(drawn))
    assert "50 have it already" in text
    known = {line.split(",")[0] for line in (tmp_path / "gold.csv").read_text().splitlines()}
    assert not known & set(drawn.read_text().split()[1:])


def test_a_width_below_the_noise_is_said(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    file = str(tmp_path / "every.csv")
    told = plan(str(settings), "--width", "0.01", "--price", "0.2", "--output", file)
    assert "No number of gold tasks" in told
    n_rows = len(Path(file).read_text("utf-8").split()) - 1
    assert f"{n_rows} tasks to label written to" in told  # all of them: the command says that too


def test_tables_are_read_and_written_as_elsewhere(tmp_path: Path) -> None:
    """Labels of several days, gold with another separator; the tasks as Parquet."""
    settings, drawn = write_small_campaign(tmp_path), tmp_path / "more.parquet"
    header, *rows = (tmp_path / "labels.csv").read_text().splitlines()
    (tmp_path / "days").mkdir()
    for name, some in (("monday.csv", rows[:700]), ("tuesday.csv", rows[700:])):
        (tmp_path / "days" / name).write_text("\n".join([header, *some]) + "\n")
    gold = tmp_path / "gold.csv"
    gold.write_text(gold.read_text().replace(",", ";"))
    text = settings.read_text().replace('"labels.csv"', '"days"')
    settings.write_text(text.replace("[input]\n", '[input]\ngold_sampling = "random"\n'))
    said = plan(str(settings), "--width", "0.15", "--output", str(drawn))
    assert "of 360 tasks" in said
    assert "50 have it already" in said
    assert "gold.csv was read separated by ';'" in said
    assert len(set(pq.read_table(drawn)["task"].to_pylist()) & {f"t{j:03d}" for j in range(360)})
    (tmp_path / "days" / "tuesday.csv").write_text("worker,task,label\nw01,,a\n")
    done = CliRunner().invoke(app, ["plan", "gold", str(settings)])
    assert (done.exit_code, "tuesday.csv, row 1, column task" in done.stderr) == (2, True)
    done = CliRunner().invoke(app, ["plan", "gold", str(settings), "--output", "tasks.xlsx"])
    assert (done.exit_code, "must end in .csv, .tsv" in done.stderr) == (2, True)


def test_a_column_that_another_table_of_the_campaign_has_is_no_mistake(tmp_path: Path) -> None:
    settings, gold = write_small_campaign(tmp_path), tmp_path / "gold.csv"
    gold.write_text(gold.read_text().replace("label", "truth", 1))
    text = settings.read_text().replace("[input]\n", '[input]\ncolumns = ["label=truth"]\n')
    settings.write_text(text)
    assert "of 360 tasks" in plan(str(settings))


def test_a_campaign_without_declared_classes_is_refused(tmp_path: Path) -> None:
    settings = write_small_campaign(tmp_path)
    settings.write_text(settings.read_text().replace('classes = ["a", "b", "c"]\n', ""))
    done = CliRunner().invoke(app, ["plan", "gold", str(settings)])
    assert done.exit_code == 2


def test_a_campaign_of_several_classes_a_task_is_refused(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(
        'name = "c"\nclasses = ["a", "b"]\n[input]\nlabels = "labels.csv"\nseveral = "|"\n'
        "[filter]\nn_workers = 0\n"
    )
    done = CliRunner().invoke(app, ["plan", "gold", str(settings)])
    assert done.exit_code == 2
    assert "plan gold is for one label a task" in " ".join(done.stderr.split())

"""A year of scheduled runs through `serve`, on a Prefect server whose clock is moved; no hand in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.flows.served_year import build_clock, serve_year
from flows.settings import load_settings
from flows.spending import preview, read_statements
from tests.flows.stages.test_killed_year import campaign
from tests.flows.stages.test_year_counts import grow

RUNS = 12


@pytest.mark.prefect
@pytest.mark.slow
def test_a_year_of_scheduled_runs_publishes_every_month_at_the_price_predicted(
    tmp_path: Path,
) -> None:
    library = build_clock(tmp_path)
    if library is None:
        pytest.skip("there is no C compiler to build a clock that can be moved")
    path, home = campaign(tmp_path / "campaign", RUNS), tmp_path / "prefect"
    keyed = f'publication = "%Y-%m"\nplanned_runs = {RUNS}'
    path.write_text(path.read_text().replace(f"planned_runs = {RUNS}", keyed))
    home.mkdir()
    price = preview(load_settings(path).state, load_settings(path))["year"]["price"]
    months = list(
        serve_year(
            path, lambda month: grow(path, month / RUNS), runs=RUNS, home=home, library=library
        )
    )
    keys = [f"2027-{month:02d}" for month in range(1, RUNS + 1)]
    assert [month.state for month in months] == ["Completed"] * RUNS
    assert [month.publication for month in months] == keys
    assert [month.name[:13] for month in months] == [f"small {key}" for key in keys]
    assert [month.skipped for month in months] == [()] * RUNS
    assert [month.spent for month in months] == [price] * RUNS
    assert read_statements(load_settings(path).state)[0]["spent"] == price

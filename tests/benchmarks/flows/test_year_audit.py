"""The audit of a year: its neighbours differ in one task of the first month, and it finds a leak."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.flows.year_audit import USES, _write_campaign, audit_year
from privacy import LatticeLaplace


def rows(folder: Path, table: str) -> set[str]:
    return set((folder / f"{table}.csv").read_text().splitlines())


@pytest.mark.parametrize("use", USES)
def test_neighbours_differ_in_one_row_of_the_first_month(tmp_path: Path, use: str) -> None:
    for name, changed in (("here", False), ("there", True)):
        (tmp_path / name).mkdir()
        _write_campaign(tmp_path / name, "row", use, changed=changed, share=0.5)
    for table, place in (("labels", 1), ("gold", 0), ("tasks", 0)):
        here, there = (rows(tmp_path / name, table) for name in ("here", "there"))
        assert len({row.split(",")[place] for row in here ^ there}) == 1


def test_a_year_costs_its_budget_and_two_of_them_refute_nothing() -> None:
    bound, spent = audit_year("consensus label", "holdout", 2)
    assert spent == {"epsilon": 1.0, "delta": 1e-3}
    assert not bound.refutes(spent["delta"])


@pytest.mark.slow
def test_a_year_whose_answers_have_no_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of classes and of right answers; 15 of each are counted on, of which all tell."""
    monkeypatch.setattr(
        LatticeLaplace, "draw_all", lambda _, queries, noise: [q.value.tolist() for q in queries]
    )
    bound, spent = audit_year("consensus label", "training", 30, level=0.95)
    assert bound.refutes(spent["delta"])

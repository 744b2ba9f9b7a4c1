"""What a ledger tells of its entries beside a statement: when they were paid, and for which cells."""

import pytest

import privacy.ledger.records
from privacy import LatticeLaplace, LedgerError, Part, Unit
from tests.privacy.toy import DATASET, counts_query


def test_the_time_of_several_entries_is_that_of_the_last(ledger, monkeypatch):
    for day in (2, 3, 1):
        monkeypatch.setattr(privacy.ledger.records, "now", lambda day=day: f"2026-11-0{day}")
        ledger.release(LatticeLaplace(0.1), counts_query((day, 1)))
    assert ledger.time_of(1, 2, 3) == ledger.time_of(2) == "2026-11-03"
    assert ledger.time_of(3, 1) == "2026-11-02"


@pytest.mark.parametrize("number", [0, -1, 2, 2**63, -(2**63), 2**70])
def test_a_number_that_is_no_entrys_has_no_time(ledger, number):
    ledger.release(LatticeLaplace(0.1), counts_query())
    with pytest.raises(LedgerError, match=f"must be one of the ledger's, got entry={number}"):
        ledger.time_of(1, number)


def test_the_cells_that_were_paid_for_are_told_with_their_sizes(ledger):
    """Those of this data set alone, and no entry about all tasks."""
    north, south = Part("site:1", "north"), Part("site:1", "south")
    ledger.open_budget("other", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=0.0, n=9)
    ledger.release(LatticeLaplace(0.1), counts_query((3, 1), part=north))
    ledger.release(LatticeLaplace(0.2), counts_query((3, 1), part=north))
    ledger.release(LatticeLaplace(0.1), counts_query((5, 1), part=south))
    ledger.release(LatticeLaplace(0.1), counts_query((8, 2)))
    ledger.release(LatticeLaplace(0.1), counts_query((4, 5), part=south, dataset="other"))
    assert ledger.paid_parts(DATASET) == {(north, 4), (south, 6)}
    assert ledger.paid_parts("other") == {(south, 9)}

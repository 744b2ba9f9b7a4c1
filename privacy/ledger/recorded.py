"""Events as the ledger's entries hold them.

What an event costs is derived from it whenever it is read, a plan excepted: composing its losses
takes longer than reading the whole ledger. A plan's claim was checked when the plan was built, and
is taken as it stands if the chain tells that the row of its entry is what was written then.
"""

from collections.abc import Iterable

from sqlalchemy import Connection, select

from privacy.accounting.plans import PlanEvent, paid_plan
from privacy.ledger.records import check_row
from privacy.ledger.store import LedgerError
from privacy.ledger.tables import Record, entries
from privacy.mechanisms.kinds import Event, EventError, parse_event
from privacy.query import Part

__all__ = ["read_events"]


def read_events(
    connection: Connection,
    dataset: str,
    kinds: Iterable[tuple[Part | None, str, int]],
    *,
    key: bytes,
) -> dict[str, Event]:
    """Events of a data set's entries, by the text that they are stored as."""
    try:
        return {
            text: _read_event(connection, dataset, text, key)
            for text in {kind[1] for kind in kinds}
        }
    except EventError as error:
        raise LedgerError(f"an entry of {dataset!r} is {error}; nothing can be spent") from None


def _read_event(connection: Connection, dataset: str, text: str, key: bytes) -> Event:
    def plan(events: tuple[tuple[str, int], ...], epsilon: float, delta: float) -> PlanEvent:
        row = _paying_row(connection, dataset, text)
        if row is None:
            return PlanEvent(events, epsilon, delta)
        check_row(connection, entries, row, key=key)
        return paid_plan(events, epsilon, delta)

    return parse_event(text, plan=plan)


def _paying_row(connection: Connection, dataset: str, text: str) -> Record | None:
    """The first entry that paid for this plan."""
    paying = (
        select(entries)
        .where((entries.c.dataset == dataset) & (entries.c.event == text))
        .where(entries.c.partition.is_(None) & entries.c.cell.is_(None))
    )
    return connection.execute(paying.order_by(entries.c.entry).limit(1)).first()

"""The one door through which private data leaves: no payment, no noise.

Each data set has a budget. A release is booked durably before its noise is drawn, stored before it
is returned, and paid once: the same mechanism on the same data returns what is stored. A crash can
leave a release paid and not drawn; asking again draws it under the same payment, as nobody has seen
the first.

Bringing a ledger of an older version over into a new one, with all that it paid for.

Opening a ledger: made where there is none, and checked before it is used.

What leaves the ledger: values that were paid for.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from sqlalchemy import Connection

from privacy.accounting.plans import PlanEvent
from privacy.ledger.postgres import PostgresStore
from privacy.ledger.records import append, check_chain, check_key, key_digest, start_chain
from privacy.ledger.releasing import answer, pay_plan, release
from privacy.ledger.spending import (
    BudgetError,
    PlanError,
    change_limit,
    dataset_names,
    open_limit,
    plan_request,
    request_of,
    required_budget,
    time_of,
    unpaid,
)
from privacy.ledger.sqlite import SqliteStore, connect
from privacy.ledger.statement import Statement, read_statement
from privacy.ledger.store import (
    Fill,
    LedgerError,
    Store,
    answers,
    budgets,
    entries,
    releases,
    snapshot,
    transaction,
)
from privacy.mechanism import Interaction, Json, Mechanism, Noise, Question
from privacy.mechanisms.kinds import Event
from privacy.query import Query, Unit

__all__ = [
    "BudgetError",
    "Ledger",
    "LedgerError",
    "PlanError",
    "Release",
    "check_ledger",
    "check_length",
    "import_ledger",
    "make_ledger",
    "open_store",
    "store_at",
]

NEWEST = 10_000  # rows of the chain that are followed at every opening: a tenth of a second


def check_length(key: bytes) -> None:
    """Refuse a key that could be guessed or that the hash does not take."""
    if not 16 <= len(key) <= 64:
        raise ValueError(f"key must be of 16 to 64 bytes, got {len(key)}")


def store_at(where: Path | str) -> Store:
    """The store that a path or a URL names."""
    if isinstance(where, str) and "://" in where:
        return PostgresStore.at(where)
    return SqliteStore(Path(where).absolute())


def open_store(store: Store, key: bytes) -> None:
    """Make the ledger where there is none; refuse what is no ledger, is damaged, or has another key."""
    if not store.exists():
        make_ledger(store, key, lambda connection: None)
    check_ledger(store, key, newest=NEWEST)


def make_ledger(store: Store, key: bytes, fill: Fill) -> bool:
    """Make a ledger with its first rows, whole or not at all; False where there is one."""

    def start(connection: Connection) -> None:
        start_chain(connection, key=key)
        fill(connection)

    return store.make(start)


def check_ledger(store: Store, key: bytes, *, newest: int | None = None) -> int:
    """Check tables, key, and the chain or its newest rows; the number of rows."""
    with snapshot(store) as connection:
        store.check(connection)
        check_key(connection, store.place, key=key)
        if newest is None:
            store.check_deeply(connection)
        return check_chain(connection, store.place, key=key, newest=newest)


OLD_VERSION = 1
OLD_ROWS = (
    (budgets, "SELECT time, dataset, unit, epsilon, delta, n FROM budgets ORDER BY budget"),
    (
        entries,
        "SELECT entry, time, dataset, query, unit, n, partition, cell, mechanism, event, fingerprint "
        "FROM entries ORDER BY entry",
    ),
    (releases, "SELECT time, entry, value FROM entries WHERE value IS NOT NULL ORDER BY entry"),
    (
        answers,
        "SELECT time, entry, question, fingerprint, state, value FROM answers ORDER BY answer",
    ),
)


def import_ledger(old: Path, new: Path | str, *, key: bytes) -> None:
    """Make a ledger with everything that one of version 1 holds; the old file stays as it is.

    Parameters
    ----------
    old
        File of the old ledger, of version 1.
    new
        Path or URL of the new one, where there must be none yet.
    key
        The old ledger's key, which is the new one's too.

    Raises
    ------
    LedgerError
        If the old file is no ledger of version 1, is damaged or has another key, or if there is a
        ledger at `new` already.
    ValueError
        If the key has another length.

    Notes
    -----
    **Guarantees.** Spends, entry numbers, released values, answers and secret states are the same
    in the new ledger, and what was paid in the old one costs nothing in the new one. The new ledger
    is made whole or not at all.

    Nothing is written to the old ledger while it is read. Put it away then: two ledgers that are
    both in use spend twice.
    """
    check_length(key)
    store = store_at(new)
    with _old_ledger(Path(old), key) as rows:

        def fill(connection: Connection) -> None:
            for table, query in OLD_ROWS:
                append(connection, table, [dict(row) for row in rows.execute(query)], key=key)

        if not make_ledger(store, key, fill):
            raise LedgerError(f"{store.place} must be a new ledger, got one that exists")
    check_ledger(store, key)


@contextlib.contextmanager
def _old_ledger(path: Path, key: bytes) -> Iterator[sqlite3.Connection]:
    """Hold a ledger of version 1 that is sound and has this key; nobody writes to it meanwhile."""
    try:
        with contextlib.closing(connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != OLD_VERSION:
                raise LedgerError(
                    f"{path} must be a ledger of version {OLD_VERSION}, got version {version}"
                )
            if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
                raise LedgerError(f"{path} is damaged; restore a backup of it first")
            digests = [row["digest"] for row in connection.execute("SELECT digest FROM key_check")]
            if digests != [key_digest(key)]:
                raise LedgerError(f"{path} was made with another fingerprint key; give that key")
            yield connection
    except sqlite3.Error as error:
        raise LedgerError(f"{path} cannot be read as a ledger of version 1: {error}") from None


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Release(Generic[T]):
    """A value that was paid for and may be shown.

    Parameters
    ----------
    value
        As stored: parsed from JSON.
    entry
        Its number in the ledger.
    event
        What was done.
    fresh
        False where the value is one stored before. **Not for the public**: it tells whether the
        private data changed since.
    """

    value: T
    entry: int
    event: Event
    fresh: bool


class Ledger:
    """Budgets, and the releases paid from them, in one file or one PostgreSQL database.

    Parameters
    ----------
    where
        Path of the file, on a local disk, or URL of the database,
        ``postgresql+psycopg://user:password@host:port/database``, which is never repeated in a
        message or repr. Tables are made where there are none; folder or database must exist.
    key
        Secret of 16 to 64 bytes for the fingerprints of private data and for the chain that holds
        the rows together; the same one every time.

    Raises
    ------
    LedgerError
        If the ledger is damaged, cannot be reached or written, is of another version, has another
        key, or is a file that others than its owner may use.
    ValueError
        If the key has another length, or the URL is not of this form.

    Notes
    -----
    **Guarantees.** What is spent never exceeds the budget, with any number of processes; a spend
    is durable before its noise is drawn, and a value is durable before it is returned; the same
    request is paid once and has one value; no plan gives more releases than it paid for; a refusal
    changes nothing; no message and no repr tells a private value; no row is deleted or
    overwritten; a row that was changed, removed or added by other means is named by `verify`,
    among the newest 10,000 rows by every opening and statement too, and where it is a budget, a
    plan or a secret state, by every use.
    **Privacy.** Requests may depend on what was released before (adaptive basic composition of
    the entries' events). That a request is stored or fresh, the time of an entry, and how long a
    draw took can depend on private data: show releases, and keep the ledger and its statements to
    yourself. Data sets are accounted apart: what is in two of them is spent twice.
    **Limits.** A ledger that was set back whole to an earlier copy of itself looks sound, and
    forgets what was spent since: note `verify`'s count elsewhere where that matters. Who can write
    to the ledger's folder can put another file in its place, and who has the key as well can write
    any history: keep both in a folder of mode 0700.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from privacy.mechanisms.laplace import LatticeLaplace
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(Path(folder.name) / "ledger.sqlite", key=bytes(32))
    >>> ledger.open_budget("toy", unit=Unit.CONSENSUS_LABEL, epsilon=1.0, delta=0.0, n=4)
    >>> query = Query("toy", "class counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
    >>> first = ledger.release(LatticeLaplace(epsilon=0.6), query)
    >>> again = ledger.release(LatticeLaplace(epsilon=0.6), query)
    >>> sum(first.value), again.value == first.value, first.fresh, again.fresh
    (4, True, True, False)
    >>> ledger.statement("toy").left.epsilon
    Fraction(2, 5)
    >>> folder.cleanup()
    """

    def __init__(self, where: Path | str, *, key: bytes) -> None:
        check_length(key)
        self._store, self._key = store_at(where), bytes(key)
        open_store(self._store, self._key)

    def __repr__(self) -> str:
        return f"Ledger({self._store.place!r})"

    def __deepcopy__(self, memo: dict[int, object]) -> "Ledger":
        return self

    def __getstate__(self) -> str:
        return self._store.place  # key and password stay behind

    def __setstate__(self, state: str) -> NoReturn:
        raise TypeError(f"a ledger must be opened where it is used, got a pickled one of {state}")

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *error: object) -> None:
        """End a with-block; each call opens and closes a connection, so nothing is left open."""

    def open_budget(
        self, dataset: str, *, unit: Unit, epsilon: float, delta: float, n: int
    ) -> None:
        """Set a data set's budget where it has none; repeating the same numbers changes nothing.

        Parameters
        ----------
        dataset
            Its name in the ledger, a text that is not empty.
        unit
            What the budget protects; every query must cover it.
        epsilon, delta
            The limit for all releases together; epsilon > 0, 0 <= delta < 1/n.
        n
            Public number of records today, at most 2**53; it may grow.

        Raises
        ------
        ValueError, TypeError
            If a number or the name breaks these conditions.
        LedgerError
            If the data set has a budget with another unit, epsilon or delta.
        """
        open_limit(self._store, dataset, unit, epsilon, delta, n, key=self._key)

    def change_budget(self, dataset: str, *, epsilon: float, delta: float) -> None:
        """Set another limit for a data set; the statement keeps the history.

        Raises
        ------
        ValueError
            If not epsilon > 0 and 0 <= delta < 1/n.
        LedgerError
            If the data set has no budget, or more than the new limit is spent already.
        """
        change_limit(self._store, dataset, epsilon, delta, key=self._key)

    def open_plan(self, dataset: str, plan: PlanEvent, *, name: str) -> int:
        """Pay for a plan, once by its name; its entry, under which releases are drawn.

        Raises as `release` does.
        """
        return pay_plan(self._store, dataset, plan, name, key=self._key)

    def afford(
        self,
        requests: Iterable[tuple[Mechanism | Interaction, Query]],
        *,
        plans: Iterable[tuple[str, PlanEvent, str]] = (),
    ) -> None:
        """Check that all of these could be paid, in any order, without paying any.

        Raises as `release` does; `plans` are data sets, plans and names, as for `open_plan`.
        """
        asked = [request_of(mechanism, query, key=self._key) for mechanism, query in requests]
        with transaction(self._store) as connection:
            paying = [plan_request(connection, *one, key=self._key) for one in plans]
            unpaid(connection, asked + paying, key=self._key)

    def release(
        self, mechanism: Mechanism, query: Query, *, plan: int | None = None
    ) -> Release[Json]:
        """Pay for one value, draw it, store it and return it; or return the stored one.

        Parameters
        ----------
        mechanism, query
            What is drawn, from what.
        plan
            Entry of a plan that has paid, from one of whose slots it is drawn.

        Raises
        ------
        BudgetError
            If the budget does not cover it.
        PlanError
            If the plan has no slot left for it.
        UnitError
            If the query's unit does not cover the budget's.
        LedgerError
            If the data set has no budget or no such plan, or the store refuses.
        ValueError, TypeError
            If the mechanism refuses the query, or its event is a plan or a plan's.

        Notes
        -----
        If the draw itself raises, the payment stays; asking again draws under it.
        """
        return self.release_all(mechanism, (query,), plan=plan)[0]

    def release_all(
        self, mechanism: Mechanism, queries: Sequence[Query], *, plan: int | None = None
    ) -> tuple[Release[Json], ...]:
        """Release many queries as `release` would, all of them or, where not affordable, none."""
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"mechanism must draw, got {type(mechanism).__name__}")
        asked = [request_of(mechanism, query, key=self._key, plan=plan) for query in queries]
        told = release(self._store, mechanism, asked, _system_noise(), key=self._key)
        return tuple(
            Release(json.loads(text), entry, request.event, fresh)
            for request, (entry, text, fresh) in zip(asked, told, strict=True)
        )

    def interact(self, mechanism: Interaction, query: Query, question: Question) -> Release[Json]:
        """Ask an interaction one question; it is paid when it is first seen, for all questions.

        A repeated question returns the stored answer and moves no state. Raises as `release` does.
        """
        return self.interact_all(mechanism, query, (question,))[0]

    def interact_all(
        self, mechanism: Interaction, query: Query, questions: Sequence[Question]
    ) -> tuple[Release[Json], ...]:
        """Ask questions fixed beforehand, in turn, as `interact` would, in one transaction.

        Notes
        -----
        **Guarantees.** State, budget and answers move as they would question by question; where a
        question is refused or the process dies, none of them was answered and no state has moved.
        """
        if not isinstance(mechanism, Interaction):
            raise TypeError(f"mechanism must answer questions, got {type(mechanism).__name__}")
        if not questions:
            return ()
        request = request_of(mechanism, query, key=self._key)
        entry, told = answer(
            self._store, mechanism, request, questions, _system_noise(), key=self._key
        )
        return tuple(Release(json.loads(text), entry, request.event, fresh) for text, fresh in told)

    def statement(self, dataset: str, *, entries: int | None = None) -> Statement:
        """Budget, spend and entries of a data set, recomputed from the stored events.

        Parameters
        ----------
        dataset
            Its name in the ledger.
        entries
            How many of the newest entries are listed; None for all. The totals are of all.
        """
        if entries is not None and not 0 <= entries < 2**63:
            raise ValueError(f"entries must be >= 0 or None, got entries={entries}")
        with snapshot(self._store) as connection:
            check_chain(connection, self._store.place, key=self._key, newest=NEWEST)
            required_budget(connection, dataset, key=self._key)
            return read_statement(connection, dataset, newest=entries, key=self._key)

    def datasets(self) -> tuple[str, ...]:
        """Names of the data sets that have a budget, sorted."""
        with snapshot(self._store) as connection:
            return dataset_names(connection)

    def time_of(self, entry: int) -> str:
        """When an entry was paid, in ISO 8601 and UTC."""
        with snapshot(self._store) as connection:
            return time_of(connection, entry)

    def verify(self) -> int:
        """Follow the whole chain of rows; the number of rows, which only grows.

        Raises
        ------
        LedgerError
            If a row does not fit, by its name, such as "entry 17"; or if tables, triggers or the
            file itself are not what they must be.
        """
        return check_ledger(self._store, self._key)

    def backup(self, path: Path) -> None:
        """Write a copy of the ledger's file to a new one, of mode 0600, consistent while in use.

        The copy opens with the same key. It forgets what is spent after it: put it in the
        ledger's place only with an account of that.

        Raises
        ------
        LedgerError
            If there is a file at `path`, it cannot be written, or the ledger is a server's, which
            has its own tool for it.
        """
        self._store.backup(Path(path).absolute())


def _system_noise() -> Noise:
    """The noise source, found before anything is paid; its import is too slow for every reader."""
    from privacy.noise import SystemNoise

    return SystemNoise()

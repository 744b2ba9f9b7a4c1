"""The one door through which private data leaves: no payment, no noise.

Each data set has a budget. A release is booked durably before its noise is drawn, stored before it
is returned, and paid once: the same mechanism on the same data returns the stored value. A crash can leave
a release paid and not drawn. Asking again then draws it under the same payment, because no value was
returned before. The examples of `Ledger` show its use; the steps of a release stand in
`privacy.ledger.releasing`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     Ledger(Path(folder) / "ledger.sqlite", key=bytes(32)).verify()
0
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from privacy.accounting import Event, PlanEvent
from privacy.ledger.postgres import PostgresStore
from privacy.ledger.publication import Published, find_published
from privacy.ledger.records import (
    Access,
    Book,
    Head,
    check_chain,
    check_key,
    heads_lacking,
    read_head,
    required_budget,
    start_chain,
)
from privacy.ledger.releasing import (
    Request,
    answer,
    pay_plan,
    plan_request,
    release,
    request_of,
    unpaid,
)
from privacy.ledger.spending import change_limit, open_limit
from privacy.ledger.sqlite import SqliteStore
from privacy.ledger.statement import (
    Statement,
    dataset_names,
    paid_parts,
    read_statement,
    time_of,
)
from privacy.ledger.store import Store
from privacy.mechanism import Interaction, Json, Mechanism, Noise, Question
from privacy.query import Part, Query, Unit, is_whole

__all__ = ["Ledger", "Release", "store_at"]

NEWEST = 10_000  # rows of the chain that every opening checks: a tenth of a second

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Release(Generic[T]):
    """A value that was paid for and may be shown.

    Parameters
    ----------
    value
        The stored value, parsed from JSON.
    entry
        Its number in the ledger.
    event
        Record of the draw.
    fresh
        False if the value was stored before. Public only for interactions and under a publication key:
        elsewhere it shows whether the private data changed since then.
    facts
        The public facts of the query that paid, from its `Publication`; empty without one.
    stale
        True if the value was drawn under the query's key from private data other than the query's. **Not
        for the public.**
    """

    value: T
    entry: int
    event: Event
    fresh: bool = field(repr=False)
    facts: str = ""
    stale: bool = field(default=False, repr=False)


class Ledger:
    """Budgets, and the releases paid from them, in one file or one PostgreSQL database.

    Parameters
    ----------
    where
        Path of the file, on a local disk, or URL of the database,
        ``postgresql+psycopg://user:password@host:port/database``. No message or repr repeats the URL.
        Missing tables are made; folder or database must exist.
    key
        Secret of 16 to 64 bytes for the fingerprints of private data and for the chain of rows; the same
        one every time.

    Raises
    ------
    LedgerError
        If the ledger is damaged, cannot be reached or written, is of another version, has another key, or
        is a file that anyone but its owner may use.
    ValueError, TypeError
        If the key has another length or type, or the URL is not of this form.

    Notes
    -----
    **Guarantees.** What is spent never exceeds the budget, with any number of processes. A spend is durable
    before its noise is drawn, and a value is durable before it is returned. The same request is paid once
    and has one value. No plan gives more releases than it paid for. A refusal changes nothing, except that
    an interaction stays paid if `answer`, after its `check`, refuses the first question. No message and no
    repr shows a private value. No row is deleted or overwritten. If a row was changed, removed or added by
    other means, `verify` names it; every opening and statement checks the newest 10,000 rows, and every use
    checks the budgets, plans and secret states that it reads.
    **Privacy.** Requests may depend on earlier releases (adaptive basic composition of the entries'
    events). The ledger recognises interactions and their questions by public things alone, and their
    answers depend on private data through their own noise alone. Whether a release is stored or fresh, the
    time of an entry, and the duration of a draw can depend on private data: show releases, and keep the
    ledger and its statements to yourself. Data sets are accounted apart: a task that is in two of them is
    spent twice.
    **Limits.** A ledger that was replaced by an earlier copy of itself looks sound, and lacks what was
    spent since then: keep its `head` elsewhere, and compare it by `lacking`. Anyone who can write to the
    ledger's folder can put another file in its place, and with the key can write any history: keep both in
    a folder of mode 0700.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from privacy.mechanisms import LatticeLaplace
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
        if not isinstance(key, bytes):
            raise TypeError(f"key must be bytes, got {type(key).__name__}")
        if not 16 <= len(key) <= 64:  # a shorter one could be guessed, the hash takes no longer one
            raise ValueError(f"key must be of 16 to 64 bytes, got {len(key)}")
        self._access = Access(store_at(where), bytes(key))
        if not self._access.store.exists():
            self._access.store.make(lambda connection: start_chain(Book(connection, bytes(key))))
        self._check(newest=NEWEST)

    def __repr__(self) -> str:
        return f"Ledger({self._access.store.place!r})"

    def __copy__(self) -> "Ledger":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Ledger":
        return self

    def __getstate__(self) -> str:
        return self._access.store.place  # key and password stay behind

    def __setstate__(self, state: str) -> NoReturn:
        raise TypeError(f"a ledger must be opened where it is used, got a pickled one of {state}")

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *error: object) -> None:
        """End a with-block; each call opens and closes its own connection, so none is left open."""

    def _check(self, *, newest: int | None = None) -> int:
        """Check tables, key, and the chain or its newest rows; return the number of rows."""
        store = self._access.store
        with self._access.reading() as book:
            store.check(book.connection)
            check_key(book, store.place)
            if newest is None:
                store.check_deeply(book.connection)
            return check_chain(book, store.place, newest=newest)

    def open_budget(
        self, dataset: str, *, unit: Unit, epsilon: float, delta: float, n: int
    ) -> None:
        """Set the budget of a data set that has none; repeating the same numbers changes nothing.

        Parameters
        ----------
        dataset
            Its name in the ledger, a text that is not empty.
        unit
            The unit that the budget protects; every query must cover it.
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
        open_limit(self._access, dataset, unit, epsilon, delta, n)

    def change_budget(self, dataset: str, *, epsilon: float, delta: float) -> None:
        """Set another limit for a data set; the statement keeps the history.

        Raises
        ------
        ValueError
            If not epsilon > 0 and 0 <= delta < 1/n.
        LedgerError
            If the data set has no budget, or has already spent more than the new limit.
        """
        change_limit(self._access, dataset, epsilon, delta)

    def open_plan(self, dataset: str, plan: PlanEvent, *, name: str) -> int:
        """Pay once for the same plan and name; return the entry, by which releases use the plan's slots.

        Raises as `release` does.
        """
        return pay_plan(self._access, dataset, plan, name)

    def afford(
        self,
        requests: Iterable[tuple[Mechanism | Interaction, Query]],
        *,
        plans: Iterable[tuple[str, PlanEvent, str]] = (),
    ) -> None:
        """Check that all of these could be paid, in any order, without paying.

        Raises as `release` does; `plans` are data sets, plans and names, as for `open_plan`.
        """
        asked = [
            request_of(mechanism, query, key=self._access.key)
            for mechanism, query in _rows("requests", requests, "a mechanism", "a query")
        ]
        planned = _rows("plans", plans, "a data set", "a plan", "a name")
        with self._access.writing() as book:
            unpaid(book, asked + [plan_request(book, *one) for one in planned])

    def release(
        self, mechanism: Mechanism, query: Query, *, plan: int | None = None
    ) -> Release[Json]:
        """Pay for one value, draw it, store it and return it; if it is stored already, return it.

        Parameters
        ----------
        mechanism, query
            What to draw, and the private data to draw it from.
        plan
            Entry of a paid plan, from one of whose slots the value is drawn.

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
        If the draw itself raises, the payment stays; asking again draws under the same payment.
        """
        return self.release_all(mechanism, (query,), plan=plan)[0]

    def release_all(
        self, mechanism: Mechanism, queries: Sequence[Query], *, plan: int | None = None
    ) -> tuple[Release[Json], ...]:
        """Release many queries as `release` would; all of them, or none if the budget is too small."""
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"mechanism must draw, got {type(mechanism).__name__}")
        asked = [
            request_of(mechanism, query, key=self._access.key, plan=plan)
            for query in _listed("queries", queries)
        ]
        released = release(self._access, mechanism, asked, _system_noise())
        return self._releases(asked, released)

    def interact(self, mechanism: Interaction, query: Query, question: Question) -> Release[Json]:
        """Ask an interaction one question; its first call pays for all questions.

        An interaction is identified by its knobs and its query without the private arrays, and a question
        by its name. A repeated name returns its stored answer, even if the private arrays have changed, and
        `fresh` is False, which is public here. Every call counts in the `History` of later ones. Raises as
        `release` does. A first question that `check` refuses is not paid for. If `answer` raises, the
        payment stays, and the next question is answered under it.
        """
        return self.interact_all(mechanism, query, (question,))[0]

    def interact_all(
        self, mechanism: Interaction, query: Query, questions: Sequence[Question]
    ) -> tuple[Release[Json], ...]:
        """Ask questions fixed in advance, in turn, as `interact` would, in one transaction.

        Notes
        -----
        **Guarantees.** State, budget and answers move as they would question by question. Nothing returned
        depends on whether two private arrays are equal. If a question is refused or the process dies, none
        of them was answered and no state has moved.
        """
        if not isinstance(mechanism, Interaction):
            raise TypeError(f"mechanism must answer questions, got {type(mechanism).__name__}")
        asked = _listed("questions", questions, Question)
        if not asked:
            return ()
        request = request_of(mechanism, query, key=self._access.key)
        entry, answered = answer(self._access, mechanism, request, asked, _system_noise())
        return self._releases(
            [request] * len(answered), [(entry, text, fresh) for text, fresh in answered]
        )

    def _releases(
        self, asked: Sequence[Request], released: Sequence[tuple[int, str, bool]]
    ) -> tuple[Release[Json], ...]:
        """Return the releases; under a key, with the facts of the day on which they were paid."""
        asks = list(zip(asked, released, strict=True))
        keyed = {entry for request, (entry, *_) in asks if request.contents is not None}
        published = {}
        if keyed:
            with self._access.reading() as book:
                published = find_published(book, keyed)
        found = []
        for request, (entry, text, fresh) in asks:
            paid = published.get(entry, Published(request.event, "", None))
            stale = paid.contents != request.contents
            found.append(Release(json.loads(text), entry, paid.event, fresh, paid.facts, stale))
        return tuple(found)

    def statement(self, dataset: str, *, entries: int | None = None) -> Statement:
        """Return a data set's budget, spend and entries, recomputed from the stored events.

        Parameters
        ----------
        dataset
            Its name in the ledger.
        entries
            Number of newest entries to list; None for all. The totals always count all entries.
        """
        _check_n_entries(entries)
        with self._access.reading() as book:
            check_chain(book, self._access.store.place, newest=NEWEST)
            required_budget(book, dataset)
            return read_statement(book, dataset, newest=entries)

    def statements(self, *, entries: int | None = None) -> tuple[Statement, ...]:
        """Return the statements of all data sets, by name, as of one moment.

        `entries` is as for `statement`; the chain's newest rows are checked once for all.
        """
        _check_n_entries(entries)
        with self._access.reading() as book:
            check_chain(book, self._access.store.place, newest=NEWEST)
            names = dataset_names(book)
            for name in names:
                required_budget(book, name)
            return tuple(read_statement(book, name, newest=entries) for name in names)

    def datasets(self) -> tuple[str, ...]:
        """Return the names of the data sets that have a budget, sorted."""
        with self._access.reading() as book:
            return dataset_names(book)

    def time_of(self, entry: int, *more: int) -> str:
        """Return when an entry was paid, or the last of several entries, in ISO 8601 and UTC."""
        with self._access.reading() as book:
            return time_of(book, (entry, *more))

    def paid_parts(self, dataset: str) -> set[tuple[Part, int]]:
        """Return the paid cells, each with its number of records at the time of payment."""
        with self._access.reading() as book:
            return paid_parts(book, dataset)

    def verify(self) -> int:
        """Check the whole chain of rows; return the number of rows, which only grows.

        Raises
        ------
        LedgerError
            If a row does not fit; the message names it, such as "entry 17". Or if tables, triggers or the
            file itself are not as they must be.
        """
        return self._check()

    def head(self) -> Head:
        """Return the present end of the chain of rows, to be kept outside the ledger."""
        with self._access.reading() as book:
            return read_head(book)

    def lacking(self, heads: Iterable[Head]) -> tuple[Head, ...]:
        """Return the earlier heads that are not part of this ledger's chain.

        Parameters
        ----------
        heads
            Earlier results of `head`.

        Notes
        -----
        **Guarantees.** No head is returned while rows are only added, by anyone. If the ledger was replaced
        by an earlier copy, every head of a lost row is returned, even after other rows have taken its
        place.
        """
        given = _listed("heads", heads, Head)
        with self._access.reading() as book:
            return heads_lacking(book, given)

    def backup(self, path: Path) -> None:
        """Write a copy of the ledger's file to a new one, of mode 0600, consistent while in use.

        The copy opens with the same key. It lacks what is spent after it is made: put it in the ledger's
        place only with a record of that.

        Raises
        ------
        LedgerError
            If there is a file at `path`, or it cannot be written, or the ledger is in a server's database:
            the server has its own tool for backups.
        """
        self._access.store.backup(Path(path).absolute())


def _listed(what: str, given: Iterable[T], kind: type | None = None) -> list[T]:
    """Return the items as a list; raise TypeError, which shows types alone, for other things.

    Without a kind each item is checked at its use.
    """
    if not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list, got {type(given).__name__}")
    listed = list(given)
    for one in listed:
        if not (kind is None or isinstance(one, kind)):
            raise TypeError(f"{what} must be {kind.__name__} objects, got {type(one).__name__}")
    return listed


def _rows(what: str, given: Iterable[T], *parts: str) -> list[T]:
    """Return rows with one item for each named part; raise TypeError, which shows types alone, for others."""
    rows = _listed(what, given)
    for row in rows:
        if not (isinstance(row, Sequence) and len(row) == len(parts)):
            named = f"{', '.join(parts[:-1])} and {parts[-1]}"
            raise TypeError(f"each of {what} must be {named}, got {type(row).__name__}")
    return rows


def _check_n_entries(entries: int | None) -> None:
    if entries is not None and not (is_whole(entries) and 0 <= entries < 2**63):
        raise ValueError(f"entries must be an integer >= 0 or None, got entries={entries}")


def _system_noise() -> Noise:
    """Return the noise source; called before anything is paid."""
    from privacy.noise import SystemNoise  # here: OpenDP is slow to load, and readers draw nothing

    return SystemNoise()


def store_at(where: Path | str) -> Store:
    """Return the store that a path or a URL names."""
    if not isinstance(where, str | Path):
        raise TypeError(f"a ledger must be at a path or URL, got {type(where).__name__}")
    if isinstance(where, str) and "://" in where:
        return PostgresStore.at(where)
    return SqliteStore(Path(where).absolute())

"""The one door through which private data leaves: no payment, no noise.

Each data set has a budget. A release is booked durably before its noise is drawn, stored before it
is returned, and paid once: the same mechanism on the same data returns the stored value. A crash can
leave a release paid and not drawn; asking again draws it under the same payment, because no value was
returned before. `Ledger` is used as in its examples; the steps of a release stand in
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

NEWEST = 10_000  # rows of the chain that every opening follows: a tenth of a second

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
        Record of the draw.
    fresh
        False where the value was stored before. Public only for interactions and under a publication
        key: elsewhere it shows whether the private data changed since.
    facts
        The public facts of the query that paid, as its `Publication` has them; empty without one.
    stale
        True where the value was drawn under the query's key from other private data than the query's.
        **Not for the public.**
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
    ValueError, TypeError
        If the key has another length or type, or the URL is not of this form.

    Notes
    -----
    **Guarantees.** What is spent never exceeds the budget, with any number of processes; a spend
    is durable before its noise is drawn, and a value is durable before it is returned; the same
    request is paid once and has one value; no plan gives more releases than it paid for; a refusal
    changes nothing, except that an interaction stays paid whose first question is refused; no message
    and no repr shows a private value; no row is deleted or overwritten; a row that was changed, removed
    or added by other means is named by `verify`, among the newest 10,000 rows by every opening and
    statement too, and where it is a budget, a plan or a secret state, by every use.
    **Privacy.** Requests may depend on what was released before (adaptive basic composition of
    the entries' events). Interactions and their questions are known by public things alone, and what
    they return depends on private data through their own noise alone. That a release is stored or
    fresh, the time of an entry, and how long a
    draw took can depend on private data: show releases, and keep the ledger and its statements to
    yourself. Data sets are accounted apart: a task that is in two of them is spent twice.
    **Limits.** A ledger that was set back whole to an earlier copy of itself looks sound, and
    forgets what was spent since: keep its `head` elsewhere, which `lacking` compares. Anyone who can
    write to the ledger's folder can put another file in its place, and with the key can write any
    history: keep both in a folder of mode 0700.

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

    def __deepcopy__(self, memo: dict[int, object]) -> "Ledger":
        return self

    def __getstate__(self) -> str:
        return self._access.store.place  # key and password stay behind

    def __setstate__(self, state: str) -> NoReturn:
        raise TypeError(f"a ledger must be opened where it is used, got a pickled one of {state}")

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *error: object) -> None:
        """End a with-block; each call opens and closes a connection, so nothing is left open."""

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
        """Set a data set's budget where it has none; repeating the same numbers changes nothing.

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
            If the data set has no budget, or more than the new limit is spent already.
        """
        change_limit(self._access, dataset, epsilon, delta)

    def open_plan(self, dataset: str, plan: PlanEvent, *, name: str) -> int:
        """Pay once for the same plan and name; return the entry, under which releases are drawn.

        Raises as `release` does.
        """
        return pay_plan(self._access, dataset, plan, name)

    def afford(
        self,
        requests: Iterable[tuple[Mechanism | Interaction, Query]],
        *,
        plans: Iterable[tuple[str, PlanEvent, str]] = (),
    ) -> None:
        """Check that all of these could be paid, in any order, without paying any.

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
        """Pay for one value, draw it, store it and return it; or return the stored one.

        Parameters
        ----------
        mechanism, query
            What to draw, and from which private data.
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
        """Ask an interaction one question; it is paid when it is first seen, for all questions.

        An interaction is the same while its knobs and its query are, but for the query's private
        arrays; a question is the same while its name is. A name that was asked before returns its
        stored answer, whatever the private arrays are now, and `fresh` is False, which is public here.
        Every call counts in the `History` of those that follow. Raises as `release` does; where the
        question is refused the payment stays, and the next one is answered under it.
        """
        return self.interact_all(mechanism, query, (question,))[0]

    def interact_all(
        self, mechanism: Interaction, query: Query, questions: Sequence[Question]
    ) -> tuple[Release[Json], ...]:
        """Ask questions fixed beforehand, in turn, as `interact` would, in one transaction.

        Notes
        -----
        **Guarantees.** State, budget and answers move as they would question by question; nothing
        returned depends on whether two private arrays are equal; where a question is refused or the
        process dies, none of them was answered and no state has moved.
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
        """Return the releases, with the facts of the day they were paid where a key published them."""
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
            Number of newest entries to list; None for all. The totals are always of all.
        """
        _check_n_entries(entries)
        with self._access.reading() as book:
            check_chain(book, self._access.store.place, newest=NEWEST)
            required_budget(book, dataset)
            return read_statement(book, dataset, newest=entries)

    def statements(self, *, entries: int | None = None) -> tuple[Statement, ...]:
        """Return the statements of all data sets, by name, as they are at one moment.

        `entries` is as for `statement`; the chain's newest rows are followed once for all.
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
        """Return the time at which an entry was paid, the last of several, in ISO 8601 and UTC."""
        with self._access.reading() as book:
            return time_of(book, (entry, *more))

    def paid_parts(self, dataset: str) -> set[tuple[Part, int]]:
        """Return the cells that were paid for, each with the number of records it had then."""
        with self._access.reading() as book:
            return paid_parts(book, dataset)

    def verify(self) -> int:
        """Follow the whole chain of rows; return the number of rows, which only grows.

        Raises
        ------
        LedgerError
            If a row does not fit, by its name, such as "entry 17"; or if tables, triggers or the
            file itself are not what they must be.
        """
        return self._check()

    def head(self) -> Head:
        """Return the present end of the chain of rows, to be kept outside the ledger."""
        with self._access.reading() as book:
            return read_head(book)

    def lacking(self, heads: Iterable[Head]) -> tuple[Head, ...]:
        """Return those of earlier heads that this ledger did not grow from.

        Parameters
        ----------
        heads
            What `head` has returned before.

        Notes
        -----
        **Guarantees.** None is returned while rows are only added, by anyone; after the ledger was
        set back whole, every head of a row that it lost, also once other rows stand there.
        """
        given = _listed("heads", heads, Head)
        with self._access.reading() as book:
            return heads_lacking(book, given)

    def backup(self, path: Path) -> None:
        """Write a copy of the ledger's file to a new one, of mode 0600, consistent while in use.

        The copy opens with the same key. It does not hold what is spent after it was made: put it in
        the ledger's place only with an account of that.

        Raises
        ------
        LedgerError
            If there is a file at `path`, it cannot be written, or the ledger is a server's, which
            has its own tool for it.
        """
        self._access.store.backup(Path(path).absolute())


def _listed(what: str, given: Iterable[T], kind: type | None = None) -> list[T]:
    """Return what was given as a list; raise TypeError, which shows types alone, for other things.

    Without a kind each thing is checked where it is used.
    """
    if not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list, got {type(given).__name__}")
    listed = list(given)
    for one in listed:
        if not (kind is None or isinstance(one, kind)):
            raise TypeError(f"{what} must be {kind.__name__} objects, got {type(one).__name__}")
    return listed


def _rows(what: str, given: Iterable[T], *parts: str) -> list[T]:
    """Return rows of as many parts as are named; raise TypeError, which shows types alone, for others."""
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

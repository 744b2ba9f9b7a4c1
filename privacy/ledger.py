"""The one door through which private data leaves: no payment, no noise.

Each data set has a budget. A release is booked durably before its noise is drawn, stored before it
is returned, and paid once: the same mechanism on the same data returns what is stored. A crash can
leave a release paid and not drawn; asking again draws it under the same payment, as nobody has seen
the first.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Generic, NoReturn, TypeVar

from privacy.booking import (
    BudgetError,
    Request,
    account_of,
    find_answer,
    find_entry,
    insert_answer,
    insert_entries,
    keep_value,
    last_state,
    time_of,
    unpaid,
)
from privacy.budgets import (
    dataset_names,
    find_budget,
    insert_budget,
    limit_of,
    required_budget,
    told,
)
from privacy.events import Event
from privacy.fingerprint import fingerprint, question_fingerprint
from privacy.mechanisms import Batched, Interaction, Json, Mechanism, Noise, Question
from privacy.queries import Query, Unit
from privacy.statement import Statement, read_rows, statement_of
from privacy.store import LedgerError, open_store, transaction

__all__ = ["BudgetError", "Ledger", "LedgerError", "Release"]

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
    """Budgets, and the releases paid from them, in one file of mode 0600.

    Parameters
    ----------
    path
        The file, on a local disk; made where there is none. Its folder must exist.
    key
        Secret of 16 to 64 bytes for the fingerprints of private data; the same one every time.

    Raises
    ------
    LedgerError
        If the file is damaged, cannot be written, is of an unknown version, or has another key.
    ValueError
        If the key has another length.

    Notes
    -----
    **Guarantees.** What is spent never exceeds the budget, with any number of processes; a spend
    is durable before its noise is drawn, and a value is durable before it is returned; the same
    request is paid once and has one value; a refusal changes nothing; no message and no repr
    tells a private value; nothing in the file is deleted or overwritten.
    **Privacy.** Requests may depend on what was released before (adaptive basic composition of
    the entries' events). That a request is stored or fresh, the time of an entry, and how long a
    draw took can depend on private data: show releases, and keep the ledger and its statements to
    yourself. Data sets are accounted apart: what is in two of them is spent twice. Who can write
    the file can undo all of this.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from privacy.lattice_laplace import LatticeLaplace
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

    def __init__(self, path: Path, *, key: bytes) -> None:
        if not 16 <= len(key) <= 64:
            raise ValueError(f"key must be of 16 to 64 bytes, got {len(key)}")
        self._path, self._key = Path(path).absolute(), bytes(key)
        open_store(self._path, self._key)

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r})"

    def __deepcopy__(self, memo: dict[int, object]) -> "Ledger":
        return self

    def __getstate__(self) -> str:
        return str(self._path)  # the key stays behind

    def __setstate__(self, state: str) -> NoReturn:
        raise TypeError(f"a ledger must be opened where it is used, got a pickled one of {state}")

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End a with-block; each call opens and closes the file, so nothing is left open."""

    def open_budget(
        self, dataset: str, *, unit: Unit, epsilon: float, delta: float, n: int
    ) -> None:
        """Set a data set's budget where it has none; repeating the same numbers changes nothing.

        Parameters
        ----------
        dataset
            Its name in the ledger.
        unit
            What the budget protects; every query must cover it.
        epsilon, delta
            The limit for all releases together; epsilon > 0, 0 <= delta < 1/n.
        n
            Public number of records today; it may grow.

        Raises
        ------
        ValueError
            If a number breaks these conditions.
        LedgerError
            If the data set has a budget with another unit, epsilon or delta.
        """
        unit, limit = Unit(unit), limit_of(epsilon, delta, n)
        with transaction(self._path) as connection:
            found = find_budget(connection, dataset)
            if found is None:
                insert_budget(connection, dataset, unit, epsilon, delta, n)
            elif (found.unit, found.limit) != (unit, limit):
                raise LedgerError(
                    f"the budget of {dataset!r} is {told(found.limit)} for the unit "
                    f"'{found.unit}', got {told(limit)} for '{unit}'; change_budget changes the "
                    "numbers and records it, and another unit needs another data set name"
                )

    def change_budget(self, dataset: str, *, epsilon: float, delta: float) -> None:
        """Set another limit for a data set; the statement keeps the history.

        Raises
        ------
        ValueError
            If not epsilon > 0 and 0 <= delta < 1/n.
        LedgerError
            If the data set has no budget, or more than the new limit is spent already.
        """
        with transaction(self._path) as connection:
            found = required_budget(connection, dataset)
            limit = limit_of(epsilon, delta, found.n)
            spent = account_of(connection, dataset).spent
            if not spent.within(limit):
                raise LedgerError(
                    f"the budget of {dataset!r} must cover what is spent, {told(spent)}, got "
                    f"{told(limit)}"
                )
            insert_budget(connection, dataset, found.unit, epsilon, delta, found.n)

    def afford(self, requests: Iterable[tuple[Mechanism | Interaction, Query]]) -> None:
        """Check that all of these could be paid, in any order, without paying any.

        Raises as `release` does; what is paid already costs nothing.
        """
        asked = [self._request(mechanism, query) for mechanism, query in requests]
        with transaction(self._path) as connection:
            unpaid(connection, asked)

    def release(self, mechanism: Mechanism, query: Query) -> Release[Json]:
        """Pay for one value, draw it, store it and return it; or return the stored one.

        Raises
        ------
        BudgetError
            If the budget does not cover it.
        UnitError
            If the query's unit does not cover the budget's.
        LedgerError
            If the data set has no budget, or the file refuses.
        ValueError, TypeError
            If the mechanism refuses the query.

        Notes
        -----
        If the draw itself raises, the payment stays; asking again draws under it.
        """
        return self.release_all(mechanism, (query,))[0]

    def release_all(
        self, mechanism: Mechanism, queries: Sequence[Query]
    ) -> tuple[Release[Json], ...]:
        """Release many queries as `release` would, all of them or, where not affordable, none."""
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"mechanism must draw, got {type(mechanism).__name__}")
        asked = [self._request(mechanism, query) for query in queries]
        noise = _system_noise()
        paid = self._pay(asked)
        missing = {
            entry: request
            for request in asked
            for entry, value in [paid[request.fingerprint]]
            if value is None
        }
        drawn = _draw(mechanism, [request.query for request in missing.values()], noise)
        stored = self._store(dict(zip(missing, drawn, strict=True)))
        releases = []
        for request in asked:
            entry, value = paid[request.fingerprint]
            text, fresh = (value, False) if value is not None else stored[entry]
            releases.append(Release(json.loads(text), entry, request.event, fresh))
        return tuple(releases)

    def interact(self, mechanism: Interaction, query: Query, question: Question) -> Release[Json]:
        """Ask an interaction one question; it is paid when it is first seen, for all questions.

        The next state is stored in the transaction of the answer; a repeated question returns the
        stored answer and moves no state. Raises as `release` does.
        """
        if not isinstance(mechanism, Interaction):
            raise TypeError(f"mechanism must answer questions, got {type(mechanism).__name__}")
        request = self._request(mechanism, query)
        asked = question_fingerprint(question, key=self._key)
        noise = _system_noise()
        entry, _ = self._pay([request])[request.fingerprint]
        with transaction(self._path) as connection:
            known = find_answer(connection, entry, asked)
            if known is not None:
                return Release(json.loads(known), entry, request.event, fresh=False)
            last = last_state(connection, entry)
            state = mechanism.start(query, noise) if last is None else json.loads(last)
            following, value = map(_text, mechanism.answer(state, question, noise))
            insert_answer(connection, entry, question.name, asked, state=following, value=value)
        return Release(json.loads(value), entry, request.event, fresh=True)

    def statement(self, dataset: str) -> Statement:
        """Budget, spend and entries of a data set, recomputed from the stored events."""
        with transaction(self._path) as connection:
            required_budget(connection, dataset)
            budgets, entries = read_rows(connection, dataset)
        return statement_of(dataset, budgets, entries)

    def datasets(self) -> tuple[str, ...]:
        """Names of the data sets that have a budget, sorted."""
        with transaction(self._path) as connection:
            return dataset_names(connection)

    def time_of(self, entry: int) -> str:
        """When an entry was paid, in ISO 8601 and UTC."""
        with transaction(self._path) as connection:
            return time_of(connection, entry)

    def _request(self, mechanism: Mechanism | Interaction, query: Query) -> Request:
        event = mechanism.event(query)
        mark = fingerprint(mechanism, query, event, key=self._key)
        return Request(mechanism, query, event, mark)

    def _pay(self, asked: Sequence[Request]) -> dict[bytes, tuple[int, str | None]]:
        """Book what is not paid yet, durably; entry and stored value by fingerprint."""
        with transaction(self._path) as connection:
            insert_entries(connection, unpaid(connection, asked))
            found = {one.fingerprint: find_entry(connection, one.fingerprint) for one in asked}
        return {mark: entry for mark, entry in found.items() if entry is not None}

    def _store(self, drawn: dict[int, Json]) -> dict[int, tuple[str, bool]]:
        """Store values where none is; the stored text, and whether it is this one, by entry."""
        if not drawn:
            return {}
        texts = {entry: _text(value) for entry, value in drawn.items()}
        with transaction(self._path) as connection:
            return {entry: keep_value(connection, entry, text) for entry, text in texts.items()}


def _draw(mechanism: Mechanism, queries: Sequence[Query], noise: Noise) -> list[Json]:
    if isinstance(mechanism, Batched):
        return mechanism.draw_all(queries, noise) if queries else []
    return [mechanism.draw(query, noise) for query in queries]


def _system_noise() -> Noise:
    """The noise source, found before anything is paid; its import is too slow for every reader."""
    from privacy.noise import SystemNoise

    return SystemNoise()


def _text(value: Json) -> str:
    return json.dumps(value, allow_nan=False)

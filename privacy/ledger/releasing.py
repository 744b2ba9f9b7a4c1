"""The steps of a release: it is paid durably, then drawn, then stored durably.

A process may die at any time. Before `pay` ends nothing is spent and nothing is drawn. Between `pay` and
the end of `keep`, or of an answer's transaction, the spend stays, and asking again draws under the same
payment, as no value was returned. After that the value is stored.

The ledger recognises a request by a keyed fingerprint of the mechanism, its event and the private data. It
recognises an interaction, and each of its questions, by public things alone: stored answers are returned
free of charge, and would otherwise show whether two private arrays are equal. A bare hash of a small
private value can be inverted by trying all values; a keyed hash cannot be without the key, which stays
beside the ledger and never leaves the machine.

>>> import numpy as np
>>> from privacy import Query, Unit
>>> from privacy.mechanisms import LatticeLaplace
>>> query = Query("toy", "class counts", np.array([3, 1]), Unit.CONSENSUS_LABEL, n=4, l1=2.0)
>>> one, same, other = (request_of(LatticeLaplace(e), query, key=bytes(32)) for e in (1.0, 1.0, 2.0))
>>> one.fingerprint == same.fingerprint, one.fingerprint == other.fingerprint
(True, False)
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

import numpy as np
from sqlalchemy import func, select

from privacy.accounting import Event, PlanEvent, PlannedEvent, as_declared, event_json
from privacy.ledger.publication import (
    check_keys_are_unused,
    check_same_size,
    check_undrawn,
    public_identity,
)
from privacy.ledger.records import (
    Access,
    Book,
    Budget,
    account_of,
    append,
    hold,
    last_row,
    last_rows,
    lock,
    read_events,
    required_budget,
    rows_where,
)
from privacy.ledger.spending import BudgetError, check_slots
from privacy.ledger.store import LedgerError, answers, entries, releases
from privacy.mechanism import Batched, History, Interaction, Json, Mechanism, Noise, Question
from privacy.query import Query, UnitError

__all__ = [
    "PlanPayment",
    "Request",
    "answer",
    "fingerprint",
    "pay_plan",
    "plan_request",
    "release",
    "request_of",
    "unpaid",
]

PAID = select(entries.c.fingerprint, entries.c.entry, releases.c.value).join_from(
    entries, releases, entries.c.entry == releases.c.entry, isouter=True
)
STORED = select(releases.c.entry, releases.c.value)

_text = json.JSONEncoder(allow_nan=False).encode
_header = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A requested release, its event, and the fingerprint by which the ledger recognises it.

    `slot` names the plan that has paid for it, if any; it is then the event on record. `contents` is a
    keyed digest of the private data of a query with a publication key, whose fingerprint leaves these data
    out.
    """

    mechanism: Mechanism | Interaction
    query: Query
    event: Event
    fingerprint: bytes = field(repr=False)  # equal fingerprints show that data are equal
    slot: PlannedEvent | None = None
    contents: bytes | None = field(default=None, repr=False)


def request_of(
    mechanism: Mechanism | Interaction, query: Query, *, key: bytes, plan: int | None = None
) -> Request:
    """Return a mechanism's request; raise TypeError for a plan's event, or if it draws and answers."""
    if not isinstance(query, Query):  # the message shows no value
        raise TypeError(f"query must be a Query, got {type(query).__name__}")
    if isinstance(mechanism, type) or not hasattr(mechanism, "event"):
        given = mechanism if isinstance(mechanism, type) else type(mechanism)
        raise TypeError(f"mechanism must be one with its price, got {given.__name__}")
    event = mechanism.event(query)
    if isinstance(event, PlanEvent | PlannedEvent):
        raise TypeError(
            f"a mechanism's event must be of a kind that draws noise, got {type(event).__name__}; "
            "open_plan pays for plans"
        )
    if _answers(type(mechanism)) and isinstance(mechanism, Mechanism):
        raise TypeError(  # one payment would give both a value and answers
            f"a mechanism must draw values or answer questions, not both, got {type(mechanism).__name__}"
        )
    mark = fingerprint(mechanism, query, event, key=key)
    slot = None if plan is None else PlannedEvent(plan, event_json(event))
    contents = None if query.publication is None else _digest({}, _arrays(query), key)
    return Request(mechanism, query, event, mark, slot, contents)


@dataclass(frozen=True, slots=True)
class PlanPayment:
    """The mechanism on record for an entry that pays for a plan; it draws nothing."""

    plan: PlanEvent

    def event(self, query: Query) -> PlanEvent:
        """Return the plan."""
        return self.plan

    def draw(self, query: Query, noise: Noise) -> NoReturn:
        """Raise TypeError: values are drawn from the plan's slots."""
        raise TypeError("a plan itself draws nothing")


def plan_request(book: Book, dataset: str, plan: PlanEvent, name: str) -> Request:
    """Return the request that pays for a plan; the same for the same plan of the same name."""
    if not isinstance(plan, PlanEvent):
        raise TypeError(f"plan must be a PlanEvent, got {type(plan).__name__}")
    budget = required_budget(book, dataset)
    query = Query(dataset, name, np.zeros(0), budget.unit, budget.n, l1=np.inf)
    payment = PlanPayment(plan)
    return Request(payment, query, plan, fingerprint(payment, query, plan, key=book.key))


def fingerprint(
    mechanism: Mechanism | Interaction, query: Query, event: Event, *, key: bytes
) -> bytes:
    """Return a keyed digest of a mechanism, its knobs, its event, and the query.

    It includes the query's private arrays, except for an interaction; under a publication key it includes
    the query's public identity in their place.
    """
    if query.publication is not None:
        return _digest(public_identity(query, _describe(mechanism)), {}, key)
    part = None if query.part is None else (query.part.partition, query.part.name)
    public = {
        "mechanism": _describe(mechanism),
        "event": event_json(event),
        "query": [
            query.dataset,
            query.name,
            str(query.unit),
            int(query.n),
            float(query.l1).hex(),
            part,
        ],
    }
    return _digest(public, {} if _answers(type(mechanism)) else _arrays(query), key)


@cache
def _answers(kind: type) -> bool:
    """Return whether mechanisms of a class answer questions, cached: a check of the protocol is slow."""
    return issubclass(kind, Interaction)


def _arrays(query: Query) -> Mapping[str, np.ndarray]:
    return {"": query.value} if isinstance(query.value, np.ndarray) else query.value


def _digest(public: Mapping[str, Any], arrays: Mapping[str, np.ndarray], key: bytes) -> bytes:
    """Return a digest of a header with names, types and shapes, then of the arrays' bytes in its order."""
    names = sorted(arrays)
    shapes = [(name, arrays[name].dtype.str, arrays[name].shape) for name in names]
    header = _header({**public, "arrays": shapes}).encode()
    digest = hashlib.blake2b(key=key, digest_size=32)
    digest.update(len(header).to_bytes(8, "little") + header)
    for name in names:
        for one in _without_padding(arrays[name]):
            digest.update(np.ascontiguousarray(one).reshape(-1).data)  # its bytes, not copied
    return digest.digest()


def _without_padding(array: np.ndarray) -> list[np.ndarray]:
    """Return arrays whose bytes are the array's numbers alone: an extended double has unused bytes.

    These differ between equal arrays, which would be paid twice. Three doubles and an exponent hold it.
    """
    if array.dtype.kind != "f" or array.dtype.itemsize <= np.dtype(np.float64).itemsize:
        return [array]
    rest, exponent = np.frexp(array)
    parts = [exponent]
    for _ in range(3):
        parts.append(rest.astype(np.float64))
        with np.errstate(invalid="ignore"):  # of infinity
            rest = rest - parts[-1]
    return parts


def _describe(knob: Any) -> Any:
    """Return JSON that differs if any public knobs differ, nested mechanisms included."""
    if dataclasses.is_dataclass(knob) and not isinstance(knob, type):
        own = {
            one.name: _describe(as_declared(one, getattr(knob, one.name)))
            for one in dataclasses.fields(knob)
        }
        # a mechanism that draws and one that answers differ: under a key they would share a payment
        kind = type(knob)
        return {"type": kind.__qualname__, "answers": _answers(kind), "fields": own}
    if isinstance(knob, tuple):
        return [_describe(one) for one in knob]
    if knob is None or isinstance(knob, bool | int | float | str):
        return knob
    raise TypeError(
        "a mechanism must be a frozen dataclass of numbers, strings, tuples and such dataclasses, "
        f"got {type(knob).__name__}"
    )


def release(
    access: Access, mechanism: Mechanism, asked: Sequence[Request], noise: Noise
) -> list[tuple[int, str, bool]]:
    """Pay for requests, draw and store missing values; return for each entry, text, and freshness."""
    paid = pay(access, asked)
    missing = {
        entry: request
        for request in asked
        for entry, value in [paid[request.fingerprint]]
        if value is None
    }
    drawn = _draw(mechanism, [request.query for request in missing.values()], noise)
    values = {
        entry: (_text(value), request.contents)
        for (entry, request), value in zip(missing.items(), drawn, strict=True)
    }
    kept = keep(access, {one.query.dataset for one in missing.values()}, values)
    released = []
    for request in asked:
        entry, value = paid[request.fingerprint]
        released.append((entry, *kept[entry]) if value is None else (entry, value, False))
    return released


def pay(
    access: Access, asked: Sequence[Request], *, check: Callable[[], object] | None = None
) -> dict[bytes, tuple[int, str | None]]:
    """Book unpaid requests; return the entry and stored value of each request by fingerprint.

    If any is unpaid, `check` is called first; if it raises, nothing is booked.
    """
    with access.writing() as book:
        new = unpaid(book, asked)
        if new and check is not None:
            check()
        planned = [(one.query, one.slot) for one in new if one.slot is not None]
        if planned:
            check_slots(book, planned)
        insert_entries(book, new)
        return find_entries(book, asked)


def pay_plan(access: Access, dataset: str, plan: PlanEvent, name: str) -> int:
    """Book a plan unless it is already paid; return its entry."""
    with access.writing() as book:
        request = plan_request(book, dataset, plan, name)
        insert_entries(book, unpaid(book, [request]))
        return find_entries(book, [request])[request.fingerprint][0]


def unpaid(book: Book, asked: Sequence[Request]) -> list[Request]:
    """Return requests without an entry, each once; raise BudgetError unless budgets cover them all.

    Until the transaction ends no other can spend from their data sets.
    """
    datasets = list(dict.fromkeys(one.query.dataset for one in asked))
    lock(book, *datasets)
    paid = find_entries(book, asked)
    new = {one.fingerprint: one for one in asked if one.fingerprint not in paid}
    _check_keys(book, asked, paid)
    for dataset in datasets:
        budget = required_budget(book, dataset)
        for one in asked:
            if one.query.dataset == dataset:
                _check_query(one.query, budget)
        fresh = [one for one in new.values() if one.query.dataset == dataset]
        priced = [one for one in fresh if one.slot is None]  # the others are paid by their plan
        if priced:
            _check_afford(book, budget, priced)
    return list(new.values())


def _check_keys(
    book: Book, asked: Sequence[Request], paid: Mapping[bytes, tuple[int, str | None]]
) -> None:
    """Raise LedgerError if a publication key would be drawn twice, or for other records than those paid."""
    keyed = {one.fingerprint: one for one in asked if one.query.publication is not None}
    for mark, one in keyed.items():
        entry, value = paid.get(mark, (None, None))
        if entry is not None and value is None:
            check_undrawn(book, one.query, one.event, entry)
    if new := [one.query for mark, one in keyed.items() if mark not in paid]:
        check_keys_are_unused(book, new)


def _check_query(query: Query, budget: Budget) -> None:
    if not query.unit.covers(budget.unit):
        raise UnitError(
            f"the budget of {query.dataset!r} protects the unit '{budget.unit}', which a guarantee "
            f"for the unit '{query.unit}' does not cover"
        )
    if not budget.limit.delta * query.n_records < 1:
        raise LedgerError(
            f"the budget's delta must be < 1/n, got n={query.n_records}; lower delta with change_budget"
        )


def _check_afford(book: Book, budget: Budget, new: Sequence[Request]) -> None:
    dataset = new[0].query.dataset
    account = account_of(book, dataset)
    before = account.spent
    for one in new:
        account.add(one.query.part, one.event.cost())
    if not account.spent.within(budget.limit):
        raise BudgetError(dataset, budget.unit, budget.limit, before, account.spent - before)


def find_entries(book: Book, asked: Sequence[Request]) -> dict[bytes, tuple[int, str | None]]:
    """Return the entry and stored value, if any, of recorded requests, by fingerprint."""
    marks = [one.fingerprint for one in asked]
    rows = rows_where(book, PAID, entries.c.fingerprint, marks)
    return {row.fingerprint: (row.entry, row.value) for row in rows}


def insert_entries(book: Book, requests: Sequence[Request]) -> None:
    """Record the entries of these spends."""
    if not requests:
        return
    hold(book)  # so that the next number is this transaction's
    last = book.connection.scalar(select(func.max(entries.c.entry))) or 0
    rows = [
        {
            "entry": entry,
            "dataset": one.query.dataset,
            "query": one.query.full_name,
            "unit": str(one.query.unit),
            "n": int(one.query.n),
            "partition": None if one.query.part is None else one.query.part.partition,
            "cell": None if one.query.part is None else one.query.part.name,
            "mechanism": type(one.mechanism).__qualname__,
            "event": event_json(one.slot or one.event),
            "fingerprint": one.fingerprint,
            "facts": None if one.query.publication is None else one.query.publication.facts,
        }
        for entry, one in enumerate(requests, start=last + 1)
    ]
    append(book, entries, rows)


def _draw(mechanism: Mechanism, queries: Sequence[Query], noise: Noise) -> list[Json]:
    if isinstance(mechanism, Batched):
        return mechanism.draw_all(queries, noise) if queries else []
    return [mechanism.draw(query, noise) for query in queries]


def keep(
    access: Access, datasets: Collection[str], values: Mapping[int, tuple[str, bytes | None]]
) -> dict[int, tuple[str, bool]]:
    """Store values of entries that have none, each with the digest of the data that it was drawn from.

    Return the stored text of each entry, and whether it is the text given here.
    """
    if not values:
        return {}
    with access.writing() as book:
        lock(book, *datasets)
        return keep_values(book, values)


def keep_values(
    book: Book, values: Mapping[int, tuple[str, bytes | None]]
) -> dict[int, tuple[str, bool]]:
    """Store values as `keep` does, in a transaction that holds the data sets' locks."""
    rows = rows_where(book, STORED, releases.c.entry, list(values))
    kept = {row.entry: row.value for row in rows}
    new = [
        {"entry": entry, "contents": contents, "value": text}
        for entry, (text, contents) in values.items()
        if entry not in kept
    ]
    append(book, releases, new)
    return {
        entry: (kept.get(entry, text), entry not in kept) for entry, (text, _) in values.items()
    }


def answer(
    access: Access,
    mechanism: Interaction,
    request: Request,
    questions: Sequence[Question],
    noise: Noise,
) -> tuple[int, list[tuple[str, bool]]]:
    """Pay for a request's mechanism and answer questions; return entry, stored texts, and freshness.

    A repeated name has its stored answer. Every call is a row of its own, and all are stored in one
    transaction.
    """
    marks = [_digest({"question": one.name}, {}, access.key) for one in questions]

    def check() -> None:
        for question in questions:
            mechanism.check(request.query, question)

    entry, _ = pay(access, [request], check=check)[request.fingerprint]
    with access.writing() as book:
        lock(book, request.query.dataset)
        known, past = find_answers(book, entry, marks), _history(book, request, entry)
        if request.query.publication is not None and not known.keys() >= set(marks):
            check_same_size(book, request.query, entry)
        last, contents = last_state(book, entry), None
        if last is None:
            contents = request.contents  # digest of the data that the state is drawn from
            n_calls, number = 0, 1 + len(past.others)
            state = mechanism.start(request.query, noise)
        else:
            n_calls, number, state = last
        answered, given = [], []
        for mark, question in zip(marks, questions, strict=True):
            n_calls += 1
            fresh = mark not in known
            if fresh:
                history = dataclasses.replace(past, asked=past.asked + n_calls, number=number)
                state, value = mechanism.answer(state, question, noise, history)
                known[mark] = _text(value)
            kept = _text([n_calls, number, state])
            state = json.loads(kept)[-1]
            # the mark of a repeated call is never looked up, and only has to differ from all others
            own = mark if fresh else _digest({"call": n_calls}, {}, access.key)
            answered.append((question.name, own, contents, kept, known[mark]))
            contents = None
            given.append((known[mark], fresh))
        insert_answers(book, entry, answered)
    return entry, given


def find_answers(book: Book, entry: int, marks: Sequence[bytes]) -> dict[bytes, str]:
    """Return the stored answers to the questions with these fingerprints."""
    found = select(answers.c.fingerprint, answers.c.value).where(answers.c.entry == entry)
    rows = rows_where(book, found, answers.c.fingerprint, marks)
    return {row.fingerprint: row.value for row in rows}


def last_state(book: Book, entry: int) -> tuple[int, int, Json] | None:
    """Return an interaction's calls, its number and its secret state, from a checked row."""
    last = last_row(book, answers, answers.c.entry, entry)
    return None if last is None else tuple(json.loads(last.state))


def _history(book: Book, request: Request, entry: int) -> History:
    """Return the calls to other interactions with the same rows, and the cost of all of them and this one."""
    dataset, part = request.query.dataset, request.query.part
    shared = (entries.c.dataset == dataset) & (entries.c.entry != entry)
    if part is not None:  # other cells of this partition hold other rows
        here = (entries.c.partition != part.partition) | (entries.c.cell == part.name)
        shared &= entries.c.partition.is_(None) | here
    theirs = answers.c.entry.in_(select(entries.c.entry).where(shared))
    last = {row.entry: row for row in last_rows(book, answers, answers.c.entry, theirs)}
    found = select(entries.c.entry, entries.c.event)
    paid = list(rows_where(book, found, entries.c.entry, list(last)))
    events = read_events(book, dataset, [(None, row.event, 1) for row in paid])
    asked, cost, others = 0, request.event.cost(), []
    for row in paid:
        n_calls, _, state = json.loads(last[row.entry].state)
        asked, cost = asked + n_calls, cost + events[row.event].cost()
        others.append(state)
    return History(asked, 1 + len(others), cost, tuple(others))


def insert_answers(
    book: Book, entry: int, answered: Sequence[tuple[str, bytes, bytes | None, str, str]]
) -> None:
    """Record each call: name, fingerprint, digest of the data if it began the state, state, and answer.

    The stored state includes the numbers of calls and of the interaction.
    """
    names = ("question", "fingerprint", "contents", "state", "value")
    rows = [{"entry": entry, **dict(zip(names, one, strict=True))} for one in answered]
    append(book, answers, rows)

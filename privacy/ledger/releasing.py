"""The steps of a release: paid durably, then drawn, then kept durably.

A process may die anywhere. Before `pay` ends nothing is spent and nothing was drawn; between `pay`
and the end of `keep`, or of an answer's transaction, the spend stays, and asking again draws under
it, as nobody has seen a value; after it the value is stored.

Answers of interactions in the ledger's tables, with the secret states after them.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import Connection, select

from privacy.accounting.plans import PlanEvent
from privacy.ledger.fingerprint import question_fingerprint
from privacy.ledger.records import append, check_row
from privacy.ledger.spending import (
    Request,
    check_slots,
    find_entries,
    insert_entries,
    keep_values,
    now,
    plan_request,
    unpaid,
)
from privacy.ledger.store import Store, answers, batches, lock, transaction
from privacy.mechanism import Batched, Interaction, Json, Mechanism, Noise, Question
from privacy.query import Query

__all__ = ["answer", "find_answers", "insert_answers", "last_state", "pay_plan", "release"]


def find_answers(
    connection: Connection, entry: int, fingerprints: Sequence[bytes]
) -> dict[bytes, str]:
    """The stored answers to the questions with these fingerprints."""
    found = select(answers.c.fingerprint, answers.c.value).where(answers.c.entry == entry)
    return {
        row.fingerprint: row.value
        for marks in batches(fingerprints)
        for row in connection.execute(found.where(answers.c.fingerprint.in_(marks)))
    }


def last_state(connection: Connection, entry: int, *, key: bytes) -> str | None:
    """The secret state after an interaction's last answer, if its row is what was written then."""
    rows = select(answers).where(answers.c.entry == entry)
    last = connection.execute(rows.order_by(answers.c.position.desc()).limit(1)).first()
    if last is None:
        return None
    check_row(connection, answers, last, key=key)
    return str(last.state)


def insert_answers(
    connection: Connection,
    entry: int,
    answered: Sequence[tuple[str, bytes, str, str]],
    *,
    key: bytes,
) -> None:
    """Record name and fingerprint of each question, with the secret state after it and its answer."""
    time = now()
    rows = [
        {
            "time": time,
            "entry": entry,
            "question": question,
            "fingerprint": fingerprint,
            "state": state,
            "value": value,
        }
        for question, fingerprint, state, value in answered
    ]
    append(connection, answers, rows, key=key)


_text = json.JSONEncoder(allow_nan=False).encode


def pay(
    store: Store, asked: Sequence[Request], *, key: bytes
) -> dict[bytes, tuple[int, str | None]]:
    """Book what is not paid yet; entry and stored value of all by fingerprint."""
    with transaction(store) as connection:
        new = unpaid(connection, asked, key=key)
        check_slots(connection, new, key=key)
        insert_entries(connection, new, key=key)
        return find_entries(connection, asked)


def pay_plan(store: Store, dataset: str, plan: PlanEvent, name: str, *, key: bytes) -> int:
    """Book a plan that is not paid yet; its entry."""
    with transaction(store) as connection:
        request = plan_request(connection, dataset, plan, name, key=key)
        insert_entries(connection, unpaid(connection, [request], key=key), key=key)
        return find_entries(connection, [request])[request.fingerprint][0]


def release(
    store: Store, mechanism: Mechanism, asked: Sequence[Request], noise: Noise, *, key: bytes
) -> list[tuple[int, str, bool]]:
    """Values of requests, paid first, drawn where none is stored; entry, text, whether it is new."""
    paid = pay(store, asked, key=key)
    missing = {
        entry: request
        for request in asked
        for entry, value in [paid[request.fingerprint]]
        if value is None
    }
    drawn = _draw(mechanism, [request.query for request in missing.values()], noise)
    texts = dict(zip(missing, map(_text, drawn), strict=True))
    kept = keep(store, {one.query.dataset for one in missing.values()}, texts, key=key)
    told = []
    for request in asked:
        entry, value = paid[request.fingerprint]
        told.append((entry, *kept[entry]) if value is None else (entry, value, False))
    return told


def keep(
    store: Store, datasets: Collection[str], texts: Mapping[int, str], *, key: bytes
) -> dict[int, tuple[str, bool]]:
    """Store values of entries where none is; the stored text, and whether it is this one."""
    if not texts:
        return {}
    with transaction(store) as connection:
        lock(connection, *datasets)
        return keep_values(connection, texts, key=key)


def answer(
    store: Store,
    mechanism: Interaction,
    request: Request,
    questions: Sequence[Question],
    noise: Noise,
    *,
    key: bytes,
) -> tuple[int, list[tuple[str, bool]]]:
    """Answer questions to a request's mechanism, paid first; entry, and stored text and whether new.

    Answers and the states after them are stored in one transaction; a repeated question moves no
    state.
    """
    marks = [question_fingerprint(one, key=key) for one in questions]
    entry, _ = pay(store, [request], key=key)[request.fingerprint]
    with transaction(store) as connection:
        lock(connection, request.query.dataset)
        known = find_answers(connection, entry, marks)
        new = {mark: one for mark, one in zip(marks, questions, strict=True) if mark not in known}
        if new:
            last = last_state(connection, entry, key=key)
            state = mechanism.start(request.query, noise) if last is None else json.loads(last)
            answered = list(_answered(mechanism, state, new, noise))
            insert_answers(connection, entry, answered, key=key)
            known |= {mark: value for _, mark, _, value in answered}
    return entry, [(known[mark], new.pop(mark, None) is not None) for mark in marks]


def _answered(
    mechanism: Interaction, state: Json, questions: Mapping[bytes, Question], noise: Noise
) -> Iterator[tuple[str, bytes, str, str]]:
    """Each question's name and fingerprint, the state after it and its answer, in their order."""
    for mark, question in questions.items():
        following, value = map(_text, mechanism.answer(state, question, noise))
        yield question.name, mark, following, value
        state = json.loads(following)


def _draw(mechanism: Mechanism, queries: Sequence[Query], noise: Noise) -> list[Json]:
    if isinstance(mechanism, Batched):
        return mechanism.draw_all(queries, noise) if queries else []
    return [mechanism.draw(query, noise) for query in queries]

"""The durable steps of a release: paid, then drawn, then kept. Each is one transaction, or nothing.

A process may die anywhere. Before `pay` ends nothing is spent and nothing was drawn; between `pay`
and the end of `keep` the spend stays, and asking again draws under it, as nobody has seen a value;
after it the value is stored.
"""

import json
from collections.abc import Mapping, Sequence

from privacy.answers import find_answer, insert_answer, last_state
from privacy.booking import Request, find_entries, insert_entries, keep_values, unpaid
from privacy.fingerprint import question_fingerprint
from privacy.limits import check_slots, plan_request
from privacy.mechanisms import Interaction, Json, Noise, Question
from privacy.planned import PlanEvent
from privacy.store import Store, lock, transaction

__all__ = ["answer", "keep", "pay", "pay_plan"]


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


def keep(
    store: Store, drawn: Mapping[int, tuple[Request, Json]], *, key: bytes
) -> dict[int, tuple[str, bool]]:
    """Store values where none is; the stored text, and whether it is this one, by entry."""
    if not drawn:
        return {}
    texts = {entry: _text(value) for entry, (_, value) in drawn.items()}
    with transaction(store) as connection:
        lock(connection, *{request.query.dataset for request, _ in drawn.values()})
        return keep_values(connection, texts, key=key)


def answer(
    store: Store,
    request: Request,
    mechanism: Interaction,
    question: Question,
    noise: Noise,
    *,
    key: bytes,
) -> tuple[int, str, bool]:
    """Answer one question to a request's mechanism, paid first; entry, stored text, whether new.

    The next state is stored in the transaction of the answer; a repeated question moves no state.
    """
    asked = question_fingerprint(question, key=key)
    entry, _ = pay(store, [request], key=key)[request.fingerprint]
    with transaction(store) as connection:
        lock(connection, request.query.dataset)
        known = find_answer(connection, entry, asked)
        if known is not None:
            return entry, known, False
        last = last_state(connection, entry)
        state = mechanism.start(request.query, noise) if last is None else json.loads(last)
        following, value = map(_text, mechanism.answer(state, question, noise))
        insert_answer(
            connection, entry, question.name, asked, state=following, value=value, key=key
        )
    return entry, value, True


def _text(value: Json) -> str:
    return json.dumps(value, allow_nan=False)

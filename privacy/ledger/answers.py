"""Answers of interactions in the ledger's tables, with the secret states after them."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from privacy.ledger.budgets import now
from privacy.ledger.records import append, check_row
from privacy.ledger.tables import answers, batches

__all__ = ["find_answers", "insert_answers", "last_state"]


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

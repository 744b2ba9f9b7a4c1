"""Answers of interactions in the ledger's tables, with the secret states after them."""

from sqlalchemy import Connection, select

from privacy.budgets import now
from privacy.chain import append
from privacy.tables import answers

__all__ = ["find_answer", "insert_answer", "last_state"]


def find_answer(connection: Connection, entry: int, fingerprint: bytes) -> str | None:
    """The stored answer to the question with this fingerprint."""
    same = (answers.c.entry == entry) & (answers.c.fingerprint == fingerprint)
    return connection.scalar(select(answers.c.value).where(same))


def last_state(connection: Connection, entry: int) -> str | None:
    """The secret state after an interaction's last answer."""
    states = select(answers.c.state).where(answers.c.entry == entry)
    return connection.scalar(states.order_by(answers.c.position.desc()).limit(1))


def insert_answer(
    connection: Connection,
    entry: int,
    question: str,
    fingerprint: bytes,
    *,
    state: str,
    value: str,
    key: bytes,
) -> None:
    """Record an answer together with the secret state after it."""
    row = {
        "time": now(),
        "entry": entry,
        "question": question,
        "fingerprint": fingerprint,
        "state": state,
        "value": value,
    }
    append(connection, answers, [row], key=key)

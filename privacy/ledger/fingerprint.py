"""Keyed fingerprints: whether the same mechanism meets the same data again, told without the data.

A bare hash of a small private value can be inverted by trying all values; a keyed one cannot
without the key, which stays beside the ledger and never leaves the machine.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from privacy.mechanism import Interaction, Mechanism, Question
from privacy.mechanisms.kinds import Event, event_json
from privacy.query import Query

__all__ = ["fingerprint", "question_fingerprint"]

_header = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


def fingerprint(
    mechanism: Mechanism | Interaction, query: Query, event: Event, *, key: bytes
) -> bytes:
    """Digest of the mechanism with its knobs, of its event, and of the query with its private arrays."""
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
    arrays = {"": query.value} if isinstance(query.value, np.ndarray) else query.value
    return _digest(public, arrays, key)


def question_fingerprint(question: Question, *, key: bytes) -> bytes:
    """Digest of a question: its name and private values."""
    arrays = {name: np.asarray(value) for name, value in question.value.items()}
    return _digest({"question": question.name}, arrays, key)


def _digest(public: Mapping[str, Any], arrays: Mapping[str, np.ndarray], key: bytes) -> bytes:
    """Digest of a header that tells names, types and shapes, then of the arrays' bytes in its order."""
    names = sorted(arrays)
    shapes = [(name, arrays[name].dtype.str, arrays[name].shape) for name in names]
    header = _header({**public, "arrays": shapes}).encode()
    digest = hashlib.blake2b(key=key, digest_size=32)
    digest.update(len(header).to_bytes(8, "little") + header)
    for name in names:
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.digest()


def _describe(knob: Any) -> Any:
    """JSON that tells public knobs apart, nested mechanisms included."""
    if dataclasses.is_dataclass(knob) and not isinstance(knob, type):
        own = {one.name: _describe(getattr(knob, one.name)) for one in dataclasses.fields(knob)}
        return {"type": type(knob).__qualname__, "fields": own}
    if isinstance(knob, tuple):
        return [_describe(one) for one in knob]
    if knob is None or isinstance(knob, bool | int | float | str):
        return knob
    raise TypeError(
        "a mechanism must be a frozen dataclass of numbers, strings, tuples and such dataclasses, "
        f"got {type(knob).__name__}"
    )

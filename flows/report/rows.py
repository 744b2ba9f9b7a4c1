"""Rows of the report's tables: the workers under pseudonyms, the least certain tasks, and whom to ask.

A small crowd is listed whole; of a large one the flagged, the least and the most trusted workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.tables import arrow_array, numpy_array

__all__ = ["SHOWN_TASKS", "planned_rows", "pseudonyms", "task_rows", "worker_rows"]

SHOWN_TASKS = 12
SHOWN_LETTERS = 120  # of what a task is
SHOWN_CLASSES = 4  # that a task was given
SHOWN_ASKED = 20
SHOWN_PER_WORKER = 12


def task_rows(
    tasks: pa.Table, classes: Sequence[str], texts: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the first tasks of a table ranked by uncertainty, with their labels in words.

    `texts` says of some tasks what they are.
    """
    return [
        row
        | {
            "given": _given(row["counts"], row.get("named") or classes),
            "text": _short(texts.get(row["task"], "")),
        }
        for row in tasks[:SHOWN_TASKS].to_pylist()
    ]


def _short(text: str) -> str:
    """Return a text that fits into a cell, without characters that act on the page around it."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= SHOWN_LETTERS else f"{plain[: SHOWN_LETTERS - 1].rstrip()}…"


def planned_rows(plan: pa.Table, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the planned labels by worker, the largest gain first, and how many workers are left out."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for row in plan.to_pylist():
        asked.setdefault(row["worker"], []).append(row)
    rows = [
        {
            "worker": worker,
            "n": len(labels),
            "gain": sum(label["gain"] for label in labels),
            "tasks": [
                (label["task"], _short(texts.get(label["task"], "")))
                for label in labels[:SHOWN_PER_WORKER]
            ],
            "n_more": max(0, len(labels) - SHOWN_PER_WORKER),
        }
        for worker, labels in asked.items()
    ]
    rows.sort(key=lambda row: -row["gain"])
    return {"rows": rows[:SHOWN_ASKED], "n_more": max(0, len(rows) - SHOWN_ASKED)}


def _given(counts: Sequence[int], classes: Sequence[str]) -> list[tuple[int, str | None]]:
    """Return how often a task was given each class, the commonest first; None stands for the others."""
    named = sorted((code for code, n in enumerate(counts) if n), key=lambda code: -counts[code])
    rest = sum(counts[code] for code in named[SHOWN_CLASSES:])
    shown: list[tuple[int, str | None]] = [
        (counts[code], classes[code]) for code in named[:SHOWN_CLASSES]
    ]
    return [*shown, (rest, None)] if rest else shown


SHOWN_WORKERS = 250  # a crowd up to this is listed whole
SHOWN_FLAGGED = 100
SHOWN_KEPT = 5
SHOWN_POINTS = 400


def pseudonyms(names: Iterable[str]) -> Mapping[str, str]:
    """Name workers by the first digits of a digest: `worker 7f3a`, longer if two would be equal.

    Parameters
    ----------
    names
        Worker ids; repeated ones are taken once.

    Returns
    -------
    Mapping
        Id -> pseudonym, the same for the same set of ids; each is made when it is asked for.

    Notes
    -----
    **Guarantees.** Different ids have different pseudonyms.
    The digest has no key: whoever holds a list of ids can recompute it. It keeps ids off a screen
    and out of a mail; it does not make a report anonymous.

    Examples
    --------
    >>> dict(pseudonyms(["A1B2C3", "A9Z8Y7"]))
    {'A1B2C3': 'worker 675c', 'A9Z8Y7': 'worker 7b63'}
    """
    own = dict.fromkeys(names)
    digests = b"".join(map(_digest, own))
    return _Pseudonyms(own, max(4, _common_digits(digests) + 1))  # one more than the closest share


class _Pseudonyms(Mapping[str, str]):
    """The pseudonyms of these ids, of so many digits: of a million workers a report names few."""

    def __init__(self, names: Mapping[str, None], digits: int) -> None:
        self._names, self._digits = names, digits

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return f"worker {_digest(name).hex()[: self._digits]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def _common_digits(digests: bytes) -> int:
    """Return how many leading hexadecimal digits the two closest of these digests share; 0 of one."""
    halves = np.frombuffer(digests, dtype=">u8").reshape(-1, 2).astype(np.uint64)
    first = np.sort(halves[:, 0])
    apart = int((first[1:] ^ first[:-1]).min()) if len(first) > 1 else 0
    if apart:  # the second half of no digest matters
        return 16 - -(-apart.bit_length() // 4)
    halves = halves[np.lexsort((halves[:, 1], halves[:, 0]))]
    if len(halves) < 2:
        return 0
    high, low = (halves[1:] ^ halves[:-1]).T
    closest = int(high.min()) << 64 | int(low[high == high.min()].min())
    return 32 - -(-closest.bit_length() // 4)


def worker_rows(workers: pa.Table) -> dict[str, Any]:
    """Return the workers to list, in parts, and the chart's points; of a large crowd also tenths.

    `workers` is the run's table, ranked: the removed first, then by reputation.
    """
    n_removed = int(pc.sum(workers["flagged"]).as_py() or 0)
    flagged, kept = workers[:n_removed], workers[n_removed:]
    whole = len(workers) <= SHOWN_WORKERS
    parts = [("", workers.to_pylist())] if whole else _ends(flagged, kept)
    return {
        "parts": parts,
        "worst": flagged[:3].to_pylist(),
        "n_flagged": len(flagged),
        "n_kept": len(kept),
        "n_more": len(workers) - sum(len(rows) for _, rows in parts),
        "by_agreement": [] if whole else _by_agreement(workers),
        "flagged_points": _points(flagged),
        "kept_points": _points(kept),
        "thinned": max(len(flagged), len(kept)) > SHOWN_POINTS,
    }


def _ends(flagged: pa.Table, kept: pa.Table) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the flagged, and the least and the most trusted of the others, under their headings."""
    # no conflict, no reputation: the last
    known = kept[: len(kept) - kept["reputation"].null_count]
    shown, highest = flagged[:SHOWN_FLAGGED], known[max(SHOWN_KEPT, len(known) - SHOWN_KEPT) :]
    cut = f"the first {len(shown):,} of " if len(shown) < len(flagged) else ""
    parts = [
        (f"Removed: {cut}{len(flagged):,}", shown.to_pylist()),
        (f"Least trusted of {len(kept):,} kept", known[:SHOWN_KEPT].to_pylist()),
        (f"Most trusted of {len(kept):,} kept", highest.to_pylist()),
    ]
    return [(title, rows) for title, rows in parts if rows]


def _by_agreement(workers: pa.Table) -> list[dict[str, Any]]:
    """Count workers, labels and flagged workers for each tenth of the scale of agreement."""
    known = workers.select(["agreement", "n_labels", "flagged", "soft_penalty"])
    known = known.filter(known["agreement"].is_valid())
    tenth = np.minimum(numpy_array(known["agreement"]) * 10, 9).astype(np.int64)
    n, n_labels, n_flagged, soft_penalty = (
        np.bincount(tenth, weights, minlength=10)
        for weights in (
            None,
            *(numpy_array(known[name]) for name in ("n_labels", "flagged", "soft_penalty")),
        )
    )
    return [
        {
            "low": one / 10,
            "high": (one + 1) / 10,
            "n": int(n[one]),
            "n_labels": int(n_labels[one]),
            "n_flagged": int(n_flagged[one]),
            "soft_penalty": float(soft_penalty[one] / n[one]),
        }
        for one in np.flatnonzero(n).tolist()
    ]


def _points(workers: pa.Table) -> list[tuple[float, float]]:
    """Return agreement and soft penalty of evenly spaced workers, at most `SHOWN_POINTS` of them."""
    step = max(1, -(-len(workers) // SHOWN_POINTS))
    chosen = workers.take(arrow_array(np.arange(0, len(workers), step)))
    pairs = zip(chosen["agreement"].to_pylist(), chosen["soft_penalty"].to_pylist(), strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None]

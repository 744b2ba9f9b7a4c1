"""Why the newest run failed, in a file of the state folder: for runs that nobody watches.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     note_failure(Path(folder), ValueError("labels.csv is empty"), "labels.csv is empty")
...     last_failure(Path(folder))["why"]
'labels.csv is empty'

The sentence may hold what the data hold, so that it stays where the ledger is, open to its owner alone: a
scheduler gets the type of the error, never the sentence.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from flows.files import write_whole

__all__ = ["LAST_FAILURE", "forget_failure", "last_failure", "note_failure"]

LAST_FAILURE = "last_failure.json"


def note_failure(state: Path, error: BaseException, why: str) -> None:
    """Write why a run failed, in place of the failure before; without a state folder nothing is written."""
    if not state.is_dir():
        return
    found = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "error": type(error).__name__,
        "why": why,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"

    def write(aside: Path) -> None:
        opener = partial(os.open, mode=0o600)
        with open(aside, "w", encoding="utf-8", opener=opener) as file:
            file.write(text)

    write_whole(state / LAST_FAILURE, write)


def forget_failure(state: Path) -> None:
    """Remove what `note_failure` wrote: a run has succeeded since."""
    (state / LAST_FAILURE).unlink(missing_ok=True)


def last_failure(state: Path) -> dict[str, str] | None:
    """Return time, error and sentence of the newest run if it failed, else None."""
    path = state / LAST_FAILURE
    if not path.is_file():
        return None
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return found

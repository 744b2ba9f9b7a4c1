"""Lists of workers to block, as platforms read them.

Mechanical Turk reads a CSV on its page Manage > Workers, where "Upload CSV" takes the columns of the file
that "Download CSV" gives. Toloka takes user restrictions, one JSON object each, at `PUT /api/v1/user-
restrictions`. Label Studio reads no list: members are removed from a project by hand.

>>> print(mturk_list([("A1SAMPLE", "answers at random")]), end="")
Worker ID,UPDATE BlockStatus,BlockReason
A1SAMPLE,Block,answers at random
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from flows.choices import BlockedBy
from flows.files import OutputFile
from flows.tables import quoting_of

__all__ = ["mturk_list", "toloka_list", "write_block_list"]

Blocked: TypeAlias = Sequence[tuple[str, str]]
"""Worker ids, each with the reason."""


def mturk_list(workers: Blocked) -> str:
    """Return the CSV that the page Manage > Workers takes; workers do not see the reason."""
    written = io.StringIO(newline="")
    quoting = quoting_of(chain.from_iterable(workers))
    lines = csv.writer(written, lineterminator="\n", quoting=quoting)
    lines.writerow(["Worker ID", "UPDATE BlockStatus", "BlockReason"])
    lines.writerows([worker, "Block", reason] for worker, reason in workers)
    return written.getvalue()


def toloka_list(workers: Blocked) -> str:
    """Return one user restriction a line, for all projects; workers do not see the comment.

    >>> print(toloka_list([("fac97", "answers at random")]), end="")
    {"scope": "ALL_PROJECTS", "user_id": "fac97", "private_comment": "answers at random"}
    """
    restrictions = (
        {"scope": "ALL_PROJECTS", "user_id": worker, "private_comment": reason}
        for worker, reason in workers
    )
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in restrictions)


WRITERS: Mapping[BlockedBy, Callable[[Blocked], str]] = {
    "mturk": mturk_list,
    "toloka": toloka_list,
}


def write_block_list(platform: BlockedBy, workers: Blocked, output: OutputFile) -> None:
    """Write a platform's list of workers to block.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    output.write(partial(Path.write_text, data=WRITERS[platform](workers), encoding="utf-8"))

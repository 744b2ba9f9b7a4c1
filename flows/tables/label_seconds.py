"""How long each label took, from a column of the label table, in the order of the encoded labels."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float64

from flows.tables.text_table import ROW, TableError, open_table, quote, refuse_duplicates
from quality import CrowdLabels

__all__ = ["read_seconds"]


def read_seconds(
    path: Path,
    column: str,
    labels: CrowdLabels,
    *,
    duplicates: Literal["error", "first", "last"],
) -> Float64[np.ndarray, " labels"]:
    """Read one number of seconds per label, at least 0; a blank cell is NaN.

    `labels` are what `read_labels` made of the same file, which has checked the rest.
    """
    table = open_table(path, ("worker", "task", column))
    refuse_duplicates(table, ("worker", "task"), duplicates, "keep one of each")
    cell = quote(column)
    wrong = table.query(
        f"SELECT {ROW}, {cell} FROM t WHERE {cell} IS NOT NULL AND NOT "
        f"coalesce(try_cast({cell} AS DOUBLE) BETWEEN 0 AND 1e300, false) ORDER BY {ROW} LIMIT 1"
    )
    if wrong:
        row, value = wrong[0]
        raise TableError(
            f"{table.file}, row {row}, column {column}: {value!r} must be seconds, at least 0; "
            "mend the cell or leave it blank"
        )
    rows = table.connection.execute(
        f"SELECT worker, task, coalesce(try_cast({cell} AS DOUBLE), 'nan'::DOUBLE) AS s FROM t"
    ).fetchnumpy()
    worker, task = (
        np.searchsorted(names, np.asarray(rows[name], dtype=np.str_))
        for name, names in (("worker", labels.workers), ("task", labels.tasks))
    )
    found = np.empty(labels.n_labels)
    found[np.lexsort((labels.worker, labels.task))] = np.asarray(rows["s"])[
        np.lexsort((worker, task))
    ]
    return found

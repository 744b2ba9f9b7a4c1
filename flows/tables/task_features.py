"""The feature columns of task tables: as numbers, and told where a cell is none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from flows.tables.text_table import ROW, TableError, TextTable, quote

__all__ = ["features_of", "refuse_features", "select_features", "standardized"]

AT_ONCE = 256  # feature columns of one query: in the order of the rows, each sorts them anew


def features_of(table: TextTable, group: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """The feature columns as finite numbers; a fault is told with its row, column and value."""
    features = np.empty((group.size, len(names)))
    for _, cells in select_features(names):
        found = table.connection.execute(f"SELECT {cells} FROM t ORDER BY {ROW}").fetchnumpy()
        for column, values in found.items():
            features[:, int(column[1:])] = values
    n_bad = np.count_nonzero(~np.isfinite(features), axis=1)
    if n_bad.any():
        refuse_features(table, group, names, n_bad)
    return features


def select_features(names: tuple[str, ...]) -> Iterator[tuple[slice, str]]:
    """Columns of a query each, and their numbers in SQL: NaN where a cell holds none."""
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        yield (
            slice(start, start + len(some)),
            ", ".join(
                f"coalesce(try_cast({quote(name)} AS DOUBLE), 'nan') AS v{start + j}"
                for j, name in enumerate(some)
            ),
        )


def refuse_features(
    table: TextTable,
    group: np.ndarray,
    names: tuple[str, ...],
    n_bad: Int[np.ndarray, " tasks"],
) -> None:
    """Say which feature cell is no finite number, from how many are not in each row.

    A group without any feature is said as such.
    """
    row = int(np.flatnonzero(n_bad)[0])
    whole = group == group[row]
    if (n_bad[whole] == len(names)).all():
        raise TableError(
            f"{table.file}: group {str(group[row])!r} has no features ({int(whole.sum()):,} tasks from row "
            f"{row + 1}); give its tasks their features or leave the group out"
        )
    for place, cells in select_features(names):
        found = table.query(f"SELECT {cells} FROM t WHERE {ROW} = ?", row + 1)[0]
        bad = ~np.isfinite(found)
        if bad.any():
            name = names[place][int(bad.argmax())]
            break
    value = table.query(f"SELECT {quote(name)} FROM t WHERE {ROW} = ?", row + 1)[0][0]
    raise TableError(
        f"{table.file}, row {row + 1}, column {name}: a feature must be a finite number, got "
        f"{'a blank cell' if value is None else repr(value)}; fill it, or drop the row or the column"
    )


def standardized(
    features: Float[np.ndarray, "tasks features"],
) -> Float[np.ndarray, "tasks features"]:
    """Each feature centred and divided by its standard deviation over all tasks."""
    spread = features.std(axis=0)
    scaled: np.ndarray = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return scaled

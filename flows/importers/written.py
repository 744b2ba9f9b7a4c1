"""Imported labels written as the table that a run reads, CSV or Parquet."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flows.importers.responses import ImportedLabels
from flows.tables import TableError

__all__ = ["check_output", "write_labels"]

SUFFIXES = (".csv", ".parquet")
Columns = dict[str, Sequence[str] | Sequence[float | None]]


def check_output(output: Path, export: Path) -> None:
    """Raise TableError if the output is the export itself or has another format than CSV and Parquet."""
    if output.suffix not in SUFFIXES:
        raise TableError(f"{output.name}: the output must end in {' or '.join(SUFFIXES)}")
    if output.resolve() == export.resolve():
        raise TableError(f"{output.name} is the export itself; give --output another name")


def write_labels(labels: ImportedLabels, output: Path) -> None:
    """Write worker, task, label, and seconds where any label has them; nothing else."""
    columns: Columns = {
        "worker": list(labels.worker),
        "task": list(labels.task),
        "label": list(labels.label),
    }
    if labels.has_seconds:
        columns["seconds"] = list(labels.seconds)
    write = _write_parquet if output.suffix == ".parquet" else _write_csv
    try:
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=".import-") as folder:
            whole = Path(folder) / "labels"
            write(columns, whole)
            os.replace(whole, output)
    except UnicodeEncodeError:
        raise TableError(f"{labels.file} holds a name that is not Unicode text; mend it") from None
    except OSError as error:
        raise TableError(f"{output} cannot be written: {error.strerror}") from None


def _write_parquet(columns: Columns, path: Path) -> None:
    pq.write_table(pa.table(columns), path)


def _write_csv(columns: Columns, path: Path) -> None:
    cells = {
        name: ["" if v is None else v if isinstance(v, str) else f"{v:.15g}" for v in column]
        for name, column in columns.items()
    }
    # the writer does not quote a lone carriage return, which readers take for the end of a line
    broken = any("\r" in name for column in cells.values() for name in column)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(
            file, lineterminator="\n", quoting=csv.QUOTE_ALL if broken else csv.QUOTE_MINIMAL
        )
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))

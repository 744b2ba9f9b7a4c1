"""The files of a publication without a run: its page, its JSON, and its table as CSV and Parquet.

>>> write_publication(files, page, about, texts={"item"})  # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pyarrow.parquet as pq

from flows.files import OutputFile, output_folder
from flows.tables import arrow_table

__all__ = ["publication_files", "write_publication"]


def publication_files(
    folder: Path, table: str, *, inputs: Sequence[Path] = (), force: bool = False
) -> tuple[OutputFile, ...]:
    """Return the files of a publication in a folder, which is made; checked before anything is paid.

    Parameters
    ----------
    folder, table
        Where the files are to stand, and the name of the two tables among them.
    inputs, force
        Files that are never overwritten, and whether others may be.

    Raises
    ------
    OutputError
        If one of them exists and `force` does not say that it may be overwritten, or it is an input.
    """
    made = output_folder(folder)
    names = "public.html", "release.json", f"{table}.csv", f"{table}.parquet"
    return tuple(OutputFile(made / name, inputs=tuple(inputs), force=force) for name in names)


def write_publication(
    files: Sequence[OutputFile], page: str, about: Mapping[str, Any], *, texts: Set[str]
) -> None:
    """Write the page, `release.json`, and the table as CSV and Parquet, each whole.

    Parameters
    ----------
    files
        As :func:`publication_files` returns them.
    page
        The page that may be shown, HTML.
    about
        What `release.json` says: `format`, `version`, `columns` by name with their meaning, the `rows`, and
        other public facts. The Parquet file carries all of it but the rows, under the format's name.
    texts
        Columns that hold names; the others hold numbers.
    """
    text = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    columns = {name: [row[name] for row in about["rows"]] for name in about["columns"]}
    table = arrow_table(
        {name: cells if name in texts else np.array(cells) for name, cells in columns.items()}
    )
    meaning = {key: value for key, value in about.items() if key != "rows"}
    described = table.replace_schema_metadata(
        {about["format"]: json.dumps(meaning, allow_nan=False)}
    )
    writers = (
        partial(Path.write_text, data=page, encoding="utf-8"),
        partial(Path.write_text, data=text, encoding="utf-8"),
        partial(csv.write_csv, table),
        partial(pq.write_table, described),
    )
    for file, write in zip(files, writers, strict=True):
        file.write(write)

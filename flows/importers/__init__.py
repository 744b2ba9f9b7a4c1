"""Importers: exports of crowdsourcing platforms as tables of worker, task, label and, where known, seconds.

    from flows.importers import import_labels, write_labels
    export = Path("export.csv")
    output = table_file(Path("labels.csv"), inputs=(export,))  # of flows.tables
    write_labels(import_labels(export, "mturk"), output)

One module per platform says which columns or keys make up a label. Nothing else of an export is read,
so nothing else about a worker can reach the output. Names load when they are first used: the list of
formats loads no importer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.importers.formats import FORMATS, FormatName, recognise
    from flows.importers.label_table import import_labels, parse_map, write_labels
    from flows.importers.records import name_in, read_records
    from flows.importers.responses import Dropped, ImportedLabels, Several
    from flows.importers.sheet import open_sheet

__all__ = [
    "FORMATS", "Dropped", "FormatName", "ImportedLabels", "Several", "import_labels", "name_in",
    "open_sheet", "parse_map", "read_records", "recognise", "write_labels",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)

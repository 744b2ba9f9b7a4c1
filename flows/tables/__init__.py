"""Tables of a campaign: found, read, checked and turned into codes; and Arrow tables of results.

    tables = open_sources(settings.input, folder)   # files, folders, patterns or queries, as the
    settings name them labels = read_labels(tables.labels.table, classes=None, duplicates="error",
    known_tasks=None)

A table that cannot be used raises `TableError` with file, row, column, value and what to do. Names load
when they are first used: a query loads SQLAlchemy, a label table DuckDB, and a command that reads no
table neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.tables.arrow import (
        arrow_array,
        arrow_table,
        coded_texts,
        list_array,
        numpy_array,
        read_parquet,
        release_memory,
        text_column,
    )
    from flows.tables.checking import (
        NOTHING,
        Finding,
        LabelCheck,
        check_labels,
        is_free,
        like_models,
        open_lenient,
        spelled_alike,
    )
    from flows.tables.columns import (
        CandidateScores,
        ColumnScale,
        TaskColumns,
        feature_lengths,
        has_lists,
        read_comparisons,
        read_gold_sets,
        read_multilabels,
        read_scores,
        stream_features,
        task_texts,
    )
    from flows.tables.data_frames import (
        Frame,
        ResultTable,
        frame_table,
        plain_table,
        result_table,
        typed_like,
    )
    from flows.tables.dialect import AS_FOUND, Reading
    from flows.tables.fetching import fetch
    from flows.tables.output_tables import (
        OUTPUT_SUFFIXES,
        inputs_of,
        table_file,
        table_files,
        write_table,
    )
    from flows.tables.parquet import parquet_texts
    from flows.tables.refusals import (
        OF_FILE_ALONE,
        ROW,
        TableError,
        literal,
        number,
        quote,
        refuse_duplicates,
        refuse_outside,
        refuse_vocabulary,
        text_of_cell,
        text_of_number,
    )
    from flows.tables.sources import (
        STANDARD_INPUT,
        Sources,
        fetch_rows,
        find_files,
        input_files,
        input_paths,
        is_fetched,
        keep_standard_input,
        open_source,
        open_sources,
        opened_alone,
        reading_of,
    )
    from flows.tables.tables import (
        Gold,
        Reference,
        TaskTable,
        are_known,
        list_tasks,
        read_gold,
        read_labels,
        read_models,
        read_reference,
        read_seconds,
        read_tasks,
        read_texts,
        refuse_gold,
        refuse_hollow,
    )
    from flows.tables.text_table import (
        WHOLE,
        Coded,
        TextTable,
        column_names,
        connected,
        first_fault,
        guess_roles,
        is_number,
        numbers_of,
        open_table,
    )

__all__ = [
    "AS_FOUND",
    "NOTHING",
    "OF_FILE_ALONE",
    "OUTPUT_SUFFIXES",
    "ROW",
    "STANDARD_INPUT",
    "WHOLE",
    "CandidateScores",
    "Coded",
    "ColumnScale",
    "Finding",
    "Frame",
    "Gold",
    "LabelCheck",
    "Reading",
    "Reference",
    "ResultTable",
    "Sources",
    "TableError",
    "TaskColumns",
    "TaskTable",
    "TextTable",
    "are_known",
    "arrow_array",
    "arrow_table",
    "check_labels",
    "coded_texts",
    "column_names",
    "connected",
    "feature_lengths",
    "fetch",
    "fetch_rows",
    "find_files",
    "first_fault",
    "frame_table",
    "guess_roles",
    "has_lists",
    "input_files",
    "input_paths",
    "inputs_of",
    "is_fetched",
    "is_free",
    "is_number",
    "keep_standard_input",
    "like_models",
    "list_array",
    "list_tasks",
    "literal",
    "number",
    "numbers_of",
    "numpy_array",
    "open_lenient",
    "open_source",
    "open_sources",
    "open_table",
    "opened_alone",
    "parquet_texts",
    "plain_table",
    "quote",
    "read_comparisons",
    "read_gold",
    "read_gold_sets",
    "read_labels",
    "read_models",
    "read_multilabels",
    "read_parquet",
    "read_reference",
    "read_scores",
    "read_seconds",
    "read_tasks",
    "read_texts",
    "reading_of",
    "refuse_duplicates",
    "refuse_gold",
    "refuse_hollow",
    "refuse_outside",
    "refuse_vocabulary",
    "release_memory",
    "result_table",
    "spelled_alike",
    "stream_features",
    "table_file",
    "table_files",
    "task_texts",
    "text_column",
    "text_of_cell",
    "text_of_number",
    "typed_like",
    "write_table",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)

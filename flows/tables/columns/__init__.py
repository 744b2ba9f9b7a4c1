"""What columns of a table mean: comparisons, sets of classes; features, embeddings, texts of tasks."""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.tables.columns.comparison_columns import read_comparisons
    from flows.tables.columns.set_columns import read_multilabels
    from flows.tables.columns.task_columns import (
        TaskColumns,
        has_lists,
        list_features_of,
        read_matrix,
        task_texts,
        with_places,
    )

__all__ = [
    "TaskColumns", "has_lists", "list_features_of", "read_comparisons", "read_matrix",
    "read_multilabels", "task_texts", "with_places",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)

"""What columns of a table mean: comparisons; candidates' scores; features, embeddings and texts of tasks."""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.tables.columns.comparison_columns import read_comparisons
    from flows.tables.columns.score_columns import CandidateScores, read_scores
    from flows.tables.columns.task_columns import (
        TaskColumns,
        has_lists,
        list_features_of,
        read_matrix,
        task_texts,
        with_places,
    )

__all__ = [
    "CandidateScores", "TaskColumns", "has_lists", "list_features_of", "read_comparisons", "read_matrix",
    "read_scores", "task_texts", "with_places",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)

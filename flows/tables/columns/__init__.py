"""What columns of a table mean: labels by other names, comparisons, sets, scores, what is known of tasks."""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.tables.columns.comparison_columns import read_comparisons, reading_of_comparisons
    from flows.tables.columns.score_columns import (
        CandidateScores,
        read_scores,
        reading_of_scores,
    )
    from flows.tables.columns.set_columns import read_gold_sets, read_multilabels
    from flows.tables.columns.task_columns import (
        ColumnScale,
        TaskColumns,
        feature_lengths,
        features_of,
        has_lists,
        read_matrix,
        standardized,
        stream_features,
        task_texts,
        with_places,
    )

__all__ = [
    "CandidateScores",
    "ColumnScale",
    "TaskColumns",
    "feature_lengths",
    "features_of",
    "has_lists",
    "read_comparisons",
    "read_gold_sets",
    "read_matrix",
    "read_multilabels",
    "read_scores",
    "reading_of_comparisons",
    "reading_of_scores",
    "standardized",
    "stream_features",
    "task_texts",
    "with_places",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)

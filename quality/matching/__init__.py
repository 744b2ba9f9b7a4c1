"""TODO face of quality.matching."""

from quality.matching.conflicts import conflict_graph, conflict_graph_by_shards, conflict_tasks
from quality.matching.cost_reducing import (
    SemiMatching,
    ascending_rows,
    matching_and_level,
    semi_matching,
)
from quality.matching.dynamic import DynamicMatching
from quality.matching.levels import LoadLevels, connected, first_givers, level_out, load_levels

__all__ = [
    "DynamicMatching",
    "LoadLevels",
    "SemiMatching",
    "ascending_rows",
    "conflict_graph",
    "conflict_graph_by_shards",
    "conflict_tasks",
    "connected",
    "first_givers",
    "level_out",
    "load_levels",
    "matching_and_level",
    "semi_matching",
]

"""Conflicts between workers: the conflict graph, and its semi-matchings, which divide conflicts evenly.

Start with :func:`conflict_graph`: a row for each label node (a conflict task and a class given to it),
joined to the workers who gave that class. :func:`semi_matching` assigns every node to one worker, as evenly
as possible. :func:`load_levels` returns the largest and the smallest load of each worker over all such
optima. :class:`DynamicMatching` keeps an optimum while workers are removed.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
>>> semi_matching(conflict_graph(labels)).load
array([1, 1, 0], dtype=int32)

The other names are for :mod:`quality.reputation`.
"""

from quality.matching.conflicts import conflict_graph, conflict_graph_by_shards, conflict_tasks
from quality.matching.cost_reducing import (
    SemiMatching,
    ascending_rows,
    matching_and_level,
    semi_matching,
)
from quality.matching.dynamic import DynamicMatching
from quality.matching.levels import (
    LoadLevels,
    connected,
    first_givers,
    jobs_of,
    level_out,
    load_levels,
    machine_loads,
)

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
    "jobs_of",
    "level_out",
    "load_levels",
    "machine_loads",
    "matching_and_level",
    "semi_matching",
]  # fmt: skip

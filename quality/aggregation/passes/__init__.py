"""The passes of EM over labels: the E step, with the expected counts, while a task's rows are in cache.

:func:`passes_over` and :func:`shard_passes` cut a table into chunks of tasks and call a kernel for each:
one for models whose workers have confusion matrices, and one for models whose workers err alike whatever
the truth, with two numbers in the place of a matrix's row.
"""

from quality.aggregation.passes.confusion_pass import MIN_ENTRY, PUT
from quality.aggregation.passes.table_passes import (
    MAX_CELLS,
    Counts,
    Mass,
    TablePasses,
    check_cells,
    check_gold,
    coins_pay,
    passes_over,
    shard_passes,
)

__all__ = [
    "MAX_CELLS", "MIN_ENTRY", "PUT", "Counts", "Mass", "TablePasses", "check_cells", "check_gold",
    "coins_pay",     "passes_over", "shard_passes",
]  # fmt: skip

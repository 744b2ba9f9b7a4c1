"""What may be asked of an EM fit: iterations and tolerance, smoothing, tables that fit memory, gold.

>>> check_smoothing(0.0)
Traceback (most recent call last):
ValueError: smoothing must be >= 1e-100 and finite, got smoothing=0.0
"""

import numpy as np
from jaxtyping import Int, Int16

from quality.labels import CrowdLabels, LabelError, LabelShard
from quality.parallel import check_threads

__all__ = ["MAX_CELLS", "check_cells", "check_em", "check_gold", "check_smoothing"]

MAX_CELLS = 2**27  # of the workers' confusion matrices: 1 GB, of which a fit holds four
MIN_ENTRY = 1e-100  # of the smoothing; keeps every entry of a table above the pass's TINY


def check_cells(n_workers: int, n_answers: int, n_truths: int) -> None:
    """Raise LabelError unless confusion matrices of so many workers, answers and truths can be held.

    >>> check_cells(2_000, 40, 40)
    """
    cells = n_workers * n_answers * n_truths
    if cells > MAX_CELLS:
        raise LabelError(
            f"confusion matrices must have at most {MAX_CELLS:,} cells in all, got {cells:,} of "
            f"{n_workers:,} workers, {n_answers:,} answers and {n_truths:,} truths; the aggregators of "
            "quality.many_classes need none",
            column="classes",
        )


def check_em(max_iter: int, tol: float, threads: int | None) -> None:
    """Raise ValueError unless max_iter >= 1, tol >= 0 and threads >= 1 or None."""
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got max_iter={max_iter}")
    if not tol >= 0:
        raise ValueError(f"tol must be >= 0, got tol={tol}")
    check_threads(threads)


def check_smoothing(smoothing: float) -> None:
    """Raise ValueError unless a table smoothed by this keeps entries that the pass can multiply."""
    if not MIN_ENTRY <= smoothing < np.inf:
        raise ValueError(f"smoothing must be >= {MIN_ENTRY} and finite, got smoothing={smoothing}")


def check_gold(
    labels: CrowdLabels | LabelShard, gold: Int[np.ndarray, " tasks"] | None, n_classes: int
) -> Int16[np.ndarray, " tasks"]:
    """Return gold as the pass reads it: one code per task, -1 everywhere where none is given."""
    n_tasks = labels.n_tasks
    if gold is None:
        return np.full(n_tasks, -1, dtype=np.int16)
    if not (gold.dtype.kind in "iu" and gold.shape == (n_tasks,)):
        raise ValueError(
            f"gold must be {n_tasks} class codes, one per task and -1 where unknown, "
            f"got {gold.dtype} of shape {gold.shape}"
        )
    if not ((gold >= -1) & (gold < n_classes)).all():
        raise ValueError(f"gold must be class codes from -1 to {n_classes - 1}")
    return gold.astype(np.int16)

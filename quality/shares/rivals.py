"""Older corrections of class shares, for comparison: gold alone, and Rogan and Gladen's.

>>> gold_alone(np.array([[11, 1], [3, 5]]))
array([0.7, 0.3])
"""

import numpy as np
from jaxtyping import Float64, Int

from quality.argument_types import check_arguments
from quality.shares.intervals import check_gold

__all__ = ["confused_shares", "gold_alone", "rogan_gladen"]

STEPS = 200  # of EM


@check_arguments
def gold_alone(table: Int[np.ndarray, "classes classes"]) -> Float64[np.ndarray, " classes"]:
    """Return the true class shares of the gold tasks, whatever the consensus is.

    Parameters
    ----------
    table
        Gold tasks by consensus (rows) and true class (columns), one or more.

    Raises
    ------
    ValueError
        If `table` is not square, counts no task, or has a negative count.
    """
    if not (table.ndim == 2 and table.shape[0] == table.shape[1] and (table >= 0).all()):
        raise ValueError(
            f"table must be of consensus and true class, numbers >= 0, got shape {table.shape}"
        )
    if not table.sum() >= 1:
        raise ValueError("table must count a gold task or more")
    return np.asarray(table.sum(axis=0) / table.sum())


@check_arguments
def rogan_gladen(
    counts: Int[np.ndarray, " classes"], table: Int[np.ndarray, "classes classes"]
) -> Float64[np.ndarray, " classes"]:
    """Return the class shares under which the counts are likeliest, given the errors of the gold tasks.

    P(f | y) is estimated from the gold tasks (half a task added in each cell), and 200 steps of EM from equal
    shares raise the likelihood of the consensus counts: Rogan and Gladen's estimate, kept within the simplex.

    Parameters
    ----------
    counts
        Consensus labels of each class over all tasks.
    table
        Gold tasks by consensus (rows) and true class (columns).

    Notes
    -----
    **Limits.** P(f | y) must be the same in and out of the gold tasks, which is weaker than a random sample.
    The price is that errors are magnified if classes are often confused, and that the steps stop before
    they converge. With ten classes and half of the labels right, they end within 1e-4 of the maximum; with .3
    right within .003. With two classes and .55 right the distance may be .03 and more.

    References
    ----------
    .. [1] Rogan, Gladen, "Estimating prevalence from the results of a screening test", American
       Journal of Epidemiology 107 (1978).

    Examples
    --------
    >>> rogan_gladen(np.array([60, 40]), np.array([[8, 2], [0, 10]])).round(3)
    array([0.542, 0.458])
    """
    check_gold(counts[None], table[None])
    smooth = table + 0.5
    errors = (smooth / smooth.sum(axis=0))[None]
    return np.asarray(confused_shares(counts[None].astype(np.float64), errors)[0])


def confused_shares(
    counts: Float64[np.ndarray, "groups classes"],
    errors: Float64[np.ndarray, "groups classes classes"],
) -> Float64[np.ndarray, "groups classes"]:
    """Return each group's likeliest class shares by EM; `errors` is P(consensus | truth)."""
    share = np.full(counts.shape, 1.0 / counts.shape[1])
    size = counts.sum(axis=1, keepdims=True)
    for _ in range(STEPS):
        expected = np.einsum("gfy,gy->gf", errors, share)
        share = (
            share * np.einsum("gf,gfy->gy", counts / np.maximum(expected, 1e-300), errors) / size
        )
    return np.asarray(share)

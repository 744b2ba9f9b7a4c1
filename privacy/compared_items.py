"""Points of items that workers compared: a win gives two half points, a tie one to each item.

>>> query = win_points(
...     np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0, 2, 1]), n_items=3, dataset="toy"
... )
>>> query.value, query.n, query.l1
(array([3, 0, 3]), 6, 4.0)
"""

import numpy as np
from jaxtyping import Int

from privacy.query import CountsError, Publication, Query, Unit, check_array, check_classes

__all__ = ["win_points"]

ONE_ANSWER = 4.0  # l1 sensitivity in half points: an answer moves two from one item to the other


def win_points(
    left: Int[np.ndarray, " comparisons"],
    right: Int[np.ndarray, " comparisons"],
    outcome: Int[np.ndarray, " comparisons"],
    *,
    n_items: int,
    dataset: str,
    publication: Publication | None = None,
) -> Query:
    """Count each item's half points: two for a comparison won, one for a tie, 0 for a comparison lost.

    Parameters
    ----------
    left, right
        Codes of the items of each comparison, different from each other; **public**, as are the workers.
    outcome
        0 where the left item was preferred, 1 where the right one was, 2 for a tie; private.
    n_items
        Number of items, from 2 to a million; public.
    dataset
        The ledger's name of the data set.
    publication
        The public key under which the points are published; None for no publication.

    Returns
    -------
    Query
        The points by item; `n` is their sum, two for each comparison. A record is a comparison; the unit is
        one answer.

    Raises
    ------
    CountsError
        If codes or outcomes are out of their range; the message names no comparison.

    Notes
    -----
    **Guarantees.** Points add up to twice the number of comparisons, for all outcomes.

    **Privacy.** Neighbours differ in the outcome of one comparison. It gives its two items the half points
    (2, 0), (0, 2) or (1, 1). Two of these differ by at most 4 in l1 norm, and a win that changes sides
    attains 4. No other item's points move, and nothing is estimated from other answers.
    """
    check_classes(n_items, "n_items")
    for what, codes in (("left", left), ("right", right), ("outcome", outcome)):
        check_array(what, codes)
    same = left.shape == right.shape == outcome.shape and left.ndim == 1 and left.size >= 1
    if not same:
        raise CountsError("comparisons must be one row or more of left, right and outcome")
    if any(one.dtype.kind not in "iu" for one in (left, right, outcome)):
        raise CountsError("items and outcomes must be integer codes")
    items = np.stack([left, right])
    if not ((items >= 0) & (items < n_items)).all() or (left == right).any():
        raise CountsError(f"items must be codes below {n_items}, two different ones in a row")
    if not np.isin(outcome, (0, 1, 2)).all():
        raise CountsError("outcomes must be 0, 1 or 2")
    gained = np.array([2, 0, 1])[outcome.astype(np.intp)]
    left, right = items.astype(np.intp)
    points = np.bincount(left, gained, n_items) + np.bincount(right, 2 - gained, n_items)
    value = points.astype(np.int64)
    value.setflags(write=False)
    return Query(
        dataset, "half points of compared items", value, Unit.ANSWER, 2 * left.size, ONE_ANSWER,
        publication=publication, places=2,
    )  # fmt: skip

"""Euclidean projection onto the simplex: turn noisy counts into possible counts or proportions.

>>> project_to_simplex(np.array([6.0, -2.0, 1.0]), total=7.0)
array([6., 0., 1.])
"""

import numpy as np
from jaxtyping import Float, Real

__all__ = ["project_to_simplex"]


def project_to_simplex(
    value: Real[np.ndarray, " classes"], total: float = 1.0
) -> Float[np.ndarray, " classes"]:
    """Find the nearest point with entries >= 0 that add up to `total`.

    Minimises ||x - value||_2 over x >= 0, sum x = total: x = max(value - shift, 0).

    Parameters
    ----------
    value
        Finite numbers, integers or floating.
    total
        What the result adds up to, > 0 and finite.

    Raises
    ------
    ValueError
        If `value` is not a vector of finite numbers, or `total` not > 0 and finite.

    Notes
    -----
    **Guarantees.** The result lies on the simplex; a point of the simplex is its own projection;
    order is kept; no point of the simplex is nearer.
    **Cost.** One sort.
    **Privacy.** Post-processing: on released values it costs nothing.

    References
    ----------
    .. [1] Duchi, Shalev-Shwartz, Singer, Chandra, "Efficient projections onto the l1-ball for
       learning in high dimensions", ICML (2008), Figure 1.

    Examples
    --------
    >>> project_to_simplex(np.array([6.0, -2.0, 1.0]), total=5.0)
    array([5., 0., 0.])
    """
    value = np.asarray(value, dtype=np.float64)
    if not (value.ndim == 1 and value.size >= 1 and np.isfinite(value).all()):
        raise ValueError(f"value must be a vector of finite numbers, got shape {value.shape}")
    if not 0 < total < np.inf:
        raise ValueError(f"total must be > 0 and finite, got total={total}")
    with np.errstate(over="ignore"):  # what is so far below the largest becomes 0 in any case
        value = value - value.max()  # the projection is the same, and differences are kept
    descending = np.sort(value)[::-1]
    shift = (np.cumsum(descending) - total) / np.arange(1, value.size + 1)
    support = int(np.flatnonzero(descending > shift)[-1])
    return np.asarray(np.maximum(value - shift[support], 0.0))

"""The scale rule of the 2016 paper, kept here for reproduction: it is **not private**.

It takes the largest scale at which the exceedance probability of every single pair is at most
delta. The scale depends on the counts, so that two neighbours release from laws of different
scale, and where one has no scale its error identifies it: the delta claimed does not hold.
Nothing here is a mechanism, and no ledger takes it.

References
----------
.. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016), section 4.1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from privacy.mechanisms.dirichlet_pairs import pair_delta

__all__ = ["paper_scale"]

STEPS = 120
LOW, HIGH = math.log(1e-6), math.log(1e4)


def paper_scale(counts: Sequence[int], epsilon: float, delta: float) -> float | None:
    """Largest scale by the paper's rule, from the counts themselves; None where there is none."""
    times = Counter(counts)
    pairs = [(p, q) for p in times for q in times if p != q or times[p] > 1]

    def fits(log_scale: float) -> bool:
        scale = math.exp(log_scale)
        return all(pair_delta(p, q, scale, epsilon).exceedance <= delta for p, q in pairs)

    width = (HIGH - LOW) / STEPS
    low = next((HIGH - k * width for k in range(STEPS + 1) if fits(HIGH - k * width)), None)
    if low is None:
        return None
    high = low + width
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return math.exp(low)

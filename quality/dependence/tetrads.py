"""Likeness of a handful of workers to a reference, compared with that of their colleagues.

A tetrad compares: (worker, reference) (colleague, colleague) = (worker, colleague) (colleague,
reference), in agreements beyond chance. The worker's skill cancels, and so does common knowledge. A lone
paster of one model answers as another model does, since models err alike: her tetrad is not an equality.

>>> rng = np.random.default_rng(0)
>>> truth = rng.integers(3, size=300)
>>> def draw(mind, share):
...     return np.where(rng.random(300) < share, mind, rng.integers(3, size=300))
>>> mistaken = draw(truth, 0.6)
>>> table = np.stack([draw(mistaken, 0.9), draw(truth, 0.8), draw(truth, 0.8)])
>>> likeness(table, draw(mistaken, 0.8), n_classes=3).evidence.round(1)
array([63.1, -3.5, -3.1])
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

__all__ = ["Likeness", "likeness"]

SPREAD = 0.25  # of honest people's likeness to a reference, as a share of the expected likeness
LEAST = 0.02  # agreement of colleagues beyond chance, in a denominator
UNIT = 4.0  # labels of variance one, added to a worker's own


class Likeness(NamedTuple):
    """Signed square of each worker's excess in standard errors, and the share of labels that explains it."""

    evidence: np.ndarray  # [workers], 0 where nothing can be compared
    share: np.ndarray  # [workers], least share of labels that are the reference's


class _Alike(NamedTuple):
    """Agreement of pairs of labels: beyond chance and scaled, raw, the scale, and the number of pairs."""

    beyond: float
    same: float
    scale: float
    n_pairs: int

    @property
    def variance(self) -> float:
        """Variance of `beyond`, if pairs are independent."""
        return self.same * (1.0 - self.same) / self.scale**2 / self.n_pairs


def likeness(
    table: Int[np.ndarray, "workers tasks"], reference: Int[np.ndarray, " tasks"], *, n_classes: int
) -> Likeness:
    """Compare each worker's agreement with the reference with that expected from her colleagues.

    Parameters
    ----------
    table, reference
        Class codes, -1 where there is no label.
    n_classes
        How many classes there are.

    Notes
    -----
    **Cost.** O(workers² * tasks) for each worker: for a handful of workers.
    """
    known = reference >= 0
    table, reference = table[:, known], reference[known]
    found = [
        _one(table[w], np.delete(table, w, axis=0), reference, n_classes) for w in range(len(table))
    ]
    evidence, share = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return Likeness(evidence, share)


def _one(
    own: np.ndarray, others: np.ndarray, reference: np.ndarray, n_classes: int
) -> tuple[float, float]:
    """Return a worker's evidence and share."""
    to_reference = _alike([(own, reference)], n_classes)
    to_others = _alike([(own, other) for other in others], n_classes)
    theirs = _alike([(other, reference) for other in others], n_classes)
    pairs = [(a, b) for at, a in enumerate(others) for b in others[:at]]
    among = _alike([*pairs, *((b, a) for a, b in pairs)], n_classes)
    if to_reference is None or to_others is None or theirs is None or among is None:
        return 0.0, 0.0
    among_beyond = max(among.beyond, LEAST)
    ratio = theirs.beyond / among_beyond
    expected = ratio * to_others.beyond
    excess = to_reference.beyond - expected
    from_others = (theirs.variance + 2.0 * ratio**2 * among.variance) / among_beyond**2
    variance = (
        _own_variance(own, others, reference, ratio, to_reference, to_others)
        + to_others.beyond**2 * from_others
        + (SPREAD * expected) ** 2
    )
    share = min(max(excess / max(1.0 - expected, LEAST), 0.0), 1.0)
    return float(np.sign(excess) * excess**2 / variance), share


def _alike(pairs: list[tuple[np.ndarray, np.ndarray]], n_classes: int) -> _Alike | None:
    """Return the agreement of pairs of workers, pooled over the tasks that both have; None if none."""
    both = [(one >= 0) & (other >= 0) for one, other in pairs]
    if not any(map(np.any, both)):
        return None
    first, second = (
        np.concatenate([pair[side][met] for pair, met in zip(pairs, both, strict=True)])
        for side in (0, 1)
    )
    between, of_first, of_second = _by_chance(first, second, n_classes)
    scale = float(np.sqrt(max((1.0 - of_first) * (1.0 - of_second), 1e-3)))
    same = float(np.mean(first == second))
    return _Alike((same - between) / scale, same, scale, len(first))


def _by_chance(first: np.ndarray, second: np.ndarray, n_classes: int) -> tuple[float, float, float]:
    """Return P(two random labels are equal): one of each column, two of the first, two of the second."""
    p, q = (np.bincount(one, minlength=n_classes) / len(one) for one in (first, second))
    return float(p @ q), float(p @ p), float(q @ q)


def _own_variance(
    own: np.ndarray, others: np.ndarray, reference: np.ndarray, ratio: float,
    to_reference: _Alike, to_others: _Alike,
) -> float:  # fmt: skip
    """Return the variance of the excess by the sampling of the tasks that she labelled."""
    mine = own >= 0
    n_others = (others[:, mine] >= 0).sum(axis=0)
    same = (others[:, mine] == own[mine]).sum(axis=0)
    by_reference = ((reference[mine] == own[mine]) - to_reference.same) / to_reference.scale
    by_others = (same - n_others * to_others.same) / to_others.scale / n_others.mean()
    total = float(((by_reference - ratio * by_others) ** 2).sum())
    n_labels = int(mine.sum())
    return (total + UNIT) / (n_labels + UNIT) / n_labels

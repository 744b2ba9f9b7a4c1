"""A test of order: if classes are grades, workers who disagree about a task mostly differ by one.

>>> from quality import encode
>>> rng = np.random.default_rng(0)
>>> truth, task = rng.integers(4, size=300), np.repeat(np.arange(300), 4)
>>> graded = (truth[task] + rng.integers(-1, 2, size=1200)).clip(0, 3)
>>> order_fit(encode(list(range(4)) * 300, task, graded)).verdict
'shown'
>>> mixed = np.array([2, 0, 3, 1])[graded]
>>> order_fit(encode(list(range(4)) * 300, task, mixed)).sentence()
'the labels speak against the order: across 1 | 2 workers confuse neighbours less than other classes'
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float64, Shaped

from quality.aggregation import Result
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, check_table

__all__ = ["OrderFit", "OrderVerdict", "order_fit"]

OrderVerdict: TypeAlias = Literal["shown", "not shown", "contradicted", "untested"]
LIMIT = 2.326  # a standard normal number exceeds it in 1 of 100 cases
NO_CHANCE = 1e-12  # smallest probability, by chance, of pairs that are not neighbours
CELLS = 2**19  # cells of a table of some tasks by classes: 4 MB


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OrderFit(Result):
    """Result of :func:`order_fit`.

    Parameters
    ----------
    classes
        Names in the order that was tested.
    lift
        For each boundary between neighbours, the log of a ratio: of how often labels on a task name both
        neighbours, relative to chance, over the same for all other pairs across the boundary. It is above 0
        if neighbours are confused most, and 0 if there is no evidence.
    z
        The same in standard errors of its score, under independent tasks: the larger of those that the
        tasks show and those that chance alone gives.
    """

    classes: Shaped[np.ndarray, " classes"]
    lift: Float64[np.ndarray, " boundaries"]
    z: Float64[np.ndarray, " boundaries"]

    @property
    def verdict(self) -> OrderVerdict:
        """Return the labels' evidence on the order, at the boundary with the weakest support for it.

        ``shown``: neighbours are confused more than others at every boundary, each at level .01.
        ``contradicted``: at some boundary they are confused less, at level .01. ``untested``: there are
        fewer than three classes.
        """
        if len(self.z) < 2:
            return "untested"
        if self.z.min() <= -LIMIT:
            return "contradicted"
        return "shown" if self.z.min() >= LIMIT else "not shown"

    def sentence(self) -> str:
        """Return the verdict in one sentence."""
        if self.verdict == "untested":
            return "two classes have an order always"
        at = int(np.argmin(self.z))
        between = f"{self.classes[at]} | {self.classes[at + 1]}"
        if self.verdict == "contradicted":
            return (
                f"the labels speak against the order: across {between} workers confuse neighbours less "
                "than other classes"
            )
        if self.verdict == "not shown":
            return (
                f"the labels do not show the order: across {between} workers confuse neighbours hardly "
                "more than other classes"
            )
        return "the labels show the order: at every boundary workers confuse neighbours most"


@check_arguments
def order_fit(labels: CrowdLabels) -> OrderFit:
    """Test whether the labels show the order of ``labels.classes``.

    Two workers who disagree about a task name two classes. For each boundary of the order, take the pairs
    across it: the share that are its two neighbours is compared with the share under chance, if no class
    were like another. There are two laws of chance: errors fall on all classes alike, or on each class as
    often as it is given. The weaker of the two comparisons is returned, and 0 if one is for the order and
    one against it.

    Parameters
    ----------
    labels
        The crowd's labels; tasks of one label have no evidence.

    Notes
    -----
    **Guarantees.** The order of rows and names of workers do not matter; reversing the order of classes
    reverses `lift` and `z`. For classes of any frequencies, with errors by either law of chance, the
    verdict is ``shown`` with probability at most .01 (it needs every boundary), if tasks are many.

    **Limits.** Classes without an order may look ordered: if those in the middle are confused more with
    everything, or each happens to be most like the next. No truth is used: an order that all workers share
    by mistake is shown. If a few workers differ widely, some being right less often than a guess, errors
    that fall on all classes alike look ordered if one class in the middle is most frequent.

    **Cost.** O(tasks * classes) time; memory for the labels and some tasks at a time.
    """
    if labels.n_classes < 2:
        return OrderFit(labels.classes, np.zeros(0), np.zeros(0))
    check_table(labels.n_tasks, labels.n_classes, labels.n_labels)
    given, pairs = np.zeros(labels.n_classes), 0.0
    for count, n_labels in _several_labels(labels):
        given += count.sum(axis=1)
        pairs += float((count * (n_labels - count) / (n_labels - 1)).sum())
    total = max(given.sum(), 1.0)
    nulls = np.array(_chances(given / total, pairs / total))  # by law, near and far, by boundary
    lift, z = np.zeros(labels.n_classes - 1), np.zeros(labels.n_classes - 1)
    near, far = np.moveaxis(nulls, 1, 0)
    sums = _sums(labels, near / np.where(near + far > 0, near + far, 1.0))
    for at in range(labels.n_classes - 1):
        both = zip(sums[:, :, at].tolist(), nulls[:, :, at].tolist(), strict=True)
        found = [_compared(*shown, *chances) for shown, chances in both]
        # equal z may differ by rounding, for example if all pairs across are neighbours
        least = min(found, key=lambda one: (round(abs(one[1]), 9), abs(one[0])))
        if np.ptp(np.sign([one[1] for one in found])) < 2:
            lift[at], z[at] = least
    return OrderFit(labels.classes, lift, z)


def _chances(
    share: Float64[np.ndarray, " classes"], disagreement: float
) -> tuple[Float64[np.ndarray, "2 boundaries"], Float64[np.ndarray, "2 boundaries"]]:
    """Return how often errors without an order give each boundary's neighbours, or other pairs across it.

    Up to a factor, two labels are of classes i and j with probability s_i s_j if an error falls on a class
    as often as it is given. It is s_i + s_j - e if each wrong class has the same probability e, where k
    classes disagree in e (k - 1) (2 - k e) of all pairs. These are summed over all pairs across a boundary.
    """
    k = len(share)
    root = np.sqrt(max(1.0 - disagreement * k / (k - 1), 0.0))
    each = min((1.0 - root) / k, float(share.min()))
    below, above = np.cumsum(share)[:-1], np.cumsum(share[::-1])[-2::-1]
    n_below = np.arange(1, k)
    n_above = k - n_below
    given, given_across = share[:-1] * share[1:], below * above
    even = share[:-1] + share[1:] - each
    even_across = n_above * below + n_below * above - each * n_below * n_above
    return np.stack([given, given_across - given]), np.stack([even, even_across - even])


def _compared(
    near: float,
    far: float,
    score: float,
    square: float,
    by_label: float,
    near_chance: float,
    far_chance: float,
) -> tuple[float, float]:
    """Return lift and z of a boundary under one law of chance, from `_sums`; 0 if there is no evidence."""
    if not (near_chance > 0 and far_chance > NO_CHANCE):
        return 0.0, 0.0
    chance = near_chance / (near_chance + far_chance)
    # few pairs of a rare kind, or none, would show next to no variance of their own: by chance each label
    # of the smaller side decides for itself whether it is next to those of the other
    spread = math.sqrt(max(square, chance * (1.0 - chance) * by_label))
    odds = (near + 0.5) / (far + 0.5)
    return math.log(odds * far_chance / near_chance), score / spread if spread else 0.0


def _sums(
    labels: CrowdLabels, chance: Float64[np.ndarray, "laws boundaries"]
) -> Float64[np.ndarray, "laws 5 boundaries"]:
    """Return all tasks' sums at each boundary under each law of chance: pairs and their scores.

    The sums are of pairs of neighbours, of other pairs across, of scores, of their squares, and of the
    squared pairs across over the task's labels on that side of the boundary which has fewer of them.
    """
    total = np.zeros((len(chance), 5, labels.n_classes - 1))
    for count, n_labels in _several_labels(labels):
        # a task of n labels has n - 1 pairs for each label: each label counts once
        near = count[:-1] * count[1:] / (n_labels - 1)
        below = np.cumsum(count[:-1], axis=0)
        fewer = np.maximum(np.minimum(below, n_labels - below), 1.0)
        across = below * (n_labels - below) / (n_labels - 1)
        by_label = (across**2 / fewer).sum(axis=1)
        for law, share in enumerate(chance):
            score = near - share[:, np.newaxis] * across
            pairs = near.sum(axis=1), (across - near).sum(axis=1)
            total[law] += [*pairs, score.sum(axis=1), (score**2).sum(axis=1), by_label]
    return total


def _several_labels(
    labels: CrowdLabels,
) -> Iterator[tuple[Float64[np.ndarray, "classes tasks"], Float64[np.ndarray, " tasks"]]]:
    """Yield the counts of each class on some tasks of several labels at a time, and their labels."""
    n_labels = np.diff(labels.task_start)
    several = np.flatnonzero(n_labels > 1)
    at_once = max(CELLS // labels.n_classes, 1)
    for first in range(0, len(several), at_once):
        tasks = several[first : first + at_once]
        rows = slice(labels.task_start[tasks[0]], labels.task_start[tasks[-1] + 1])
        task, label = labels.task[rows], labels.label[rows].astype(np.int64)
        mine = n_labels[task] > 1
        cell = label[mine] * len(tasks) + np.searchsorted(tasks, task[mine])
        count = np.bincount(cell, minlength=labels.n_classes * len(tasks)).astype(np.float64)
        yield count.reshape(labels.n_classes, len(tasks)), n_labels[tasks].astype(np.float64)

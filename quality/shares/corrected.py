"""Class shares of finite groups of tasks, corrected by gold: a shrunk point, and an interval that covers.

>>> counts = np.array([[60, 40], [10, 90]])
>>> table = np.array([[[11, 1], [3, 5]], [[2, 0], [4, 14]]])
>>> found = corrected_shares(counts, table)
>>> found.share.round(2)
array([[0.61, 0.39],
       [0.29, 0.71]])

The share of a class among tasks of one consensus class is estimated from gold tasks of that class, and
shrunk towards the errors in all gold tasks: their rate, and with several groups also their pattern. The
strength of the shrinkage is averaged by how well it predicts the table itself.
"""

from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float64, Int

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays
from quality.shares.intervals import check_gold, share_intervals
from quality.shares.rivals import confused_shares

__all__ = ["CorrectedShares", "corrected_shares"]

STRENGTHS = np.array([0.5 * 2.0**step for step in range(13)])  # prior gold tasks a consensus class
NEGLIGIBLE = 1e-18  # weight of a prior too small to change any digit of a result
ERROR = 0.5  # wrong ones of the one gold task added to the counts behind the rate of errors


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CorrectedShares:
    """Result of :func:`corrected_shares`.

    Parameters
    ----------
    share
        Share of each class in each group; they add up to 1.
    low, high
        Ends of each share's interval, which contains the share.
    covariance
        Covariance of the errors of each group's shares.
    n_gold
        Gold tasks of each group.
    level
        Of the intervals.
    """

    share: Float64[np.ndarray, "groups classes"]
    low: Float64[np.ndarray, "groups classes"]
    high: Float64[np.ndarray, "groups classes"]
    covariance: Float64[np.ndarray, "groups classes classes"]
    n_gold: Int[np.ndarray, " groups"]
    level: float

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        groups, classes = self.share.shape
        return (
            f"CorrectedShares({groups} groups, {classes} classes, {self.n_gold.sum()} gold tasks)"
        )


@check_arguments
def corrected_shares(
    counts: Int[np.ndarray, "groups classes"],
    table: Int[np.ndarray, "groups classes classes"],
    *,
    level: float = 0.95,
) -> CorrectedShares:
    """Estimate true class shares from counts of consensus labels and gold on a random sample.

    Parameters
    ----------
    counts
        Each group's consensus labels of each class, the gold tasks among them.
    table
        Each group's gold tasks by consensus (axis 1) and true class (axis 2). Within a group they are
        a random sample; a group may have none.
    level
        Of the intervals, in (0, 1).

    Raises
    ------
    ValueError
        If `table` counts tasks that `counts` does not, or no task at all.

    Notes
    -----
    **Guarantees.** Shares of a group lie on the simplex and within their intervals. Intervals use each
    group's own gold tasks alone, whatever other groups look like. A group whose tasks all have gold
    gets its exact shares; a group without gold gets shares from the others' gold, and the interval [0, 1].
    The order of groups and of classes plays no part.

    **Limits.** Gold that was chosen (hard tasks, test questions) is no random sample: intervals do not
    cover then. Intervals are conservative if a stratum has a few gold tasks. An interval that used the other
    groups would be narrower and would not cover in each group; the shares do use them, and err less than
    PPI++. `covariance` holds only as far as the model does.

    **Cost.** A product of two tables of classes^2 for each group and each of at most 39 priors; memory for a
    few tables of groups * classes^2, as is the covariance.

    References
    ----------
    .. [1] Angelopoulos, Duchi, Zrnic, "PPI++: efficient prediction-powered inference" (2023).
    .. [2] Ghosh, Meeden, "Bayesian methods for finite population sampling" (1997).

    Examples
    --------
    >>> found = corrected_shares(np.array([[60, 40]]), np.array([[[11, 1], [3, 5]]]))
    >>> found.low.round(2), found.high.round(2)
    (array([[0.54, 0.17]]), array([[0.83, 0.46]]))
    """
    check_gold(counts, table)
    if not table.sum() >= 1:
        raise ValueError("table must count a gold task or more")
    low, high = share_intervals(counts, table, level=level)
    share, covariance = _shrunk(counts, table, _beliefs(counts, table))
    return CorrectedShares(
        share, np.minimum(low, share), np.maximum(high, share), covariance,
        table.sum(axis=(1, 2)), level,
    )  # fmt: skip


def _beliefs(
    counts: Int[np.ndarray, "groups classes"], table: Int[np.ndarray, "groups classes classes"]
) -> Float64[np.ndarray, "beliefs groups classes classes"]:
    """Return priors for P(truth | consensus) in each group, before its own gold tasks are used.

    One is always there: all classes err at the rate of all gold tasks. With several groups there are also
    P(truth | consensus), or P(consensus | truth), as estimated from the other groups' gold tasks.
    """
    pooled, n_groups = table.sum(axis=0), len(table)
    even = np.broadcast_to(_even_errors(pooled), table.shape)
    if n_groups == 1:
        return even[None]
    alike = np.stack([_pooled_belief(pooled - own) for own in table])
    rest = counts.sum(axis=0) - counts
    together = alike * rest[:, :, None]
    errors = together / np.maximum(together.sum(axis=1, keepdims=True), 1e-300)
    share = confused_shares(counts.astype(np.float64), errors)
    shifted = errors * share[:, None, :] + 1e-9
    shifted /= shifted.sum(axis=2, keepdims=True)
    return np.stack([even, alike, shifted])


def _even_errors(table: Int[np.ndarray, "classes classes"]) -> Float64[np.ndarray, "truth classes"]:
    """Return P(truth | consensus) if all classes err equally often, and every error is equally likely."""
    n, k = table.sum(), len(table)
    wrong = (n - np.trace(table) + ERROR) / (n + 2 * ERROR)
    return np.asarray(np.where(np.eye(k) > 0, 1 - wrong, wrong / (k - 1)))


def _pooled_belief(
    table: Int[np.ndarray, "classes classes"],
) -> Float64[np.ndarray, "truth classes"]:
    """Return P(truth | consensus) from the gold tasks of other groups, itself shrunk."""
    even, given = _even_errors(table), table.sum(axis=1, keepdims=True)
    weight = _normalised(_log_evidence(table[None], even[None]))
    each = weight / (STRENGTHS + given)  # of each strength, by consensus class
    belief = even * (each @ STRENGTHS)[:, None] + table * each.sum(axis=1, keepdims=True)
    return np.asarray(belief)


def _shrunk(
    counts: Int[np.ndarray, "groups classes"],
    table: Int[np.ndarray, "groups classes classes"],
    beliefs: Float64[np.ndarray, "beliefs groups classes classes"],
) -> tuple[Float64[np.ndarray, "groups classes"], Float64[np.ndarray, "groups classes classes"]]:
    """Return mean and covariance of the finite groups' shares, averaged over priors by their evidence."""
    log_evidence = [_log_evidence(table, belief) for belief in beliefs]
    weight = _normalised(np.concatenate(log_evidence))
    means, within = np.zeros((len(weight), *counts.shape)), np.zeros(table.shape)
    for prior in np.flatnonzero(weight > NEGLIGIBLE):  # one table at a time
        belief, strength = divmod(int(prior), len(STRENGTHS))
        means[prior], spread = _posterior(counts, table, STRENGTHS[strength] * beliefs[belief])
        within += weight[prior] * spread
    mean = np.einsum("p,pgk->gk", weight, means)
    apart = (means - mean).transpose(1, 2, 0)
    return mean, within + (apart * weight) @ apart.transpose(0, 2, 1)


def _log_evidence(
    table: Int[np.ndarray, "groups classes classes"],
    belief: Float64[np.ndarray, "groups classes classes"],
) -> Float64[np.ndarray, " strengths"]:
    """Return the log probability of all groups' tables given the consensus, with Dirichlet rows.

    There is one for each strength of the prior. A cell without gold tasks is no evidence about it.
    """
    gammaln, seen = scipy.special.gammaln, table > 0
    cell, given = belief[seen], belief.sum(axis=2)
    n_cell, n_given = table[seen], table.sum(axis=2)
    found = np.empty(len(STRENGTHS))
    for place, strength in enumerate(STRENGTHS):
        rows = gammaln(strength * given) - gammaln(strength * given + n_given)
        cells = gammaln(strength * cell + n_cell) - gammaln(strength * cell)
        found[place] = rows.sum() + cells.sum()
    return found


def _posterior(
    counts: Int[np.ndarray, "groups classes"],
    table: Int[np.ndarray, "groups classes classes"],
    prior: Float64[np.ndarray, "groups classes classes"],
) -> tuple[Float64[np.ndarray, "groups classes"], Float64[np.ndarray, "groups classes classes"]]:
    """Return mean and covariance of each group's shares: its gold tasks are fixed, the others drawn."""
    chance = prior + table
    strength, unknown = chance.sum(axis=2), counts - table.sum(axis=2)
    chance /= strength[:, :, None]
    size = counts.sum(axis=1)[:, None]
    mean = (table.sum(axis=1) + np.einsum("gf,gfk->gk", unknown, chance)) / size
    factor = unknown * (strength + unknown) / (strength + 1)  # Dirichlet-multinomial
    spread = -((chance * factor[:, :, None]).transpose(0, 2, 1) @ chance)
    k = np.arange(counts.shape[1])
    spread[:, k, k] += np.einsum("gf,gfk->gk", factor, chance)
    return mean, spread / np.square(size)[:, :, None]


def _normalised(log_weight: Float64[np.ndarray, " priors"]) -> Float64[np.ndarray, " priors"]:
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())

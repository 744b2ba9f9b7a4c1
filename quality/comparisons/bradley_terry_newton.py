"""Bradley and Terry's model, with ties by Davidson's, by Newton's method: all workers judge alike.

>>> from quality.comparisons import encode_comparisons
>>> table = encode_comparisons(["w"] * 4, list("xxxx"), list("yyyy"), list("xxxy"))
>>> bradley_terry(table).chance(0, 1)  # x won three of four
0.75
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped
from scipy.sparse import coo_array

from quality.argument_types import check_arguments
from quality.comparisons.comparison_table import LEFT, RIGHT, TIE, Comparisons
from quality.comparisons.judged_pass import judge_pass, marginal_information, score_pass
from quality.labels import freeze_arrays

__all__ = ["BradleyTerry", "Climbed", "Rows", "bradley_terry", "climb_scores", "rows_of"]

MAX_ITEMS = 5_000  # memory for the information grows with their square
HALVINGS = 30  # of a step that does not rise; then it is not taken
MOST_SD = 1e6  # of a prior; a wider one no longer fixes the level of the scores, beside rounding
NEVER = -1e300  # log weight of a tie in a model without ties
Ties: TypeAlias = Literal["davidson", "half", "drop"]


class Rows(NamedTuple):
    """Comparisons in the form that the passes read."""

    worker: np.ndarray
    left: np.ndarray
    right: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray


class Climbed(NamedTuple):
    """Result of :func:`climb_scores`."""

    score: np.ndarray
    information: np.ndarray
    inverse: np.ndarray
    likelihood: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BradleyTerry:
    """Result of :func:`bradley_terry`.

    Parameters
    ----------
    items
        Names, as in the table.
    score
        Log strength of each item; the scores add up to 0.
    covariance
        Covariance of the scores, from the information of the model, with the tie parameter unknown too.
    tie
        Log of Davidson's tie parameter; minus infinity if ties do not occur or do not count.
    log_likelihood
        Log-likelihood of the comparisons, in nats.
    n_iter, converged
        Newton steps, and whether the scores had settled by then.
    """

    items: Shaped[np.ndarray, " items"]
    score: Float64[np.ndarray, " items"]
    covariance: Float64[np.ndarray, "items items"]
    tie: float
    log_likelihood: float
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        best = self.items[int(np.argmax(self.score))]
        return f"BradleyTerry({len(self.items)} items, {best} first)"

    def chance(self, item: int, other: int) -> float:
        """Return the probability that an item is preferred to another, given that there is no tie."""
        return float(round(1 / (1 + np.exp(self.score[other] - self.score[item])), 12))


@check_arguments
def bradley_terry(
    comparisons: Comparisons,
    *,
    ties: Ties = "davidson",
    prior_sd: float | None = None,
    groups: Int[np.ndarray, " workers"] | None = None,
    max_iter: int = 100,
    tol: float = 1e-9,
) -> BradleyTerry:
    """Rank items as if all workers judged alike.

    Parameters
    ----------
    comparisons
        Items compared, and the outcomes.
    ties
        ``davidson`` gives ties their own parameter, ``half`` counts a tie as half a win for each item,
        ``drop`` leaves ties out.
    prior_sd
        Standard deviation of a normal prior of the scores, in [1e-6, 1e6]; None for maximum likelihood.
    groups
        A group for each worker; a group has one vote on a question.
    max_iter, tol
        Stop after this many Newton steps, or once no score moves by more than `tol`.

    Raises
    ------
    ValueError
        If there are more than 5,000 items, no comparison or no step, or `prior_sd` is out of its range.
        Without a prior also if some items never lost to, or never won against, the others, or if ties have
        a parameter and no cycle has more wins than ties: then the scores have no finite estimate.

    Notes
    -----
    **Guarantees.** At maximum likelihood each item's expected wins equal its wins.

    **Cost.** A pass over the comparisons and the solution of items x items equations per step. If wins form
    no cycle, first at most as many passes over compared pairs as there are items.

    References
    ----------
    .. [1] Bradley, Terry, "Rank analysis of incomplete block designs", Biometrika 39 (1952).
    .. [2] Davidson, "On extending the Bradley-Terry model to accommodate ties in paired comparison
       experiments", JASA 65 (1970).

    Examples
    --------
    Who wins every time has a finite score under a prior alone.

    >>> from quality.comparisons import encode_comparisons
    >>> table = encode_comparisons(["w"] * 4, list("xxxx"), list("yyyy"), list("xxxx"))
    >>> bradley_terry(table, prior_sd=1.0).score.round(2)
    array([ 0.74, -0.74])
    """
    if prior_sd is not None and not 1 / MOST_SD <= prior_sd <= MOST_SD:
        raise ValueError(f"prior_sd must be in [{1 / MOST_SD}, {MOST_SD}] or None, got {prior_sd}")
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got {max_iter}")
    if not len(comparisons.worker):
        raise ValueError("there must be a comparison or more, got none")
    rows = _by_ties(rows_of(comparisons, groups), ties)
    n_items = len(comparisons.items)
    if prior_sd is None:
        _check_linked(rows, comparisons.items)
    precision = 0.0 if prior_sd is None else prior_sd**-2
    judge = np.zeros((len(comparisons.workers), 3))
    judge[:, 0] = 1.0
    counts_ties = bool((rows.outcome == TIE).any())
    judge[:, 2] = np.log(max(np.mean(rows.outcome == TIE), 1e-3)) if counts_ties else NEVER
    score, n_iter, converged = np.zeros(n_items), 0, False
    while n_iter < max_iter and not converged:
        risen = climb_scores(rows, score, judge, precision).score
        moved = float(np.abs(risen - score).max(initial=0.0))
        if counts_ties:
            step = _tie_step(rows, risen, judge)
            judge[:, 2] += step
            moved = max(moved, abs(step))
        score, n_iter, converged = risen, n_iter + 1, moved <= tol
    # at the scores that are returned, however far the last step went
    _, information, inverse, likelihood = climb_scores(rows, score, judge, precision)
    if counts_ties:
        inverse = _with_tie_unknown(rows, score, judge, information, precision)
    centred = np.eye(n_items) - 1 / n_items
    covariance = centred @ inverse @ centred
    score = score - score.mean()
    tie = float(judge[0, 2]) if counts_ties else -np.inf
    return BradleyTerry(
        comparisons.items, score, covariance, tie, float(likelihood), n_iter, converged
    )


def rows_of(comparisons: Comparisons, groups: Int[np.ndarray, " workers"] | None) -> Rows:
    """Return the comparisons in the passes' form; raise ValueError for more items than can be solved for."""
    if len(comparisons.items) > MAX_ITEMS:
        raise ValueError(
            f"there must be at most {MAX_ITEMS:,} items, since the information has their square; got "
            f"{len(comparisons.items):,}"
        )
    return Rows(
        comparisons.worker,
        comparisons.left,
        comparisons.right,
        comparisons.outcome,
        comparisons.weights(groups),
    )


def climb_scores(
    rows: Rows,
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    precision: float,
) -> Climbed:
    """Take a Newton step up the log posterior, halved until it rises.

    Return the new scores, and at the old scores the information including the prior's, its inverse, and
    the log-likelihood.
    """
    gradient, information = np.zeros(len(score)), np.zeros((len(score), len(score)))
    likelihood = score_pass(*rows, score, judge, gradient, information)
    information = (
        np.diag(information.sum(axis=0) + information.sum(axis=1)) - information - information.T
    )
    gradient -= precision * score
    information[np.diag_indices(len(score))] += precision
    inverse = _inverse(information, precision)
    step = inverse @ gradient
    height = likelihood - precision * float(score @ score) / 2
    return Climbed(
        _risen(rows, score, judge, precision, step, height), information, inverse, likelihood
    )


def _risen(
    rows: Rows,
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    precision: float,
    step: Float64[np.ndarray, " items"],
    height: float,
) -> Float64[np.ndarray, " items"]:
    """Return the scores after a small step, or one halved until the log posterior does not fall."""
    if np.abs(step).max(initial=0.0) < 0.5:  # concave and near the maximum: Newton's step rises
        return np.asarray(score + step)
    for _ in range(HALVINGS):
        tried = score + step
        unused = np.zeros(len(score)), np.zeros((len(score), len(score)))
        likelihood = score_pass(*rows, tried, judge, *unused)
        if likelihood - precision * float(tried @ tried) / 2 >= height:
            return np.asarray(tried)
        step = step / 2
    return score


def _inverse(
    information: Float64[np.ndarray, "items items"], precision: float
) -> Float64[np.ndarray, "items items"]:
    """Return the inverse; without a prior, the inverse for scores that add up to 0."""
    if precision:
        found = np.linalg.inv(information)
    else:
        level = np.full_like(information, 1 / len(information))
        found = np.linalg.inv(information + level) - level
    return (found + found.T) / 2


def _tie_step(
    rows: Rows, score: Float64[np.ndarray, " items"], judge: Float64[np.ndarray, "workers 3"]
) -> float:
    """Return the Newton step of the log tie parameter that all workers share."""
    slope, information = _about_tie(rows, score, judge)
    return float(np.clip(slope / information, -1, 1))


def _about_tie(
    rows: Rows, score: Float64[np.ndarray, " items"], judge: Float64[np.ndarray, "workers 3"]
) -> tuple[float, float]:
    """Return the slope and the information of the log tie parameter given the scores."""
    gradient, information = np.zeros((len(judge), 3)), np.zeros((len(judge), 3, 3))
    judge_pass(*rows, score, judge, gradient, information)
    return float(gradient[:, 2].sum()), float(information[:, 2, 2].sum())


def _with_tie_unknown(
    rows: Rows,
    score: Float64[np.ndarray, " items"],
    judge: Float64[np.ndarray, "workers 3"],
    information: Float64[np.ndarray, "items items"],
    precision: float,
) -> Float64[np.ndarray, "items items"]:
    """Return the inverse of the scores' information minus the loss from the unknown tie parameter."""
    root, left = np.zeros((1, 3, 3)), information.copy()
    root[0, 2, 2] = _about_tie(rows, score, judge)[1] ** -0.5
    everybody = np.array([0, len(rows.worker)])  # all workers count as one, as they judge alike
    sides = rows.left, rows.right, rows.weight
    marginal_information(everybody, *sides, score, judge[:1], root, left)
    return _inverse(left, precision)


def _by_ties(rows: Rows, ties: Ties) -> Rows:
    """Return the rows with ties as the model counts them."""
    kinds: dict[str, Callable[[], Rows]] = {
        "davidson": lambda: rows,
        "half": lambda: _halved(rows),
        "drop": lambda: Rows(*(one[rows.outcome != TIE] for one in rows)),
    }
    if ties not in kinds:
        raise ValueError(f"ties must be one of {', '.join(kinds)}, got {ties!r}")
    found = kinds[ties]()
    if ties != "half" and (found.outcome == TIE).all():
        raise ValueError("there must be a comparison that is no tie, got ties alone")
    return found


def _halved(rows: Rows) -> Rows:
    tied = rows.outcome == TIE
    whole, halves = (Rows(*(one[mask] for one in rows)) for mask in (~tied, tied))
    won, lost = np.full_like(halves.outcome, LEFT), np.full_like(halves.outcome, RIGHT)
    light = halves.weight / 2
    parts = [
        whole,
        halves._replace(outcome=won, weight=light),
        halves._replace(outcome=lost, weight=light),
    ]
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _check_linked(rows: Rows, items: Shaped[np.ndarray, " items"]) -> None:
    """Raise ValueError for items whose scores have no finite estimate."""
    # imported here: SciPy's graphs load its sparse solvers, which runs without comparisons do not need
    from scipy.sparse.csgraph import connected_components

    ties = rows.outcome == TIE
    won = np.where(rows.outcome == RIGHT, rows.right, rows.left)
    lost = np.where(rows.outcome == RIGHT, rows.left, rows.right)
    winner, loser = np.concatenate([won, lost[ties]]), np.concatenate([lost, won[ties]])
    graph = coo_array((np.ones(len(winner)), (winner, loser)), shape=(len(items), len(items)))
    n_parts, part = connected_components(graph, directed=True, connection="strong")
    if n_parts > 1:
        alone = items[int(np.argmin(np.bincount(part)[part]))]
        raise ValueError(
            f"each item must have won and lost, directly or through others, against all others; {alone} "
            "is not linked so: give prior_sd, for example 1.0"
        )
    if ties.any() and _ties_run_away(won, lost, ties, len(items)):
        raise ValueError(
            'with ties "davidson" there must be a cycle of wins (x beat y, y beat z, z beat x) with fewer '
            "ties than wins, or scores have no finite estimate; got none: give prior_sd, for example 1.0, or "
            'ties "half"'
        )


def _ties_run_away(
    won: Int[np.ndarray, " rows"],
    lost: Int[np.ndarray, " rows"],
    ties: Bool[np.ndarray, " rows"],
    n_items: int,
) -> bool:
    """Return whether scores and the tie parameter can rise together without bound.

    They can along scores of which a winner's is at least 1 above the loser's, and those of a tie are at
    most 1 apart. Such scores exist unless the bounds contradict each other in a cycle with more wins than
    ties: a win forward has length -1 and a tie in either direction length 1. Bellman and Ford's method
    lowers scores until all bounds hold, or until it finds such a cycle.
    """
    start = np.concatenate([won[~ties], won[ties], lost[ties]]).astype(np.int64)
    end = np.concatenate([lost[~ties], lost[ties], won[ties]]).astype(np.int64)
    # of several edges between two items a win, which comes first, is the shortest
    way, place = np.unique(end * n_items + start, return_index=True)
    length = np.where(place < np.count_nonzero(~ties), -1, 1)
    end, start = np.divmod(way, n_items)
    first = np.flatnonzero(np.diff(end, prepend=-1))
    target, n_ways = end[first], np.diff(first, append=len(end))
    score, lowered_by = np.zeros(n_items, dtype=np.int64), np.arange(n_items)
    while True:
        bound = score[start] + length
        least = np.minimum.reduceat(bound, first)
        lower = least < score[target]
        if not lower.any():
            return True
        tight = np.flatnonzero((bound == np.repeat(least, n_ways)) & np.repeat(lower, n_ways))
        lowered_by[end[tight]] = start[tight]
        score[target[lower]] = least[lower]
        root = lowered_by
        for _ in range(n_items.bit_length()):
            root = root[root]
        # the first of a chain was not lowered; a cycle has no first
        if (lowered_by[root] != root).any():
            return False

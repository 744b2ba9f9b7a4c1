"""Bradley–Terry and noisy Bradley–Terry under crowd-kit's names: scores of items from comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator

from flows.crowdkit.frames import check_iterations, check_number, has_no_rows
from quality import Comparisons, LabelError, bradley_terry, encode_comparisons

__all__ = ["BradleyTerry", "NoisyBradleyTerry"]

COMPARED = ("left", "right", "label")


class BradleyTerry(BaseEstimator):  # type: ignore[misc]
    """Rank items by comparisons, all workers being alike.

    Parameters
    ----------
    n_iter
        Maximal number of Newton steps; a handful is enough, and with 0 all scores are equal.
    tol
        Stop when no log score moves by more than this.

    Attributes
    ----------
    scores_ : Series
        Strength of each item, items sorted; they add up to 1.
    loss_history_ : list
        Empty: Newton's method needs none.

    Notes
    -----
    **Guarantees.** The scores are those that crowd-kit's MM iterations approach with ``tol=0``. With any
    other `tol` crowd-kit compares the second iteration's scores with themselves and stops there, short of
    the maximum of the likelihood. Items that are not linked by wins and losses raise ValueError, where
    crowd-kit returns scores that depend on `n_iter`, and so does an item that is compared with itself.

    Examples
    --------
    >>> frame = pd.DataFrame({"left": list("aaaa"), "right": list("bbbb"), "label": list("aaab")})
    >>> BradleyTerry(n_iter=100).fit_predict(frame).round(3).to_dict()
    {'a': 0.75, 'b': 0.25}
    """

    def __init__(self, n_iter: int, tol: float = 1e-5):
        self.n_iter = n_iter
        self.tol = tol

    def fit(self, data: pd.DataFrame) -> BradleyTerry:
        """Fit the scores to the columns left, right and label, the preferred of the two."""
        self.loss_history_: list[float] = []
        check_iterations(self.n_iter, self.tol, least=0)
        if has_no_rows(data, COMPARED):
            self.scores_ = pd.Series([], dtype=np.float64, name="agg_score")
            return self
        table = _table(data)
        if self.n_iter == 0:  # crowd-kit's start
            n_items = len(table.items)
            self.scores_ = pd.Series(
                np.full(n_items, 1 / n_items), index=table.items, name="agg_score"
            )
            return self
        try:
            found = bradley_terry(table, max_iter=self.n_iter, tol=self.tol)
        except ValueError as unlinked:  # it proposes a prior, which crowd-kit's class does not take
            raise ValueError(f"{unlinked}, to quality.bradley_terry") from None
        strength = np.exp(found.score - found.score.max())
        self.scores_ = pd.Series(strength / strength.sum(), index=found.items, name="agg_score")
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit, and return ``scores_``."""
        return self.fit(data).scores_


class NoisyBradleyTerry(BaseEstimator):  # type: ignore[misc]
    """Rank items by comparisons of workers who answer by the items, or else by a side of their own.

    A worker answers by the items with probability `skills_`, and otherwise says left with probability
    `biases_`.

    Parameters
    ----------
    n_iter, tol
        Maximal number of steps of L-BFGS, and the relative gain at which they stop.
    regularization_ratio
        Weight of the pull of scores towards one of their own, at least 0.
    random_state
        Seed of the start.

    Attributes
    ----------
    scores_, skills_, biases_ : Series
        Of items and workers, each between 0 and 1, items and workers sorted.

    Notes
    -----
    **Guarantees.** The likelihood is crowd-kit's. Its gradient of skills and biases counts the last row of
    a worker alone, and its pull drives scores away from each other; here the gradient is that of the
    likelihood and the pull draws them together, so the numbers differ and the likelihood is higher.
    :func:`quality.crowd_bradley_terry` is the model to prefer: it learns ties and has intervals.

    Examples
    --------
    >>> frame = pd.DataFrame({"worker": 1, "left": list("aab"), "right": list("bcc"), "label": list("aab")})
    >>> NoisyBradleyTerry().fit_predict(frame).sort_values().index.tolist()
    ['c', 'b', 'a']
    """

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-5,
        regularization_ratio: float = 1e-5,
        random_state: int = 0,
    ):
        self.n_iter = n_iter
        self.tol = tol
        self.regularization_ratio = regularization_ratio
        self.random_state = random_state

    def fit(self, data: pd.DataFrame) -> NoisyBradleyTerry:
        """Fit to the columns worker, left, right and label, the preferred of the two."""
        check_iterations(self.n_iter, self.tol, least=0)
        check_number("regularization_ratio", self.regularization_ratio)
        if has_no_rows(data, ("worker", *COMPARED)):
            _set_nothing(self)
            return self
        table = _table(data, worker="worker")
        n_items, n_workers = len(table.items), len(table.workers)
        start = np.random.default_rng(self.random_state).random(1 + n_items + 2 * n_workers)
        found = minimize(
            _loss,
            start,
            jac=True,
            args=(table, self.regularization_ratio),
            method="L-BFGS-B",
            options={"maxiter": self.n_iter, "ftol": self.tol},
        ).x
        score, bias, skill = np.split(expit(found[1:]), [n_items, n_items + n_workers])
        workers = pd.Index(table.workers)
        self.scores_ = pd.Series(score, index=pd.Index(table.items, name="label"), name="agg_score")
        self.biases_ = pd.Series(bias, index=workers, name="bias")
        self.skills_ = pd.Series(skill, index=workers, name="skill")
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit, and return ``scores_``."""
        return self.fit(data).scores_


def _set_nothing(estimator: NoisyBradleyTerry) -> None:
    """Set the results of no comparisons, as crowd-kit has them."""
    nothing = pd.Index([], name="label")
    estimator.scores_ = pd.Series(dtype=float, index=nothing, name="agg_score")
    estimator.biases_ = pd.Series(dtype=float, name="bias")
    estimator.skills_ = pd.Series(dtype=float, name="skill")


def _table(data: pd.DataFrame, worker: str | None = None) -> Comparisons:
    """Return the columns as comparisons; LabelError where a label is neither of the two items.

    A label always names an item, also one called left, right or tie, which `quality` would read as a side.
    """
    who: Any = np.zeros(len(data), dtype=int) if worker is None else data[worker].tolist()
    left, right, label = (data[name].tolist() for name in COMPARED)
    sides = []
    for row, (one, other, chosen) in enumerate(zip(left, right, label, strict=True)):
        if str(chosen) not in (str(one), str(other)):
            raise LabelError(
                f"label must be the item in left or in right, got {chosen} at row {row} (counted from 0), "
                f"where {one} met {other}",
                column="label",
                row=row,
            )
        sides.append("left" if str(chosen) == str(one) else "right")
    return encode_comparisons(who, left, right, sides)


def _loss(x: np.ndarray, table: Comparisons, ratio: float) -> tuple[float, np.ndarray]:
    """Return the negative log-likelihood with its pull, and its gradient."""
    n_items, n_workers = len(table.items), len(table.workers)
    score, bias, skill = np.split(x[1:], [n_items, n_items + n_workers])
    won = 1.0 - 2.0 * table.outcome
    by_items = expit(won * (score[table.left] - score[table.right]))
    by_side = expit(won * bias[table.worker])
    skilled = expit(skill[table.worker])
    chance = skilled * by_items + (1 - skilled) * by_side
    d = skilled * by_items * (1 - by_items) * won / chance
    at_score = np.bincount(table.left, d, n_items) - np.bincount(table.right, d, n_items)
    e = (1 - skilled) * by_side * (1 - by_side) * won / chance
    f = skilled * (1 - skilled) * (by_items - by_side) / chance
    at_bias, at_skill = (np.bincount(table.worker, one, n_workers) for one in (e, f))
    apart = score - x[0]
    pull = -np.sum(np.log(expit(apart)) + np.log(expit(-apart)))
    slope = np.tanh(apart / 2)
    gradient = np.concatenate([[0.0], -at_score, -at_bias, -at_skill])
    gradient[1 : 1 + n_items] += ratio * slope
    gradient[0] -= ratio * slope.sum()
    return float(-np.log(chance).sum() + ratio * pull), gradient

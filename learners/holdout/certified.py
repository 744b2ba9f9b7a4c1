"""A holdout, not private, whose every answer carries a bound that adaptive questions cannot break.

The ledger has no part in it: it keeps what has a price in privacy, and exact answers have none. The state
is the caller's to keep.

>>> holdout = CertifiedHoldout(n=1000, threshold=0.02, grid=0.01, n_folds=1, per_fold=9, level=0.95)
>>> state, answer = holdout.answer(CertifiedState(), train=0.11, loss=np.arange(1000) < 120)
>>> answer.status, answer.value, round(answer.bound.value, 3)
('agrees', 0.11, 0.162)
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from learners.bounds import Bound, check_level, largest_rate, upper_limit_at
from learners.holdout.thresholdout import check_kind, clamped
from privacy.query import is_whole

__all__ = ["CertifiedAnswer", "CertifiedHoldout", "CertifiedState"]


@dataclass(frozen=True, slots=True)
class CertifiedState:
    """State of a certified holdout; public, and kept by the caller from one question to the next.

    A state that is lost, or set back, voids the bounds: they count the questions that were asked.

    Parameters
    ----------
    fold
        The fold in use, from 0; equal to the number of folds once all are used up.
    asked
        Number of questions to this fold so far.
    overfitted
        Number of its overfit answers.

    Raises
    ------
    ValueError
        Unless fold >= 0 and 0 <= overfitted <= asked.
    """

    fold: int = 0
    asked: int = 0
    overfitted: int = 0

    def __post_init__(self) -> None:
        if not (self.fold >= 0 and 0 <= self.overfitted <= self.asked):
            raise ValueError(f"fold must be >= 0, and overfitted of 0 .. asked, got {self}")


@dataclass(frozen=True, slots=True)
class CertifiedAnswer:
    """A released answer with its bound.

    Parameters
    ----------
    value
        The training loss if it agrees, else the holdout loss rounded to the grid; None once all folds
        are used up.
    status
        "agrees", "overfit" or "exhausted".
    bound
        Bound on the true loss.
    """

    value: float | None
    status: str
    bound: Bound


@dataclass(frozen=True, slots=True)
class CertifiedHoldout:
    """Answer adaptively chosen questions about a holdout, each with an exact bound on the true loss.

    Records are dealt in turn to `n_folds` folds. Each question goes to the fold in use. If its mean loss
    there exceeds the training loss by at most the threshold, the answer is the training loss ("agrees"),
    else the fold's mean, rounded to the grid ("overfit"). After `per_fold` overfit answers the next fold
    is in use. One fold with a large `per_fold` is the description-length argument; many folds with
    `per_fold` 1 are a fresh holdout after each refutation. Each answer carries one bound, for the folds and
    answers as they were fixed beforehand; `holdout_widths` shows which numbers make it narrow.

    Parameters
    ----------
    n
        Records, >= n_folds.
    threshold
        Tolerated excess, in [0, 1).
    grid
        Step of the overfit answers, in (0, 1].
    n_folds
        >= 1.
    per_fold
        Overfit answers per fold, >= 1.
    level
        Confidence in all bounds together, in (0, 1).

    Raises
    ------
    ValueError
        If a knob is out of range.

    Notes
    -----
    **It is not differentially private**: answers are exact. For a private holdout use `Thresholdout` with
    `private_holdout_bound`. Records are independent draws in an order that is public.

    **Guarantees.** With probability >= `level` every bound holds, for questions chosen adaptively from the
    answers and bounds; the bound depends on the answer, never on the exact mean; no loss is refused for
    its value, since a refusal is an answer that no bound counts: it is clamped to [0, 1], NaN counts as 0;
    after `n_folds * per_fold` overfit answers every answer is "exhausted".
    *Proof.* Questions to a fold depend on other folds, which are independent of it, and on its own answers
    alone. With j of the earlier i - 1 overfit, each one of v = floor(1 / grid + 1 / 2) + 1 values, the
    i-th question is one of C(i - 1, j) v^j. Give each the share of 1 - level that is left by n_folds,
    per_fold, i (i + 1) and that number; the shares sum to at most 1 - level. A fixed question's
    Clopper-Pearson bound (Chernoff's, in kl, for losses that are not boolean) fails with probability at
    most its share. The fold's mean is at most the answer and the threshold, or half the grid.

    References
    ----------
    .. [1] Dwork, Feldman, Hardt, Pitassi, Reingold, Roth, "Generalization in adaptive data analysis
       and holdout reuse", NIPS (2015), section 3, description length.

    Examples
    --------
    >>> holdout = CertifiedHoldout(n=1000, threshold=0.02, grid=0.01, n_folds=1, per_fold=9, level=0.95)
    >>> wrong = np.arange(1000) < 120
    >>> state, answer = holdout.answer(CertifiedState(asked=1), train=0.02, loss=wrong)
    >>> answer.status, answer.value, round(answer.bound.value, 3)
    ('overfit', 0.12, 0.161)
    """

    n: int
    threshold: float
    grid: float
    n_folds: int
    per_fold: int
    level: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must be in [0, 1), got threshold={self.threshold}")
        if not 0 < self.grid <= 1:
            raise ValueError(f"grid must be in (0, 1], got grid={self.grid}")
        # a fold of 1.5 overfit answers would never be left, and its bounds not hold
        for name, number in (("n", self.n), ("n_folds", self.n_folds), ("per_fold", self.per_fold)):
            if not (is_whole(number) and number >= 1):
                raise ValueError(f"{name} must be a whole number >= 1, got {name}={number!r}")
        if not self.n_folds <= self.n:
            raise ValueError(f"n_folds must be in 1 .. n={self.n}, got n_folds={self.n_folds}")
        check_level(self.level)

    def answer(
        self,
        state: CertifiedState,
        *,
        train: float,
        loss: Bool[np.ndarray, " records"] | Float[np.ndarray, " records"],
    ) -> tuple[CertifiedState, CertifiedAnswer]:
        """Return the next state, and the answer to a training loss and one holdout loss per record.

        Raises
        ------
        ValueError, TypeError
            Unless losses are an array of one number per record, and the state is this holdout's.
        """
        if not 0 <= train <= 1:
            raise ValueError("train must be in [0, 1]")
        check_kind("loss", loss)
        if not loss.shape == (self.n,):
            raise ValueError(f"loss must be one number for each of the {self.n} records")
        if not state.overfitted < self.per_fold:
            raise ValueError(
                f"state must have fewer overfit answers than per_fold={self.per_fold}, got {state}"
            )
        if state.fold >= self.n_folds:
            why = "does not apply: all folds are used up"
            bound = Bound("certified holdout", 1.0, self.level, why, applies=False)
            return state, CertifiedAnswer(None, "exhausted", bound)
        mean = float(clamped(loss[state.fold :: self.n_folds]).mean())
        if mean <= train + self.threshold:
            value, status, following = train, "agrees", self._following(state, overfit=False)
            limit = train + self.threshold
        else:
            value, status = round(mean / self.grid) * self.grid, "overfit"
            following, limit = self._following(state, overfit=True), value + self.grid / 2
        bound = self._bound(state, limit, counts=loss.dtype == np.bool_)
        return following, CertifiedAnswer(min(1.0, value), status, bound)

    def _bound(self, state: CertifiedState, limit: float, *, counts: bool) -> Bound:
        """Bound the true loss, given that the fold's mean is at most `limit`."""
        size = len(range(state.fold, self.n, self.n_folds))
        i, j = state.asked + 1, state.overfitted
        values = math.floor(1 / self.grid + 0.5) + 1
        log_tail = math.log((1 - self.level) / (self.n_folds * self.per_fold * i * (i + 1)))
        log_tail -= math.log(math.comb(i - 1, j)) + j * math.log(values)
        limit = min(1.0, limit)
        rate = (
            upper_limit_at(min(size, math.floor(limit * size + 1e-9)), size, log_tail)
            if counts
            else largest_rate(limit, -log_tail / size)
        )
        assumption = (
            f"{size} independent records, known by {j} overfit answers to {i - 1} questions"
        )
        return Bound("certified holdout", rate, self.level, assumption, applies=True)

    def _following(self, state: CertifiedState, *, overfit: bool) -> CertifiedState:
        """Return the state after one more question."""
        overfitted = state.overfitted + int(overfit)
        if overfitted == self.per_fold:
            return CertifiedState(fold=state.fold + 1)
        return CertifiedState(state.fold, state.asked + 1, overfitted)

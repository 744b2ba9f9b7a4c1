"""The rows and checks that every private choice of a regularization shares.

The split into training and validation rows is public: it is drawn without looking at the data.

>>> from learners.private.objective_perturbation import training_query
>>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
>>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
>>> split_rows(query, norm_bound=1.0, n_classes=2).judge.shape
(1, 2)
"""

import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
from jaxtyping import Float, Int

from learners.private import (
    Lifted,
    Signed,
    Signs,
    check_knobs,
    lifted,
    perturbed_weight,
    rows_at_once,
    scores,
    to_coef,
    training_rows,
)
from privacy.mechanism import Json, Noise
from privacy.mechanisms import NoisyMax, exact
from privacy.query import Query, Unit

__all__ = [
    "MOVED",
    "STEPS",
    "SplitRows",
    "check_candidates",
    "check_choice",
    "check_distinct",
    "check_price",
    "check_split",
    "choice",
    "noisiest",
    "ramp_score",
    "share_of",
    "split_rows",
]

BLOCK = 2048  # rows that are lifted and scored at once
STEPS = 2**12
"""Steps of the grid of scores, in the most that a replaced row moves one of them."""
MOVED = STEPS + 1
"""Steps that a replaced row moves a rounded score at most: rounding adds less than one."""


@dataclass(frozen=True, slots=True, eq=False)
class SplitRows:
    """Lifted rows on either side of a public split, **private**.

    `row` and `sign` are for training; `judge`, `judge_sign` and the class codes `judge_y` for validation.
    """

    row: Lifted = field(repr=False)
    sign: Signed = field(repr=False)
    judge: Lifted = field(repr=False)
    judge_sign: Signed = field(repr=False)
    judge_y: Int[np.ndarray, " validation"] = field(repr=False)
    norm_bound: float

    def train(
        self, regularization: float, *, epsilon: float, noise: Noise, part: slice | None = None
    ) -> Float[np.ndarray, "problems columns"]:
        """Train weights for `epsilon` on the training rows or a part, by `ObjectivePerturbation`."""
        return perturbed_weight(
            self.row if part is None else self.row[part],
            self.sign if part is None else self.sign[:, part],
            epsilon=epsilon,
            regularization=regularization,
            noise=noise,
        )

    def score(self, weight: Float[np.ndarray, "problems columns"]) -> float:
        """Return the weights' `ramp_score` on the validation rows."""
        return ramp_score(weight, self.judge, self.judge_sign)

    def n_errors(self, weight: Float[np.ndarray, "problems columns"]) -> int:
        """Return the number of misjudged validation rows; replacing one row moves it by one at most."""
        wrong = 0
        for part in _blocks(len(self.judge), len(weight)):
            decision = scores(self.judge[part], weight)
            y = (decision[0] > 0) if len(weight) == 1 else decision.argmax(axis=0)
            wrong += int((y != self.judge_y[part]).sum())
        return wrong

    def release(
        self,
        weight: Float[np.ndarray, "problems columns"],
        chosen: int,
        candidates: tuple[float, ...],
    ) -> Json:
        """Return what is released: the chosen candidate and its model."""
        return {
            "coef": to_coef(weight, self.norm_bound).tolist(),
            "chosen": chosen,
            "regularization": candidates[chosen],
        }


def split_rows(
    query: Query,
    norm_bound: float,
    n_classes: int,
    components: Float[np.ndarray, "components features"] | None = None,
) -> SplitRows:
    """Read and lift the rows of a query, both sides of its split; `components` are those of `LiftedRows`."""
    rows = check_split(query, n_classes)
    sign, held_out = Signs(rows["y"], n_classes), rows["validation"]
    row, judge = (
        lifted(rows["x"], norm_bound, np.flatnonzero(part), components)
        for part in (~held_out, held_out)
    )
    return SplitRows(
        row=row,
        sign=sign[:, ~held_out],
        judge=judge,
        judge_sign=sign[:, held_out],
        judge_y=rows["y"][held_out],
        norm_bound=norm_bound,
    )


def check_split(query: Query, n_classes: int) -> Mapping[str, np.ndarray]:
    """Return the rows of a query; raise ValueError unless both sides of its split have unweighted rows."""
    rows = training_rows(query, n_classes)
    held_out = rows.get("validation")
    if held_out is None or not (held_out.dtype == np.bool_ and held_out.shape == (query.n,)):
        raise ValueError("query must hold one boolean per row, validation")
    if not 0 < held_out.sum() < query.n:
        raise ValueError("validation must leave rows on both sides of the split")
    if "weight" in rows:
        raise ValueError("query must hold no weight beside validation: rows of a split count alike")
    return rows


def check_candidates(candidates: tuple[float, ...], norm_bound: float, n_classes: int) -> None:
    """Raise ValueError unless the candidates are distinct, one at least, and each can be trained."""
    check_distinct(candidates)
    for regularization in candidates:
        check_knobs(regularization, norm_bound, n_classes)


def check_distinct(candidates: tuple[float | int, ...]) -> None:
    """Raise TypeError unless candidates are a tuple of numbers, ValueError unless distinct, one at least.

    A ledger keeps no list.
    """
    if not (isinstance(candidates, tuple) and all(isinstance(one, Real) for one in candidates)):
        raise TypeError(
            f"candidates must be a tuple of numbers, such as (0.01, 0.1), got {candidates!r}"
        )
    if not len(set(candidates)) == len(candidates) > 0:
        raise ValueError(f"candidates must be distinct, one at least, got {candidates}")


def check_price(**epsilon: float) -> None:
    """Raise ValueError unless every price, passed by its name, is positive and finite."""
    for name, price in epsilon.items():
        if not 0 < price < math.inf:
            raise ValueError(f"{name} must be > 0 and finite, got {name}={price}")


def check_choice(candidates: Sized, epsilon_select: float) -> None:
    """Raise ValueError unless a choice among several has a price, and one candidate has none."""
    if len(candidates) > 1:
        check_price(epsilon_select=epsilon_select)
        choice(epsilon_select)
    elif epsilon_select != 0:
        raise ValueError(
            "epsilon_select must be 0 with one candidate, of which nothing is chosen, got "
            f"epsilon_select={epsilon_select}: spend it on what is released"
        )


def choice(epsilon: float) -> NoisyMax:
    """Return the mechanism that chooses among scores in `STEPS`; ValueError if epsilon is too small."""
    return NoisyMax(epsilon, spread=2 * MOVED)


def noisiest(
    score: Float[np.ndarray, " candidates"], sensitivity: float, epsilon: float, noise: Noise
) -> int:
    """Choose one of the scores by `NoisyMax`, in whole steps, for `epsilon`.

    `sensitivity` is public: the most that a replaced row moves one score. A score is rounded to a
    multiple of sensitivity / `STEPS`, so that the choice is exact in integers whatever the last bits of
    the scores are: two rounded scores move against each other by 2 (`STEPS` + 1) at most.
    """
    if len(score) == 1:
        return 0
    steps = np.rint(score * (STEPS / sensitivity)).astype(np.int64)
    scores = Query("selection", "scores", steps, Unit.ROW, n=len(steps), l1=math.inf)
    return int(choice(epsilon).draw(scores, noise))


def share_of(epsilon: float, parts: int) -> float:
    """Return the largest double of which so many parts cost at most `epsilon`, in exact arithmetic.

    Examples
    --------
    >>> share_of(0.3, 3), share_of(1.0, 3)
    (0.1, 0.3333333333333333)
    """
    share = float(exact(epsilon) / parts)
    while exact(share) * parts > exact(epsilon):
        share = math.nextafter(share, 0.0)
    return share


def ramp_score(
    weight: Float[np.ndarray, "problems columns"],
    row: Lifted,
    sign: Signed,
) -> float:
    """Return minus the ramp loss min(1, max(0, 1 - s w.z)), averaged over rows and problems: in [-1, 0].

    Examples
    --------
    >>> ramp_score(np.array([[0.5]]), np.array([[1.0], [1.0]]), np.array([[1.0, -1.0]]))
    -0.75
    """
    total = 0.0
    for part in _blocks(len(row), len(weight)):
        margin = np.asarray(sign[:, part]) * scores(row[part], weight)
        total += float(np.clip(1 - margin, 0, 1).sum())
    return -total / (len(row) * len(weight))


def _blocks(n: int, n_problems: int) -> list[slice]:
    """Return slices of rows to score at once: scores of all rows in all problems are never held."""
    size = rows_at_once(BLOCK, n_problems)
    return [slice(first, first + size) for first in range(0, n, size)]

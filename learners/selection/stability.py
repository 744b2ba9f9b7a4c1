"""Choose the regularization privately: a score that is stable under replacement judges the candidates.

One mechanism for the ledger, which pays for the whole procedure, never for the winning run alone.

>>> mechanism = StabilityValidation((0.01, 0.1), 0.5, 0.5, norm_bound=1.0, n_classes=2)
>>> mechanism.candidates
(0.01, 0.1)
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from learners.private import (
    check_training_price,
    gradient_tolerance,
    split_epsilon,
)
from learners.selection.public_split import (
    SplitRows,
    check_candidates,
    check_choice,
    check_split,
    noisiest,
    split_rows,
)
from privacy.accounting import keep_declared
from privacy.mechanism import Json, Noise
from privacy.mechanisms import PureEvent, exact
from privacy.query import Query

__all__ = ["StabilityValidation", "score_sensitivity"]


@dataclass(frozen=True, slots=True)
class StabilityValidation:
    """Train at each candidate regularization, choose one by a noisy score, and train the chosen one again.

    With T the training rows, V the validation rows, F the training of `ObjectivePerturbation`:

        t_i = q(F(T, lam_i, R_i), V) + 2 beta Z_i,   i* = argmax t_i,   release i*, F(T, lam_i*, R)

    where every R is fresh, q is `ramp_score` in steps of beta / 4096, beta its `score_sensitivity`
    and Z_i exponential of mean 1 / epsilon_select: i* is a choice of `NoisyMax`, drawn in integers.
    Nothing else is released: neither the scores nor the candidates' models.

    Parameters
    ----------
    candidates
        Regularizations to choose among, distinct, >= 1e-9, public. The smallest one sets beta.
    epsilon_train
        For one training, > 0.
    epsilon_select
        For the choice, > 0; 0 with one candidate, of which nothing is chosen.
    norm_bound, n_classes
        As in `ObjectivePerturbation`.

    Raises
    ------
    ValueError
        If a knob breaks the conditions above.

    Notes
    -----
    The query holds `{"x", "y", "validation"}`, the last one boolean: a public split, drawn without
    looking at the data. A release is `{"coef", "chosen", "regularization"}`.

    **Guarantees.** Without noise in the choice the best score wins; equal ones are equally likely;
    the cost is `epsilon_train + epsilon_select` for any number of candidates; one candidate is trained
    once, at `epsilon_train`; a query without training and validation rows raises before it is paid.
    **Privacy.** Unit: the query's, one row at most, as in `ObjectivePerturbation`. Fix the noise
    R_i, which does not depend on the data. Replacing one row moves each score by at most beta (see
    `score_sensitivity`), a rounded one by a step more, and i* is `NoisyMax` of that spread, exact in
    integers: epsilon_select. The score is bounded, so this holds for every R_i and no delta
    is spent [1]_, and averaging over R_i keeps it. Given i*, the second training is fresh:
    epsilon_train. A replaced validation row costs epsilon_select alone.

    References
    ----------
    .. [1] Chaudhuri, Vinterbo, "A stability-based validation procedure for differentially private
       machine learning", NIPS (2013), Algorithms 1 and 2, Theorem 4.

    Examples
    --------
    >>> from learners.private.objective_perturbation import training_query
    >>> mechanism = StabilityValidation((0.01, 0.1), 0.5, 0.5, norm_bound=1.0, n_classes=2)
    >>> x, y = np.array([[-1.0], [1.0], [1.0]]), np.array([0, 1, 1])
    >>> query = training_query(x, y, dataset="toy", validation=np.array([False, False, True]))
    >>> mechanism.event(query).cost().epsilon
    Fraction(1, 1)
    """

    candidates: tuple[float, ...]
    epsilon_train: float
    epsilon_select: float
    norm_bound: float
    n_classes: int

    def __post_init__(self) -> None:
        keep_declared(self)
        check_candidates(self.candidates, self.norm_bound, self.n_classes)
        check_choice(self.candidates, self.epsilon_select)
        check_training_price(epsilon_train=self.epsilon_train)

    @property
    def epsilon(self) -> Fraction:
        """Price of training and choice together, as the ledger books it."""
        return exact(self.epsilon_train) + exact(self.epsilon_select)

    def event(self, query: Query) -> PureEvent:
        """Describe a release on this query; raise for one without training and validation rows."""
        n_validation = int(check_split(query, self.n_classes)["validation"].sum())
        return PureEvent(
            name="stability-based validation",
            epsilon=str(self.epsilon),
            parameters={
                "candidates": list(self.candidates),
                "epsilon_train": self.epsilon_train,
                "epsilon_select": self.epsilon_select,
                "norm_bound": self.norm_bound,
                "n_classes": self.n_classes,
                "n_train": query.n - n_validation,
                "n_validation": n_validation,
            },
        )

    def draw(self, query: Query, noise: Noise) -> Json:
        """Choose and train on the query's rows; only the ledger calls this."""
        return self.choose(split_rows(query, self.norm_bound, self.n_classes), noise)

    def choose(self, rows: SplitRows, noise: Noise) -> Json:
        """Choose and train on lifted rows, for `draw` and for experiments."""
        train = partial(rows.train, epsilon=self.epsilon_train, noise=noise)
        if len(self.candidates) == 1:
            return rows.release(train(self.candidates[0]), 0, self.candidates)
        beta = self.sensitivity(self.candidates, rows)
        score = np.array([rows.score(train(candidate)) for candidate in self.candidates])
        chosen = noisiest(score, beta, self.epsilon_select, noise)
        return rows.release(train(self.candidates[chosen]), chosen, self.candidates)

    def sensitivity(self, candidates: tuple[float, ...], rows: SplitRows) -> float:
        """Return the `score_sensitivity` of candidates on lifted rows; it reads their sizes alone."""
        return score_sensitivity(
            candidates,
            epsilon_train=self.epsilon_train,
            n_train=len(rows.row),
            n_validation=len(rows.judge),
            columns=rows.row.shape[1],
            n_problems=len(rows.sign),
        )


def score_sensitivity(
    candidates: tuple[float, ...],
    *,
    epsilon_train: float,
    n_train: int,
    n_validation: int,
    columns: int,
    n_problems: int,
) -> float:
    """Return the most that replacing one row moves any candidate's `ramp_score`, with its noise held fixed.

    beta = min(1, max(beta1 / n_train, beta2 / n_validation)), where `epsilon_train` pays for each
    candidate's training of all `n_problems` problems together, and lifted rows have `columns` entries.

    Notes
    -----
    A validation row enters one term of a mean whose terms lie in [0, 1]: beta2 = 1. A training row
    moves the gradient of an objective that is lam-strongly convex by at most 2 / n_train, hence its
    minimum by 2 / (lam n_train), and each computed minimum is off by at most tau / lam: with the
    ramp 1-Lipschitz and ||z|| <= 1, beta1 = 2 (1 + n_train tau) / lam. Here lam includes the extra
    regularization of `EpsilonSplit`, and the smallest one counts. Each problem's score keeps to
    these bounds, and so does their mean: several classes change nothing.
    **Guarantees.** No replacement of a row moves a score by more.

    Examples
    --------
    >>> knobs = {"epsilon_train": 1.0, "columns": 3, "n_problems": 1}
    >>> round(score_sensitivity((0.1, 1.0), n_train=800, n_validation=200, **knobs), 6)
    0.025
    >>> round(score_sensitivity((1.0,), n_train=800, n_validation=200, **knobs), 6)
    0.005
    """
    movement = []
    for regularization in candidates:
        split = split_epsilon(epsilon_train / n_problems, regularization, n_train)
        slack = gradient_tolerance(split, n_train, columns, regularization)
        strength = regularization + split.extra_regularization
        movement.append(2 * (1 / n_train + slack) / strength)
    return min(1.0, max(max(movement), 1 / n_validation))

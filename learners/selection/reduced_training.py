"""Private training on a few principal components, which are drawn privately first.

Noise on a trained model grows with the number of its features. Fewer of them are worth a part of the budget
where the rows lie near a subspace that the classes differ in.

>>> from learners import PrincipalSubspace, StabilityValidation
>>> training = StabilityValidation((0.01, 0.1), 1.0, 0.5, norm_bound=4.0, n_classes=3)
>>> ReducedTraining(training, PrincipalSubspace(0.5, 2)).epsilon
Fraction(2, 1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from learners.private import (
    DeflatedDirections,
    NoisyGradientDescent,
    NoisyMoments,
    PrincipalSubspace,
    lifted_rows,
    moments_query,
    training_rows,
)
from learners.selection.public_split import split_rows
from learners.selection.stability import StabilityValidation
from privacy.accounting import Arithmetic, double_up
from privacy.mechanism import Json, Noise
from privacy.mechanisms import ApproximateEvent, PureEvent, exact
from privacy.query import Query

__all__ = ["ReducedTraining"]


@dataclass(frozen=True, slots=True)
class ReducedTraining:
    """Draw components of the rows, then train on the rows' projections: one release of both.

    Parameters
    ----------
    training
        The mechanism that trains.
    reduction
        The mechanism that draws the components, of fewer than there are features.

    Notes
    -----
    The query is that of the training. A release is the training's, whose `coef` is of the features: a
    model in the components is one in the features, so that nothing after it needs to know of them.

    **Guarantees.** The price is that of the components plus that of the training, the deltas alike; a row is
    judged by its projection alone; the event depends on public things alone; components that are not fewer
    than the features raise before anything is paid.
    **Privacy.** Unit: the query's, one row at most. Replacing a row costs the reduction's price in the
    components. These are public then, a projected row depends on its row alone and is no longer than it, and
    the training's query on projections is one whose neighbours differ in one row: its price comes on
    top, by adaptive composition.

    Examples
    --------
    >>> training = StabilityValidation((0.01, 0.1), 1.0, 0.5, norm_bound=4.0, n_classes=3)
    >>> ReducedTraining(training, NoisyMoments(0.5, 1e-6, 5)).delta
    1e-06
    """

    training: StabilityValidation | NoisyGradientDescent
    reduction: NoisyMoments | PrincipalSubspace | DeflatedDirections
    arithmetic: ClassVar[Arithmetic] = "double"

    @property
    def epsilon(self) -> Fraction:
        """Price of components and training together."""
        return exact(str(self.training.epsilon)) + exact(self.reduction.epsilon)

    @property
    def delta(self) -> float:
        """Sum of both deltas, never less."""
        return double_up(
            exact(getattr(self.training, "delta", 0.0))
            + exact(getattr(self.reduction, "delta", 0.0))
        )

    @property
    def norm_bound(self) -> float:
        """That of the training, and of the components."""
        return self.training.norm_bound

    @property
    def n_classes(self) -> int:
        """That of the training."""
        return self.training.n_classes

    def event(self, query: Query) -> PureEvent | ApproximateEvent:
        """Describe a release on this query; raise for one that either mechanism refuses."""
        rows = training_rows(query, self.n_classes)
        n_features = rows["x"].shape[1]
        empty = replace(query, value={"moments": np.zeros((n_features, n_features))})
        self.reduction.event(empty)
        as_many = rows["x"][:, : self._count]  # in place of projections: an event reads no cell
        inner = self.training.event(replace(query, value={**rows, "x": as_many}))
        what, price = "training on private components", str(self.epsilon)
        parameters = {
            **inner.parameters,
            "training": inner.name,
            "n_components": self._count,
            "epsilon_components": self.reduction.epsilon,
        }
        if not self.delta:
            return PureEvent(what, price, parameters, self.arithmetic)
        return ApproximateEvent(what, price, self.delta, parameters, self.arithmetic)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw components, then train on projections; only the ledger calls this."""
        return self.trained(query, None, noise)

    def trained(self, query: Query, places: Int[np.ndarray, " _"] | None, noise: Noise) -> Json:
        """Train on some rows, on all if `places` is None: for `draw`, and a draw that it is part of.

        Rows are projected when they are lifted, so that of many rows no projections are held.
        """
        x, asked = (
            training_rows(query, self.n_classes)["x"],
            (query, self.norm_bound, self.n_classes),
        )
        moments = moments_query(x, norm_bound=self.norm_bound, dataset=query.dataset, places=places)
        components = np.array(self.reduction.draw(moments, noise)["components"])
        if isinstance(self.training, NoisyGradientDescent):
            model = self.training.trained(*lifted_rows(*asked, places, components), noise)
        else:
            model = self.training.choose(split_rows(*asked, components), noise)
        coef = np.array(model["coef"])
        whole = np.column_stack([coef[:, :-1] @ components, coef[:, -1]])
        return model | {"coef": whole.tolist()}

    @property
    def _count(self) -> int:
        return self.reduction.n_components

"""Decisions by expected loss: the loss of an answer grows with the number of classes it misses by.

>>> posterior = np.array([[0.45, 0.15, 0.4]])
>>> [int(least_loss(posterior, loss).label[0]) for loss in LOSSES]
[0, 1, 1]
"""

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Float64, Int16

from quality.aggregation import TIE, check_distributions, decide
from quality.argument_types import check_arguments

__all__ = ["LOSSES", "Decision", "Loss", "least_loss", "loss_table"]

Loss: TypeAlias = Literal["zero_one", "absolute", "squared"]
LOSSES: tuple[Loss, ...] = get_args(Loss)


class Decision(NamedTuple):
    """The class of least expected loss of each task, and whether several classes have it."""

    label: Int16[np.ndarray, " tasks"]
    tied: Bool[np.ndarray, " tasks"]


def loss_table(loss: Loss, n_classes: int) -> Float64[np.ndarray, "truths answers"]:
    """Return the loss of each answer at each truth: 1 if wrong, or the distance, or its square.

    >>> loss_table("squared", 3)[0]
    array([0., 1., 4.])
    """
    places = np.arange(n_classes, dtype=np.float64)
    distance = np.asarray(np.abs(places[:, None] - places))
    if loss == "zero_one":
        return np.asarray(distance > 0, dtype=np.float64)
    if loss == "absolute":
        return distance
    if loss == "squared":
        return np.asarray(distance**2)
    raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got loss={loss!r}")


@check_arguments
def least_loss(posterior: Float64[np.ndarray, "tasks classes"], loss: Loss) -> Decision:
    """Return the class of least expected loss of each task; ties go to the lowest.

    Parameters
    ----------
    posterior
        P(truth); classes in their order.
    loss
        ``zero_one`` gives the likeliest class, ``absolute`` a median, ``squared`` the class nearest to the
        mean.

    Raises
    ------
    ValueError
        If a row of `posterior` is no distribution, or the loss has another name.

    Notes
    -----
    **Guarantees.** No other class has a smaller expected loss, up to 1e-12 times the largest loss.

    **Cost.** O(tasks * classes).

    Examples
    --------
    >>> least_loss(np.array([[0.5, 0.0, 0.5]]), "absolute")
    Decision(label=array([0], dtype=int16), tied=array([ True]))
    """
    check_distributions(posterior)
    posterior = posterior.astype(np.float64, copy=False)
    loss_table(loss, 1)  # refuses an unknown name
    n_classes = posterior.shape[1]
    if loss == "zero_one":
        return Decision(*decide(posterior))
    places = np.arange(n_classes)
    if loss == "absolute":
        # beyond class l the loss grows by P(truth <= l) - P(truth > l)
        below = np.cumsum(posterior, axis=1)[:, :-1]
        steps = 2.0 * below - posterior.sum(axis=1, keepdims=True)
        cost = np.concatenate([np.zeros((len(posterior), 1)), np.cumsum(steps, axis=1)], axis=1)
    else:
        mean = posterior @ places
        cost = (places - mean[:, None]) ** 2
    largest = n_classes - 1 if loss == "absolute" else (n_classes - 1) ** 2
    near = cost - cost.min(axis=1, keepdims=True) <= TIE * largest
    return Decision(near.argmax(axis=1).astype(np.int16), near.sum(axis=1) > 1)

"""KOS message passing as crowd-kit draws it: crowd-kit's ``KOS``."""

from __future__ import annotations

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64

from flows.crowdkit.frames import (
    CodedFrame,
    ConsensusEstimator,
    by_task,
    check_number,
    has_no_rows,
    read_frame,
)

__all__ = ["KOS"]


class KOS(ConsensusEstimator):
    """Weigh every label by how the worker's other labels agree with their tasks; for two classes only.

    Parameters
    ----------
    n_iter
        Number of iterations, at least 1.
    random_state
        Seed of the first messages, which are drawn as crowd-kit draws them.

    Attributes
    ----------
    labels_ : Series
        Label of each task, tasks sorted.

    Notes
    -----
    **Guarantees.** Messages are scaled to length one in every iteration, so all `n_iter`
    iterations run and nothing overflows; crowd-kit stops where messages exceed 1e300. An exact tie goes
    to the label that sorts first; crowd-kit raises a KeyError.

    For more than two classes, and for a result that depends less on the seed, see :func:`quality.kos` and
    :func:`quality.kos_plus`.

    References
    ----------
    .. [1] Karger, Oh, Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011.

    Examples
    --------
    >>> task, label = list("aaaabbbbccccdddd"), list("xxxyyyyyxxxyyyyy")
    >>> frame = pd.DataFrame({"task": task, "worker": [1, 2, 3, 4] * 4, "label": label})
    >>> KOS().fit_predict(frame).to_dict()
    {'a': 'x', 'b': 'y', 'c': 'x', 'd': 'y'}
    """

    def __init__(self, n_iter: int = 100, random_state: int = 0) -> None:
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, data: pd.DataFrame) -> KOS:
        """Pass messages along the labels in `data`."""
        check_number("n_iter", self.n_iter, least=1, whole=True)
        if has_no_rows(data):
            self.labels_ = pd.Series(dtype=object, name="agg_label")
            return self
        frame = read_frame(data)
        if not len(frame.classes) == 2:
            raise ValueError(f"label must have two values for KOS, got {len(frame.classes)}")
        start = np.random.RandomState(self.random_state).normal(1.0, 1.0, size=len(frame.label))
        total = _pass_messages(frame, start, self.n_iter)
        self.labels_ = by_task(frame, (total > 0).astype(np.int64))
        return self


def _pass_messages(
    frame: CodedFrame, message: Float64[np.ndarray, " rows"], n_iter: int
) -> Float64[np.ndarray, " tasks"]:
    """Return the sum of each task's last messages: above 0 for the second label, below 0 for the first."""
    sign = np.where(frame.label == 1, 1.0, -1.0)
    for _ in range(n_iter):
        for unit in (frame.task, frame.worker):
            signed = sign * message
            message = np.bincount(unit, signed)[unit] - signed
        length = np.sqrt(message @ message)
        if length == 0.0:  # no worker meets another: all labels count alike
            return np.bincount(frame.task, sign)
        message /= length
    return np.bincount(frame.task, sign * message)

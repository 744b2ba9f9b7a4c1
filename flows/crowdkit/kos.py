"""KOS message passing as crowd-kit draws it: crowd-kit's ``KOS``."""

from __future__ import annotations

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64

from flows.crowdkit.estimator import ConsensusEstimator
from flows.crowdkit.frames import Answers, by_task, read_answers

__all__ = ["KOS"]


class KOS(ConsensusEstimator):
    """Weigh every label by what the worker's other labels say about her; two labels only.

    Parameters
    ----------
    n_iter
        Number of iterations, at least 1.
    random_state
        Seed of the first messages, drawn as crowd-kit draws them.

    Attributes
    ----------
    labels_ : Series
        Label of each task, tasks sorted.

    Notes
    -----
    **Guarantees.** Messages are scaled to length one in every iteration, so all `n_iter` are made
    and nothing overflows; crowd-kit stops where they pass 1e300. An exact tie goes to the label
    that sorts first; crowd-kit raises a KeyError there.

    For more than two labels, and a result without a seed's luck, see :func:`quality.kos` and
    :func:`quality.aggregation.kos_messages.kos_plus`.

    References
    ----------
    .. [1] Karger, Oh, Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011.

    Examples
    --------
    >>> task, label = list("aaaabbbbccccdddd"), list("xxxyyyyyxxxyyyyy")
    >>> answers = pd.DataFrame({"task": task, "worker": [1, 2, 3, 4] * 4, "label": label})
    >>> KOS().fit_predict(answers).to_dict()
    {'a': 'x', 'b': 'y', 'c': 'x', 'd': 'y'}
    """

    def __init__(self, n_iter: int = 100, random_state: int = 0) -> None:
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, data: pd.DataFrame) -> KOS:
        """Pass messages along the answers in `data`."""
        if not self.n_iter >= 1:
            raise ValueError(f"n_iter must be >= 1, got n_iter={self.n_iter}")
        answers = read_answers(data)
        if not len(answers.classes) == 2:
            raise ValueError(f"label must have two values for KOS, got {len(answers.classes)}")
        start = np.random.RandomState(self.random_state).normal(1.0, 1.0, size=len(answers.label))
        voice = _pass_messages(answers, start, self.n_iter)
        self.labels_ = by_task(answers, (voice > 0).astype(np.int64))
        return self


def _pass_messages(
    answers: Answers, message: Float64[np.ndarray, " rows"], n_iter: int
) -> Float64[np.ndarray, " tasks"]:
    """What each task hears in the end: above 0 for the second label, below for the first."""
    sign = np.where(answers.label == 1, 1.0, -1.0)
    for _ in range(n_iter):
        for unit in (answers.task, answers.worker):
            said = sign * message
            message = np.bincount(unit, said)[unit] - said
        length = np.sqrt(message @ message)
        if length == 0.0:  # nobody confirms or denies anybody: labels count alike
            return np.bincount(answers.task, sign)
        message /= length
    return np.bincount(answers.task, sign * message)

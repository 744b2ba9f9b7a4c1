"""Workers whose answers hardly depend on what holds: found from all classes at once, and removed.

>>> from quality.multilabel import simulate_multilabels
>>> crowd = simulate_multilabels(
...     n_tasks=200, n_workers=24, answers_per_task=5, n_classes=8, max_labels=3,
...     others={"spammer": 4}, rng=np.random.default_rng(0),
... )
>>> found = filter_guessers(crowd.table)
>>> crowd.kind[found.removed].tolist()
['spammer', 'spammer', 'spammer', 'spammer']
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.sparse import csr_array
from scipy.special import ndtr

from quality.labels import sort_codes
from quality.multilabel.answer_sets import MultiLabels
from quality.multilabel.class_consensus import MultiLabelConsensus, multilabel_consensus
from quality.reputation import Filtered

__all__ = ["filter_guessers", "word_odds"]

SHARE = 0.5  # of the median worker's log odds ratio; below it a worker counts as a guesser
HALF = 0.5  # half an answer in each cell of one additional class, for tables with an empty cell


class WordOdds(NamedTuple):
    """Each worker's log odds ratio of giving a class by whether it holds, and its standard error."""

    value: Float64[np.ndarray, " workers"]
    error: Float64[np.ndarray, " workers"]


def word_odds(table: MultiLabels, found: MultiLabelConsensus) -> WordOdds:
    """Return how much likelier each worker gives a class if it holds, as one log odds ratio.

    It is the odds of giving a class that holds, over those of giving one that does not, pooled over classes
    by Mantel and Haenszel's method. A worker who gives common classes often, whether or not they hold, has
    an odds ratio of 1, and so has a worker who ticks much or little of everything. Whether a class holds
    counts by its probability.

    Parameters
    ----------
    table
        The answers.
    found
        Consensus of these answers, or of more or fewer workers' answers to the same tasks.

    Notes
    -----
    **Guarantees.** A worker without answers has the value 0 and a large error. Classes that a task did not
    show do not count.

    References
    ----------
    .. [1] Mantel, Haenszel, "Statistical aspects of the analysis of data from retrospective studies of
       disease", Journal of the National Cancer Institute 22 (1959).
    .. [2] Robins, Breslow, Greenland, "Estimators of the Mantel–Haenszel variance consistent in both sparse
       data and large-strata limiting models", Biometrics 42 (1986).
    """
    shown = table.shows()
    holds = found.table() * shown
    size = table.n_workers, table.n_classes
    who = np.repeat(table.worker, np.diff(table.label_start))
    task = np.repeat(table.task, np.diff(table.label_start))
    cell = who.astype(np.int64) * table.n_classes + table.label
    given, hit = (
        np.bincount(cell, weights, size[0] * size[1]).reshape(size)
        for weights in (None, holds[task, table.label])
    )
    # sums over each worker's tasks; a row for each answer would be a table of all answers by classes
    asks = csr_array(
        (np.ones(table.n_answers), (table.worker, table.task)), shape=(size[0], len(holds))
    )
    mass, asked = asks @ holds, asks @ shown.astype(np.float64)
    false, missed = given - hit, mass - hit
    denied = asked - mass - false
    n = np.maximum(asked, 1.0)
    alike, apart = (hit + denied) / n, (false + missed) / n
    right, wrong = hit * denied / n, false * missed / n
    more = HALF**2 / (4 * HALF)  # the additional class's part in both sums
    r, s = right.sum(axis=1) + more, wrong.sum(axis=1) + more
    variance = ((alike * right).sum(axis=1) + more / 2) / (2 * r**2)
    variance += ((alike * wrong + apart * right).sum(axis=1) + more) / (2 * r * s)
    variance += ((apart * wrong).sum(axis=1) + more / 2) / (2 * s**2)
    return WordOdds(np.log(r / s), np.sqrt(variance))


def filter_guessers(
    table: MultiLabels, *, false_removal_rate: float = 0.1, min_answers_per_task: int = 1
) -> Filtered:
    """Remove the workers whose log odds ratio is below half the median's.

    A worker is removed if chance does not explain her value: her log odds ratio (:func:`word_odds`) is
    below half the median, and a worker with exactly half of it would have so low a value with a probability
    below `false_removal_rate` over the number of workers.

    Parameters
    ----------
    table
        The answers.
    false_removal_rate
        In [0.001, 1): the probability that any worker is removed if nobody is below half the median.
    min_answers_per_task
        A removal is refused if it would leave a task that has answers with fewer than this, >= 1.

    Returns
    -------
    Filtered
        The removed workers, the lowest log odds ratio first; the ratio takes the place of the penalty.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Guarantees.** Nobody is removed from a crowd of two workers or fewer. No task falls below
    `min_answers_per_task` by a removal. The same bytes on every run.

    **Limits.** Errors are assumed normal, and the consensus of all workers is taken as given: if nearly
    half of the answers are guesses, nobody may stand out. A worker who answers some classes well and gives
    the others at random counts by both.
    """
    if not 0.001 <= false_removal_rate < 1:
        raise ValueError(
            f"false_removal_rate must be in [0.001, 1), got false_removal_rate={false_removal_rate}"
        )
    if not min_answers_per_task >= 1:
        raise ValueError(
            f"min_answers_per_task must be >= 1, got min_answers_per_task={min_answers_per_task}"
        )
    odds = word_odds(table, multilabel_consensus(table))
    answered = np.bincount(table.worker, minlength=table.n_workers) > 0
    keep = np.ones(table.n_workers, dtype=np.bool_)
    suspected = np.zeros(0, dtype=np.int64)
    n = int(answered.sum())
    if n > 2:
        least = SHARE * float(np.median(odds.value[answered]))
        chance = ndtr((odds.value - least) / odds.error)
        suspected = np.flatnonzero(answered & (chance < false_removal_rate / n))
        suspected = suspected[np.argsort(odds.value[suspected], kind="stable")]
    removed, refused = _within(table, suspected, keep, min_answers_per_task)
    plural = "s" * (min_answers_per_task > 1)
    words = f"a task would be left with fewer than {min_answers_per_task} answer{plural}"
    return Filtered(
        keep, removed.astype(np.int32), odds.value[removed], refused.astype(np.int32),
        odds.value[refused], (words,) * len(refused), "log odds ratio",
        "nobody else is below half the median",
    )  # fmt: skip


def _within(
    table: MultiLabels, suspected: Int64[np.ndarray, " suspected"],
    keep: Bool[np.ndarray, " workers"], least: int,
) -> tuple[Int64[np.ndarray, " removed"], Int64[np.ndarray, " refused"]]:  # fmt: skip
    """Return who is removed and who cannot be, one after the other; update in place who is kept."""
    left = np.diff(table.task_start)
    order, start = sort_codes(table.worker.copy(), table.n_workers)  # read-only would compile anew
    gone: list[int] = []
    for worker in suspected.tolist():
        hers = table.task[order[start[worker] : start[worker + 1]]]
        if (left[hers] > least).all():
            left[hers] -= 1
            keep[worker] = False
            gone.append(worker)
    stay = [worker for worker in suspected.tolist() if keep[worker]]
    return np.array(gone, dtype=np.int64), np.array(stay, dtype=np.int64)

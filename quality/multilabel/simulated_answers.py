"""Simulated multi-label answers of known truth, by several kinds of workers.

>>> rng = np.random.default_rng(0)
>>> crowd = simulate_multilabels(
...     n_tasks=100, n_workers=20, answers_per_task=3, n_classes=10, others={"spammer": 4}, rng=rng
... )
>>> crowd
SimulatedMultiLabels(300 answers, 100 tasks, 20 workers, 10 classes, 4 not honest)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from scipy.special import expit

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays
from quality.multilabel.answer_sets import MultiLabels, encode_multilabels
from quality.simulation import regular_assignment

__all__ = ["KINDS", "SimulatedMultiLabels", "simulate_multilabels"]


class _Kind(NamedTuple):
    """The rates of a kind of worker: log odds of giving a class that holds, and false classes a task."""

    given: float
    false: float
    blind: float = 0.0  # share of the classes that she hardly ever gives
    guesses: bool = False  # gives classes by how common they are, whether or not they hold


KINDS: Mapping[str, _Kind] = {
    "honest": _Kind(1.7, 0.2),
    "careless": _Kind(0.0, 0.8),
    "conservative": _Kind(-0.6, 0.05),
    "liberal": _Kind(2.3, 1.5),
    "blind": _Kind(1.7, 0.2, blind=0.5),
    "spammer": _Kind(0.0, 0.0, guesses=True),
}
BLIND = 0.05  # rate at which a worker gives a class that she is blind to
SPREAD = 0.5  # standard deviation of effects of workers, classes and both together, in log odds or logarithm
EXPONENT = 0.7  # power by which prevalences fall off


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimulatedMultiLabels:
    """Result of :func:`simulate_multilabels`.

    Parameters
    ----------
    table
        The answers; workers, tasks and classes are named by numbers from 0.
    truth
        Whether each class holds for each task.
    kind
        The kind of each worker: a key of :data:`KINDS`.
    """

    table: MultiLabels
    truth: Bool[np.ndarray, "tasks classes"]
    kind: Shaped[np.ndarray, " workers"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        table = self.table
        return (
            f"SimulatedMultiLabels({table.n_answers} answers, {table.n_tasks} tasks, "
            f"{table.n_workers} workers, {table.n_classes} classes, "
            f"{np.count_nonzero(self.kind != 'honest')} not honest)"
        )


@check_arguments
def simulate_multilabels(
    *,
    n_tasks: int,
    n_workers: int,
    answers_per_task: int,
    n_classes: int,
    max_labels: int = 3,
    others: Mapping[str, int] | None = None,
    rng: np.random.Generator,
) -> SimulatedMultiLabels:
    """Draw a campaign whose tasks have one to `max_labels` classes, and its workers' answers.

    Parameters
    ----------
    n_tasks, n_workers, answers_per_task, n_classes
        Sizes, at least 1; `answers_per_task` is at most `n_workers`.
    max_labels
        Largest number of classes that hold for a task, from 1 to `n_classes`.
    others
        Number of workers of each kind except ``honest``: ``careless`` (misses and mistakes),
        ``conservative`` (few classes), ``liberal`` (many), ``blind`` (to half of the classes), ``spammer``.
    rng
        Generator of the draws.

    Raises
    ------
    ValueError
        If a size is out of its range, or a kind is unknown.
    """
    others = dict(others or {})
    if not 1 <= max_labels <= n_classes:
        raise ValueError(
            f"max_labels must be from 1 to {n_classes} classes, got max_labels={max_labels}"
        )
    unknown = sorted(set(others) - set(KINDS))
    if unknown:
        raise ValueError(f"others must be among {', '.join(KINDS)}, got {unknown[0]}")
    whole = all(isinstance(n, int | np.integer) and n >= 0 for n in others.values())
    n_others = sum(others.values()) if whole else 0
    if not (whole and n_others <= n_workers):
        raise ValueError(
            f"others must be at most {n_workers} workers, in whole numbers, got {others}"
        )
    asked = regular_assignment(
        n_tasks=n_tasks, n_workers=n_workers, labels_per_task=answers_per_task, rng=rng
    )
    share = rng.permutation(np.arange(1.0, n_classes + 1) ** -EXPONENT)
    share /= share.sum()
    # the first of a random order in which common classes tend to come early
    order = np.argsort(-(np.log(share) + rng.gumbel(size=(n_tasks, n_classes))), axis=1)
    place = np.argsort(order, axis=1)
    truth = place < rng.integers(1, max_labels + 1, size=n_tasks)[:, np.newaxis]
    kinds = ["honest"] * (n_workers - n_others)
    kinds += [name for name, n in others.items() for _ in range(n)]
    kind = rng.permutation(np.array(kinds))
    sensitivity, false_rate = _rates(kind, share, truth.mean(axis=0), rng)
    chance = np.where(truth[asked.task], sensitivity[asked.worker], false_rate[asked.worker])
    given = rng.random(chance.shape) < chance
    table = encode_multilabels(
        asked.worker, asked.task, [np.flatnonzero(row).tolist() for row in given],
        classes=np.arange(n_classes).tolist(),
    )  # fmt: skip
    return SimulatedMultiLabels(table, truth, kind)


def _rates(
    kind: Shaped[np.ndarray, " workers"],
    share: Float64[np.ndarray, " classes"],
    prevalence: Float64[np.ndarray, " classes"],
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, "workers classes"], Float64[np.ndarray, "workers classes"]]:
    """Draw how often each worker gives each class if it holds, and if it does not."""
    shape = len(kind), len(share)
    of_kind = [KINDS[str(name)] for name in kind]
    level = np.array([one.given for one in of_kind]) + rng.normal(0, SPREAD, len(kind))
    sensitivity = expit(
        level[:, np.newaxis] + rng.normal(0, SPREAD, shape[1]) + rng.normal(0, SPREAD, shape)
    )
    mistaken = share**0.5 * np.exp(rng.normal(0, SPREAD, shape[1]))
    false = np.array([one.false for one in of_kind]) * np.exp(rng.normal(0, SPREAD, len(kind)))
    false_rate = np.minimum(
        false[:, np.newaxis] * mistaken / mistaken.sum() * np.exp(rng.normal(0, SPREAD, shape)), 0.9
    )
    unseen = rng.random(shape) < np.array([one.blind for one in of_kind])[:, np.newaxis]
    sensitivity[unseen] = BLIND
    guessed = np.minimum(prevalence * np.exp(rng.normal(0, SPREAD, shape)), 0.95)
    guesses = np.array([one.guesses for one in of_kind])
    sensitivity[guesses] = false_rate[guesses] = guessed[guesses]
    return sensitivity, false_rate

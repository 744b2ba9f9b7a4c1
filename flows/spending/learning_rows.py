"""The rows that a model is trained on and judged by: which tasks count, and the cell each is dealt to.

>>> rows = dealt_rows(crowd, label, settings, model)  # doctest: +SKIP
>>> rows.training.sum(), rows.validation.sum(), rows.holdout.sum()  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from flows.files import text_parts
from flows.run import Crowd
from flows.settings import ModelSettings, Settings
from flows.spending.bounded_counts import counted_tasks, dealt_names, digest_key

__all__ = ["Rows", "binding_names", "deal", "dealt_rows", "drawn_by_name"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Labelled tasks that count as rows for learning, dealt to training, validation and holdout.

    `names` bind the partition of the deal to the tasks. Features of the holdout stand apart from those of
    the rows to `develop` a model on, which are the others; on shards both are pages of files.
    """

    names: np.ndarray
    develop_x: Float[np.ndarray, "_ features"]
    holdout_x: Float[np.ndarray, "_ features"]
    y: Int[np.ndarray, " tasks"]
    holdout: Bool[np.ndarray, " tasks"]
    validation: Bool[np.ndarray, " tasks"]

    @property
    def develop_y(self) -> Int[np.ndarray, " _"]:
        """Class codes of the rows of `develop_x`."""
        return np.asarray(self.y[~self.holdout])

    @property
    def judges(self) -> Bool[np.ndarray, " _"]:
        """Which rows of `develop_x` are for validation."""
        return np.asarray(self.validation[~self.holdout])

    @property
    def training(self) -> Bool[np.ndarray, " tasks"]:
        """Rows that are neither for validation nor for the holdout."""
        used: np.ndarray = self.holdout | self.validation
        return ~used


def dealt_rows(crowd: Crowd, label: np.ndarray, settings: Settings, model: ModelSettings) -> Rows:
    """Return the labelled tasks that count as rows, dealt by the names of the tasks or of their subjects."""
    counted = counted_tasks(crowd, settings)
    dealt, binding = dealt_names(crowd), binding_names(crowd)
    if not counted.all():  # else without a copy
        dealt, binding = dealt[counted], binding[counted]
    held, validated = deal(
        dealt,
        seed=settings.seed,
        holdout=settings.gate.holdout,
        validation=model.validation,
    )
    task = np.flatnonzero(counted)
    develop, holdout = crowd.features_of(task[~held], task[held])
    return Rows(binding, develop, holdout, label[task], held, validated)


def deal(
    tasks: np.ndarray, *, seed: int, holdout: float, validation: float
) -> tuple[Bool[np.ndarray, " tasks"], Bool[np.ndarray, " tasks"]]:
    """Deal tasks to holdout and validation by a hash of their names.

    A task's part depends on its name and the seed alone: it is the same in a later run, after other
    tasks have joined.

    Parameters
    ----------
    tasks
        Names of the tasks, or of their subjects: tasks of one name have the same part.
    seed
        Seed of the deal.
    holdout
        Expected share of all tasks, in (0, 1).
    validation
        Expected share of the tasks that are not in the holdout, in (0, 1).

    Returns
    -------
    holdout, validation
        Masks that do not overlap; the other tasks are for training.

    Examples
    --------
    >>> import numpy as np
    >>> names = np.array([f"t{j}" for j in range(1000)])
    >>> held, validated = deal(names, seed=1, holdout=0.2, validation=0.25)
    >>> int(held.sum()), int(validated.sum()), int((held & validated).sum())
    (178, 214, 0)
    """
    drawn = drawn_by_name(tasks, digest_key(str(seed)))
    held = drawn < holdout
    return held, ~held & (drawn < holdout + (1 - holdout) * validation)


_DRAWN: dict[bytes, np.ndarray] = {}  # the last alone: three stages deal the same tasks


def drawn_by_name(tasks: np.ndarray, salt: bytes) -> Float64[np.ndarray, " tasks"]:
    """Return a number in [0, 1) for each name, by its hash."""
    all_names = hashlib.blake2b(key=salt)
    for names in text_parts(tasks):
        all_names.update("\0".join([*names, ""]).encode())
    key = all_names.digest()
    found = _DRAWN.get(key)
    if found is None:
        parts = (_drawn(names, salt) for names in text_parts(tasks))
        found = np.concatenate([np.empty(0), *parts])
        _DRAWN.clear()  # another thread may do so at any time
        _DRAWN[key] = found
    return found


def _drawn(names: list[str], salt: bytes) -> Float64[np.ndarray, " names"]:
    digests = [hashlib.blake2b(name.encode(), key=salt, digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype=">u8") / 2.0**64


def binding_names(crowd: Crowd) -> np.ndarray:
    """Return the names that bind a partition to labelled tasks, and to whose they are."""
    whose = crowd.label_subject()
    if whose is None:
        return np.asarray(crowd.labels.tasks)
    pairs = zip(crowd.labels.tasks.tolist(), whose.tolist(), strict=True)
    return np.array([json.dumps(pair) for pair in pairs], dtype=np.str_)

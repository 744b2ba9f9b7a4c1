"""The consensus so far: every label moves its task's posterior and its worker's row when it arrives."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from learners.streams.cells import ConfigError
from learners.streams.consensus_loops import crowd_rows, reweighed, take_labels
from learners.streams.learning_array import arrays_of

__all__ = ["JudgedLabels", "RunningConsensus"]

STATE = (
    "last", "n_labels", "before", "worker", "label", "counts", "crowd", "prior", "post", "rows", "sizes",
)  # fmt: skip
FIRST = 64
MOST = 2**32  # workers or tasks


@contextmanager
def _held(what: str) -> Iterator[None]:
    """Raise ConfigError if memory does not hold the arrays made within the context."""
    try:
        yield
    except (MemoryError, ValueError, OverflowError):  # which one NumPy raises depends on the size
        raise ConfigError(f"memory does not hold {what}; join classes that are rare") from None


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLabels:
    """Labels that were compared with the consensus of others on their task, each label once.

    Parameters
    ----------
    row
        Number of the label, counted from 0 in the order of arrival.
    worker, label
        Its worker and class.
    consensus
        The class that its task had by the other labels at that time; -1 if two were equally probable.
    """

    row: np.ndarray
    worker: np.ndarray
    label: np.ndarray
    consensus: np.ndarray

    def __post_init__(self) -> None:
        for name in self.__slots__:
            getattr(self, name).setflags(write=False)


class RunningConsensus:
    """Dawid–Skene's model with a shared prior, kept up to date label by label.

    When a label arrives, its task's posterior is computed anew from the present confusions of its workers,
    and so are those of `revisits` older tasks in turn; expected counts follow. The labels of all tasks are
    kept, since a task's posterior depends on all of them.

    Parameters
    ----------
    n_classes
        Number of classes, at least 2; each worker's counts take its square in numbers.
    quorum
        Labels that a task needs before its labels are judged, at least 2.
    revisits
        Older tasks whose posterior is computed anew at each label, at least 0.

    Raises
    ------
    ConfigError
        If a number is too small, or memory does not hold the counts of so many classes.

    Notes
    -----
    **Cost.** A label takes time in proportion to the classes and to the labels of the tasks computed anew,
    so a task of very many labels is slow. Memory grows with the labels, the tasks, and workers times classes
    squared.

    **Guarantees.** (1) The result does not depend on how the labels are cut into batches. (2) Every label is
    judged at most once, and never by itself. (3) A snapshot restored goes on with the same
    results to the bit.

    References
    ----------
    Incremental EM: R. Neal and G. Hinton, A view of the EM algorithm that justifies incremental, sparse, and
    other variants, 1998. The model is that of `quality.hierarchical_dawid_skene`.

    Examples
    --------
    >>> import numpy as np
    >>> consensus = RunningConsensus(n_classes=2)
    >>> judged = consensus.partial_fit(
    ...     np.array([0, 1, 2]), np.array([0, 0, 0]), np.array([1, 1, 0])
    ... )
    >>> judged.row, judged.consensus, consensus.posterior().argmax(axis=1)
    (array([2, 1, 0]), array([ 1, -1, -1]), array([1]))
    """

    def __init__(self, n_classes: int, *, quorum: int = 3, revisits: int = 4) -> None:
        whole = all(isinstance(one, Integral) for one in (n_classes, quorum, revisits))
        if not (whole and n_classes >= 2 and 2 <= quorum < MOST and 0 <= revisits < MOST):
            raise ConfigError(
                "n_classes and quorum must be whole numbers >= 2 and revisits one >= 0, the last two below "
                f"{MOST}, got n_classes={n_classes}, quorum={quorum}, revisits={revisits}"
            )
        k = int(n_classes)
        self._sizes = np.array([quorum, revisits, 0, 0, 0], np.int64)
        self._last, self._n_labels = np.full(FIRST, -1, np.int64), np.zeros(FIRST, np.int64)
        self._before, self._worker = np.full(FIRST, -1, np.int64), np.zeros(FIRST, np.int64)
        self._label = np.zeros(FIRST, np.int64)
        with _held(f"the counts of {FIRST} workers for n_classes={k}"):
            self._counts, self._crowd = np.zeros((FIRST, k, k + 1)), np.zeros((k, k))
            self._prior, self._post = np.zeros(k), np.full((FIRST, k), 1 / k)
            self._rows = np.zeros((k, k))

    @classmethod
    def from_snapshot(cls, data: bytes) -> RunningConsensus:
        """Return a consensus as it was when `snapshot` was called; ConfigError if it is damaged."""
        found = cls.__new__(cls)
        for name, array in arrays_of(data, STATE).items():
            setattr(found, f"_{name}", array)
        return found

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self._prior)

    @property
    def n_rows(self) -> int:
        """Number of labels taken in."""
        return int(self._sizes[2])

    @property
    def n_tasks(self) -> int:
        """One more than the largest task seen."""
        return int(self._sizes[3])

    def partial_fit(
        self, workers: np.ndarray, tasks: np.ndarray, labels: np.ndarray
    ) -> JudgedLabels:
        """Take in labels in the order in which they came, and return those that could be judged.

        Parameters
        ----------
        workers, tasks
            Whole numbers from 0, best given in the order of their first appearance.
        labels
            Classes, within 0 and n_classes - 1.

        Raises
        ------
        ValueError
            If shapes differ, a number is out of range, or memory does not hold as many workers or tasks as
            the largest number needs.
        """
        workers, tasks, labels = (np.asarray(one) for one in (workers, tasks, labels))
        if not (workers.ndim == 1 and workers.shape == tasks.shape == labels.shape):
            raise ValueError("workers, tasks and labels must be vectors of the same length")
        for name, given in (("workers", workers), ("tasks", tasks), ("labels", labels)):
            if given.size and given.dtype.kind not in "iu":
                raise ValueError(f"{name} must be whole numbers, got {given.dtype}")
            if given.size and given.min() < 0:
                raise ValueError(f"{name} must be >= 0, got {given.min()}")
            if given.size and given.max() >= MOST:
                raise ValueError(f"{name} must be below {MOST}, got {given.max()}")
        workers, tasks, labels = (one.astype(np.int64) for one in (workers, tasks, labels))
        if labels.size and labels.max() >= self.n_classes:
            raise ValueError(f"labels must be below {self.n_classes}, got {labels.max()}")
        start, n = self.n_rows, len(workers)
        if n:
            n_tasks, n_workers = int(tasks.max()) + 1, int(workers.max()) + 1
            try:
                self._grow(start + n, n_tasks, n_workers)
            except MemoryError:
                raise ValueError(
                    "workers and tasks must be numbered without gaps: memory does not hold "
                    f"{n_workers} workers and {n_tasks} tasks with {self.n_classes} classes"
                ) from None
        self._worker[start : start + n], self._label[start : start + n] = workers, labels
        quorum, revisits = int(self._sizes[0]), int(self._sizes[1])
        judged = np.empty((min(n * quorum, start + n), 2), np.int64)  # each label once at most
        n_judged = take_labels(
            start, self.n_tasks, tasks, self._chain(), self._n_labels, self._counts, self._crowd,
            self._prior, self._post, self._rows, quorum, revisits, judged,
        )  # fmt: skip
        self._sizes[2] = start + n
        if n:
            self._sizes[3] = max(self.n_tasks, int(tasks.max()) + 1)
            self._sizes[4] = max(int(self._sizes[4]), int(workers.max()) + 1)
        row = judged[:n_judged, 0]
        return JudgedLabels(row, self._worker[row], self._label[row], judged[:n_judged, 1].copy())

    def posterior(self) -> np.ndarray:
        """Return the probability of each class of each task, from the present counts of the workers."""
        post = self._post[: self.n_tasks].copy()
        reweighed(self._chain(), self._n_labels, self._counts, self._crowd, self._prior, post)
        return post

    def with_classes(self, n_classes: int) -> RunningConsensus:
        """Return a consensus of more classes that goes on from this one.

        Raises
        ------
        ConfigError
            If there are fewer than now, or memory does not hold the counts of so many.
        """
        k = self.n_classes
        if not (isinstance(n_classes, Integral) and n_classes >= k):
            raise ConfigError(
                f"n_classes must be a whole number of at least {k}, got n_classes={n_classes!r}"
            )
        more = n_classes - k
        new = RunningConsensus(n_classes)
        for name in STATE:
            setattr(new, f"_{name}", getattr(self, f"_{name}").copy())
        with _held(f"the counts of {len(self._counts)} workers for n_classes={n_classes}"):
            counts = np.zeros((len(self._counts), n_classes, n_classes + 1))
        counts[:, :k, :k], counts[:, :k, -1] = self._counts[:, :, :k], self._counts[:, :, k]
        new._counts = counts
        new._rows = np.zeros((n_classes, n_classes))
        crowd_rows(np.pad(self._crowd, ((0, more), (0, more))), new._rows)
        new._crowd = np.pad(self._crowd, ((0, more), (0, more)))
        new._prior, new._post = (
            np.pad(self._prior, (0, more)),
            np.pad(self._post, ((0, 0), (0, more))),
        )
        new._post[new._n_labels == 0] = 1 / n_classes
        return new

    def snapshot(self) -> bytes:
        """Return all that is held as an ``.npz`` file in memory, without pickle."""
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{name: getattr(self, f"_{name}") for name in STATE})
        return file.getvalue()

    def _chain(self) -> tuple[np.ndarray, ...]:
        return self._last, self._before, self._worker, self._label

    def _grow(self, n_rows: int, n_tasks: int, n_workers: int) -> None:
        """Make room by doubling, so that each number is moved a few times at most."""
        k = self.n_classes
        fills = {
            "last": (n_tasks, -1), "n_labels": (n_tasks, 0), "post": (n_tasks, 1 / k),
            "before": (n_rows, -1), "worker": (n_rows, 0), "label": (n_rows, 0),
            "counts": (n_workers, 0),
        }  # fmt: skip
        for name, (needed, fill) in fills.items():
            held = getattr(self, f"_{name}")
            if needed > len(held):
                more = max(needed, 2 * len(held)) - len(held)
                fresh = np.full((more, *held.shape[1:]), fill, held.dtype)
                setattr(self, f"_{name}", np.concatenate([held, fresh]))

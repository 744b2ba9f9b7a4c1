"""The card of each worker, kept while labels arrive: the preset of the learning array for crowds."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from learners.streams.cells import ConfigError
from learners.streams.drift_evidence import constant_rate_interval
from learners.streams.learning_array import FPLA

__all__ = ["StreamMonitor", "WorkerCards"]

INPUTS = ("agree", "has", "label", "consensus", "position", "log_seconds")
SESSION = 100.0  # labels: the unit of the fatigue slope
MEMORY_OF_TABLE = 0.01
STEP = 0.02
FEW = 30  # events that a slope or a mixture of response times needs
MAX_CLASSES = 256


@dataclass(frozen=True, slots=True, eq=False)
class WorkerCards:
    """Result of :meth:`StreamMonitor.cards`; one entry for each lane.

    Parameters
    ----------
    n_judged
        Labels that were compared with a consensus.
    reliability
        Live share of labels that agree with the consensus, within 0 and 1; NaN without any.
    low, high
        Ends of its interval, by the labels that it effectively rests on.
    always_low, always_high
        Ends of the confidence sequence for a reliability that never changed, valid at all times at once; NaN
        where no constant reliability is left.
    confusion
        Of shape (lanes, classes, classes): Pr(label | consensus), a row for each class of the consensus.
    fatigue
        Change of the reliability over 100 labels of a session; NaN below 30 labels with a position, and
        below 30 judged ones.
    fast_seconds, slow_seconds
        Centres of her two clusters of response times; NaN below 30 timed labels.
    slow_share
        Share of the slower of them, within 0 and 1.
    drift_at, proven_at
        Her judged label, counted from 1, at which CUSUM, and the alarm valid at any time, first flagged that
        she got worse; 0 where it has not.
    """

    n_judged: np.ndarray
    reliability: np.ndarray
    low: np.ndarray
    high: np.ndarray
    always_low: np.ndarray
    always_high: np.ndarray
    confusion: np.ndarray
    fatigue: np.ndarray
    fast_seconds: np.ndarray
    slow_seconds: np.ndarray
    slow_share: np.ndarray
    drift_at: np.ndarray
    proven_at: np.ndarray

    def __post_init__(self) -> None:
        for name in self.__slots__:
            getattr(self, name).setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"WorkerCards({len(self.n_judged)} workers, {np.count_nonzero(self.drift_at)} drifting, "
            f"{np.count_nonzero(self.proven_at)} proven)"
        )


class StreamMonitor:
    """Keeps a card for each worker while labels arrive, in one pass and constant memory for each of them.

    Lanes may be tasks as well: reliability is then how easy a task is, drift that it became harder.

    Parameters
    ----------
    n_classes
        Number of classes, within 2 and 256.
    gamma
        Learning rate of the live reliability: it rests on about 2/gamma labels.
    threshold, drop, window, warm_up
        Parameters of CUSUM: threshold, the drop of reliability that it watches for, the labels of the running
        mean that it starts from, and labels before it starts.
    false_alarm
        Probability that the alarm valid at any time is ever wrong about any worker of a campaign.

    Raises
    ------
    ConfigError
        If a parameter is out of range.

    Notes
    -----
    CUSUM is quicker, and wrong about fewer than one stable worker in a hundred for each thousand labels. The
    other alarm needs two to five times the labels, and may be looked at as often as one likes.

    **Guarantees.** (1) If every worker's agreements are independent with a rate that does not change, the
    probability that `proven_at` is ever set for any of them is at most `false_alarm`, for any number of
    workers, at any stopping time, while no lane is reset: each `reset` gives a lane its share of it anew.
    (2) A snapshot restored goes on with the same results to the bit. (3) The result does not depend on how
    the labels are cut into batches.

    References
    ----------
    Bridges, Figueroa, Hsu and Diorio, Field-Programmable Learning Arrays, NIPS 2002. E. S. Page, Continuous
    inspection schemes, Biometrika 1954. For the alarm: `learners.streams.drift_evidence`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=1200)
    >>> right = rng.random(1200) < np.where(np.arange(1200) < 600, 0.9, 0.5)
    >>> label = np.where(right, truth, 1 - truth)
    >>> monitor = StreamMonitor(n_classes=2)
    >>> monitor.partial_fit(np.zeros(1200, int), label=label, consensus=truth)
    >>> card = monitor.cards()
    >>> bool(600 < card.drift_at[0] < card.proven_at[0] < 700)
    True
    """

    def __init__(
        self,
        n_classes: int,
        *,
        gamma: float = 0.02,
        threshold: float = 9.0,
        drop: float = 0.2,
        window: float = 250.0,
        warm_up: int = 60,
        false_alarm: float = 0.05,
    ) -> None:
        whole = isinstance(n_classes, Integral)
        if not (whole and 2 <= n_classes <= MAX_CLASSES):
            raise ConfigError(
                f"n_classes must be within 2 and {MAX_CLASSES}, and whole, got n_classes={n_classes!r}"
            )
        self.n_classes = int(n_classes)
        self._array = FPLA.from_config(
            _card(n_classes, gamma, (threshold, drop, window, warm_up), false_alarm)
        )

    @classmethod
    def from_snapshot(cls, data: bytes) -> StreamMonitor:
        """Return the monitor of a snapshot; raise ConfigError if it is damaged or not a monitor's."""
        monitor = cls.__new__(cls)
        monitor._array = FPLA.from_snapshot(data)
        found, wanted = (
            [one.inputs, *((cell.name, cell.op) for cell in one.cells)]
            for one in (monitor._array.program, cls(2).array.program)
        )
        if found != wanted:
            raise ConfigError("the snapshot must be a monitor's, got that of another array")
        monitor.n_classes = _cell(monitor._array, "confusion").size
        return monitor

    @property
    def array(self) -> FPLA:
        """The learning array beneath."""
        return self._array

    @property
    def n_lanes(self) -> int:
        """One more than the largest lane seen."""
        return self._array.n_lanes

    def partial_fit(
        self,
        lanes: np.ndarray,
        *,
        label: np.ndarray,
        consensus: np.ndarray,
        position: np.ndarray | None = None,
        seconds: np.ndarray | None = None,
    ) -> None:
        """Take in labels, in the order in which they came.

        Parameters
        ----------
        lanes
            Worker of each label, as a whole number from 0.
        label
            Class of each label, within 0 and n_classes - 1.
        consensus
            Class that the others gave the task; -1 where that is not known.
        position
            Place of each label in the worker's session, from 0; NaN or None where it is not known.
        seconds
            What each label took, above 0; NaN or None where it is not known.

        Raises
        ------
        ValueError
            If a class is out of range, or shapes do not fit.
        """
        lanes, label, consensus = (np.asarray(one) for one in (lanes, label, consensus))
        label, consensus = (_plain(one) for one in (label, consensus))
        if not (lanes.ndim == 1 and lanes.shape == label.shape == consensus.shape):
            raise ValueError(
                "lanes, label and consensus must be vectors of the same length, got shapes "
                f"{lanes.shape}, {label.shape} and {consensus.shape}"
            )
        for name, given, least in (("label", label, 0), ("consensus", consensus, -1)):
            if given.size and given.dtype.kind not in "biuf":
                raise ValueError(f"{name} must be whole numbers, got {given.dtype}")
            if given.size and not (given.min() >= least and given.max() < self.n_classes):
                raise ValueError(
                    f"{name} must be within {least} and {self.n_classes - 1}, got "
                    f"{given.min()} to {given.max()}"
                )
            if given.dtype.kind == "f" and (given % 1 != 0).any():
                raise ValueError(f"{name} must be whole numbers, got {given[given % 1 != 0][0]}")
        known = consensus >= 0
        self._array.partial_fit(lanes, _columns(label, consensus, known, position, seconds))

    def cards(self, *, level: float = 0.95) -> WorkerCards:
        """Return the card of every lane.

        Parameters
        ----------
        level
            Probability of the intervals, within 0 and 1.
        """
        from scipy.special import betaincinv  # where cards are read

        if not 0 < level < 1:
            raise ValueError(f"level must be within 0 and 1, got level={level}")
        array, k = self._array, self.n_classes
        n, live = array.cell_state("reliability").T
        gamma = _cell(array, "reliability").parameter("gamma")
        rests_on = np.minimum(n, (2 - gamma) / gamma)
        a, b = rests_on * live + 0.5, rests_on * (1 - live) + 0.5
        tails = (1 - level) / 2
        seen = array.cell_state("proof")
        always = constant_rate_interval(seen[:, 0], seen[:, 1], _ratio(seen), level=level)
        plus, minus = array.cell_state("fatigue").T
        placed = array.cell_state("mean_position")[:, 0]
        fast, slow, share = _clusters(array.cell_state("response"))
        drift_at, proven_at = self.alarms()
        return WorkerCards(
            n.astype(np.int64),
            np.where(n > 0, live, np.nan),
            betaincinv(a, b, tails),
            betaincinv(a, b, 1 - tails),
            *always,
            array.cell_state("confusion")[:, k:].reshape(-1, k, k),
            np.where(np.minimum(placed, n) >= FEW, plus - minus, np.nan),
            fast,
            slow,
            share,
            drift_at,
            proven_at,
        )

    def alarms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return `drift_at` and `proven_at` of the cards, which is quicker than all of them."""
        drift, proof = self._array.cell_state("drift"), self._array.cell_state("proof")
        return drift[:, 3].astype(np.int64), proof[:, 5].astype(np.int64)

    def with_classes(self, n_classes: int) -> StreamMonitor:
        """Return a monitor of more classes with the same cards, for classes that were not known before.

        Raises
        ------
        ConfigError
            If there are fewer than now, or too many.
        """
        old, k = self._array, self.n_classes
        if not (isinstance(n_classes, Integral) and n_classes >= k):
            raise ConfigError(
                f"n_classes must be a whole number of at least {k}, got n_classes={n_classes!r}"
            )
        drift = _cell(old, "drift").params
        cell = _cell(old, "reliability"), _cell(old, "proof")
        new = StreamMonitor(
            n_classes,
            gamma=cell[0].parameter("gamma"),
            threshold=drift[0],
            drop=drift[1],
            window=drift[2],
            warm_up=int(drift[3]),
            false_alarm=cell[1].parameter("alpha"),
        )
        table = old.cell_state("confusion")
        wider = np.zeros((old.n_lanes, n_classes + n_classes**2))
        wider[:, :k] = table[:, :k]
        rows = wider[:, n_classes:].reshape(-1, n_classes, n_classes)
        rows[:] = 1 / n_classes
        seen = np.pad(table[:, :k] > 0, ((0, 0), (0, n_classes - k)))
        rows[:, :k, :k] = table[:, k:].reshape(-1, k, k)
        rows[:, :k, k:] = 0
        rows[~seen] = 1 / n_classes
        new._array.adopt(old, {"confusion": wider})
        return new

    @property
    def false_alarm(self) -> float:
        """Probability that `proven_at` is ever set for any worker who stays the same."""
        return float(_cell(self._array, "proof").parameter("alpha"))

    def snapshot(self) -> bytes:
        """Return all that the monitor holds as an ``.npz`` file in memory, without pickle."""
        return self._array.snapshot()

    def restore(self, data: bytes) -> StreamMonitor:
        """Replace the cards by those of a snapshot; raise ConfigError if it is not of this monitor."""
        self._array.restore(data)
        return self

    def reset(self, lanes: np.ndarray | None = None) -> None:
        """Begin the cards of lanes, or of all, anew.

        A lane's alarm has its level again, as for another worker at her place: the probability of a false
        alarm in any of R beginnings of all lanes is at most R times `false_alarm`.
        """
        self._array.reset(lanes)

    def merge(self, other: StreamMonitor) -> StreamMonitor:
        """Take over the cards of another monitor with the same parameters; a lane may be in one alone."""
        self._array.merge(other.array)
        return self


def _card(
    n_classes: int, gamma: float, cusum: tuple[float, float, float, int], false_alarm: float
) -> dict[str, Any]:
    """Return the configuration of a worker's card."""
    h, d, window, warm_up = cusum
    position = {"op": "cap", "in": ["position"], "gamma": gamma, "name": "mean_position"}
    cells = [
        {"op": "cond", "in": ["agree", "has"], "gamma": gamma, "name": "reliability"},
        {"op": "cusum", "in": ["agree"], "h": h, "d": d, "window": window, "warm_up": warm_up,
         "name": "drift"},
        {"op": "evidence", "in": ["agree"], "alpha": false_alarm, "name": "proof"},
        {"op": "table", "in": ["label", "consensus"], "K": n_classes, "gamma": MEMORY_OF_TABLE,
         "name": "confusion"},
        # the slope is through the origin, so position and agreement are taken less their means
        {"op": "mirror", "in": ["position"], "out": "x", "name": "position"},
        {**position, "polarity": "n", "out": "x"},
        {"op": "mirror", "in": ["agree"], "out": "y", "name": "agreement"},
        {"op": "cap", "in": ["agree"], "polarity": "n", "out": "y", "gamma": gamma, "name": "mean"},
        {"op": "regr", "in": ["x", "y"], "mu": STEP, "name": "fatigue"},
        {"op": "bump", "in": ["log_seconds"], "K": 2, "gamma": MEMORY_OF_TABLE, "s_min": 0.05,
         "warm": FEW, "name": "response"},
    ]  # fmt: skip
    return {"cells": cells, "io": {"inputs": list(INPUTS)}}


def _columns(
    label: np.ndarray,
    consensus: np.ndarray,
    known: np.ndarray,
    position: np.ndarray | None,
    seconds: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Return the inputs of the card; NaN where a label has none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_seconds = np.log(_measured("seconds", seconds, len(label)))
    return {
        "agree": np.where(known, label == consensus, np.nan),
        "has": known.astype(float),
        "label": label.astype(float),
        "consensus": np.where(known, consensus, np.nan),
        "position": _measured("position", position, len(label)) / SESSION,
        "log_seconds": log_seconds,
    }


def _measured(name: str, given: np.ndarray | None, n: int) -> np.ndarray:
    """Return a number for each label, NaN where there is none; raise ValueError for anything else."""
    if given is None:
        return np.full(n, np.nan)
    kind = np.asarray(given).dtype
    try:
        column = np.asarray(given, float) if kind.kind in "biufO" else None
    except (TypeError, ValueError):
        column = None
    if column is None:
        raise ValueError(f"{name} must be numbers, got {kind}; a duration is a number of seconds")
    if column.shape != (n,):
        raise ValueError(f"{name} must have a value for each of {n} labels, got {column.shape}")
    return column


def _plain(given: np.ndarray) -> np.ndarray:
    """Return numbers that came as objects as numbers, and anything else as it is."""
    if given.dtype.kind != "O":
        return given
    try:
        return given.astype(float)
    except (TypeError, ValueError):
        return given


def _cell(array: FPLA, name: str) -> Any:
    return next(one for one in array.program.cells if one.name == name)


def _ratio(seen: np.ndarray) -> np.ndarray:
    """Return Q over Krichevsky and Trofimov's law, from the state of the cell `evidence`."""
    n = seen[:, 0]
    return np.where(n > 0, seen[:, 6] * 2 * np.sqrt(n), 1.0)


def _clusters(state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the centres of the faster and the slower responses in seconds, and the share of the slower."""
    known = state[:, 0] >= FEW
    slower = (state[:, 2] >= state[:, 1]).astype(int)
    rows = np.arange(len(state))
    with np.errstate(over="ignore"):
        centres = np.where(known[:, None], np.exp(state[:, 1:3]), np.nan)
    share = np.where(known, state[rows, 5 + slower], np.nan)
    return centres[rows, 1 - slower], centres[rows, slower], share

"""Data sets and the protocol of Iyer, Nath and Sarawagi (2016) for class ratios, bags disjoint."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["PROTOCOLS", "Problem", "Protocol", "load", "problem"]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "ml"
NUMBERS_OF_ADULT = (0, 2, 4, 10, 11, 12)


@dataclass(frozen=True)
class Protocol:
    """Sizes of one data set's experiment."""

    least_share: float  # of every class but one in a labelled bag
    n_bags: int
    size: int
    unlabelled_size: int
    repetitions: int


PROTOCOLS = {
    "Adult": Protocol(0.1, 4, 600, 600, 10),
    "Magic": Protocol(0.1, 4, 600, 600, 16),
    "satimage": Protocol(0.1, 6, 450, 400, 4),
    "Twitter": Protocol(0.1, 6, 600, 500, 2),
    "MNIST": Protocol(0.05, 20, 700, 600, 2),
}


@dataclass(frozen=True)
class Problem:
    """One draw: labelled bags, their points' labels (for oracles), unlabelled bags, true ratios."""

    bags: list[np.ndarray]
    labels: list[np.ndarray]
    proportions: np.ndarray
    unlabelled: list[np.ndarray]
    ratios: np.ndarray


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Points by features, and class codes."""
    if name == "Adult":
        return _adult()
    if name == "MNIST":
        with np.load(DATA / "mnist20k.npz") as held:
            return held["X"] / 255.0, held["y"].astype(int)
    if name == "Twitter":
        with np.load(DATA / "twitter.npz") as held:
            return held["X"].astype(float), np.unique(held["y"], return_inverse=True)[1]
    rows = _rows(f"{name.lower()}.csv.gz")
    if name == "satimage":
        rows = [row for row in rows if row[-1] in {"1", "3", "7"}]  # its three largest classes
    x = np.array([row[:-1] for row in rows], dtype=float)
    return x, np.unique([row[-1] for row in rows], return_inverse=True)[1]


def _rows(file: str) -> list[list[str]]:
    with gzip.open(DATA / file, "rt") as lines:
        return [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]


def _adult() -> tuple[np.ndarray, np.ndarray]:
    rows = _rows("adult-train.csv.gz") + _rows("adult-test.csv.gz")
    *columns, label = zip(*rows, strict=True)
    blocks = []
    for position, column in enumerate(columns):
        if position in NUMBERS_OF_ADULT:
            blocks.append(np.array(column, dtype=float)[:, None])
        else:
            names, code = np.unique(column, return_inverse=True)
            blocks.append(np.eye(len(names))[code])
    return np.hstack(blocks), np.array([name.startswith(">") for name in label], dtype=int)


def problem(name: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Problem:
    """Labelled bags that share no point with each other or with an unlabelled one.

    Unlabelled bags are drawn without replacement each, but from the same points.
    """
    protocol, n_classes = PROTOCOLS[name], int(y.max()) + 1
    pool = [rng.permutation(np.flatnonzero(y == k)) for k in range(n_classes)]
    taken = np.zeros(n_classes, dtype=int)
    bags, labels, proportions = [], [], []
    for position in range(protocol.n_bags):
        count = _counts(_peak(protocol.least_share, position % n_classes, n_classes), protocol.size)
        chosen = [pool[k][taken[k] : taken[k] + m] for k, m in enumerate(count)]
        taken += count
        rows = rng.permutation(np.concatenate(chosen))
        bags.append(x[rows])
        labels.append(y[rows])
        proportions.append(count / protocol.size)
    rest = [pool[k][taken[k] :] for k in range(n_classes)]
    unlabelled, ratios = [], []
    for share in _test_ratios(n_classes):
        count = _counts(share, protocol.unlabelled_size)
        chosen = [rng.permutation(points)[:m] for points, m in zip(rest, count, strict=True)]
        unlabelled.append(x[rng.permutation(np.concatenate(chosen))])
        ratios.append(count / protocol.unlabelled_size)
    return Problem(bags, labels, np.array(proportions), unlabelled, np.array(ratios))


def _test_ratios(n_classes: int) -> list[np.ndarray]:
    if n_classes == 2:
        return [np.array([p, 1 - p]) for p in np.linspace(0.1, 0.9, 9)]
    shares = np.linspace(0, 1 / n_classes, 6)
    return [_peak(share, k % n_classes, n_classes) for k, share in enumerate(shares)]


def _peak(share: float, peak: int, n_classes: int) -> np.ndarray:
    """The same share for every class, the rest for one."""
    ratio = np.full(n_classes, share)
    ratio[peak] = 1 - (n_classes - 1) * share
    return ratio


def _counts(share: np.ndarray, size: int) -> np.ndarray:
    """Round shares of `size` points to whole points, largest remainders first."""
    count = np.floor(share * size + 1e-9).astype(int)
    lacking = size - int(count.sum())
    count[np.argsort(count - share * size, kind="stable")[:lacking]] += 1
    return count


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Pen-written digits: 16 coordinates a row, and the digit."""
    rows = np.array(_rows("pendigits.csv.gz"), dtype=float)
    return rows[:, :-1], rows[:, -1].astype(int)

"""Bags of points: in memory with their class proportions, or as blocks of rows to iterate over.

`LabelledBags` are the checked input of every method. Bags too large for memory are `BagPasses`: a method
passes a function of one block and gets its results in the order of the blocks, wherever it runs.
`ConstantFeatures` tests a bag for values that no labelled point has.

>>> bags = LocalBlocks([[np.ones((2, 1)), np.zeros((3, 1))], [np.ones((4, 1))]])
>>> list(bags.each(lambda block, times: times * float(block.sum()), 10))
[[20.0, 0.0], [40.0]]
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = [
    "MAX_MIXING_CONDITION",
    "BagPasses",
    "Block",
    "Blocks",
    "ConstantFeatures",
    "LabelledBags",
    "LocalBlocks",
    "check_blocks",
    "checked_bag",
    "class_names",
    "column_names",
    "dense",
    "label_evidence",
    "shared_names",
]

SIMPLEX_TOLERANCE = 1e-6
MAX_MIXING_CONDITION = 1e6
ROUNDING = 2.0**-23  # of a value in single precision

Block: TypeAlias = Float[np.ndarray, "_ features"]
Blocks: TypeAlias = Iterable[Block]
Result = TypeVar("Result")


@runtime_checkable
class BagPasses(Protocol):
    """Bags that can be iterated any number of times; `work` must be importable by name."""

    def sizes(self) -> Int[np.ndarray, " bags"]:
        """Return the number of rows of each bag."""

    def take(self, places: Sequence[Int[np.ndarray, " _"]]) -> list[Block]:
        """Return the rows at some places, ascending, of each bag."""

    def each(
        self, work: Callable[[Block, Any], Result], parameters: Any
    ) -> Iterator[Sequence[Result]]:
        """Yield, for each bag, the results of ``work(block, parameters)`` in the order of its blocks."""


class LocalBlocks:
    """:class:`BagPasses` over blocks that this process iterates, one after the other.

    Parameters
    ----------
    bags
        Each must yield its blocks anew whenever it is iterated.

    Raises
    ------
    ValueError
        If a bag can be iterated only once, or is one matrix; later, if a block is sparse or has other
        column names than those before it.

    Notes
    -----
    **Guarantees.** Blocks are requested one at a time, and none is kept.

    Examples
    --------
    >>> bags = LocalBlocks([[np.ones((2, 1)), np.zeros((3, 1))], [np.ones((4, 1))]])
    >>> bags.sizes()
    array([5, 4])
    """

    names: tuple[str, ...] | None
    """Column names of the blocks, once they are known; None where blocks have none."""

    def __init__(self, bags: Sequence[Blocks], names: tuple[str, ...] | None = None) -> None:
        for position, blocks in enumerate(bags):
            check_blocks(blocks, f"bag {position}")
            if iter(blocks) is blocks:
                raise ValueError(f"bag {position} must yield its blocks anew each time, not once")
        self._bags, self.names = bags, names

    def __repr__(self) -> str:
        return f"LocalBlocks({len(self._bags)} bags)"

    def sizes(self) -> Int[np.ndarray, " bags"]:
        """Return the number of rows of each bag."""
        counted = [[(len(one), column_names(one)) for one in blocks] for blocks in self._bags]
        self.names = shared_names([self.names, *(names for bag in counted for _, names in bag)])
        return np.array([sum(size for size, _ in bag) for bag in counted], dtype=int)

    def take(self, places: Sequence[Int[np.ndarray, " _"]]) -> list[Block]:
        """Return the rows at some places, ascending, of each bag."""
        return [_taken(blocks, wanted) for blocks, wanted in zip(self._bags, places, strict=True)]

    def each(
        self, work: Callable[[Block, Any], Result], parameters: Any
    ) -> Iterator[Sequence[Result]]:
        """Yield, for each bag, the results of ``work(block, parameters)`` in the order of its blocks."""
        for blocks in self._bags:
            yield [work(dense(block, "a block", self.names), parameters) for block in blocks]


def _taken(blocks: Blocks, wanted: Int[np.ndarray, " _"]) -> Block:
    """Gather the rows at some places of one bag, in one pass."""
    first, rows, before = 0, [], None
    for block in blocks:
        point = dense(block, "a block")
        if not (before is None or point.shape[1:] == before[1:]):
            raise ValueError(
                f"blocks of a bag must have the same features, got shape={point.shape} after "
                f"shape={before}"
            )
        before = point.shape
        here = wanted[(wanted >= first) & (wanted < first + len(point))]
        rows.append(point[here - first])
        first += len(point)
    return np.concatenate(rows) if rows else np.zeros((0, 1))


@dataclass(frozen=True, slots=True, eq=False)
class LabelledBags:
    """Checked bags with their proportions; built by `of`.

    Parameters
    ----------
    points
        Finite points by features, one array per bag, at least two points in each.
    mixture
        Share of each class in each bag, rows on the simplex.
    noise
        Covariance of the noise in each row of `mixture`; None without noise.

    Notes
    -----
    **Guarantees.** There are at least as many bags as classes and at least two classes; the proportions
    have a condition number of at most 1e6; no array is shared with the arguments of `of`.

    Examples
    --------
    >>> bags = LabelledBags.of([np.zeros((5, 1)), np.ones((7, 1))], np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> bags.size
    array([5, 7])
    """

    points: tuple[Float[np.ndarray, "_ features"], ...]
    mixture: Float[np.ndarray, "bags classes"]
    noise: Float[np.ndarray, "bags classes classes"] | None

    @classmethod
    def of(
        cls,
        bags: Sequence[Float[np.ndarray, "_ features"]],
        proportions: Float[np.ndarray, "bags classes"],
        noise: Float[np.ndarray, "bags classes classes"] | None = None,
    ) -> "LabelledBags":
        """Check and copy; a ValueError names the bag and what is wrong with it."""
        mixture = _checked_mixture(np.array(proportions, dtype=np.float64))
        if not len(bags) == len(mixture):
            raise ValueError(
                f"bags must be one per row of proportions, got {len(bags)} and {len(mixture)}"
            )
        points = tuple(checked_bag(bag, f"bag {position}") for position, bag in enumerate(bags))
        for position, point in enumerate(points):
            if not point.shape[1] == points[0].shape[1]:
                raise ValueError(
                    f"bags must have the same features, got {points[0].shape[1]} in bag 0 and "
                    f"{point.shape[1]} in bag {position}"
                )
        return cls(points, mixture, None if noise is None else _checked_noise(noise, mixture))

    def only(self, bags: Int[np.ndarray, " some"]) -> "LabelledBags":
        """Return some of the bags; the condition on their proportions must hold for these too."""
        noise = None if self.noise is None else self.noise[bags]
        return LabelledBags(tuple(self.points[bag] for bag in bags), self.mixture[bags], noise)

    @property
    def size(self) -> Int[np.ndarray, " bags"]:
        """Points in each bag."""
        return np.array([len(point) for point in self.points])

    @property
    def evidence(self) -> Float[np.ndarray, " bags"]:
        """The :func:`label_evidence` of each bag."""
        return label_evidence(self.size, self.noise)


def label_evidence(
    size: Int[np.ndarray, " bags"], noise: Float[np.ndarray, "bags classes classes"] | None
) -> Float[np.ndarray, " bags"]:
    """Return the number of labels that would estimate each bag's shares equally well: fewer under noise.

    Examples
    --------
    >>> label_evidence(np.array([4, 9]), None)
    array([4., 9.])
    >>> label_evidence(np.array([10]), np.array([[[0.05, -0.05], [-0.05, 0.05]]]))
    array([5.])
    """
    off = 0.0 if noise is None else np.trace(noise, axis1=1, axis2=2)
    return np.asarray(size / (1 + size * off))


@dataclass(frozen=True, slots=True, eq=False)
class ConstantFeatures:
    """Features with one value at all labelled points, in a test of bags that have others.

    Such a feature tells no classes apart and has no unit, so that no method uses it. But many points of
    another value are a sign that a bag is not a mixture of what was seen.

    Parameters
    ----------
    place, value
        Columns of these features, and their values.
    n_features
        Number of all features.
    least
        Number of labelled points of the class with the fewest.

    Examples
    --------
    >>> point, labelled = np.array([[1.0, 7.0], [2.0, 7.0]]), np.array([30, 30])
    >>> known = ConstantFeatures.of(point, np.array([False, True]), labelled, np.eye(2))
    >>> known.p_value(known.others(np.array([[3.0, 8.0]] * 4)), 4) < 0.001
    True
    """

    place: Int[np.ndarray, " constants"]
    value: Float[np.ndarray, " constants"]
    n_features: int
    least: float

    @classmethod
    def of(
        cls,
        point: Block,
        constant: Bool[np.ndarray, " features"],
        size: Int[np.ndarray, " bags"],
        mixture: Float[np.ndarray, "bags classes"],
    ) -> "ConstantFeatures":
        """Build from labelled points, which of their features are constant, and the bags' proportions."""
        least = float((size @ mixture).min())
        return cls(np.flatnonzero(constant), point[0, constant].copy(), len(constant), least)

    def others(self, point: Block) -> Int[np.ndarray, " constants"]:
        """Return the number of points of another value, beyond single precision, for each feature."""
        off = np.abs(point[:, self.place] - self.value)
        return np.asarray(np.count_nonzero(off > ROUNDING * np.abs(self.value), axis=0))

    def only(self, kept: Bool[np.ndarray, " constants"]) -> "ConstantFeatures":
        """Return some of these features."""
        return replace(self, place=self.place[kept], value=self.value[kept])

    def p_value(self, others: Int[np.ndarray, " constants"], n: float | int) -> float:
        """Return the chance of so many other values among the n points of a mixture of the classes.

        At worst all of them, and all n points, are of the class of which the fewest were labelled: given
        how many there are, the chance that none of them was labelled is hypergeometric. It counts once for
        each feature (Bonferroni), so that a single rare value in a bag is no evidence.
        """
        k, gamma = int(others.max(initial=0)), math.lgamma
        log = gamma(n + 1) - gamma(n - k + 1)
        log -= gamma(n + self.least + 1) - gamma(n + self.least - k + 1)
        return min(1.0, self.n_features * math.exp(min(log, 0.0)))


def column_names(bag: object) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns; None for an array, and where a name is not text.

    Examples
    --------
    >>> column_names(np.zeros((2, 2))) is None
    True
    """
    names = tuple(getattr(bag, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def shared_names(found: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the names that all bags with names share, in order; raise ValueError where two differ.

    Examples
    --------
    >>> shared_names([None, ("age", "size"), ("age", "size")])
    ('age', 'size')
    """
    known = list(dict.fromkeys(names for names in found if names is not None))
    if len(known) > 1:
        raise ValueError(
            "bags must have the same columns in the same order, "
            f"got {list(known[1])} after {list(known[0])}"
        )
    return known[0] if known else None


def dense(bag: object, name: str, names: tuple[str, ...] | None = None) -> np.ndarray:
    """Return a bag or block as float64, without a copy if it is; raise ValueError if it is sparse.

    `names`, if given, are the columns that a data frame must have.

    Examples
    --------
    >>> dense([[1], [2]], "the bag")
    array([[1.],
           [2.]])
    """
    if hasattr(bag, "toarray"):
        raise ValueError(f"{name} must be dense, got a {type(bag).__name__}: use its toarray()")
    shared_names([names, column_names(bag)] if names else [])
    return np.asarray(bag, dtype=np.float64)


def check_blocks(blocks: Blocks, name: str) -> None:
    """Raise ValueError for one matrix in place of blocks of rows."""
    if getattr(blocks, "ndim", None) == 2:
        raise ValueError(f"{name} must be blocks of rows, got one matrix: wrap it in a list")


def checked_bag(
    bag: Float[np.ndarray, "points features"], name: str
) -> Float[np.ndarray, "points features"]:
    """Return a copy as float64, or raise a ValueError that names the bag.

    Examples
    --------
    >>> checked_bag([[1], [2]], "the bag").shape
    (2, 1)
    """
    point = dense(bag, name).copy()
    if not (point.ndim == 2 and len(point) >= 2 and point.shape[1] >= 1):
        raise ValueError(
            f"{name} must hold at least 2 points by 1 feature, got shape={point.shape}"
        )
    if not np.isfinite(point).all():
        raise ValueError(f"{name} must be finite in every cell")
    return point


def _checked_mixture(
    mixture: Float[np.ndarray, "bags classes"],
) -> Float[np.ndarray, "bags classes"]:
    """Move proportions within tolerance of the simplex onto it; raise ValueError for others."""
    if not (mixture.ndim == 2 and mixture.shape[1] >= 2):
        raise ValueError(
            f"proportions must be bags by classes, 2 classes at least, got shape={mixture.shape}"
        )
    n_bags, n_classes = mixture.shape
    if not n_bags >= n_classes:
        raise ValueError(
            f"bags must be at least as many as classes, got {n_bags} bags of {n_classes} classes"
        )
    adds_up = np.abs(mixture.sum(axis=1) - 1) <= SIMPLEX_TOLERANCE
    inside = adds_up & (mixture >= -SIMPLEX_TOLERANCE).all(axis=1)
    if not inside.all():
        raise ValueError(
            "proportions must be >= 0 and add up to 1 in every bag, those of "
            f"bag {int(np.argmin(inside))} do not; project noisy releases on the simplex first"
        )
    mixture = np.maximum(mixture, 0.0)
    mixture /= mixture.sum(axis=1, keepdims=True)
    condition = float(np.linalg.cond(mixture))
    if not condition <= MAX_MIXING_CONDITION:
        raise ValueError(
            "proportions must differ between bags enough to tell the classes apart, got condition "
            f"number {condition:.1e}, allowed {MAX_MIXING_CONDITION:.0e}"
        )
    return mixture


def _checked_noise(
    noise: Float[np.ndarray, "bags classes classes"], mixture: Float[np.ndarray, "bags classes"]
) -> Float[np.ndarray, "bags classes classes"]:
    """Return the covariances as float64; raise ValueError unless there is one for each bag."""
    covariance = np.array(noise, dtype=np.float64)
    if not covariance.shape == (*mixture.shape, mixture.shape[1]):
        raise ValueError(
            "noise must be one covariance of the classes per bag, "
            f"got shape={covariance.shape} for proportions of shape {mixture.shape}"
        )
    if not np.isfinite(covariance).all():
        raise ValueError("noise must be finite")
    rounding = 1e-9 * np.abs(covariance).max()
    if not (np.abs(covariance - covariance.swapaxes(1, 2)) <= rounding).all():
        raise ValueError("noise must be symmetric in every bag")
    if not (np.linalg.eigvalsh(covariance) >= -rounding).all():
        raise ValueError("noise must be positive semi-definite in every bag")
    return covariance


def class_names(
    classes: Sequence[str] | np.ndarray | None, n_classes: int
) -> tuple[str, ...] | None:
    """Return the names of the classes, or None; raise ValueError unless there is one for each."""
    if classes is None:
        return None
    if isinstance(classes, str):  # whose letters would be the names
        raise ValueError(f"classes must be a list of names, got the text {classes!r}")
    found = tuple(map(str, classes))
    if len(found) != n_classes:
        raise ValueError(f"classes must be {n_classes} names, one per class, got {len(found)}")
    return found

"""The best objects for a query under any scorer, within a budget of evaluations.

>>> from learners.search.covers import FeatureCover
>>> objects = np.array([[0.0, 1.0], [1.0, 0.0], [0.7, 0.7]])
>>> queries = np.array([[1.0, 0.1], [0.1, 1.0], [1.0, 0.9]])
>>> index = PredictiveIndex(FeatureCover(), exclude_self=False).fit(objects, queries=queries)
>>> index.query(np.array([1.0, 1.0]), k=1, budget=2).ids
array([2])
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from learners.search.covers import Cover, FittedCover, HyperplaneCover
from privacy.query import is_whole

__all__ = ["Found", "PredictiveIndex", "Scorer", "Weighting"]

Scorer: TypeAlias = Callable[[Any, Any], Any] | Literal["inner_product", "sqeuclidean"]
"""``scorer(query, objects)``: the score of each row of objects for one query; higher is better.

"sqeuclidean" is minus the squared distance.
"""

Weighting: TypeAlias = Literal["dcg", "mean", "hit"]

N_HIT = 10  # best objects that "hit" counts
FAR = 16  # standard deviations of a feature from 0 to its mean, beyond which it is centred for distances
_BLOCK = 256  # training queries scored at once


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Result of :meth:`PredictiveIndex.query`.

    Parameters
    ----------
    ids, scores
        Row numbers of the best objects found, the best first, and their scores.
    n_evaluations
        Objects that were scored.
    fell_back
        Whether no cell with a list held the query, so that the global list alone was read.
    """

    ids: Int[np.ndarray, " found"]
    scores: Float[np.ndarray, " found"]
    n_evaluations: int
    fell_back: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Lists:
    """Objects and their values, best first, cell by cell."""

    start: Int[np.ndarray, " bounds"]
    ids: Int[np.ndarray, " entries"]
    value: Float[np.ndarray, " entries"]

    def of(self, cell: int) -> slice:
        return slice(int(self.start[cell]), int(self.start[cell + 1]))


class PredictiveIndex(BaseEstimator):  # type: ignore[misc]
    """Lists of the objects that queries like this one scored highest, read until a budget is spent.

    Parameters
    ----------
    cover
        `FeatureCover`, `HyperplaneCover`, or anything with their `fit` and `cells`; 20 partitions by
        default.
    scorer
        Function of one query and rows of objects that returns a score for each, higher for better, or
        "inner_product" or "sqeuclidean" (minus the squared distance), which the fit computes in single
        precision.
    weighting
        What an object earns from a training query: "dcg", 1 / log2(rank + 1) for ranks up to `top`;
        "mean", its score; "hit", 1 for ranks up to 10. Divided by the training queries of the cell, for
        "mean" by those that scored it.
    top
        Ranks that count for "dcg".
    list_length
        Longest list kept.
    merge
        "max", by the largest value in any list that holds the query; "sum", by the sum of its values in
        them, which finds more neighbours; or "round_robin", one object of each list in turn.
    max_queries
        Training queries used, at most; drawn from those given.
    exclude_self
        Whether a training query that is itself an object earns that object nothing, for the case that later
        queries are not among the objects. It applies if fit gets no queries.
    fallback
        What follows when the lists of a query are used up: "global", the global list, or "none": then
        fewer objects are scored, and fewer than k may be found.
    random_state
        Seed of the cover where none is given, and of the queries drawn.

    Attributes
    ----------
    n_cells_
        Cells with a list.
    global_list_
        Objects by what they earned from all training queries, the best first.
    n_scored_
        Evaluations that the fit took: training queries times objects.
    coverage_
        Share of the training queries whose cells have a list, 1 unless the cover leaves some out.

    Notes
    -----
    Where to use it: a scorer that is a black box (a model of what a label is worth, say), and a law of
    queries to be learned. **For distances and inner products use a library for metric search**: a graph
    index finds more with about as many evaluations (`benchmarks/learners/predictive_index.py` prints
    how much).

    **Guarantees.** At most `budget` objects are scored, each once; a larger budget never gives worse
    scores; with a budget of all objects, and the global list behind, the result is exact. For one list,
    "hit" with one hit maximises the share of training queries whose best object is among the first (the
    paper's Lemma 2.1).

    **Cost.** Fit: queries times objects evaluations; memory in proportion to queries, ranks and cells
    of a query, and for "mean" to cells times objects. Query: `budget` evaluations.

    Raises
    ------
    ValueError
        If a parameter is out of its range, queries are not finite rows of one width, or this does not return
        a finite score for each object. Unless the scorer is a function, queries have the objects' width and,
        in data frames, the names of their columns.

    References
    ----------
    .. [1] Goel, Langford, Strehl, "Predictive indexing for fast search", NIPS 2008.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> objects = rng.normal(size=(500, 8))
    >>> index = PredictiveIndex(random_state=0).fit(objects, queries=rng.normal(size=(300, 8)))
    >>> found = index.query(rng.normal(size=8), k=3, budget=60)
    >>> len(found.ids), found.n_evaluations
    (3, 60)
    """

    n_cells_: int
    global_list_: Int[np.ndarray, " objects"]
    n_scored_: int
    coverage_: float

    def __init__(
        self,
        cover: Cover | None = None,
        *,
        scorer: Scorer = "inner_product",
        weighting: Weighting = "dcg",
        top: int = 16,
        list_length: int = 1000,
        merge: Literal["max", "sum", "round_robin"] = "max",
        max_queries: int = 10_000,
        exclude_self: bool = True,
        fallback: Literal["global", "none"] = "global",
        random_state: Any = None,
    ) -> None:
        self.cover = cover
        self.scorer = scorer
        self.weighting = weighting
        self.top = top
        self.list_length = list_length
        self.merge = merge
        self.max_queries = max_queries
        self.exclude_self = exclude_self
        self.fallback = fallback
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, queries: Any = None) -> "PredictiveIndex":
        """Make the lists of the objects X from training queries, by default the objects; y is ignored."""
        objects = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self._check()
        self._scorer = self.scorer
        asked = objects if queries is None else self._queries(queries, objects.shape[1])
        rng = np.random.default_rng(self.random_state)
        cover = self.cover or HyperplaneCover(random_state=rng)
        drawn = np.sort(rng.permutation(len(asked))[: self.max_queries])
        asked, own = asked[drawn], queries is None and self.exclude_self
        self._objects, self._width = objects, asked.shape[1]
        self._cover: FittedCover = cover.fit(asked)
        cells = self._cover.cells(asked)
        n_cells = 1 + max((int(one.max()) for one in cells if len(one)), default=-1)
        accumulate = _Dense if self.weighting == "mean" else _Sparse
        earned = accumulate(n_cells + 1, len(objects))  # the last cell holds every query
        centre = _far_centre(objects) if self._scorer == "sqeuclidean" else np.zeros(1)
        single, unit = objects, 1.0
        if not callable(self._scorer):
            moved = objects - centre
            of_objects, unit = _unit(moved), _unit(asked - centre)
            if self._scorer == "sqeuclidean":
                of_objects = unit = max(of_objects, unit)
            moved /= of_objects
            single = moved.astype(np.float32)
        for at in range(0, len(asked), _BLOCK):
            block = ((asked[at : at + _BLOCK] - centre) / unit).astype(single.dtype)
            scores = self._scores(block, single)
            if own:
                scores[np.arange(len(scores)), drawn[at : at + _BLOCK]] = -np.inf
            for row, held in zip(scores, cells[at : at + _BLOCK], strict=True):
                earned.add(np.append(held, n_cells), *self._earned(row))
        sizes = np.bincount(np.concatenate([*cells, [n_cells] * len(asked)]), minlength=n_cells + 1)
        self._lists = earned.lists(sizes, self.list_length)
        best = self._lists.ids[self._lists.of(n_cells)]
        rest = np.setdiff1d(np.arange(len(objects)), best)
        self.global_list_, self.n_cells_ = np.concatenate([best, rest]), int((sizes[:-1] > 0).sum())
        self.n_scored_ = len(asked) * len(objects)
        self.coverage_ = float(np.mean([len(one) > 0 for one in cells]))
        return self

    def query(self, query: Float[np.ndarray, " features"], k: int = 10, budget: int = 500) -> Found:
        """Return the best k of at most `budget` objects, taken from the lists of the query's cells.

        When these are used up the global list follows, unless `fallback` is "none". Of equal scores the
        lower row number comes first.
        """
        check_is_fitted(self)
        if not (is_whole(k) and is_whole(budget) and 1 <= k <= budget):
            raise ValueError(
                f"k must be from 1 to the budget, both whole numbers, got {k=} and {budget=}"
            )
        query = self._query(query)
        ids = self.candidates(query, budget)
        if self._scorer == "sqeuclidean":  # by differences: exact however far from the origin
            scores = -np.square(self._objects[ids] - query).sum(axis=1)
        else:
            scores = self._scores(query[None], self._objects[ids])[0]
        order = np.lexsort((ids, -scores))[:k]
        return Found(ids[order], scores[order], len(ids), not self._held(query))

    def kneighbors(
        self, queries: Any, k: int = 10, budget: int = 500
    ) -> tuple[Float[np.ndarray, "queries k"], Int[np.ndarray, "queries k"]]:
        """Return scores and row numbers of the best k for each of several queries; NaN and -1 fill up."""
        check_is_fitted(self)
        self._check_names(queries)
        # as wide as the training's, which `_query` checks
        rows = check_array(queries, dtype=np.float64)
        self._check_number("k", k)
        k = int(k)
        scores, ids = np.full((len(rows), k), np.nan), np.full((len(rows), k), -1)
        for at, row in enumerate(rows):
            found = self.query(row, k, budget)
            scores[at, : len(found.ids)], ids[at, : len(found.ids)] = found.scores, found.ids
        return scores, ids

    def candidates(
        self, query: Float[np.ndarray, " features"], budget: int
    ) -> Int[np.ndarray, " candidates"]:
        """Return the row numbers of the objects to score for a query, in the order of scoring."""
        check_is_fitted(self)
        self._check_number("budget", budget)
        query = self._query(query)
        lists = self._held(query)
        ids = np.concatenate([np.zeros(0, int), *(self._lists.ids[one] for one in lists)])
        if self.merge == "round_robin":
            depth = np.concatenate(
                [np.zeros(0), *(np.arange(one.stop - one.start) for one in lists)]
            )
            ids = ids[np.argsort(depth, kind="stable")]
        else:
            value = np.concatenate([np.zeros(0), *(self._lists.value[one] for one in lists)])
            if self.merge == "sum":
                ids, place = np.unique(ids, return_inverse=True)
                value = np.bincount(place, value, len(ids))
            ids = ids[np.lexsort((ids, -value))]
        ids = _first_of_each(ids)[:budget]
        if len(ids) < budget and self.fallback == "global":
            ids = _first_of_each(np.concatenate([ids, self.global_list_[:budget]]))[:budget]
        return ids

    def _queries(self, given: Any, width: int) -> Float[np.ndarray, "queries features"]:
        """Return training queries; raise ValueError unless finite rows, as wide as a named scorer needs."""
        self._check_names(given)
        asked = _numbers("queries", given)
        if not (
            asked.ndim == 2 and len(asked) and (callable(self._scorer) or asked.shape[1] == width)
        ):
            raise ValueError(f"queries must be rows of {width} features, got shape={asked.shape}")
        if not np.isfinite(asked).all():
            row, column = np.argwhere(~np.isfinite(asked))[0]
            raise ValueError(
                f"queries must be finite, got {asked[row, column]} at row {row}, column {column}"
            )
        return asked

    def _check_names(self, queries: Any) -> None:
        """Raise ValueError for columns with other names than the objects', whose features they are."""
        if not callable(self._scorer):  # a function's queries may be of a kind of their own
            validate_data(self, queries, reset=False, skip_check_array=True, ensure_2d=False)

    def _query(self, given: Any) -> Float[np.ndarray, " features"]:
        """Return one query; raise ValueError unless it is finite and as wide as those of the training."""
        query = _numbers("query", given)
        if not (query.shape == (self._width,) and np.isfinite(query).all()):
            raise ValueError(
                f"query must be {self._width} finite numbers, got {query} of shape={query.shape}"
            )
        return query

    def _held(self, query: Float[np.ndarray, " features"]) -> list[slice]:
        """Return the lists of the cells that hold a query; a cell without training queries has none."""
        last = len(self._lists.start) - 2
        cells = [int(cell) for cell in self._cover.cells(query[None])[0] if cell < last]
        return [one for one in map(self._lists.of, cells) if one.start < one.stop]

    def _earned(
        self, scores: Float[np.ndarray, " objects"]
    ) -> tuple[Int[np.ndarray, " earning"], Float[np.ndarray, " earning"]]:
        """Return the objects that earn something from one query's scores, and how much."""
        if self.weighting == "mean":
            return np.arange(len(scores)), scores
        n_top = min(N_HIT if self.weighting == "hit" else self.top, int(np.isfinite(scores).sum()))
        best = np.argpartition(-scores, n_top - 1)[:n_top] if n_top else np.zeros(0, int)
        best = best[np.lexsort((best, -scores[best]))]
        if self.weighting == "hit":
            return best, np.ones(n_top)
        return best, 1 / np.log2(np.arange(n_top) + 2)

    def _scores(
        self, queries: Float[np.ndarray, "queries features"],
        objects: Float[np.ndarray, "objects columns"],
    ) -> Float[np.ndarray, "queries objects"]:  # fmt: skip
        """Return scores of objects for queries; raise ValueError unless there is a finite one for each."""
        if not callable(self._scorer):
            found = queries @ objects.T
            if self._scorer == "sqeuclidean":
                norms = [np.einsum("ij,ij->i", one, one) for one in (queries, objects)]
                found = 2 * found - norms[0][:, None] - norms[1]
            return np.asarray(found)
        found = np.empty((len(queries), len(objects)))
        for row, one in zip(found, queries, strict=True):
            score = _numbers("what scorer returns", self._scorer(one, objects), kind=None)
            if score.dtype.kind not in "biufO" or score.shape != row.shape:
                raise ValueError(
                    "scorer must return one finite score for each object,"
                    f" got shape {score.shape} of {score.dtype} for {len(objects)} objects"
                )
            row[:] = score
            if not np.isfinite(row).all():
                raise ValueError(
                    "scorer must return one finite score for each object, got NaN or infinity"
                )
        return found

    def _check(self) -> None:
        known = isinstance(self.cover, Cover) and not isinstance(self.cover, type)
        if not (self.cover is None or known):
            raise TypeError(
                f"cover must be one such as FeatureCover(), or None, got cover={self.cover!r}"
            )
        if self.weighting not in ("dcg", "mean", "hit"):
            raise ValueError(f"weighting must be 'dcg', 'mean' or 'hit', got {self.weighting!r}")
        if self.merge not in ("max", "sum", "round_robin"):
            raise ValueError(f"merge must be 'max', 'sum' or 'round_robin', got {self.merge!r}")
        if self.fallback not in ("global", "none"):
            raise ValueError(f"fallback must be 'global' or 'none', got {self.fallback!r}")
        if not (callable(self.scorer) or self.scorer in ("inner_product", "sqeuclidean")):
            raise ValueError(
                f"scorer must be a function, 'inner_product' or 'sqeuclidean', got {self.scorer!r}"
            )
        for name in ("top", "list_length", "max_queries"):
            self._check_number(name, getattr(self, name))

    @staticmethod
    def _check_number(name: str, number: int) -> None:
        if not (is_whole(number) and number >= 1):
            raise ValueError(f"{name} must be a whole number >= 1, got {name}={number!r}")


def _numbers(what: str, given: Any, *, kind: type[np.float64] | None = np.float64) -> np.ndarray:
    """Return the numbers as an array; raise ValueError for texts, and for rows of several lengths."""
    try:
        return np.asarray(given, dtype=kind)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(
            f"{what} must be numbers, as many in each row, got something else"
        ) from None


def _far_centre(objects: Float[np.ndarray, "objects features"]) -> Float[np.ndarray, " features"]:
    """Return the mean of features so far from 0 that squares leave distances no digits; 0 for others."""
    mean = objects.mean(axis=0)
    return np.where(np.abs(mean) > FAR * objects.std(axis=0), mean, 0.0)


def _unit(rows: Float[np.ndarray, "rows features"]) -> float:
    """Return a power of two near the largest number: divided by it, no product leaves single precision."""
    return math.ldexp(1.0, math.frexp(max(float(rows.max()), -float(rows.min())))[1] - 1)


def _first_of_each(ids: Int[np.ndarray, " entries"]) -> Int[np.ndarray, " objects"]:
    """Drop repeats, keeping the order of first occurrences."""
    return ids[np.sort(np.unique(ids, return_index=True)[1])]


class _Sparse:
    """What few objects earn in each cell: pairs that are added up at the end."""

    def __init__(self, n_cells: int, n_objects: int) -> None:
        self.n_cells, self.n_objects = n_cells, n_objects
        self.key: list[Any] = []
        self.value: list[Any] = []

    def add(
        self, cells: Int[np.ndarray, " cells"], ids: Int[np.ndarray, " earning"],
        value: Float[np.ndarray, " earning"],
    ) -> None:  # fmt: skip
        """Let objects earn in some cells."""
        self.key.append((cells[:, None] * self.n_objects + ids).ravel())
        self.value.append(np.tile(value, len(cells)).astype(np.float32))

    def lists(self, sizes: Int[np.ndarray, " cells"], length: int) -> _Lists:
        """Return the objects of each cell by their earnings from a query in it; ties to the lower number."""
        key, value = np.concatenate(self.key), np.concatenate(self.value)
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order].astype(np.float64)
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        total, cell = np.add.reduceat(value, first), key[first] // self.n_objects
        ids, total = key[first] % self.n_objects, total / sizes[cell]
        order = np.lexsort((ids, -total, cell))
        start = np.searchsorted(cell, np.arange(self.n_cells + 1))
        kept = order[(np.arange(len(order)) - start[cell]) < length]
        return _Lists(
            np.searchsorted(cell[kept], np.arange(self.n_cells + 1)), ids[kept], total[kept]
        )


class _Dense:
    """What every object earns in each cell."""

    def __init__(self, n_cells: int, n_objects: int) -> None:
        self.total = np.zeros((n_cells, n_objects))
        self.n_scores = np.zeros((n_cells, n_objects), dtype=np.int32)

    def add(
        self, cells: Int[np.ndarray, " cells"], ids: Int[np.ndarray, " earning"],
        value: Float[np.ndarray, " earning"],
    ) -> None:  # fmt: skip
        """Let objects earn in some cells; one that is left out, at minus infinity, does not."""
        scored = np.isfinite(value)
        self.total[cells] += np.where(scored, value, 0.0)
        self.n_scores[cells] += scored

    def lists(self, sizes: Int[np.ndarray, " cells"], length: int) -> _Lists:
        """Return the objects of each cell by mean score; cells without a training query have no list."""
        counts, ids, values = np.zeros(len(sizes), dtype=int), [], []
        for cell in np.flatnonzero(sizes):  # one after another: the tables are large enough
            n_scores = self.n_scores[cell]
            mean = np.where(n_scores > 0, self.total[cell] / np.maximum(n_scores, 1), np.inf)
            # an object without a score has no mean, and is worth as little as the worst
            mean = np.where(n_scores > 0, mean, mean.min())
            best = np.argsort(-mean, kind="stable")[:length].copy()
            counts[cell] = len(best)
            ids.append(best)
            values.append(mean[best])
        return _Lists(np.append(0, np.cumsum(counts)), np.concatenate(ids), np.concatenate(values))

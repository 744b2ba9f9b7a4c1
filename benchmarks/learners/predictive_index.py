"""Predictive indexing beside hashing, the halted threshold algorithm and a graph index, at equal evaluations.

``python -m benchmarks.learners.predictive_index [queries]`` writes the page; with ``build`` in place of a
number it prints the CPU seconds that the lists of 60,000 objects take, and writes nothing.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure

from benchmarks.peers.peers import FAISS
from benchmarks.publish import RESULTS, publish
from learners import FeatureCover, HyperplaneCover, PredictiveIndex

DATA = RESULTS.parents[2] / "shared" / "data" / "ml"
PARTITIONS = (5, 20, 70)
MNIST_ROWS = 4000
Row = tuple[str, ...]
Points = dict[str, list[tuple[float, float]]]


def sets() -> Iterator[tuple[str, np.ndarray]]:
    """Pendigits and MNIST; rows in a seeded order."""
    with gzip.open(DATA / "pendigits.csv.gz", "rt") as lines:
        rows = [row[:-1] for row in csv.reader(lines)]
    yield "pendigits", np.array(rows, float)
    with np.load(DATA / "mnist20k.npz") as data:
        yield "MNIST", data["X"][:MNIST_ROWS].astype(float)


def ranks(x: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Rank, from 1, of every object for each query."""
    distance = (x**2).sum(axis=1) - 2 * queries @ x.T
    return np.argsort(np.argsort(distance, axis=1), axis=1) + 1


def quality(rank: np.ndarray, found: list[np.ndarray]) -> tuple[float, float]:
    """Share of the nearest objects found, and mean rank of the tenth found where there are ten."""
    hits, tenth = [], []
    for row, ids in zip(rank, found, strict=True):
        best = np.sort(row[ids])
        hits.append(len(best) > 0 and best[0] == 1)
        if len(best) >= 10:
            tenth.append(best[9])
    return float(np.mean(hits)), float(np.mean(tenth)) if tenth else np.inf


def hashed(cover: object, x: np.ndarray, queries: np.ndarray) -> list[np.ndarray]:
    """Objects in a cell of the query, those that share most cells first: locality-sensitive hashing."""
    cells = cover.cells(x)
    owner = np.repeat(np.arange(len(x)), [len(one) for one in cells])
    cell = np.concatenate(cells)
    order = np.argsort(cell, kind="stable")
    cell, owner = cell[order], owner[order]
    found = []
    for held in cover.cells(queries):
        ends = zip(np.searchsorted(cell, held), np.searchsorted(cell, held, "right"), strict=True)
        ids = np.concatenate([np.zeros(0, int), *(owner[a:b] for a, b in ends)])
        ids, counts = np.unique(ids, return_counts=True)
        found.append(ids[np.argsort(-counts, kind="stable")])
    return found


def neighbours(n_queries: int, points: Points) -> Iterator[Row]:
    for name, x in sets():
        order = np.random.default_rng(0).permutation(len(x))
        queries, objects = x[order[:n_queries]], x[order[n_queries:]]
        rank = ranks(objects, queries)
        graph = searched(objects, queries)
        for partitions in PARTITIONS:
            cover = HyperplaneCover(partitions, random_state=0)
            near = hashed(cover.fit(objects), objects, queries)
            budgets = [len(one) for one in near]
            index = PredictiveIndex(
                cover, scorer="sqeuclidean", weighting="hit", max_queries=5000, exclude_self=False
            )
            index.fit(objects)
            ours = [
                index.candidates(query, budget) if budget else np.zeros(0, int)
                for query, budget in zip(queries, budgets, strict=True)
            ]
            evaluations = float(np.mean(budgets))
            here, lsh = quality(rank, ours), quality(rank, near)
            points.setdefault(f"{name}: predictive index", []).append((evaluations, here[0]))
            points.setdefault(f"{name}: hashing", []).append((evaluations, lsh[0]))
            cells, wins = "-", here[1] <= lsh[1]
            if graph:
                n, ids = min(graph, key=lambda one: abs(np.log(one[0] / evaluations)))
                peer = quality(rank, list(np.array(ids)))
                cells = f"{peer[0]:.2f}, {peer[1]:.1f} at {n:.0f}"
            yield (
                f"{name}, {partitions} partitions", f"{evaluations:.0f}", f"{here[0]:.2f}, {here[1]:.1f}",
                f"{lsh[0]:.2f}, {lsh[1]:.1f}", cells,
                "the graph index" if graph else "here" if wins else "hashing",
            )  # fmt: skip
        for n, ids in graph:
            points.setdefault(f"{name}: HNSW", []).append(
                (n, quality(rank, list(np.array(ids)))[0])
            )


def searched(objects: np.ndarray, queries: np.ndarray) -> list[tuple[float, list[list[int]]]]:
    """What a graph index finds, with its distance computations; empty if faiss cannot be installed."""
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npz"
        np.savez(rows, objects=objects, queries=queries)
        printed = FAISS.run("hnsw_side.py", str(rows))
    return json.loads(printed) if printed else []


def adverts(n_queries: int) -> Iterator[Row]:
    """Pages of binary features from topics, adverts with a dense linear rule of page and advert."""
    rng = np.random.default_rng(0)
    n_features, n_objects, n_train, topics = 600, 5000, 2000, 20
    words = rng.dirichlet(np.full(n_features, 0.05), size=topics)
    pages = np.stack([
        rng.random(n_features) < 1 - np.exp(-60 * words[rng.integers(topics, size=2)].mean(axis=0))
        for _ in range(n_train + n_queries)
    ]).astype(float)  # fmt: skip
    objects = rng.normal(size=(n_objects, topics)) @ words * 40 + 0.05 * rng.normal(
        size=(n_objects, n_features)
    )
    train, asked = pages[:n_train], pages[n_train:]
    exact = asked @ objects.T
    rank = np.argsort(np.argsort(-exact, axis=1), axis=1) + 1
    projected = np.argsort(-objects, axis=0, kind="stable")
    ways = {
        name: PredictiveIndex(FeatureCover(), weighting=weighting, merge="round_robin").fit(
            objects, queries=train
        )
        for name, weighting in (("PI-DCG", "dcg"), ("PI-AVG", "mean"))
    }
    best = ways["PI-DCG"].global_list_
    for budget in (100, 200, 500):
        found = {
            name: [one.candidates(query, budget) for query in asked] for name, one in ways.items()
        }
        found["halted TA"] = [
            round_robin(projected[:budget, np.flatnonzero(query)], budget) for query in asked
        ]
        found["best order"] = [best[:budget]] * len(asked)
        shares = {
            name: (
                np.mean([row[ids].min() == 1 for row, ids in zip(rank, lists, strict=True)]),
                np.mean([np.sort(row[ids])[9] == 10 for row, ids in zip(rank, lists, strict=True)]),
            )
            for name, lists in found.items()
        }
        cells = {name: f"{one:.2f} / {ten:.2f}" for name, (one, ten) in shares.items()}
        yield (
            f"adverts, exact 1st / exact 10 best, budget {budget}", str(budget),
            f"{cells['PI-DCG']} DCG, {cells['PI-AVG']} AVG",
            f"{cells['halted TA']} halted TA, {cells['best order']} best order", "-",
            "here" if min(shares[one][0] for one in ways) >= shares["halted TA"][0] else "halted TA",
        )  # fmt: skip


def round_robin(lists: np.ndarray, budget: int) -> np.ndarray:
    """One object of each list in turn; the threshold that could stop it earlier only saves evaluations."""
    ids = lists.ravel()
    return ids[np.sort(np.unique(ids, return_index=True)[1])][:budget]


def build() -> None:
    """Print what the lists of 60,000 objects take, from the default number of training queries."""
    rng = np.random.default_rng(0)
    with np.load(DATA / "mnist20k.npz") as data:
        x = np.tile(data["X"], (3, 1)).astype(np.float32)
    x += rng.normal(scale=5, size=x.shape).astype(np.float32)
    start = time.process_time()
    index = PredictiveIndex(scorer="sqeuclidean", random_state=0).fit(x)
    seconds = time.process_time() - start
    print(f"60000 x 784, {index.n_scored_:.1e} evaluations: {seconds:.0f} CPU seconds")


def picture(points: Points) -> Figure:
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for name, curve in points.items():
        which, way = name.split(": ")
        axis = axes[0 if which == "pendigits" else 1]
        axis.plot(*zip(*sorted(curve), strict=True), marker="o", label=way)
        axis.set(title=which, xlabel="evaluations", xscale="log")
    axes[0].set_ylabel("nearest object found")
    axes[0].legend()
    return figure


def main() -> None:
    if sys.argv[1:] == ["build"]:
        build()
        return
    n_queries = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    points: Points = {}
    rows = [*neighbours(n_queries, points), *adverts(n_queries)]
    publish(
        "predictive_index",
        "Predictive indexing",
        [
            "what",
            "evaluations",
            "here",
            "hashing, or other rival",
            "HNSW (faiss 1.15.1)",
            "who wins",
        ],
        rows,
        note=(
            f"{n_queries} queries that are not among the objects. Neighbours: share of the nearest object "
            "found, and mean rank of the tenth found; hashing and the predictive index take the same number "
            "of evaluations for each query, that of the objects in a cell with it; 5000 objects train "
            "the index, each for itself too, as in the paper. HNSW is shown at the breadth whose distance "
            f"computations are nearest. MNIST is its first {MNIST_ROWS} rows here. **For metric search take "
            "a graph index.** Adverts: 600 binary page features from 20 topics, 5000 adverts, 2000 training "
            "pages; the halted threshold algorithm reads adverts of each feature by their partial scores."
        ),
        picture=picture(points),
    )


if __name__ == "__main__":
    main()

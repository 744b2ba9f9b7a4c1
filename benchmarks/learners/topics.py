"""Concept graphs: recovery of simulated graphs, what labels are worth, held-out words beside peers.

``python -m benchmarks.learners.topics [seeds]``
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numba import njit
from scipy.sparse import csr_array
from scipy.special import logsumexp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from benchmarks.peers.peers import TOPICS
from benchmarks.publish import parser_of, publish
from learners import GraphLDA
from learners.topics.held_out_words import quadrature
from tests.learners.topics.simulated_documents import layered, matched, simulate

Row = tuple[str, str, str, str, str]

SIZES = (1, 3, 3, 3)
PAPER: dict[str, Any] = {
    "sampler": "conditional", "init": "root", "n_iter": 200, "burn_in": 199, "n_samples": 1,
    "n_restarts": 1,
}  # fmt: skip
GRID = 24  # quadrature nodes of each of two sticks
PARTICLES = 5


def labelled(paths: list[tuple[int, ...]], n: int, rng: np.random.Generator) -> np.ndarray:
    """The last concept of n documents, -1 for the others."""
    y = np.full(len(paths), -1)
    some = rng.permutation(len(paths))[:n]
    y[some] = [paths[d][-1] for d in some]
    return y


def recovery(seeds: int) -> Iterator[Row]:
    """Graphs of ten nodes, 1000 documents of 100 words: what is found of edges and paths."""
    cases: tuple[tuple[int, str, dict[str, Any]], ...] = (
        (0, "default", {"n_restarts": 4}), (60, "default", {}), (60, "paper's moves", PAPER),
        (250, "default", {}), (1000, "default", {}), (1000, "paper's moves", PAPER),
    )  # fmt: skip
    for n, name, knobs in cases:
        found, seconds = [], []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            X, paths, topics = simulate(SIZES, 1000, 100, 1000, rng)
            y = labelled(paths, n, rng) if n else None
            start = time.process_time()
            model = GraphLDA(SIZES, random_state=seed, **knobs).fit(
                csr_array(X), y, graph=layered(SIZES) if n else None
            )
            seconds.append(time.process_time() - start)
            found.append(matched(model, paths, topics))
        f1, tv, path = zip(*found, strict=True)
        yield (
            f"{n} of 1000 labelled, {name}", " ".join(f"{one:.2f}" for one in f1),
            " ".join(f"{one:.3f}" for one in path), f"edge TV {fmean(tv):.3f}",
            f"{fmean(seconds):.1f} s",
        )  # fmt: skip


def label_worth(seeds: int) -> Iterator[tuple[int, float, float, float]]:
    """Share of unlabelled documents whose last concept is found, by labels and method."""
    peers = {
        "LR": lambda: make_pipeline(TfidfTransformer(), LogisticRegression(max_iter=1000, C=10)),
        "NB": lambda: MultinomialNB(alpha=0.1),
    }
    for n in (30, 60, 150):
        right: dict[str, list[float]] = {"here": [], "LR": [], "NB": []}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            X, paths, _ = simulate(SIZES, 1000, 100, 1000, rng)
            y, rows = labelled(paths, n, rng), csr_array(X)
            truth, rest = np.array([path[-1] for path in paths]), y < 0
            model = GraphLDA(SIZES, n_restarts=4, random_state=seed)
            model.fit(rows, y, graph=layered(SIZES))
            right["here"].append(float(np.mean(model.labels_[rest] == truth[rest])))
            for name, make in peers.items():
                peer = make().fit(rows[~rest], y[~rest])
                right[name].append(float(np.mean(peer.predict(rows[rest]) == truth[rest])))
        yield (n, *(fmean(right[name]) for name in ("here", "LR", "NB")))


def hierarchical(X: np.ndarray, topics: np.ndarray, paths: np.ndarray, documents: np.ndarray,
                 gamma: float) -> float:  # fmt: skip
    """Exact log likelihood of a word under a tree of three levels with a Dirichlet(.1) over levels.

    Every leaf, new branches with a topic of equal words among them, by a grid of quadrature nodes.
    """
    topics = np.vstack([topics, np.full(X.shape[1], 1 / X.shape[1])])
    new, total = len(topics) - 1, documents[:, 2].sum()
    inner = {int(p): (int(n), rows) for p, n, rows in zip(
        paths[:, 1], documents[:, 1], (documents[paths[:, 1] == p, 2].sum() for p in paths[:, 1]),
        strict=True)}  # fmt: skip
    leaves = [
        (
            path,
            np.log(leaf / (total + gamma))
            + np.log(inner[path[1]][1] / (inner[path[1]][1] + gamma)),
        )
        for path, leaf in zip(paths.tolist(), documents[:, 2], strict=True)
    ]
    leaves += [
        ([0, p, new], np.log(rows / (total + gamma)) + np.log(gamma / (rows + gamma)))
        for p, (_, rows) in inner.items()
    ]
    leaves.append(([0, new, new], np.log(gamma / (total + gamma))))
    one, first = quadrature(GRID, 0.1, 0.2)
    two, second = quadrature(GRID, 0.1, 0.1)
    share = np.stack(
        [np.repeat(one, GRID), np.outer(1 - one, two).ravel(), np.outer(1 - one, 1 - two).ravel()]
    )
    weight = np.add.outer(first, second).ravel()
    score = 0.0
    for row in X:
        words = np.flatnonzero(row)
        logs = [
            chance + logsumexp(np.log(share.T @ topics[path][:, words]) @ row[words] + weight)
            for path, chance in leaves
        ]
        score += logsumexp(logs)
    return float(score / X.sum())


@njit(cache=True)
def _left_to_right(words: np.ndarray, topics: np.ndarray, alpha: np.ndarray, seed: int) -> float:
    """Wallach's left-to-right estimate of a document's log likelihood."""
    np.random.seed(seed)  # noqa: NPY002  # numba's own generator
    n_topics, total = len(alpha), alpha.sum()
    chance = np.zeros(len(words))
    for _ in range(PARTICLES):
        held, z = np.zeros(n_topics), np.zeros(len(words), np.int64)
        for n in range(len(words)):
            for before in range(n + 1):
                if before < n:
                    held[z[before]] -= 1
                mass = topics[:, words[before]] * (held + alpha)
                if before == n:
                    chance[n] += mass.sum() / (n + total) / PARTICLES
                at, k, run = np.random.random() * mass.sum(), 0, mass[0]  # noqa: NPY002
                while run < at and k < n_topics - 1:
                    k += 1
                    run += mass[k]
                z[before] = k
                held[k] += 1
    return np.log(chance).sum()


def reuters(n_settings: int) -> Iterator[tuple[str, float, float]]:
    """Log likelihood of a held-out word, in nats, of each model on one split; nothing without the peers."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "found.npz"
        if TOPICS.run("topics_side.py", str(out), str(n_settings)) is None:
            return
        with np.load(out) as stored:
            peers = dict(stored)
    X = peers["X"]
    order = np.random.default_rng(0).permutation(len(X))
    test, train = X[order[:79]], X[order[79:]]
    unigram = (train.sum(axis=0) + 0.1) / (train.sum() + 0.1 * X.shape[1])
    yield "unigram, + .1", float((test @ np.log(unigram)).sum() / test.sum()), 0.0
    for k in (10, 25, 50):
        topics, alpha = peers[f"lda{k}_topics"], peers[f"lda{k}_alpha"]
        words = [np.repeat(np.arange(len(row)), row) for row in test]
        score = sum(_left_to_right(one, topics, alpha, 0) for one in words) / test.sum()
        yield f"tomotopy LDA, {k} topics", float(score), float(peers[f"lda{k}_seconds"])
    for n in range(n_settings):
        eta, gamma = peers[f"hlda{n}_knobs"]
        score = hierarchical(
            test,
            peers[f"hlda{n}_topics"],
            peers[f"hlda{n}_paths"],
            peers[f"hlda{n}_documents"],
            gamma,
        )
        name = f"tomotopy hLDA, 3 levels, eta {eta:g}, gamma {gamma:g}"
        yield name, score, float(peers[f"hlda{n}_seconds"])
    models: tuple[tuple[str, dict[str, Any]], ...] = (
        ("GraphLDA, default", {}),
        ("GraphLDA, beta and eta sampled", {"optimize": ("beta", "eta")}),
        ("GraphLDA, the paper's moves, 200 sweeps", PAPER),
    )
    for name, knobs in models:
        start = time.process_time()
        model = GraphLDA(random_state=0, **knobs).fit(csr_array(train))
        seconds = time.process_time() - start
        yield name, model.score(csr_array(test)), seconds


def picture(
    worth: list[tuple[int, float, float, float]], held: list[tuple[str, float, float]]
) -> Figure:
    """What labels are worth, and held-out words."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    n = [row[0] for row in worth]
    for column, name, mark in (
        (1, "GraphLDA", "-o"),
        (2, "logistic regression, tf-idf", "--^"),
        (3, "naive Bayes", ":s"),
    ):
        left.plot(n, [row[column] for row in worth], mark, label=name)
    left.set(
        xlabel="labelled documents of 1000", ylabel="concepts right", title="what labels are worth"
    )
    # outside, for inside it covers a point wherever it stands
    figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9)
    shown = sorted(held, key=lambda row: row[1])
    colours = ["#00695c" if name.startswith("GraphLDA") else "#9e9e9e" for name, *_ in shown]
    least = min(row[1] for row in shown)
    right.barh(
        [row[0] for row in shown],
        [row[1] - least + 0.02 for row in shown],
        left=least - 0.02,
        color=colours,
    )
    right.set(title="held-out Reuters, nats a word (right is better)")
    return figure


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("seeds", nargs="?", type=int, default=5)
    seeds = parser.parse_args().seeds
    rows: list[Row] = list(recovery(seeds))
    worth = list(label_worth(min(seeds, 3)))
    rows += [
        (f"concepts of unlabelled documents, {n} labels", f"{here:.3f}", f"{lr:.3f} (LR)", f"{nb:.3f} (NB)",
         f"{here - max(lr, nb):+.3f}")
        for n, here, lr, nb in worth
    ]  # fmt: skip
    held = list(reuters(min(seeds, 4)))
    best = max(
        (score for name, score, _ in held if not name.startswith("GraphLDA")), default=np.nan
    )
    rows += [
        (f"held-out Reuters, {name}", f"{score:.3f} nats", f"{score - best:+.3f} to the best peer",
         "exact" if "LDA," not in name or not name.startswith("tomotopy LDA") else "left to right",
         f"{seconds:.0f} s")
        for name, score, seconds in held
    ]  # fmt: skip
    publish(
        "topics",
        "Concept graphs",
        ["what", "edge F1, or score", "paths right, or a peer", "more", "CPU seconds, or lead"],
        rows,
        note=(
            "Graphs of 1-3-3-3 nodes with the paper's hyper-parameters, 1000 documents of 100 words of"
            f" 1000, seeds 0 to {seeds - 1}, learned with the default priors; nodes are matched by topic,"
            " edges count from .5 % of the documents. With labels the levels of the ten concepts are"
            " given, no edge is. Without labels the best of four starts. Labels' worth: mean of"
            f" {min(seeds, 3)} graphs, documents whose last concept is named rightly (without matching),"
            " best of four starts. Reuters: 395 articles, 79 held out by default_rng(0); one split, one"
            " run each; tomotopy's hLDA is scored over its tree and a grid, new branches included, its"
            " LDA left to right with five particles."
        ),
        picture=picture(worth, held) if held else None,
    )


if __name__ == "__main__":
    main()

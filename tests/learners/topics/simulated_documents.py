"""Documents drawn from the model, as in the paper's simulation, and scores of what was found in them."""

from collections import Counter
from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from learners.topics.concept_slots import Slots


def simulate(sizes, n_documents, n_words, vocabulary, rng, *, eta=0.025):
    """Counts, each document's path, and the topics; alpha = beta = 10, a = 2, b = 5 as in the paper."""
    slots = Slots.of(sizes)
    topics = rng.dirichlet(np.full(vocabulary, eta), slots.n_nodes)
    ways = {}
    for node in np.flatnonzero(slots.n_atoms):
        m = slots.n_atoms[node]
        stick = rng.beta(10, 10, m)
        stick[-1] = 1
        weight = stick * np.concatenate([[1], np.cumprod(1 - stick[:-1])])
        ways[node] = weight[rng.permutation(m)]
    paths, X = [], np.zeros((n_documents, vocabulary), int)
    for d in range(n_documents):
        path = [0]
        while path[-1] in ways:
            column = rng.choice(len(ways[path[-1]]), p=ways[path[-1]])
            if column == len(ways[path[-1]]) - 1:
                break
            path.append(int(slots.first_child[path[-1]] + column))
        share = (1 - rng.beta(2, 5)) ** np.arange(len(path))
        levels = rng.choice(len(path), n_words, p=share / share.sum())
        for level, n in zip(*np.unique(levels, return_counts=True), strict=True):
            X[d] += rng.multinomial(n, topics[path[len(path) - 1 - level]])
        paths.append(tuple(path))
    return X, paths, topics


def layered(sizes):
    """A graph that says of each node only its level: each leads to all of the next."""
    slots = Slots.of(sizes)
    return {node: list(slots.children(node)) for node in range(slots.n_nodes)}


def matched(model, paths, topics):
    """Edge F1 (of edges of .5 % of the documents), edge TV, path accuracy; nodes are matched by topic."""
    norm = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (topics, model.components_)]
    true, found = linear_sum_assignment(-(norm[0] @ norm[1].T))
    name = {model.classes_[j]: int(i) for i, j in zip(true, found, strict=True)}
    ours = [tuple(name.get(node, -1) for node in path) for path in model.paths_]
    one, other = (
        Counter(edge for path in some for edge in pairwise(path)) for some in (paths, ours)
    )
    least = 0.005 * len(paths)
    real, seen = ({e for e, n in edges.items() if n >= least} for edges in (one, other))
    f1 = 2 * len(real & seen) / (len(real) + len(seen))
    tv = sum(abs(one[e] - other[e]) for e in one | other) / 2 / sum(one.values())
    return f1, tv, float(np.mean([a == b for a, b in zip(ours, paths, strict=True)]))

"""Topic models of other libraries on Reuters articles; runs in an environment of its own.

``python topics_side.py OUT.npz SETTINGS``: writes the counts, and for each of so many settings of
tomotopy's hierarchical LDA of three levels its topics and paths, and for LDA its topics, learned from the
articles that are not held out. One evaluator, here, scores all of them.
"""

import sys
import time

import lda.datasets
import numpy as np
import tomotopy as tp

# depth-3 hierarchical LDA: (eta, gamma)
HIERARCHICAL = ((0.1, 0.1), (0.1, 1.0), (0.05, 0.1), (0.05, 1.0))
FLAT = (10, 25, 50)
SWEEPS = 400
LEVELS = 3


def learned(model, X):
    """Add documents, train, and return the topics by column of X."""
    for row in X:
        model.add_doc([f"{column}" for column in np.repeat(np.arange(len(row)), row)])
    model.train(SWEEPS, workers=1)
    column = np.array([int(word) for word in model.used_vocabs])
    sizes = np.array(model.get_count_by_topics(), dtype=float)
    topics = np.zeros((model.k, X.shape[1]))
    for k in range(model.k):
        if sizes[k] > 0:
            topics[k, column] = model.get_topic_word_dist(k)
    return topics, sizes


def with_unseen(topics, sizes, eta, n_words):
    """Topics over all words, those that no training article has included, each with its eta."""
    n_seen = (topics > 0).any(axis=0).sum()
    mass = topics * (sizes + n_seen * eta)[:, None]
    mass[:, ~(topics > 0).any(axis=0)] = eta
    return mass / (sizes + n_words * eta)[:, None]


X = lda.datasets.load_reuters()
order = np.random.default_rng(0).permutation(len(X))
train = X[order[79:]]
found = {"X": X}
for n, (eta, gamma) in enumerate(HIERARCHICAL[: int(sys.argv[2])]):
    start = time.process_time()
    model = tp.HLDAModel(depth=LEVELS, alpha=0.1, eta=eta, gamma=gamma, seed=n + 1)
    topics, sizes = learned(model, train)
    leaves = [k for k in range(model.k) if model.is_live_topic(k) and model.level(k) == LEVELS - 1]
    paths = np.array([[0, model.parent_topic(k), k] for k in leaves])
    assert all(model.level(k) == 1 for k in paths[:, 1])
    documents = [[model.num_docs_of_topic(k) for k in path] for path in paths.tolist()]
    found |= {
        f"hlda{n}_topics": with_unseen(topics, sizes, eta, X.shape[1]), f"hlda{n}_paths": paths,
        f"hlda{n}_documents": np.array(documents), f"hlda{n}_knobs": np.array([eta, gamma]),
        f"hlda{n}_seconds": np.array(time.process_time() - start),
    }  # fmt: skip
for k in FLAT:
    start = time.process_time()
    model = tp.LDAModel(k=k, alpha=0.1, eta=0.05, seed=1)
    topics, sizes = learned(model, train)
    found |= {
        f"lda{k}_topics": with_unseen(topics, sizes, 0.05, X.shape[1]),
        f"lda{k}_alpha": np.full(k, 0.1) if np.isscalar(model.alpha) else np.array(model.alpha),
        f"lda{k}_seconds": np.array(time.process_time() - start),
    }
np.savez(sys.argv[1], **found)

"""The flat start: topics without a graph, laid into slots by their use in documents.

Where no labels anchor the slots, collapsed latent Dirichlet allocation finds topics; topics that are alike
become one; the topic of most documents is the root, and the rest are laid out by how specific they are and
moved between levels while that explains the documents better.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from learners.topics.block_move import path_log_likelihoods
from learners.topics.concept_slots import PathTable, Slots
from learners.topics.topic_counts import Documents
from quality.parallel import kernel  # the numba decorator alone

__all__ = ["flat_topics"]

SWEEPS = 80
CONCENTRATION = 0.1  # of topics in a document
ALIKE = 0.7  # cosine of topics that become one
PRESENT = 0.05  # share of a document's words below which a topic is not in it
TAUS = np.array([0.15, 0.4])  # values of tau at which layouts are compared
MAX_JUDGES = 150  # documents that compare them
N_LAYOUTS = 4  # the first by how specific topics are, the others at random
WORK = 4e9  # steps of the inner loop spent on comparisons, about: seconds


def flat_topics(
    documents: Documents, slots: Slots, table: PathTable, n_words: int, eta: float,
    rng: np.random.Generator,
) -> Int[np.ndarray, "words nodes"]:  # fmt: skip
    """Return counts of words at each slot, by which all documents are placed; a slot may be empty."""
    if not len(documents.word):
        return np.zeros((n_words, slots.n_nodes), np.int64)
    topic = rng.integers(slots.n_nodes, size=len(documents.word))
    n_documents = len(documents.start) - 1
    words = np.zeros((n_words, slots.n_nodes), np.int64)
    held = np.zeros((n_documents, slots.n_nodes), np.int64)
    document = np.repeat(np.arange(n_documents), np.diff(documents.start))
    np.add.at(words, (documents.word, topic), 1)
    np.add.at(held, (document, topic), 1)
    for _ in range(SWEEPS):
        _lda_sweep(documents, topic, words, words.sum(axis=0), held, eta, CONCENTRATION, rng)
    words, held = _merged(words, held)
    laid = _layout(held, slots)
    return _climbed(documents, words, laid, slots, table, eta, rng)


@kernel
def _lda_sweep(
    documents: Documents, topic: Int[np.ndarray, " tokens"], words: Int[np.ndarray, "words topics"],
    total: Int[np.ndarray, " topics"], held: Int[np.ndarray, "documents topics"],
    eta: float, alpha: float, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Draw each token's topic given all others."""
    n_topics, size = words.shape[1], eta * words.shape[0]
    weight = np.empty(n_topics)
    for d in range(len(documents.start) - 1):
        for t in range(documents.start[d], documents.start[d + 1]):
            word, old = documents.word[t], topic[t]
            words[word, old] -= 1
            total[old] -= 1
            held[d, old] -= 1
            mass = 0.0
            for k in range(n_topics):
                one = (alpha + held[d, k]) * (eta + words[word, k]) / (size + total[k])
                mass += one
                weight[k] = mass
            at, new = rng.random() * mass, 0
            while new < n_topics - 1 and weight[new] <= at:
                new += 1
            topic[t] = new
            words[word, new] += 1
            total[new] += 1
            held[d, new] += 1


def _merged(
    words: Int[np.ndarray, "words topics"], held: Int[np.ndarray, "documents topics"]
) -> tuple[Int[np.ndarray, "words merged"], Int[np.ndarray, "documents merged"]]:
    """Join topics whose words are alike, the most alike first, and drop empty ones."""
    some = words.sum(axis=0) > 0
    words, held = words[:, some], held[:, some]
    while words.shape[1] > 1:
        unit = words / np.linalg.norm(words, axis=0)
        cosine = unit.T @ unit
        np.fill_diagonal(cosine, -1.0)
        i, j = sorted(map(int, np.unravel_index(np.argmax(cosine), cosine.shape)))
        if cosine[i, j] <= ALIKE:
            break
        words, held = words.copy(), held.copy()
        words[:, i] += words[:, j]
        held[:, i] += held[:, j]
        words, held = np.delete(words, j, axis=1), np.delete(held, j, axis=1)
    return words, held


def _layout(held: Int[np.ndarray, "documents topics"], slots: Slots) -> Int[np.ndarray, " nodes"]:
    """Return the topic of each slot, or -1: of a document's topics the most specific has most words."""
    present = held > np.maximum(PRESENT * held.sum(axis=1, keepdims=True), 0.5)
    root = int(np.argmax(present.sum(axis=0)))
    rank = np.zeros(held.shape[1])
    for t in range(held.shape[1]):
        rows = present[:, t]
        fewer = present[rows] & (held[rows] < held[rows, t : t + 1])
        rank[t] = fewer.sum(axis=1).mean() if rows.any() else 0.0
    rest = [t for t in np.argsort(rank, kind="stable") if t != root]
    content = np.full(slots.n_nodes, -1)
    content[0] = root
    room = np.array(slots.sizes[1:])
    # each level gets its share of the topics, from the general to the specific
    cuts = np.round(np.cumsum(room) / max(room.sum(), 1) * len(rest)).astype(int)
    for depth, (start, stop) in enumerate(zip(np.append(0, cuts), cuts, strict=False), start=1):
        level = slots.level(depth)
        content[level.start : level.start + stop - start] = rest[start:stop]
    return content


def _climbed(
    documents: Documents, words: Int[np.ndarray, "words topics"], content: Int[np.ndarray, " nodes"],
    slots: Slots, table: PathTable, eta: float, rng: np.random.Generator,
) -> Int[np.ndarray, "words nodes"]:  # fmt: skip
    """Exchange what slots of different levels hold while some documents are better explained by it."""
    n_words = words.shape[0]
    padded = np.column_stack([words, np.zeros(n_words, np.int64)])  # the last stands for no topic
    topics = (eta + padded) / (n_words * eta + padded.sum(axis=0))
    weight = _uniform_paths(slots, table)
    pairs = _exchanges(content, slots)
    runs = max(len(documents.run_word) / max(len(documents.start) - 1, 1), 1.0)
    a_document = len(table.length) * runs * len(TAUS)
    n_judges = int(np.clip(WORK / (4 * max(len(pairs), 1) * a_document), 20, MAX_JUDGES))
    judges = np.sort(rng.permutation(len(documents.start) - 1)[:n_judges])

    def explained(one: Int[np.ndarray, " nodes"]) -> float:
        return float(_explained(documents, table, topics[:, one], TAUS, weight, judges))

    found, left = [], WORK
    for start in range(N_LAYOUTS):
        here = content if start == 0 else np.append(content[0], rng.permutation(content[1:]))
        best, improved = explained(here), True
        while improved and left > 0:
            improved = False
            for i, j in rng.permutation(_exchanges(here, slots)):
                trial = here.copy()
                trial[i], trial[j] = here[j], here[i]
                left -= len(judges) * a_document
                if (score := explained(trial)) > best + 1e-9 * abs(best):
                    here, best, improved = trial, score, True
        found.append((best, start, here))
        if left <= 0:
            break
    return padded[:, max(found, key=lambda one: one[:2])[2]]


def _exchanges(content: Int[np.ndarray, " nodes"], slots: Slots) -> Int[np.ndarray, "pairs two"]:
    """Return pairs of slots at different levels; a level's first empty slot stands for its others."""
    useful = [
        node
        for node in range(slots.n_nodes)
        if content[node] >= 0
        or node == slots.level(int(slots.depth[node])).start
        or content[node - 1] >= 0
    ]
    pairs = [
        (i, j)
        for i in useful
        for j in useful
        if slots.depth[i] < slots.depth[j] and max(content[i], content[j]) >= 0
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _uniform_paths(slots: Slots, table: PathTable) -> Float[np.ndarray, " paths"]:
    """Return the log probability of each path where every node's ways on are equally likely."""
    ways = np.log(np.maximum(slots.n_atoms, 1))
    here = np.arange(table.nodes.shape[1]) < table.length[:, None]
    return np.asarray(-np.where(here, ways[table.nodes], 0.0).sum(axis=1))


@kernel
def _explained(
    documents: Documents, table: PathTable, topics: Float[np.ndarray, "words nodes"],
    taus: Float[np.ndarray, " taus"], weight: Float[np.ndarray, " paths"],
    judges: Int[np.ndarray, " judges"],
) -> float:  # fmt: skip
    """Return the log likelihood of some documents under a layout, summed over paths and a few tau."""
    n_paths, n_nodes = len(table.length), topics.shape[1]
    scores = np.empty(n_paths)
    total = 0.0
    for d in judges:
        first, stop = documents.run_start[d], documents.run_start[d + 1]
        topic = np.empty((n_nodes, stop - first))
        times = np.empty(stop - first, np.int64)
        for run in range(first, stop):
            times[run - first] = documents.first[run + 1] - documents.first[run]
            for node in range(n_nodes):
                topic[node, run - first] = topics[documents.run_word[run], node]
        most, mass = -math.inf, 0.0
        for tau in taus:
            path_log_likelihoods(table, topic, times, tau, -1, scores)
            for path in range(n_paths):
                one = scores[path] + weight[path]
                if one > most:
                    mass = mass * math.exp(most - one) + 1.0
                    most = one
                else:
                    mass += math.exp(one - most)
        total += most + math.log(mass)
    return total

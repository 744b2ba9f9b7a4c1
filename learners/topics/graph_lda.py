"""A concept graph learned from word counts and a few labels: the scikit-learn estimator.

>>> import numpy as np
>>> X = np.array([[6, 6, 0, 0], [0, 0, 6, 6]] * 10)
>>> y = np.array(["cats", "dogs"] + [None] * 18, dtype=object)
>>> model = GraphLDA((1, 2), random_state=0, n_iter=20, burn_in=10, n_samples=5).fit(X, y)
>>> model.predict(X[:4]).tolist()
['cats', 'dogs', 'cats', 'dogs']
"""

from collections.abc import Hashable, Iterator
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array, vstack
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from learners.topics.concept_graph import ConceptGraph, GivenGraph, labels_of
from learners.topics.concept_slots import PathTable, Slots, all_paths
from learners.topics.held_out_words import check_prior, log_mean, path_log_weights, word_shares
from learners.topics.topic_chain import Moves
from learners.topics.topic_counts import Documents, Law, documents_of, law_of
from learners.topics.topic_fit import Chain, Schedule, Start, go_on, learn

__all__ = ["GraphLDA"]

PRIORS = ("alpha", "beta", "eta")
SETTLED = ("level_sizes", "feasible", "tau_prior", *PRIORS)  # by the fit, for a chain that grows
MAX_WEIGHTS = 10_000_000  # paths by documents by samples, held at once: 80 MB


class GraphLDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Topics that form a graph of concepts, from the general to the specific, learned by Gibbs sampling.

    Each document follows a path from the root, and its words come from the concepts on it, most of them
    from the last. Labels, where there are any, fix the concept at which a document's path ends.

    Parameters
    ----------
    level_sizes
        Slots of each level, 1 for the root: the most concepts that a level can have. Slots that no
        document needs stay empty.
    alpha, beta
        Beta(alpha, beta) prior of the sticks that share out a node's ways on.
    eta
        Dirichlet prior of each word in a concept's topic.
    tau_prior
        Beta prior of the share of a document's words that come from its last concept.
    sticks
        "open", with room for concepts beyond the slots, or "closed".
    n_iter, burn_in
        Sweeps in all, and those before samples are kept; the first half of burn-in is greedy.
    n_samples, thin
        Samples kept at most, from the last sweeps, one of every `thin`.
    init
        Where documents without a label begin: "flat", from topics without a graph; "labels", one after
        another beside the labelled ones; "root"; "auto", "labels" if there are labels, else "flat".
    n_restarts
        Starts; after burn-in the one of highest joint density is continued.
    sampler
        "block", or "conditional" without the blocked move, as in the paper: for comparison.
    order
        "mh", or "sort": each node's sticks in their likeliest order, falling counts.
    optimize
        Priors to sample too, of "alpha", "beta" and "eta", under Exp(1).
    feasible
        "next": a path goes to the next level; "lower": to any lower one.
    random_state
        Seed.

    Attributes
    ----------
    graph_
        The learned :class:`ConceptGraph`: nodes that documents visit, and all named ones.
    classes_
        Names of its nodes: columns of `transform` and `predict_proba`.
    components_
        Probability of each word at each node, mean of the samples.
    labels_, paths_
        Name of the last concept, and names of all concepts, on each training document's path.
    log_joint_
        Log joint density after each sweep of the chain that was continued.
    n_nodes_used_
        Nodes that documents visit.

    Notes
    -----
    Do not use it if labels do not depend on words, or with fewer than some hundred documents, or with
    documents of a few words. To classify with many labels of each class a linear model is quicker
    (``python -m benchmarks.learners.topics`` compares them).

    **Guarantees.** With `order` "mh" every sweep after burn-in leaves the posterior invariant; a labelled
    training document's path ends at its label; the same seed gives the same result; `score` is the exact
    likelihood of each kept sample, averaged in probability; `partial_fit` with `freeze` changes no earlier
    document's path.

    **Cost.** A sweep takes the number of paths times the distinct words of all documents, and levels times
    all words; memory in proportion to words times slots, of predictions to documents times slots. At most
    100,000 paths.

    Raises
    ------
    ValueError
        If counts are negative or not whole, a parameter is out of its range, a label is not in the graph,
        or the graph has a cycle, several roots, more levels or more nodes than there are slots.

    References
    ----------
    .. [1] Chambers, Smyth, Steyvers, "Learning concept graphs from text with stick-breaking priors",
       NIPS 2010; with three corrections (documentation, "Mathematics: learners").

    Examples
    --------
    >>> X = np.array([[6, 6, 0, 0], [0, 0, 6, 6]] * 10)
    >>> model = GraphLDA((1, 2), random_state=0, n_iter=20, burn_in=10, n_samples=5).fit(X)
    >>> model.transform(X).shape[0], model.score(X) > -1.38
    (20, True)
    """

    graph_: ConceptGraph
    classes_: np.ndarray
    components_: Float[np.ndarray, "nodes words"]
    labels_: np.ndarray
    paths_: tuple[tuple[Any, ...], ...]
    log_joint_: Float[np.ndarray, " sweeps"]
    n_nodes_used_: int
    _chain: Chain
    _slots: Slots
    _table: PathTable

    def __init__(
        self,
        level_sizes: tuple[int, ...] = (1, 25, 25),
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        eta: float = 0.1,
        tau_prior: tuple[float, float] = (1.0, 1.0),
        sticks: Literal["open", "closed"] = "open",
        n_iter: int = 60,
        burn_in: int = 30,
        n_samples: int = 10,
        thin: int = 2,
        init: Literal["auto", "flat", "labels", "root"] = "auto",
        n_restarts: int = 2,
        sampler: Literal["block", "conditional"] = "block",
        order: Literal["mh", "sort"] = "mh",
        optimize: tuple[str, ...] | None = None,
        feasible: Literal["next", "lower"] = "next",
        random_state: Any = None,
    ) -> None:
        self.level_sizes = level_sizes
        self.alpha = alpha
        self.beta = beta
        self.eta = eta
        self.tau_prior = tau_prior
        self.sticks = sticks
        self.n_iter = n_iter
        self.burn_in = burn_in
        self.n_samples = n_samples
        self.thin = thin
        self.init = init
        self.n_restarts = n_restarts
        self.sampler = sampler
        self.order = order
        self.optimize = optimize
        self.feasible = feasible
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, graph: Any = None) -> "GraphLDA":
        """Learn from counts X of words, with labels y where known and a graph of named concepts.

        `y` holds the name of each document's concept; None, -1, NaN and pandas' NA are no label. `graph`,
        {parent: [children]} or a networkx DiGraph, gives the names and levels of concepts; its edges are
        learned anew. Without a graph all labels are names of concepts below the root.
        """
        rows = self._counts(X, reset=True)
        self._check()
        labels = labels_of(y, rows.shape[0])
        known = list(dict.fromkeys(label for label in labels if label is not None))
        lower = self.feasible == "lower"
        self._given, self._settled = graph is not None, {one: getattr(self, one) for one in SETTLED}
        given = GivenGraph.star(known)
        if graph is not None:
            given = GivenGraph.of(graph, n_levels=len(self.level_sizes), lower=lower)
        self._slots = Slots.of(tuple(int(n) for n in self.level_sizes), lower=lower)
        self._nodes = _seated(given, self._slots)
        self._table = all_paths(self._slots)
        self._rows, end = rows, _ends(labels, self._nodes)
        documents = documents_of(rows)
        init = self.init
        if init == "auto":
            init = "labels" if (end >= 0).any() else "flat"
        rng = np.random.default_rng(self.random_state)
        chain = learn(
            documents, end, self._law(documents, self), self._slots, self._table, rows.shape[1],
            self._schedule(init), rng,
        )  # fmt: skip
        return self._learned(chain)

    def partial_fit(self, X: Any, y: Any = None, freeze: bool = True) -> "GraphLDA":
        """Let the graph grow by documents: old paths stay with `freeze`, and new concepts may open.

        Without a graph given to `fit`, a new label takes an empty slot below the root. Slots and priors
        stay those of `fit`: ValueError is raised if `set_params` has changed them.
        """
        if not hasattr(self, "_chain"):
            return self.fit(X, y)
        added = self._counts(X, reset=False)
        self._check()
        for name, kept in self._settled.items():
            if not np.array_equal(now := getattr(self, name), kept):
                raise ValueError(f"{name} must stay {kept}, or fit all documents anew, got {now!r}")
        labels = labels_of(y, added.shape[0])
        nodes = self._nodes if self._given else self._seat(labels)
        end = np.concatenate([self._chain.state.end, _ends(labels, nodes)])
        rows = csr_array(vstack([self._rows, added], format="csr"))
        documents = documents_of(rows)
        rng = np.random.default_rng(self.random_state)
        chain = go_on(
            self._chain, documents, end, self._law(documents, self._chain.law), self._table,
            self._schedule("labels"), freeze=freeze, rng=rng,
        )  # fmt: skip
        self._rows, self._nodes = rows, nodes
        return self._learned(chain)

    def transform(self, X: Any) -> Float[np.ndarray, "documents nodes"]:
        """Return the expected share of each document's words that each concept of the graph accounts for."""
        check_is_fitted(self)
        prior, parts = (self._chain.law.a, self._chain.law.b), []
        for documents, weights in self._weighed(X):
            found = np.zeros((len(weights[0]), self._slots.n_nodes))
            for sample, weight in zip(self._chain.samples, weights, strict=True):
                log_path = weight - logsumexp(weight, axis=1, keepdims=True)
                found += word_shares(documents, self._table, sample, log_path, prior)
            parts.append(found[:, self._shown])
        found = np.concatenate(parts)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> Float[np.ndarray, "documents nodes"]:
        """Return the probability that each document's path ends at each concept of the graph."""
        check_is_fitted(self)
        last = self._table.nodes[np.arange(len(self._table.length)), self._table.length - 1]
        kept, parts = np.isin(last, self._shown), []
        for _, weights in self._weighed(X):
            total = log_mean(weights)[:, kept]  # the others may have all but 1e-308 of the mass
            path = np.exp(total - logsumexp(total, axis=1, keepdims=True))
            found = np.zeros((len(path), self._slots.n_nodes))
            np.add.at(found.T, last[kept], path.T)
            parts.append(found[:, self._shown])
        return np.concatenate(parts)

    def predict(self, X: Any) -> np.ndarray:
        """Return the name of the likeliest last concept of each document."""
        chance = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(chance, axis=1)])

    def paths(self, X: Any) -> list[tuple[Any, ...]]:
        """Return the names of the concepts on each document's likeliest path, the root first."""
        check_is_fitted(self)
        visible = np.isin(self._table.nodes, [*self._shown, -1]).all(axis=1)
        best = (
            row
            for _, weights in self._weighed(X)
            for row in np.argmax(np.where(visible, log_mean(weights), -np.inf), axis=1)
        )
        return [self._named(self._table.nodes[row, : self._table.length[row]]) for row in best]

    def score(self, X: Any, y: Any = None) -> float:
        """Return a word's mean log likelihood in nats, exact for each sample, empty documents left out."""
        n, totals = 0, []
        for documents, weights in self._weighed(X):
            n += len(documents.word)
            total = logsumexp(log_mean(weights), axis=1)
            totals.append(total[np.diff(documents.start) > 0])
        if n == 0:
            raise ValueError("X must hold words to be scored, got only empty documents")
        return float(np.concatenate(totals).sum() / n)

    def top_words(self, node: Hashable, k: int = 10) -> list[Any]:
        """Return the k >= 1 likeliest words of a concept: names of columns if `fit` saw any, else numbers."""
        check_is_fitted(self)
        if not (isinstance(k, Integral) and k >= 1):
            raise ValueError(f"k must be >= 1 and whole, got k={k!r}")
        names = list(self.classes_)
        if node not in names:
            raise ValueError(f"node must be one of classes_, got {node!r}")
        best = np.argsort(-self.components_[names.index(node)], kind="stable")[:k]
        columns = getattr(self, "feature_names_in_", None)
        return list(map(int, best)) if columns is None else [str(columns[i]) for i in best]

    @property
    def _n_features_out(self) -> int:
        return len(self.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.input_tags.categorical = True  # whole numbers: the conformance checks then pass those
        tags.non_deterministic = False
        return tags

    def _counts(self, X: Any, *, reset: bool) -> csr_array:
        """Return validated counts, without stored zeros and with sorted columns."""
        if not reset:
            check_is_fitted(self)
        found = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_non_negative=True
        )
        rows = csr_array(found, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        broken = rows.data[rows.data != np.round(rows.data)]
        if broken.size:
            raise ValueError(f"X must hold counts, whole numbers from 0 on, got {broken[0]:g}")
        return rows

    def _check(self) -> None:
        sizes = tuple(self.level_sizes) if np.iterable(self.level_sizes) else (self.level_sizes,)
        if not (sizes and all(isinstance(n, Integral) and n >= 1 for n in sizes)):
            raise ValueError(f"level_sizes must be whole numbers >= 1, got {sizes}")
        if sizes[0] != 1:
            raise ValueError(f"level_sizes must begin with 1, the root, got {sizes}")
        for name in PRIORS:
            _check_positive(name, getattr(self, name))
        if not (np.iterable(self.tau_prior) and len(self.tau_prior) == 2):
            raise ValueError(f"tau_prior must be two numbers, got {self.tau_prior}")
        for value in self.tau_prior:
            _check_positive("tau_prior", value)
        check_prior(*map(float, self.tau_prior))
        for name in ("n_iter", "n_samples", "thin", "n_restarts"):
            number = getattr(self, name)
            if not (isinstance(number, Integral) and int(number) >= 1):
                raise ValueError(f"{name} must be >= 1 and whole, got {name}={number!r}")
        if not (isinstance(self.burn_in, Integral) and 0 <= int(self.burn_in) < self.n_iter):
            raise ValueError(
                f"burn_in must be from 0 to n_iter - 1, got burn_in={self.burn_in}, n_iter={self.n_iter}"
            )
        for name, choices in (
            ("sticks", ("open", "closed")), ("init", ("auto", "flat", "labels", "root")),
            ("sampler", ("block", "conditional")), ("order", ("mh", "sort")),
            ("feasible", ("next", "lower")),
        ):  # fmt: skip
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        chosen = self.optimize or ()
        if isinstance(chosen, str) or not (np.iterable(chosen) and set(chosen) <= set(PRIORS)):
            raise ValueError(f"optimize must name some of {PRIORS}, got {self.optimize!r}")

    def _law(self, documents: Documents, priors: Any) -> Law:
        """Return the law with alpha, beta and eta of the parameters, or as a chain has sampled them."""
        a, b = map(float, self.tau_prior)
        return law_of(
            self._slots, documents, self.n_features_in_, alpha=priors.alpha, beta=priors.beta,
            eta=priors.eta, tau_prior=(a, b), closed=self.sticks == "closed",
        )  # fmt: skip

    def _schedule(self, start: Start) -> Schedule:
        moves = Moves(
            blocked=self.sampler == "block", sort=self.order == "sort",
            optimize=tuple(self.optimize or ()),
        )  # fmt: skip
        return Schedule(
            self.n_iter, self.burn_in, self.n_samples, self.thin, self.n_restarts, moves, start
        )

    def _seat(self, labels: list[Hashable]) -> dict[Hashable, int]:
        """Give new labels empty slots below the root; return all with their slots."""
        nodes = dict(self._nodes)
        used = set(nodes.values()) | set(np.flatnonzero(self._visits()).tolist())
        for name in dict.fromkeys(labels):
            if name is None or name in nodes:
                continue
            level = self._slots.level(1) if len(self._slots.sizes) > 1 else range(0)
            free = next((n for n in level if n not in used), None)
            if free is None:
                raise ValueError(f"a new label needs an empty slot below the root, got {name!r}")
            nodes[name] = free
            used.add(free)
        return nodes

    def _visits(self) -> Int[np.ndarray, " nodes"]:
        path = self._chain.state.path
        return np.bincount(path[path >= 0], minlength=self._slots.n_nodes)

    def _learned(self, chain: Chain) -> "GraphLDA":
        """Keep a chain, and the graph of its last state."""
        self._chain = chain
        visits = self._visits()
        shown = (visits > 0) | np.isin(np.arange(len(visits)), list(self._nodes.values()))
        shown[0] = True
        self._shown = np.flatnonzero(shown)
        names = _names(self._slots, self._nodes)
        self._labels_of = {n: names[n] for n in self._shown.tolist()}
        self.graph_ = _graph(chain, self._slots, self._shown, names, self._nodes)
        self.classes_ = np.empty(len(self._shown), dtype=object)
        self.classes_[:] = self.graph_.names
        topics: Any = np.mean([sample.topics for sample in chain.samples], axis=0)
        self.components_ = topics.T[self._shown]
        ends = zip(chain.state.path, chain.state.length, strict=True)
        self.paths_ = tuple(self._named(path[:length]) for path, length in ends)
        self.labels_ = np.empty(len(self.paths_), dtype=object)
        self.labels_[:] = [path[-1] for path in self.paths_]
        self.log_joint_ = np.array(chain.trace)
        self.n_nodes_used_ = int((visits > 0).sum())
        return self

    def _named(self, nodes: Any) -> tuple[Any, ...]:
        return tuple(self._labels_of[int(node)] for node in nodes)

    def _weighed(
        self, X: Any
    ) -> Iterator[tuple[Documents, list[Float[np.ndarray, "documents paths"]]]]:
        """Yield some documents after others, and by each sample the log weight of each path with them."""
        rows = self._counts(X, reset=False)
        prior = self._chain.law.a, self._chain.law.b  # those of the fit
        some = max(MAX_WEIGHTS // (len(self._table.length) * len(self._chain.samples)), 1)
        for first in range(0, rows.shape[0], some):
            documents = documents_of(rows[first : first + some])
            yield (
                documents,
                [
                    path_log_weights(documents, self._slots, self._table, sample, prior)
                    for sample in self._chain.samples
                ],
            )


def _ends(labels: list[Hashable], nodes: dict[Hashable, int]) -> Int[np.ndarray, " documents"]:
    """Return the node of each label, -1 without one; raise ValueError for a label not in the graph."""
    for row, label in enumerate(labels):
        if label is not None and label not in nodes:
            raise ValueError(f"y must name concepts of the graph, got {label!r} in row {row}")
    return np.array([-1 if x is None else nodes[x] for x in labels], dtype=np.int64)


def _check_positive(name: str, value: Any) -> None:
    if not (isinstance(value, Real) and np.finfo(float).tiny <= float(value) < np.inf):
        raise ValueError(f"{name} must be > 0 and finite, got {name}={value}")


def _seated(given: GivenGraph, slots: Slots) -> dict[Hashable, int]:
    """Return each named concept's slot, in the order of its level; raise ValueError where they do not fit."""
    nodes: dict[Hashable, int] = {}
    for depth in sorted(set(given.depth)):
        here = [name for name, one in zip(given.names, given.depth, strict=True) if one == depth]
        if depth >= len(slots.sizes) or len(here) > slots.sizes[depth]:
            room = slots.sizes[depth] if depth < len(slots.sizes) else 0
            raise ValueError(
                f"level_sizes must have a slot for each named concept, got {len(here)} at depth"
                f" {depth} for {room} slots"
            )
        nodes |= dict(zip(here, slots.level(depth), strict=False))
    nodes.pop(None, None)  # the root of a star has no name
    return nodes


def _names(slots: Slots, nodes: dict[Hashable, int]) -> list[Any]:
    """Return a name for each slot: the caller's, "root", or "new-<depth>.<number>"."""
    by_node = {node: name for name, node in nodes.items()}
    found = []
    for node in range(slots.n_nodes):
        depth = int(slots.depth[node])
        new = "root" if depth == 0 else f"new-{depth}.{node - slots.level(depth).start + 1}"
        while node not in by_node and new in nodes:
            new = f"({new})"
        found.append(by_node.get(node, new))
    return found


def _graph(
    chain: Chain, slots: Slots, shown: Int[np.ndarray, " shown"], names: list[Any],
    nodes: dict[Hashable, int],
) -> ConceptGraph:  # fmt: skip
    """Return the graph of a chain's last state."""
    state, counts = chain.state, chain.counts
    last = state.path[np.arange(len(state.length)), state.length - 1]
    row = {int(node): i for i, node in enumerate(shown)}
    visits = np.bincount(state.path[state.path >= 0], minlength=slots.n_nodes)
    edges = [
        (row[int(x)], row[y], int(counts.edges[x, c]), float(chain.samples[-1].edges[x, c]))
        for x in shown.tolist()
        for c, y in enumerate(slots.children(x))
        if counts.edges[x, c] > 0
    ]
    parent, child, count, chance = (np.array(one) for one in zip(*edges, strict=True)) if edges else (
        np.zeros(0, int), np.zeros(0, int), np.zeros(0, int), np.zeros(0))  # fmt: skip
    arrays = (
        slots.depth[shown], visits[shown], counts.total[shown],
        np.bincount(last, minlength=slots.n_nodes)[shown],
        np.array([int(n) not in nodes.values() and n > 0 for n in shown]), parent, child, count, chance,
    )  # fmt: skip
    for one in arrays:
        one.flags.writeable = False
    return ConceptGraph(tuple(names[n] for n in shown), *arrays)

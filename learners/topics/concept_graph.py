"""Concept graphs: a learned one, as plain arrays, and one that a caller gives beforehand.

>>> given = GivenGraph.of({"animal": ["cat", "dog"], "cat": ["tabby"]}, n_levels=3, lower=False)
>>> given.names, given.depth
(('animal', 'cat', 'dog', 'tabby'), (0, 1, 1, 2))
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

__all__ = ["ConceptGraph", "GivenGraph", "labels_of"]


@dataclass(frozen=True, slots=True, eq=False)
class ConceptGraph:
    """A learned graph of concepts: the nodes that documents visit, and the edges that they use.

    Parameters
    ----------
    names
        Name of each node: of those given the caller's, of others ``"new-<depth>.<number>"``.
    depth
        Level of each node; 0 is the root.
    documents, words
        Documents whose path visits each node, and words assigned to it.
    ends
        Documents whose path ends at each node.
    is_new
        True for a node that the caller did not name.
    parent, child
        Ends of each edge, as row numbers of the nodes.
    count, probability
        Documents that use each edge, and its predictive probability from its parent.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.array([3]), np.array([1])
    >>> graph = ConceptGraph(("all", "new-1.1"), np.array([0, 1]), np.array([4, 3]), np.array([9, 7]),
    ...                      np.array([1, 3]), np.array([False, True]),
    ...                      np.array([0]), np.array([1]), np.array([3]), np.array([0.7]))
    >>> graph.edges
    (('all', 'new-1.1', 3),)
    """

    names: tuple[Any, ...]
    depth: Int[np.ndarray, " nodes"]
    documents: Int[np.ndarray, " nodes"]
    words: Int[np.ndarray, " nodes"]
    ends: Int[np.ndarray, " nodes"]
    is_new: Bool[np.ndarray, " nodes"]
    parent: Int[np.ndarray, " edges"]
    child: Int[np.ndarray, " edges"]
    count: Int[np.ndarray, " edges"]
    probability: Float[np.ndarray, " edges"]

    @property
    def edges(self) -> tuple[tuple[Any, Any, int], ...]:
        """Each edge's parent, child and documents, by name."""
        return tuple(
            (self.names[i], self.names[j], int(n))
            for i, j, n in zip(self.parent, self.child, self.count, strict=True)
        )

    def to_networkx(self) -> Any:
        """Return a networkx DiGraph with these attributes; raise ImportError without networkx."""
        try:
            import networkx as nx  # for callers who have it: nothing else here needs it
        except ImportError:
            raise ImportError(
                "networkx must be installed for to_networkx: pip install networkx"
            ) from None
        graph = nx.DiGraph()
        kinds = ("depth", "documents", "words", "ends", "is_new")
        for row, name in enumerate(self.names):
            graph.add_node(name, **{kind: getattr(self, kind)[row].item() for kind in kinds})
        for row, (parent, child, count) in enumerate(self.edges):
            graph.add_edge(parent, child, count=count, probability=float(self.probability[row]))
        return graph


@dataclass(frozen=True, slots=True)
class GivenGraph:
    """Concepts that a caller gives beforehand: names and levels, the root first.

    Parameters
    ----------
    names, depth
        Each concept, and the length of the longest way to it from the root.
    """

    names: tuple[Hashable, ...]
    depth: tuple[int, ...]

    @classmethod
    def of(cls, graph: Any, *, n_levels: int, lower: bool) -> "GivenGraph":
        """Read {parent: [children]} or a networkx DiGraph; it must have one root and no cycle."""
        children = _children(graph)
        below_some = [child for below in children.values() for child in below]
        nodes = list(dict.fromkeys([*children, *below_some]))
        if not nodes:
            raise ValueError("graph must have a root, got a graph without nodes")
        for node in (*(node for node in children if node is not None), *below_some):
            if _is_missing(node):
                raise ValueError(
                    f"a concept must have a name, got {node!r}, which stands for no label"
                )
        parents: dict[Hashable, int] = dict.fromkeys(nodes, 0)
        for child in below_some:
            parents[child] += 1
        roots = [node for node in nodes if parents[node] == 0]
        depth = dict.fromkeys(roots, 0)
        ready, seen = list(roots), 0
        while ready:
            node = ready.pop()
            seen += 1
            for child in children.get(node, ()):
                depth[child] = max(depth.get(child, 0), depth[node] + 1)
                parents[child] -= 1
                if parents[child] == 0:
                    ready.append(child)
        if seen < len(nodes):
            stuck = next(node for node in nodes if parents[node] > 0)
            raise ValueError(f"graph must have no cycle, got one that {stuck!r} is on or below")
        if len(roots) != 1:
            raise ValueError(
                f"graph must have one root from which all is reached, got {len(roots)}: {roots[:5]!r}"
            )
        _check_edges(children, depth, n_levels, lower=lower)
        order = sorted(nodes, key=lambda node: depth[node])
        return cls(tuple(order), tuple(depth[node] for node in order))

    @classmethod
    def star(cls, names: Iterable[Hashable]) -> "GivenGraph":
        """Return concepts without a graph: all of them below a root without a name."""
        names = tuple(names)
        return cls((None, *names), (0, *(1 for _ in names)))


def labels_of(y: Any, n: int) -> list[Hashable]:
    """Return the label of each document, None without one."""
    if y is None:
        return [None] * n
    values = np.asarray(y, dtype=object).ravel().tolist()
    if len(values) != n:
        raise ValueError(
            f"y must have a label, None or -1 for each of {n} documents, got {len(values)}"
        )
    found = [None if _is_missing(one) else one for one in values]
    for row, one in enumerate(found):
        _check_hashable(one, f"label, row {row},")
    return found


def _is_missing(label: Any) -> bool:
    """Return whether a label is None, -1, NaN or pandas' NA, of which no comparison is true or false."""
    try:
        return bool(label in (None, -1) or (isinstance(label, float) and label != label))
    except TypeError:
        return True


def _check_hashable(one: Any, what: str) -> None:
    """Raise TypeError for a name that cannot be looked up, such as a list."""
    try:
        hash(one)
    except TypeError:
        raise TypeError(f"a {what} must be a name or a number, got {one!r}") from None


def _children(graph: Any) -> dict[Hashable, list[Hashable]]:
    """Return the children of each node, in the caller's order, without repeats."""
    if hasattr(graph, "adjacency"):
        return {node: list(below) for node, below in graph.adjacency()}
    if not isinstance(graph, Mapping):
        raise TypeError(
            "graph must be a mapping of parents to children or a networkx DiGraph,"
            f" got {type(graph).__name__}"
        )
    found = {}
    for node, below in graph.items():
        if isinstance(below, str) or not isinstance(below, Iterable):
            raise TypeError(f"children of {node!r} must be a list of names, got {below!r}")
        listed = list(below)  # once, for an iterator is then at its end
        for child in listed:
            _check_hashable(child, f"child of {node!r}")
        found[node] = list(dict.fromkeys(listed))
    return found


def _check_edges(
    children: dict[Hashable, list[Hashable]], depth: dict[Hashable, int], n_levels: int, *, lower: bool
) -> None:  # fmt: skip
    """Raise ValueError where a graph is too deep, or skips levels that no path may skip."""
    deepest = max(depth, key=lambda node: depth[node])
    if depth[deepest] >= n_levels:
        raise ValueError(
            f"graph must have at most {n_levels} levels, as level_sizes, got {deepest!r} at"
            f" depth {depth[deepest]}"
        )
    for node, below in children.items():
        for child in below:
            if depth[child] > depth[node] + 1 and not lower:
                raise ValueError(
                    f"an edge must lead to the next level, got {node!r} -> {child!r} from depth"
                    f" {depth[node]} to {depth[child]}; feasible='lower' allows it"
                )

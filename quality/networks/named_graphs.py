"""The conflict graph, a semi-matching and pairs of workers as networkx graphs, with names as nodes.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], list("xyx"))
>>> sorted(to_networkx(labels).degree, key=str)
[('ann', 1), ('bob', 1), ('cy', 1), (('label', 1, 'x'), 2), (('label', 1, 'y'), 1)]
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Shaped

from quality.agreement import PairKappas
from quality.argument_types import check_arguments
from quality.dependence import DependentGroups
from quality.labels import CrowdLabels
from quality.matching import SemiMatching, conflict_graph, conflict_tasks

__all__ = ["to_networkx"]

LABEL = "label"  # first part of a label node, by which it differs from every worker's name


@check_arguments
def to_networkx(
    labels: CrowdLabels, found: SemiMatching | PairKappas | DependentGroups | None = None
) -> Any:
    """Return a networkx graph whose nodes are names.

    Parameters
    ----------
    labels
        The crowd's labels.
    found
        Content of the graph: None for the conflict graph, a semi-matching of that graph, pairs of workers
        with their kappas, or the pairs inside groups of workers who do not answer on their own.

    Returns
    -------
    networkx.Graph
        Of the conflict graph and a semi-matching: a node for each worker (`kind` "worker", `bipartite` 1)
        and one ``("label", task, class)`` for each label node (`kind` "label", `bipartite` 0, `task`,
        `label`); an edge joins it to each worker who gave it. A semi-matching adds `assigned` to the edges
        and `load` to the workers. For pairs: a node for each worker, an edge for each pair with `n_common`,
        `n_agreed`, and `kappa` and `ac1` or `expected` and `p_value`; with groups each worker has the code
        of her group as `group`, -1 outside all groups.

    Raises
    ------
    ModuleNotFoundError
        If networkx is not installed.
    ValueError
        If `found` must be of other labels: by its sizes, or if nodes are assigned to workers who did not
        give them.

    Notes
    -----
    **Guarantees.** Every worker of the vocabulary is a node, with edges or without. Names and numbers are
    plain Python values, so that networkx can write the graph.

    **Cost.** A Python object for each node and edge: for some ten thousand labels, not for millions.

    Examples
    --------
    >>> from quality import conflict_graph, encode, pair_kappas, semi_matching
    >>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xyxxxy"))
    >>> graph = to_networkx(labels, semi_matching(conflict_graph(labels)))
    >>> [graph.nodes[name]["load"] for name in ("ann", "bob", "cy")]
    [2, 1, 1]
    >>> to_networkx(labels, pair_kappas(labels)).edges["ann", "bob"]["n_agreed"]
    1
    """
    try:
        import networkx as nx  # not a dependency: only this function needs it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to_networkx needs networkx, which is not installed: pip install networkx",
            name="networkx",
        ) from None
    graph = nx.Graph()
    names = _plain(labels.workers)
    if found is None or isinstance(found, SemiMatching):
        graph.add_nodes_from((name, {"kind": "worker", "bipartite": 1}) for name in names)
        _add_conflicts(graph, labels, names, found)
        return graph
    graph.add_nodes_from(names)
    if len(found.pair) and int(found.pair.max()) >= labels.n_workers:
        raise ValueError(f"found must be of these labels, which have {labels.n_workers} workers")
    columns: dict[str, np.ndarray] = {"n_common": found.n_common, "n_agreed": found.n_agreed}
    if isinstance(found, DependentGroups):
        columns |= {"expected": found.expected, "p_value": found.pair_p_value}
        _check_length("group", found.group, labels.n_workers, "workers")
        of_worker = dict(zip(names, _plain(found.group), strict=True))
        nx.set_node_attributes(graph, of_worker, "group")
    else:
        columns |= {"kappa": found.kappa, "ac1": found.ac1}
    rows = _rows(columns)
    pairs = ((names[one], names[other]) for one, other in found.pair.tolist())
    graph.add_edges_from((*pair, row) for pair, row in zip(pairs, rows, strict=True))
    return graph


def _add_conflicts(
    graph: Any, labels: CrowdLabels, names: list[Any], found: SemiMatching | None
) -> None:
    """Add label nodes and the workers who gave them; with a semi-matching, also each node's worker in it."""
    edges = conflict_graph(labels)
    nodes = list(_label_nodes(labels))
    if found is not None:
        _check_length("assigned", found.assigned, len(nodes), "label nodes")
        _check_length("load", found.load, labels.n_workers, "workers")
        own = edges.indices == np.repeat(found.assigned, np.diff(edges.indptr))
        if np.count_nonzero(own) < len(nodes):
            raise ValueError(
                "found must be of these labels: it puts label nodes on workers who did not give them"
            )
        for name, load in zip(names, _plain(found.load), strict=True):
            graph.nodes[name]["load"] = load
    for node in nodes:
        graph.add_node(node, kind=LABEL, bipartite=0, task=node[1], label=node[2])
    for row, node in enumerate(nodes):
        for worker in edges.indices[edges.indptr[row] : edges.indptr[row + 1]].tolist():
            given = {} if found is None else {"assigned": bool(found.assigned[row] == worker)}
            graph.add_edge(node, names[worker], **given)


def _label_nodes(labels: CrowdLabels) -> Iterator[tuple[str, Any, Any]]:
    """Yield the label nodes in the order of the conflict graph's rows: by task, then class."""
    tasks, classes = _plain(labels.tasks), _plain(labels.classes)
    for task in np.flatnonzero(conflict_tasks(labels)).tolist():
        given = labels.label[labels.task_start[task] : labels.task_start[task + 1]]
        for code in np.unique(given).tolist():
            yield LABEL, tasks[task], classes[code]


def _rows(columns: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """Yield a dictionary of plain values for each row of some columns."""
    cells = (_plain(column) for column in columns.values())
    return (dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True))


def _plain(column: Shaped[np.ndarray, " entries"]) -> list[Any]:
    """Return the entries as plain Python values."""
    entries: list[Any] = column.tolist()
    return entries


def _check_length(what: str, column: np.ndarray, n: int, of: str) -> None:
    """Raise ValueError if a result belongs to other labels."""
    if len(column) != n:
        raise ValueError(
            f"found must be of these labels: it must have {n} {of}, got {len(column)} entries of {what}"
        )

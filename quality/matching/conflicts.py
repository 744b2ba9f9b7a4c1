"""The conflict graph of a table in shards, for what is optimal over all of them at once.

Hard and balanced penalties share every label node of the crowd out among its workers, so no shard
can say its part of them. But conflict is a matter of one task: each shard builds the label nodes of
its own tasks, and their rows one below another are the graph of the whole table.
"""

from scipy.sparse import csr_array, vstack

from quality.labels.shards import Engine, LabelShard
from quality.reputation.penalties import conflict_graph

__all__ = ["conflict_graph_by_shards"]


def conflict_graph_by_shards(engine: Engine) -> csr_array:
    """Return :func:`~quality.conflict_graph` of a table in shards.

    Parameters
    ----------
    engine
        Where the shards are worked on. The graph comes together here, 5 bytes for each label on a
        conflict task and 4 for each label node; while it does, twice that.

    Returns
    -------
    csr_array [label nodes, workers]
        One row per (conflict task, class given), in that order; 1 for each worker who gave it.

    Notes
    -----
    **Guarantees.** Equal to the graph of the whole table, however it is cut; so are the levels
    (:func:`~quality.load_levels`) and the balanced loads (:func:`~quality.balanced_loads`).

    Examples
    --------
    >>> from quality import LocalEngine, balanced_loads, cut_labels, encode
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
    >>> graph = conflict_graph_by_shards(LocalEngine(cut_labels(labels, [0, 1, 2])))
    >>> balanced_loads(graph).load
    array([0.5, 1. , 0.5])
    """
    graph: csr_array = vstack(engine.map(_graph_of_shard, None), format="csr")
    return graph


def _graph_of_shard(shard: LabelShard, _: None) -> csr_array:
    return conflict_graph(shard)

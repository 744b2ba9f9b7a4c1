"""The conflict graph: label nodes of conflict tasks, joined to the workers who gave them.

>>> from quality import encode
>>> conflict_graph(encode(["ann", "bob", "cy"], [1, 1, 1], list("xyx"))).toarray()
array([[1, 0, 1],
       [0, 1, 0]], dtype=int8)

A conflict concerns one task. So each shard of a table builds the label nodes of its own tasks, and the
graph of the whole table has their rows one below another. Hard and balanced penalties need that whole
graph: they divide all label nodes among all workers.
"""

import numpy as np
from jaxtyping import Bool, Int16, Int32, Int64
from scipy.sparse import csr_array, vstack

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, Engine, LabelShard
from quality.parallel import kernel

__all__ = ["conflict_graph", "conflict_graph_by_shards", "conflict_tasks", "nodes_per_task"]

FEW_CLASSES = 8  # a pass over all of them is faster than sorting those of a task


@check_arguments
def conflict_graph_by_shards(engine: Engine) -> csr_array:
    """Return the :func:`~quality.conflict_graph` of a table in shards.

    Parameters
    ----------
    engine
        Engine that works on the shards. The graph is collected here, with 5 bytes for each label on a
        conflict task and 4 for each label node, and twice that during the collection.

    Notes
    -----
    **Guarantees.** Equal to the graph of the whole table, for any division into shards; so are the levels
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


@check_arguments
def conflict_tasks(labels: CrowdLabels) -> Bool[np.ndarray, " tasks"]:
    """Return which tasks have labels of two or more classes.

    Parameters
    ----------
    labels
        The crowd's labels.

    Examples
    --------
    >>> from quality import encode
    >>> conflict_tasks(encode(["ann", "bob", "ann", "bob"], [1, 1, 2, 2], list("xyxx")))
    array([ True, False])
    """
    return nodes_per_task(labels) > 0


def nodes_per_task(labels: CrowdLabels | LabelShard) -> Int32[np.ndarray, " tasks"]:
    """Return the number of classes given to each conflict task, 0 for the other tasks."""
    n_nodes = np.zeros(labels.n_tasks, dtype=np.int32)
    last_task = np.full(labels.n_classes, -1, dtype=np.int64)
    _count_nodes(labels.task_start, labels.label, last_task, n_nodes)
    return n_nodes


@check_arguments
def conflict_graph(labels: CrowdLabels | LabelShard) -> csr_array:
    """Join every label node to the workers who gave that label.

    Parameters
    ----------
    labels
        The crowd's labels, or those of some tasks.

    Returns
    -------
    csr_array [label nodes, workers]
        One row per (conflict task, class given), in that order; 1 for each worker who gave it.

    Notes
    -----
    **Cost.** Linear in the labels, and for each task quadratic in the number of classes given to it.

    Examples
    --------
    >>> from quality import encode
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
    >>> conflict_graph(labels).toarray()
    array([[1, 0, 1],
           [0, 1, 0]], dtype=int8)
    """
    n_nodes = nodes_per_task(labels)
    start = np.zeros(int(n_nodes.sum()) + 1, dtype=np.int32)
    worker = np.empty(int(np.diff(labels.task_start)[n_nodes > 0].sum()), dtype=np.int32)
    room = np.zeros(labels.n_classes, dtype=np.int64)
    is_few = labels.n_classes <= FEW_CLASSES
    size = labels.n_classes if is_few else int(n_nodes.max(initial=0))
    rows = labels.task_start, labels.worker, labels.label
    _fill_nodes(*rows, n_nodes, is_few, room, np.arange(size, dtype=np.int16), start, worker)
    shape = (len(start) - 1, labels.n_workers)
    return csr_array((np.ones(len(worker), dtype=np.int8), worker, start), shape=shape)


@kernel
def _count_nodes(
    task_start: Int64[np.ndarray, " tasks+1"],
    label: Int16[np.ndarray, " labels"],
    last_task: Int64[np.ndarray, " classes"],
    n_nodes: Int32[np.ndarray, " tasks"],
) -> None:
    """Count the classes given to each task; `last_task` is the last task with each class."""
    for task in range(len(n_nodes)):
        n_given = 0
        for row in range(task_start[task], task_start[task + 1]):
            n_given += last_task[label[row]] != task
            last_task[label[row]] = task
        n_nodes[task] = n_given if n_given > 1 else 0


@kernel
def _fill_nodes(task_start, worker, label, n_nodes, is_few, place, given, start, near) -> None:
    """Write where the workers of each label node start, and the workers; by task, then class.

    `place` is 0 for every class before and after a task. `given` has all classes if these are few, else
    room for the classes of a task.
    """
    node, edge = 0, 0
    for task in range(len(n_nodes)):
        if not n_nodes[task]:
            continue
        n_given = len(given) if is_few else 0
        for row in range(task_start[task], task_start[task + 1]):
            code = label[row]
            if not is_few and place[code] == 0:
                at = n_given  # inserted by class
                while at > 0 and given[at - 1] > code:
                    given[at] = given[at - 1]
                    at -= 1
                given[at] = code
                n_given += 1
            place[code] += 1
        for at in range(n_given):
            n_same = place[given[at]]
            place[given[at]] = edge
            edge += n_same
            if n_same:
                node += 1
                start[node] = edge
        for row in range(task_start[task], task_start[task + 1]):
            near[place[label[row]]] = worker[row]
            place[label[row]] += 1
        for at in range(n_given):
            place[given[at]] = 0

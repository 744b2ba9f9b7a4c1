"""The cost of the optimal semi-matching and of the soft penalty, beside SciPy's.

    python -m benchmarks.quality.semi_matching_speed --labels 100000 1000000 10000000

Process CPU time, one thread, compiled before, from the encoded label table; least of several runs.
Five labels a task, 250 a worker on average, two classes; 70 % of the workers honest, 20 % random,
10 % malicious. SciPy's exact formulations are the linear program (`linprog`, HiGHS dual simplex, the
faster of its two methods here; a variable for each edge and each unit of load) up to 100,000 labels,
and the matching of label nodes to units of load (`min_weight_full_bipartite_matching`) up to 10,000;
building their matrices is not counted. Their cost is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from benchmarks.publish import parser_of, publish
from benchmarks.quality.dawid_skene_speed import least, read_bandwidth
from benchmarks.quality.decremental import DESIGNS, Design, crowd
from quality import conflict_graph, power_law_assignment, semi_matching, soft_penalty

__all__ = ["ratio_to_highs"]

MOST_LABELS = {"highs": 100_000, "units": 10_000}  # beyond, minutes and gigabytes
HEADER = (
    "design", "labels", "label nodes", "edges", "soft penalty s", "graph s", "solver s",
    "graph + solver s", "HiGHS s", "HiGHS / solver", "HiGHS / (graph + solver)", "units s",
    "units / solver",
)  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    sizes = parser.parse_args().labels
    bandwidth = read_bandwidth()
    rows = [measure(name, n_labels) for n_labels in sizes for name in DESIGNS]
    note = " ".join(" ".join(__doc__.splitlines()[4:]).split())
    note += f" A sum over 400 MB read {bandwidth / 1e9:.1f} GB/s."
    publish("semi_matching_speed", "Optimal semi-matching: speed", HEADER, rows, note=note)


def ratio_to_highs(n_labels: int, design: Design = power_law_assignment) -> float:
    """How many times conflict graph and semi-matching together go into HiGHS's solution alone."""
    labels = crowd(design, n_labels)
    ours, graph = _least(lambda: conflict_graph(labels), 5)
    solver, matching = _least(lambda: semi_matching(graph), 5)
    return highs_seconds(graph, matching.cost) / (ours + solver)


def measure(name: str, n_labels: int) -> tuple[str, ...]:
    """One row of the table."""
    labels = crowd(DESIGNS[name], n_labels)
    soft, _ = _least(lambda: soft_penalty(labels), 5)
    build, graph = _least(lambda: conflict_graph(labels), 5)
    solver, matching = _least(lambda: semi_matching(graph), 5)
    peers = [""] * 5
    if labels.n_labels <= MOST_LABELS["highs"]:
        highs = highs_seconds(graph, matching.cost)
        peers[:3] = f"{highs:.3g}", f"{highs / solver:,.0f}x", f"{highs / (build + solver):,.0f}x"
    if labels.n_labels <= MOST_LABELS["units"]:
        units = units_seconds(graph, matching.cost)
        peers[3:] = f"{units:.3g}", f"{units / solver:,.0f}x"
    sizes = (labels.n_labels, *graph.shape[:1], graph.nnz)
    seconds = (soft, build, solver, build + solver)
    return name, *(f"{n:,}" for n in sizes), *(f"{value:.3g}" for value in seconds), *peers


def highs_seconds(graph: csr_array, cost: int) -> float:
    """CPU seconds of the linear program; its value must be the cost."""
    n_jobs, n_edges = graph.shape[0], graph.nnz
    owner, unit = _units(graph)
    job = np.repeat(np.arange(n_jobs), np.diff(graph.indptr))
    edge, one = np.arange(n_edges), np.ones(n_edges)
    assigned = csr_array((one, (job, edge)), shape=(n_jobs, 2 * n_edges))
    balance = csr_array(
        (
            np.repeat([1.0, -1.0], n_edges),
            (np.append(graph.indices, owner), np.arange(2 * n_edges)),
        ),
        shape=(graph.shape[1], 2 * n_edges),
    )
    matrix = block_array([[assigned], [balance]], format="csr")
    right = np.append(np.ones(n_jobs), np.zeros(graph.shape[1]))
    price = np.append(np.zeros(n_edges), unit)
    begin = process_time()
    found = linprog(price, A_eq=matrix, b_eq=right, bounds=(0, 1), method="highs-ds")
    seconds = process_time() - begin
    if round(found.fun) != cost:
        raise SystemExit("the semi-matching is not the linear program's optimum")
    return seconds


def units_seconds(graph: csr_array, cost: int) -> float:
    """CPU seconds of the matching with units of load; its weight must be the cost."""
    degree = np.bincount(graph.indices, minlength=graph.shape[1])
    _, unit = _units(graph)
    n_entries = degree[graph.indices]  # each edge, once for every unit of its machine
    first_unit = (np.cumsum(degree) - degree)[graph.indices]
    start = np.append(0, np.cumsum(n_entries))
    place = np.arange(start[-1]) + np.repeat(first_unit - start[:-1], n_entries)
    weight = csr_array(
        (unit[place].astype(float), place, start[graph.indptr]), shape=(graph.shape[0], len(unit))
    )
    begin = process_time()
    _, chosen = min_weight_full_bipartite_matching(weight)
    seconds = process_time() - begin
    if unit[chosen].sum() != cost:
        raise SystemExit("the semi-matching is not the assignment's optimum")
    return seconds


def _units(graph: csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Units of load: as many for a machine as it has edges; the machine of each, and its cost."""
    degree = np.bincount(graph.indices, minlength=graph.shape[1])
    owner = np.repeat(np.arange(graph.shape[1]), degree)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(degree) - degree, degree) + 1


def _least(work: Callable[[], Any], n_runs: int) -> tuple[float, Any]:
    """Shortest CPU time of a few runs after one that compiles, and the result."""
    work()
    seconds, result = least(process_time, work, n_runs)
    return seconds, result


if __name__ == "__main__":
    main()

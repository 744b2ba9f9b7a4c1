"""Optimal semi-matching against a flow oracle, its certificate, and long paths."""

from collections import deque
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, min_weight_full_bipartite_matching

from benchmarks.quality.crowd_sets import read_set
from quality import SemiMatching, balanced_loads, conflict_graph, load_levels, semi_matching
from tests.quality.labels.strategies import bipartite

QUICK = settings(max_examples=100, deadline=None, derandomize=True)


def flow_oracle(table: np.ndarray) -> tuple[int, list[int]]:
    """Least cost and sorted loads by min-cost flow: unit d of a machine's load costs d."""
    n_jobs, n_machines = table.shape
    network = nx.MultiDiGraph()
    network.add_node("source", demand=-n_jobs)
    network.add_node("sink", demand=n_jobs)
    for job in range(n_jobs):
        network.add_edge("source", ("job", job), capacity=1, weight=0)
    for job, machine in zip(*table.nonzero(), strict=True):
        network.add_edge(("job", int(job)), ("machine", int(machine)), capacity=1, weight=0)
    for machine in range(n_machines):
        for unit in range(1, n_jobs + 1):
            network.add_edge(("machine", machine), "sink", capacity=1, weight=unit)
    cost, flow = nx.network_simplex(network)
    loads = [sum(flow["machine", machine]["sink"].values()) for machine in range(n_machines)]
    return cost, sorted(loads)


def assignment_oracle(table: np.ndarray) -> tuple[int, list[int]]:
    """The same by a matching of jobs to units of load: unit d of any machine costs d."""
    n_jobs, n_machines = table.shape
    unit = np.tile(np.arange(1.0, n_jobs + 1), n_machines)
    job, place = min_weight_full_bipartite_matching(
        csr_array(np.repeat(table, n_jobs, axis=1) * unit)
    )
    assert len(job) == n_jobs
    loads = np.bincount(place // n_jobs, minlength=n_machines)
    return int(unit[place].sum()), sorted(loads.tolist())


def check_semi_matching(table: np.ndarray, result: SemiMatching) -> None:
    """Every job on one of its machines, the loads counted right, the cost as defined."""
    assert table[np.arange(len(table)), result.assigned].all()
    loads = np.bincount(result.assigned, minlength=table.shape[1])
    assert np.array_equal(loads, result.load)
    assert result.cost == sum(sum(range(1, load + 1)) for load in loads.tolist())


def cost_reducing_path(table: np.ndarray, result: SemiMatching) -> tuple[int, int] | None:
    """Ends of a path from a load of a to one of a - 2 or less, by a search from every machine."""
    for source in range(table.shape[1]):
        seen, queue = {source}, deque([source])
        while queue:
            here = queue.popleft()
            if result.load[here] <= result.load[source] - 2:
                return source, here
            for job in np.flatnonzero(result.assigned == here):
                fresh = set(np.flatnonzero(table[job]).tolist()) - seen
                seen |= fresh
                queue.extend(fresh)
    return None


def random_table(rng: np.random.Generator, most_jobs: int, most_machines: int) -> np.ndarray:
    """A random bipartite graph of random density; every job has a machine."""
    n_jobs, n_machines = rng.integers(1, most_jobs + 1), rng.integers(1, most_machines + 1)
    table = rng.random((n_jobs, n_machines)) < rng.uniform(0.05, 0.9)
    table[np.arange(n_jobs), rng.integers(n_machines, size=n_jobs)] = True
    return table


def test_cost_and_sorted_loads_are_the_flow_oracles(rng: np.random.Generator) -> None:
    """Oracle: networkx's network simplex on 500 random graphs of up to 9 x 6."""
    for _ in range(500):
        table = random_table(rng, 9, 6)
        result = semi_matching(csr_array(table))
        cost, loads = flow_oracle(table)
        check_semi_matching(table, result)
        assert cost == result.cost
        assert loads == sorted(result.load.tolist())


def test_cost_and_sorted_loads_are_those_of_an_optimal_assignment_of_units(
    rng: np.random.Generator,
) -> None:
    """Oracle: SciPy's weighted bipartite matching on 2,000 random graphs of up to 24 x 12."""
    for _ in range(2000):
        table = random_table(rng, 24, 12)
        result = semi_matching(csr_array(table))
        check_semi_matching(table, result)
        assert assignment_oracle(table) == (result.cost, sorted(result.load.tolist()))


def lowest_load_reached(graph: csr_array, result: SemiMatching, load: int) -> int:
    """The lowest load at the end of any alternating path from a machine of this load."""
    n_machines = graph.shape[1]
    giver = np.repeat(result.assigned, np.diff(graph.indptr))
    start = np.flatnonzero(result.load == load)
    rows = np.concatenate([giver, np.full(len(start), n_machines)])
    columns = np.concatenate([graph.indices, start])
    shape = (n_machines + 1, n_machines + 1)
    arcs = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    reached = breadth_first_order(arcs, n_machines, return_predecessors=False)[1:]
    return int(result.load[reached].min())


@pytest.mark.long
def test_no_cost_reducing_path_remains_in_the_conflict_graphs_of_real_crowds(
    shared_data: Path,
) -> None:
    """The certificate, by SciPy's breadth first search, on every data set there is."""
    folders = sorted(path.parent for path in shared_data.glob("*/labels.csv*"))
    assert folders
    for folder in folders:
        graph = conflict_graph(read_set(folder)[0])
        result = semi_matching(graph)
        for load in np.unique(result.load).tolist():
            assert lowest_load_reached(graph, result, load) >= load - 1, folder.name


def test_every_job_is_assigned_once_and_no_cost_reducing_path_remains(
    rng: np.random.Generator,
) -> None:
    for _ in range(60):
        table = random_table(rng, 60, 25)
        result = semi_matching(csr_array(table))
        check_semi_matching(table, result)
        assert cost_reducing_path(table, result) is None


def test_the_certificate_finds_the_fault_of_a_bad_assignment() -> None:
    table = np.array([[1, 1], [1, 0]], dtype=bool)
    bad = SemiMatching(np.zeros(2, dtype=np.int32), np.array([2, 0], dtype=np.int32), 3)
    assert cost_reducing_path(table, bad) == (0, 1)


@QUICK
@given(bipartite())
def test_sorted_loads_do_not_depend_on_the_order_of_jobs_and_machines(table: np.ndarray) -> None:
    loads = sorted(semi_matching(csr_array(table)).load.tolist())
    turned = table[::-1, ::-1]
    assert loads == sorted(semi_matching(csr_array(turned)).load.tolist())


@QUICK
@given(bipartite())
def test_the_result_is_the_same_on_every_run_and_values_are_ignored(table: np.ndarray) -> None:
    one = semi_matching(csr_array(table))
    other = semi_matching(csr_array(table * -2.5))
    assert np.array_equal(one.assigned, other.assigned)


def test_equal_machines_are_filled_in_code_order() -> None:
    assert semi_matching(csr_array(np.ones((5, 3)))).assigned.tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("n_jobs", [3, 1_000_000])
def test_a_path_as_long_as_the_graph_is_found_without_recursion(n_jobs: int) -> None:
    """Job i joins machines i and i + 1; one more job, on machine 2, pushes all after it on."""
    step = np.arange(n_jobs)
    job = np.concatenate([step, step, [n_jobs] * 3])
    machine = np.concatenate([step, step + 1, [0, 1, 2]])
    graph = csr_array((np.ones(len(job)), (job, machine)), shape=(n_jobs + 1, n_jobs + 1))
    result = semi_matching(graph)
    assert result.cost == n_jobs + 1
    assert (result.load == 1).all()
    assert result.assigned[2:n_jobs].tolist() == (step[2:] + 1).tolist()


def test_unsorted_rows_give_the_same_result() -> None:
    graph = csr_array((np.ones(4), np.array([1, 0, 2, 1]), np.array([0, 2, 4])), shape=(2, 3))
    result = semi_matching(graph)
    assert result.assigned.tolist() == [0, 1]
    assert graph.indices.tolist() == [1, 0, 2, 1]


def test_a_machine_that_is_stored_twice_for_a_job_is_one_machine() -> None:
    """The balanced loads, which moved shares between the two, never ended."""
    rows = np.array([1, 1, 0, 2, 0, 2]), np.array([0, 2, 4, 6])
    graph = csr_array((np.ones(6, dtype=np.int8), *rows), shape=(3, 3))
    given = csr_array([[0, 1, 0], [1, 0, 1], [1, 0, 1]])
    assert np.array_equal(semi_matching(graph).assigned, semi_matching(given).assigned)
    assert np.array_equal(load_levels(graph).level, load_levels(given).level)
    found = balanced_loads(graph)
    assert np.array_equal(found.load, balanced_loads(given).load)
    assert found.share.nnz == 5
    assert graph.nnz == 6  # it is not changed


def test_no_jobs_and_idle_machines_are_fine() -> None:
    result = semi_matching(csr_array((0, 3)))
    assert (result.cost, result.load.tolist()) == (0, [0, 0, 0])
    assert semi_matching(csr_array((0, 0))).cost == 0


def test_a_job_without_machines_is_refused() -> None:
    with pytest.raises(ValueError, match="every job must have a machine, job 1 has none"):
        semi_matching(csr_array([[1, 1], [0, 0]]))


@pytest.mark.refusal
def test_a_dense_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="SciPy sparse array, got ndarray"):
        semi_matching(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"graph must be jobs by machines, got shape \(2,\)"):
        semi_matching(csr_array(np.ones(2)))


def test_the_result_is_read_only() -> None:
    result = semi_matching(csr_array([[1, 1], [1, 0]]))
    assert not result.assigned.flags.writeable
    assert not result.load.flags.writeable

"""Penalties against slow definitions, hand-worked crowds and the paper's first theorem.

Balanced loads against quadratic programming, their certificate, and names that cannot matter.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from quality import (
    CrowdLabels,
    conflict_graph,
    conflict_tasks,
    encode,
    hard_penalty,
    majority_vote,
    power_law_assignment,
    regular_assignment,
    reputation_weight,
    semi_matching,
    simulate_crowd,
    soft_penalty,
    weighted_majority,
)
from quality.reputation.penalties import balanced_loads, balanced_penalty
from tests.quality.labels.strategies import Row, bipartite, crowds, label_rows, named_crowd

QUICK = settings(max_examples=80, deadline=None, derandomize=True)


def labels_by_task(labels: CrowdLabels) -> dict[int, dict[int, list[int]]]:
    """Task to class to the workers who gave it, conflict tasks only."""
    tasks: dict[int, dict[int, list[int]]] = {}
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        tasks.setdefault(int(task), {}).setdefault(int(label), []).append(int(worker))
    return {task: given for task, given in tasks.items() if len(given) > 1}


@QUICK
@given(crowds())
def test_soft_penalty_is_the_mean_of_one_over_who_said_the_same(labels: CrowdLabels) -> None:
    shares: list[list[float]] = [[] for _ in range(labels.n_workers)]
    for given_labels in labels_by_task(labels).values():
        for workers in given_labels.values():
            for worker in workers:
                shares[worker].append(1 / len(workers))
    expected = [np.mean(share) if share else 0.0 for share in shares]
    assert soft_penalty(labels) == pytest.approx(expected)


def test_without_weight_on_a_task_the_majority_decides() -> None:
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=2, rng=rng)
    crowd = simulate_crowd(rows, rng.integers(3, size=300), n_classes=3, adversaries={}, rng=rng)
    labels = encode(crowd.worker, crowd.task, crowd.label)
    penalty = soft_penalty(labels)
    assert penalty.max() == 1.0
    vote = weighted_majority(labels, reputation_weight(penalty))
    majority = majority_vote(labels)
    assert np.array_equal(vote.label, majority.label)
    assert np.array_equal(vote.tied, majority.tied)
    assert not vote.tied.all()


@QUICK
@given(crowds())
def test_conflict_graph_joins_each_label_given_to_its_workers(labels: CrowdLabels) -> None:
    nodes = [
        workers
        for _, given_labels in sorted(labels_by_task(labels).items())
        for _, workers in sorted(given_labels.items())
    ]
    graph = conflict_graph(labels)
    assert graph.shape == (len(nodes), labels.n_workers)
    assert nodes == [np.flatnonzero(row).tolist() for row in graph.toarray()]
    assert np.flatnonzero(conflict_tasks(labels)).tolist() == sorted(labels_by_task(labels))


@QUICK
@given(crowds(), st.integers(1, 4000))
def test_the_conflict_graph_does_not_depend_on_classes_that_nobody_gave(
    labels: CrowdLabels, apart: int
) -> None:
    """Of few classes all are gone through at a task, of many those that it was given."""
    wide = CrowdLabels.from_codes(
        labels.worker, labels.task, labels.label * np.int64(apart), workers=labels.workers,
        tasks=labels.tasks, classes=np.arange(apart * labels.n_classes),
    )  # fmt: skip
    one, other = conflict_graph(labels), conflict_graph(wide)
    assert one.shape == other.shape
    for name in ("indptr", "indices", "data"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@QUICK
@given(crowds())
def test_soft_penalty_is_0_or_between_one_over_workers_and_1(labels: CrowdLabels) -> None:
    penalty = soft_penalty(labels)
    judged = np.bincount(
        labels.worker[conflict_tasks(labels)[labels.task]], minlength=labels.n_workers
    ).astype(bool)
    assert (penalty[~judged] == 0).all()
    assert (penalty[judged] >= 1 / labels.n_workers - 1e-12).all()
    assert (penalty <= 1).all()


@QUICK
@given(crowds())
def test_hard_penalties_add_up_to_the_label_nodes(labels: CrowdLabels) -> None:
    graph, penalty = conflict_graph(labels), hard_penalty(labels)
    assert penalty.sum() == graph.shape[0]
    assert (penalty <= graph.sum(axis=0)).all()
    assert np.array_equal(penalty, semi_matching(graph).load)


@QUICK
@given(label_rows())
def test_tasks_without_conflict_change_no_penalty(rows: list[Row]) -> None:
    labels = named_crowd(rows)
    workers = labels.workers.tolist()
    calm = named_crowd(rows + [(worker, "calm", "a") for worker in workers])
    assert soft_penalty(calm) == pytest.approx(soft_penalty(labels))
    assert np.array_equal(hard_penalty(calm), hard_penalty(labels))


@QUICK
@given(label_rows())
def test_renaming_changes_nobodys_soft_penalty_and_no_sorted_hard_ones(rows: list[Row]) -> None:
    turn = {"a": "c", "b": "a", "c": "b"}
    renamed = named_crowd([(w[::-1], t[::-1], turn[k]) for w, t, k in rows])
    labels = named_crowd(rows)
    place = [renamed.workers.tolist().index(w[::-1]) for w in labels.workers.tolist()]
    assert soft_penalty(labels).tolist() == soft_penalty(renamed)[place].tolist()
    assert sorted(hard_penalty(labels)) == sorted(hard_penalty(renamed))


def test_a_hand_worked_crowd() -> None:
    """Tasks 1: ann, bob x / cy y. 2: all x. 3: ann x / bob y / cy z, worked out on paper."""
    labels = encode(["ann", "bob", "cy"] * 3, [1, 1, 1, 2, 2, 2, 3, 3, 3], list("xxyxxxxyz"))
    assert soft_penalty(labels).tolist() == [0.75, 0.75, 1.0]
    assert sorted(hard_penalty(labels).tolist()) == [1, 2, 2]


def test_no_conflict_no_penalty() -> None:
    labels = encode(["ann", "bob"], [1, 2], ["x", "y"])
    assert soft_penalty(labels).tolist() == [0.0, 0.0]
    assert hard_penalty(labels).tolist() == [0, 0]
    assert conflict_graph(labels).shape == (0, 2)


def test_soft_penalties_order_honest_workers_by_reliability(rng: np.random.Generator) -> None:
    """Theorem 1 of the paper: every worker labels every task, nobody is an adversary.

    Accuracies spread over about 0.5 to 0.95, 4,000 tasks: rank correlation is near -1.
    """
    assignment = regular_assignment(n_tasks=4000, n_workers=40, labels_per_task=40, rng=rng)
    truth = rng.integers(2, size=4000)
    crowd = simulate_crowd(
        assignment, truth, n_classes=2, adversaries={}, reliability=(12.0, 4.0), rng=rng
    )
    penalty = soft_penalty(encode(crowd.worker, crowd.task, crowd.label))
    assert spearmanr(crowd.accuracy, penalty).statistic < -0.97


def simulated(rng: np.random.Generator, n_tasks: int, n_workers: int) -> CrowdLabels:
    """A crowd of three classes and power-law activity."""
    assignment = power_law_assignment(
        n_tasks=n_tasks, n_workers=n_workers, labels_per_task=5, rng=rng
    )
    truth = rng.integers(3, size=n_tasks)
    crowd = simulate_crowd(
        assignment, truth, n_classes=3, adversaries={"random": n_workers // 5}, rng=rng
    )
    return encode(crowd.worker, crowd.task, crowd.label, classes=range(3))


def loads_by_least_squares(table: np.ndarray) -> np.ndarray:
    """The same problem as bounded least squares; a job's shares add up to 1 by a heavy penalty."""
    job, machine = np.nonzero(table)
    heavy = 1e4
    rows = np.zeros((table.shape[1] + table.shape[0], len(job)))
    rows[machine, np.arange(len(job))] = 1.0
    rows[table.shape[1] + job, np.arange(len(job))] = heavy
    target = np.concatenate([np.zeros(table.shape[1]), np.full(table.shape[0], heavy)])
    share = lsq_linear(rows, target, bounds=(0, 1), method="bvls", tol=1e-14).x
    return np.bincount(machine, share, minlength=table.shape[1])


@QUICK
@given(bipartite())
def test_the_loads_are_the_optimum_of_the_quadratic_program(table: np.ndarray) -> None:
    """Oracle: SciPy's bounded least squares; its penalty for the constraint costs about 1e-7."""
    found = balanced_loads(csr_array(table))
    assert found.converged
    assert found.load == pytest.approx(loads_by_least_squares(table), abs=1e-5)


def test_a_job_gives_only_to_its_least_loaded_machines(rng: np.random.Generator) -> None:
    """The certificate, with the exact loads and every share that is not 0."""
    for _ in range(20):
        found = balanced_loads(conflict_graph(simulated(rng, 200, 40)))
        assert found.converged
        share = found.share
        job = np.repeat(np.arange(share.shape[0]), np.diff(share.indptr))
        least = np.full(share.shape[0], np.inf)
        np.minimum.at(least, job, found.load[share.indices])
        giving = share.data > 0
        assert np.array_equal(found.load[share.indices[giving]], least[job[giving]])


@QUICK
@given(bipartite())
def test_shares_are_not_negative_and_add_up_to_1(table: np.ndarray) -> None:
    found = balanced_loads(csr_array(table))
    assert (found.share.data >= 0).all()
    assert found.share.sum(axis=1) == pytest.approx(np.ones(len(table)))
    assert not found.share.toarray()[~table].any()
    assert abs(found.share.sum(axis=0) - found.load).max() <= found.residual + 1e-12


def test_the_largest_integral_load_is_the_largest_balanced_load_rounded_up(
    rng: np.random.Generator,
) -> None:
    for _ in range(30):
        graph = conflict_graph(simulated(rng, 150, 30))
        assert semi_matching(graph).load.max() == np.ceil(balanced_loads(graph).load.max())


def test_loads_do_not_depend_on_the_order_of_jobs_and_machines(rng: np.random.Generator) -> None:
    """200 crowds, each once more in another order of label nodes and workers."""
    for _ in range(200):
        graph = conflict_graph(simulated(rng, 60, 15))
        jobs, machines = rng.permutation(graph.shape[0]), rng.permutation(graph.shape[1])
        load = balanced_loads(graph).load
        turned = balanced_loads(csr_array(graph[jobs][:, machines])).load
        assert load[machines] == pytest.approx(turned, abs=1e-9, rel=0)


@QUICK
@given(crowds())
def test_penalties_add_up_to_the_label_nodes(labels: CrowdLabels) -> None:
    assert balanced_penalty(labels).sum() == pytest.approx(conflict_graph(labels).shape[0])


def chain(n_machines: int) -> csr_array:
    """Job i joins machines i and i + 1."""
    step = np.arange(n_machines - 1)
    edge = (np.concatenate([step, step]), np.concatenate([step, step + 1]))
    return csr_array((np.ones(len(edge[0])), edge), shape=(n_machines - 1, n_machines))


@pytest.mark.parametrize("n_machines", [2, 10, 100, 100_000])
def test_a_chain_is_balanced_along_its_whole_length(n_machines: int) -> None:
    """One job fewer than machines, so that all carry (n - 1) / n, worked out on paper."""
    found = balanced_loads(chain(n_machines))
    assert found.converged
    assert found.load.tolist() == [(n_machines - 1) / n_machines] * n_machines


def test_a_long_chain_takes_no_more_waves_than_a_short_one() -> None:
    assert balanced_loads(chain(10)).n_iter == balanced_loads(chain(100_000)).n_iter == 1


def test_chains_of_any_widths_are_exact(rng: np.random.Generator) -> None:
    """A path whose jobs come singly or in pairs has long stretches of many different loads.

    Oracle: with one machine after the other, the totals of the balanced loads along the path are a
    taut string between the totals of the jobs that must be done by then and of those that can be.
    """
    for _ in range(20):
        copies = rng.integers(1, 4, size=400)
        step = np.repeat(np.arange(400), copies)
        job = np.arange(len(step))
        edge = (np.concatenate([job, job]), np.concatenate([step, step + 1]))
        graph = csr_array((np.ones(len(edge[0])), edge), shape=(len(step), 401))
        found = balanced_loads(graph)
        assert found.converged
        assert found.load == pytest.approx(taut_string(copies), abs=1e-9)


def taut_string(copies: np.ndarray) -> np.ndarray:
    """Slopes of the shortest path from (0, 0) to the end between two staircases, by its corners."""
    most = np.concatenate([[0], np.cumsum(copies)])  # after k machines: all jobs met so far
    least = np.concatenate([[0], most[:-1]])  # without those that the next machine could take
    most, least = np.append(most, most[-1]), np.append(least, most[-1])
    end, here, height, load = len(copies) + 1, 0, 0, []
    while here < end:
        ahead = np.arange(here + 1, end + 1)
        up = (most[ahead] - height) / (ahead - here)
        down = (least[ahead] - height) / (ahead - here)
        low, high = np.maximum.accumulate(down), np.minimum.accumulate(up)
        crossed = np.flatnonzero(low > high)
        stop = crossed[0] if len(crossed) else len(ahead) - 1
        if len(crossed) and down[stop] > high[stop]:  # the floor rises above: bend at the ceiling
            bend = np.flatnonzero(up[:stop] == high[stop - 1])[-1]
            corner = most[ahead[bend]]
        elif len(crossed):
            bend = np.flatnonzero(down[:stop] == low[stop - 1])[-1]
            corner = least[ahead[bend]]
        else:
            bend, corner = stop, most[end]
        load += [(corner - height) / (ahead[bend] - here)] * int(ahead[bend] - here)
        here, height = int(ahead[bend]), int(corner)
    return np.array(load)


def test_what_is_not_settled_is_told(rng: np.random.Generator) -> None:
    graph = conflict_graph(simulated(rng, 200, 40))
    hasty = balanced_loads(graph, max_iter=1)
    assert (hasty.n_iter, hasty.converged) == (1, False)
    assert hasty.load.sum() == pytest.approx(graph.shape[0])
    assert "not converged after 1 waves" in repr(hasty)


def test_the_result_is_the_same_on_every_run_and_read_only(rng: np.random.Generator) -> None:
    graph = conflict_graph(simulated(rng, 200, 40))
    one, other = balanced_loads(graph), balanced_loads(graph)
    assert one.load.tobytes() == other.load.tobytes()
    assert one.share.data.tobytes() == other.share.data.tobytes()
    assert not one.load.flags.writeable
    assert not one.share.data.flags.writeable


def test_no_conflict_no_balanced_penalty() -> None:
    assert balanced_penalty(encode(["ann", "bob"], [1, 2], ["x", "y"])).tolist() == [0.0, 0.0]


def test_no_sweeps_are_refused() -> None:
    with pytest.raises(ValueError, match="max_iter must be >= 1, got max_iter=0"):
        balanced_loads(csr_array([[1]]), max_iter=0)

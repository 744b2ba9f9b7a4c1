"""Graphs of networkx: names, edges and numbers are those of what they are made of."""

import sys
import tracemalloc

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from quality import (
    CrowdLabels,
    conflict_graph,
    dependent_groups,
    encode,
    pair_kappas,
    regular_assignment,
    semi_matching,
    simulate_crowd,
    to_networkx,
)
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def crowd() -> CrowdLabels:
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(2, size=300)
    found = simulate_crowd(rows, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
    return encode([f"w{code}" for code in found.worker], found.task, found.label)


@QUICK
@given(crowds())
def test_the_conflict_graph_has_its_edges_by_name(labels: CrowdLabels) -> None:
    """Oracle: who gave which label to a task that has two."""
    graph = to_networkx(labels)
    given_ = {}
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        given_.setdefault(labels.tasks[task].item(), []).append(
            (labels.workers[worker].item(), labels.classes[label].item())
        )
    expected = {
        frozenset({worker, ("label", task, label)})
        for task, rows in given_.items()
        if len({label for _, label in rows}) > 1
        for worker, label in rows
    }
    assert {frozenset(edge) for edge in graph.edges} == expected
    assert nx.is_bipartite(graph)


@QUICK
@given(crowds())
def test_every_worker_of_the_vocabulary_is_a_node(labels: CrowdLabels) -> None:
    names = set(labels.workers.tolist())
    assert {name for name, kind in to_networkx(labels).nodes("kind") if kind == "worker"} == names
    assert set(to_networkx(labels, pair_kappas(labels))) == names


@QUICK
@given(crowds())
def test_a_semi_matching_assigns_each_label_node_once(labels: CrowdLabels) -> None:
    matching = semi_matching(conflict_graph(labels))
    graph = to_networkx(labels, matching)
    for node, kind in graph.nodes("kind"):
        assigned = sum(data["assigned"] for *_, data in graph.edges(node, data=True))
        assert assigned == (1 if kind == "label" else graph.nodes[node]["load"])


def test_pairs_have_their_kappas_by_name() -> None:
    labels = crowd()
    pairs = pair_kappas(labels)
    graph = to_networkx(labels, pairs)
    assert graph.number_of_edges() == len(pairs.pair)
    for at in (0, 17, len(pairs.pair) - 1):
        one, other = labels.workers[pairs.pair[at]]
        edge = graph.edges[one, other]
        assert (edge["n_common"], edge["kappa"]) == (pairs.n_common[at], pairs.kappa[at])


def test_groups_have_their_members_and_pairs() -> None:
    labels = crowd()
    graph = to_networkx(labels, dependent_groups(labels))
    sybils = {f"w{code}" for code in range(20, 24)}
    assert {name for name, group in graph.nodes("group") if group >= 0} == sybils
    assert {name for edge in graph.edges for name in edge} == sybils
    assert all(data["n_agreed"] > data["expected"] for *_, data in graph.edges(data=True))


def test_names_and_numbers_are_plain_values_that_networkx_can_write(tmp_path) -> None:
    labels = crowd()
    nx.write_gml(to_networkx(labels, pair_kappas(labels)), tmp_path / "pairs.gml")
    graph = to_networkx(labels)
    assert all(
        type(part) in (str, int) for node in graph if isinstance(node, tuple) for part in node
    )


def test_what_is_of_other_labels_is_refused() -> None:
    labels, other = crowd(), encode(["a", "b"], [1, 1], ["x", "y"])
    for found in (
        semi_matching(conflict_graph(labels)),
        pair_kappas(labels),
        dependent_groups(labels),
    ):
        with pytest.raises(ValueError, match="found must be of these labels"):
            to_networkx(other, found)


def test_a_matching_of_other_labels_of_the_same_sizes_is_refused() -> None:
    """Its nodes would be on nobody."""
    labels = encode(["a", "b", "c"], [1, 1, 2], ["x", "y", "x"])
    other = encode(["a", "c", "b"], [1, 1, 2], ["x", "y", "x"])
    with pytest.raises(ValueError, match="found must be of these labels: it puts label nodes on"):
        to_networkx(labels, semi_matching(conflict_graph(other)))


def test_thousands_of_classes_take_no_table_of_tasks_by_classes() -> None:
    """Five thousand of both: a table of their counts takes 100 MB or more."""
    labels = encode(["a", "b"] * 5_000, np.repeat(np.arange(5_000), 2), np.arange(10_000) // 2)
    tracemalloc.start()
    try:
        to_networkx(labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_without_networkx_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ModuleNotFoundError, match="pip install networkx"):
        to_networkx(crowd())

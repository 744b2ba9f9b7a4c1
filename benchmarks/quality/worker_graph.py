"""A crowd as graphs: pairs of workers who agree beyond chance, and the conflicts of a few tasks.

``python -m benchmarks.quality.worker_graph``
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from benchmarks.publish import parser_of, publish
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

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"


def crowd() -> CrowdLabels:
    """Twenty honest workers and a group of four who give one answer each time."""
    rng = np.random.default_rng(0)
    rows = regular_assignment(n_tasks=300, n_workers=20, labels_per_task=4, rng=rng)
    truth = rng.integers(2, size=300)
    found = simulate_crowd(rows, truth, n_classes=2, adversaries={"sybils": 4}, rng=rng)
    return encode([f"w{code}" for code in found.worker], found.task, found.label)


def main() -> None:
    parser_of(__doc__).parse_args()
    labels = crowd()
    groups, pairs = dependent_groups(labels), pair_kappas(labels, min_common=5)
    agree, inside = to_networkx(labels, pairs), to_networkx(labels, groups)
    few = labels.keep_labels(labels.task < 4)
    matching = semi_matching(conflict_graph(few))
    conflicts = to_networkx(few, matching)
    conflicts.remove_nodes_from([name for name, degree in list(conflicts.degree) if not degree])
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    strong = [(a, b) for a, b, kappa in agree.edges(data="kappa") if kappa > 0.3]
    place = nx.spring_layout(agree.edge_subgraph(strong).copy(), k=0.7, seed=1)
    shown = agree.subgraph(place)
    colours = [ORANGE if inside.nodes[name]["group"] >= 0 else BLUE for name in shown]
    nx.draw_networkx_edges(shown, place, strong, ax=left, edge_color=GREY, alpha=0.4)
    nx.draw_networkx_nodes(shown, place, ax=left, node_color=colours, node_size=330)
    nx.draw_networkx_labels(shown, place, ax=left, font_size=8, font_color="white")
    left.set_title("Pairs with Cohen's kappa above 0.3; orange: one group")
    nodes = [node for node, kind in conflicts.nodes("kind") if kind == "label"]
    place = nx.bipartite_layout(conflicts, nodes)
    answers = [edge[:2] for edge in conflicts.edges(data="assigned") if edge[2]]
    nx.draw_networkx_edges(conflicts, place, ax=right, edge_color=GREY, alpha=0.5)
    nx.draw_networkx_edges(conflicts, place, answers, ax=right, edge_color=ORANGE, width=2.5)
    nx.draw_networkx_nodes(
        conflicts, place, ax=right, node_color="white", edgecolors=BLUE, node_size=500
    )
    words = {n: f"{n[1]}: {n[2]}" if n in nodes else n for n in conflicts}
    nx.draw_networkx_labels(conflicts, place, words, ax=right, font_size=8)
    right.set_title("Conflicts of four tasks; orange: who answers for which label")
    for axes in (left, right):
        axes.set_axis_off()
    drawn = (
        ("pairs of workers", agree, "kappa, ac1"),
        ("pairs inside groups", inside, "expected, p_value"),
        ("semi-matching of four tasks", conflicts, "assigned, load"),
    )
    rows = [
        (name, f"{graph.number_of_nodes()}", f"{graph.number_of_edges()}", held)
        for name, graph, held in drawn
    ]
    publish(
        "worker_graph", "A crowd as graphs", ("graph", "nodes", "edges", "what they hold"), rows,
        picture=figure,
        note="Twenty honest workers and four who answer as one, simulated; drawn by networkx from "
        "`to_networkx`.",
    )  # fmt: skip


if __name__ == "__main__":
    main()

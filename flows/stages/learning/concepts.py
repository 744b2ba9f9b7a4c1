"""What tasks are about: a graph of concepts from their texts, and what the classes miss.

Consensus labels of confident tasks name concepts below the root; the other tasks find theirs by their
words, among them concepts that no class names. Nothing of it leaves the run folder, and it changes no label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from flows.run import Crowd, Run
from flows.tables import arrow_table
from quality.reports import TaskReport

if TYPE_CHECKING:
    from learners import GraphLDA

__all__ = ["map_concepts"]

MIN_TEXTS = 20  # tasks with words
MAX_WORDS = 5000  # of the vocabulary, the most frequent
OFTEN = 0.5  # a word in a larger share of the tasks does not distinguish them
N_WORDS = 6  # shown of a concept
SHOWN = 30  # concepts


def map_concepts(
    run: Run, crowd: Crowd, tasks: TaskReport, label: Int[np.ndarray, " tasks"],
    confidence: Float[np.ndarray, " tasks"],
) -> None:  # fmt: skip
    """Learn the graph of the tasks' texts and write it, if the settings ask for it."""
    settings = run.settings.topics
    if settings is None:
        return
    # scikit-learn and compiled loops, for runs with texts alone
    from sklearn.feature_extraction.text import CountVectorizer

    from learners import GraphLDA

    rows = pq.read_table(run.folder / "topic_texts.parquet")
    names = np.array(rows["task"].to_pylist(), dtype=np.str_)
    counter = CountVectorizer(min_df=2, max_df=OFTEN, max_features=MAX_WORDS)
    try:
        counts = counter.fit_transform(rows["text"].to_pylist())
    except ValueError:  # no word is in two tasks and in no more than half of them
        counts = None
    few = counts is None or np.count_nonzero(np.diff(counts.indptr)) < MIN_TEXTS
    if few or tasks.counts is None:
        why_not = f"fewer than {MIN_TEXTS} tasks have words that other tasks have too"
        if not few:
            why_not = "there are too many classes for concepts that are to tell them apart"
        run.write_json("topics.json", {"why_not": why_not})
        run.write_table("task_concepts.parquet", arrow_table({"task": names[:0]}))
        return
    own = np.searchsorted(names, crowd.labels.tasks.astype(np.str_))
    known = confidence >= settings.confidence
    y = np.full(len(names), None, dtype=object)
    y[own[known]] = crowd.labels.classes.astype(str)[label[known]]
    n_classes = crowd.labels.n_classes
    first, *rest = settings.levels
    sizes = (1, max(first, n_classes + 1), *rest)  # room for a class that is missing
    model = GraphLDA(sizes, random_state=run.settings.seed).fit(counts, y)
    spread = np.full((2, len(names)), np.nan)
    spread[0, own] = 1 - confidence
    labelled = tasks.n_labels > 0  # models alone may have answered a task, beside people
    most = tasks.counts.max(axis=1)[labelled]
    spread[1, own[labelled]] = most / tasks.n_labels[labelled]
    vocabulary = counter.get_feature_names_out()
    run.write_json(
        "topics.json",
        _facts(model, vocabulary, spread, settings.min_tasks)
        | {
            "why_not": None,
            "n_tasks": len(names),
            "n_named": int(known.sum()),
            "confidence": settings.confidence,
            "min_tasks": settings.min_tasks,
        },
    )
    run.write_table(
        "task_concepts.parquet",
        arrow_table(
            {
                "task": names,
                "concept": np.array(list(map(str, model.labels_)), dtype=np.str_),
                "path": np.array([" > ".join(map(str, one)) for one in model.paths_], np.str_),
                "named": np.array([one is not None for one in y]),
            }
        ),
    )


def _facts(
    model: GraphLDA, vocabulary: np.ndarray, spread: Float[np.ndarray, "two tasks"], min_tasks: int
) -> dict[str, Any]:
    """Return concepts by number of tasks, edges among those drawn, and concepts that no class names.

    Every path visits the root, so its own tasks are those that go no further.
    """
    graph = model.graph_
    found: list[dict[str, Any]] = []
    for row, name in enumerate(graph.names):
        is_root = bool(graph.depth[row] == 0)
        visits = [name == path[-1] if is_root else name in path for path in model.paths_]
        own = np.array(visits, dtype=np.bool_)
        if not (own.any() or is_root):
            continue
        found.append(
            {
                "name": str(name),
                "depth": int(graph.depth[row]),
                "tasks": int(own.sum()),
                "is_new": is_root or bool(graph.is_new[row]),
                "parents": [str(a) for a, b, _ in graph.edges if b == name],
                "words": [str(vocabulary[i]) for i in model.top_words(name, N_WORDS)],
                "difficulty": _mean(spread[0, own]),
                "agreement": _mean(spread[1, own]),
            }
        )
    found.sort(key=lambda one: (-one["tasks"], one["depth"]))
    shown = found[:SHOWN]
    if not any(one["depth"] == 0 for one in shown):
        shown[-1] = next(one for one in found if one["depth"] == 0)
    place = {one["name"]: i for i, one in enumerate(shown)}
    edges = [
        (place[str(a)], place[str(b)], n)
        for a, b, n in graph.edges
        if str(a) in place and str(b) in place
    ]
    kept = ("name", "depth", "tasks", "is_new")
    drawn = [{key: one[key] for key in kept} for one in shown]
    for one, mark in zip(shown, drawn, strict=True):
        if one["is_new"] and one["depth"] > 0:  # its words explain it better than a number
            mark["name"] = ", ".join(one["words"][:2])
    return {
        "concepts": shown,
        "n_more": len(found) - len(shown),
        "drawn": drawn,
        "edges": edges,
        "missing": [
            {"name": one["name"], "tasks": one["tasks"], "words": one["words"]}
            for one in found
            if one["is_new"] and one["depth"] <= 1 and one["tasks"] >= min_tasks
        ],
    }


def _mean(values: Float[np.ndarray, " tasks"]) -> float | None:
    """Return the mean of the tasks that have labels; None if none has."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None

"""Concept graphs from the words of documents, with labels for some of them.

`GraphLDA` is the scikit-learn estimator; `graph_` is its `ConceptGraph`. It needs scikit-learn and numba,
and loads when first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from learners.topics.concept_graph import ConceptGraph
    from learners.topics.graph_lda import GraphLDA

__all__ = ["ConceptGraph", "GraphLDA"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # not earlier: the first loads scikit-learn and compiled loops
    from learners.topics import concept_graph, graph_lda

    return getattr(graph_lda if name == "GraphLDA" else concept_graph, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The one source of generated inputs of this room's tests."""

import numpy as np
from hypothesis import strategies as st

from quality import CrowdLabels, encode

__all__ = ["bipartite", "crowds", "label_rows", "named_crowd"]

Row = tuple[str, str, str]


@st.composite
def label_rows(draw: st.DrawFn, *, max_workers: int = 6, max_tasks: int = 6) -> list[Row]:
    """Rows of (worker, task, label), no (worker, task) twice, in any order."""
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, max_workers - 1), st.integers(0, max_tasks - 1)),
            min_size=1,
            max_size=max_workers * max_tasks,
            unique=True,
        )
    )
    classes = draw(st.lists(st.sampled_from("abc"), min_size=len(pairs), max_size=len(pairs)))
    return [(f"w{w}", f"t{t}", label) for (w, t), label in zip(pairs, classes, strict=True)]


def named_crowd(rows: list[Row]) -> CrowdLabels:
    """The table of such rows, with all three classes declared."""
    return encode(*zip(*rows, strict=True), classes=("a", "b", "c"))


def crowds() -> st.SearchStrategy[CrowdLabels]:
    """Small label tables."""
    return label_rows().map(named_crowd)


@st.composite
def bipartite(draw: st.DrawFn, *, max_jobs: int = 7, max_machines: int = 5) -> np.ndarray:
    """A jobs by machines truth table in which every job has a machine."""
    n_jobs = draw(st.integers(1, max_jobs))
    n_machines = draw(st.integers(1, max_machines))
    rows = st.lists(st.booleans(), min_size=n_machines, max_size=n_machines).filter(any)
    return np.array(draw(st.lists(rows, min_size=n_jobs, max_size=n_jobs)))

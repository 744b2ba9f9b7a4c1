"""The table of tasks by classes that holds the classes named, against the table that it stands for."""

import numpy as np
import pytest

from quality import encode
from quality.aggregation import decide
from quality.labels import CrowdLabels, NamedPosterior, name_classes
from quality.reports import posterior_entropy
from quality.reports.tasks import _margin


def some_labels(n_classes: int, rng: np.random.Generator) -> CrowdLabels:
    """Up to 40 labels of at most nine workers."""
    n_tasks = int(rng.integers(1, 20))
    n_labels = min(int(rng.integers(1, 40)), 9 * n_tasks)
    cells = rng.choice(9 * n_tasks, size=n_labels, replace=False)
    label = rng.integers(n_classes, size=n_labels)
    return encode(cells % 9, cells // 9, label, classes=range(n_classes))


def some_belief(
    labels: CrowdLabels, rng: np.random.Generator, *, even: bool, level: bool
) -> NamedPosterior:
    """A belief with ties where it is `level`, the classes not named alike where it is `even`."""
    named = name_classes(labels)
    p, rest = rng.random(len(named.code)), rng.random(labels.n_tasks)
    rest[np.diff(named.start) == labels.n_classes] = 0.0
    if level:
        p, rest = np.round(3 * p) + 0.5, np.zeros(labels.n_tasks)
    total = named.sums(p) + rest
    base = None if even else rng.dirichlet(np.ones(labels.n_classes))
    return NamedPosterior(named, p / total[named.task], rest / total, base)


@pytest.mark.parametrize("seed", range(24))
def test_rows_and_cells_decisions_margins_and_entropies_are_those_of_the_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = some_labels(1 + seed % 7, rng)
    belief = some_belief(labels, rng, even=seed % 2 == 0, level=seed % 3 == 0)
    table = belief[np.arange(labels.n_tasks)]
    assert belief.is_sound()
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    task = rng.integers(labels.n_tasks, size=30)
    label = rng.integers(labels.n_classes, size=30)
    np.testing.assert_allclose(belief[task, label], table[task, label])
    for one, other in zip(belief.decide(), decide(table), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(belief.entropy(), posterior_entropy(table), atol=1e-12)
    np.testing.assert_allclose(belief.margin(), _margin(table), atol=1e-12)


def test_each_label_names_an_entry_and_gold_has_one_too() -> None:
    labels = encode(["ann", "bob", "ann"], [1, 1, 2], ["x", "x", "y"], classes=["w", "x", "y"])
    named = name_classes(labels, np.array([0, -1]))
    assert named.code.tolist() == [0, 1, 2]
    assert named.votes.tolist() == [0, 2, 1]
    assert named.entry.tolist() == [1, 1, 2]
    assert named.find(np.array([0, 0, 1]), np.array([1, 2, 2])).tolist() == [1, -1, 2]


def test_confidence_in_a_label_leaves_the_other_classes_their_ratios() -> None:
    labels = encode(["ann", "bob", "cy"], [1, 1, 2], list("xyy"), classes=list("wxyz"))
    belief = NamedPosterior(name_classes(labels), np.array([0.6, 0.2, 1.0]), np.array([0.2, 0.0]))
    believed = belief.believed(np.array([1, 2]), np.array([0.2, 0.7]))
    np.testing.assert_allclose(
        believed[np.array([0, 1])], [[0.2, 0.2, 0.4, 0.2], [0.1, 0.1, 0.7, 0.1]]
    )


def test_a_row_that_does_not_add_up_is_not_sound() -> None:
    labels = encode(["ann"], [1], ["x"], classes=["x", "y"])
    assert not NamedPosterior(name_classes(labels), np.array([0.5]), np.array([0.1])).is_sound()


def test_what_is_not_believed_in_a_certain_label_is_the_other_classes_evenly() -> None:
    """Of three classes the first task was given all, the second one alone."""
    labels = encode([0, 1, 2, 0], [0, 0, 0, 1], [0, 1, 2, 1], classes=range(3))
    belief = NamedPosterior(name_classes(labels), np.array([0.0, 1.0, 0.0, 1.0]), np.zeros(2))
    believed = belief.believed(np.array([1, 1]), np.array([0.6, 0.9]))
    assert believed.is_sound()
    rows = believed[np.array([0, 1])]
    np.testing.assert_allclose(rows, [[0.2, 0.6, 0.2], [0.05, 0.9, 0.05]], rtol=0, atol=1e-12)

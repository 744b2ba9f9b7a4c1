"""Cells: only what somebody gave, and every count beside what a slow reader of the sets finds."""

import numpy as np

from quality import encode_multilabels, simulate_multilabels
from quality.multilabel.cell_pass import cell_odds, cells_of, count_cells, yes_no_labels
from quality.multilabel.set_sizes import cell_chances


def test_counts_are_those_of_the_sets() -> None:
    rng = np.random.default_rng(0)
    table = simulate_multilabels(
        n_tasks=30, n_workers=8, answers_per_task=3, n_classes=6, rng=rng
    ).table
    cells = cells_of(table)
    answer = np.repeat(np.arange(table.n_answers), np.diff(table.label_start))
    np.testing.assert_array_equal(cells.giver, table.worker[answer])
    n_given = np.zeros((8, 6))
    n_met, n_asked, silent = np.zeros((8, 6)), np.zeros((8, 6)), np.zeros((6, 4))
    for task in range(30):
        rows = range(table.task_start[task], table.task_start[task + 1])
        sets = {table.worker[row]: set(table.set_of(row).tolist()) for row in rows}
        some = set().union(*sets.values())
        mine = cells.label[cells.start[task] : cells.start[task + 1]]
        assert mine.tolist() == sorted(some)
        for cell in range(cells.start[task], cells.start[task + 1]):
            gave = [row for row in rows if cells.label[cell] in table.set_of(row)]
            assert answer[cells.cell == cell].tolist() == gave
            assert cells.n_given[cell] == len(gave)
        for worker, given in sets.items():
            for one in range(6):
                n_given[worker, one] += one in given
                n_met[worker, one] += one in some
                n_asked[worker, one] += 1
        for one in set(range(6)) - some:
            silent[one, 3] += 1
    for name, slow in (("given", n_given), ("met", n_met), ("asked", n_asked), ("silent", silent)):
        np.testing.assert_array_equal(getattr(cells, name), slow)
    np.testing.assert_array_equal(cells.shown, np.full(6, 30))


def test_a_class_that_nobody_gave_a_task_has_no_cell() -> None:
    cells = cells_of(encode_multilabels(["a", "b"], [1, 2], [["x"], ["y"]]))
    assert cells.label.tolist() == [0, 1]
    assert (cells.giver.tolist(), cells.cell.tolist()) == ([0, 1], [0, 1])


def test_what_is_not_shown_is_not_asked() -> None:
    table = encode_multilabels(
        ["a", "a", "b"], [1, 2, 1], [["x"], ["y"], ["x"]], shown={1: ["x"], 2: ["x", "y"]}
    )
    cells = cells_of(table)
    assert cells.asked.tolist() == [[2, 1], [1, 0]]
    assert cells.shown.tolist() == [2, 1]
    assert cells.silent.tolist() == [[0, 1, 0], [0, 0, 0]]


def passed(table, cells, prior, denial, word):  # type: ignore[no-untyped-def]
    """Return the chances, the hits and the mass of one pass in which sizes say nothing."""
    odds, (hit, mass) = np.empty(len(cells.label)), np.zeros((2, *cells.given.shape))
    asked = table.task_start, table.worker, cells.start, cells.label, cells.giver, cells.cell
    cell_odds(*asked, prior, denial, word, odds)
    chance, _ = cell_chances(odds, cells.start, cells.known, np.ones(table.n_classes + 1))
    total = np.zeros(table.n_classes)
    count_cells(*asked, chance, hit, mass, total)
    np.testing.assert_allclose(total, np.bincount(cells.label, chance, table.n_classes))
    return chance, hit, mass


def test_a_pass_adds_up_words_and_denials() -> None:
    table = encode_multilabels(["a", "b"], [1, 1], [["x", "y"], ["y"]])
    denial, word = np.array([[-1.0, -3.0], [-0.5, -0.25]]), np.array([[3.0, 7.0], [1.5, 1.0]])
    chance, hit, mass = passed(table, cells_of(table), np.array([0.1, -0.2]), denial, word)
    log_odds = np.array([0.1 + 2.0 - 0.5, -0.2 + 4.0 + 0.75])
    np.testing.assert_allclose(chance, 1 / (1 + np.exp(-log_odds)))
    np.testing.assert_allclose(mass, [chance, chance])
    np.testing.assert_allclose(hit, [chance, [0, chance[1]]])


def test_what_is_known_counts_as_it_is_and_a_class_that_holds_has_a_cell() -> None:
    table = encode_multilabels(["a", "b"], [1, 1], [["x", "y"], ["y"]], classes=["x", "y", "z"])
    cells = cells_of(table, np.array([[0, -1, 1]], dtype=np.int8))
    assert (cells.label.tolist(), cells.known.tolist()) == ([0, 1, 2], [0, -1, 1])
    assert cells.shown.tolist() == [1, 1, 1]
    chance, hit, mass = passed(table, cells, np.zeros(3), *np.zeros((2, 2, 3)))
    np.testing.assert_allclose(chance, [0, 0.5, 1])
    np.testing.assert_allclose(mass, [[0, 0.5, 1]] * 2)
    np.testing.assert_allclose(hit, [[0, 0.5, 0]] * 2)  # neither gave z


def test_cells_as_labels_say_yes_where_the_class_was_given() -> None:
    table = encode_multilabels(
        ["a", "b", "b"], [1, 1, 2], [["x", "y"], ["y"], []], classes=["x", "y"]
    )
    labels = yes_no_labels(table)
    said = zip(
        labels.workers[labels.worker], labels.task, labels.classes[labels.label], strict=True
    )
    assert sorted(said) == [("a", 0, "yes"), ("a", 1, "yes"), ("b", 0, "no"), ("b", 1, "yes")]

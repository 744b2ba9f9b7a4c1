"""Penalties by distance: a neighbour is a part of a conflict, and honest graders are judged by graders."""

import tracemalloc
from itertools import product

import numpy as np
import pytest

from quality import (
    CrowdLabels,
    LabelError,
    encode,
    filter_dishonest,
    graded_penalty,
    regular_assignment,
    simulate_crowd,
    soft_penalty,
)
from quality.reputation import graded_answers
from quality.reputation.graded_answers import fit_graded
from quality.reputation.honest_population import RELIABILITY
from quality.reputation.other_answers import Asked
from quality.reputation.penalty_tails import honest_p_values


def graders(
    seed: int, others: dict[str, int], *, n_tasks: int = 250, n_classes: int = 5
) -> tuple[CrowdLabels, np.ndarray]:
    """40 workers, five labels a task; honest ones are right three times in five and else mostly near."""
    rng = np.random.default_rng(seed)
    rows = regular_assignment(n_tasks=n_tasks, n_workers=40, labels_per_task=5, rng=rng)
    crowd = simulate_crowd(
        rows, rng.integers(n_classes, size=n_tasks), n_classes=n_classes, adversaries=others,
        reliability=(6.0, 4.0), decay=0.3, rng=rng,
    )  # fmt: skip
    names = np.array([f"w{code:02d}" for code in crowd.worker])
    labels = encode(names, crowd.task, crowd.label, classes=list(range(n_classes)))
    return labels, crowd.kind


def naive_penalty(labels: CrowdLabels) -> np.ndarray:
    """The definition, label by label."""
    total, n_conflict = np.zeros(labels.n_workers), np.zeros(labels.n_workers)
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        given = labels.label[labels.task == task].astype(int)
        other = given[given != label]
        if len(other):
            far = np.abs(other - int(label)).mean() / (labels.n_classes - 1)
            total[worker] += far / (given == label).sum()
            n_conflict[worker] += 1
    return total / np.maximum(n_conflict, 1)


def test_the_penalty_is_its_definition() -> None:
    labels, _ = graders(0, {"random": 5}, n_tasks=40)
    assert graded_penalty(labels) == pytest.approx(naive_penalty(labels))


def test_of_two_classes_it_is_the_soft_penalty_and_else_nowhere_above(
    rng: np.random.Generator,
) -> None:
    worker, task = np.divmod(np.arange(300), 30)
    two = encode(worker, task, rng.integers(2, size=300))
    assert graded_penalty(two) == pytest.approx(soft_penalty(two))
    five = encode(worker, task, rng.integers(5, size=300))
    assert np.all(graded_penalty(five) <= soft_penalty(five) + 1e-12)


def test_turning_the_order_round_changes_nothing(rng: np.random.Generator) -> None:
    worker, task = np.divmod(np.arange(300), 30)
    label = rng.integers(5, size=300)
    turned = encode(worker, task, 4 - label, classes=list(range(5)))
    there = encode(worker, task, label, classes=list(range(5)))
    assert graded_penalty(turned) == pytest.approx(graded_penalty(there))


def test_a_neighbour_counts_less_than_the_other_end() -> None:
    near, far = (
        graded_penalty(encode(["a", "b", "c"], [1, 1, 1], ["1", "1", other], classes=list("12345")))
        for other in ("2", "5")
    )
    assert near == pytest.approx(far / 4)


def test_there_is_room_for_the_penalties_of_as_many_grades_as_there_are() -> None:
    """Every grade that nobody gave is another distance from those that two others gave, both 0."""
    rng = np.random.default_rng(0)
    worker, task = np.arange(180), np.repeat(np.arange(60), 3)
    labels = encode(worker, task, rng.integers(2, size=180) * 10, classes=list(range(11)))
    _, others, _, _ = fit_graded(labels)
    penalties = [np.unique(one).size for one in others.terms.reshape(-1, 11, 3)[:, :, 2]]
    assert max(penalties) == 11 == others.most_penalties


@pytest.mark.parametrize("n_classes", [4, 11])
def test_p_values_are_those_of_all_answers_she_may_give(n_classes: int) -> None:
    """Oracle: every combination of answers of a worker of three labels, penalties made anew from a table."""
    rng = np.random.default_rng(3)
    worker, task = np.array([0, 0, 0, *rng.integers(1, 9, size=40)]), np.arange(43) % 8
    pairs = np.unique(np.column_stack([worker, task]), axis=0)
    label = rng.integers(n_classes, size=len(pairs))
    labels = encode(pairs[:, 0], pairs[:, 1], label, classes=list(range(n_classes)))
    population, others, _, _ = fit_graded(labels)
    observed, hers = graded_penalty(labels), np.flatnonzero(labels.worker == 0)
    found = honest_p_values(
        others, Asked.everybody(labels), RELIABILITY, observed, population.probability
    )
    terms, expected = others.terms.reshape(-1, n_classes, 3), 0.0
    for answers in product(range(n_classes), repeat=len(hers)):
        said = labels.label.copy()
        said[hers] = answers
        drawn = encode(labels.worker, labels.task, said, classes=list(range(n_classes)))
        if graded_penalty(drawn)[0] >= observed[0] - 1e-9:
            chance = np.ones_like(RELIABILITY)
            for row, answer in zip(hers, answers, strict=True):
                chance = chance * (terms[row, answer, 0] + terms[row, answer, 1] * RELIABILITY)
            expected += chance @ population.probability
    assert found[0] == pytest.approx(expected, abs=1e-9)


def test_the_chances_of_all_answers_add_up_to_one() -> None:
    labels, _ = graders(1, {}, n_tasks=60)
    terms = fit_graded(labels)[1].terms.reshape(-1, 5, 3)
    assert terms[:, :, 0].sum(axis=1) == pytest.approx(1.0)
    assert terms[:, :, 1].sum(axis=1) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("n_classes", [200, 1_000])
def test_guessers_on_a_long_scale_are_found_too(n_classes: int) -> None:
    """A wrong grade hundreds of classes off has a chance whose product over labels is still a number."""
    labels, kind = graders(0, {"random": 8}, n_tasks=300, n_classes=n_classes)
    _, _, reliability, _ = fit_graded(labels)
    assert reliability[kind == "random"].max() < 0.2 < 0.4 < reliability[kind == "honest"].min()
    found = filter_dishonest(labels, ordered=True, rng=np.random.default_rng(1))
    assert sorted(kind[found.removed]) == ["random"] * 8


def test_thousands_of_grades_are_refused_in_a_sentence() -> None:
    """A division by zero before: half to that power is none."""
    labels = encode(["a", "b"] * 2, [1, 1, 2, 2], [0, 1, 1, 1], classes=range(1_001))
    for judge in (
        graded_penalty,
        lambda labels: filter_dishonest(labels, ordered=True, rng=np.random.default_rng(1)),
    ):
        with pytest.raises(LabelError, match="ordered classes must be at most 1,000, got 1,001"):
            judge(labels)


def test_the_penalty_makes_no_table_of_labels_by_grades(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 labels of 500 grades: one such table takes 80 MB, and there were twelve."""
    rng = np.random.default_rng(0)
    labels = encode(
        np.arange(20_000) % 100, np.arange(20_000) // 5, rng.integers(500, size=20_000),
        classes=range(500),
    )  # fmt: skip
    tracemalloc.start()
    try:
        penalty = graded_penalty(labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    monkeypatch.setattr(graded_answers, "CELLS", 7 * 500)  # tasks of five labels are cut in two
    assert graded_penalty(labels) == pytest.approx(penalty, abs=1e-15)


@pytest.mark.long
def test_tables_of_labels_by_grades_are_four_and_cut_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """6,000 labels of 200 grades: four of 9.6 MB; there were twelve at the end."""
    rng = np.random.default_rng(0)
    labels = encode(
        np.arange(6_000) % 60, np.arange(6_000) // 5, rng.integers(200, size=6_000),
        classes=range(200),
    )  # fmt: skip
    monkeypatch.setattr(graded_answers, "N_STEPS", 2)  # a step more makes no table
    fit_graded(labels)  # compiled before it is measured
    tracemalloc.start()
    try:
        terms = fit_graded(labels)[1].terms
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * 9.6e6 + 30e6
    monkeypatch.setattr(graded_answers, "CELLS", 997 * 200)
    assert fit_graded(labels)[1].terms == pytest.approx(terms, abs=1e-12)


def test_labels_by_grades_beyond_memory_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels, _ = graders(0, {})
    monkeypatch.setattr(graded_answers, "MAX_CELLS", 1_250 * 5 - 1)
    with pytest.raises(LabelError, match=r"at most 6,249, got 1,250 labels and 5 classes"):
        fit_graded(labels)


def test_guessers_among_graders_are_found_by_distance() -> None:
    """Six of forty guess; 24 of 24 were found in four such crowds, 7 by penalties without an order."""
    labels, kind = graders(1, {"random": 6})
    guess = np.flatnonzero(kind == "random")
    by_distance, by_name = (
        filter_dishonest(labels, ordered=ordered, rng=np.random.default_rng(0)).removed
        for ordered in (True, False)
    )
    assert set(guess) <= set(by_distance.tolist())
    assert len(by_distance) <= 7
    assert len(set(guess) & set(by_name.tolist())) < 6

"""Guessers among workers who give sets: found by how far a word depends on what holds, none else removed."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats.contingency import odds_ratio

from quality import encode_multilabels, multilabel_consensus, simulate_multilabels
from quality.multilabel import filter_guessers
from quality.multilabel.guessers import word_odds

STYLES = {"conservative": 3, "liberal": 3, "blind": 3}


def crowd(seed: int, others: dict[str, int], **sizes: int):  # type: ignore[no-untyped-def]
    given = {"n_tasks": 150, "answers_per_task": 5, "n_classes": 8, "max_labels": 3} | sizes
    return simulate_multilabels(
        n_workers=24 + sum(others.values()), others=others, rng=np.random.default_rng(seed), **given
    )


@pytest.mark.parametrize("sizes", [{}, {"n_classes": 30, "max_labels": 5}])
def test_guessers_are_removed_and_nobody_honest(sizes: dict[str, int]) -> None:
    """Ten crowds of each size; at rate .1 four honest crowds or more would lose somebody in 1 of 80 tries."""
    lost = n_found = 0
    for seed in range(10):
        with_guessers, honest = (crowd(seed, one, **sizes) for one in ({"spammer": 5}, {}))
        found = filter_guessers(with_guessers.table)
        assert set(with_guessers.kind[found.removed].tolist()) == {"spammer"}
        n_found += len(found.removed)
        lost += len(filter_guessers(honest.table).removed) > 0
    assert n_found >= 48  # of 50
    assert lost < 4


def test_who_ticks_little_or_much_or_knows_half_the_classes_is_kept() -> None:
    removed = [
        kind
        for seed in range(10)
        for one in [crowd(seed, STYLES)]
        for kind in one.kind[filter_guessers(one.table).removed].tolist()
    ]
    assert len(removed) <= 2  # of 330 workers


def test_of_one_class_the_odds_ratio_is_the_tables() -> None:
    """Where what holds is certain it is the sample odds ratio of SciPy, but for half an answer a cell."""
    rng = np.random.default_rng(0)
    truth = rng.random(4000) < 0.5
    said = np.where(rng.random(4000) < 0.8, truth, ~truth)
    sets = [["cat"] if one else [] for one in said]
    table = encode_multilabels(["ann"] * 4000, range(4000), sets, classes=["cat"])
    found = multilabel_consensus(table)
    known = replace(
        found,
        start=np.arange(4001),
        label=np.zeros(4000, np.int16),
        probability=truth.astype(float),
        model=truth.astype(float),
        chosen=truth,
    )
    cells = np.array([[(said & truth).sum(), (~said & truth).sum()],
                      [(said & ~truth).sum(), (~said & ~truth).sum()]])  # fmt: skip
    value, error = word_odds(table, known)
    exact = odds_ratio(cells, kind="sample").statistic
    assert value[0] == pytest.approx(np.log(exact), abs=0.01)
    assert error[0] == pytest.approx(np.sqrt((1 / cells).sum()), rel=0.02)  # Woolf's


def test_a_worker_without_answers_has_the_value_0_and_a_large_error() -> None:
    table = crowd(0, {}).table
    keep = np.ones(table.n_workers, dtype=bool)
    keep[3] = False
    left = table.keep_workers(keep)
    odds = word_odds(left, multilabel_consensus(left))
    assert odds.value[3] == 0
    assert odds.error[3] > 2
    assert 3 not in filter_guessers(left).removed


def test_what_a_task_did_not_show_does_not_count() -> None:
    one = crowd(1, {})
    names = one.table.classes.tolist()
    sets = [one.table.set_of(answer).tolist() for answer in range(one.table.n_answers)]
    columns = one.table.workers[one.table.worker], one.table.tasks[one.table.task], sets
    shown = dict.fromkeys(range(150), names)
    narrow = encode_multilabels(*columns, classes=[*names, 99], shown=shown)
    wide = encode_multilabels(*columns, classes=names, shown=shown)
    ratios = [word_odds(table, multilabel_consensus(table)).value for table in (narrow, wide)]
    assert ratios[0] == pytest.approx(ratios[1], abs=1e-3)


def test_no_table_of_all_answers_by_classes_is_made() -> None:
    """It would take 32 MB, and the tables of tasks by classes 3.2 MB each."""
    rng = np.random.default_rng(0)
    crowd = simulate_multilabels(
        n_tasks=4_000, n_workers=50, answers_per_task=10, n_classes=100, rng=rng
    )
    found = multilabel_consensus(crowd.table, max_iter=1)
    tracemalloc.start()
    try:
        word_odds(crowd.table, found)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_no_task_falls_below_its_answers() -> None:
    one = crowd(2, {"spammer": 5})
    found = filter_guessers(one.table, min_answers_per_task=5)
    assert not len(found.removed)
    assert sorted(one.kind[found.refused].tolist()) == ["spammer"] * 5
    assert found.refused_reason[0] == "a task would be left with fewer than 5 answers"
    some = filter_guessers(one.table, min_answers_per_task=3)
    left = np.diff(one.table.keep_workers(some.keep).task_start)
    assert left.min() >= 3


def test_a_task_that_has_fewer_answers_already_keeps_them() -> None:
    """As of labels: of the five, those who answered one of the tasks of two are kept."""
    one = crowd(2, {"spammer": 5})
    rows = np.ones(one.table.n_answers, dtype=bool)
    rows[2 : one.table.task_start[1]] = False  # the first task keeps two answers of five
    answers = np.flatnonzero(rows)
    table = encode_multilabels(
        one.table.worker[answers], one.table.task[answers],
        [one.table.set_of(answer).tolist() for answer in answers.tolist()],
        classes=one.table.classes.tolist(),
    )  # fmt: skip
    guessers = set(filter_guessers(table).removed.tolist())
    found = filter_guessers(table, min_answers_per_task=3)
    asked = set(table.worker[:2].tolist())
    assert not asked & set(found.removed.tolist())
    assert asked & guessers
    assert asked & guessers <= set(found.refused.tolist())


def test_nobody_is_removed_from_a_crowd_of_two() -> None:
    """The second worker's answers are the contrary of the first's: of three workers she would go."""
    tasks = np.repeat(range(48), 2)
    sets = [["x"], ["y"], ["y"], ["x"], ["x", "y"], []] * 16
    assert filter_guessers(encode_multilabels(["ann", "bob"] * 48, tasks, sets)).keep.all()
    rng = np.random.default_rng(0)
    for right in rng.choice([0.1, 0.3, 0.5, 0.95], size=(40, 2)):
        truth = rng.random((2, 48, 3)) < 0.4
        given = np.where(rng.random(truth.shape) < right[:, None, None], truth[0], ~truth[0])
        some = [np.flatnonzero(row).tolist() for row in given.reshape(96, 3)]
        table = encode_multilabels(np.repeat(["ann", "bob"], 48), np.tile(range(48), 2), some)
        assert filter_guessers(table).keep.all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"false_removal_rate": 0.0}, r"false_removal_rate must be in \[0.001, 1\)"),
        ({"false_removal_rate": float("nan")}, "false_removal_rate"),
        ({"min_answers_per_task": 0}, "min_answers_per_task must be >= 1"),
    ],
)
def test_mistakes_are_named(given: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        filter_guessers(crowd(0, {}).table, **given)

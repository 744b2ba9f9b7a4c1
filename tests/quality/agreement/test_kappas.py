"""Fleiss' kappa, AC1 and pairs of workers beside the tables that R's irrCAC prints."""

import math
import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality import CrowdLabels, alpha_interval, encode, fleiss_kappa, gwet_ac1, pair_kappas
from tests.quality.agreement.test_alpha import KRIPPENDORFF, observed, some_crowd
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
# Fleiss (1971): six psychiatrists, fifteen patients, five diagnoses; irrCAC's distrib.6raters
FLEISS = np.array(
    [[0, 0, 0, 6, 0], [0, 3, 0, 0, 3], [0, 1, 4, 0, 1], [0, 0, 0, 0, 6], [0, 3, 0, 3, 0],
     [2, 0, 4, 0, 0], [0, 0, 4, 0, 2], [2, 0, 3, 1, 0], [2, 0, 0, 4, 0], [0, 0, 0, 0, 6],
     [1, 0, 0, 5, 0], [1, 1, 0, 4, 0], [0, 3, 3, 0, 0], [1, 0, 0, 5, 0], [0, 2, 0, 3, 1]]
)  # fmt: skip
# irrCAC's cont3x3abstractors: two abstractors, a hundred pregnancies
TABLE = np.array([[13, 0, 0], [0, 20, 7], [0, 4, 56]])


def of_counts(counts: np.ndarray) -> CrowdLabels:
    task, label = (
        np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape))
    )
    worker = np.concatenate([np.arange(n) for n in counts.sum(axis=1)])
    return encode(worker, task, label)


def of_table(table: np.ndarray) -> CrowdLabels:
    one, other = (
        np.repeat(index, table.ravel()) for index in map(np.ravel, np.indices(table.shape))
    )
    n = table.sum()
    return encode(
        np.tile([0, 1], n), np.repeat(np.arange(n), 2), np.column_stack([one, other]).ravel()
    )


def test_fleiss_and_gwet_on_fleiss_patients() -> None:
    """Golden: irrCAC's documentation prints 0.4139265 (0.08119291) and 0.4448007 (0.08418757)."""
    kappa, ac1 = fleiss_kappa(of_counts(FLEISS)), gwet_ac1(of_counts(FLEISS))
    assert (kappa.value, kappa.standard_error) == pytest.approx((0.4139265, 0.08119291), abs=5e-8)
    assert (ac1.value, ac1.standard_error) == pytest.approx((0.4448007, 0.08418757), abs=5e-8)
    assert (kappa.chance, ac1.chance) == pytest.approx((0.2340741, 0.1914815), abs=5e-8)
    assert (round(ac1.lower, 3), round(ac1.upper, 3)) == (0.264, 0.625)


def test_fleiss_and_gwet_with_missing_labels() -> None:
    """Golden: irrCAC prints 0.76117 (0.15302, 0.424 to 1) and 0.77544 (0.14295, 0.461 to 1)."""
    kappa, ac1 = fleiss_kappa(observed(KRIPPENDORFF)), gwet_ac1(observed(KRIPPENDORFF))
    assert (kappa.value, kappa.standard_error) == pytest.approx((0.76117, 0.15302), abs=5e-6)
    assert (ac1.value, ac1.standard_error) == pytest.approx((0.77544, 0.14295), abs=5e-6)
    assert (round(kappa.lower, 3), kappa.upper) == (0.424, 1)
    assert (round(ac1.lower, 3), ac1.upper) == (0.461, 1)


def test_cohens_kappa_and_ac1_of_two_abstractors() -> None:
    """Golden: irrCAC's documentation prints 0.7964094 for kappa and 0.8493305 for AC1."""
    found = pair_kappas(of_table(TABLE))
    assert found.kappa == pytest.approx([0.7964094], abs=5e-8)
    assert found.ac1 == pytest.approx([0.8493305], abs=5e-8)
    assert (found.n_common[0], found.n_agreed[0]) == (100, 89)


def test_pairs_are_counted_on_the_tasks_that_both_labelled() -> None:
    """Oracle: each pair's labels written out and compared by Cohen's definition, and by Gwet's."""
    rng = np.random.default_rng(2)
    there = rng.random(300) < 0.6
    worker, task = np.tile(np.arange(5), 60)[there], np.repeat(np.arange(60), 5)[there]
    labels = encode(worker, task, rng.integers(3, size=there.sum()))
    found = pair_kappas(labels)
    kappas = []
    columns = found.pair, found.n_common, found.kappa, found.ac1
    for (one, other), n_common, kappa, ac1 in zip(*columns, strict=True):
        of = [dict(zip(labels.task[labels.worker == w], labels.label[labels.worker == w], strict=True))
              for w in (one, other)]  # fmt: skip
        both = sorted(of[0].keys() & of[1].keys())
        first, second = (np.array([mine[t] for t in both]) for mine in of)
        chance = sum((first == c).mean() * (second == c).mean() for c in range(3))
        share = np.array([((first == c).mean() + (second == c).mean()) / 2 for c in range(3)])
        by_chance, agreed = (share * (1 - share)).sum() / 2, (first == second).mean()
        assert ac1 == pytest.approx((agreed - by_chance) / (1 - by_chance))
        assert n_common == len(both)
        assert kappa == pytest.approx(((first == second).mean() - chance) / (1 - chance))
        kappas.append(kappa)
    assert len(found.pair) == 10
    assert found.light == pytest.approx(np.mean(kappas))


@QUICK
@given(crowds(), st.randoms(use_true_random=False))
def test_the_values_do_not_depend_on_the_order_of_tasks_workers_and_classes(labels, random) -> None:
    task, worker, classes = (
        np.array(random.sample(range(n), n))
        for n in (labels.n_tasks, labels.n_workers, labels.n_classes)
    )
    moved = encode(
        worker[labels.worker], task[labels.task], classes[labels.label],
        classes=list(range(labels.n_classes)),
    )  # fmt: skip
    for measure in (fleiss_kappa, gwet_ac1):
        one, other = measure(labels), measure(moved)
        assert (one.value, one.standard_error) == pytest.approx(
            (other.value, other.standard_error), abs=1e-9, nan_ok=True
        )
    one, other = pair_kappas(labels), pair_kappas(moved)
    assert one.light == pytest.approx(other.light, abs=1e-9, nan_ok=True)
    assert np.sort(one.ac1) == pytest.approx(np.sort(other.ac1), abs=1e-9, nan_ok=True)


def test_memory_does_not_grow_with_the_classes() -> None:
    """19,900 pairs of two hundred workers, and thirty thousand classes: a table of both takes 5 GB."""
    rng = np.random.default_rng(3)
    worker, task = np.divmod(np.arange(600), 3)
    few = encode(worker, task, rng.integers(4, size=600), classes=range(4))
    one = pair_kappas(few)
    many = CrowdLabels.from_codes(
        few.worker, few.task, few.label, workers=few.workers, tasks=few.tasks,
        classes=np.arange(30_000),
    )  # fmt: skip
    tracemalloc.start()
    try:
        other = pair_kappas(many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(other.pair) == 19_900
    assert other.kappa.tobytes() == one.kappa.tobytes()
    assert peak < 100e6


@pytest.mark.parametrize("n", [2, 3, 7, 49])
def test_kappa_is_undefined_where_only_one_class_was_given(n: int) -> None:
    """The class's share is n times 1 / n, which rounding leaves below 1."""
    labels = encode(list(range(n)) * 2, [1] * n + [2] * n, ["x"] * (2 * n), classes=["x", "y"])
    assert math.isnan(fleiss_kappa(labels).value)
    assert gwet_ac1(labels).value == 1


def test_one_class_or_single_labels_are_undefined() -> None:
    one_class = encode([1, 2], [1, 1], ["x", "x"])
    single = encode([1, 2], [1, 2], ["x", "y"])
    for labels in (one_class, single):
        assert math.isnan(fleiss_kappa(labels).value)
        assert math.isnan(pair_kappas(labels).light)
    assert len(pair_kappas(single).pair) == 0


@pytest.mark.parametrize("n_tasks", [2, 3, 50])
def test_where_everybody_agrees_nothing_is_known_of_the_error(n_tasks: int) -> None:
    """A width of 0 would say that two tasks show it all; so it is with alpha."""
    task = np.repeat(np.arange(n_tasks), 3)
    labels = encode(np.tile([1, 2, 3], n_tasks), task, task % 2)
    for found in (fleiss_kappa(labels), gwet_ac1(labels)):
        assert found.value == pytest.approx(1.0)
        assert np.isnan([found.standard_error, found.lower, found.upper]).all()
    assert math.isnan(alpha_interval(labels).lower)


def test_pairs_with_few_common_tasks_are_left_out() -> None:
    labels = encode([1, 2, 1, 2, 3], [1, 1, 2, 2, 2], list("xyxxy"))
    assert pair_kappas(labels, min_common=2).pair.tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="min_common must be >= 1"):
        pair_kappas(labels, min_common=0)


def test_more_pairs_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module(pair_kappas.__module__), "MAX_MEETINGS", 100)
    with pytest.raises(ValueError, match="at most 100 pairs of labels of one task"):
        pair_kappas(some_crowd(2))
